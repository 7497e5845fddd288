"""Sums over the ordered cells of a group, worked on block by block where they are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from frame_eval.inference.linear import scattered
from frame_eval.metrics.core import Array, Sums, Term
from frame_eval.table import Floats, Ints, Part, Ranked
from frame_eval.threads import Result, at_once, spread_out

_SPARE = 1 << 13  # empty cells that take less time than to work on another group alone


class Group:
    """The cells of a group, in blocks of so many that their sums stay in the cache."""

    def __init__(self, part: Part, position: int) -> None:
        self.part = part
        self.position = position
        self.span = slice(int(part.edges[position]), int(part.edges[position + 1]))
        self._known: dict[Any, Any] = {}

    @cached_property
    def spans(self) -> list[slice]:
        """Its cells, block by block."""
        rows = self.rows
        return self.part.blocks(self.span, at_once(rows.stop - rows.start))

    @property
    def rows(self) -> slice:
        """The rows of the group."""
        return self.part.rows(self.span)

    @property
    def units(self) -> Ints | None:
        """The codes of its units; None where each row is one."""
        units = self.part.units
        if units is None:
            return None
        return units.code[units.edges[self.position] : units.edges[self.position + 1]]

    @cached_property
    def _number(self) -> Ints | None:
        """Which of the units each row belongs to."""
        units = self.part.units
        return None if units is None else units.number(self.rows)

    def by_unit(self, values: Floats) -> Floats:
        """What rows have, added up by unit."""
        if self.units is None or self._number is None:
            return values
        return scattered(self._number, values, len(self.units))

    @property
    def sums(self) -> Sums:
        """All cells, as the functions of a metric see them."""
        return _Whole(self)

    @cached_property
    def _first(self) -> Block:
        return Block(self, 0)

    def each(self, function: Callable[[Block, slice], Result]) -> list[Result]:
        """What a function finds in each block and its span of cells."""
        if len(self.spans) == 1:
            return [function(self._first, self.span)]

        def found(number: int) -> Result:
            return function(Block(self, number), self.spans[number])

        # The first one asks for all totals that the others need.
        return [found(0), *spread_out(found, range(1, len(self.spans)))]

    def added(self, function: Callable[[Block], Any]) -> Any:
        """What a function finds in each block, added up."""
        return sum(self.each(lambda c, _: function(c)))

    def joined(self, function: Callable[[Block, slice], Array]) -> Array:
        """What a function finds in each block and its span, one after the other."""
        found = self.each(function)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def totals(self, term: Term) -> tuple[Any, Floats]:
        """The sum of a term over all cells, and over those of every block."""
        key: object
        if isinstance(term, str):
            # The same for all metrics of these cells.
            term = "rows" if term == "n" and self.part.weight is None else term
            known, key = self.part.totals, (self.position, term)
        else:
            known, key = self._known, id(term)
        if key not in known:
            if term == "rows":
                spans = map(self.part.rows, self.spans)
                by_block = np.array([float(rows.stop - rows.start) for rows in spans])
            else:
                by_block = np.array(self.each(lambda c, _: c.by_cell(term).sum(-1)))
            known[key] = by_block.sum(0), by_block, term  # a term that is kept keeps its id
        total, by_block, _ = known[key]
        return total, by_block

    def dot(self, left: Term, right: Term) -> Any:
        """The sum of a product of terms over all cells."""
        key = id(left), id(right)
        if key not in self._known:
            found = self.added(lambda c: np.einsum("k,k->", c.by_cell(left), c.by_cell(right)))
            self._known[key] = found, left, right
        return self._known[key][0]


class _Running(Sums):
    """Running sums; of whole numbers in integers, which are added several times faster."""

    _whole: frozenset[str]

    def _beside(self, _: Term, /) -> tuple[Any, Any]:
        """The sums of a term over the cells before these and after them."""
        return 0.0, 0.0

    def from_bottom(self, term: Term) -> Array:
        kind = np.int64 if self._is_whole(term) else np.float64
        found: Array = np.cumsum(self.by_cell(term), axis=-1, dtype=kind) + self._beside(term)[0]
        return found

    def from_top(self, term: Term) -> Array:
        values, after = self.by_cell(term), self._beside(term)[1]
        found: Array
        if self._is_whole(term):
            below = np.cumsum(values, axis=-1, dtype=np.int64)
            found = values + (below[..., -1:] + after)
            found -= below
        else:
            found = np.cumsum(values[..., ::-1], axis=-1)[..., ::-1] + after
        return found

    def _is_whole(self, term: Term) -> bool:
        return isinstance(term, str) and term in self._whole


class _Cells(_Running):
    """The sums of some cells, each read when it is asked for."""

    _group: Group
    _span: slice

    def __init__(self, group: Group, span: slice) -> None:
        self.__dict__.update(_group=group, _span=span, _whole=group.part.whole)

    def __getattr__(self, name: str) -> Any:
        if name not in ("rows", *self._group.part.names):
            return super().__getattr__(name)
        found = self._group.part.sums(name, self._span)
        self.__dict__[name] = found
        return found

    def _known(self) -> tuple[str, ...]:
        return self._group.part.names

    @cached_property
    def classes(self) -> tuple[Floats]:  # type: ignore[override]
        """The scores of the cells."""
        starts = self._group.part.starts
        first = self._span if starts is None else starts[self._span]
        return (self._group.part.score(first),)

    def total(self, term: Term) -> Any:
        return self._group.totals(term)[0]

    def dot(self, left: Term, right: Term) -> Any:
        return self._group.dot(left, right)


class _Whole(_Cells):
    """All cells of a group. Their totals are had without an array of them."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, group.span)


