"""One lazy group-by per layout: which columns are made, which sums are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import polars as pl

from frame_eval.columns import Input, Slices, Source
from frame_eval.errors import ColumnError, EvalError
from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.engines import Scan, collect, require


@dataclass(frozen=True)
class Roles:
    """Which columns play which part; each a list of names."""

    system: tuple[str, ...] = ()
    example: tuple[str, ...] = ()
    trial: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    weight: Source | None = None

    @property
    def unit(self) -> tuple[str, ...]:
        """What is sampled independently: the cluster, else the example, else (empty) the row."""
        return self.cluster or self.example


@dataclass
class Prepared:
    """A scan whose private columns are made: keys, units, weight and metric inputs."""

    frame: nw.LazyFrame[Any]
    roles: Roles
    slices: Slices
    keys: dict[str, str]
    conditions: dict[str, str]
    systems: dict[str, str]
    units: dict[str, str]
    examples: dict[str, str]
    trials: dict[str, str]
    weight: str | None
    inputs: dict[tuple[object, ...], str]
    invalid: dict[str, tuple[Input, list[str], Any]] = field(default_factory=dict)
    dtypes: dict[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> list[str]:
        """The private columns that name the slice and the system."""
        return [*self.keys.values(), *self.conditions.values(), *self.systems.values()]


def prepare(scan: Scan, metrics: Sequence[Metric], slices: Slices, roles: Roles) -> Prepared:
    """Make every column that the question needs, and drop the others."""
    inputs = {i.key: i for metric in metrics for i in metric.inputs.values()}  # type: ignore[union-attr]
    conditions = slices.conditions
    sources = [source for given in inputs.values() for source in given.sources]
    weights = [] if roles.weight is None else [roles.weight]
    require(scan.schema, slices.columns, "slice key")
    for role in ("system", "example", "trial", "cluster"):
        require(scan.schema, getattr(roles, role), role)
    require(scan.schema, [s for s in weights if isinstance(s, str)], "weight")
    require(scan.schema, [s for s in sources if isinstance(s, str)], "input")
    require(scan.schema, [s for s in conditions.values() if isinstance(s, str)], "condition")
    scan, named = scan.with_sources([*sources, *weights, *conditions.values()])
    dtypes = scan.schema

    made: list[Any] = []
    prepared = Prepared(
        scan.frame, roles, slices, {}, {}, {}, {}, {}, {}, None, {}, {}, dict(dtypes)
    )

    def key_columns(columns: Sequence[str], prefix: str) -> dict[str, str]:
        private = {name: f"__fe_{prefix}{i}" for i, name in enumerate(columns)}
        for name, alias in private.items():
            made.append(_key(name, dtypes[name]).alias(alias))
        return private

    prepared.keys = key_columns(slices.columns, "k")
    prepared.systems = key_columns(roles.system, "m")
    prepared.units = key_columns(roles.unit, "u")
    prepared.examples = key_columns(roles.example, "x")
    prepared.trials = key_columns(roles.trial, "t")
    for i, (name, source) in enumerate(conditions.items()):
        column = _resolved(source, named)
        if dtypes[column] != nw.Boolean:
            raise ColumnError(f"condition {name!r} is {dtypes[column]}, not boolean")
        prepared.conditions[name] = f"__fe_w{i}"
        made.append(nw.col(column).fill_null(False).alias(f"__fe_w{i}"))
    if roles.weight is not None:
        column = _resolved(roles.weight, named)
        if not dtypes[column].is_numeric():
            raise ColumnError(f"weight {column!r} is {dtypes[column]}, not numeric")
        prepared.weight = "__fe_weight"
        made.append(nw.col(column).cast(nw.Float64).fill_nan(None).alias("__fe_weight"))
    for i, (key, given) in enumerate(inputs.items()):
        columns = [_resolved(source, named) for source in given.sources]
        types = [dtypes[column] for column in columns]
        given.check_dtypes(columns, types)
        _check_default_positive(given, columns[0], types[0], scan)
        alias = f"__fe_i{i}"
        value = given.build(nw, [nw.col(column) for column in columns], types)
        made.append(value.alias(alias))
        prepared.inputs[key] = alias
        prepared.invalid[alias] = (given, columns, given.invalid(nw.col(alias), types[0]))
    if not made:
        made.append(nw.lit(0).alias("__fe_row"))
    prepared.frame = scan.frame.select(*made)
    return prepared


def _resolved(source: Source, named: Mapping[int, str]) -> str:
    return source if isinstance(source, str) else named[id(source)]


def _key(name: str, dtype: Any) -> Any:
    """A key column in which null and NaN are one group, and categories are their text."""
    if dtype == nw.Categorical or dtype == nw.Enum or isinstance(dtype, nw.Enum):
        return nw.col(name).cast(nw.String)
    return nw.col(name).fill_nan(None) if dtype.is_float() else nw.col(name)


def _check_default_positive(given: Input, column: str, dtype: Any, scan: Scan) -> None:
    if given.kind == "label" and given.positive is None:
        if not (dtype == nw.Boolean or dtype.is_numeric()):
            raise EvalError(
                f"column {column!r} holds classes {_classes(scan.frame, column)}; name the "
                "positive= class, or choose average='macro', 'micro', 'weighted' or None"
            )


def _classes(frame: nw.LazyFrame[Any], column: str) -> str:
    seen = collect(frame.select(nw.col(column)).unique().head(21)).to_series().drop_nulls()
    listed = ", ".join(map(repr, sorted(seen.to_list(), key=str)[:20]))
    return listed + (", ..." if len(seen) > 20 else "")


@dataclass(frozen=True)
class Query:
    """A collected group-by, and where each metric's sums are in it."""

    frame: pl.DataFrame
    cells: tuple[str, ...]
    places: dict[int, Places]


