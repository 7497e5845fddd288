"""Metrics over cells of rows that are too many: first the totals of cells, then rows by theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, and_
from typing import Any, Protocol

import narwhals as nw
import polars as pl

from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.coded import Reduced, coded
from frame_eval.reduce.coding import ONE, codes
from frame_eval.reduce.engines import collect
from frame_eval.reduce.passes import domain_of, in_passes, passes_needed
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.query import Query, layouts, query
from frame_eval.reduce.wide import Pair, example_keys, of_systems
from frame_eval.table import Floats, Table, apart

# Parts of the rows, with what is asked of them.
Rows = Callable[[Metric], Iterable[nw.LazyFrame[Any]]]


class ByCell(Protocol):
    """A metric over cells of some systems as ``metric``, one of plain sums of columns.

    What a row adds to a column is, by system, a sum over what it adds to the sums of ``original``,
    times ``slopes`` of the row of the system's table that its slice and cell are in.
    """

    @property
    def original(self) -> Metric: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def tables(self) -> Sequence[Table]: ...
    @property
    def slopes(self) -> Mapping[str, Sequence[Floats]]: ...


def needs_cells(metric: Metric, missing: str) -> bool:
    """Whether a metric over cells can not be made plain."""
    filled = metric.worst is not None and missing == "worst"
    return filled or (metric.per_class is not None and metric.per_class.cells is not None)


@dataclass(frozen=True)
class SliceSet:
    """Slices that no row is in two of: their codes, private key columns, and values of these."""

    codes: range
    columns: list[str]
    values: pl.DataFrame

    def of(self, table: Table) -> Any:
        """Which rows of a table are in these slices."""
        return (table.slice >= self.codes.start) & (table.slice < self.codes.stop)


def slice_sets(prepared: Prepared, domain: pl.DataFrame) -> list[SliceSet]:
    """The sets of slices, of all combinations of keys that there are."""
    sets = prepared.slices.sets if prepared.slices.stacked else (prepared.slices.columns,)
    found, first = list[SliceSet](), 0
    for named in [*sets, *(() for _ in prepared.conditions)]:
        columns = [prepared.keys[name] for name in named]
        values = codes(domain, columns)[1] if columns else ONE
        found.append(SliceSet(range(first, first + values.height), columns, values))
        first += values.height
    return found


def totals(
    prepared: Prepared,
    metrics: Sequence[Metric],
    missing: str,
    domain: pl.DataFrame,
    rows_of: Rows | None = None,
) -> list[Table]:
    """The sums of metrics over cells by slice and system, over all rows or over some."""
    # In a unit of all rows, so that weights are added up.
    one = nw.lit(0).alias("__fe_all")
    rows = nw.to_native(prepared.frame.with_columns(one))
    seen = replace(prepared, native=rows, units={"all": "__fe_all"}, examples={}, strata={})
    found: dict[int, Query] = {}
    for positions in _of_like_rows(metrics):
        chosen = {i: metrics[i] for i in positions}
        first = metrics[positions[0]]
        if rows_of is None:
            if first.ordered:
                passes_needed(seen, chosen, by_example=False, alike=False, apart=False)
            whole = query(seen, chosen, missing, False, False, False)
        else:
            parts = [
                query(seen, chosen, missing, False, False, False, rows=part.with_columns(one))
                for part in rows_of(first)
            ]
            whole = replace(parts[0], frame=pl.concat([one.frame for one in parts]))
        found.update(dict.fromkeys(positions, whole))
    tables: list[Table] = coded(seen, metrics, found, by_example=False, domain=domain).tables
    return tables


def _of_like_rows(metrics: Sequence[Metric]) -> list[list[int]]:
    """Positions of the metrics, those together that have the same cells of the same rows."""
    groups: dict[object, list[int]] = {}
    for position, metric in enumerate(metrics):
        cells = tuple(metric.made[name].key for name in metric.cells)
        inputs = frozenset(given.key for given in metric.made.values())
        groups.setdefault((cells, metric.ordered, inputs), []).append(position)
    return list(groups.values())


def of_both(
    prepared: Prepared, rows: nw.LazyFrame[Any], pair: Pair, metric: Metric, missing: str
) -> nw.LazyFrame[Any]:
    """The rows of the examples that a pair of systems both have, without those that miss an input.

    Of a part that has whole examples.
    """
    mine, keys = of_systems(prepared, pair), example_keys(prepared)
    there = _all_there(prepared, metric) if missing == "drop" else nw.lit(True)
    once = [(one & there).cast(nw.Float64).sum().over(*keys) == 1 for one in mine]
    return rows.filter(mine[0] | mine[1]).filter(once[0] & once[1])


def _all_there(prepared: Prepared, metric: Metric) -> Any:
    columns = [nw.col(prepared.inputs[given.key]) for given in metric.made.values()]
    return reduce(and_, [~column.is_null() for column in columns])


def with_columns(
    prepared: Prepared, found: Sequence[tuple[ByCell, SliceSet]], systems: Sequence[Sequence[Any]]
) -> Prepared:
    """The rows of some systems with the columns of metrics that were over cells.

    Of engines other than Polars the rows are collected.
    """
    if not found:
        return prepared
    native = prepared.native if prepared.is_polars else collect(prepared.frame).lazy()
    inputs, read = dict(prepared.inputs), dict(prepared.read)
    made: list[Any] = []
    for one, slices in found:
        lookup = _lookup(prepared, one, slices, systems, native.collect_schema())
        keys = [name for name in lookup.columns if name not in _names(one)]
        native = native.join(lookup.lazy(), on=keys, how="left", nulls_equal=True)
        made += _columns(prepared, one)
        for column, given in zip(one.slopes, one.metric.made.values(), strict=True):
            inputs[given.key] = column
            read[column] = given, [column], nw.Float64
    frame = nw.from_native(native).with_columns(*made)
    return replace(prepared, native=nw.to_native(frame), inputs=inputs, read=read)


def _names(one: ByCell) -> dict[str, tuple[str, int]]:
    """The columns of a lookup, each with the column that it is a part of, and the sum."""
    names = one.tables[0].names
    return {
        f"{column}_{at}": (column, at)
        for column, sides in one.slopes.items()
        for at in range(len(names))
        if any(side[:, at].any() for side in sides)
    }


def _lookup(
    prepared: Prepared,
    one: ByCell,
    slices: SliceSet,
    systems: Sequence[Sequence[Any]],
    schema: Mapping[str, pl.DataType],
) -> pl.DataFrame:
    """The slopes by the private columns that name slice, system and cell."""
    parts = []
    for side, (table, system) in enumerate(zip(one.tables, systems, strict=True)):
        inside = slices.of(table)
        named = slices.values[table.slice[inside] - slices.codes.start]
        columns: dict[str, Any] = {name: named[name] for name in slices.columns}
        columns |= dict(zip(prepared.systems.values(), system, strict=True))
        for name, values in _cell_values(one.original, table.take(inside)).items():
            columns[prepared.inputs[one.original.made[name].key]] = values
        frame = pl.DataFrame(columns)
        slopes = [
            pl.Series(name, one.slopes[column][side][inside, at])
            for name, (column, at) in _names(one).items()
        ]
        parts.append(frame.cast({name: schema[name] for name in frame.columns}).hstack(slopes))
    return pl.concat(parts)


def _cell_values(metric: Metric, table: Table) -> dict[str, Any]:
    """The values of the cell keys of the rows of a table."""
    if metric.ordered and len(metric.cells) > 1:
        found: pl.DataFrame = table.classes[0][table.cells[0]]
        return found.to_dict()
    return {
        name: pl.Series(values)[code]
        for name, values, code in zip(metric.cells, table.classes, table.cells, strict=True)
    }


def _columns(prepared: Prepared, one: ByCell) -> list[Any]:
    """The columns of plain sums, null where the row misses an input."""
    columns = {name: nw.col(prepared.inputs[i.key]) for name, i in one.original.made.items()}
    sums = [nw.lit(1.0), *one.original.sums(Sums(columns)).values()]
    parts: dict[str, list[Any]] = {column: [] for column in one.slopes}
    for name, (column, at) in _names(one).items():
        # Cells that only examples have that are not of both systems are not in the lookup.
        parts[column].append(nw.col(name).fill_null(0.0) * sums[at])
    valid = _all_there(prepared, one.original)
    return [
        nw.when(valid).then(reduce(add, values, nw.lit(0.0))).alias(column)
        for column, values in parts.items()
    ]


def in_units(
    prepared: Prepared,
    averaged: Prepared,
    metrics: Sequence[Metric],
    plain: Callable[[Metric, int, Table, tuple[int, int]], Sequence[ByCell]],
    missing: str,
    once: bool,
) -> tuple[Reduced, list[tuple[int, Any, Any]]]:
    """The sums of units of all metrics, those over cells made ``plain`` by their totals.

    For every metric that there is then: which one it was, what it was made of, and the totals.
    """
    domain = domain_of(prepared)
    systems = codes(domain, list(prepared.systems.values()))[1]
    values = systems.rows() if prepared.systems else [()]
    sets = slice_sets(prepared, domain)
    shape = sets[-1].codes.stop, systems.height
    over_cells = [i for i, metric in enumerate(metrics) if metric.cells]
    of_cells = totals(averaged, [metrics[i] for i in over_cells], missing, domain)
    whole = dict(zip(over_cells, of_cells, strict=True))
    made = [(i, one) for i in over_cells for one in plain(metrics[i], i, whole[i], shape)]
    others = [i for i in range(len(metrics)) if i not in whole]
    asked = [metrics[i] for i in others]
    grouped = [
        (averaged if asked[at[0]].unit is None else prepared, {i: asked[i] for i in at})
        for at in layouts(asked, alike=False)
    ]
    for slices in sets:
        rows = with_columns(averaged, [(one, slices) for _, one in made], values)
        first = len(asked)
        asked += [one.metric for _, one in made]
        grouped.append((rows, {first + k: one.metric for k, (_, one) in enumerate(made)}))
    passes = max(passes_needed(*one, by_example=False, alike=False, apart=True) for one in grouped)
    found = in_passes(prepared, asked, {}, grouped, missing, True, passes, once=once)
    tables = list(found.tables[: len(others)])
    for k in range(len(made)):
        of_sets = found.tables[len(others) + k :: len(made)]
        parts = [t.take(slices.of(t)) for t, slices in zip(of_sets, sets, strict=True)]
        tables.append(apart(parts))
    origin: list[tuple[int, Any, Any]] = [(i, None, None) for i in others]
    origin += [(i, one, whole[i]) for i, one in made]
    order = sorted(range(len(origin)), key=lambda k: origin[k][0])
    return replace(found, tables=[tables[k] for k in order]), [origin[k] for k in order]
