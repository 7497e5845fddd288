"""Estimates over ordered cells and their linearisation, without a table of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np

from frame_eval.inference.linear import (
    Linear,
    Sample,
    Totals,
    added,
    central_differences,
    scattered,
)
from frame_eval.metrics.core import Metric, Sums
from frame_eval.table import Entries, Floats, Ints, Ranked


class _OrderedSums(Sums):
    """The sums of one group, whose scores are made when they are asked for."""

    def __init__(self, values: dict[str, Any], scores: Callable[[], Floats]) -> None:
        self.__dict__.update(values, _scores=scores)

    @cached_property
    def classes(self) -> tuple[Floats]:  # type: ignore[override]
        """The scores of the cells."""
        return (self._scores(),)


def ranked(
    metric: Metric, table: Ranked, slices: int, systems: int, *, errors: bool = True
) -> Linear:
    """Estimate a metric over ordered cells in every group, and linearise it there.

    Without ``errors`` the influences are left out.
    """
    groups = slices * systems
    totals = _totals(table, metric, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = totals.apply(lambda s: np.asarray(metric.finish(s), float))
    estimate = np.where(np.isfinite(estimate), estimate, np.nan)
    rows = totals.apply(lambda s: np.sum(s.rows), default=0.0)
    entries = table.entries
    units = entries is not None and entries.unit is not None
    group, unit, clusters = table.groups, np.zeros(len(table.groups), np.int64), rows
    samples: tuple[Sample, ...] = ()
    if entries is not None and units and not errors:
        group, unit, _ = _units(table, entries)
        clusters = added(group, np.ones(len(group)), groups)
    elif errors:
        slopes = [_slopes(metric, table.names, sums) for _, sums in totals.blocks]
        if entries is None:
            samples = _alike(metric, table, slopes, groups)
            most = rows[group]
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                group, unit, samples = _by_unit(metric, table, entries, slopes, groups)
            most = np.ones(len(group))
        count = np.minimum(np.sum([sample.count for sample in samples], axis=0), most)
        clusters = scattered(group, count, groups)
    return Linear(
        estimate=estimate,
        share=np.full(groups, np.nan),
        n=rows,
        clusters=clusters,
        missing=table.missing,
        rows=rows,
        group=group,
        unit=unit,
        samples=samples,
        totals=totals,
        weighted=entries is not None and entries.weight is not None,
        singles=not units,
        source=None,
        systems=systems,
    )


def _totals(table: Ranked, metric: Metric, groups: int) -> Totals:
    blocks = ((np.array([group]), sums) for group, sums in sums_of(table))
    return Totals(metric, table.names, tuple(blocks), groups)


def sums_of(table: Ranked) -> Iterator[tuple[int, Sums]]:
    """Every group that has cells, and its sums by cell."""
    for i, group in enumerate(table.groups):
        part = slice(table.edges[i], table.edges[i + 1])
        values = {name: sums[part] for name, sums in zip(table.names, table.sums, strict=True)}
        sums = _OrderedSums({**values, "rows": table.rows[part]}, partial(_scores, table, part))
        yield int(group), sums


def _scores(table: Ranked, part: slice) -> Floats:
    return table.by_cell[part]


def _slopes(metric: Metric, names: tuple[str, ...], sums: Sums) -> dict[str, Floats]:
    """The gradient by cell, of the sums that have one, shifted so that influences sum to 0."""
    values = {name: getattr(sums, name) for name in names}
    with np.errstate(divide="ignore", invalid="ignore"):
        if metric.gradient is None:
            found = np.moveaxis(
                central_differences(metric.finish, names, sums, metric.cells), -1, 0
            )
            given = dict(zip(names, found, strict=True))
        else:
            given = dict(metric.gradient(sums))
        drift = sum(_dot(slope, values[name]) for name, slope in given.items())
    if not np.isfinite(drift):
        given = {name: np.where(np.isfinite(g), g, 0.0) for name, g in given.items()}
        drift = sum(_dot(slope, values[name]) for name, slope in given.items())
    size = sum(_dot(np.abs(slope), np.abs(values[name])) for name, slope in given.items())
    if abs(drift) > 1e-7 * size:
        shift = drift / np.sum(values["n"])
        given["n"] = given.get("n", np.zeros(len(values["n"]))) - shift
    return given


def _dot(left: Floats, right: Floats) -> float:
    # The threads of a matrix product cost more than they give for many short slices.
    return float(np.einsum("i,i->", left, right))


def _members(metric: Metric, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The sums of every sample by its denominator; those of none go with the first."""
    samples = metric.samples or {"n": names}
    rest = set(names).difference(*samples.values())
    found = {}
    for denominator, members in samples.items():
        found[denominator] = [name for name in names if name in members or name in rest]
        rest = set()
    return found


