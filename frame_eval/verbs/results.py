"""Result frames: columns of numbers put together, with the keys in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

TEXTS = ("metric", "method", "note")


def joined(blocks: Sequence[dict[str, Any]], whole: Sequence[str]) -> pl.DataFrame:
    """Blocks of equal columns below one another: NaN as null, ``whole`` numbers as integers.

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
    types: dict[str, Any] = dict.fromkeys(TEXTS, pl.String)
    lists = {k: v.tolist() if v.dtype == object else v for k, v in columns.items()}
    rows = pl.DataFrame(lists, schema_overrides=types)
    return rows.with_columns(pl.col(pl.Float64).fill_nan(None)).with_columns(
        pl.col(whole).cast(pl.Int64)
    )


def with_keys(rows: pl.DataFrame, *keys: tuple[pl.DataFrame, Any]) -> pl.DataFrame:
    """The rows behind their key columns: of each frame of values, the one at every position."""
    front: list[pl.DataFrame] = [values[place] for values, place in keys if values.width]
    return pl.concat([*front, rows], how="horizontal")
