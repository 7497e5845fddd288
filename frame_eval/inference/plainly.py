"""Metrics over cells as metrics of plain sums: what a row adds to each follows from its cell.

A metric is linearised at its totals, and its influence of a row is then a number of the cell of the
row. A share of rows stays one: whether a row is a hit and a trial is said by its cell too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from frame_eval.inference.linear import Linear, by_sample, linear, slopes_of_rows
from frame_eval.inference.paired import per_share
from frame_eval.metrics.core import Metric, Proportion, Sums
from frame_eval.table import Floats, Table


@dataclass(frozen=True)
class Plain:
    """A metric over cells of two systems, and ``metric``, the same of plain sums of columns.

    ``tables`` have the totals of each system by slice and cell, and ``sides`` the estimates from
    them. ``slopes`` say by column and system, for every row of the table and for all sums, what a
    row of the frame adds to the column per one that it adds to the sum. ``label`` is the class that
    the metric is of, if it is of one.
    """

    original: Metric
    label: Any
    metric: Metric
    tables: tuple[Table, Table]
    sides: tuple[Linear, Linear]
    slopes: Mapping[str, tuple[Floats, Floats]]


def plainly(
    metric: Metric, label: Any, tables: tuple[Table, Table], slices: int, prefix: str
) -> Plain:
    """A metric over cells made one of plain sums, of columns whose names have a prefix."""
    # Rows of a cell are alike: each is then known, as it is among examples.
    a, b = (linear(metric, replace(table, singles=True), slices, 1) for table in tables)
    of_a, of_b = (_slopes(metric, side) for side in (a, b))
    columns = {name: f"{prefix}{name}" for name in of_a}
    plain = Metric(
        metric.name,
        columns,
        _as_they_are,
        better=metric.better,
        bounds=metric.bounds,
        smooth=metric.linear,
        **(_share(metric) if metric.proportion is not None else _influences(metric, a)),
    )
    slopes = {column: (of_a[name], of_b[name]) for name, column in columns.items()}
    return Plain(metric, label, plain, tables, (a, b), slopes)


def _slopes(metric: Metric, side: Linear) -> dict[str, Floats]:
    """What rows add to each column, by the row of the table and the sum."""
    of_sums = slopes_of_rows(metric, side.table, len(side.estimate))
    if metric.proportion is not None:
        return of_sums
    slope = of_sums["influence"]
    if metric.quantile is not None:
        slope = slope * per_share(metric.quantile, side)[side.table.slice, None]
    found = {}
    for number, (of, members) in enumerate(by_sample(metric, side.table.names)):
        found[f"influence{number}"] = slope * members
        if of:
            found[f"rows{number}"] = np.broadcast_to(np.eye(len(members))[of], slope.shape)
    return found


def _as_they_are(columns: Sums) -> Mapping[str, Any]:
    return {name: value for name, value in vars(columns).items() if name != "classes"}


def _share(metric: Metric) -> dict[str, Any]:
    """What makes a metric of hits and trials the share that it is over cells."""
    assert metric.proportion is not None
    of = attrgetter("hits"), attrgetter("trials")
    proportion = Proportion(*of, metric.proportion.map, metric.proportion.slope)
    return {"finish": _share_of, "proportion": proportion}


def _share_of(s: Any) -> Any:
    return s.hits / s.trials


def _influences(metric: Metric, side: Linear) -> dict[str, Any]:
    """What makes a metric the sum of the influences of rows, a sample after the other."""
    samples = {
        f"rows{number}" if of else "n": (f"influence{number}",)
        for number, (of, _) in enumerate(by_sample(metric, side.table.names))
    }
    return {"finish": _no_value, "gradient": _ones, "samples": samples, "counts": metric.counts}


def _no_value(s: Any) -> Any:
    return np.zeros_like(s.n)


def _ones(s: Any) -> dict[str, Any]:
    return {name: np.ones_like(s.n) for name in vars(s) if name.startswith("influence")}
