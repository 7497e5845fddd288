"""Totals of groups of rows that Polars reads in batches, in memory that grows with groups alone.

Groups are told apart by two words of hash of their keys: one leads to a place in a table, the other
is compared there. Two of a million groups are taken for one in one of 10^13 questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from threading import Lock
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.running import shown
from frame_eval.table import Floats, Ints
from frame_eval.threads import consumed

_BATCH = 1 << 18  # rows that are read at once
_ROOM = 1 << 16  # for groups, before there are more
_SPARSE = 16  # places in the table for every group, at least
_HASHES = ("__fe_word", "__fe_check")
_COLUMNS = {"rows": 1, "sum": 1, "variance": 4}

Words: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Total:
    """What is asked of a group: how many rows it has, or of an expression the sum or variance."""

    name: str
    kind: Literal["rows", "sum", "variance"]
    of: Any = None

    def aggregate(self, words: Any) -> Any:
        """What engines take that group rows themselves, in the words of the expression."""
        if self.kind == "rows":
            return words.len().alias(self.name)
        found = self.of.sum() if self.kind == "sum" else self.of.var(ddof=0)
        return found.alias(self.name)


class TooManyGroups(Exception):
    """More groups would leave an engine than the memory holds."""


def totals_of(
    frame: Any,
    keys: Sequence[str],
    totals: Sequence[Total],
    most: int | None = None,
) -> pl.DataFrame:
    """The totals of every combination of the keys; raises for more than ``most`` of them."""
    numbers = [one.of.alias(one.name) for one in totals if one.kind != "rows"]
    asked: pl.LazyFrame = nw.to_native(frame.select(*keys, *numbers), pass_through=True)
    of_kind = {kind: [one.name for one in totals if one.kind == kind] for kind in _COLUMNS}
    hashed = asked.with_columns(
        pl.col(of_kind["variance"]).cast(pl.Float64),
        _hash(keys, 0).alias("__fe_word"),
        # The last bit is set, so that no group looks like an empty place.
        (_hash(keys, len(keys)) | 1).alias("__fe_check"),
    )
    groups, sums = _Groups(), _Sums(totals)
    names = {0: asked.select(keys).clear().collect()}

    def added(batch: pl.DataFrame) -> None:
        number, first, new = groups.number(*(batch[name].to_numpy() for name in _HASHES))
        if len(new):
            names[first] = batch.select(keys)[new]
        if most is not None and groups.count > most:
            raise TooManyGroups
        sums.add(groups.room, number, batch)

    batches = hashed.collect_batches(chunk_size=_BATCH, maintain_order=False, engine="streaming")
    consumed(added, shown(batches, "rows read", rows=_BATCH))
    named = pl.concat([names[first] for first in sorted(names)])
    return named.with_columns(sums.result(groups.count))


def _hash(keys: Sequence[str], seed: int) -> pl.Expr:
    hashes = (pl.col(key).hash(seed + i) for i, key in enumerate(keys))
    return reduce(add, hashes)


class _Groups:
    """Numbers, from 1, of the groups of rows that are met, by several threads."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = Lock()
        self.word, self.claims = np.zeros(_ROOM, np.uint64), np.empty(_ROOM, np.int32)
        # By place the number of a group, and by number its check: looked at together.
        self.table = np.zeros(_SPARSE * _ROOM, np.int32), np.zeros(_ROOM, np.uint64)

    @property
    def room(self) -> int:
        """One more than the largest number that there can be for now."""
        return len(self.word)

    def number(self, word: Words, check: Words) -> tuple[Ints, int, Ints]:
        """The numbers of the groups of some rows; the first new number, and new groups' rows."""
        number, unknown = self._looked_up(word, check)
        if not len(unknown):
            return number, 0, unknown
        new = list[Ints]()
        with self.lock:
            first = self.count + 1
            # Most are of few groups: room for all of them would be too much.
            for start in range(0, len(unknown), _ROOM):
                rows = unknown[start : start + _ROOM]
                number[rows], added = self._sought(word[rows], check[rows])
                new.append(rows[added])
        return number, first, np.concatenate(new)

    def _looked_up(self, word: Words, check: Words) -> tuple[Ints, Ints]:
        """The numbers of the groups of some rows, 0 for new groups; and the rows of these."""
        places, checks = self.table
        place = _start(word, places)
        # Of all modes this one is the fastest; no place is outside the table.
        number = places.take(place, mode="wrap").astype(np.int64)
        other = np.flatnonzero(checks.take(number, mode="wrap") != check)
        left = other.take(np.flatnonzero(number.take(other)))
        place, check = place.take(left), check.take(left)
        while len(left):
            place = (place + 1) & (len(places) - 1)
            found = places.take(place)
            number[left] = found
            wrong = np.flatnonzero((found > 0) & (checks.take(found) != check))
            left, place, check = left.take(wrong), place.take(wrong), check.take(wrong)
        return number, other.take(np.flatnonzero(number.take(other) == 0))

    def _sought(self, word: Words, check: Words) -> tuple[Ints, Ints]:
        """The numbers of groups, looked for from place to place; which rows were new ones."""
        while self.count + len(word) >= self.room:
            self._grow()
        places, checks = self.table
        number, place = np.zeros(len(word), np.int64), _start(word, places)
        left, new = np.arange(len(word)), np.zeros(0, np.int64)
        while len(left):
            found = places.take(place)
            free = np.flatnonzero(found == 0)
            if len(free):
                # Of the rows that want a place one gets it; others may claim it in its stead.
                rows, claim = left[free], place[free] % len(self.claims)
                self.claims[claim] = rows
                got = free[self.claims[claim] == rows]
                rows = left[got]
                added = np.arange(len(rows)) + self.count + 1
                checks[added], self.word[added] = check[rows], word[rows]
                places[place[got]] = added
                self.count += len(rows)
                new = np.append(new, rows)
                found = places.take(place)
            number[left] = found
            other = np.flatnonzero(checks.take(found) != check[left])
            left, place = left[other], (place[other] + (found[other] > 0)) % len(places)
        return number, new

    def _grow(self) -> None:
        """Have room for twice as many."""
        self.word = _wider(self.word, 2 * self.room)
        places = np.zeros(_SPARSE * self.room, np.int32)
        left = np.arange(1, self.count + 1)
        place = _start(self.word[left], places)
        while len(left):
            free = places[place] == 0
            places[place[free]] = left[free]
            lost = places[place] != left
            left, place = left[lost], (place[lost] + 1) % len(places)
        self.table = places, _wider(self.table[1], self.room)