def _alike(
    metric: Metric, table: Ranked, slopes: list[dict[str, Floats]], groups: int
) -> tuple[Sample, ...]:
    """One row for all units of a group: rows that count the same, each a unit of its own."""
    sums = dict(zip(table.names, table.sums, strict=True))
    parts = [slice(a, b) for a, b in zip(table.edges, table.edges[1:], strict=False)]
    samples = []
    for denominator, members in _members(metric, table.names).items():
        count = np.array([sums[denominator][part].sum() for part in parts])
        influence, squares = np.zeros(len(parts)), np.zeros(len(parts))
        for i, (part, slope) in enumerate(zip(parts, slopes, strict=True)):
            for name in members:
                if name in slope:
                    influence[i] += _dot(slope[name], sums[name][part])
                    squares[i] += _dot(np.square(slope[name]), sums[name][part])
        share = np.where(count > 0, 1 / np.maximum(count, 1), 0.0)
        one = np.ones(len(parts))
        samples.append(Sample(influence, squares, share, one, count, np.zeros(groups)))
    return tuple(samples)


def _by_unit(
    metric: Metric, table: Ranked, entries: Entries, slopes: list[dict[str, Floats]], groups: int
) -> tuple[Ints, Ints, tuple[Sample, ...]]:
    """The groups and codes of the units, and the rows added up by them."""
    code, unit, place = _units(table, entries)
    # Where the rows of each group end: those of a cell are counted in it.
    ends = np.concatenate([[0], np.cumsum(table.rows, dtype=np.int64)])[table.edges]

    def by_unit(values: Floats) -> Floats:
        return values if place is None else scattered(place, values, len(code))

    plain = dict(zip(table.names[1:], entries.plain, strict=True))
    one = np.broadcast_to(1.0, ends[-1])
    samples = []
    for denominator, members in _members(metric, table.names).items():
        rows = _rows(members, slopes, np.diff(table.edges), entries, plain, one)
        of = plain.get(denominator, one)
        influence, squares = by_unit(rows), np.zeros(groups)
        share = by_unit(of if entries.weight is None else of * entries.weight)
        alike = metric.counts and entries.weight is None
        count = share if alike else by_unit(of if metric.counts else one)
        share = np.where(count > 0, share / added(code, share, groups)[code], 0.0)
        if place is None:
            samples.append(Sample(influence, np.square(influence), share, one, count, squares))
            continue
        for group, start, end in zip(table.groups, ends, ends[1:], strict=False):
            squares[group] = _dot(rows[start:end], rows[start:end])
        square = np.square(influence)
        within = squares - added(code, np.where(count > 0, square / count, 0.0), groups)
        there = (count > 0).astype(float)
        samples.append(Sample(influence, square, share, count, there, np.maximum(within, 0.0)))
    return code, unit, tuple(samples)


def _rows(
    members: list[str],
    slopes: list[dict[str, Floats]],
    cells: Ints,
    entries: Entries,
    plain: dict[str, Floats],
    one: Floats,
) -> Floats:
    """What every row contributes to the influence of its unit, by some of the sums."""
    total: Floats = np.zeros(0)
    for name in members:
        if any(name in slope for slope in slopes):
            none = np.zeros(1)
            found = [
                np.broadcast_to(slope.get(name, none), size)
                for slope, size in zip(slopes, cells, strict=True)
            ]
            by_cell = found[0] if len(found) == 1 else np.concatenate(found)
            values = by_cell if entries.cell is None else by_cell[entries.cell]
            values = values * plain[name] if name in plain else values
            total = values if not len(total) else total + values
    total = total if len(total) else np.zeros(len(one))
    return total if entries.weight is None else total * entries.weight


def _group_of(table: Ranked, entries: Entries) -> Ints:
    """The group of every row."""
    by_cell = np.repeat(table.groups, np.diff(table.edges))
    return by_cell if entries.cell is None else by_cell[entries.cell]


def _units(table: Ranked, entries: Entries) -> tuple[Ints, Ints, Ints | None]:
    """Group and code of every unit of a group, and the unit of every row (None: itself)."""
    if entries.units is None:
        group = _group_of(table, entries)
        return group, np.zeros(len(group), np.int64), None
    return *entries.units, entries.unit
