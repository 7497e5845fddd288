"""The small table that inference works on: sums by slice, system, unit and cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.errors import EvalError
from frame_eval.threads import concurrently, halves

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

# How the examples of two systems compare, as sums over examples say it.
COUNTED = ("apart", "differ", "higher", "lower", "ties", "both", "lonely")
Numbers = TypeVar("Numbers", bound=npt.NDArray[Any])

_FEW = 1000  # rows that are sorted before they are looked at


@dataclass(frozen=True)
class Table:
    """Sums of one metric, a row per (slice, system, unit, cell), sorted by these codes.

    ``sums`` and ``plain`` (the same without weights) are rows x names; ``moments`` are the centred
    second moments of the weighted contributions within each row of the table (rows x names x
    names), or None where they follow from the counts. A unit is a cluster, or with ``singles`` a
    set of rows that are each a unit of their own. ``strata`` has the stratum of every unit by code.
    With ``times`` a unit stands for so many units with equal sums, all of them added up.
    """

    names: tuple[str, ...]
    slice: Ints
    system: Ints
    unit: Ints
    cells: tuple[Ints, ...]
    classes: tuple[Any, ...]
    rows: Floats
    sums: Floats
    plain: Floats
    moments: Floats | None
    missing: Floats
    singles: bool
    weighted: bool
    strata: Ints | None = None
    times: Floats | None = None

    @property
    def keys(self) -> tuple[Ints, ...]:
        """The codes that identify a row, most significant first."""
        return (self.slice, self.system, self.unit, *self.cells)

    def take(self, index: Any) -> Table:
        """The chosen rows, by position or by a mask."""
        if index.dtype == bool:
            index = np.flatnonzero(index)
        # Several times faster than values[index] where rows are short.
        return self._picked(lambda values: _taken(values, index))

    def runs(self, starts: Ints, stops: Ints) -> Table:
        """The rows from each start to its stop, one run after the other."""
        runs = zip(starts.tolist(), stops.tolist(), strict=True)
        bounds = [(a, b) for a, b in runs if a < b] or [(0, 0)]
        if len(bounds) == 1:
            ((a, b),) = bounds
            return self._picked(lambda values: values[a:b])
        return self._picked(lambda values: np.concatenate([values[a:b] for a, b in bounds]))

    def _picked(self, pick: Any) -> Table:
        sums = pick(self.sums)
        return replace(
            self,
            slice=pick(self.slice),
            system=pick(self.system),
            unit=pick(self.unit),
            cells=tuple(map(pick, self.cells)),
            rows=pick(self.rows),
            sums=sums,
            plain=sums if self.plain is self.sums else pick(self.plain),
            moments=None if self.moments is None else pick(self.moments),
            missing=pick(self.missing),
            times=None if self.times is None else pick(self.times),
        )

    def emptied(self, where: Any) -> Table:
        """The same rows, those at ``where`` without anything in them."""
        keep = np.where(where, 0.0, 1.0)
        sums = self.sums * keep[:, None]
        return replace(
            self,
            rows=self.rows * keep,
            sums=sums,
            plain=sums if self.plain is self.sums else self.plain * keep[:, None],
            moments=None if self.moments is None else self.moments * keep[:, None, None],
        )

    def merged(self) -> Table:
        """Sorted by the codes, rows with equal codes added up."""
        if len(self.rows) > _FEW and _increasing(self.keys):
            return self
        sorting = Sorting(packed(self.keys))
        table, key = self if sorting.sorted else self.take(sorting.order), sorting.key
        new = np.ones(len(key), bool)
        new[1:] = key[1:] != key[:-1]
        if new.all():
            return table
        starts = np.flatnonzero(new)
        sums, plain, rows, missing = (
            np.add.reduceat(values, starts, axis=0)
            for values in (table.sums, table.plain, table.rows, table.missing)
        )
        moments = None
        if table.moments is not None:
            moments = _pooled_moments(table, starts, sums, rows)
        first = table.take(starts)
        return replace(first, sums=sums, plain=plain, rows=rows, missing=missing, moments=moments)

    def without(self, part: Table) -> Table:
        """The sums of this table less those of some of its rows, which may be of other codes.

        What is left is the group of slice 0; the codes of systems, units and cells tell what
        belongs to what.
        """
        less = replace(
            part,
            rows=-part.rows,
            sums=-part.sums,
            plain=-part.plain,
            moments=None if part.moments is None else -part.moments,
            missing=-part.missing,
        )
        tables = [replace(table, slice=np.zeros_like(table.slice)) for table in (self, less)]
        left = stacked(tables)
        # Sums that are all taken away leave their rounding.
        return left.emptied(left.rows <= 0)


@dataclass(frozen=True)
class Units:
    """The units of ranked rows, group after group.

    The codes of those of group i are ``code[edges[i]:edges[i + 1]]``; ``number`` says of some rows
    which of their group's each belongs to.
    """

    edges: Ints
    code: Ints
    number: Callable[[slice], Ints]


@dataclass(frozen=True)
class Part:
    """Rows in the order of group (slice and system) and score; those of one score are a cell.

    ``names`` are those of the sums. The cells of ``groups[i]`` are those from ``edges[i]`` to
    ``edges[i + 1]``; groups without a cell do not appear. ``starts`` has the first row of every
    cell, and the number of rows; it is None where every row is a cell. ``given`` says what rows
    contribute to a sum but ``"n"``, without their weight, and ``score`` the scores of rows. Sums of
    whole numbers are named in ``whole``. Without ``units`` each row is one. ``totals`` are those
    that have been asked for.
    """

    names: tuple[str, ...]
    groups: Ints
    edges: Ints
    starts: Ints | None
    given: Callable[[str, slice], npt.NDArray[Any]]
    score: Callable[[Any], Floats]
    weight: Floats | None
    units: Units | None
    whole: frozenset[str]

    totals: dict[Any, Any] = field(default_factory=dict)

    def rows(self, cells: slice) -> slice:
        """The rows of some cells."""
        if self.starts is None:
            return cells
        return slice(int(self.starts[cells.start]), int(self.starts[cells.stop]))

    def plain(self, name: str, rows: slice) -> npt.NDArray[Any]:
        """What rows contribute to a sum, without their weight; ``"rows"`` counts them too."""
        if name in ("n", "rows"):
            return np.ones(rows.stop - rows.start)
        return self.given(name, rows)

    def sums(self, name: str, cells: slice) -> Floats:
        """A sum at some cells."""
        counted = name == "rows" or (name == "n" and self.weight is None)
        if counted and self.starts is not None:
            return np.diff(self.starts[cells.start : cells.stop + 1]).astype(float)
        rows = self.rows(cells)
        values = self.plain(name, rows)
        if self.weight is not None and not counted:
            values = values * self.weight[rows]
        if self.starts is None:
            return values.astype(np.float64, copy=False)
        starts = self.starts[cells.start : cells.stop + 1] - rows.start
        if name not in self.whole:
            return np.add.reduceat(values, starts[:-1])
        # Differences of running sums are several times faster, and exact for whole numbers.
        running = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=running[1:])
        found: Floats = np.diff(running[starts]).astype(np.float64)
        return found

    def by_row(self, values: Floats, cells: slice) -> Floats:
        """What some cells have, for each of their rows."""
        if self.starts is None:
            return values
        return np.repeat(values, np.diff(self.starts[cells.start : cells.stop + 1]))

    def blocks(self, cells: slice, size: int) -> list[slice]:
        """Some cells in pieces of whole cells, of about so many rows each."""
        starts = np.arange(cells.start, cells.stop, size)
        if self.starts is not None:
            rows = self.rows(cells)
            at = np.searchsorted(
                self.starts[cells], np.arange(rows.start, rows.stop, size), side="right"
            )
            starts = np.unique(at - 1) + cells.start
        bounds = [*starts.tolist(), cells.stop]
        return [slice(a, b) for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class Ranked:
    """Sums of one metric over ordered cells, a part for each grouping set of the slices.

    ``missing`` counts the rows that were left out, for every group. With ``alike`` each row is a
    unit of its own, and the sums are counts.
    """

    names: tuple[str, ...]
    parts: tuple[Part, ...]
    missing: Floats
    alike: bool

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return any(part.weight is not None for part in self.parts)

    @property
    def singles(self) -> bool:
        """Whether each row is a unit of its own."""
        return all(part.units is None for part in self.parts)


@dataclass(frozen=True)
class Matched:
    """Systems that each have one row for every example, side by side.

    ``sums`` has by metric and name what every example contributes, systems x examples; 0/1 as int8.
    ``place`` says of every example which (slice, cluster) it belongs to, and ``slice`` and ``unit``
    have the codes of these, in order.
    """

    sums: tuple[dict[str, Any], ...]
    place: Ints
    slice: Ints
    unit: Ints


def _taken(values: Any, index: Ints) -> Any:
    """The rows of an array at some positions; columns that are in one piece stay so."""
    if values.ndim == 2 and values.flags.f_contiguous:
        return np.stack([np.take(column, index) for column in values.T]).T
    return np.take(values, index, axis=0)


def strata_of(unit: Ints, stratum: Ints, units: int) -> Ints:
    """The stratum of each of so many units, from those of rows; raise where one is in two."""
    strata = np.zeros(units, np.int64)
    strata[unit] = stratum
    torn = len(np.unique(unit[strata[unit] != stratum]))
    if torn:
        raise EvalError(f"{torn} units are in more than one stratum; a unit belongs to one")
    return strata


def keyed(high: Ints, low: Ints, size: int) -> Ints:
    """One integer for two codes, high x size + low."""
    if not high.any():
        return low
    key = high * size
    key += low
    return key


def bisected(below: Callable[[Ints], npt.NDArray[np.bool_]], length: int, count: int) -> Ints:
    """For each of so many searches the first position that is not below what it looks for.

    ``below`` says of a position for every search, all under ``length``, whether it is; those that
    are come first.
    """
    start, stop = np.zeros(count, np.int64), np.full(count, length)
    for _ in range(length.bit_length()):
        middle = (start + stop) // 2
        under = (start < stop) & below(np.minimum(middle, length - 1))
        start, stop = np.where(under, middle + 1, start), np.where(under, stop, middle)
    return start


def joined(parts: Sequence[Numbers]) -> Numbers:
    """Arrays one after the other; one alone as it is."""
    together: Any = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return together  # type: ignore[no-any-return]  # of the type of the parts


def numbered(key: Ints) -> tuple[Ints, Ints]:
    """The distinct values in order, and where among them each value is."""
    size = int(key.max(initial=0)) + 1
    if size > 4 * len(key) + 1000:
        found, place = np.unique(key, return_inverse=True)
        return found, place
    # Marking the keys that occur spares the sort where most of them do.
    there = np.zeros(size, bool)
    there[key] = True
    if there.all():
        return np.arange(size), key
    return np.flatnonzero(there), (np.cumsum(there) - 1).take(key)


def packed(keys: tuple[Ints, ...]) -> Ints:
    """One integer per row that sorts as the keys do, most significant first."""
    whole, size = keys[0], int(keys[0].max(initial=0)) + 1
    for key in keys[1:]:
        count = int(key.max(initial=0)) + 1
        if size == 1 or count == 1:
            whole = key if size == 1 else whole
            size *= count
            continue
        if size * count >= 2**62:
            # Too many combinations for the product: number those that occur.
            whole = np.unique(whole, return_inverse=True)[1]
            size = int(whole.max(initial=0)) + 1
        whole, size = whole * count + key, size * count
    return whole


def whole_kinds(matrix: Floats, keys: Sequence[Ints] = ()) -> tuple[Ints, int] | None:
    """The kind of every row, and how many kinds there are: rows of equal keys and numbers are one.

    Kinds are in the order of keys, then of columns. None where not all numbers are whole, and so
    exact.
    """
    if not (np.rint(matrix) == matrix).all() or np.abs(matrix).max(initial=0) >= 2**31:
        return None
    columns = [
        (column - column.min()).astype(np.int64)
        for column in matrix.T
        if column.min(initial=0) < column.max(initial=0)
    ]
    if not keys and not columns:
        return np.zeros(len(matrix), np.int64), min(len(matrix), 1)
    distinct, kind = numbered(packed((*keys, *columns)))
    return kind, len(distinct)


def _increasing(keys: tuple[Ints, ...]) -> bool:
    """Whether rows are in the order of their keys, most significant first, and no two alike."""
    rows = len(keys[0]) - 1
    falls = keys[-1][1:] <= keys[-1][:-1]
    for key in keys[:-1]:
        falls |= key[1:] < key[:-1]
    at = np.flatnonzero(falls)
    if len(at) > rows // 4 + 100:
        return False
    step = np.zeros(len(at), np.int64)
    for key in keys:
        step = np.where(step == 0, np.sign(key[at + 1] - key[at]), step)
    return bool((step > 0).all())


class Sorting:
    """The order of rows by their keys; ``key`` has them sorted."""

    key: Ints

    def __init__(self, key: Ints) -> None:
        self._given, self.key = key, key
        self._there: Any = None
        self.sorted = bool((key[1:] >= key[:-1]).all())
        if self.sorted:
            return
        size = int(key.max()) + 1
        if size <= 2 * len(key) + 1000:
            there = np.zeros(size, bool)
            put(there, key, True)
            self.key = np.flatnonzero(there)
            # Where keys are dense and distinct, each has a place of its own: no need to sort.
            if len(self.key) == len(key):
                self._there = there
                return
        self.key = key[self.order]

    @cached_property
    def order(self) -> Ints:
        """The positions that sort the rows."""
        if self._there is not None:
            placed: Ints = self(np.arange(len(self._given)))
            return placed
        order: Ints = pl.Series(self._given).arg_sort().to_numpy()
        return order

    def __call__(self, values: Any) -> Any:
        """An array of the rows, sorted."""
        if self.sorted:
            return values
        if self._there is None:
            return values[self.order]
        moved = np.empty(len(self._there), values.dtype)
        put(moved, self._given, values)
        return moved if len(moved) == len(values) else moved[self._there]


def put(target: Any, place: Ints, values: Any) -> None:
    """Put values, or one value, at some places; of several for one place, any."""

    def part(rows: slice) -> None:
        target[place[rows]] = values[rows] if isinstance(values, np.ndarray) else values

    concurrently([partial(part, rows) for rows in halves(len(place))], len(place))


def _pooled_moments(table: Table, starts: Ints, sums: Floats, rows: Floats) -> Floats:
    """Centred second moments of merged rows: within, plus between their means."""
    assert table.moments is not None
    sizes = np.diff(np.append(starts, len(table.rows)))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Rows that are taken away are negative, their means are not.
        means = np.where(table.rows[:, None] != 0, table.sums / table.rows[:, None], 0.0)
        centres = np.where(rows[:, None] > 0, sums / rows[:, None], 0.0)
    off = means - np.repeat(centres, sizes, axis=0)
    between = table.rows[:, None, None] * off[:, :, None] * off[:, None, :]
    pooled: Floats = np.add.reduceat(table.moments + between, starts, axis=0)
    return pooled


def apart(tables: Sequence[Table]) -> Table:
    """Tables of the same metric below one another, every row of them a unit of its own."""
    parts, units = [], 0
    for table in tables:
        parts.append(replace(table, unit=units + np.arange(len(table.rows))))
        units += len(table.rows)
    strata = [table.strata[table.unit] for table in tables if table.strata is not None]
    return replace(stacked(parts), strata=np.concatenate(strata) if strata else None)


def stacked(tables: list[Table]) -> Table:
    """Tables of the same metric below one another, merged."""
    if len(tables) == 1:
        return tables[0].merged()
    first = tables[0]
    join = np.concatenate
    moments = None
    if first.moments is not None:
        moments = join([t.moments for t in tables if t.moments is not None])
    return replace(
        first,
        slice=join([t.slice for t in tables]),
        system=join([t.system for t in tables]),
        unit=join([t.unit for t in tables]),
        cells=tuple(join(cells) for cells in zip(*(t.cells for t in tables), strict=True)),
        rows=join([t.rows for t in tables]),
        sums=join([t.sums for t in tables]),
        plain=join([t.plain for t in tables]),
        moments=moments,
        missing=join([t.missing for t in tables]),
        times=None if first.times is None else join([np.asarray(t.times) for t in tables]),
    ).merged()
