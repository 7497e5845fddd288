"""What a question needs of a frame: its roles, and every column made and named privately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import polars as pl

from frame_eval.columns import Columns, Input, Source, check_source, source_name
from frame_eval.errors import ColumnError, EvalError
from frame_eval.metrics.core import Metric
from frame_eval.reduce.engines import Scan, collect, require
from frame_eval.running import current
from frame_eval.slices import Slices, names


@dataclass(frozen=True)
class Roles:
    """Which columns play which part; each a list of names."""

    system: tuple[str, ...] = ()
    example: tuple[str, ...] = ()
    trial: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    weight: Source | None = None
    strata: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        system: Columns | None,
        example: Columns | None,
        trial: Columns | None,
        cluster: Columns | None,
        weight: Source | None,
        strata: Columns | None = None,
    ) -> Roles:
        """The roles as the verbs take them."""
        if weight is not None:
            check_source(weight)
        roles = cls(
            tuple(names(system)),
            tuple(names(example)),
            tuple(names(trial)),
            tuple(names(cluster)),
            weight,
            tuple(names(strata)),
        )
        if roles.trial and not roles.example:
            raise EvalError("trial= tells the rows of one example apart: say example= too")
        return roles

    @property
    def unit(self) -> tuple[str, ...]:
        """What is sampled independently: the cluster, else the example, else (empty) the row."""
        return self.cluster or self.example


@dataclass
class Prepared:
    """A scan whose private columns are made: keys, units, weight and metric inputs.

    ``read`` says of the inputs what they are, of which columns, and the dtype of the first.
    """

    native: Any
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
    read: dict[str, tuple[Input, list[str], Any]] = field(default_factory=dict)
    dtypes: dict[str, Any] = field(default_factory=dict)
    strata: dict[str, str] = field(default_factory=dict)
    rows: int | None = None

    @cached_property
    def frame(self) -> nw.LazyFrame[Any]:
        """The frame as one of narwhals."""
        frame: nw.LazyFrame[Any] = nw.from_native(self.native)
        return frame

    @property
    def is_polars(self) -> bool:
        """Whether native Polars expressions can be evaluated here."""
        return isinstance(self.native, pl.LazyFrame)

    @property
    def resident(self) -> bool:
        """Whether the rows are in memory."""
        return self.rows is not None

    @property
    def groups(self) -> list[str]:
        """The private columns that name the slice and the system."""
        return [*self.groups_without_systems, *self.systems.values()]

    @property
    def groups_without_systems(self) -> list[str]:
        """The private columns that name the slice."""
        return [*self.keys.values(), *self.conditions.values()]


def check_columns(
    there: Iterable[str], metrics: Sequence[Metric], slices: Slices, roles: Roles
) -> None:
    """Raise where a question names a column that is not there, saying what for."""
    there = list(there)
    sources = [source for m in metrics for i in m.made.values() for source in i.sources]
    wanted: dict[str, Iterable[Source | None]] = {
        "slice key": slices.columns,
        "system": roles.system,
        "example": roles.example,
        "trial": roles.trial,
        "cluster": roles.cluster,
        "strata": roles.strata,
        "weight": [roles.weight],
        "input": sources,
        "condition": slices.conditions.values(),
    }
    for role, columns in wanted.items():
        require(there, [column for column in columns if isinstance(column, str)], role)


def prepare(scan: Scan, metrics: Sequence[Metric], slices: Slices, roles: Roles) -> Prepared:
    """Make every column that the question needs, and drop the others."""
    inputs = {i.key: i for metric in metrics for i in metric.made.values()}
    conditions = slices.conditions
    sources = [source for given in inputs.values() for source in given.sources]
    weights = [] if roles.weight is None else [roles.weight]
    check_columns(scan.schema, metrics, slices, roles)
    scan, named = scan.with_sources([*sources, *weights, *conditions.values()])
    dtypes, ns = scan.schema, scan.words

    made: list[Any] = []
    prepared = Prepared(
        scan.native, roles, slices, {}, {}, {}, {}, {}, {}, None, {}, {}, dict(dtypes)
    )

    def key_columns(columns: Sequence[str], prefix: str) -> dict[str, str]:
        private = {name: f"__fe_{prefix}{i}" for i, name in enumerate(columns)}
        for name, alias in private.items():
            made.append(_key(ns, scan.column(name), name, dtypes[name]).alias(alias))
        return private

    prepared.keys = key_columns(slices.columns, "k")
    prepared.systems = key_columns(roles.system, "m")
    prepared.units = key_columns(roles.unit, "u")
    prepared.examples = key_columns(roles.example, "x")
    prepared.trials = key_columns(roles.trial, "t")
    prepared.strata = key_columns(roles.strata, "h")
    for i, (name, source) in enumerate(conditions.items()):
        column = _resolved(source, named)
        if dtypes[column] != nw.Boolean:
            raise ColumnError(f"condition {name!r} is {dtypes[column]}, not boolean")
        prepared.conditions[name] = f"__fe_w{i}"
        made.append(scan.column(column).fill_null(False).alias(f"__fe_w{i}"))
    if roles.weight is not None:
        column = _resolved(roles.weight, named)
        if not dtypes[column].is_numeric():
            raise ColumnError(f"weight {column!r} is {dtypes[column]}, not numeric")
        prepared.weight = "__fe_weight"
        made.append(scan.column(column).cast(ns.Float64).fill_nan(None).alias("__fe_weight"))
    for i, (key, given) in enumerate(inputs.items()):
        columns = [_resolved(source, named) for source in given.sources]
        types = [dtypes[column] for column in columns]
        called = [source_name(source) for source in given.sources]
        given.check_dtypes(called, types)
        _check_default_positive(given, columns[0], types[0], scan)
        alias = f"__fe_i{i}"
        value = _binned(scan, given, given.build(ns, [scan.column(c) for c in columns], types))
        made.append(value.alias(alias))
        prepared.inputs[key] = alias
        prepared.read[alias] = (given, called, types[0])
    if not made:
        made.append(ns.lit(0).alias("__fe_row"))
    prepared.native = scan.select(made)
    prepared.rows = scan.rows
    return prepared


def _binned(scan: Scan, given: Input, value: Any) -> Any:
    """Finite scores as the middle of their bin of equal width, where bins are asked for."""
    bins, ns = current().score_bins, scan.words
    if bins is None or given.kind != "score":
        return value
    finite = value.is_finite()
    inside = nw.from_native(scan.select([ns.when(finite).then(value).alias("x")]))
    ends = collect(inside.select(nw.col("x").min().alias("low"), nw.col("x").max().alias("high")))
    low, high = ends.row(0)
    if low is None or low == high:
        return value
    width = (high - low) / bins
    # Polars divides by a number as it multiplies by its inverse, others and single rows do not.
    at = ((value - low) * (1 / width)).floor()
    at = ns.when(at < bins).then(at).otherwise(bins - 1.0)
    return ns.when(finite).then(low + (at + 0.5) * width).otherwise(value)


def _resolved(source: Source, named: Mapping[int, str]) -> str:
    return source if isinstance(source, str) else named[id(source)]


def _key(ns: Any, column: Any, name: str, dtype: Any) -> Any:
    """A key column in which null and NaN are one group, and categories are their text."""
    if dtype == nw.Object:
        raise ColumnError(f"column {name!r} holds Python objects; cast it to one type first")
    if dtype in (nw.Categorical, nw.Enum) or isinstance(dtype, nw.Enum):
        return column.cast(ns.String)
    return column.fill_nan(None) if dtype.is_float() else column


def _check_default_positive(given: Input, column: str, dtype: Any, scan: Scan) -> None:
    usual = dtype in (nw.Boolean, nw.Unknown) or dtype.is_numeric()
    if given.kind == "label" and given.positive is None and not usual:
        raise EvalError(
            f"column {source_name(given.source)!r} holds classes "
            f"{_classes(scan, column)}; name the positive= class, or choose "
            "average='macro', 'micro', 'weighted' or None"
        )


def _classes(scan: Scan, column: str) -> str:
    values = nw.from_native(scan.select([scan.column(column)])).unique()
    seen = collect(values.head(21)).to_series().drop_nulls()
    listed = ", ".join(map(repr, sorted(seen.to_list(), key=str)[:20]))
    return listed + (", ..." if len(seen) > 20 else "")
