"""Metrics over cells as metrics of plain sums: what a row adds to each follows from its cell.

A metric is linearised at its totals, and its influence of a row is then a number of the cell of the
row. A share of rows stays one: whether a row is a hit and a trial is said by its cell too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """A metric over cells of some systems, and ``metric``, the same of plain sums of columns.

    ``tables`` have the totals of each system by slice and cell, and ``sides`` the estimates from
    them. ``slopes`` say by column and system, for every row of the table and for all sums, what a
    row of the frame adds to the column per one that it adds to the sum. ``label`` is the class that
    the metric is of, if it is of one.
    """

    original: Metric
    label: Any
    metric: Metric
    tables: Sequence[Table]
    sides: Sequence[Linear]
    slopes: Mapping[str, Sequence[Floats]]

    def of_units(self, table: Table, whole: Table, slices: int, systems: int) -> Linear:
        """The metric linearised in units, from their plain sums and the totals over cells."""
        found = linear(self.metric, table, slices, systems)
        of_cells = linear(self.original, whole, slices, systems, errors=False)
        return replace(found, estimate=of_cells.estimate, totals=of_cells.totals)


def plainly(
    metric: Metric,
    label: Any,
    tables: Sequence[Table],
    slices: int,
    prefix: str,
    *,
    in_units: bool = False,
) -> Plain:
    """A metric over cells made one of plain sums, of columns whose names have a prefix.

    The influences are on the metric itself ``in_units`` of it, else on the share below a quantile.
    """
    # Rows of a cell are alike: each is then known, as it is among examples.
    sides = [linear(metric, replace(table, singles=True), slices, 1) for table in tables]
    of_sides = [_slopes(metric, side, in_units=in_units) for side in sides]
    columns = {name: f"{prefix}{name}" for name in of_sides[0]}
    plain = Metric(
        metric.name,
        columns,
        _as_they_are,
        better=metric.better,
        bounds=metric.bounds,
        smooth=metric.linear,
        **(_share(metric) if metric.proportion is not None else _influences(metric, sides[0])),
    )
    slopes = {column: [of[name] for of in of_sides] for name, column in columns.items()}
    return Plain(metric, label, plain, tables, sides, slopes)


def _slopes(metric: Metric, side: Linear, *, in_units: bool) -> dict[str, Floats]:
    """What rows add to each column, by the row of the table and the sum."""
    of_sums = slopes_of_rows(metric, side.table, len(side.estimate))
    if metric.proportion is not None:
        return of_sums
    slope = of_sums["influence"]
    if in_units and metric.quantile is not None:
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