@dataclass(frozen=True)
class Places:
    """The columns of one metric in a query."""

    names: tuple[str, ...]
    rows: str
    sums: tuple[str, ...]
    plain: tuple[str, ...]
    moments: dict[tuple[int, int], str] | None
    replaced: str | None = None


def layouts(metrics: Sequence[Metric]) -> list[list[int]]:
    """Positions of the metrics, grouped by what they can share a pass with."""
    groups: dict[object, list[int]] = {}
    for position, metric in enumerate(metrics):
        cells = tuple(metric.inputs[name].key for name in metric.cells)  # type: ignore[union-attr]
        groups.setdefault((cells, metric.unit and id(metric)), []).append(position)
    return list(groups.values())


def query(
    prepared: Prepared,
    metrics: Mapping[int, Metric],
    missing: str,
    moments: bool,
    by_example: bool,
) -> Query:
    """Run the group-by of one layout."""
    frame = prepared.frame
    first = next(iter(metrics.values()))
    weight = None if prepared.weight is None else nw.col(prepared.weight)
    keys = [*prepared.groups, *prepared.units.values()]
    if by_example and prepared.roles.cluster:
        keys += prepared.examples.values()
    single_weights = weight is not None and not prepared.units
    if single_weights:
        # Rows of equal weight are exchangeable: their sums say all that single rows would.
        keys.append(prepared.weight)  # type: ignore[arg-type]
        weight = None
    if first.unit is not None:
        frame = _one_row_per_unit(prepared, first, missing)
    cells = tuple(
        prepared.inputs[first.inputs[name].key]  # type: ignore[union-attr]
        for name in first.cells
    )
    asked: dict[str, tuple[str, Any]] = {}

    def ask(expression: Any, prefix: str) -> str:
        text = repr(expression)
        if text not in asked:
            asked[text] = (f"__fe_{prefix}{len(asked)}", expression)
        return asked[text][0]

    places, filled = {}, []
    for position, metric in metrics.items():
        columns, valid, extra = _inputs_of(prepared, metric, missing, position)
        filled += extra
        places[position] = _ask_for(metric, columns, valid, weight, moments, ask)
        if missing == "worst" and metric.unit is None:
            names = [prepared.inputs[given.key] for given in metric.inputs.values()]  # type: ignore[union-attr]
            null = nw.any_horizontal(*(nw.col(n).is_null() for n in names), ignore_nulls=False)
            replaced = ask(null.cast(nw.Float64).sum(), "r")
            places[position] = replace(places[position], replaced=replaced)
    if filled:
        frame = frame.with_columns(*filled)
    length = nw.len() if first.unit is None else nw.col("__fe_lost").sum()
    totals = [length.alias("__fe_len"), *(expr.alias(name) for name, expr in asked.values())]
    flags = _flags(prepared, metrics, missing)
    if flags is not None:
        totals.append(flags.cast(nw.Float64).sum().alias("__fe_bad"))
    all_keys = [*keys, *(c for c in cells if c not in keys)]
    if all_keys:
        result = collect(frame.group_by(all_keys).agg(*totals))
    else:
        result = collect(frame.select(*totals))
        result = result.filter(pl.col("__fe_len") > 0)
    if not result.height:
        raise EvalError("the frame is empty: there is no row to evaluate")
    if "__fe_bad" in result.columns and (result["__fe_bad"].sum() or 0) > 0:
        explain(prepared, metrics, missing)
    return Query(result, cells, places)


