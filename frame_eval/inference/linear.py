"""Estimates and their linearisation: the influence of every unit on every estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from frame_eval.metrics.core import Array, Metric, Sums
from frame_eval.table import Floats, Ints, Numbers, Table

_FEW = 1000  # values that are added up before their runs are found


@dataclass(frozen=True)
class Sample:
    """Influences on one denominator, a row per unit (or per set of like single-row units).

    ``influence`` sums the linearised rows of the unit, ``squares`` is its square (both summed over
    units where a row stands for ``count`` of them), ``share`` is a unit's part of the denominator
    and ``size`` its rows. ``within`` is, per group, the sum of squares of linearised rows around
    their unit's mean. ``weight`` is that of a row of the unit, on any scale.
    """

    influence: Floats
    squares: Floats
    share: Floats
    size: Floats
    count: Floats
    within: Floats
    weight: Floats | float = 1.0


@dataclass(frozen=True)
class Linear:
    """The estimates of a metric by group (slice x system), and the influences behind them.

    ``share`` is the hits over trials of a proportion (NaN otherwise), ``group`` and ``unit`` the
    codes of the rows of the samples. With ``singles`` a row of the samples stands for rows that are
    each a unit of their own. ``source`` is the table that all of it comes from, if there was one; a
    group is one of ``systems`` systems in a slice. ``strata`` are those of the rows of the samples;
    ``crossed`` is the same clustered one way, another, and both together. With ``times`` a row of
    the samples stands for so many units that are alike, and different ones in every group, unless
    what these have in common is said by ``together``, the products of influences on any two groups.
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
    source: Table | None
    systems: int
    strata: Ints | None = None
    crossed: tuple[Linear, ...] | None = None
    times: Floats | None = None
    together: Floats | None = None

    @property
    def table(self) -> Table:
        """The table that all of it comes from."""
        assert self.source is not None
        return self.source

    @property
    def drawn(self) -> bool:
        """Whether the joint law of groups is that of normal draws with their covariance."""
        return self.crossed is not None or self.times is not None


