"""From collected sums to one table of numbers per metric, slices and systems by their codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import polars as pl

from frame_eval.errors import EvalError, listing
from frame_eval.metrics.core import Metric
from frame_eval.reduce.coding import ONE, codes
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.query import Places, Query
from frame_eval.slices import unwrapped
from frame_eval.table import (
    Floats,
    Ints,
    Matched,
    Ranked,
    Sorting,
    Table,
    joined,
    keyed,
    put,
    stacked,
    strata_of,
)
from frame_eval.threads import concurrently, halves


@dataclass(frozen=True)
class Reduced:
    """The sums of every metric, with what the codes of slices, systems and examples mean.

    The last ``conditions`` slices are named ones, which there are also without rows. Where examples
    are ``matched`` already there are no tables.
    """

    slices: pl.DataFrame
    systems: pl.DataFrame
    shape: tuple[int, int]
    tables: list[Any]  # a Table, or a Ranked where cells are ordered, for every metric
    cluster_of: Ints | None = None
    example_ids: pl.DataFrame | None = None
    conditions: int = 0
    matched: Matched | None = None

    @property
    def named(self) -> Any:
        """Which slices are named conditions."""
        return np.arange(self.shape[0]) >= self.shape[0] - self.conditions


class Cells(Protocol):
    """Rows behind ordered cells, which are put in order once their groups have codes."""

    @property
    def frame(self) -> pl.DataFrame:
        """A row for every combination of the group keys."""
        ...

    def ranked(self, metric: Metric, groups: Sequence[Ints], count: int) -> Ranked:
        """The cells of a metric, the rows of ``frame`` being in these groups (-1: in none)."""
        ...


def coded(
    prepared: Prepared,
    metrics: Sequence[Metric],
    queries: Mapping[int, Query | Cells],
    by_example: bool,
    domain: pl.DataFrame | None = None,
) -> Reduced:
    """Codes for the keys of all queries together, and one table per metric.

    With a ``domain`` of slices and systems their codes are of the values there.
    """
    grouped = {i: q for i, q in queries.items() if isinstance(q, Query)}
    # Those with units and cells come first: the others have rows for the group keys alone.
    distinct = list({id(q): q for q in (*grouped.values(), *queries.values())}.values())
    lengths = list(accumulate((q.frame.height for q in distinct), initial=0))
    spans = [slice(a, b) for a, b in pairwise(lengths)]
    number = {id(q): i for i, q in enumerate(distinct)}
    frames = [q.frame for q in distinct]

    def together(columns: Sequence[str]) -> tuple[Ints, pl.DataFrame]:
        asked = [*frames, *([] if domain is None else [domain])]
        having = [frame for frame in asked if columns and set(columns) <= set(frame.columns)]
        if not having:
            return np.zeros(lengths[-1], np.int64), ONE
        keys = [frame[list(columns)] for frame in having]
        return codes(keys[0] if len(keys) == 1 else pl.concat(keys), columns)

    # Without a cluster the example is the unit already.
    of_examples = prepared.examples if prepared.roles.cluster else prepared.units
    keys = [prepared.systems, *([of_examples] if by_example else []), prepared.units]
    (systems, system_values), *found_codes = concurrently(
        [partial(together, list(key.values())) for key in keys], rows=lengths[-1]
    )
    units = found_codes[-1][0]
    cluster_of: Ints | None = None
    ids: pl.DataFrame | None = None
    if by_example:
        (examples, ids), (clusters, _) = found_codes
        cluster_of = _clusters_of(examples, clusters, ids)
        has_codes = {*prepared.systems.values(), *of_examples.values(), *prepared.units.values()}
        per_row = [number[id(queries[i])] for i, m in enumerate(metrics) if m.unit is None]
        unique = per_row[:1] if not prepared.roles.trial else []
        parts = []
        for i, rows in enumerate(spans):
            # In the order of systems and examples, what follows has its memory side by side.
            sorting = Sorting(keyed(systems[rows], examples[rows], len(ids)))
            if i in unique:
                _check_repeats(sorting.key, ids)
            frames[i] = _with_length(_moved(frames[i].drop(has_codes), sorting), len(sorting.key))
            parts.append(_unpacked(sorting.key, len(system_values), len(ids)))
        systems, units = map(joined, zip(*parts, strict=True))
        ids = renamed(ids, of_examples, prepared.dtypes)
    members, slice_values, count = _slice_members(prepared, together)
    strata = together(list(prepared.strata.values()))[0]
    tables: list[Any] = []
    for position, metric in enumerate(metrics):
        at = number[id(queries[position])]
        rows = spans[at]
        of_rows = [member[rows] for member in members]
        found = distinct[at]
        if not isinstance(found, Query):
            systems_there = len(system_values)
            groups = [
                np.where(code < 0, -1, code * systems_there + systems[rows]) for code in of_rows
            ]
            tables.append(found.ranked(metric, groups, count * systems_there))
            continue
        found = replace(found, frame=frames[at])
        codes_of = (systems[rows], units[rows], strata[rows])
        table = _table(found, found.places[position], metric, prepared, codes_of)
        tables.append(_in_slices(table, of_rows))
    return Reduced(
        slice_values,
        renamed(system_values, prepared.systems, prepared.dtypes),
        (count, len(system_values)),
        tables,
        cluster_of,
        ids,
        len(prepared.conditions),
    )


def _moved(frame: pl.DataFrame, sorting: Sorting) -> pl.DataFrame:
    """The rows in another order; numbers are moved faster by numpy."""
    if sorting.sorted:
        return frame
    numbers = [s for s in frame if s.dtype.is_float() and not s.null_count()]
    others = frame.drop(number.name for number in numbers)
    moved = [pl.Series(s.name, sorting(s.to_numpy())) for s in numbers]
    return (others.rechunk()[sorting.order] if others.width else others).hstack(moved)


def _with_length(frame: pl.DataFrame, rows: int) -> pl.DataFrame:
    """With the number of rows behind each row, where it is one."""
    if "__fe_len" in frame.columns:
        return frame
    return frame.with_columns(pl.Series("__fe_len", np.ones(rows)))


def _unpacked(key: Ints, systems: int, size: int) -> tuple[Ints, Ints]:
    """The system and unit of every sorted key, system x size + unit."""
    bounds = np.searchsorted(key, np.arange(systems + 1) * size)
    unit = key.copy()
    for system in range(1, systems):
        unit[bounds[system] : bounds[system + 1]] -= system * size
    return np.repeat(np.arange(systems), np.diff(bounds)), unit


def _check_repeats(key: Ints, ids: pl.DataFrame) -> None:
    """Raise where a sorted key of system and example occurs twice."""
    again = key[1:] == key[:-1]
    if again.any():
        repeated = np.unique(key[1:][again] % len(ids))
        raise EvalError(repeats_message(len(repeated), ids[repeated[:3]], ["system"]))


def repeats_message(
    count: int, examples: pl.DataFrame, named: Sequence[str], *, some: bool = False
) -> str:
    """What to say of examples that have several rows, although these roles are named.

    They are ``some`` of them where not all rows have been looked at.
    """
    per = " per " + " and ".join(named) if named else ""
    ways = [f"{role}=" for role in ("system", "trial") if role not in named]
    name = f"name what tells them apart with {' or '.join(ways)}, or " if ways else ""
    shown = listing(unwrapped(examples.rows()))
    number = f"at least {count}" if some else count
    said = f"{number} examples have more than one row{per} (such as {shown})"
    return f"{said}; {name}drop the repeats"


def _clusters_of(examples: Ints, clusters: Ints, ids: pl.DataFrame) -> Ints:
    """The cluster of every example; raise where one is in two."""
    cluster_of = np.zeros(len(ids), np.int64)
    put(cluster_of, examples, clusters)

    def elsewhere(rows: slice) -> Ints:
        here = examples[rows]
        return np.asarray(here[cluster_of[here] != clusters[rows]])

    parts = [partial(elsewhere, rows) for rows in halves(len(examples))]
    torn = np.unique(joined(concurrently(parts, len(examples))))
    if len(torn):
        shown = listing(unwrapped(ids[torn[:3]].rows()))
        raise EvalError(
            f"{len(torn)} examples are in more than one cluster (such as {shown}); an example "
            "belongs to one"
        )
    return cluster_of


def renamed(frame: pl.DataFrame, columns: dict[str, str], dtypes: Any) -> pl.DataFrame:
    """Key values under their own names, categories restored."""
    named = [_typed(frame[private].alias(name), dtypes[name]) for name, private in columns.items()]
    return pl.DataFrame(named)


def _typed(values: pl.Series, dtype: Any) -> pl.Series:
    if dtype == nw.Categorical or isinstance(dtype, nw.Enum):
        return values.cast(nw.Schema({values.name: dtype}).to_polars()[values.name])
    return values


def _slice_members(prepared: Prepared, together: Any) -> tuple[list[Ints], pl.DataFrame, int]:
    """For every grouping set, the slice code of each row (-1: in none); what the codes mean."""
    slices = prepared.slices
    if not slices.stacked:
        code, values = together(list(prepared.keys.values()))
        return [code], renamed(values, prepared.keys, prepared.dtypes), len(values)
    members: list[Ints] = []
    blocks: list[pl.DataFrame] = []
    offset = 0
    for columns in slices.sets:
        code, values = together([prepared.keys[name] for name in columns])
        members.append(code + offset)
        blocks.append(_stacked_names(columns, values, prepared))
        offset += len(values)
    for name, private in prepared.conditions.items():
        code, values = together([private])
        inside = values[private].to_numpy()[code]
        members.append(np.where(inside, offset, -1))
        blocks.append(pl.DataFrame({"slice": [name], "value": ["true"]}))
        offset += 1
    return members, pl.concat(blocks), offset


def _stacked_names(
    columns: Sequence[str], values: pl.DataFrame, prepared: Prepared
) -> pl.DataFrame:
    if not columns:
        return pl.DataFrame({"slice": ["overall"], "value": ["all"]})
    values = values.with_columns(_as_text(column) for column in values.iter_columns())
    text = [pl.col(prepared.keys[name]) for name in columns]
    if len(columns) > 1:
        value = pl.concat_str([part.fill_null("null") for part in text], separator=", ")
    else:
        value = text[0]
    return values.select(pl.lit(", ".join(columns)).alias("slice"), value.alias("value"))


def _as_text(values: pl.Series) -> pl.Series:
    """Key values as text, also of types that Polars has no text for (durations, lists, bytes)."""
    try:
        return values.cast(pl.String)
    except pl.exceptions.PolarsError:
        texts = [None if value is None else str(value) for value in values.to_list()]
        return pl.Series(values.name, texts, dtype=pl.String)


def _table(
    found: Query, places: Places, metric: Metric, prepared: Prepared, key: tuple[Ints, Ints, Ints]
) -> Table:
    frame, (system, unit, stratum) = found.frame, key

    def floats(columns: Sequence[str]) -> Floats:
        return np.stack([_floats(frame[name]) for name in columns]).T

    rows = _floats(frame[places.rows])
    total = _floats(frame["__fe_len"])
    sums = floats(places.sums)
    plain = sums if places.plain == places.sums else floats(places.plain)
    moments = None
    if places.moments is not None:
        moments = _moments(frame, places, rows)
    singles = not prepared.units
    if singles and found.weight is not None:
        weight = frame[found.weight].to_numpy()
        sums = sums * weight[:, None]
        moments = None if moments is None else moments * (weight**2)[:, None, None]
    if singles:
        weights = [found.weight] if found.weight else []
        unit = codes(frame, [*prepared.strata.values(), *weights, *found.values])[0]
    cell_codes, classes = _cells(found, metric)
    # After a unit step __fe_len counts the rows that were lost on the way.
    missing = total - rows if metric.unit is None else total
    if places.replaced is not None:
        missing = frame[places.replaced].cast(pl.Float64).to_numpy()
    table = Table(
        places.names,
        np.zeros(len(rows), np.int64),
        system,
        unit,
        tuple(np.maximum(cell, 0) for cell in cell_codes),
        classes,
        rows,
        sums,
        plain,
        moments,
        missing,
        singles,
        found.weight is not None,
        strata_of(unit, stratum, int(unit.max(initial=0)) + 1) if prepared.strata else None,
    )
    outside: Any = np.False_
    for cell in cell_codes:
        outside = outside | (cell < 0)
    if not outside.any():
        return table
    return replace(table.emptied(outside), missing=np.where(outside, total, missing))


def _floats(values: pl.Series) -> Floats:
    """Sums as numbers, those of no row as 0."""
    numbers = values.cast(pl.Float64)
    return (numbers.fill_null(0.0) if numbers.null_count() else numbers).to_numpy()


def _moments(frame: pl.DataFrame, places: Places, rows: Floats) -> Floats:
    size = len(places.names)
    moments = np.zeros((frame.height, size, size))
    given = places.moments or {}
    for (a, b), name in given.items():
        moments[:, a, b] = _floats(frame[name]) * rows
    for a, b in given:
        if a != b:
            cross = 0.5 * (moments[:, a, a] + moments[:, b, b] - moments[:, a, b])
            moments[:, a, b] = moments[:, b, a] = cross
    return moments


def _cells(found: Query, metric: Metric) -> tuple[list[Ints], tuple[Any, ...]]:
    """Positions of the cell keys among their sorted values (-1: missing), and these values."""
    if not found.cells:
        return [], ()
    if metric.ordered and len(metric.cells) > 1:
        return _combinations(found, metric)
    columns = [found.frame[name] for name in found.cells]
    domain = pl.concat([column.alias("x") for column in columns]).drop_nulls().unique().sort()
    if metric.ordered:
        # Without any score there is one cell, which stays empty.
        values: Any = domain.to_numpy() if len(domain) else np.zeros(1)
        place = np.searchsorted(values, columns[0].fill_null(0.0).to_numpy())
        return [np.where(columns[0].is_null().to_numpy(), -1, place)], (values,)
    lookup = pl.DataFrame({"x": domain, "code": np.arange(len(domain))})
    coded = [
        pl.DataFrame({"x": column})
        .join(lookup, on="x", how="left", maintain_order="left")["code"]
        .fill_null(-1)
        .to_numpy()
        for column in columns
    ]
    # Without any label there is one class, which stays empty.
    classes = domain.to_list() or [None]
    return coded, tuple(classes for _ in coded)


def _combinations(found: Query, metric: Metric) -> tuple[list[Ints], tuple[Any, ...]]:
    """Every combination of the cell keys as one cell, -1 where one of them is missing."""
    named = zip(metric.cells, found.cells, strict=True)
    keys = found.frame.select(pl.col(alias).alias(name) for name, alias in named)
    code, combinations = codes(keys, metric.cells)
    missing = keys.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()
    return [np.where(missing, -1, code)], (combinations,)


def _in_slices(table: Table, members: list[Ints]) -> Table:
    """The rows once for every slice that they are in."""
    tables = []
    for code in members:
        inside = code >= 0
        if inside.all():
            tables.append(replace(table, slice=code))
        else:
            tables.append(replace(table.take(inside), slice=code[inside]))
    return stacked(tables)
