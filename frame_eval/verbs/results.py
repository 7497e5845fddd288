"""Result frames: columns of numbers put together, with the keys in front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from frame_eval.inference.difference import Difference
from frame_eval.inference.intervals import Intervals
from frame_eval.inference.simultaneous import Family

Made = TypeVar("Made", Intervals, Difference)
TEXTS = ("metric", "rule", "method", "note")
_NO_LEVEL = "too few clusters for intervals that hold all at once"


def joined(
    blocks: Sequence[dict[str, Any]], whole: Sequence[str], order: Sequence[str] = ()
) -> pl.DataFrame:
    """Blocks of equal columns below one another: NaN as null, ``whole`` numbers as integers.

    The rows are put in the order of some columns (of which there may be fewer), ties as they are.
    The column ``class`` is left out where no block has one, and text where classes are of several
    types.
    """
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    kinds = {type(label) for label in columns["class"]} - {type(None)}
    if not kinds:
        del columns["class"]
    elif len(kinds) > 1:
        labels = [None if label is None else str(label) for label in columns["class"]]
        columns["class"] = np.array(labels, object)
    if order:
        place = np.lexsort(
            [_sortable(columns[name]) for name in reversed(order) if name in columns]
        )
        columns = {name: values[place] for name, values in columns.items()}
    return pl.DataFrame([_series(name, column, whole) for name, column in columns.items()])


def _sortable(values: Any) -> Any:
    """Values as numbers in their order, None first."""
    if values.dtype != object:
        return values
    return pl.Series(values.tolist()).rank("dense").fill_null(0).to_numpy()


def _series(name: str, values: Any, whole: Sequence[str]) -> pl.Series:
    # Made right at once: every expression on a frame is a query, which costs more than small rows.
    if values.dtype == object:
        return pl.Series(name, values.tolist(), pl.String if name in TEXTS else None)
    numbers = pl.Series(name, values, nan_to_null=True)
    return numbers.cast(pl.Int64) if name in whole else numbers


def from_rows(rows: Sequence[dict[str, Any]], whole: Sequence[str]) -> pl.DataFrame:
    """Rows of numbers and texts: NaN as null, ``whole`` numbers as integers."""
    types = {name: pl.String if name in TEXTS else pl.Float64 for name in rows[0]}
    found = pl.DataFrame(rows, schema=types).with_columns(pl.col(pl.Float64).fill_nan(None))
    return found.with_columns(pl.col(whole).round().cast(pl.Int64))


def with_keys(rows: pl.DataFrame, *keys: tuple[pl.DataFrame, Any]) -> pl.DataFrame:
    """The rows behind their key columns: of each frame of values, the one at every position."""
    front = [column[place] for values, place in keys for column in values.iter_columns()]
    return pl.DataFrame([*front, *rows.iter_columns()])


def at_level(make: Callable[[float], Made], level: float, family: Family | None) -> Made:
    """Intervals at a level; or at a higher one, at which those of a family hold all at once.

    Where there is none, as signs on few clusters leave no error, the limits are null.
    """
    if family is None:
        return make(level)
    higher = family.level(level)
    none = higher >= 1
    made = make(level if none else higher)
    how = "simultaneous by normal draws" if family.normal else "simultaneous"
    method = np.array([text and f"{text}, {how}" for text in made.method], object)
    if not none:
        return replace(made, method=method)
    note = [
        "; ".join(filter(None, (said, text and _NO_LEVEL)))
        for said, text in zip(made.note, method, strict=True)
    ]
    nothing = np.full(len(note), np.nan)
    return replace(made, low=nothing, high=nothing, method=method, note=np.array(note, object))
