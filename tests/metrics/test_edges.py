"""Every metric on rows at the edge: finite numbers, or null with a reason, and no warning."""

import math

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from oracles.cases import TABLES
from oracles.catalogue import CATALOGUE

import frame_eval as fe

FRAME = TABLES["random"][1]
EDGES = {
    "huge": FRAME.with_columns(pl.col("s") * 1e300, pl.col("x", "z") * 1e100),
    "tiny": FRAME.with_columns(pl.col("s") * 1e-310, pl.col("x", "z") * 1e-100),
    "tied": FRAME.with_columns(pl.lit(1.0).alias(c) for c in "sxz").with_columns(q=pl.lit(0.5)),
    "signed zeros": FRAME.with_columns(s=pl.when(pl.col("s") > 0).then(0.0).otherwise(-0.0)),
    "infinite scores": FRAME.with_columns(
        pl.when(pl.col("e") % 5 == 0).then(math.inf).when(pl.col("e") % 5 == 1).then(-math.inf)
        .otherwise("s").alias("s")
    ),
    "certain and right": FRAME.with_columns(p="y", s=pl.col("y") * 1.0, q=pl.col("y") * 1.0),
    "certain and wrong": FRAME.with_columns(p=1 - pl.col("y"), q=1.0 - pl.col("y")),
    "one row": FRAME[:1],
    "two rows": FRAME[:2],
}  # fmt: skip
SINGLE = FRAME.with_columns(pl.col("s", "x", "z", "q").cast(pl.Float32))
each_metric = pytest.mark.parametrize("name", CATALOGUE)


@each_metric
@pytest.mark.parametrize("edge", EDGES)
def test_a_number_or_a_reason(name, edge):
    metric = CATALOGUE[name].make("01")
    for roles in ({}, {"weight": "w"}, {"cluster": "c"}, {"by": "g"}):
        for row in EDGES[edge].eval.summary(metric, **roles).iter_rows(named=True):
            estimate, low, high = row["estimate"], row["ci_low"], row["ci_high"]
            assert estimate is None or math.isfinite(estimate)
            assert row["std_error"] is None or 0 <= row["std_error"] < math.inf
            assert row["note"] or None not in (estimate, low, high)
            if None not in (estimate, low, high):
                assert low <= estimate + 1e-9 * abs(estimate)
                assert high >= estimate - 1e-9 * abs(estimate)


@each_metric
def test_single_precision_is_that_of_its_values(name):
    """Numbers are made doubles before any arithmetic."""
    metric, roles = CATALOGUE[name].make("01"), {"by": "g", "interval": None}
    double = SINGLE.with_columns(pl.col(pl.Float32).cast(pl.Float64))
    found, expected = (f.eval.summary(metric, **roles)["estimate"] for f in (SINGLE, double))
    assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-13)


@each_metric
@pytest.mark.parametrize("roles", [{}, {"weight": "w"}, {"cluster": "c"}])
def test_a_slice_that_no_row_is_in(name, roles):
    metric = CATALOGUE[name].make("01")
    found = FRAME.eval.summary(metric, by=fe.where(none=fe.col("x") < 0), **roles)
    row = found.row(0, named=True)
    assert (row["estimate"], row["std_error"], row["ci_low"], row["n"]) == (None, None, None, 0)
    assert row["note"] == "no rows"


def test_curves_without_a_row():
    none = fe.where(none=fe.col("x") < 0)
    for ask in (
        lambda: FRAME.eval.curve("roc", "y", "s", by=none),
        lambda: FRAME.eval.routing("y", "s", by=none),
        lambda: FRAME.eval.best_threshold("y", "s", c_fp=1, c_fn=1, by=none),
    ):
        with pytest.raises(fe.EvalError, match="no row of any slice has a label and a score"):
            ask()


@pytest.mark.parametrize("roles", [{}, {"cluster": "c"}], ids=str)
def test_questions_about_no_row(roles):
    none = fe.where(none=fe.col("x") < 0)
    for ask in (
        lambda: FRAME.eval.worst(fe.rate("ok"), by=none, **roles),
        lambda: FRAME.eval.bootstrap(fe.rate("ok"), by=none, **roles),
    ):
        with pytest.raises(fe.EvalError, match="no slice has rows"):
            ask()
    for normalize in ("truth", "pred", "all"):
        found = FRAME.eval.confusion("y", "p", by=none, normalize=normalize, **roles)
        assert found["n"].sum() == 0
        assert found["share"].null_count() == found.height > 0


def test_a_capacity_counted_by_numpy():
    found = fe.precision_at_k("y", "s", np.int64(3))
    assert found.name == "precision@3"