class Block(_Cells):
    """Some cells of a group. Running sums go on from the blocks before, totals are the group's."""

    _number: int

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(group, group.spans[number])
        self.__dict__.update(_number=number)

    def by_cell(self, term: Term) -> Array:
        if isinstance(term, np.ndarray):
            first = self._group.span.start
            return term[self._span.start - first : self._span.stop - first]
        return super().by_cell(term)

    def _beside(self, term: Term, /) -> tuple[Any, Any]:
        if len(self._group.spans) == 1:
            return super()._beside(term)
        by_block = self._group.totals(term)[1]
        before, after = by_block[: self._number], by_block[self._number + 1 :]
        return before.sum(0)[..., None], after.sum(0)[..., None]


class AloneError(Exception):
    """What is asked for is known of one group at a time alone."""


class Stack(_Running):
    """The cells of several groups, each in a row of arrays that are filled up by empty cells."""

    part: Part
    positions: range
    _span: slice
    _there: Array

    def __init__(self, part: Part, positions: range) -> None:
        edges = part.edges[positions.start : positions.stop + 1]
        sizes = np.diff(edges)
        # Totals, an array by group, can then not be taken for cells by mistake.
        width = max(2, int(sizes.max()))
        width += width == len(sizes)
        self.__dict__.update(
            part=part,
            positions=positions,
            _whole=part.whole,
            _span=slice(int(edges[0]), int(edges[-1])),
            _there=np.arange(width) < sizes[:, None],
        )

    def __getattr__(self, name: str) -> Any:
        if name not in ("rows", *self.part.names):
            raise AloneError
        found = np.zeros(self._there.shape)
        found[self._there] = self.part.sums(name, self._span)
        self.__dict__[name] = found
        return found

    @cached_property
    def _empty(self) -> tuple[Any, ...]:
        return (..., *np.nonzero(~self._there))

    def by_cell(self, term: Term) -> Array:
        if isinstance(term, str):
            return super().by_cell(term)
        made = self.__dict__.setdefault("_made", {})
        if term not in made:
            values = np.asarray(term(self)) if callable(term) else term
            if values.shape[-2:] != self._there.shape:
                raise AloneError
            values[self._empty] = 0.0
            made[term] = values
        found: Array = made[term]
        return found

    def total(self, term: Term) -> Any:
        found = super().total(term)
        if isinstance(term, str):
            self.part.totals.update(
                ((position, term), (total, np.array([total]), term))
                for position, total in zip(self.positions, found, strict=True)
            )
        return found


class Front(Sums):
    """Several groups as the functions of a metric see them, which may ask for no single cell."""

    _cells: Stack

    def __init__(self, cells: Stack) -> None:
        self.__dict__.update(_cells=cells)

    def __getattr__(self, name: str) -> Any:
        raise AloneError

    def total(self, term: Term) -> Any:
        return self._cells.total(term)

    def dot(self, left: Term, right: Term) -> Any:
        return self._cells.dot(left, right)


def stacked(part: Part) -> list[range]:
    """The positions of all groups, those together that fit into a block side by side."""
    rows = part.edges if part.starts is None else part.starts[part.edges]
    found: list[range] = []
    start, most, used, filled = 0, 0, 0, 0
    block = at_once(int(rows[-1] - rows[0]))
    for position, size in enumerate(np.diff(rows).tolist()):
        most, used = max(most, size), used + size
        count = position - start + 1
        filled = most * count
        if count > 1 and (filled > block or filled - used > _SPARE * count):
            found.append(range(start, position))
            start, most, used = position, size, size
    return [*found, range(start, len(rows) - 1)] if len(rows) > 1 else []


def groups_of(table: Ranked) -> Iterator[tuple[int, int, Group]]:
    """Every group that has cells: the number of its part, its code, and itself."""
    for number, part in enumerate(table.parts):
        for position, group in enumerate(part.groups.tolist()):
            yield number, group, Group(part, position)
