"""The published numbers of resampling that a call can say."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from shared_data import here, seeds

import frame_eval as fe
from frame_eval.inference.resample import Draws

SEEDS = seeds({"bootstrap"})


def discordant(i):
    """The ideal interval and p of 40 losses and 55 wins among 500 pairs, nearly without noise."""
    n, losses, wins = i["n"], i["a_only"], i["b_only"]
    k = np.arange(n)
    a = np.where(k < losses, 1, 0)
    b = np.where((k >= losses) & (k < losses + wins), 1, 0)
    frame = pl.DataFrame({"m": ["a"] * n + ["b"] * n, "id": [*k, *k], "ok": np.concatenate([a, b])})
    row = fe.compare(
        frame, fe.rate("ok"), system="m", example="id", baseline="a",
        method="bootstrap", resamples=200_000,
    ).row(0, named=True)  # fmt: skip
    return [row["ci_low"], row["ci_high"], row["p_value"]]


def width(i):
    frame = pl.DataFrame({"ok": np.arange(200) < 130})
    row = frame.eval.summary(fe.rate("ok"), interval="wald", level=i["conf"]).row(0, named=True)
    return (row["ci_high"] - row["ci_low"]) / row["std_error"]


# What computes each vector from its input; None where it can not be done, with the reason beside.
VECTORS = {
    "paired-bootstrap-40-55": discordant,
    "ci-width-392": width,
    "bootstrap-left-out-200": None,  # an expectation over draws: tested below
    "xorshift-paired-bootstrap": None,  # the vector does not say how scores follow from labels
}


@here
def test_every_vector_is_known():
    assert set(SEEDS) == set(VECTORS)


@here
@pytest.mark.parametrize("name", [name for name, function in VECTORS.items() if function])
def test_vector(name):
    vector = SEEDS[name]
    found = VECTORS[name](vector["input"])
    assert_allclose(found, vector["expected"], rtol=0, atol=vector["tolerance"])


@here
def test_how_many_units_a_resample_leaves_out():
    vector = SEEDS["bootstrap-left-out-200"]
    n, draws = vector["input"]["n"], 20_000
    weights = np.concatenate(Draws(draws, 0).each(np.copy, np.ones(n, np.int64)))
    left_out = (weights == 0).sum(1)
    error = left_out.std() / np.sqrt(draws)
    assert abs(left_out.mean() - vector["expected"]) < 4 * error
    assert error < 0.05
