"""Estimates over ordered cells and their linearisation, without a table of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from frame_eval.inference.cells import AloneError, Block, Front, Group, Stack, groups_of, stacked
from frame_eval.inference.linear import Linear, Sample, Totals, central_differences
from frame_eval.metrics.core import Metric, Sums, Term
from frame_eval.table import Floats, Ints, Part, Ranked
from frame_eval.threads import spread_out

# Of one sample in one group: influence, squares, share, size and count of units, and within.
Row = tuple[Any, Any, Any, Any, Any, float]


def sums_of(table: Ranked) -> Iterator[tuple[int, Sums]]:
    """Every group that has cells, and its sums by cell."""
    return ((group, cells.sums) for _, group, cells in groups_of(table))


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
        together = [_together(metric, table, part, errors=errors) for part in table.parts]
        for part, group, cells in groups_of(table):
            sums, (value, samples) = cells.sums, together[part].get(cells.position, (None, None))
            estimate[group] = metric.finish(sums) if value is None else value
            rows[group] = clusters[group] = sums.total("rows")
            units.append(_units(cells, table.alike or not errors))
            if cells.units is not None:
                clusters[group] = len(cells.units)
            if errors:
                found.append(samples or _samples(metric, table, cells))
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
        samples=tuple(
            _sample(rows, index, groups, weighted=table.weighted)
            for rows in zip(*found, strict=True)
        ),
        totals=Totals(metric, table.names, tuple(blocks), groups),
        weighted=table.weighted,
        singles=table.singles,
        source=None,
        systems=systems,
    )


# What functions raise that know one group at a time alone.
_ALONE = (AloneError, ValueError, TypeError, IndexError)


def _together(
    metric: Metric, table: Ranked, part: Part, *, errors: bool
) -> dict[int, tuple[float, list[Row] | None]]:
    """Estimates and samples of groups that are worked on side by side, by their positions.

    Those are left out that the functions of the metric want to see alone.
    """

    def of_stack(positions: range) -> Iterator[tuple[int, tuple[float, list[Row] | None]]]:
        cells = Stack(part, positions)
        samples: list[list[Row] | None] = [None] * len(positions)
        try:
            estimate = np.asarray(metric.finish(Front(cells)), float)
            if estimate.shape != (len(positions),):
                return iter(())
            if errors and table.alike and metric.gradient is not None:
                samples = _samples_together(metric, table.names, cells)
        except _ALONE:
            return iter(())
        return zip(positions, zip(estimate.tolist(), samples, strict=True), strict=True)

    several = [positions for positions in stacked(part) if len(positions) > 1]
    return {at: row for found in spread_out(of_stack, several) for at, row in found}


def _samples_together(
    metric: Metric, names: tuple[str, ...], cells: Stack
) -> list[list[Row] | None]:
    """The influences in every group, on each denominator; None where they do not sum to 0."""
    assert metric.gradient is not None
    terms = metric.gradient(Front(cells))
    moments = dict(zip(terms, _moments_of(terms, cells), strict=True))
    drift, size, _ = sum(moments.values(), np.zeros((3, len(cells.positions))))
    clean = np.abs(drift) <= 1e-7 * size
    rows = [
        _alike(cells, denominator, [moments[name] for name in members if name in terms])
        for denominator, members in metric.sampled(names).items()
    ]
    return [
        [(*(x[i : i + 1] for x in row[:5]), 0.0) for row in rows] if whole else None
        for i, whole in enumerate(clean.tolist())
    ]


def _joined(parts: Any, dtype: Any = float) -> Any:
    """Arrays one after the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])


def _sample(found: Any, index: Ints, groups: int, *, weighted: bool) -> Sample:
    """What a sample has in each group, one group after the other."""
    *columns, within = zip(*found, strict=True)
    by_group = np.zeros(groups)
    by_group[index] = within
    influence, squares, share, size, count = map(_joined, columns)
    weight = np.where(size > 0, share / np.where(size > 0, size, 1.0), 0.0) if weighted else 1.0
    return Sample(influence, squares, share, size, count, by_group, weight)


def _units(cells: Group, alike: bool) -> Ints:
    """The codes of the units of a group, a row each; one row for those that are alike."""
    if cells.units is not None:
        return cells.units
    return np.zeros(1 if alike else cells.rows.stop - cells.rows.start, np.int64)


def _samples(metric: Metric, table: Ranked, cells: Group) -> list[Row]:
    """The influences in a group, on each denominator."""
    terms, moments = _slopes(metric, table.names, cells)
    found = []
    for denominator, members in metric.sampled(table.names).items():
        there = [name for name in members if name in terms]
        if table.alike:
            alone = [moments[name][:, None] for name in there]
            found.append(_alike(cells, denominator, alone))
        else:
            chosen = {name: terms[name] for name in there}
            found.append(_by_unit(cells, denominator, chosen, counts=metric.counts))
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
    found = cells.added(lambda block: _moments_of(terms, block)) if terms else []
    return dict(zip(terms, found, strict=True))


def _moments_of(terms: dict[str, Term], cells: Sums) -> Floats:
    """Of each sum the influences of the rows of some cells, their sizes and squares, added up."""
    found = []
    for name, term in terms.items():
        slope = cells.by_cell(term)
        influence = slope * cells.by_cell(name)
        mixed = slope
        if name != "n" and "n" in terms:
            # A row counts in n and in one other sum: its square has a mixed part.
            mixed = slope + 2 * cells.by_cell(terms["n"])
        found.append([influence.sum(-1), np.abs(influence).sum(-1), _dot(mixed, influence)])
    return np.array(found)


def _dot(left: Floats, right: Floats) -> Any:
    # The threads of a matrix product cost more than they give for many short slices.
    return np.einsum("...i,...i->...", left, right)


def _alike(cells: Group | Stack, denominator: str, moments: list[Floats]) -> Row:
    """One row for all units of a group: rows that count the same, each a unit of its own."""
    sums = cells if isinstance(cells, Stack) else cells.sums
    count = np.atleast_1d(sums.total(denominator))
    influence, _, squares = sum(moments, np.zeros((3, 1)))
    share = np.where(count > 0, 1 / count, 0.0)
    return influence, squares, share, np.ones(len(count)), count, 0.0


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
