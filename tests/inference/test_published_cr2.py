"""CR2 and its degrees of freedom against an implementation that agrees with clubSandwich.

diff-diff's Bell-McCaffrey errors reproduce R's clubSandwich to 1e-10. Its degrees of freedom have
independent rows for a working model; ours have the estimated correlation, which is 0 where rows of
a cluster are no more alike than others.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import polars as pl
import pytest

import frame_eval as fe

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from diff_diff.linalg import LinearRegression

SIZES = {
    "unequal": [30, 20, 9, 5, 4, 3, 2, 1],
    "repositories": [231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1],
    "equal": [6] * 10,
}


def published(values: np.ndarray, doc: np.ndarray) -> tuple[float, float]:
    design = np.ones((len(values), 1))
    model = LinearRegression(include_intercept=False, vcov_type="hc2_bm", cluster_ids=doc)
    found = model.fit(design, values).get_inference(0)
    return found.se, found.df


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_errors_are_those_of_clubsandwich(sizes, seed) -> None:
    rng = np.random.default_rng(seed)
    doc = np.repeat(np.arange(len(SIZES[sizes])), SIZES[sizes])
    values = rng.normal(size=len(doc)) + rng.normal(size=doc.max() + 1)[doc]
    result = pl.DataFrame({"x": values, "doc": doc}).eval.summary(fe.mean("x"), cluster="doc")
    assert result["std_error"].item() == pytest.approx(published(values, doc)[0], rel=1e-10)


@pytest.mark.parametrize("sizes", SIZES)
def test_degrees_of_freedom_are_those_of_clubsandwich(sizes) -> None:
    rng = np.random.default_rng(4)
    doc = np.repeat(np.arange(len(SIZES[sizes])), SIZES[sizes])
    # Rows of a cluster that differ more than clusters do: the correlation is estimated as 0.
    values = rng.normal(size=len(doc))
    means = np.bincount(doc, values) / np.bincount(doc)
    single = np.bincount(doc)[doc] == 1
    values = np.where(single, 0.01 * values, values - 0.9 * means[doc])
    result = pl.DataFrame({"x": values, "doc": doc}).eval.summary(fe.mean("x"), cluster="doc")
    df = float(re.search(r"df=([\d.e+]+)", result["method"].item())[1])
    assert df == pytest.approx(published(values, doc)[1], rel=5e-3)
