"""What rows have in common by a key, as Polars expressions: for metrics over cells said as one.

Each expression has a value for every row, and none of the rows has a null.
"""

from __future__ import annotations

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


def mean_within(x: pl.Expr, key: pl.Expr) -> pl.Expr:
    """The mean of x over the rows with the same key."""
    return (from_top(x, key) - above(x, key)) / ties(key)
