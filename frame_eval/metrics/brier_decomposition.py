"""The parts of the Brier score: reliability, resolution and uncertainty (Murphy 1973)."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import Source, label
from frame_eval.metrics.calibration import (
    DEBIASED,
    Asked,
    Bins,
    OfBins,
    Strategy,
    empty,
    no_slopes,
    of_bins,
    otherwise,
    remark,
)
from frame_eval.metrics.core import Metric
from frame_eval.metrics.expressions import mean_within, ties

Array: TypeAlias = npt.NDArray[Any]


def _squared_gap(b: Bins) -> Array:
    value: Array = (b.weight * b.gap**2).sum(-1)
    return value


def _squared_gap_expression(y: pl.Expr, p: pl.Expr, code: pl.Expr) -> pl.Expr:
    return (mean_within(y - p, code) ** 2).mean()


def _unbiased_squared_gap(b: Bins) -> Array:
    """Without what chance adds in each bin; bins of one row can not say how much that is."""
    several = b.rows > 1
    chance = b.rate * (1.0 - b.rate) / np.where(several, b.rows - 1.0, 1.0)
    weight = np.where(several, b.n, 0.0)
    value: Array = (weight * (b.gap**2 - chance)).sum(-1) / weight.sum(-1)
    return value


def _unbiased_squared_gap_expression(y: pl.Expr, p: pl.Expr, code: pl.Expr) -> pl.Expr:
    rate, rows = mean_within(y, code), ties(code)
    squared = mean_within(y - p, code) ** 2 - rate * (1.0 - rate) / (rows - 1.0)
    return squared.filter(rows > 1).mean()


def _overall(b: Bins) -> Array:
    rate: Array = (b.weight * b.rate).sum(-1)
    return rate


def _spread(b: Bins) -> Array:
    value: Array = (b.weight * (b.rate - _overall(b)[..., None]) ** 2).sum(-1)
    return value


def _spread_expression(y: pl.Expr, _: pl.Expr, code: pl.Expr) -> pl.Expr:
    return ((mean_within(y, code) - y.mean()) ** 2).mean()


RELIABILITY = OfBins(_squared_gap, _squared_gap_expression)
RELIABILITY_DEBIASED = OfBins(_unbiased_squared_gap, _unbiased_squared_gap_expression)
RESOLUTION = OfBins(_spread, _spread_expression)
FLAT = "flat where half of the rows are positive: no interval by default"


def brier_reliability(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
    debiased: bool = False,
) -> Metric:
    """What miscalibration adds to the Brier score: sum_b n_b / n * (mean(p) - mean(y))**2.

    Reliability - resolution + uncertainty (Murphy 1973) is the Brier score of probabilities that
    are replaced by the mean of their bin. Its root is the RMS calibration error.

    Parameters
    ----------
    target, prob, bins, strategy, positive
        As for :func:`ece`.
    debiased
        Whether to take off what chance adds, rate (1 - rate) / (n_b - 1) in each bin (Ferro and
        Fricker 2012; Kumar, Liang and Ma 2019). Bins of one row are then left out.

    Returns
    -------
    Metric
        Called ``brier_reliability`` or ``brier_reliability_debiased``, lower is better. The first
        lies between 0 and 1 and is biased upwards; the second is unbiased for independent rows, and
        so is below 0 half of the time where calibration is perfect. There is no interval. Null for
        a slice without rows (or without a bin of two).

    Raises
    ------
    EvalError
        As :func:`ece`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "p": [0.8, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.brier_reliability("y", "p"))["estimate"].item(), 4)
    0.0158
    >>> unbiased = fe.brier_reliability("y", "p", debiased=True)
    >>> round(df.eval.summary(unbiased)["estimate"].item(), 4)
    -0.0933
    """
    asked = Asked(target, prob, bins, strategy, positive)
    if not debiased:
        return of_bins("brier_reliability", RELIABILITY, asked)
    return of_bins(
        "brier_reliability_debiased",
        RELIABILITY_DEBIASED,
        asked,
        bounds=(None, None),
        note=partial(remark, DEBIASED),
        undefined={"no rows": empty, "no bin has two rows": otherwise},
    )


def brier_resolution(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
) -> Metric:
    """What telling rows apart takes off the Brier score: sum_b n_b / n * (mean_b(y) - mean(y))**2.

    Parameters
    ----------
    target, prob, bins, strategy, positive
        As for :func:`ece`.

    Returns
    -------
    Metric
        Called ``brier_resolution``, between 0 and 1, higher is better (Murphy 1973); biased
        upwards, with no interval. Null for a slice without rows.

    Raises
    ------
    EvalError
        As :func:`ece`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "p": [0.8, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.brier_resolution("y", "p"))["estimate"].item(), 4)
    0.0833
    """
    asked = Asked(target, prob, bins, strategy, positive)
    return of_bins("brier_resolution", RESOLUTION, asked, better="higher")


def _y(c: Any) -> Any:
    return {"y": c.y}


def _variance(s: Any) -> Any:
    rate = s.y / s.n
    return rate * (1.0 - rate)


def _no_rows(s: Any) -> Any:
    return s.n == 0


def brier_uncertainty(target: Source, *, positive: Any = None) -> Metric:
    """The Brier score of always saying the share of positives: mean(y) * (1 - mean(y)).

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``brier_uncertainty``, between 0 and 0.25 (Murphy 1973): it is of the data, not of
        the probabilities, and has no interval. Null for a slice without rows.

    Raises
    ------
    EvalError
        In a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 0, 0]})
    >>> df.eval.summary(fe.brier_uncertainty("y"))["estimate"].item()
    0.1875
    """
    return Metric(
        "brier_uncertainty",
        {"y": label(target, positive)},
        _y,
        _variance,
        gradient=no_slopes,
        bounds=(0, 0.25),
        smooth=False,
        undefined={"no rows": _no_rows},
        note=partial(remark, FLAT),
    )
