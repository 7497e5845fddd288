"""What is drawn from: distinct units with their sums, and the statistic of any draw of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from frame_eval.inference.linear import (
    Totals,
    central_differences,
    coefficients,
    combined,
    places,
    scattered,
)
from frame_eval.inference.resample import Draws
from frame_eval.metrics.core import Array, Metric, Sums, Term
from frame_eval.metrics.means import is_mean
from frame_eval.table import Floats, Ints, Table, keyed, numbered, whole_kinds

_LONGEST = 15  # neighbouring cells that are made one
_NARROW, _TALL = 4, 100  # the shape of matrices whose products wait for memory
_AT_ONCE = 2**18  # weights that are looked at together


@dataclass(frozen=True)
class Kinds:
    """The rows of a table as what can be drawn, sorted by group.

    A row has the ``vectors`` of one unit in one ``group`` and ``cell``; ``counts`` says how many
    units are like it. Where units are single rows, ``unit`` is None.
    """

    metric: Metric
    group: Ints
    unit: Ints | None
    cell: Ints
    classes: tuple[Any, ...]
    names: tuple[str, ...]
    vectors: Floats
    counts: Ints
    stratum: Ints | None = None

    def take(self, rows: Ints) -> Kinds:
        """Some of the rows."""
        return replace(
            self,
            group=self.group[rows],
            unit=None if self.unit is None else self.unit[rows],
            cell=self.cell[rows],
            vectors=self.vectors[rows],
            counts=self.counts[rows],
            stratum=None if self.stratum is None else self.stratum[rows],
        )


def kinds_of(
    metric: Metric, table: Table, totals: Totals, group: Ints, unit: Ints, strata: Ints | None
) -> Kinds:
    """What can be drawn from a table.

    ``group`` and ``unit`` are the group and the independent unit of its rows; ``strata`` is the
    stratum of every unit by code.
    """
    names: tuple[str, ...] = table.names
    vectors, classes = table.sums, table.classes
    cell = places(table, np.zeros(len(group), np.int64))
    if metric.proportion is not None:
        at = places(table, group)
        functions = (metric.proportion.hits, metric.proportion.trials)
        columns = [combined(coefficients(f, totals), at, table.sums) for f in functions]
        names, vectors, classes = ("hits", "trials"), np.stack(columns).T, ()
        cell = np.zeros(len(group), np.int64)
    chosen, counts = np.arange(len(group)), np.ones(len(group), np.int64)
    sizes = table.rows
    if table.singles:
        chosen, vectors, counts = _alike(metric, table, vectors)
        there = np.flatnonzero(counts)
        chosen, vectors, counts = chosen[there], vectors[there], counts[there]
        sizes = np.ones(len(there))
    elif table.times is not None:
        vectors, sizes = vectors / table.times[:, None], table.rows / table.times
        counts = np.rint(table.times).astype(np.int64)
    if table.weighted and metric.proportion is None:
        names, vectors = (*names, "rows"), np.column_stack([vectors, sizes])
    return Kinds(
        metric,
        group[chosen],
        None if table.singles else unit,
        cell[chosen],
        classes,
        names,
        vectors,
        counts,
        None if strata is None else strata[unit[chosen]],
    )


def by_unit(kinds: Kinds) -> Kinds:
    """The rows of each unit, group and cell added up."""
    if kinds.unit is None:
        return kinds
    units, cells = int(kinds.unit.max(initial=0)) + 1, int(kinds.cell.max(initial=0)) + 1
    key = keyed(kinds.group, kinds.unit, units)
    key = keyed(key, kinds.cell, cells) if cells > 1 else key
    distinct, place = numbered(key)
    if len(distinct) == len(key):
        return kinds
    unit = distinct // cells % units
    counts = np.empty(len(distinct), np.int64)
    counts[place] = kinds.counts
    stratum = None
    if kinds.stratum is not None:
        stratum = np.zeros(units, np.int64)
        stratum[kinds.unit] = kinds.stratum
        stratum = stratum[unit]
    return replace(
        kinds,
        group=distinct // (cells * units),
        unit=unit,
        cell=distinct % cells,
        vectors=np.stack([scattered(place, column, len(distinct)) for column in kinds.vectors.T]).T,
        counts=counts,
        stratum=stratum,
    )


def interleaved(first: Kinds, second: Kinds) -> Kinds:
    """What can be drawn of two tables together: groups i become 2 i and 2 i + 1."""

    def join(x: Any, y: Any) -> Any:
        return None if x is None or y is None else np.concatenate([x, y])

    group = np.concatenate([2 * first.group, 2 * second.group + 1])
    both = replace(
        first,
        group=group,
        unit=join(first.unit, second.unit),
        cell=join(first.cell, second.cell),
        vectors=join(first.vectors, second.vectors),
        counts=join(first.counts, second.counts),
        stratum=join(first.stratum, second.stratum),
    )
    if (group[1:] >= group[:-1]).all():
        return both
    return both.take(np.argsort(group, kind="stable"))


def _alike(metric: Metric, table: Table, vectors: Floats) -> tuple[Ints, Floats, Ints]:
    """The kinds of single rows behind rows of a table: which row, their sums, how many.

    Sums that count disjoint sets of rows say it themselves: some rows are in the one, some in the
    other, the rest in none. Otherwise the rows of the table are alike already.
    """
    size = len(table.rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(table.rows > 0, table.sums[:, 0] / table.plain[:, 0], 0.0)
        if metric.proportion is not None:
            hits, trials = np.where(weight > 0, vectors.T / weight, 0.0)
            pairs = [((1, 1), hits), ((0, 1), trials - hits), ((0, 0), table.rows - trials)]
        elif metric.counts:
            others = table.plain[:, 1:]
            eye = np.eye(len(table.names))
            pairs = [(tuple(eye[0] + eye[j + 1]), column) for j, column in enumerate(others.T)]
            pairs.append((tuple(eye[0]), table.rows - others.sum(1)))
        else:
            each = np.where(table.rows[:, None] > 0, vectors / table.rows[:, None], 0.0)
            return np.arange(size), each, np.rint(table.rows).astype(np.int64)
    chosen = np.repeat(np.arange(size), len(pairs))
    basis = np.array([kind for kind, _ in pairs], float)
    counts = np.stack([count for _, count in pairs], -1)
    each = (weight[:, None, None] * basis).reshape(-1, basis.shape[1])
    return chosen, each, np.rint(counts).astype(np.int64).ravel()


class Urn:
    """Units of some groups that are drawn together, and the statistic of any weights of them.

    ``counts`` says how many units there are of each kind, ``strata`` from which stratum they are.
    """

    counts: Ints
    strata: Ints | None

    def value(self, weights: Array) -> Floats:
        """The statistic of every group (columns) under each row of weights of the kinds."""
        raise NotImplementedError

    def replicates(self, draws: Draws) -> Floats:
        """The statistic of every group (columns) in every resample (rows)."""
        return np.concatenate(draws.each(self.value, self.counts, self.strata))

    def jackknife(self) -> Floats:
        """The statistic of every group (columns) without one unit of each kind (rows)."""
        raise NotImplementedError

    def exchangeable(self) -> Callable[[Floats], Floats]:
        """From how many units of each kind exchange their two groups to the statistic of both."""
        raise NotImplementedError

    def combined(self, coefficients: Floats) -> tuple[Urn, Floats]:
        """An urn that has the same linear combination of groups more cheaply, and its weights."""
        return self, coefficients


class Additive(Urn):
    """Few sums per unit: those of a draw are one product with the matrix of the units' sums.

    ``shape`` is that of the sums of one unit, groups first; ``finish`` turns arrays of this shape,
    with leading axes, into values.
    """

    def __init__(
        self,
        matrix: Floats,
        counts: Ints,
        strata: Ints | None,
        shape: tuple[int, ...],
        finish: Callable[[Floats], Floats],
    ) -> None:
        # A product with few columns is twice as fast where each of them is in one piece.
        self.matrix, self.counts, self.strata = np.asfortranarray(matrix), counts, strata
        self.shape, self.finish = shape, finish

    def value(self, weights: Array) -> Floats:
        """The statistic of every group (columns) under each row of weights of the kinds."""
        return self.of_totals(_product(weights, self.matrix))

    def of_totals(self, totals: Floats) -> Floats:
        """The statistic of every group (columns) for rows of sums."""
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.finish(totals.reshape(len(totals), *self.shape))
        return np.where(np.isfinite(values), values, np.nan)

    def jackknife(self) -> Floats:
        """The statistic of every group (columns) without one unit of each kind (rows)."""
        return self.of_totals(self.counts @ self.matrix - self.matrix)

    def exchangeable(self) -> Callable[[Floats], Floats]:
        """From how many units of each kind exchange their two groups to the statistic of both."""
        total = self.counts @ self.matrix
        other = self.matrix.reshape(len(self.counts), 2, -1)[:, ::-1].reshape(self.matrix.shape)
        change = np.asfortranarray(other - self.matrix)
        return lambda swaps: self.of_totals(total + _product(swaps, change))

    def combined(self, coefficients: Floats) -> tuple[Urn, Floats]:
        """The urn of a linear combination of groups, its units made as few kinds as there are.

        Of shares of the same rows the units have one numerator and one denominator, so that many
        more of them are alike.
        """
        matrix, shape = self.matrix, self.shape
        if self.finish is _ratio and len(shape) == 2 and len(coefficients) > 1:
            over, under = np.moveaxis(matrix.reshape(len(self.counts), *shape), -1, 0)
            if (under == under[:, :1]).all():
                matrix, shape = np.stack([over @ coefficients, under[:, 0]], -1), (1, 2)
                coefficients = np.ones(1)
        merged = _merged(matrix, self.counts, self.strata)
        return Additive(*merged, shape, self.finish), coefficients


def _product(weights: Array, matrix: Floats) -> Floats:
    """The matrix product of small integers with sums."""
    kinds, sums = matrix.shape
    if sums <= _NARROW and kinds >= _TALL:
        # Quick enough to wait for memory alone, where the threads of BLAS would wait for ours.
        return np.asarray(np.einsum("rk,kc->rc", weights, matrix), float)
    return np.asarray(weights @ matrix, float)


def _ratio(sums: Floats) -> Floats:
    ratio: Floats = sums[..., 0] / sums[..., 1]
    return ratio


def _additive(kinds: Kinds, part: Ints, parts: int, *, merged: bool) -> Additive:
    sizes = [len(values) for values in kinds.classes]
    unit, counts, strata = _units(kinds)
    vectors, names = kinds.vectors, kinds.names
    if is_mean(kinds.metric):
        vectors = vectors[:, [names.index("x"), names.index("n")]]
        names = ("x", "n")
    shape = (parts, *sizes, len(names))
    size = len(counts) * math.prod(shape[:-1])
    place = (unit * parts + part) * math.prod(sizes) + kinds.cell
    columns = [scattered(place, column, size) for column in vectors.T]
    matrix = np.stack(columns, -1).reshape(len(counts), -1)
    if merged:
        matrix, counts, strata = _merged(matrix, counts, strata)
    return Additive(matrix, counts, strata, shape, _finish_of(kinds.metric, names, kinds.classes))


def _finish_of(
    metric: Metric, names: tuple[str, ...], classes: tuple[Any, ...]
) -> Callable[[Floats], Floats]:
    """The metric as a function of an array whose last axis holds the sums, cells before it."""
    if is_mean(metric):
        return _ratio
    if metric.proportion is not None:
        shown = metric.proportion.map
        return _ratio if shown is None else lambda sums: np.asarray(shown(_ratio(sums)), float)

    def finish(sums: Floats) -> Floats:
        named = {name: sums[..., j] for j, name in enumerate(names)}
        return np.asarray(metric.finish(Sums({"rows": named["n"], **named}, classes)), float)

    return finish


class Ranked(Urn):
    """Sums over many ordered cells: weights are carried to the sorted cells, without a sort."""

    def __init__(self, kinds: Kinds, part: Ints, parts: int) -> None:
        if kinds.unit is None:
            kinds, part = _in_runs(kinds, part)
        self.kinds, self.part = kinds, part
        unit, self.counts, self.strata = _units(kinds)
        self.parts = []
        for number in range(parts):
            chosen = np.flatnonzero(part == number)
            order = chosen[np.argsort(kinds.cell[chosen], kind="stable")]
            self.parts.append(_Part(kinds, unit[order], order))

    def value(self, weights: Array) -> Floats:
        """The statistic of every group (columns) under each row of weights of the kinds."""
        values = np.full((len(weights), len(self.parts)), np.nan)
        # Few long rows at a time stay in the cache, and numpy lets other threads run meanwhile.
        size = max(1, _AT_ONCE // weights.shape[1])
        blocks = [weights[i : i + size] for i in range(0, len(weights), size)]
        for number, part in enumerate(self.parts):
            if len(part.unit):
                with np.errstate(divide="ignore", invalid="ignore"):
                    found = [self.kinds.metric.finish(_Drawn(part, block)) for block in blocks]
                values[:, number] = np.hstack(found)
        return np.where(np.isfinite(values), values, np.nan)

    def jackknife(self) -> Floats:
        """The statistic without one unit of each kind, to first order: one pass, no n^2."""
        every = self.counts.astype(float)
        values = np.repeat(self.value(every[None]), len(every), axis=0)
        metric, names = self.kinds.metric, self.kinds.names
        for number, part in enumerate(self.parts):
            if not len(part.unit):
                continue
            sums = _Drawn(part, every)
            if metric.gradient is None:
                slopes = central_differences(metric.finish, names, sums, metric.cells).T
            else:
                given, zero = metric.slopes(sums), np.zeros(len(part.starts))
                slopes = np.stack([given.get(name, zero) for name in names])
            lengths = np.diff(np.append(part.starts, len(part.unit)))
            effect = (np.repeat(slopes, lengths, axis=1) * part.vectors.T).sum(0)
            values[:, number] -= np.bincount(part.unit, effect, len(every))
        return values

    def exchangeable(self) -> Callable[[Floats], Floats]:
        """From how many units of each kind exchange their two groups to the statistic of both."""
        kinds, units = self.kinds, len(self.counts)
        unit, part = _units(kinds)[0], self.part
        both = replace(
            kinds,
            unit=np.concatenate([unit, unit + units]),
            group=np.concatenate([kinds.group] * 2),
            cell=np.concatenate([kinds.cell] * 2),
            vectors=np.concatenate([kinds.vectors] * 2),
            counts=np.concatenate([kinds.counts] * 2),
            stratum=None,
        )
        doubled = Ranked(both, np.concatenate([part, 1 - part]), 2)
        return lambda swaps: doubled.value(np.hstack([self.counts - swaps, swaps]))


def _in_runs(kinds: Kinds, part: Ints) -> tuple[Kinds, Ints]:
    """Single rows with like ones of neighbouring cells made one kind, in order of their cells.

    That is where the metric allows it, and where cells have rows of one kind only.
    """
    order = np.lexsort((kinds.cell, part))
    part, cell, vectors = part[order], kinds.cell[order], kinds.vectors[order]
    stratum = None if kinds.stratum is None else kinds.stratum[order]
    new = np.ones(len(order), bool)
    if kinds.metric.runs:
        same = (part[1:] == part[:-1]) & (vectors[1:] == vectors[:-1]).all(1)
        if stratum is not None:
            same &= stratum[1:] == stratum[:-1]
        mixed = np.zeros(len(order) + 1, bool)
        mixed[1:-1] = (part[1:] == part[:-1]) & (cell[1:] == cell[:-1])
        mixed = mixed[1:] | mixed[:-1]
        new[1:] = ~same | mixed[1:] | mixed[:-1]
        first = np.flatnonzero(new)
        at = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        # Kinds of few sizes are drawn faster.
        new |= at % _LONGEST == 0
    starts = np.flatnonzero(new)
    counts = np.add.reduceat(kinds.counts[order], starts)
    # Those that have some of the same sums lie side by side, to be taken without a copy.
    by_sums = np.lexsort((cell[starts], *(vectors[starts] != 0).T, part[starts]))
    chosen = starts[by_sums]
    merged = replace(
        kinds,
        group=kinds.group[order][chosen],
        cell=cell[chosen],
        vectors=vectors[chosen],
        counts=counts[by_sums],
        stratum=None if stratum is None else stratum[chosen],
    )
    return merged, part[chosen]


class _Part:
    """The rows of one group in the order of their cells, which begin at ``starts``.

    ``unit`` is the kind of unit of every row. ``where`` has by name the rows that have some of a
    sum, ``kind`` their kinds of units and ``filled`` how much they have; None where it is 1 in each
    of them. ``alone`` says whether every row is a cell.
    """

    def __init__(self, kinds: Kinds, unit: Ints, order: Ints) -> None:
        cell = kinds.cell[order]
        self.unit, self.vectors = unit, kinds.vectors[order]
        self.starts = np.flatnonzero(np.diff(cell, prepend=-1))
        self.classes = (kinds.classes[0][cell[self.starts]],)
        self.alone = len(self.starts) == len(unit)
        columns = dict(zip(kinds.names, self.vectors.T, strict=True))
        columns.setdefault("rows", columns["n"])
        self.where = {name: np.flatnonzero(column) for name, column in columns.items()}
        self.kind = {name: _as_slice(unit[rows]) for name, rows in self.where.items()}
        filled = {name: column[self.where[name]] for name, column in columns.items()}
        # What is 1 in every row is not multiplied with.
        self.filled = {k: None if (column == 1).all() else column for k, column in filled.items()}
        self._known: dict[Any, Any] = {}

    def before(self, name: str, of: str, *, inclusive: bool) -> Ints:
        """How many rows have some of a sum before (or up to) each row that has some of another."""
        side: Any = "right" if inclusive else "left"
        found: Ints = self._once(
            (name, of, side), lambda: np.searchsorted(self.where[name], self.where[of], side)
        )
        return found

    def apart(self, name: str, of: str) -> bool:
        """Whether no row has some of both sums."""
        found: bool = self._once(
            (name, of), lambda: len(np.intersect1d(self.where[name], self.where[of])) == 0
        )
        return found

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


class _Drawn(Sums):
    """The sums by cell for weights of the kinds, with any leading axes; made when asked for."""

    _part: _Part
    _weights: Array
    _filled: dict[str, Array]

    def __init__(self, part: _Part, weights: Array) -> None:
        super().__init__({}, part.classes)
        self.__dict__.update(_part=part, _weights=weights, _filled={})

    def __getattr__(self, name: str) -> Floats:
        part = self._part
        if name not in part.where:
            return super().__getattr__(name)  # type: ignore[no-any-return]  # raises
        sums = np.zeros((*self._weights.shape[:-1], len(part.unit)))
        sums[..., part.where[name]] = self.filled(name)
        if not part.alone:
            sums = np.add.reduceat(sums, part.starts, axis=-1)
        self.__dict__[name] = sums
        return sums

    def filled(self, name: str) -> Array:
        """A sum at the rows that have some of it; whole numbers where they are weights alone."""
        if name not in self._filled:
            kind, column = self._part.kind[name], self._part.filled[name]
            if isinstance(kind, slice):
                drawn = self._weights[..., kind]
            else:
                drawn = np.take(self._weights, kind, axis=-1)
            self._filled[name] = drawn.astype(np.int64) if column is None else drawn * column
        return self._filled[name]

    def total(self, term: Term) -> Any:
        """The sum of a term over all cells."""
        if isinstance(term, str):
            return self.filled(term).sum(-1).astype(float)
        return super().total(term)

    def dot(self, left: Term, right: Term) -> Any:
        """The sum of a product of terms over all cells."""
        if not (isinstance(left, str) and self._part.alone):
            return super().dot(left, right)
        there = _There(self._part, self, left)
        return np.einsum("...k,...k->...", there.by_cell(left), there.by_cell(right))


class _There(Sums):
    """The sums of draws at the cells that have some of one sum, where every row is a cell."""

    _part: _Part
    _drawn: _Drawn
    _of: str

    def __init__(self, part: _Part, drawn: _Drawn, of: str) -> None:
        super().__init__({}, (part.classes[0][part.where[of]],))
        self.__dict__.update(_part=part, _drawn=drawn, _of=of)

    def __getattr__(self, name: str) -> Floats:
        part, of = self._part, self._of
        if name == of:
            return self._drawn.filled(name).astype(float)
        if name in part.where and part.apart(name, of):
            return np.zeros(1)
        return np.take(getattr(self._drawn, name), part.where[of], axis=-1)

    def from_bottom(self, term: Term) -> Array:
        """The sum of a term over the cells up to each, inclusive."""
        part, of = self._part, self._of
        if not isinstance(term, str):
            return np.take(self._drawn.from_bottom(term), part.where[of], axis=-1)
        running = _running(self._drawn.filled(term))
        return np.take(running, part.before(term, of, inclusive=True), axis=-1)

    def from_top(self, term: Term) -> Array:
        """The sum of a term over the cells from the highest down to each, inclusive."""
        part, of = self._part, self._of
        if not isinstance(term, str):
            return np.take(self._drawn.from_top(term), part.where[of], axis=-1)
        running = _running(self._drawn.filled(term)[..., ::-1])[..., ::-1]
        return np.take(running, part.before(term, of, inclusive=False), axis=-1)


def _as_slice(index: Ints) -> Ints | slice:
    """Positions that follow one another as a slice, which takes them without a copy."""
    if len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def _running(values: Array) -> Array:
    """The sums of none, one, two, ... of the values."""
    running = np.zeros((*values.shape[:-1], values.shape[-1] + 1), values.dtype)
    np.cumsum(values, axis=-1, out=running[..., 1:])
    return running


def _units(kinds: Kinds) -> tuple[Ints, Ints, Ints | None]:
    """The position of the unit of every row, how many units are like it, and their strata."""
    if kinds.unit is None:
        return np.arange(len(kinds.counts)), kinds.counts, kinds.stratum
    codes, unit = numbered(kinds.unit)
    counts, strata = np.empty(len(codes), np.int64), None
    counts[unit] = kinds.counts
    if kinds.stratum is not None:
        strata = np.zeros(len(codes), np.int64)
        strata[unit] = kinds.stratum
    return unit, counts, strata


def _merged(matrix: Floats, counts: Ints, strata: Ints | None) -> tuple[Floats, Ints, Ints | None]:
    """Units with equal sums made one kind, where the sums are whole numbers and so exact."""
    found = whole_kinds(matrix, [] if strata is None else [strata])
    if found is None:
        return matrix, counts, strata
    place, kinds = found
    first = np.empty(kinds, np.int64)
    first[place] = np.arange(len(place))  # of units that are alike, any
    together = np.bincount(place, counts, len(first)).astype(np.int64)
    return matrix[first], together, None if strata is None else strata[first]


def urn(kinds: Kinds, groups: Sequence[int], *, together: bool = False, merged: bool = True) -> Urn:
    """The urn of the units that some groups have.

    Each group is a column of its values; or, with ``together``, all of them are one. Without
    ``merged`` each unit stays a kind of its own, in the order of its code.
    """
    spans = [np.searchsorted(kinds.group, [group, group + 1]) for group in groups]
    rows = np.concatenate([np.arange(a, b) for a, b in spans])
    part = np.repeat(np.arange(len(groups)), [b - a for a, b in spans])
    chosen = kinds if len(rows) == len(kinds.group) else kinds.take(rows)
    parts = len(groups)
    if together:
        part, parts = np.zeros_like(part), 1
    if kinds.metric.ordered:
        return Ranked(chosen, part, parts)
    return _additive(chosen, part, parts, merged=merged)