def _ask_for(
    metric: Metric, columns: Mapping[str, Any], valid: Any, weight: Any, moments: bool, ask: Any
) -> Places:
    contributions = dict(metric.sums(Sums(columns)))
    if "n" in contributions:
        raise EvalError(f"metric {metric.name!r}: the sum 'n' is the number of rows; rename it")
    rows = "__fe_len" if valid is None else ask(valid.cast(nw.Float64).sum(), "n")
    plain = tuple(ask(value.sum(), "s") for value in contributions.values())
    names = ("n", *contributions)
    weighted = list(contributions.values())
    sums = plain
    if weight is not None:
        of_n = weight if valid is None else nw.when(valid).then(weight)
        weighted = [of_n, *(weight * value for value in contributions.values())]
        sums = tuple(ask(value.sum(), "s") for value in weighted[1:])
        n = ask(of_n.sum(), "s")
    else:
        n = rows
    wanted = moments and not (metric.counts and weight is None)
    if metric.proportion is not None and weight is None:
        wanted = False
    second = None
    if wanted:
        offset = 0 if weight is not None else 1
        second = {}
        for a in range(len(weighted)):
            for b in range(a + 1):
                value = weighted[a] if a == b else weighted[a] + weighted[b]
                second[a + offset, b + offset] = ask(value.var(ddof=0), "v")
    return Places(names, rows, (n, *sums), (rows, *plain), second)


def _inputs_of(
    prepared: Prepared, metric: Metric, missing: str, position: int
) -> tuple[dict[str, Any], Any, list[Any]]:
    """The metric's inputs, which rows count (None: all), and columns to be made for that."""
    raw: dict[str, Any] = {
        name: nw.col(prepared.inputs[given.key])  # type: ignore[union-attr]
        for name, given in metric.inputs.items()
    }
    if metric.unit is not None:
        value = nw.col("__fe_value")
        return {"value": value}, ~value.is_null(), []
    if missing == "raise":
        return raw, None, []
    if missing == "worst":
        columns, made = {}, []
        for name, column in raw.items():
            worst = (metric.worst or {}).get(name)
            if worst is None:
                columns[name] = column
                continue
            value = worst(Sums(raw)) if callable(worst) else nw.lit(float(worst))
            alias = f"__fe_f{position}_{name}"
            made.append(nw.when(column.is_null()).then(value).otherwise(column).alias(alias))
            columns[name] = nw.col(alias)
        return columns, None, made
    valid = nw.all_horizontal(*(~c.is_null() for c in raw.values()), ignore_nulls=False)
    if len(raw) == 1:
        return raw, valid, []
    made = [
        nw.when(valid).then(column).alias(f"__fe_f{position}_{name}")
        for name, column in raw.items()
        if name not in metric.cells
    ]
    columns = {
        name: column if name in metric.cells else nw.col(f"__fe_f{position}_{name}")
        for name, column in raw.items()
    }
    return columns, valid, made


def _flags(prepared: Prepared, metrics: Mapping[int, Metric], missing: str) -> Any:
    """A condition for rows that make the question unanswerable, if any could."""
    unit = any(metric.unit is not None for metric in metrics.values())
    conditions = []
    if not unit:
        needed = {
            prepared.inputs[given.key]  # type: ignore[union-attr]
            for metric in metrics.values()
            for name, given in metric.inputs.items()
            if missing == "raise" or (missing == "worst" and name not in (metric.worst or {}))
        }
        used = dict.fromkeys(
            prepared.inputs[given.key]  # type: ignore[union-attr]
            for metric in metrics.values()
            for given in metric.inputs.values()
        )
        for alias in used:
            if alias in needed:
                conditions.append(nw.col(alias).is_null())
            if prepared.invalid[alias][2] is not None:
                conditions.append(prepared.invalid[alias][2].fill_null(False))
    if prepared.weight is not None:
        weight = nw.col(prepared.weight)
        conditions += [weight.is_null(), ~weight.is_finite().fill_null(True), (weight < 0)]
        conditions[-1] = conditions[-1].fill_null(False)
    conditions += [nw.col(alias).is_null() for alias in prepared.units.values()]
    flags = None
    for condition in conditions:
        flags = condition if flags is None else flags | condition
    return flags


