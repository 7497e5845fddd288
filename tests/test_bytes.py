"""Counts are added up in bytes where that can not go wrong, and in floating point elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import frame_eval as fe

RNG = np.random.default_rng(7)
FRAME = pl.DataFrame(
    {
        "slice": RNG.integers(0, 3, 4_000),
        "cluster": RNG.integers(0, 90, 4_000),
        "weight": RNG.random(4_000),
        "a": RNG.random(4_000) < 0.6,
        "b": RNG.random(4_000) < 0.3,
    }
)
WIDE = FRAME.with_columns(pl.col("a", "b").cast(pl.Float64))


def metric_of(value: Callable[[Any], Any]) -> fe.Metric:
    inputs = {"a": fe.rate("a").inputs["x"], "b": fe.rate("b").inputs["x"]}
    return fe.Metric("own", inputs, lambda c: {"x": value(c)}, lambda s: s.x / s.n)


SMALL = {
    "product": lambda c: c.a * c.b,
    "complement": lambda c: (1 - c.a) * c.b - c.b,
    "some dozens": lambda c: 60 * c.a - 3 * c.b,
    "comparison": lambda c: c.a == c.b,
}
LARGE = {
    "more than a byte": lambda c: 200 * c.a,
    "wraps in the end": lambda c: 100 * c.a + 100 * c.b,
    "wraps on the way": lambda c: (100 * c.a + 100 * c.b) - 150 * c.a,
    "far apart": lambda c: 100 * (c.a - c.b),
    "a fraction": lambda c: c.a / 2,
    "a float": lambda c: 1.0 - c.a,
}


@pytest.mark.parametrize("options", [{}, {"cluster": "cluster"}, {"weight": "weight"}], ids=str)
@pytest.mark.parametrize("value", [*SMALL.values(), *LARGE.values()], ids=[*SMALL, *LARGE])
def test_own_metrics_are_the_same_of_truth_values_and_floats(value, options) -> None:
    metric = metric_of(value)
    found = FRAME.eval.summary(metric, by="slice", **options)
    wide = WIDE.eval.summary(metric, by="slice", **options)
    for column in ("estimate", "std_error", "ci_low", "ci_high"):
        np.testing.assert_allclose(found[column], wide[column], rtol=1e-12)
    rows = WIDE.filter(slice=0)
    y = np.asarray(
        value(fe.metrics.core.Sums({"a": rows["a"].to_numpy(), "b": rows["b"].to_numpy()}))
    )
    weight = rows["weight"] if "weight" in options else np.ones(rows.height)
    assert found["estimate"][0] == pytest.approx(np.average(y, weights=weight), rel=1e-12)


@pytest.mark.parametrize("value", SMALL.values(), ids=SMALL)
def test_small_sums_are_added_up_in_bytes(value) -> None:
    small = metric_of(value).in_bytes
    assert all(given.small for given in small.made.values())


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_others_are_not(value) -> None:
    metric = metric_of(value)
    assert metric.in_bytes is metric


def test_what_floats_can_not_do_is_not_done_in_bytes() -> None:
    metric = metric_of(lambda c: ~c.a)
    assert metric.in_bytes is metric


def test_many_rows_do_not_wrap() -> None:
    rows = pl.DataFrame({"ok": [True] * 70_000 + [False] * 30_000})
    assert rows.eval.summary(fe.rate("ok"))["estimate"].item() == 0.7
    assert rows.eval.summary(fe.f1("ok", "ok"))["estimate"].item() == 1.0
