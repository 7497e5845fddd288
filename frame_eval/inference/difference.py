"""What a comparison of two systems finds, and the rows that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from frame_eval.inference.intervals import Texts
from frame_eval.inference.linear import Linear, coefficients, combined, places, unit_starts
from frame_eval.inference.margins import Limits
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import is_mean
from frame_eval.table import Floats, Ints


@dataclass(frozen=True)
class Difference:
    """The difference of two systems by slice, with its error, test and counts.

    ``limits`` gives the interval of the same test at other levels, where it has one.
    """

    value: Floats
    std_error: Floats
    low: Floats
    high: Floats
    p_value: Floats
    wins: Floats
    losses: Floats
    ties: Floats
    n: Floats
    clusters: Floats
    method: Texts
    note: Texts
    df: Floats
    limits: Limits | None


# The two systems that are compared, each in the same slices.
Sides: TypeAlias = tuple[Linear, Linear]


@dataclass(frozen=True)
class Pairs:
    """Both systems example by example: rows that belong to the same (slice, example)."""

    a: Linear
    b: Linear
    slice: Ints
    cluster: Ints


def has_values(metric: Metric) -> bool:
    """Whether single examples have a value of their own, of which the metric is the mean."""
    share = metric.proportion is not None and metric.proportion.map is None
    return share or is_mean(metric)


def example_values(metric: Metric, side: Linear) -> Floats:
    """The value of every example; NaN where it has none, such as a recall without a positive."""
    table, totals = side.table, side.totals
    if is_mean(metric):
        over, under = (table.sums[:, table.names.index(name)] for name in ("x", "n"))
    else:
        assert metric.proportion is not None
        place = places(table, table.slice)
        of = (metric.proportion.hits, metric.proportion.trials)
        over, under = (combined(coefficients(f, totals), place, table.sums) for f in of)
    if len(side.unit) < len(over):
        starts = unit_starts(table, table.slice)
        over, under = np.add.reduceat(over, starts), np.add.reduceat(under, starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(over / under, float)
