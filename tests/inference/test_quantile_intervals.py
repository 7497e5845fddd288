"""Order statistics on the effective number of rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import frame_eval as fe

SEEN = ["estimate", "ci_low", "ci_high", "method", "note"]


def _frame(seed: int, rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "x": rng.random(rows).round(1 + seed % 2),
            "doc": rng.integers(0, 8, rows),
            "w": rng.integers(1, 4, rows).astype(float),
            "one": np.ones(rows),
        }
    )


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_weights_of_one_change_nothing(seed: int, q: float) -> None:
    metric, frame = fe.quantile("x", q), _frame(seed, 30)
    for roles in ({}, {"cluster": "doc"}):
        plain = frame.eval.summary(metric, **roles)
        weighted = frame.eval.summary(metric, weight="one", **roles)
        assert plain.select(SEEN).rows() == weighted.select(SEEN).rows()


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("seed", range(4))
def test_weights_have_no_scale(seed: int, q: float) -> None:
    metric, frame = fe.quantile("x", q), _frame(seed, 24)
    found = frame.eval.summary(metric, weight="w", cluster="doc")
    scaled = frame.eval.summary(metric, weight=fe.col("w") * 7.3, cluster="doc")
    opened = frame.eval.summary(metric, weight="w", cluster="doc", details=True)
    assert found.select(SEEN).rows() == scaled.select(SEEN).rows()
    assert found.select(SEEN).rows() == opened.select(SEEN).rows()


def test_a_cluster_is_one_row_where_the_quantile_is_the_largest_value() -> None:
    # Five rows of each document, all alike: no row is above the quantile, which hides that.
    frame = pl.DataFrame({"x": np.repeat(np.arange(8.0), 5), "doc": np.repeat(np.arange(8), 5)})
    alone = frame.unique("doc").eval.summary(fe.quantile("x", 0.9))
    found = frame.eval.summary(fe.quantile("x", 0.9), cluster="doc")
    assert found["estimate"].item() == 7.0
    assert "n_eff=8" in found["method"].item()
    assert found.select("ci_low", "ci_high").row(0) == alone.select("ci_low", "ci_high").row(0)