@dataclass(frozen=True)
class Totals:
    """Sums by group: one block of arrays for all groups, or one per group for ordered cells."""

    metric: Metric
    names: tuple[str, ...]
    blocks: tuple[tuple[Ints, Sums], ...]
    groups: int

    @property
    def group(self) -> Ints:
        """The group of every group and cell, in the order of the blocks."""
        parts = [np.repeat(index, np.size(sums.n) // len(index)) for index, sums in self.blocks]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def apply(self, function: Any, default: Any = np.nan, where: Any = True) -> Any:
        """A function of the sums as an array by group; at least of the groups that are wanted."""
        result = np.full(self.groups, default, dtype=object if default == "" else float)
        for index, sums in self.blocks:
            if where is True or where[index].any():
                result[index] = function(sums)
        return result


def combined(coefficients: Floats, place: Ints, sums: Floats) -> Floats:
    """The sums of every row, times the coefficients at its place, added up."""
    total: Any = None
    for weights, values in zip(coefficients.T, sums.T, strict=True):
        if not weights.any():
            continue
        part = values if (weights == 1).all() else spread(weights, place) * values
        total = part if total is None else total + part
    return np.zeros(len(place)) if total is None else total


def crossed(first: Linear, *others: Linear) -> Linear:
    """A metric linearised in units of one way of clustering, of another, and of both together.

    Without the other two as it is.
    """
    if not others:
        return first
    clusters = np.minimum(first.clusters, others[0].clusters)
    return replace(first, crossed=(first, *others), clusters=clusters)


def ways_of(found: Linear) -> tuple[Linear, ...]:
    """The linearisation in every way of clustering; the last of three is by both together."""
    return found.crossed or (found,)


def put_at(values: Numbers | None, place: Ints, size: int) -> Numbers | None:
    """What the rows of new samples have, which is that of all old ones that are put there."""
    if values is None:
        return None
    found: Any = np.zeros(size, values.dtype)
    found[place] = values
    return found  # type: ignore[no-any-return]  # of the type of the values


def spread(values: Floats, place: Ints) -> Any:
    """The value at every place; where there is one alone, that one."""
    return values[0] if len(values) == 1 else values[place]


def group_codes(table: Table, systems: int) -> Ints:
    """One code per (slice, system)."""
    return table.slice if systems == 1 else table.slice * systems + table.system


def added(group: Ints, values: Array, groups: int) -> Floats:
    """The values summed by group; ``group`` is sorted."""
    if len(values) <= _FEW:
        return scattered(group, values, groups)
    starts = np.searchsorted(group, np.arange(groups + 1))
    if values.dtype == bool:
        return np.diff(np.searchsorted(np.flatnonzero(values), starts)).astype(float)
    there = np.flatnonzero(np.diff(starts))
    total = np.zeros(groups)
    if len(there):
        total[there] = np.add.reduceat(values, starts[there], dtype=float)
    return total


def scattered(place: Ints, values: Array, size: int) -> Floats:
    """The values summed by place, in any order."""
    return np.bincount(place, values, size).astype(np.float64, copy=False)


def linear(
    metric: Metric, table: Table, slices: int, systems: int, *, errors: bool = True
) -> Linear:
    """Estimate a metric in every group and linearise it there.

    Where no ``errors`` are asked for, influences of other metrics than proportions are 0.
    """
    group = group_codes(table, systems)
    groups = slices * systems
    totals, place = _totals(metric, table, group, groups)
    starts = unit_starts(table, group)
    # Units of one row have no spread within.
    alone = isinstance(starts, slice) and not table.singles and table.rows.max(initial=0) <= 1
    alone = alone and table.times is None
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = totals.apply(lambda s: np.asarray(metric.finish(s), float))
        share, terms = _terms(metric, table, totals, place, alone, errors)
        counts = metric.counts or metric.proportion is not None
        samples = tuple(
            _sample(table, term, group, starts, groups, alone, counts=counts) for term in terms
        )
    estimate = np.where(np.isfinite(estimate), estimate, np.nan)
    rows = added(group, table.rows, groups)
    n = added(group, terms[0].size, groups) if metric.proportion else rows
    count = reduce(np.maximum, [sample.count for sample in samples])
    if table.singles:  # rows of different samples, such as positives and negatives
        count = np.minimum(np.sum([sample.count for sample in samples], axis=0), table.rows)
    return Linear(
        estimate=estimate,
        share=share,
        n=n,
        clusters=added(group[starts], count, groups),
        missing=added(group, table.missing, groups),
        rows=rows,
        group=group[starts],
        unit=table.unit[starts],
        samples=samples,
        totals=totals,
        weighted=table.weighted,
        singles=table.singles,
        source=table,
        systems=systems,
        strata=None if table.strata is None else table.strata[table.unit[starts]],
        times=table.times,
    )


def places(table: Table, group: Ints) -> Ints:
    """Where the rows of a table are among all groups and cells."""
    place = group
    for cell, values in zip(table.cells, table.classes, strict=True):
        place = place * len(values) + cell
    return place


def _totals(metric: Metric, table: Table, group: Ints, groups: int) -> tuple[Totals, Ints]:
    """Sums by group and cell, and where each row of the table is among them."""
    if not metric.ordered:
        shape = tuple(len(values) for values in table.classes)
        place = places(table, group)
        length = groups * math.prod(shape)
        total = np.bincount if shape else added
        arrays = [total(place, column, length) for column in (*table.sums.T, table.rows)]
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
    for a, b in pairwise([*starts, len(distinct)]):
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
    metric: Metric, table: Table, totals: Totals, place: Ints, alone: bool, errors: bool
) -> tuple[Floats, list[Term]]:
    """The share of a proportion by group (else NaN), and the terms of the metric."""
    if metric.proportion is not None:
        return _proportion_term(metric, table, totals, place, alone)
    terms = _general_terms(metric, table, totals, place, alone, errors)
    return np.full(totals.groups, np.nan), terms


def _proportion_term(
    metric: Metric, table: Table, totals: Totals, place: Ints, alone: bool
) -> tuple[Floats, list[Term]]:
    proportion: Any = metric.proportion
    of_hits = coefficients(proportion.hits, totals)
    of_trials = coefficients(proportion.trials, totals)
    share, size = _share_and_size(metric, totals)
    group = totals.group
    p, whole = share[group, None], size[group, None]
    gradient = np.where(whole > 0, (of_hits - p * of_trials) / whole, 0.0)
    influence = combined(gradient, place, table.sums)
    trials = combined(of_trials, place, table.sums)
    plain = trials if table.plain is table.sums else combined(of_trials, place, table.plain)
    if alone:
        squares = influence**2
    elif table.moments is not None:
        squares = _moment_squares(table, gradient[place], influence)
    else:
        # Every hit lies 1 - p from the share, every other trial p.
        hit, other = np.where(whole > 0, np.array([1 - p, p]) / whole, 0.0) ** 2
        per_row = of_hits * hit + (of_trials - of_hits) * other
        squares = combined(per_row, place, table.plain) * _weights(table) ** 2
    return share, [Term(influence, squares, trials, plain)]


def _share_and_size(metric: Metric, totals: Totals) -> tuple[Floats, Floats]:
    """The hits over the trials of a proportion by group, and its trials."""
    proportion: Any = metric.proportion
    size = totals.apply(proportion.trials)
    return totals.apply(proportion.hits) / size, size


def gradients(metric: Metric, totals: Totals) -> Floats:
    """The slope of a metric without cells by every sum in every group; influences sum to 0."""
    sums = totals.blocks[0][1]
    if metric.proportion is not None:
        share, size = _share_and_size(metric, totals)
        of_hits = coefficients(metric.proportion.hits, totals)
        of_trials = coefficients(metric.proportion.trials, totals)
        slope = 1.0 if metric.proportion.slope is None else metric.proportion.slope(share)
        gradient = (of_hits - share[:, None] * of_trials) * (slope / size)[:, None]
        return np.where(size[:, None] > 0, gradient, 0.0)
    gradient = _gradient(metric, totals, sums)
    gradient = np.where(np.isfinite(gradient), gradient, 0.0)
    parts = gradient * np.stack([getattr(sums, name) for name in totals.names], -1)
    drift, size = parts.sum(1), np.abs(parts).sum(1)
    gradient[:, 0] -= np.where(np.abs(drift) > 1e-7 * size, drift / sums.n, 0.0)
    return gradient


def _general_terms(
    metric: Metric, table: Table, totals: Totals, place: Ints, alone: bool, errors: bool
) -> list[Term]:
    gradient = np.zeros((len(totals.group), len(totals.names)))
    if errors:
        gradient = _slopes(metric, table, totals, place)
    terms = []
    for of, chosen in by_sample(metric, totals.names):
        part = gradient * chosen
        influence = combined(part, place, table.sums)
        if alone:
            squares = influence**2
        elif table.moments is not None:
            squares = _moment_squares(table, part[place], influence)
        else:
            # A row counts in n and in one other sum at most: its square has a mixed part.
            mixed = part * (part + 2 * part[:, :1])
            mixed[:, 0] = part[:, 0] ** 2
            squares = combined(mixed, place, table.plain) * _weights(table) ** 2
        size = table.plain[:, of] if metric.counts else table.rows
        terms.append(Term(influence, squares, table.sums[:, of], size))
    return terms


def by_sample(metric: Metric, names: tuple[str, ...]) -> list[tuple[int, Floats]]:
    """Of every sample the place of its denominator, and which of the sums are its own (as 1)."""
    return [
        (names.index(denominator), np.array([float(name in members) for name in names]))
        for denominator, members in metric.sampled(names).items()
    ]


def _slopes(metric: Metric, table: Table, totals: Totals, place: Ints) -> Floats:
    """The slope of a metric by every sum in every group and cell; influences sum to 0."""
    names = totals.names
    if not totals.blocks:
        return np.zeros((0, len(names)))
    parts = [_gradient(metric, totals, sums) for _, sums in totals.blocks]
    gradient = np.concatenate([part.reshape(-1, len(names)) for part in parts])
    return _centred(np.where(np.isfinite(gradient), gradient, 0.0), table, totals, place)


def slopes_of_rows(metric: Metric, table: Table, slices: int) -> dict[str, Floats]:
    """What a row of one system adds to a metric by what it adds to each sum, by its cell.

    For every row of the table and sum; of a proportion to its ``hits`` and ``trials``, of others to
    the linearised metric, its ``influence``.
    """
    totals, place = _totals(metric, table, table.slice, slices)
    with np.errstate(divide="ignore", invalid="ignore"):
        if metric.proportion is not None:
            parts = {"hits": metric.proportion.hits, "trials": metric.proportion.trials}
            return {name: coefficients(part, totals)[place] for name, part in parts.items()}
        return {"influence": _slopes(metric, table, totals, place)[place]}


def _moment_squares(table: Table, gradient: Floats, influence: Floats) -> Floats:
    moments: Any = table.moments
    within = np.einsum("ri,rij,rj->r", gradient, moments, gradient)
    with np.errstate(over="ignore"):
        between = np.where(table.rows > 0, influence**2 / table.rows, 0.0)
    squares: Floats = within + between
    return squares


def _weights(table: Table) -> Floats:
    """The weight of the rows behind each row of the table."""
    weights: Floats = np.where(table.rows > 0, table.sums[:, 0] / table.plain[:, 0], 0.0)
    return weights


def coefficients(function: Any, totals: Totals) -> Floats:
    """The coefficients of a linear function of the sums, for every group and cell."""
    parts, names = [], totals.names
    for index, sums in totals.blocks:
        shape = tuple(len(values) for values in sums.classes)
        size = math.prod(shape) * len(names)
        basis = np.eye(size).reshape(size, *shape, len(names))
        unit = {name: basis[..., j] for j, name in enumerate(names)}
        values = np.asarray(function(Sums(unit, sums.classes)), float)
        parts.append(values.reshape(1, -1).repeat(len(index), 0).reshape(-1, len(names)))
    return np.concatenate(parts)


def _gradient(metric: Metric, totals: Totals, sums: Sums) -> Floats:
    shape = np.asarray(sums.n).shape
    if metric.gradient is None:
        return central_differences(metric.finish, totals.names, sums, metric.cells)
    given = metric.slopes(sums)
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
                sides.append(finish(Sums({"rows": sums.rows, **values, name: moved}, sums.classes)))
            result[(*at, j)] = (sides[0] - sides[1]) / (2 * step)
    return result


def _cell_indices(shape: tuple[int, ...], cells: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    return iter(np.ndindex(*shape[len(shape) - len(cells) :]))


def unit_starts(table: Table, group: Ints) -> Any:
    """Where the rows of every unit begin: the positions, or all of them as a slice."""
    if table.singles:
        return slice(None)
    new = np.ones(len(group), bool)
    new[1:] = (group[1:] != group[:-1]) | (table.unit[1:] != table.unit[:-1])
    return slice(None) if new.all() else np.flatnonzero(new)


def _sample(
    table: Table,
    term: Term,
    group: Ints,
    starts: Any,
    groups: int,
    alone: bool,
    *,
    counts: bool,
) -> Sample:
    """A term added up by unit; its denominator ``counts`` rows by their weights, or is any sum."""
    columns = [term.influence, term.denominator, term.size]
    columns += [term.denominator if counts else table.sums[:, 0]] if table.weighted else []
    if not isinstance(starts, slice):
        columns = [np.add.reduceat(values, starts) for values in columns]
    influence, denominator, size, *weights = columns
    unit_group = group[starts]
    # A class without rows in a slice has no shares of it.
    whole = added(unit_group, denominator, groups)
    share = denominator / spread(np.where(whole == 0, 1.0, whole), unit_group)
    none = np.zeros(groups)
    weight = np.where(size > 0, weights[0] / size, 0.0) if weights else 1.0
    if table.singles:
        each = np.where(size > 0, share / size, 0.0)
        return Sample(influence, term.squares, each, np.ones(len(size)), size, none, weight)
    count = (size > 0).astype(float)
    if alone:
        return Sample(influence, term.squares, share, size, count, none, weight)
    between = np.where(size > 0, influence**2 / size, 0.0)
    within = added(group, term.squares, groups) - added(unit_group, between, groups)
    within = np.maximum(within, 0.0)
    if table.times is not None:
        share, size, count = share / table.times, size / table.times, count * table.times
        return Sample(influence, influence**2 / table.times, share, size, count, within, weight)
    return Sample(influence, influence**2, share, size, count, within, weight)


def _centred(gradient: Floats, table: Table, totals: Totals, place: Ints) -> Floats:
    """The gradient shifted so that influences sum to 0, as they do by themselves for ratios."""
    group, groups = totals.group[place], totals.groups
    drift = added(group, combined(gradient, place, table.sums), groups)
    size = added(group, combined(np.abs(gradient), place, np.abs(table.sums)), groups)
    needed = np.abs(drift) > 1e-7 * size
    if not needed.any():
        return gradient
    weight = added(group, table.sums[:, 0], groups)
    shifted = gradient.copy()
    shifted[:, 0] -= np.where(needed, drift / weight, 0.0)[totals.group]
    return shifted
