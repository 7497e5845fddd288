"""Partially pooled estimates of slices, with intervals that hold on average over the slices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from frame_eval.table import Floats

_STEPS = 60  # at most: about ten
_SECTIONS = 32  # golden ones: the maximum to 13 digits, as its error is that of the place squared
_CLOSE = 1e-13
_TINY = 1e-300
_GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Pooled:
    """Shrunken estimates with their limits, the weight each keeps, and what they shrink towards.

    ``mean`` and ``spread`` are the estimated mean and standard deviation of the true values.
    """

    estimate: Floats
    low: Floats
    high: Floats
    weight: Floats
    mean: float
    spread: float


def rate_variances(rate: ArrayLike, n: ArrayLike, variance: ArrayLike) -> Floats:
    """Variances p (1 - p) deff / n of the rates of slices, from what all of them say.

    p is the rate of all rows together. deff, at least 1, is the sum of n^2 V over that of
    n r (1 - r), with the (cluster-robust) variance V of each rate r that varies: a slice that is
    all right or all wrong has none of its own.

    >>> rate_variances([0.5, 0.0], [40, 10], [0.0125, np.nan]).round(5)
    array([0.012, 0.048])
    """
    rate, n, variance = (np.asarray(x, np.float64) for x in (rate, n, variance))
    pooled = np.sum(rate * n) / np.sum(n)
    own = np.isfinite(variance) & (rate > 0) & (rate < 1)
    single = np.sum((n * rate * (1 - rate))[own])
    effect = max(1.0, np.sum((n**2 * variance)[own]) / single) if single > 0 else 1.0
    result: Floats = pooled * (1 - pooled) * effect / n
    return result


def pooled(estimate: ArrayLike, variance: ArrayLike, level: float = 0.95) -> Pooled:
    """Empirical Bayes estimates of slices, with robust intervals.

    Estimates y_i with known variances s_i^2 are drawn towards their mean m, weighted by 1 / s^2:

        w_i y_i + (1 - w_i) m,   w_i = tau^2 / (tau^2 + s_i^2)

    with the moment estimate of DerSimonian and Laird (1986) for the variance tau^2 of the true
    values, which is not allowed under twice the variance of m. The interval is

        estimate -+ cva(b^2, kappa) times its standard error,

    where b^2 is the mean squared bias over the squared error and kappa the kurtosis of the true
    values: it covers a share ``level`` of the true values whatever their distribution with these
    moments is, where a normal prior's interval may not.

    Parameters
    ----------
    estimate
        By slice; NaN where there is none.
    variance
        By slice, positive (see :func:`rate_variances`), or their covariance matrix where clusters
        span slices.
    level
        Nominal coverage, on average over slices.

    Returns
    -------
    Pooled
        Not clipped to any bounds; NaN where an estimate or variance is. With fewer than three
        slices nothing is pooled: NaN.

    Notes
    -----
    Armstrong, Kolesar and Plagborg-Moller (2022). The errors of m are part of bias and variance
    here, which they leave out as small for many slices.

    Examples
    --------
    >>> found = pooled([0.9, 0.5, 0.6, 0.7], [0.001, 0.02, 0.01, 0.005])
    >>> found.estimate.round(3)
    array([0.898, 0.639, 0.661, 0.72 ])
    """
    y, covariance = np.asarray(estimate, np.float64), np.asarray(variance, np.float64)
    whole = covariance.ndim == 2
    s2 = np.diag(covariance) if whole else covariance
    used = np.isfinite(y) & np.isfinite(s2) & (s2 > 0)
    if used.sum() < 3:
        nothing = np.full(len(y), np.nan)
        return Pooled(nothing, nothing, nothing, nothing, np.nan, np.nan)
    y, s2 = y[used], s2[used]
    share = (1 / s2) / np.sum(1 / s2)
    # The covariance of each estimate with their mean, and the variance of that.
    with_mean = covariance[np.ix_(used, used)] @ share if whole else s2 * share
    of_mean = share @ with_mean
    mean = float(share @ y)
    residual = y - mean
    noise = s2 - 2 * with_mean + of_mean
    distance = 1 - 2 * share + share @ share
    tau2 = max(float(share @ (residual**2 - noise) / (share @ distance)), float(2 * of_mean))
    kappa = _kurtosis(residual, noise, share, tau2)
    w = tau2 / (tau2 + s2)
    error = np.sqrt(w**2 * s2 + 2 * w * (1 - w) * with_mean + (1 - w) ** 2 * of_mean)
    bias = tau2 * (1 - w) ** 2 * distance
    half = cva(bias / error**2, level, kappa) * error
    centre = w * y + (1 - w) * mean
    columns = np.full((4, len(used)), np.nan)
    columns[:, used] = centre, centre - half, centre + half, w
    shrunk, low, high, weight = columns
    return Pooled(shrunk, low, high, weight, mean, float(np.sqrt(tau2)))


def _kurtosis(residual: Floats, noise: Floats, share: Floats, tau2: float) -> float:
    """E (theta - mean)^4 / tau^4, not under what noise alone would leave uncertain."""
    fourth = share @ (residual**4 - 6 * noise * residual**2 + 3 * noise**2)
    least = 32 * (share**2 @ noise**4) / (share @ noise**2)
    return float(max(fourth / tau2**2, 1 + least / tau2**2))


def cva(m2: ArrayLike, level: float = 0.95, kurtosis: float = np.inf) -> Floats:
    """The critical value for estimates whose mean squared bias, over their variance, is ``m2``.

    The smallest c for which E P(|Z + b| > c) <= 1 - level with Z standard normal and any b of
    E b^2 = m2 and E b^4 <= ``kurtosis`` m2^2 (Armstrong, Kolesar and Plagborg-Moller 2022). The
    least favourable b^2 has two values at most. cva(0) is the usual z.

    >>> cva([0, 0.5, 2]).round(3)
    array([1.96 , 2.523, 4.815])
    >>> cva([0, 0.5, 2], kurtosis=3).round(3)
    array([1.96 , 2.41 , 3.491])
    """
    given = np.asarray(m2, np.float64)
    m2 = np.where(np.isnan(given), 0.0, given)
    tail = (1 - level) / 2

    def beyond(c: Floats) -> Floats:
        # As a normal quantile, in which the non-coverage of c is nearly straight.
        missed = np.maximum(_worst(m2, c, kurtosis) / 2, _TINY)
        return np.asarray(scipy.special.ndtri(missed) - scipy.special.ndtri(tail))

    # P(|Z + b| > c) <= (1 + m2) / c^2, by Chebyshev.
    a, b = np.zeros_like(m2), np.sqrt((1 + m2) / (1 - level))
    of_a, of_b = beyond(a), beyond(b)
    # The secant, with the weight of an end that stays halved (Illinois).
    for _ in range(_STEPS):
        x = np.where(of_a == of_b, b, b - of_b * (b - a) / np.where(of_a == of_b, 1, of_b - of_a))
        of_x = beyond(x)
        crossed = (of_x > 0) != (of_b > 0)
        a, of_a = np.where(crossed, b, a), np.where(crossed, of_b, of_a / 2)
        b, of_b = x, of_x
        if (np.abs(of_b) < _CLOSE).all():
            break
    return np.where(np.isnan(given), np.nan, b)


def _worst(m2: Floats, c: Floats, kurtosis: float) -> Floats:
    """The largest non-coverage: of b^2 that is 0 or t, or, if its kurtosis is too large, x or t."""
    zero, root = np.zeros_like(m2), np.sqrt(m2)
    most = np.minimum(np.maximum(root, c + 8), np.sqrt(kurtosis) * np.maximum(root, 1e-150))
    worst = _largest(lambda u: _mixed(zero, u**2, m2, c), root, most)
    if not np.isfinite(kurtosis):
        return worst
    excess = (kurtosis - 1) * m2**2

    def mixed(part: Floats) -> Floats:
        gap = m2 * (1 - part)
        return _mixed(m2 * part, m2 + excess / np.where(gap > 0, gap, 1), m2, c)

    # Not always of one peak: the best of some points, and what lies around it.
    grid = np.linspace(0, 1, 33)[:-1]
    values = mixed(grid.reshape(-1, *[1] * m2.ndim))
    peak = grid[np.argmax(values, axis=0)]
    low, high = np.maximum(peak - grid[1], 0), np.minimum(peak + grid[1], 1 - 1e-9)
    best: Floats = np.maximum(_largest(mixed, low, high), values.max(axis=0))
    return np.maximum(worst, best)


def _mixed(x: Floats, t: Floats, m2: Floats, c: Floats) -> Floats:
    """The non-coverage of b^2 of mean m2 that is x or t."""
    of_x, of_t = _miss(x, c), _miss(t, c)
    spread = t - x
    share = np.where(spread > 0, (m2 - x) / np.where(spread > 0, spread, 1), 0.0)
    return of_x + share * (of_t - of_x)


def _miss(b2: Floats, c: Floats) -> Floats:
    """P(|Z + b| > c)."""
    b = np.sqrt(b2)
    far: Floats = scipy.special.ndtr(-c - b)
    near: Floats = scipy.special.ndtr(b - c)
    return far + near


def _largest(f: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """The maximum of a function of one peak between two points, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    of_left, of_right = f(left), f(right)
    best = np.maximum(f(low), f(high))
    for _ in range(_SECTIONS):
        falls = of_left > of_right
        low, high = np.where(falls, low, left), np.where(falls, right, high)
        point = np.where(falls, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        value = f(point)
        left, right = np.where(falls, point, right), np.where(falls, left, point)
        of_left, of_right = np.where(falls, value, of_right), np.where(falls, of_left, value)
        best = np.maximum(best, value)
    return best
