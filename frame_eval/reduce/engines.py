"""Where the data lives: native frames in, narwhals lazy frames out, results back again.

The only place that knows engines. pandas and Arrow go through Arrow into Polars; Polars runs on its
streaming engine, over the partitions of a Dask frame too; DuckDB, Spark and other lazy engines get
the group-by pushed down.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import narwhals.exceptions
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pandas.api.types import is_object_dtype
from polars.io.plugins import register_io_source

from frame_eval.columns import Source
from frame_eval.errors import ColumnError, EvalError, did_you_mean, listing
from frame_eval.reduce.failures import engine_name, first_line, misnamed, said_by
from frame_eval.reduce.groups import TooManyGroups, Total, totals_of

_AT_ONCE = 8  # partitions of a Dask frame that are in memory together
_FEW = 10_000  # rows that are done before streams of them are set up
_EXACT = 2.0**53  # whole numbers from here on are not all floating point numbers
# Halves are rounded to even by Polars alone, and narwhals makes Sunday 0 in Spark alone.
_OTHERWISE = {"DuckDB": ("round",), "Spark": ("round", "dt.weekday")}
_AS_WRITTEN = pl.QueryOptFlags.none()


@dataclass(frozen=True)
class Scan:
    """A lazy frame of its engine, with its schema; ``rows`` are those of one in memory."""

    native: Any
    schema: dict[str, Any]
    rows: int | None

    @property
    def frame(self) -> nw.LazyFrame[Any]:
        """The frame as one of narwhals."""
        frame: nw.LazyFrame[Any] = nw.from_native(self.native)
        return frame

    @property
    def is_polars(self) -> bool:
        """Whether native Polars expressions can be evaluated here."""
        return isinstance(self.native, pl.LazyFrame)

    @property
    def words(self) -> Any:
        """The module whose expressions ``select`` takes: Polars' own need no translation."""
        return pl if self.is_polars else nw

    def select(self, columns: Sequence[Any]) -> Any:
        """The native frame with these columns alone."""
        with said_by(self.native):
            if self.is_polars:
                return self.native.select(*columns)
            return nw.to_native(self.frame.select(*columns))

    def column(self, name: str) -> Any:
        """The column of that name, in the words of the frame."""
        return self.words.col(self.quoted(name))

    def quoted(self, name: str) -> str:
        """A name as the engine takes it: to Spark a dot leads to a field of a struct."""
        spark = engine_name(self.native) == "Spark"
        return "`" + name.replace("`", "``") + "`" if spark else name

    @property
    def widened(self) -> nw.LazyFrame[Any]:
        """The frame as expressions meet it, without NaN and with wide numbers.

        Engines disagree on NaN > 0, on sums that do not fit their type and on what a single 0.1 is.
        """
        made = []
        for name, dtype in self.schema.items():
            wide = _wide(dtype)
            if wide is not None:
                column = nw.col(self.quoted(name)).cast(wide)
                made.append((column.fill_nan(None) if dtype.is_float() else column).alias(name))
        return self.frame.with_columns(*made) if made else self.frame

    def narrowed(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """A widened frame with its columns as they were, but for NaN."""
        made = [
            nw.col(self.quoted(name)).cast(dtype).alias(name)
            for name, dtype in self.schema.items()
            if _wide(dtype) not in (None, dtype)
        ]
        return frame.with_columns(*made) if made else frame

    def with_sources(self, sources: Sequence[Source]) -> tuple[Scan, dict[int, str]]:
        """Expressions evaluated as private columns; their names by the id of the expression."""
        named: dict[int, str] = {}
        if all(isinstance(source, str) for source in sources):
            return self, named
        with said_by(self.native):
            frame = self.widened
        for source in sources:
            if isinstance(source, str) or id(source) in named:
                continue
            name = f"__fe_e{len(named)}"
            frame = self._with_source(frame, source, name)
            named[id(source)] = name
        try:
            frame = self.narrowed(frame)
            return Scan(nw.to_native(frame), _schema_of(frame), self.rows), named
        except (nw.exceptions.ColumnNotFoundError, pl.exceptions.ColumnNotFoundError) as error:
            raise misnamed(error) from None
        except (nw.exceptions.NarwhalsError, pl.exceptions.PolarsError) as error:
            raise ColumnError(
                f"an expression does not fit the columns: {first_line(error)}"
            ) from None

    def _with_source(self, frame: nw.LazyFrame[Any], source: Any, name: str) -> nw.LazyFrame[Any]:
        if isinstance(source, nw.Expr):
            _check_names(source, self.schema)
            engine, text = engine_name(self.native), str(source)
            other = [method for method in _OTHERWISE.get(engine, ()) if f".{method}(" in text]
            if other:
                raise ColumnError(
                    f"{engine} can not evaluate {other[0]}() as Polars does. "
                    "Make it a column of the frame first."
                )
            try:
                return frame.with_columns(source.alias(name))
            except nw.exceptions.ColumnNotFoundError as error:
                raise misnamed(error) from None
            except Exception as error:
                raise ColumnError(
                    f"{engine_name(nw.to_native(frame))} can not evaluate an expression: "
                    f"{first_line(error)} Make it a column of the frame first."
                ) from error
        if not self.is_polars:
            raise ColumnError(
                f"{source!r} can not be evaluated by {engine_name(nw.to_native(frame))}; use fe.col"
            )
        if source.meta.has_multiple_outputs():
            raise ColumnError(f"{source!r} may be more than one column; name one")
        native: pl.LazyFrame = nw.to_native(frame).with_columns(source.alias(name))
        return nw.from_native(native)


_WIDE = (
    ((nw.Float32, nw.Float64), nw.Float64()),
    ((nw.Int8, nw.Int16, nw.Int32, nw.UInt8, nw.UInt16, nw.UInt32), nw.Int64()),
    ((nw.UInt64,), nw.Int128()),
)


def _wide(dtype: Any) -> Any:
    """The type in which numbers of a type are added up without loss; None for others."""
    return next((wide for narrow, wide in _WIDE if dtype in narrow), None)


def _check_names(source: nw.Expr, there: Iterable[str]) -> None:
    """Raise where an expression names no column: other engines than Polars do not look at case."""
    names_alone: nw.LazyFrame[Any] = nw.from_native(
        pl.LazyFrame(schema=dict.fromkeys(there, pl.Null))
    )
    try:
        names_alone.select(source).collect_schema()
    except nw.exceptions.ColumnNotFoundError as error:
        raise misnamed(error) from None
    except (nw.exceptions.NarwhalsError, pl.exceptions.PolarsError, NotImplementedError):
        return  # it is all about names here, not about types


def scan(native: Any, needed: Sequence[str] | None) -> Scan:
    """The frame as a lazy one of its engine; of pandas frames only ``needed`` columns (or all)."""
    if isinstance(native, pd.DataFrame):
        native = _from_pandas(native, needed)
    elif isinstance(native, (pa.Table, pa.RecordBatch)):
        _check_unique(native.schema.names, needed)
        native = pl.from_arrow(native)
    elif _is_dataset(native):
        native = pl.scan_pyarrow_dataset(native)
    elif nw.dependencies.is_dask_dataframe(native):
        native = _from_dask(native)
    rows = native.height if isinstance(native, pl.DataFrame) else None
    with said_by(native):
        if isinstance(native, (pl.DataFrame, pl.LazyFrame)):
            lazy = native.lazy()
            return Scan(lazy, dict(nw.Schema.from_polars(lazy.collect_schema())), rows)
        try:
            frame = nw.from_native(native).lazy()
        except TypeError:
            raise EvalError(
                f"{type(native).__name__} is no frame; use a frame of pandas, Polars, Arrow, "
                "DuckDB, Spark or Dask, such as pl.scan_parquet(files) or connection.sql(query)"
            ) from None
        return Scan(nw.to_native(frame), _schema_of(frame), None)


def _is_dataset(native: Any) -> bool:
    """Whether a frame is an Arrow dataset; their module is slow to import, and there if one is."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(native, module.Dataset)


def _schema_of(frame: nw.LazyFrame[Any]) -> dict[str, Any]:
    return dict(frame.collect_schema())


def require(schema: Iterable[str], wanted: Iterable[str], role: str) -> None:
    """Raise where a column is not there, naming the closest and what there is."""
    there = [name for name in schema if not name.startswith("__fe_")]
    for name in wanted:
        if name not in there:
            hint = did_you_mean(name, there)
            shown = listing(there) if there else "none whose name is text; rename them first"
            raise ColumnError(f"{role} {name!r} is not a column.{hint} Columns: {shown}.")
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise ColumnError(f"{role} {name!r} would be read as a pattern; rename the column")


def collect(frame: Any, *, long: bool = False, rows: int | None = None) -> pl.DataFrame:
    """The rows of a result of narwhals or Polars; one as ``long`` as the input is not streamed.

    Nor are few ``rows`` in memory, where a plan takes longer to improve than to run.
    """
    native = nw.to_native(frame, pass_through=True)
    with said_by(native):
        if not isinstance(native, pl.LazyFrame):
            result: pl.DataFrame = nw.to_native(frame.collect("polars"))
        elif rows is not None and rows <= _FEW:
            result = native.collect(engine="in-memory", optimizations=_AS_WRITTEN)
        else:
            engine: Literal["in-memory", "streaming"] = "in-memory" if long else "streaming"
            result = native.collect(engine=engine)
    return result


def collect_groups(
    frame: Any,
    keys: Sequence[str],
    totals: Sequence[Total],
    words: Any,
    rows: int | None = None,
    most: int | None = None,
) -> pl.DataFrame:
    """The totals, in some words, of groups of a frame; raises for more than ``most`` of them.

    Polars would put rows aside where groups are many, which grows with the rows: those that are not
    in memory are added up as they come.
    """
    native = nw.to_native(frame, pass_through=True)
    if rows is None and isinstance(native, pl.LazyFrame):
        with said_by(native):
            return totals_of(frame, keys, totals, most)
    groups = frame.group_by(*keys).agg(*(total.aggregate(words) for total in totals))
    found = collect(groups if most is None else groups.head(most + 1), rows=rows)
    if most is not None and found.height > most:
        raise TooManyGroups
    return found


def give_back(result: pl.DataFrame, native: pd.DataFrame, keys: Mapping[str, str]) -> pd.DataFrame:
    """A result as a pandas frame, its ``keys`` in the dtype of the native column they are from."""
    columns: dict[str, Any] = {column.name: _as_pandas(column) for column in result.iter_columns()}
    for name, source in keys.items():
        dtype = _pandas_dtype(native, source)
        if dtype is not None and (columns[name].dtype != dtype or is_object_dtype(dtype)):
            columns[name] = _restored(result[name], dtype).array
    return pd.DataFrame(columns)


def _as_pandas(values: pl.Series) -> Any:
    """A column as an array of pandas; numbers need no Arrow on the way."""
    plain = values.dtype.is_float() or values.dtype.is_integer()
    return values.to_numpy() if plain else values.to_pandas().array


def _restored(values: pl.Series, dtype: Any) -> pd.Series[Any]:
    """A key column in the dtype that it had in the input."""
    if isinstance(dtype, pd.CategoricalDtype):
        known = {str(value): value for value in dtype.categories}
        found = [known.get(str(value)) for value in values.to_list()]
        return pd.Series(found, dtype=object).astype(dtype)
    if values.null_count() and dtype.kind in "iub" and isinstance(dtype, np.dtype):
        return values.to_pandas()
    if isinstance(dtype, pd.ArrowDtype):
        arrow = values.to_arrow().cast(dtype.pyarrow_dtype)
        return pd.Series(pd.arrays.ArrowExtensionArray(arrow))
    if is_object_dtype(dtype):
        # Polars would give dates back as time stamps.
        return pd.Series(values.to_list(), dtype=object)
    return pd.Series(values.to_pandas().astype(dtype))


def _pandas_dtype(native: pd.DataFrame, name: str) -> Any:
    if name in native.columns:
        return native[name].dtype
    if name in native.index.names:
        return native.index.get_level_values(name).dtype
    return None


def column_names(native: Any) -> list[str] | None:
    """The column names of a pandas frame and its named index levels; None for other frames."""
    if not isinstance(native, pd.DataFrame):
        return None
    levels = [name for name in native.index.names if name is not None]
    return [str(name) for name in (*native.columns, *levels) if isinstance(name, str)]


def _from_pandas(native: pd.DataFrame, needed: Sequence[str] | None) -> pl.DataFrame:
    there = column_names(native) or []
    wanted = there if needed is None else [name for name in needed if name in there]
    _check_unique(list(native.columns), wanted)
    columns = {}
    for name in wanted:
        series = native[name] if name in native.columns else native.index.get_level_values(name)
        try:
            columns[name] = _column(name, series)
        except ColumnError:
            # An expression may not read this column at all: leave it out, and let it say so.
            if needed is not None:
                raise
    if needed is not None:
        # A frame without columns has no rows in Polars, and the row count matters.
        columns["__fe_row"] = pl.Series("__fe_row", np.zeros(len(native), dtype=np.int8))
    return pl.DataFrame(columns)


def _check_unique(there: Sequence[Any], wanted: Sequence[str] | None) -> None:
    """Raise where one of the wanted names (None: any) is that of two columns."""
    counts = Counter(there)
    twice = [name for name, times in counts.items() if times > 1]
    if twice and (wanted is None or set(twice) & set(wanted)):
        raise ColumnError(f"the frame has more than one column named {listing(twice)}")


def _column(name: str, series: Any) -> pl.Series:
    if isinstance(series.dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    if isinstance(series.dtype, pd.CategoricalDtype) and _exotic(series.dtype.categories.dtype):
        # Arrow has no intervals as Polars reads them: their text, as of all categories.
        series = pd.Series(series).cat.rename_categories(str)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iufb":
        return pl.Series(name, series.to_numpy(), nan_to_null=True)
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowException, OverflowError) as error:
        kinds = sorted({type(value).__name__ for value in series.dropna().head(1000)})
        raise ColumnError(
            f"column {name!r} holds mixed or unsupported types ({', '.join(kinds)}); "
            f"cast it to one type first [{error}]"
        ) from None
    return pl.Series(name, pl.from_arrow(array))


def _from_dask(native: Any) -> pl.LazyFrame:
    """A lazy frame that computes the partitions when it is collected, of the columns it needs."""
    dask: Any = nw.dependencies.get_dask()
    dtypes = dict(native.dtypes)
    if native.index.name is not None:
        dtypes[native.index.name] = native.index.dtype
    schema: dict[str, Any] = {
        name: _dask_dtype(name, dtype) for name, dtype in dtypes.items() if isinstance(name, str)
    }

    def partitions(
        columns: list[str] | None, condition: pl.Expr | None, most: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(schema) if columns is None else columns
        parts = list(native[[name for name in wanted if name in native.columns]].partitions)
        left = most
        for i in range(0, len(parts), _AT_ONCE):
            with said_by(native):
                computed = dask.compute(*parts[i : i + _AT_ONCE])
            for part in computed:
                rows = _declared(_from_pandas(part, wanted).select(wanted), schema)[:left]
                if left is not None:
                    left -= rows.height
                yield rows if condition is None else rows.filter(condition)
            if left == 0:
                return

    return register_io_source(partitions, schema=schema)


def _dask_dtype(name: str, dtype: Any) -> Any:
    """What a column of a Dask frame is in Polars."""
    if is_object_dtype(dtype):
        # What objects are is in the rows alone, and may differ by partition.
        return pl.Object()
    made = _column(name, pd.Series(dtype=dtype)).dtype
    # Categories that are not known before the rows are read are taken for texts.
    return pl.Categorical() if made == pl.Null and isinstance(dtype, pd.CategoricalDtype) else made


def _declared(rows: pl.DataFrame, schema: Mapping[str, Any]) -> pl.DataFrame:
    """A part of a Dask frame in the types of the whole: pandas has no null whole numbers."""
    made = []
    for values in rows.iter_columns():
        dtype = schema[values.name]
        if dtype.is_integer() and values.dtype.is_float():
            whole = (values == values.floor()) & (values.abs() < _EXACT)
            if not whole.all():
                raise ColumnError(
                    f"column {values.name!r} is {dtype}, but a part has fractions, or nulls among "
                    "numbers that pandas rounds; read it with dtype_backend='pyarrow'"
                )
        plain = values.dtype.is_integer() or values.dtype.is_float()
        if plain and (dtype.is_integer() or dtype == pl.Float64):
            made.append(values.cast(dtype))
        elif dtype == pl.Categorical and values.dtype != dtype:
            made.append(values.cast(pl.String).cast(dtype))
        else:
            made.append(values)
    return pl.DataFrame(made)


def _exotic(dtype: Any) -> bool:
    return isinstance(dtype, (pd.IntervalDtype, pd.PeriodDtype))


def filtered(native: Any, condition: Source) -> Any:
    """The rows of a frame for which a condition is true, as a native lazy frame."""
    scanned = scan(native, None)
    if isinstance(condition, str):
        require(scanned.schema, [condition], "condition")
    made, named = scanned.with_sources([condition])
    dtype = made.schema[condition if isinstance(condition, str) else named[id(condition)]]
    if dtype != nw.Boolean:
        raise ColumnError(f"the condition is {dtype}, not boolean")
    if isinstance(condition, str):
        return nw.to_native(scanned.frame.filter(nw.col(scanned.quoted(condition))))
    # By the condition itself, not the column made of it: engines then filter while they read.
    rows = scanned.widened
    if isinstance(condition, pl.Expr):
        rows = nw.from_native(nw.to_native(rows).filter(condition))
    else:
        rows = rows.filter(condition)
    return nw.to_native(scanned.narrowed(rows))


def distinct(native: Any, columns: Sequence[str]) -> pl.DataFrame:
    """The distinct values of some columns."""
    rows = scan(native, columns)
    require(rows.schema, columns, "slice key")
    chosen = rows.select([rows.column(name).alias(name) for name in columns])
    return collect(nw.from_native(chosen).unique())


def result_frame(native: Any, columns: Sequence[str]) -> pl.DataFrame | None:
    """An eager pandas or Polars frame that has these columns, as Polars; else None."""
    if not isinstance(native, (pd.DataFrame, pl.DataFrame)):
        return None
    if not set(columns) <= set(native.columns):
        return None
    if isinstance(native, pl.DataFrame):
        return native
    return _from_pandas(native, list(native.columns)).drop("__fe_row")
