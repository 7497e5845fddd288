"""Quantiles: order statistics of a column, over its distinct values as ordered cells."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from frame_eval.columns import Source, score, source_name
from frame_eval.errors import EvalError
from frame_eval.metrics.core import Better, Metric


def _no_sums(_: Any) -> Any:
    return {}


def quantile_of(values: Any, counts: Any, q: Any, rows: Any) -> Any:
    """Quantiles of sorted ``values`` that occur ``counts`` times (weights summing to ``rows``).

    Linear interpolation between order statistics (type 7 of Hyndman and Fan 1996). ``counts`` may
    have leading axes.
    """
    rows = np.asarray(rows, float)
    whole = np.sum(counts, axis=-1)
    last = np.cumsum(counts, axis=-1) * (rows / whole)[..., None] - 1.0
    position = np.asarray(q) * (rows - 1.0)
    below = np.floor(position + 1e-9)
    fraction = np.maximum(position - below, 0.0)
    tolerance = 1e-9 * rows

    def order_statistic(rank: Any) -> Any:
        at = (last < (rank - tolerance)[..., None]).sum(-1)
        return values[np.minimum(at, len(values) - 1)]

    low, high = order_statistic(below), order_statistic(below + 1)
    value = np.where(fraction > 1e-9, low + fraction * (high - low), low)
    # A first value that weighs less than a row is still the minimum.
    return np.where(np.asarray(q) == 0, values[np.argmax(np.asarray(counts) > 0, axis=-1)], value)


def _finish(q: float, s: Any) -> Any:
    rows = np.sum(s.rows, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = quantile_of(s.classes[0], s.n, q, rows)
    return np.where((rows > 0) & (np.sum(s.n, axis=-1) > 0), value, np.nan)


def _share_below(q: float, s: Any) -> Any:
    """The influence on the share of rows at or below the quantile, not on the quantile itself.

    Dividing by the density would need an estimate of it; order statistics do without.
    """
    below = s.classes[0] <= _finish(q, s)
    rows = np.sum(s.n)
    return {"n": (below - np.sum(s.n * below) / rows) / rows}


def _expression(q: float, c: Any) -> Any:
    return c.x.quantile(q, "linear")


def quantile(column: Source, q: float, *, better: Better = None) -> Metric:
    """A quantile of a numeric column, by linear interpolation between order statistics.

    Parameters
    ----------
    column
        A numeric column, in any unit; infinities are legal.
    q
        The level, 0 <= q <= 1.
    better
        The direction of guards, ``"higher"`` or ``"lower"``.

    Returns
    -------
    Metric
        Called ``p95(<column>)`` for q = 0.95 and ``median(<column>)`` for q = 0.5; in the unit of
        the column (type 7 of Hyndman and Fan 1996, as numpy and Polars' ``"linear"``). Its
        interval takes order statistics at binomial limits, which are null where the slice is too
        small to have them. Null for a slice without rows.

    Raises
    ------
    EvalError
        When q is outside [0, 1].

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"latency_s": [1.0, 2.0, 3.0, 4.0, 10.0]})
    >>> df.eval.summary(fe.quantile("latency_s", 0.75))["estimate"].item()
    4.0
    """
    if not 0 <= q <= 1:
        raise EvalError(f"q={q!r} is not between 0 and 1")
    name = "median" if q == 0.5 else f"p{100 * q:g}"
    return Metric(
        f"{name}({source_name(column)})",
        {"x": score(column)},
        _no_sums,
        partial(_finish, q),
        cells=("x",),
        ordered=True,
        gradient=partial(_share_below, q),
        counts=True,
        better=better,
        smooth=False,
        quantile=q,
        expression=partial(_expression, q),
    )


def median(column: Source, *, better: Better = None) -> Metric:
    """The median of a numeric column: :func:`quantile` at one half.

    Parameters
    ----------
    column
        A numeric column, in any unit.
    better
        The direction of guards, ``"higher"`` or ``"lower"``.

    Returns
    -------
    Metric
        Called ``median(<column>)``; in the unit of the column.

    Raises
    ------
    ColumnError
        In a verb, when the column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"latency_s": [1.0, 2.0, 9.0]})
    >>> df.eval.summary(fe.median("latency_s"))["estimate"].item()
    2.0
    """
    return quantile(column, 0.5, better=better)