def _one_row_per_unit(prepared: Prepared, metric: Metric, missing: str) -> nw.LazyFrame[Any]:
    """The frame with one row per (slice, system, example), carrying the unit's value.

    ``__fe_lost`` counts the rows of the unit that miss an input; a unit without any other has no
    value.
    """
    unit = metric.unit
    if unit is None:
        return prepared.frame
    if not prepared.examples:
        raise EvalError(f"{metric.name!r} has one value per problem: say example=<its column>")
    rows = replace(metric, unit=None)
    flags = _flags(prepared, {0: rows}, missing)
    if flags is not None and _count(prepared.frame, flags):
        explain(prepared, {0: rows}, missing)
    columns, valid, made = _inputs_of(prepared, rows, missing, 0)
    asked = dict(unit.sums(Sums(columns)))
    aggregates = [value.sum().alias(f"__fe_a_{name}") for name, value in asked.items()]
    lost = nw.lit(0.0) if valid is None else (~valid).cast(nw.Float64)
    frame = prepared.frame.with_columns(*made, lost.alias("__fe_lost"))
    aggregates += [nw.col("__fe_lost").sum(), nw.len().alias("__fe_rows")]
    if prepared.weight is not None:
        weight = nw.col(prepared.weight)
        aggregates += [weight.min(), weight.max().alias("__fe_heaviest")]
    keys = [*prepared.groups, *prepared.units.values(), *prepared.examples.values()]
    frame = frame.group_by(list(dict.fromkeys(keys))).agg(*aggregates)
    sums = Sums({name: nw.col(f"__fe_a_{name}") for name in asked})
    empty = nw.col("__fe_lost") >= nw.col("__fe_rows")
    invalid = empty & ~empty if unit.invalid is None else unit.invalid(sums) & ~empty
    if unit.drop:
        frame = frame.filter(~invalid)
    else:
        _check_units(frame, metric, invalid)
    if prepared.weight is not None:
        _check_even_weights(frame, prepared.weight)
    value = nw.when(~(empty | invalid)).then(unit.value(sums, nw.when))
    return frame.with_columns(value.alias("__fe_value"))


def _check_units(frame: nw.LazyFrame[Any], metric: Metric, invalid: Any) -> None:
    short = _count(frame, invalid)
    if short and metric.unit is not None:
        raise EvalError(f"{metric.name}: {short} problems have {metric.unit.message}")


def _check_even_weights(frame: nw.LazyFrame[Any], weight: str) -> None:
    uneven = _count(frame, nw.col("__fe_heaviest") > nw.col(weight))
    if uneven:
        raise EvalError(
            f"{uneven} problems have rows of different weight; a weight belongs to the example"
        )


def explain(prepared: Prepared, metrics: Mapping[int, Metric], missing: str) -> None:
    """Raise for the rows that :func:`_flags` found, naming column, count and what to do."""
    frame = prepared.frame
    if prepared.weight is not None:
        weight = nw.col(prepared.weight)
        found = collect(
            frame.select(
                weight.is_null().cast(nw.Float64).sum().alias("null"),
                (weight < 0).cast(nw.Float64).sum().alias("negative"),
                weight.count().alias("all"),
            )
        ).row(0)
        if found[0]:
            raise EvalError(f"weight has {found[0]:.0f} null rows; drop or fill them first")
        if found[1]:
            raise EvalError(f"weight has {found[1]:.0f} negative values; weights are at least 0")
        infinite = (~weight.is_finite()).cast(nw.Float64).sum().alias("x")
        if collect(frame.select(infinite)).item():
            raise EvalError("weight has infinite values")
    for name, alias in prepared.units.items():
        nulls = _count(frame, nw.col(alias).is_null())
        if nulls:
            raise EvalError(
                f"column {name!r} names what was sampled independently and has {nulls} null rows; "
                "fill or drop them first"
            )
    used = dict.fromkeys(
        prepared.inputs[given.key]  # type: ignore[union-attr]
        for metric in metrics.values()
        for given in metric.inputs.values()
    )
    for alias in used:
        given, columns, invalid = prepared.invalid[alias]
        if invalid is not None and _count(frame, invalid.fill_null(False)):
            _explain_values(frame, alias, given, columns[0])
    for alias in used:
        nulls = _count(frame, nw.col(alias).is_null())
        if nulls:
            names = " or ".join(repr(name) for name in prepared.invalid[alias][1])
            if missing == "worst":
                raise EvalError(
                    f"{nulls} rows are missing in {names}, and the metric has no worst value for "
                    "them; use missing='drop', or give the metric bounds and a direction"
                )
            raise EvalError(
                f"{nulls} rows are missing (null or NaN) in {names}; say missing='drop' to leave "
                "them out and count them, or missing='worst' to count them as failures"
            )
    raise EvalError("the frame changed while it was read")


def _count(frame: nw.LazyFrame[Any], condition: Any) -> int:
    counted = collect(frame.select(condition.cast(nw.Float64).sum().alias("x")))["x"].sum()
    return int(counted or 0)


def _explain_values(frame: nw.LazyFrame[Any], alias: str, given: Input, column: str) -> None:
    seen = collect(frame.select(nw.col(alias)).unique().head(1000)).to_series().drop_nulls()
    values = sorted(seen.to_list())
    listed = ", ".join(f"{value:g}" for value in values[:20]) + (
        ", ..." if len(values) > 20 else ""
    )
    if given.kind == "label":
        raise EvalError(
            f"column {column!r} holds classes {listed}; name the positive= class, or choose "
            "average='macro', 'micro', 'weighted' or None"
        )
    raise EvalError(
        f"column {column!r} must be 0/1 or boolean, but holds {listed}; use fe.mean for scores"
    )
