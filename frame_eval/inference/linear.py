"""Estimates and their linearisation: the influence of every unit on every estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from frame_eval.metrics.core import Metric, Sums
from frame_eval.table import Floats, Ints, Table


@dataclass(frozen=True)
class Sample:
    """Influences on one denominator, a row per unit (or per set of like single-row units).

    ``influence`` sums the linearised rows of the unit, ``squares`` is its square (summed over
    units where a row stands for ``count`` of them), ``share`` is a unit's part of the denominator
    and ``size`` its rows. ``within`` is, per group, the sum of squares of linearised rows around
    their unit's mean.
    """

    influence: Floats
    squares: Floats
    share: Floats
    size: Floats
    count: Floats
    within: Floats


@dataclass(frozen=True)
class Linear:
    """The estimates of a metric by group (slice x system), and the influences behind them.

    ``share`` is the hits over trials of a proportion (NaN otherwise), ``group`` and ``unit`` the
    codes of the rows of the samples. With ``singles`` a row of the samples stands for rows that are
    each a unit of their own. ``table`` is what all of it comes from; a group is a slice of
    ``systems`` systems.
    """

    estimate: Floats
    share: Floats
    n: Floats
    clusters: Floats
    missing: Floats
    rows: Floats
    group: Ints
    unit: Ints
    samples: tuple[Sample, ...]
    totals: Totals
    weighted: bool
    singles: bool
    table: Table
    systems: int


@dataclass(frozen=True)
class Totals:
    """Sums by group: one block of arrays for all groups, or one per group for ordered cells."""

    metric: Metric
    names: tuple[str, ...]
    blocks: tuple[tuple[Ints, Sums], ...]
    groups: int

    def apply(self, function: Any, default: Any = np.nan) -> Any:
        """A function of the sums as an array by group."""
        result = np.full(self.groups, default, dtype=object if default == "" else float)
        for index, sums in self.blocks:
            result[index] = function(sums)
        return result


def dot(left: Floats, right: Floats) -> Floats:
    """Row by row products, summed: several times faster than a sum over a short last axis."""
    products: Floats = np.einsum("rj,rj->r", left, right)
    return products


def group_codes(table: Table, systems: int) -> Ints:
    """One code per (slice, system)."""
    return table.slice * systems + table.system


def added(group: Ints, values: Floats, groups: int) -> Floats:
    """The values summed by group."""
    total: Floats = np.bincount(group, values, groups).astype(np.float64, copy=False)
    return total


def linear(metric: Metric, table: Table, slices: int, systems: int) -> Linear:
    """Estimate a metric in every group and linearise it there."""
    group = group_codes(table, systems)
    groups = slices * systems
    totals, place = _totals(metric, table, group, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = totals.apply(lambda s: np.asarray(metric.finish(s), float))
        share, terms = _terms(metric, table, totals, group, place)
        samples, unit_group, unit = _samples(table, terms, group, groups)
    estimate = np.where(np.isfinite(estimate), estimate, np.nan)
    rows = added(group, table.rows, groups)
    n = added(group, terms[0].size, groups) if metric.proportion else rows
    count = np.max([sample.count for sample in samples], axis=0)
    if table.singles:  # rows of different samples, such as positives and negatives
        count = np.minimum(np.sum([sample.count for sample in samples], axis=0), table.rows)
    return Linear(
        estimate=estimate,
        share=share,
        n=n,
        clusters=added(unit_group, count, groups),
        missing=added(group, table.missing, groups),
        rows=rows,
        group=unit_group,
        unit=unit,
        samples=samples,
        totals=totals,
        weighted=table.weighted,
        singles=table.singles,
        table=table,
        systems=systems,
    )


def _totals(metric: Metric, table: Table, group: Ints, groups: int) -> tuple[Totals, Ints]:
    """Sums by group and cell, and where each row of the table is among them."""
    if not metric.ordered:
        shape = tuple(len(values) for values in table.classes)
        place = group
        for size, cell in zip(shape, table.cells, strict=True):
            place = place * size + cell
        length = groups * int(np.prod(shape, dtype=int))
        arrays = [np.bincount(place, column, length) for column in table.sums.T]
        arrays.append(np.bincount(place, table.rows, length))
        named = dict(zip((*table.names, "rows"), arrays, strict=True))
        whole = {name: array.reshape(groups, *shape) for name, array in named.items()}
        blocks = ((np.arange(groups), Sums(whole, table.classes)),)
        return Totals(metric, table.names, blocks, groups), place
    size = len(table.classes[0])
    key = group * size + table.cells[0]
    if len(key) and (key[1:] > key[:-1]).all():
        distinct, place = key, np.arange(len(key))
    else:
        distinct, place = np.unique(key, return_inverse=True)
    columns = np.stack([np.bincount(place, c, len(distinct)) for c in table.sums.T])
    rows = np.bincount(place, table.rows, len(distinct))
    found: list[tuple[Ints, Sums]] = []
    starts = np.flatnonzero(np.diff(distinct // max(size, 1), prepend=-1))
    for a, b in zip(starts, [*starts[1:], len(distinct)], strict=True):
        part = dict(zip(table.names, columns[:, a:b], strict=True))
        classes = (table.classes[0][distinct[a:b] % size],)
        sums = Sums({**part, "rows": rows[a:b]}, classes)
        found.append((np.array([distinct[a] // size]), sums))
    return Totals(metric, table.names, tuple(found), groups), place


@dataclass(frozen=True)
class Term:
    """One sample of a metric at the rows of the table: influence, its squares, denominator, size.

    ``squares`` sums the squares of the linearised rows behind each row of the table.
    """

    influence: Floats
    squares: Floats
    denominator: Floats
    size: Floats


def _terms(
    metric: Metric, table: Table, totals: Totals, group: Ints, place: Ints
) -> tuple[Floats, list[Term]]:
    """The share of a proportion by group (else NaN), and the terms of the metric."""
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(table.rows > 0, table.sums[:, 0] / table.plain[:, 0], 0.0)
        if metric.proportion is not None:
            return _proportion_term(metric, table, totals, group, place, weight)
        return np.full(totals.groups, np.nan), _general_terms(
            metric, table, totals, group, place, weight
        )


def _proportion_term(
    metric: Metric, table: Table, totals: Totals, group: Ints, place: Ints, weight: Floats
) -> tuple[Floats, list[Term]]:
    proportion: Any = metric.proportion
    of_hits = coefficients(proportion.hits, totals)[place]
    of_trials = coefficients(proportion.trials, totals)[place]
    trials = dot(of_trials, table.sums)
    hits = dot(of_hits, table.sums)
    total = np.bincount(group, trials, totals.groups)
    share = np.bincount(group, hits, totals.groups) / total
    p, size = share[group], total[group]
    influence = np.where(size > 0, (hits - p * trials) / size, 0.0)
    plain = trials if table.plain is table.sums else dot(of_trials, table.plain)
    if table.moments is not None:
        gradient = np.where(size > 0, 1 / size, 0.0)[:, None] * (of_hits - p[:, None] * of_trials)
        squares = _moment_squares(table, gradient, influence)
    else:
        plain_hits = hits if table.plain is table.sums else dot(of_hits, table.plain)
        squares = plain_hits * (1 - p) ** 2 + (plain - plain_hits) * p**2
        squares = np.where(size > 0, squares * (weight / size) ** 2, 0.0)
    return share, [Term(influence, squares, trials, plain)]


def _general_terms(
    metric: Metric, table: Table, totals: Totals, group: Ints, place: Ints, weight: Floats
) -> list[Term]:
    names = totals.names
    parts = [_gradient(metric, totals, sums) for _, sums in totals.blocks]
    gradient = np.concatenate([part.reshape(-1, len(names)) for part in parts])[place]
    gradient = _centred(np.where(np.isfinite(gradient), gradient, 0.0), table, group, totals.groups)
    samples = metric.samples or {"n": names}
    rest = set(names).difference(*samples.values())
    terms = []
    for denominator, members in samples.items():
        of = names.index(denominator)
        chosen = [name in members or name in rest for name in names]
        part = gradient * np.array(chosen, float)
        influence = dot(part, table.sums)
        if table.moments is not None:
            squares = _moment_squares(table, part, influence)
        else:
            squares = dot(part**2, table.plain) * weight**2
        size = table.plain[:, of] if metric.counts else table.rows
        terms.append(Term(influence, squares, table.sums[:, of], size))
        rest = set()
    return terms


def _moment_squares(table: Table, gradient: Floats, influence: Floats) -> Floats:
    moments: Any = table.moments
    within = np.einsum("ri,rij,rj->r", gradient, moments, gradient)
    between = np.where(table.rows > 0, influence**2 / table.rows, 0.0)
    squares: Floats = within + between
    return squares


def coefficients(function: Any, totals: Totals) -> Floats:
    """The coefficients of a linear function of the sums, for every group and cell."""
    parts = []
    for index, sums in totals.blocks:
        shape = tuple(len(values) for values in sums.classes)
        size = int(np.prod(shape, dtype=int)) * len(totals.names)
        basis = np.eye(size).reshape(size, *shape, len(totals.names))
        unit = {name: basis[..., j] for j, name in enumerate(totals.names)}
        values = np.asarray(function(Sums(unit, sums.classes)), float)
        parts.append(np.tile(values.reshape(-1, len(totals.names)), (len(index), 1)))
    return np.concatenate(parts)


def _gradient(metric: Metric, totals: Totals, sums: Sums) -> Floats:
    shape = np.asarray(sums.n).shape
    if metric.gradient is None:
        return central_differences(metric.finish, totals.names, sums, metric.cells)
    given = metric.gradient(sums)
    zero = np.zeros(shape)
    return np.stack([np.broadcast_to(given.get(name, zero), shape) for name in totals.names], -1)


def central_differences(
    finish: Any, names: tuple[str, ...], sums: Sums, cells: tuple[str, ...]
) -> Floats:
    """Derivatives of ``finish`` by every sum (and cell), by steps of about 6e-6 of its size."""
    values = {name: np.asarray(getattr(sums, name), float) for name in names}
    shape = values["n"].shape
    result = np.zeros((*shape, len(names)))
    for j, name in enumerate(names):
        for cell in _cell_indices(shape, cells):
            at: Any = (..., *cell)
            value = values[name][at]
            step = np.cbrt(np.finfo(float).eps) * np.maximum(np.abs(value), 1.0)
            sides = []
            for sign in (1.0, -1.0):
                moved = values[name].copy()
                moved[at] = value + sign * step
                sides.append(finish(Sums({**values, name: moved}, sums.classes)))
            result[(*at, j)] = (sides[0] - sides[1]) / (2 * step)
    return result


def _cell_indices(shape: tuple[int, ...], cells: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    return iter(np.ndindex(*shape[len(shape) - len(cells) :]))


def _samples(
    table: Table, terms: list[Term], group: Ints, groups: int
) -> tuple[tuple[Sample, ...], Ints, Ints]:
    """The terms added up by unit; the groups and codes of the units."""
    new = np.ones(len(group), bool)
    if not table.singles:
        new[1:] = (group[1:] != group[:-1]) | (table.unit[1:] != table.unit[:-1])
    starts = np.flatnonzero(new)
    unit_group, unit = group[starts], table.unit[starts]
    samples = []
    for term in terms:
        influence, denominator, size = (
            np.add.reduceat(values, starts)
            for values in (term.influence, term.denominator, term.size)
        )
        share = denominator / np.bincount(unit_group, denominator, groups)[unit_group]
        if table.singles:
            each = np.where(size > 0, share / size, 0.0)
            one = np.ones(len(size))
            samples.append(Sample(influence, term.squares, each, one, size, np.zeros(groups)))
            continue
        between = np.where(size > 0, influence**2 / size, 0.0)
        within = np.bincount(group, term.squares, groups) - np.bincount(unit_group, between, groups)
        count = (size > 0).astype(float)
        samples.append(Sample(influence, influence**2, share, size, count, np.maximum(within, 0.0)))
    return tuple(samples), unit_group, unit


def _centred(gradient: Floats, table: Table, group: Ints, groups: int) -> Floats:
    """The gradient shifted so that influences sum to 0, as they do by themselves for ratios."""
    drift = np.bincount(group, dot(gradient, table.sums), groups)
    size = np.bincount(group, dot(np.abs(gradient), np.abs(table.sums)), groups)
    needed = np.abs(drift) > 1e-7 * size
    if not needed.any():
        return gradient
    weight = np.bincount(group, table.sums[:, 0], groups)
    shifted = gradient.copy()
    shifted[:, 0] -= np.where(needed, drift / weight, 0.0)[group]
    return shifted
