"""Ordered cells: the rows themselves, put in the order of their scores by one sort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.checks import explain, flags
from frame_eval.reduce.coding import codes
from frame_eval.reduce.engines import collect
from frame_eval.reduce.inputs import inputs_of
from frame_eval.reduce.keys import Column, Field, Packed, Score, Values, blocks, position, whole
from frame_eval.reduce.prepare import Prepared
from frame_eval.table import Floats, Ints, Part, Ranked, Units, joined
from frame_eval.threads import spread_out

_ZERO_ONE = {"flag", "label", "equal"}
_FEW = 1 << 19  # rows that are read before streams of them are set up
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
    words: Any = pl if prepared.is_polars else nw
    made = [_narrow(prepared, alias, words) for alias in others]
    source = prepared.native if words is pl else prepared.frame
    few = prepared.rows is not None and prepared.rows <= _FEW
    rows = collect(source.select(*dict.fromkeys(columns), score, *made), long=few)
    if not rows.height:
        raise EvalError("the frame is empty: there is no row to evaluate")
    bad = flags(prepared, metrics, missing, pl)
    if bad is not None and rows.select(bad.any()).item():
        explain(prepared, metrics, missing)
    frame = pl.DataFrame({"__fe_len": [rows.height]})
    group: Values = np.zeros(1, np.int64)
    if prepared.groups:
        group, frame = codes(rows, prepared.groups, None)
    binary = {inputs[alias].kind for alias in others} <= _ZERO_ONE and len(others) <= _MOST_BITS
    lost = np.zeros(frame.height)
    if any(rows[alias].null_count() for alias in (score, *others)):
        null = rows.select(pl.any_horizontal(pl.col(score, *others).is_null())).to_series()
        at = null.to_numpy()
        group = np.asarray(group)
        where = group[at] if len(group) == len(at) else np.zeros(at.sum(), np.int64)
        lost = np.bincount(where, minlength=frame.height).astype(float)
        if missing == "worst":
            rows, binary = _filled(prepared, rows, first), False
        else:
            rows = rows.filter(~null)
            group = group[~at] if len(group) == len(at) else group
    return Scored(
        frame,
        rows[[score, *others]],
        score,
        others if binary and prepared.weight is None else None,
        group,
        codes(rows, list(prepared.units.values()))[0] if prepared.units else None,
        None if prepared.weight is None else rows[prepared.weight].to_numpy(),
        lost,
        {given.key: prepared.inputs[given.key] for given in first.made.values()},
    )


def _narrow(prepared: Prepared, alias: str, words: Any) -> Any:
    """A column that can only be 0 or 1 as a byte."""
    (given, _, dtype), column = prepared.read[alias], words.col(alias)
    if given.small or given.kind not in _ZERO_ONE or given.invalid(column, dtype) is not None:
        return column
    # By way of a boolean, which is faster than to see whether each number fits.
    return (column != 0).cast(words.Int8).alias(alias)


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
    group: Values
    unit: Ints | None
    weight: Floats | None
    missing: Floats
    aliases: Mapping[Any, str]
    orders: dict[bytes, Order] = field(default_factory=dict)

    def ranked(self, metric: Metric, groups: Sequence[Ints], count: int) -> Ranked:
        """The cells of a metric; ``groups`` are codes of the rows of ``frame`` (-1: none).

        Each has its own codes, under ``count`` in all: slices of different sets may overlap.
        """
        orders = [self._order(codes) for codes in groups]
        missing = [np.bincount(*order.missing, minlength=count) for order in orders]
        parts = tuple(order.part(metric) for order in orders)
        alike = self.unit is None and self.weight is None and metric.counts
        return Ranked(parts[0].names, parts, np.sum(missing, axis=0, dtype=float), alike)

    def _order(self, code: Ints) -> Order:
        key = code.tobytes()
        if key not in self.orders:
            self.orders[key] = Order(self, code)
        return self.orders[key]


def _in_bytes(values: Floats) -> npt.NDArray[Any]:
    """Numbers as bytes, if they are whole and small enough; else as they are."""
    small = values.astype(np.int8)
    return small if np.array_equal(small, values) else values


class _Units:
    """The units of every group, numbered within it: few bits where they are nested.

    Those of group i have their codes in ``code[edges[i]:edges[i + 1]]``; ``number`` says of rows
    which of these theirs is, and ``most`` is how many a group has at most.
    """

    number: Callable[[Any], Any]

    def __init__(self, unit: Ints, place: Ints | None, groups: int) -> None:
        if place is None:
            place = np.broadcast_to(np.int64(0), len(unit))
        size = int(unit.max(initial=0)) + 1
        if groups * size <= 4 * len(unit) + 1000:
            # Marking the pairs that occur spares the sort where most of them do.
            there = np.zeros((groups, size), bool)
            for part in blocks(len(unit)):
                there[place[part], unit[part]] = True
            group, self.code = np.nonzero(there)
            table = np.cumsum(there, axis=1, dtype=np.int32) - 1
            self.number = lambda rows: table[place[rows], unit[rows]]
            self.edges = np.searchsorted(group, np.arange(groups + 1))
        else:
            pair, at = np.unique(place.astype(np.int64) * size + unit, return_inverse=True)
            group, self.code = pair // size, pair % size
            self.edges = np.searchsorted(group, np.arange(groups + 1))
            self.number = lambda rows: at[rows] - self.edges[place[rows]]
        self.most = int(np.diff(self.edges).max(initial=1))

    def field(self) -> tuple[Field, int]:
        """The numbers as a field."""
        return lambda part: self.number(part).astype(np.uint64), (self.most - 1).bit_length()


class Order:
    """The rows of the groups that have a code, sorted by group and score."""

    def __init__(self, scored: Scored, code: Ints) -> None:
        inside, alone = code >= 0, len(code) == 1
        chosen: Any = slice(None)
        if not inside.all():
            chosen = slice(0, 0) if alone else np.flatnonzero(inside[np.asarray(scored.group)])
        self.scored, self.chosen = scored, chosen
        self.score = Score.of(self._read(scored.score))
        self.length = len(self.score.values)
        self.groups = np.maximum(code, 0)
        place: Values | None = None
        if not alone:
            self.groups, local = np.unique(self.groups, return_inverse=True)
            place = scored.group
            if not isinstance(chosen, slice):
                place = np.asarray(place)[chosen]
            if len(self.groups) < len(code) or (local[1:] < local[:-1]).any():
                place = local[np.asarray(place)]
        self.units = None
        if scored.unit is not None:
            of_units = None if place is None else np.asarray(place)
            self.units = _Units(scored.unit[chosen], of_units, len(self.groups))
        fields = [position(self.length)] if scored.bits is None else self._bits(scored.bits)
        self.above = len(fields)
        self.place = [] if place is None else [whole(place, len(self.groups))]
        self.missing = code[inside], scored.missing[inside]
        # The first row of every cell and the number of rows; None if every row is one.
        self.packed, self.starts = self._sorted(fields)
        # Where the groups start among the rows, and where all end.
        self.edges = np.array([0, self.length])
        if place is not None:
            self.edges = self.packed.edges(len(self.groups))
        self.parts: dict[Any, Part] = {}

    def _bits(self, names: Sequence[str]) -> list[tuple[Field, int]]:
        """The inputs of 0 and 1, and the unit if there is one."""
        fields = [whole(self._read(name), 2) for name in names]
        if self.units is not None:
            fields.append(self.units.field())
        return fields

    def _read(self, name: str) -> Values:
        """A column of the chosen rows."""
        values = self.scored.rows[name]
        if isinstance(self.chosen, slice):
            return Column(values[self.chosen])
        found: npt.NDArray[Any] = values.to_numpy()[self.chosen]
        return found

    def _packed(self, *fields: tuple[Field, int]) -> Packed:
        return Packed(self.length, [*fields, *self.place])

    def _sorted(self, fields: Sequence[tuple[Field, int]]) -> tuple[Packed, Ints | None]:
        """The rows in order, and where their cells start.

        In one word, if that only takes the last bits of scores, and these tell no rows apart.
        """
        score = self.score
        bits = score.width + sum(width for _, width in [*fields, *self.place]) - 64
        # Of so many random numbers it is unlikely that two of a group agree in all bits left.
        pairs = 2 * self.length.bit_length() - len(self.groups).bit_length()
        self.rounded = bits > 0 and score.width - bits >= pairs + 4
        if self.rounded:
            packed = self._packed(*fields, score.rounded(bits))
            starts = packed.starts(self.above)
            if starts is None or score.told_apart(bits):
                return packed, starts
            self.rounded = False
        packed = self._packed(*fields, score.field())
        return packed, packed.starts(self.above)

    @cached_property
    def _scores(self) -> Packed:
        """The rows in order with all bits of their scores in the first field."""
        return self._packed(self.score.field())

    @cached_property
    def weight(self) -> Floats | None:
        """The weight of every row."""
        if self.scored.weight is None:
            return None
        found: Floats = self.scored.weight[self.chosen][self._position(slice(None))]
        return found

    def _position(self, rows: slice) -> Ints:
        """Where rows were before, if they are told apart."""
        return self.packed.field(0, rows).view(np.int64)

    def _bits_of(self, rows: slice) -> npt.NDArray[np.uint8]:
        """The inputs of 0 and 1 of rows, a bit each."""
        assert self.scored.bits is not None
        return self.packed.low[rows].astype(np.uint8) & np.uint8((1 << len(self.scored.bits)) - 1)

    def _unit(self, rows: slice) -> Ints:
        """Which unit of its group each row belongs to."""
        assert self.units is not None
        if self.scored.bits is None:
            found: Ints = self.units.number(self._position(rows))
            return found
        return self.packed.field(len(self.scored.bits), rows).view(np.int64)

    def _score(self, rows: Any) -> Floats:
        packed, field = (self._scores, 0) if self.rounded else (self.packed, self.above)
        at = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

        def decoded(part: slice) -> Floats:
            return self.score.decoded(packed.field(field, at[part]))

        return joined(spread_out(decoded, blocks(len(at))))

    def part(self, metric: Metric) -> Part:
        """The cells of a metric of these rows; metrics of the same sums share them."""
        inputs = ((name, given.key) for name, given in metric.made.items())
        key = metric.sums, *inputs
        if key not in self.parts:
            self.parts[key] = self._part(metric)
        return self.parts[key]

    def _part(self, metric: Metric) -> Part:
        kinds = self._contributions(metric)
        given = {name: self._by_row(of_kinds) for name, of_kinds in kinds.items()}
        whole = [name for name, of_kinds in kinds.items() if of_kinds.dtype == np.int8]
        there = np.diff(self.edges) > 0
        edges = np.append(self.edges[:-1][there], self.length)
        units = None
        if self.units is not None:
            units = Units(
                np.append(self.units.edges[:-1][there], self.units.edges[-1]),
                self.units.code,
                self._unit,
            )
        return Part(
            ("n", *given),
            self.groups[there],
            edges if self.starts is None else np.searchsorted(self.starts, edges),
            self.starts,
            lambda name, rows: given[name](rows),
            self._score,
            self.weight,
            units,
            frozenset() if self.weight is not None else frozenset(["n", "rows", *whole]),
        )

    def _by_row(self, of_kinds: npt.NDArray[Any]) -> Callable[[slice], npt.NDArray[Any]]:
        """The values of rows from those of their kinds: patterns of bits, or positions."""
        if self.scored.bits is None:
            by_row = of_kinds[self._position(slice(None))]
            return lambda rows: by_row[rows]
        if len(of_kinds) == 2 and of_kinds.dtype == np.int8:
            # The line through two values is faster than a table of them.
            first, step = of_kinds[:1], np.diff(of_kinds)
            return lambda rows: first + step * self._bits_of(rows).view(np.int8)
        return lambda rows: np.take(of_kinds, self._bits_of(rows))

    def _contributions(self, metric: Metric) -> dict[str, npt.NDArray[Any]]:
        """What every kind of row adds to the sums of a metric, without its weight.

        As bytes where these are whole numbers of rows that are told apart by bits alone.
        """
        scored = self.scored
        if scored.bits is None:
            kinds = scored.rows[self.chosen]
        else:
            # Rows of the same bits contribute the same.
            pattern = np.arange(1 << len(scored.bits))
            columns = {name: pattern >> i & 1 for i, name in enumerate(scored.bits)}
            kinds = pl.DataFrame(columns)
        words: Any = pl if metric.native else nw
        inputs = {
            name: words.col(scored.aliases[given.key]).cast(words.Float64)
            for name, given in metric.made.items()
            if name not in metric.cells
        }
        asked = dict(metric.sums(Sums(inputs)))
        if "n" in asked:
            raise EvalError(f"metric {metric.name!r}: the sum 'n' is the number of rows; rename it")
        taken = [name for name in asked if name in ("rows", "classes") or hasattr(Sums, name)]
        if taken:
            name = f"s.{taken[0]} of ordered cells is no sum of yours"
            raise EvalError(f"metric {metric.name!r}: {name}; rename it")
        rows = kinds if words is pl else nw.from_native(kinds)
        made = rows.with_columns(**{f"__fe_c_{name}": value for name, value in asked.items()})
        values = {name: made[f"__fe_c_{name}"].cast(words.Float64).to_numpy() for name in asked}
        return values if scored.bits is None else {n: _in_bytes(v) for n, v in values.items()}
