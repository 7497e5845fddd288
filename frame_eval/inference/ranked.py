"""Estimates over ordered cells and their linearisation, without a table of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from frame_eval.inference.cells import Block, Group, groups_of
from frame_eval.inference.linear import Linear, Sample, Totals, central_differences
from frame_eval.metrics.core import Metric, Sums, Term
from frame_eval.table import Floats, Ints, Ranked

# Of one sample in one group: influence, squares, share, size and count of units, and within.
Row = tuple[Any, Any, Any, Any, Any, float]


def sums_of(table: Ranked) -> Iterator[tuple[int, Sums]]:
    """Every group that has cells, and its sums by cell."""
    return ((group, cells.sums) for group, cells in groups_of(table))


def ranked(
    metric: Metric, table: Ranked, slices: int, systems: int, *, errors: bool = True
) -> Linear:
    """Estimate a metric over ordered cells in every group, and linearise it there.

    Without ``errors`` the influences are left out.
    """
    groups = slices * systems
    estimate, rows, clusters = np.full(groups, np.nan), np.zeros(groups), np.zeros(groups)
    blocks: list[tuple[Ints, Sums]] = []
    units: list[Ints] = []
    found: list[list[Row]] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for group, cells in groups_of(table):
            sums = cells.sums
            estimate[group] = metric.finish(sums)
            rows[group] = clusters[group] = sums.total("rows")
            units.append(_units(cells, table.alike or not errors))
            if cells.units is not None:
                clusters[group] = len(cells.units)
            if errors:
                found.append(_samples(metric, table, cells))
                count = np.sum([row[4] for row in found[-1]], axis=0)
                clusters[group] = np.minimum(count, rows[group] if table.alike else 1).sum()
            blocks.append((np.array([group]), Group(cells.part, cells.position).sums))
    index = np.array([group[0] for group, _ in blocks], np.int64)
    return Linear(
        estimate=np.where(np.isfinite(estimate), estimate, np.nan),
        share=np.full(groups, np.nan),
        n=rows,
        clusters=clusters,
        missing=table.missing,
        rows=rows,
        group=np.repeat(index, [len(unit) for unit in units]),
        unit=_joined(units, np.int64),
        samples=tuple(_sample(rows, index, groups) for rows in zip(*found, strict=True)),
        totals=Totals(metric, table.names, tuple(blocks), groups),
        weighted=table.weighted,
        singles=table.singles,
        source=None,
        systems=systems,
    )


def _joined(parts: Any, dtype: Any = float) -> Any:
    """Arrays one after the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])


def _sample(found: Any, index: Ints, groups: int) -> Sample:
    """What a sample has in each group, one group after the other."""
    *columns, within = zip(*found, strict=True)
    by_group = np.zeros(groups)
    by_group[index] = within
    influence, squares, share, size, count = map(_joined, columns)
    return Sample(influence, squares, share, size, count, by_group)


def _units(cells: Group, alike: bool) -> Ints:
    """The codes of the units of a group, a row each; one row for those that are alike."""
    if cells.units is not None:
        return cells.units
    return np.zeros(1 if alike else cells.rows.stop - cells.rows.start, np.int64)


def _samples(metric: Metric, table: Ranked, cells: Group) -> list[Row]:
    """The influences in a group, on each denominator."""
    terms, moments = _slopes(metric, table.names, cells)
    found = []
    for denominator, members in _members(metric, table.names).items():
        there = [name for name in members if name in terms]
        if table.alike:
            found.append(_alike(cells, denominator, [moments[name] for name in there]))
        else:
            chosen = {name: terms[name] for name in there}
            found.append(_by_unit(cells, denominator, chosen, counts=metric.counts))
    return found


def _members(metric: Metric, names: tuple[str, ...]) -> dict[str, list[str]]:
    """The sums of every sample by its denominator; those of none go with the first."""
    samples = metric.samples or {"n": names}
    rest = set(names).difference(*samples.values())
    found = {}
    for denominator, members in samples.items():
        found[denominator] = [name for name in names if name in members or name in rest]
        rest = set()
    return found


