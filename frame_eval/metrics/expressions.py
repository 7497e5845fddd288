"""What rows have in common by a key, as Polars expressions: for metrics over cells said as one.

Each expression has a value for every row, and none of the rows has a null.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import polars as pl


def rank_from_top(key: pl.Expr) -> pl.Expr:
    """How many rows have a key as high."""
    return key.rank("max", descending=True).cast(pl.Float64)


def rank_above(key: pl.Expr) -> pl.Expr:
    """How many rows have a higher key."""
    return key.rank("min", descending=True).cast(pl.Float64) - 1.0


def ties(key: pl.Expr) -> pl.Expr:
    """How many rows have the same key."""
    return rank_from_top(key) - rank_above(key)


def from_top(x: pl.Expr, key: pl.Expr) -> pl.Expr:
    """The sum of x over the rows with a key as high."""
    ordered = x.sort_by(key, descending=True).cum_sum()
    return ordered.gather(key.rank("max", descending=True) - 1)


def above(x: pl.Expr, key: pl.Expr) -> pl.Expr:
    """The sum of x over the rows with a higher key."""
    ordered = x.sort_by(key, descending=True).cum_sum().shift(1, fill_value=0.0)
    return ordered.gather(key.rank("min", descending=True) - 1)


def sum_within(x: pl.Expr, key: pl.Expr) -> pl.Expr:
    """The sum of x over the rows with the same key."""
    return from_top(x, key) - above(x, key)


def mean_within(x: pl.Expr, key: pl.Expr) -> pl.Expr:
    """The mean of x over the rows with the same key."""
    return sum_within(x, key) / ties(key)


def is_value(column: pl.Expr, value: Any) -> pl.Expr:
    """Whether rows have a value; numbers of any type are compared as numbers."""
    return column.cast(pl.Float64) == float(value) if isinstance(value, Real) else column == value


def place_among(column: pl.Expr, values: Sequence[Any]) -> pl.Expr:
    """The position of each row's value among some; none of them raises when it is evaluated."""
    if isinstance(values[0], Real):
        column, values = column.cast(pl.Float64), [float(value) for value in values]
    return column.replace_strict(values, range(len(values)), return_dtype=pl.Float64)


def distances(x: pl.Expr) -> pl.Expr:
    """The sum of the distances of all pairs of rows, each in both orders."""
    return 2 * ((2 * x.rank("average") - x.len().cast(pl.Float64) - 1) * x).sum()