def _start(word: Words, places: npt.NDArray[Any]) -> Ints:
    """The place where a group is looked for first."""
    bits = (len(places) - 1).bit_length()
    return (word >> np.uint64(64 - bits)).view(np.int64)


def _wider(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """With zeros at the end of the last axis."""
    grown = np.zeros((*array.shape[:-1], room), array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown


class _Sums:
    """What is added up for every group, by several threads."""

    def __init__(self, totals: Sequence[Total]) -> None:
        self.totals = totals
        self.lock = Lock()
        self.sums = {one.name: np.zeros((_COLUMNS[one.kind], 0)) for one in totals}

    def add(self, room: int, number: Ints, batch: pl.DataFrame) -> None:
        """Add the values of some rows to the sums of their groups."""
        with self.lock:
            for name, sums in self.sums.items():
                if sums.shape[1] < room:
                    self.sums[name] = _wider(sums, room)
        for one in self.totals:
            if one.kind == "variance":
                with self.lock:
                    _add_around(self.sums[one.name], number, batch[one.name].to_numpy())
                continue
            values = None
            if one.kind == "sum":
                column = batch[one.name]
                values = (column.fill_null(0) if column.null_count() else column).to_numpy()
                if not values.any():
                    continue
            self._add(one.name, number, values, few=room <= 2 * len(number))

    def _add(self, name: str, number: Ints, values: Any, *, few: bool) -> None:
        """Add a number for every row to the sums of a name, 1 unless values are given."""
        if few:
            # Other than adding in place this lets the other threads work.
            some = np.bincount(number, values)
            with self.lock:
                self.sums[name][0, : len(some)] += some
        else:
            ones = 1.0 if values is None else values.astype(float)
            with self.lock:
                np.add.at(self.sums[name][0], number, ones)

    def result(self, groups: int) -> list[pl.Series]:
        """The totals of the groups from 1 to this number."""
        found = []
        for one in self.totals:
            sums = self.sums[one.name][:, 1 : groups + 1]
            found.append(pl.Series(one.name, _variance(sums) if len(sums) > 1 else sums[0]))
        return found


def _add_around(sums: Floats, number: Ints, values: Any) -> None:
    """Add up values (null: NaN) and their squares, both from the first one of the group."""
    first, count, total, squares = sums
    there = ~np.isnan(values)
    if not there.all():
        number, values = number[there], values[there]
    new = count.take(number) == 0
    first[number[new]] = values[new]
    off = values - first.take(number)
    np.add.at(count, number, 1.0)
    np.add.at(total, number, off)
    np.add.at(squares, number, off * off)


def _variance(sums: Floats) -> Floats:
    """The mean square around the mean, of sums around the first value."""
    _, count, total, squares = sums
    count = np.maximum(count, 1.0)
    found: Floats = np.maximum(squares - total * total / count, 0.0) / count
    return found
