"""Means, rates and ratios of columns, and errors of numeric predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from frame_eval.columns import Source, flag, number, source_name
from frame_eval.metrics.core import Better, Bounds, Metric
from frame_eval.metrics.shares import SHARE, share


def _no_rows(s: Any) -> Any:
    return s.n == 0


NO_ROWS = {"no rows": _no_rows}


def mean_of(s: Any) -> Any:
    return s.x / s.n


def mean_gradient(s: Any) -> Any:
    return {"x": 1.0 / s.n, "n": -s.x / s.n**2}


def _x(c: Any) -> Any:
    return {"x": c.x}


def is_mean(metric: Metric) -> bool:
    """Whether the metric is a mean of values of single rows."""
    return metric.finish is mean_of


def mean(column: Source, *, better: Better = None, bounds: Bounds = (None, None)) -> Metric:
    """The mean of a numeric column: sum(x) / n.

    Parameters
    ----------
    column
        A numeric or boolean column or an expression, in any unit.
    better
        The direction of guards, ``"higher"`` or ``"lower"``.
    bounds
        The smallest and largest possible value; with both, intervals stay inside them and
        ``missing="worst"`` knows what to count.

    Returns
    -------
    Metric
        Called ``mean(<column>)``; in the unit of the column. Null for a slice without rows. Its
        nominal 95 % intervals cover 94 to 96 % of normal values; of lognormal ones 83, 88 and 91 %
        at 10, 30 and 100 rows.

    Raises
    ------
    ColumnError
        In a verb, when the column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"latency_s": [1.0, 2.0, 6.0]})
    >>> df.eval.summary(fe.mean("latency_s"))["estimate"].item()
    3.0
    """
    low, high = bounds
    bad = low if better == "higher" else high if better == "lower" else None
    return Metric(
        f"mean({source_name(column)})",
        {"x": number(column)},
        _x,
        mean_of,
        gradient=mean_gradient,
        better=better,
        bounds=bounds,
        undefined=NO_ROWS,
        worst=None if bad is None else {"x": bad},
    )


def _hits_of_x(c: Any) -> Any:
    return {"hits": c.x}


def rate(column: Source) -> Metric:
    """The share of ones in a 0/1 or boolean column: hits / n.

    Parameters
    ----------
    column
        A boolean column, or a numeric one that holds only 0 and 1.

    Returns
    -------
    Metric
        Called ``rate(<column>)``, between 0 and 1, with proportion intervals (Wilson 1927 by
        default). Null for a slice without rows.

    Raises
    ------
    EvalError
        In a verb, when another value than 0 and 1 occurs; use :func:`mean` for scores.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"correct": [True, True, False, True]})
    >>> df.eval.summary(fe.rate("correct")).select("estimate", "method").row(0)
    (0.75, 'wilson')
    """
    return Metric(
        f"rate({source_name(column)})",
        {"x": flag(column)},
        _hits_of_x,
        share,
        proportion=SHARE,
        better="higher",
        bounds=(0, 1),
        undefined=NO_ROWS,
        worst={"x": 0},
    )


def ratio_of(s: Any) -> Any:
    return s.x / s.y


def ratio_gradient(s: Any) -> Any:
    return {"x": 1.0 / s.y, "y": -s.x / s.y**2}


def xy(c: Any) -> Any:
    return {"x": c.x, "y": c.y}


def no_denominator(s: Any) -> Any:
    return s.y == 0


def ratio(numerator: Source, denominator: Source, *, better: Better = None) -> Metric:
    """The ratio of two sums: sum(numerator) / sum(denominator).

    Parameters
    ----------
    numerator, denominator
        Numeric or boolean columns, such as cost and solved tasks, or errors and reference words.
    better
        The direction of guards, ``"higher"`` or ``"lower"``.

    Returns
    -------
    Metric
        Called ``ratio(<numerator>/<denominator>)``, in the unit of the quotient, with linearised
        (delta method) errors. Null where the denominator sums to 0.

    Raises
    ------
    ColumnError
        In a verb, when a column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"usd": [1.0, 2.0, 3.0], "solved": [1, 0, 1]})
    >>> df.eval.summary(fe.ratio("usd", "solved"))["estimate"].item()
    3.0
    """
    return Metric(
        f"ratio({source_name(numerator)}/{source_name(denominator)})",
        {"x": number(numerator), "y": number(denominator)},
        xy,
        ratio_of,
        gradient=ratio_gradient,
        samples={"y": ("x", "y")},
        better=better,
        undefined={"the denominator is 0": no_denominator},
    )


def _absolute(c: Any) -> Any:
    return {"x": (c.y - c.p).abs()}


def _signed(c: Any) -> Any:
    return {"x": c.p - c.y}


def _squared(c: Any) -> Any:
    return {"x": (c.y - c.p) * (c.y - c.p)}


def _root(s: Any) -> Any:
    value = s.x / s.n
    return value.sqrt() if isinstance(value, pl.Expr) else np.sqrt(value)


def _root_gradient(s: Any) -> Any:
    value = np.sqrt(s.x / s.n)
    return {"x": 0.5 / (value * s.n), "n": -0.5 * value / s.n}


def mae(target: Source, pred: Source) -> Metric:
    """Mean absolute error: the mean of abs(target - pred).

    Parameters
    ----------
    target, pred
        Numeric columns in the same unit.

    Returns
    -------
    Metric
        In the unit of the target; lower is better. Null for a slice without rows.

    Raises
    ------
    ColumnError
        In a verb, when a column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1.0, 2.0], "p": [2.0, 5.0]})
    >>> df.eval.summary(fe.mae("y", "p"))["estimate"].item()
    2.0
    """
    return Metric(
        "mae",
        {"y": number(target), "p": number(pred)},
        _absolute,
        mean_of,
        gradient=mean_gradient,
        better="lower",
        bounds=(0, None),
        undefined=NO_ROWS,
    )


def rmse(target: Source, pred: Source) -> Metric:
    """Root mean squared error: sqrt(mean((target - pred)**2)).

    Parameters
    ----------
    target, pred
        Numeric columns in the same unit.

    Returns
    -------
    Metric
        In the unit of the target; lower is better. Null for a slice without rows.

    Raises
    ------
    ColumnError
        In a verb, when a column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1.0, 2.0], "p": [2.0, 9.0]})
    >>> df.eval.summary(fe.rmse("y", "p"))["estimate"].item()
    5.0
    """
    return Metric(
        "rmse",
        {"y": number(target), "p": number(pred)},
        _squared,
        _root,
        gradient=_root_gradient,
        better="lower",
        bounds=(0, None),
        undefined=NO_ROWS,
    )


def bias(target: Source, pred: Source) -> Metric:
    """Mean signed error: the mean of pred - target; positive where the prediction is too high.

    Parameters
    ----------
    target, pred
        Numeric columns in the same unit.

    Returns
    -------
    Metric
        In the unit of the target; 0 is best. Null for a slice without rows.

    Raises
    ------
    ColumnError
        In a verb, when a column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1.0, 2.0], "p": [2.0, 5.0]})
    >>> df.eval.summary(fe.bias("y", "p"))["estimate"].item()
    2.0
    """
    return Metric(
        "bias",
        {"y": number(target), "p": number(pred)},
        _signed,
        mean_of,
        gradient=mean_gradient,
        undefined=NO_ROWS,
    )
