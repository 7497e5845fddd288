"""Ordered cells: the rows themselves, put in the order of their scores by one sort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.checks import explain, flags
from frame_eval.reduce.coded import codes
from frame_eval.reduce.engines import collect
from frame_eval.reduce.inputs import inputs_of
from frame_eval.reduce.keys import Field, Packed, Score, blocks, position, whole
from frame_eval.reduce.prepare import Prepared
from frame_eval.table import Entries, Floats, Ints, Ranked, numbered

_ZERO_ONE = {"flag", "label", "equal"}
_MOST_BITS = 8  # inputs of 0 and 1 that have a bit each in the key


def scored(prepared: Prepared, metrics: Mapping[int, Metric], missing: str) -> Scored:
    """Collect the rows that metrics with ordered cells need, all over the same inputs."""
    first = next(iter(metrics.values()))
    inputs = {prepared.inputs[given.key]: given for given in first.made.values()}
    score = prepared.inputs[first.made[first.cells[0]].key]
    others = tuple(alias for alias in inputs if alias != score)
    columns = [*prepared.groups, *prepared.units.values(), *prepared.examples.values()]
    if prepared.weight is not None:
        columns.append(prepared.weight)
    made = [_narrow(prepared, alias) for alias in others]
    rows = collect(prepared.frame.select(*dict.fromkeys(columns), score, *made))
    if not rows.height:
        raise EvalError("the frame is empty: there is no row to evaluate")
    bad = flags(prepared, metrics, missing)
    if bad is not None and nw.from_native(rows).select(bad.any().alias("bad"))["bad"][0]:
        explain(prepared, metrics, missing)
    frame = pl.DataFrame({"__fe_len": [rows.height]})
    group = np.zeros(1, np.int64)
    if prepared.groups:
        group, frame = codes(rows, prepared.groups)
    binary = {inputs[alias].kind for alias in others} <= _ZERO_ONE and len(others) <= _MOST_BITS
    lost = np.zeros(frame.height)
    null = rows.select(pl.any_horizontal(pl.col(score, *others).is_null())).to_series()
    if null.any():
        at = null.to_numpy()
        where = group[at] if len(group) == len(at) else np.zeros(at.sum(), np.int64)
        lost = np.bincount(where, minlength=frame.height).astype(float)
        if missing == "worst":
            rows, binary = _filled(prepared, rows, first), False
        else:
            rows = rows.filter(~null)
            group = group[~at] if len(group) == len(at) else group
    return Scored(
        frame,
        rows.select(score, *others),
        score,
        others if binary and prepared.weight is None else None,
        group,
        codes(rows, list(prepared.units.values()))[0] if prepared.units else None,
        None if prepared.weight is None else rows[prepared.weight].to_numpy(),
        lost,
        {given.key: prepared.inputs[given.key] for given in first.made.values()},
    )


def _narrow(prepared: Prepared, alias: str) -> Any:
    """A column that can only be 0 or 1 as a byte."""
    given, _, invalid = prepared.invalid[alias]
    small = given.kind in _ZERO_ONE and invalid is None
    return nw.col(alias).cast(nw.Int8) if small else nw.col(alias)


def _filled(prepared: Prepared, rows: pl.DataFrame, metric: Metric) -> pl.DataFrame:
    """The rows with what the metric says a missing input counts as."""
    _, _, made = inputs_of(prepared, metric, "worst", 0)
    named = {f"__fe_f0_{name}": prepared.inputs[i.key] for name, i in metric.made.items()}
    filled = nw.to_native(nw.from_native(rows).with_columns(*made))
    there = [pl.col(made).alias(alias) for made, alias in named.items() if made in filled.columns]
    return filled.with_columns(there)


@dataclass(frozen=True)
class Scored:
    """The rows of metrics over the same inputs, one of which is the score.

    ``frame`` has a row per combination of the group keys, as the result of a group-by has, and
    ``group`` is where in it a row belongs. ``missing`` counts the rows of each that were left out
    or filled in. ``bits`` are the inputs other than the score if all of them are 0 or 1 and rows
    have no weight: a row then is its score, these bits and its unit, and fits into a number.
    """

    frame: pl.DataFrame
    rows: pl.DataFrame
    score: str
    bits: tuple[str, ...] | None
    group: Ints
    unit: Ints | None
    weight: Floats | None
    missing: Floats
    aliases: Mapping[Any, str]
    orders: dict[bytes, Order] = field(default_factory=dict)

    def ranked(self, metric: Metric, groups: Sequence[Ints], count: int) -> Ranked:
        """The cells of a metric; ``groups`` are codes of the rows of ``frame`` (-1: none).

        Each has its own codes, under ``count`` in all: slices of different sets may overlap.
        """
        parts = [self._order(codes).ranked(metric, count) for codes in groups]
        return parts[0] if len(parts) == 1 else Ranked.stacked(parts)

    def _order(self, code: Ints) -> Order:
        key = code.tobytes()
        if key not in self.orders:
            self.orders[key] = Order(self, code)
        return self.orders[key]


class Units:
    """The units of every group, numbered within it: few bits where they are nested.

    ``group`` and ``unit`` are those of each in order, ``number`` is that of each row in its group,
    and ``most`` how many units a group has at most.
    """

    def __init__(self, unit: Ints, place: Ints | None, counts: Ints) -> None:
        size = int(unit.max(initial=0)) + 1
        key, at = numbered(unit if place is None else place * size + unit)
        self.group, self.unit = key // size, key % size
        self.first = np.searchsorted(self.group, np.arange(len(counts)))
        self.number = at if place is None else at - self.first[place]
        self.most = int(self.number.max(initial=0)) + 1

    def place(self, number: Ints, counts: Ints) -> Ints:
        """Where among all units those of sorted rows are."""
        if len(counts) > 1:
            number += np.repeat(self.first, counts)
        return number


class Order:
    """The rows of the groups that have a code, sorted by group and score."""

    def __init__(self, scored: Scored, code: Ints) -> None:
        inside, alone = code >= 0, len(code) == 1
        chosen: Any = slice(None)
        if not inside.all():
            chosen = slice(0, 0) if alone else np.flatnonzero(inside[scored.group])
        values = scored.rows[scored.score].to_numpy()[chosen]
        self.scored, self.chosen, self.length = scored, chosen, len(values)
        self.score = Score.of(values)
        self.groups, self.counts = np.maximum(code, 0), np.array([self.length])
        place = None
        if not alone:
            self.groups, local = np.unique(self.groups, return_inverse=True)
            place = scored.group[chosen]
            if len(self.groups) < len(code) or (local[1:] < local[:-1]).any():
                place = local[place]
            self.counts = np.bincount(place, minlength=len(self.groups))
        self.units = None if scored.unit is None else Units(scored.unit[chosen], place, self.counts)
        fields = [position(self.length)] if scored.bits is None else self._bits(scored.bits)
        self.above = len(fields)
        fields.append((self.score, self.score.width))
        if place is not None:
            fields.append(whole(place, len(self.groups)))
        self.missing = code[inside], scored.missing[inside]
        self.packed = Packed(self.length, fields)

    def _bits(self, names: Sequence[str]) -> list[tuple[Field, int]]:
        """The inputs of 0 and 1, and the unit if there is one."""
        fields = [whole(self.scored.rows[name].to_numpy()[self.chosen], 2) for name in names]
        if self.units is not None:
            fields.append(whole(self.units.number, self.units.most))
        return fields

    @cached_property
    def starts(self) -> Ints | None:
        """Where the cells start among the rows; None if every row is a cell of its own."""
        new = self.packed.changes(self.above)
        return None if new.all() else np.flatnonzero(new)

    @cached_property
    def cell(self) -> Ints | None:
        """The cell of every row; None if each is one."""
        if self.starts is None:
            return None
        sizes = np.diff(self.starts, append=self.length)
        return np.repeat(np.arange(len(self.starts)), sizes)

    @cached_property
    def position(self) -> Ints:
        """Where a row was before, if rows are told apart."""
        found: Ints = self.packed.field(0).view(np.int64)
        return found

    @cached_property
    def unit(self) -> Ints | None:
        """Where among the units of all groups that of every row is."""
        if self.units is None:
            return None
        bits = self.scored.bits
        number = self.units.number[self.position] if bits is None else self.packed.field(len(bits))
        return self.units.place(number.astype(np.int64), self.counts)

    @cached_property
    def weight(self) -> Floats | None:
        """The weight of every row."""
        if self.scored.weight is None:
            return None
        found: Floats = self.scored.weight[self.chosen][self.position]
        return found

    def scores(self) -> Floats:
        """The score of every cell."""
        code = self.packed.field(self.above)
        return self.score.decoded(code if self.starts is None else code[self.starts])

    def ranked(self, metric: Metric, count: int) -> Ranked:
        """The cells of a metric of these rows."""
        plain = self._contributions(metric)
        ends = np.cumsum(self.counts)
        rows = np.broadcast_to(1.0, self.length)
        sums = [rows, *plain.values()]
        if self.weight is not None:
            sums = [self.weight, *(self.weight * values for values in plain.values())]
        if self.starts is not None:
            rows = np.diff(self.starts, append=self.length).astype(float)
            of_n = rows if self.weight is None else np.add.reduceat(self.weight, self.starts)
            sums = [of_n, *(np.add.reduceat(values, self.starts) for values in sums[1:])]
            ends = np.searchsorted(self.starts, ends)
        entries = None
        if self.weight is not None or self.unit is not None or not metric.counts:
            units = None
            if self.units is not None:
                units = self.groups[self.units.group], self.units.unit
            entries = Entries(self.cell, self.unit, units, self.weight, tuple(plain.values()))
        missing = np.bincount(*self.missing, minlength=count).astype(float)
        there = self.counts > 0
        return Ranked(
            ("n", *plain),
            self.groups[there],
            np.concatenate([[0], ends[there]]),
            tuple(sums),
            rows,
            self.scores,
            missing,
            entries,
        )

    def _contributions(self, metric: Metric) -> dict[str, Floats]:
        """What every row adds to the sums of a metric, without its weight."""
        scored = self.scored
        if scored.bits is None:
            kinds = scored.rows[self.chosen]
        else:
            # Rows of the same bits contribute the same.
            pattern = np.arange(1 << len(scored.bits))
            columns = {name: pattern >> i & 1 for i, name in enumerate(scored.bits)}
            kinds = pl.DataFrame(columns)
        inputs = {
            name: nw.col(scored.aliases[given.key]).cast(nw.Float64)
            for name, given in metric.made.items()
            if name not in metric.cells
        }
        asked = dict(metric.sums(Sums(inputs)))
        if "n" in asked:
            raise EvalError(f"metric {metric.name!r}: the sum 'n' is the number of rows; rename it")
        made = nw.from_native(kinds).with_columns(
            **{f"__fe_c_{name}": value for name, value in asked.items()}
        )
        return {
            name: self._by_row(made[f"__fe_c_{name}"].cast(nw.Float64).to_numpy()) for name in asked
        }

    def _by_row(self, of_kind: Floats) -> Floats:
        """The values of rows from those of their kinds: patterns of bits, or positions."""
        bits = self.scored.bits
        if bits is None:
            return of_kind[self.position]
        found, mask = np.empty(self.length), np.uint64((1 << len(bits)) - 1)
        for part in blocks(self.length):
            pattern = (self.packed.low[part] & mask).view(np.int64)
            np.take(of_kind, pattern, out=found[part], mode="clip")
        return found
