"""Integer codes of keys of any type, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from frame_eval.reduce.keys import Column, blocks
from frame_eval.table import Ints, packed
from frame_eval.threads import spread_out

ONE = pl.DataFrame({"__fe_one": [0]})  # the values of no key
_FEW = 16  # texts that are compared faster than hashed
_MANY = 1000  # texts that an Enum finds faster than a join
_FEW_KEYS = 10_000  # keys that the first rows may have all
_SHORT = 10_000  # rows that are looked at before a query is planned


def _few_texts(keys: pl.DataFrame) -> tuple[Ints, pl.DataFrame] | None:
    """The codes of texts by comparing them with those of the first rows; None for other keys."""
    if keys.dtypes != [pl.String]:
        return None
    distinct = keys.head(_MANY).unique().sort(keys.columns, nulls_last=True)
    if distinct.height > _FEW:
        return None
    key, code = pl.col(keys.columns[0]), pl.lit(None, pl.Int64)
    for position, text in enumerate(distinct.to_series()):
        code = pl.when(key.eq_missing(text)).then(pl.lit(position, pl.Int64)).otherwise(code)
    found = keys.lazy().select(code).collect(engine="streaming").to_series()
    return None if found.null_count() else (found.to_numpy(), distinct)


def _searched(keys: pl.DataFrame) -> tuple[Ints, pl.DataFrame] | None:
    """The codes of few rows, by a search among the values of each column; None for other keys."""
    if keys.height > _SHORT or any(d.is_nested() or d == pl.Null for d in keys.dtypes):
        return None
    if keys.width > 1:
        places = tuple(codes(keys, [name])[0] for name in keys.columns)
        _, first, code = np.unique(packed(places), return_index=True, return_inverse=True)
        return code, keys[first]
    column = keys.to_series()
    values = column.unique().sort(nulls_last=True)
    known = len(values) - values.null_count()
    place = values[:known].search_sorted(column).to_numpy().astype(np.int64)
    if known < len(values):
        place[column.is_null().to_numpy()] = known
    return place, values.to_frame()


def _range(keys: pl.DataFrame) -> tuple[pl.Series, int, int] | None:
    """Whole numbers with the least and the highest of them; None for other keys."""
    column = keys.to_series()
    whole = keys.width == 1 and column.dtype.is_integer() and not column.null_count()
    if not whole or column.dtype in (pl.UInt64, pl.Int128, pl.UInt128) or not len(column):
        return None
    wide = column.cast(pl.Int64)
    values = Column(wide)
    ends = spread_out(lambda part: (values[part].min(), values[part].max()), blocks(len(values)))
    return wide, int(min(ends)[0]), int(max(end[1] for end in ends))


def _dense_codes(keys: pl.DataFrame, dtype: Any) -> tuple[Any, pl.DataFrame] | None:
    """The codes of whole numbers in a narrow range, by counting; None for other keys."""
    found = _range(keys)
    if found is None:
        return None
    column = keys.to_series()
    wide, low, high = found
    if high - low > 4 * len(column) + 1000:
        return None
    values, parts = Column(wide), blocks(len(wide))
    there = np.zeros(high - low + 1, bool)

    def mark(part: slice) -> None:
        # The first rows often have all keys, if these are few.
        if len(there) > _FEW_KEYS or not there.all():
            there[values[part] - low] = True

    spread_out(mark, parts)
    distinct = np.flatnonzero(there)
    names = pl.Series(column.name, distinct + low).cast(column.dtype).to_frame()
    dense = len(distinct) == len(there)
    if dense and dtype is None:
        return Column(wide, low), names
    if dense and not low and len(values.chunks) == 1:
        return values.chunks[0], names
    code = np.empty(len(values), dtype or np.min_scalar_type(len(distinct)))
    number = np.cumsum(there) - 1

    def place(part: slice) -> None:
        at = values[part] - low
        code[part] = at if dense else number[at]

    spread_out(place, parts)
    return code, names


def codes(
    frame: pl.DataFrame, columns: Sequence[str], dtype: Any = np.int64
) -> tuple[Any, pl.DataFrame]:
    """Positions of the rows among the distinct, sorted values of some columns, and those values.

    Without a ``dtype`` the positions are whole numbers of any type, had a part at a time.
    """
    if not columns:
        return np.zeros(frame.height, np.int64), ONE
    keys = pl.DataFrame([frame[name] for name in columns])
    # -0.0 and 0.0 are one group: it is called 0.0 whichever came first.
    floats = {name: dtype for name, dtype in keys.schema.items() if dtype.is_float()}
    if floats:
        keys = keys.with_columns(
            pl.when(pl.col(name) == 0).then(pl.lit(0.0, dtype)).otherwise(pl.col(name)).alias(name)
            for name, dtype in floats.items()
        )
    for quickly in (partial(_dense_codes, dtype=dtype), _searched, _few_texts):
        known = quickly(keys)
        if known is not None:
            return known
    unique = keys.lazy().unique().collect(engine="streaming")
    distinct = unique.sort(columns, nulls_last=True)
    if distinct.height == 1:
        return np.zeros(frame.height, np.int64), distinct
    if distinct.dtypes == [pl.String] and distinct.height <= _MANY:
        # Faster than a join.
        texts = keys[columns[0]].cast(pl.Enum(distinct[columns[0]].drop_nulls()))
        code = texts.to_physical().cast(pl.Int64).fill_null(distinct.height - 1)
        return code.to_numpy(), distinct
    numbered = distinct.with_row_index("__fe_code")
    found = keys.join(
        numbered, on=list(columns), how="left", nulls_equal=True, maintain_order="left"
    )
    return found["__fe_code"].to_numpy().astype(np.int64), distinct


def sparse_codes(frame: pl.DataFrame, columns: Sequence[str]) -> tuple[Any, int]:
    """Codes of the rows that may leave some numbers out, and how many numbers there are.

    Whole numbers in a narrow range are told apart as they are: to look for gaps takes longer.
    """
    found = _range(frame.select(columns)) if len(columns) == 1 else None
    if found is None or found[2] - found[1] > frame.height // 2:
        code, distinct = codes(frame, columns)
        return code, distinct.height
    column, low, high = found
    return np.asarray(Column(column, low)), high - low + 1
