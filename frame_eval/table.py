"""The small table that inference works on: sums by slice, system, unit and cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]


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
        return self._picked(lambda values: np.take(values, index, axis=0))

    def runs(self, starts: Ints, stops: Ints) -> Table:
        """The rows from each start to its stop, one run after the other."""
        bounds = list(zip(starts.tolist(), stops.tolist(), strict=True))
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
        order, key = in_order(packed(self.keys))
        table = self if order is None else self.take(order)
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
class Entries:
    """The rows behind ordered cells, where not all rows of a cell are alike.

    ``plain`` are the contributions of a row to each sum but ``n``, without its weight. Without
    ``cell`` every row is a cell of its own. ``unit`` is the position of a row's unit among
    ``units``, the groups and codes of them all in order.
    """

    cell: Ints | None
    unit: Ints | None
    units: tuple[Ints, Ints] | None
    weight: Floats | None
    plain: tuple[Floats, ...]


@dataclass(frozen=True)
class Ranked:
    """Sums of one metric over ordered cells, in the order of group (slice and system) and cell.

    The cells of ``groups[i]`` are those from ``edges[i]`` to ``edges[i + 1]``; groups without a
    cell do not appear, but have their count in ``missing``. ``sums`` has an array for each of the
    names, ``scores`` gives what is common to the rows of each cell. Without ``entries`` each row is
    a unit of its own, and the sums are counts.
    """

    names: tuple[str, ...]
    groups: Ints
    edges: Ints
    sums: tuple[Floats, ...]
    rows: Floats
    scores: Callable[[], Floats]
    missing: Floats
    entries: Entries | None

    @cached_property
    def by_cell(self) -> Floats:
        """The scores of the cells, made once."""
        return self.scores()

    @staticmethod
    def stacked(parts: Sequence[Ranked]) -> Ranked:
        """The cells of different groups one after the other."""
        first, join = parts[0], np.concatenate
        shift = np.cumsum([0, *(len(part.rows) for part in parts)])
        entries = None
        if first.entries is not None:
            found = [part.entries for part in parts if part.entries is not None]
            whole = [
                np.arange(len(p.rows)) if p.entries.cell is None else p.entries.cell
                for p in parts
                if p.entries is not None
            ]
            moved = [cell + by for cell, by in zip(whole, shift, strict=False)]
            units = [e.units for e in found if e.units is not None]
            before = np.cumsum([0, *(len(code) for _, code in units)])
            places = [e.unit for e in found if e.unit is not None]
            unit = [place + by for place, by in zip(places, before, strict=False)]
            weight = [e.weight for e in found if e.weight is not None]
            entries = Entries(
                join(moved),
                join(unit) if unit else None,
                (join([g for g, _ in units]), join([u for _, u in units])) if units else None,
                join(weight) if weight else None,
                tuple(map(join, zip(*(e.plain for e in found), strict=True))),
            )
        return Ranked(
            first.names,
            join([part.groups for part in parts]),
            join([[0], *(p.edges[1:] + by for p, by in zip(parts, shift, strict=False))]),
            tuple(map(join, zip(*(part.sums for part in parts), strict=True))),
            join([part.rows for part in parts]),
            lambda: join([part.scores() for part in parts]),
            np.sum([part.missing for part in parts], axis=0),
            entries,
        )


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
    return np.flatnonzero(there), (np.cumsum(there) - 1)[key]


def span(index: Ints) -> Any:
    """Sorted positions as a slice where they have no gap: picking then copies nothing."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(index[0], index[-1] + 1)
    return index


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


def in_order(key: Ints) -> tuple[Ints | None, Ints]:
    """The positions that sort keys (None where they are sorted), and the sorted keys."""
    if (key[1:] >= key[:-1]).all():
        return None, key
    size = int(key.max()) + 1
    if size <= 2 * len(key):
        # Where keys are dense and distinct, each has a place of its own: no need to sort.
        place = np.full(size, -1)
        place[key] = np.arange(len(key))
        there = np.flatnonzero(place >= 0)
        if len(there) == len(key):
            return place[there], there
    order = pl.Series(key).arg_sort().to_numpy()
    return order, key[order]


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
    ).merged()