def _slopes(
    metric: Metric, names: tuple[str, ...], cells: Group
) -> tuple[dict[str, Term], dict[str, Floats]]:
    """The gradient by the sums that have one, shifted so that influences sum to 0.

    And its moments: of each sum the influences of the rows, their sizes and squares, added up.
    """
    sums = cells.sums
    terms: dict[str, Term]
    if metric.gradient is None:
        found = central_differences(metric.finish, names, sums, metric.cells)
        terms = dict(zip(names, np.moveaxis(found, -1, 0), strict=True))
    else:
        shape = cells.span.stop - cells.span.start
        given = metric.gradient(sums)
        terms = {n: t if callable(t) else np.broadcast_to(t, shape) for n, t in given.items()}
    moments = _moments(terms, cells)
    drift, size, _ = sum(moments.values(), np.zeros(3))
    if not np.isfinite(drift):
        terms = {name: partial(_finite, term) for name, term in terms.items()}
        moments = _moments(terms, cells)
        drift, size, _ = sum(moments.values(), np.zeros(3))
    if abs(drift) > 1e-7 * size:
        terms["n"] = partial(_shifted, terms.get("n"), drift / sums.total("n"))
        moments = _moments(terms, cells)
    return terms, moments


def _finite(term: Term, cells: Sums) -> Floats:
    slope = cells.by_cell(term)
    return np.where(np.isfinite(slope), slope, 0.0)


def _shifted(term: Term | None, shift: float, cells: Sums) -> Floats:
    slope = np.zeros(len(cells.n)) if term is None else cells.by_cell(term)
    return slope - shift


def _moments(terms: dict[str, Term], cells: Group) -> dict[str, Floats]:
    def of_block(block: Block) -> Floats:
        found = np.empty((len(terms), 3))
        for row, (name, term) in zip(found, terms.items(), strict=True):
            slope = block.by_cell(term)
            influence = slope * block.by_cell(name)
            row[:] = influence.sum(), np.abs(influence).sum(), _dot(slope, influence)
        return found

    return dict(zip(terms, cells.added(of_block), strict=True)) if terms else {}


def _dot(left: Floats, right: Floats) -> float:
    # The threads of a matrix product cost more than they give for many short slices.
    return float(np.einsum("i,i->", left, right))


def _alike(cells: Group, denominator: str, moments: list[Floats]) -> Row:
    """One row for all units of a group: rows that count the same, each a unit of its own."""
    count = cells.sums.total(denominator)
    influence, _, squares = sum(moments, np.zeros(3))
    share = 1 / count if count > 0 else 0.0
    row = np.array([influence, squares, share, 1.0, count])[:, None]
    return row[0], row[1], row[2], row[3], row[4], 0.0


def _by_unit(cells: Group, denominator: str, terms: dict[str, Term], *, counts: bool) -> Row:
    """A row for every unit of a group: what its rows add up to."""
    part, rows = cells.part, cells.rows
    weight = 1.0 if part.weight is None else part.weight[rows]

    def influences(block: Block, span: slice) -> Floats:
        of_rows = part.rows(span)
        total = np.zeros(of_rows.stop - of_rows.start)
        for name, term in terms.items():
            total += part.by_row(block.by_cell(term), span) * part.plain(name, of_rows)
        return total

    by_row = cells.joined(influences) * weight
    influence = cells.by_unit(by_row)
    of = part.plain(denominator, rows)
    whole = cells.by_unit(of * weight)
    count = (
        whole
        if counts and part.weight is None
        else cells.by_unit(of if counts else np.ones(len(of)))
    )
    share = np.where(count > 0, whole / whole.sum(), 0.0)
    square = np.square(influence)
    if cells.units is None:
        return influence, square, share, np.ones(len(of)), count, 0.0
    within = _dot(by_row, by_row) - np.where(count > 0, square / count, 0.0).sum()
    return influence, square, share, count, (count > 0).astype(float), max(within, 0.0)
