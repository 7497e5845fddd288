"""Every metric of the catalogue in comparisons: one way of reckoning against another."""

import sys

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from oracles.cases import TABLES
from oracles.catalogue import CATALOGUE
from polars.testing import assert_frame_equal

each_metric = pytest.mark.parametrize("name", CATALOGUE)
SAMPLED = ("p", "s", "x", "z", "ok", "q")  # what a system answers; the rest belongs to the example
ROLES = {"system": "m", "example": "e", "baseline": "a"}
CLUSTERED = {**ROLES, "cluster": "c"}


def answers(table):
    """Two systems on the examples of a table: its columns, and the same in another order."""
    kind, frame = TABLES[table]
    order = np.random.default_rng(5).permutation(frame.height)
    other = frame.with_columns(frame[name].gather(order) for name in SAMPLED)
    both = [frame.with_columns(m=pl.lit("a")), other.with_columns(m=pl.lit("b"))]
    return kind, pl.concat(both).sample(fraction=1, shuffle=True, seed=1)


def metrics_of(name, table="weighted"):
    kind, frame = answers(table)
    return CATALOGUE[name].make(kind), frame


@each_metric
@pytest.mark.parametrize("table", ["weighted", "words"])
def test_a_difference_is_that_of_the_summaries(name, table):
    metric, frame = metrics_of(name, table)
    found = frame.eval.summary(metric, by="g", system="m").partition_by("m", as_dict=True)
    gap = found["b",]["estimate"] - found["a",]["estimate"]
    for roles in (ROLES, CLUSTERED):
        row = frame.eval.compare(metric, by="g", **roles)
        assert_allclose(
            row["difference"].fill_null(np.nan), gap.fill_null(np.nan), rtol=1e-9, atol=1e-12
        )


@each_metric
def test_matched_examples_are_those_of_sorted_tables(name, monkeypatch):
    metric, frame = metrics_of(name)
    found = [frame.eval.compare(metric, by=by, **CLUSTERED) for by in (None, "g")]
    monkeypatch.setattr(sys.modules["frame_eval.reduce"], "can_match", lambda *_: False)
    for by, first in zip((None, "g"), found, strict=True):
        second = frame.eval.compare(metric, by=by, **CLUSTERED)
        assert_frame_equal(first, second, rel_tol=1e-8, abs_tol=1e-11)


@each_metric
@pytest.mark.parametrize("roles", [ROLES, CLUSTERED], ids=["examples", "clusters"])
def test_wins_are_those_of_single_examples(name, roles):
    """An example's value is what the metric is of its row alone."""
    metric, frame = metrics_of(name)
    row = frame.eval.compare(metric, **roles).row(0, named=True)
    if row["wins"] is None:
        return
    value = frame.eval.summary(metric, by="e", system="m").pivot("m", index="e", values="estimate")
    better = value["b"] > value["a"] if metric.better != "lower" else value["b"] < value["a"]
    worse = value["b"] < value["a"] if metric.better != "lower" else value["b"] > value["a"]
    assert (row["wins"], row["losses"]) == (better.sum(), worse.sum())
    assert row["ties"] == (value["b"] == value["a"]).sum()


@each_metric
def test_exchanged_systems_have_the_opposite_difference(name):
    metric, frame = metrics_of(name)
    for roles in (ROLES, CLUSTERED):
        one = frame.eval.compare(metric, **roles).row(0, named=True)
        other = frame.eval.compare(metric, **{**roles, "baseline": "b"}).row(0, named=True)
        for key, opposite, sign in (
            ("difference", "difference", -1),
            ("ci_low", "ci_high", -1),
            ("std_error", "std_error", 1),
            ("p_value", "p_value", 1),
            ("wins", "losses", 1),
        ):
            if one[key] is None:
                assert other[opposite] is None
            else:
                assert_allclose(one[key], sign * other[opposite], rtol=1e-8, atol=1e-11)


@each_metric
def test_a_system_does_not_differ_from_itself(name):
    metric, frame = metrics_of(name)
    one = frame.filter(pl.col("m") == "a")
    frame = pl.concat([one, one.with_columns(m=pl.lit("b"))])
    for roles in (ROLES, CLUSTERED):
        row = frame.eval.compare(metric, **roles).row(0, named=True)
        assert row["difference"] in (0.0, None)
        assert row["p_value"] in (1.0, None)
        assert not row["wins"]
        assert not row["losses"]
