"""One's own sums may be said with arithmetic, methods or functions of narwhals, on every engine."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

import frame_eval as fe

VALUES = [-2.0, -1.0, 0.5, 3.0, 4.5]
FRAME = pl.DataFrame({"x": VALUES})
SUMS = {
    "arithmetic": (lambda x: 3 * x - x * x, lambda x: 3 * x - x * x),
    "a method": (lambda x: x.clip(0.0, 3.5), lambda x: min(max(x, 0.0), 3.5)),
    "a function": (lambda x: nw.when(x > 0).then(x).otherwise(1.0), lambda x: x if x > 0 else 1.0),
    "a function on the left": (lambda x: nw.lit(2.0) * x, lambda x: 2 * x),
}


def metric_of(name: str, value) -> fe.Metric:
    return fe.Metric(name, {"x": "x"}, lambda c: {"s": value(c.x)}, lambda s: s.s / s.n)


@pytest.mark.parametrize("form", SUMS)
def test_sums_are_those_of_rows_however_they_are_said(engine, form) -> None:
    said, meant = SUMS[form]
    found = fe.of(engine(FRAME)).summary(metric_of("own", said))["estimate"]
    assert list(found) == pytest.approx([sum(map(meant, VALUES)) / len(VALUES)])


def test_sums_that_differ_in_their_last_digits_are_two() -> None:
    one, two = 0.12345678901234, 0.12345678901235
    metrics = [metric_of(f"times {k}", lambda x, k=k: k * x * 1e14) for k in (one, two)]
    first, second = FRAME.eval.summary(*metrics)["estimate"]
    assert second - first == pytest.approx((two - one) * 1e14, rel=0.01)
