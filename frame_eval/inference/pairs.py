"""Two systems compared: on the same examples (paired) or on different ones.

Every function broadcasts its arrays. ``b`` counts the pairs where only the system is right, ``c``
those where only the baseline is, ``n`` all pairs; ``x1`` of ``n1`` and ``x2`` of ``n2`` are right
on separate examples. Differences are system minus baseline, first minus second; p-values are
two-sided. Counts of no pair at all, or of an empty group, give NaN.

The score tests come with the intervals that invert them: 0 lies outside the interval exactly when
p < 1 - level.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_TINY = np.finfo(np.float64).tiny
_CLOSE = 1e-15  # relative: where the solution of a limit stops
_MOST_STEPS = 200  # about 8 on average, 60 at the worst


def mcnemar_score(b: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    """McNemar's (1947) test without correction: z = (b - c) / sqrt(b + c), and p.

    Without a discordant pair z = 0 and p = 1.

    >>> z, p = mcnemar_score([55, 0], [40, 0])
    >>> z.round(4), p.round(4)
    (array([1.539, 0.   ]), array([0.1238, 1.    ]))
    """
    b, c = _floats(b, c)
    return _z_test(b - c, b + c)


def mcnemar_exact(b: ArrayLike, c: ArrayLike) -> Array:
    """The exact McNemar p: discordant pairs split like fair coins (Binomial(b + c, 1/2)).

    >>> mcnemar_exact([55, 0], [40, 0]).round(4)
    array([0.1505, 1.    ])
    """
    fewer, more = _sorted(b, c)
    return np.minimum(1, 2 * _coin_tail(fewer, more))


def mcnemar_midp(b: ArrayLike, c: ArrayLike) -> Array:
    """The exact p with half the weight on the split observed (Fagerland, Lydersen, Laake 2013).

    >>> mcnemar_midp([55, 0], [40, 0]).round(4)
    array([0.1253, 1.    ])
    """
    fewer, more = _sorted(b, c)
    p = _coin_tail(fewer, more) + _coin_tail(fewer - 1, more + 1)
    return np.where(fewer == more, 1.0, p)


def mcnemar_corrected(b: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    """Edwards' (1948) continuity correction: chi2 = (|b - c| - 1)^2 / (b + c), and p.

    Where b = c the statistic is 0 and p = 1, as in R; statsmodels leaves 1 / (b + c) there.

    >>> chi2, p = mcnemar_corrected([55, 0], [40, 0])
    >>> chi2.round(4), p.round(4)
    (array([2.0632, 0.    ]), array([0.1509, 1.    ]))
    """
    b, c = _floats(b, c)
    chi2 = np.maximum(np.abs(b - c) - 1, 0) ** 2 / np.maximum(b + c, 1)
    return chi2, scipy.special.chdtrc(1, chi2)


def tango(b: ArrayLike, c: ArrayLike, n: ArrayLike, level: ArrayLike) -> tuple[Array, Array]:
    """Tango's (1998) score interval for the paired difference (b - c) / n.

    The inversion of :func:`mcnemar_score`. Finite and of positive width for every n >= 1, also
    without a discordant pair; exchanging b and c changes the signs and nothing else.

    >>> low, high = tango([55, 0], [40, 0], [500, 500], 0.95)
    >>> low.round(4), high.round(4)
    (array([-0.0083, -0.0076]), array([0.0688, 0.0076]))
    """
    b, c, n, level = _floats(b, c, n, level)
    z, p = mcnemar_score(b, c)
    n = np.where(n > 0, n, np.nan)
    x, y = b / n, c / n
    estimate = (b - c) / n
    crit = -scipy.special.ndtri((1 - level) / 2)
    high = _limit(estimate, crit, lambda t: _paired_variance(x, y, n, estimate + t))
    low = -_limit(-estimate, crit, lambda t: _paired_variance(y, x, n, t - estimate))
    return _agreeing(low, high, z, p < 1 - level)


def two_proportions(
    x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike
) -> tuple[Array, Array]:
    """Score test that two independent proportions are equal: z and p.

    The variance is that of Miettinen and Nurminen (1985), N / (N - 1) times the pooled one with
    N = n1 + n2. All right or all wrong in both groups: z = 0 and p = 1.

    >>> z, p = two_proportions([56, 0], [70, 5], [48, 0], [80, 5])
    >>> z.round(4), p.round(4)
    (array([2.6413, 0.    ]), array([0.0083, 1.    ]))
    """
    x1, n1, x2, n2 = _groups(x1, n1, x2, n2)
    total = n1 + n2
    return _z_test(x1 / n1 - x2 / n2, _pooled_variance(x1, n1, x2, n2) * total / (total - 1))


def miettinen_nurminen(
    x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike, level: ArrayLike
) -> tuple[Array, Array]:
    """Miettinen and Nurminen's (1985) score interval for x1 / n1 - x2 / n2.

    The inversion of :func:`two_proportions`; finite and of positive width for every size >= 1.

    >>> low, high = miettinen_nurminen([56, 0], [70, 5], [48, 0], [80, 5], 0.95)
    >>> low.round(4), high.round(4)
    (array([ 0.0528, -0.4605]), array([0.3382, 0.4605]))
    """
    x1, n1, x2, n2, level = np.broadcast_arrays(*_groups(x1, n1, x2, n2), *_floats(level))
    z, p = two_proportions(x1, n1, x2, n2)
    estimate = x1 / n1 - x2 / n2
    crit = -scipy.special.ndtri((1 - level) / 2) * np.sqrt((n1 + n2) / (n1 + n2 - 1))
    high = _limit(estimate, crit, lambda t: _tilted_variance(x1, n1, x2, n2, crit**2 / t))
    low = -_limit(-estimate, crit, lambda t: _tilted_variance(x2, n2, x1, n1, crit**2 / t))
    return _agreeing(low, high, z, p < 1 - level)


def pooled_z(x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike) -> tuple[Array, Array]:
    """The textbook z-test of two proportions with the pooled variance (Pearson's chi-square).

    All right or all wrong in both groups: z = 0 and p = 1.

    >>> z, p = pooled_z([375], [500], [360], [500])
    >>> z.round(4), p.round(4)
    (array([1.0748]), array([0.2825]))
    """
    x1, n1, x2, n2 = _groups(x1, n1, x2, n2)
    return _z_test(x1 / n1 - x2 / n2, _pooled_variance(x1, n1, x2, n2))


def unpooled_z(x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike) -> tuple[Array, Array]:
    """The Wald z-test of two proportions, each with its own variance p (1 - p) / n.

    Both variances 0: z = 0 and p = 1 where the rates agree, NaN where one is 0 and the other 1.

    >>> z, p = unpooled_z([375], [500], [360], [500])
    >>> z.round(4), p.round(4)
    (array([1.0754]), array([0.2822]))
    """
    x1, n1, x2, n2 = _groups(x1, n1, x2, n2)
    variance = x1 / n1 * ((n1 - x1) / n1) / n1 + x2 / n2 * ((n2 - x2) / n2) / n2
    return _z_test(x1 / n1 - x2 / n2, variance)


def welch_df(v1: ArrayLike, df1: ArrayLike, v2: ArrayLike, df2: ArrayLike) -> Array:
    """Degrees of freedom of the sum of two independent variance estimates (Satterthwaite 1946).

    (v1 + v2)^2 / (v1^2 / df1 + v2^2 / df2), each variance already that of a mean. NaN where both
    are 0 or a df is not positive.

    >>> welch_df([2.0, 1.0], [9, 9], [2.0, 0.0], [9, 4])
    array([18.,  9.])
    """
    v1, df1, v2, df2 = _floats(v1, df1, v2, df2)
    df1, df2 = (np.where(df > 0, df, np.nan) for df in (df1, df2))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = v1 / (v1 + v2)
        return 1 / (share**2 / df1 + (1 - share) ** 2 / df2)


def _floats(*values: ArrayLike) -> tuple[Array, ...]:
    return np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))


def _sorted(b: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    b, c = _floats(b, c)
    return np.minimum(b, c), np.maximum(b, c)


def _groups(x1: ArrayLike, n1: ArrayLike, x2: ArrayLike, n2: ArrayLike) -> tuple[Array, ...]:
    x1, n1, x2, n2 = _floats(x1, n1, x2, n2)
    return x1, np.where(n1 > 0, n1, np.nan), x2, np.where(n2 > 0, n2, np.nan)


def _z_test(difference: Array, variance: Array) -> tuple[Array, Array]:
    """z and the two-sided p; 0 over 0 is no evidence (p = 1), a difference over 0 undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(variance > 0, difference / np.sqrt(variance), np.nan)
    z = np.where((difference == 0) & (variance == 0), 0.0, z)
    return z, 2 * scipy.special.ndtr(-np.abs(z))


def _coin_tail(k: Array, rest: Array) -> Array:
    """P(X <= k) of k + rest fair coins, as an incomplete beta integral; 0 below k = 0."""
    return np.where(k < 0, 0.0, np.where(rest == 0, 1.0, scipy.special.betainc(rest, k + 1, 0.5)))


def _pooled_variance(x1: Array, n1: Array, x2: Array, n2: Array) -> Array:
    total = n1 + n2
    return (x1 + x2) / total * ((total - x1 - x2) / total) * (1 / n1 + 1 / n2)


def _paired_variance(x: Array, y: Array, n: Array, d: Array) -> Array:
    """Variance of the paired difference if its true value is ``d``, the rest fitted by likelihood.

    ``x`` and ``y`` are the discordant shares. Tango's quadratic for the smaller discordant
    probability q is solved for |d|, where no term cancels.
    """
    x, y, d = np.where(d < 0, y, x), np.where(d < 0, x, y), np.abs(d)
    m, e = x + y - (2 - x + y) * d, y * d * (1 - d)
    root = np.sqrt(m**2 + 8 * e)
    q = np.where(m >= 0, (m + root) / 4, 2 * e / (root - m))
    return np.maximum(2 * q + d * (1 - d), 0) / n


def _tilted_variance(x1: Array, n1: Array, x2: Array, n2: Array, tilt: Array) -> Array:
    """Variance of p1 - p2 at the most likely rates whose difference is some d over the estimate.

    ``tilt`` is the Lagrange multiplier of the constraint p1 - p2 = d. It turns the cubic of
    Miettinen and Nurminen into one quadratic for each group, and d - estimate is tilt * variance;
    so the score statistic is critical where tilt = crit^2 / (d - estimate).
    """
    return _tilted_spread(x1, n1, tilt) / n1 + _tilted_spread(n2 - x2, n2, tilt) / n2


def _tilted_spread(x: Array, n: Array, tilt: Array) -> Array:
    """p (1 - p) for the p > x / n that solves n p - x = tilt p (1 - p), without cancellation."""
    root = np.sqrt((n - tilt) ** 2 + 4 * tilt * x)
    p = np.where(tilt < n, 2 * x / (n - tilt + root), (tilt - n + root) / (2 * tilt))
    return p * 2 * (n - x) / (n + tilt + root)


def _limit(estimate: Array, crit: Array, variance: Callable[[Array], Array]) -> Array:
    """The upper limit of a score interval: estimate + t, where t = crit sqrt(variance(t)).

    The profile likelihood is concave, so that the statistic grows with t, and there is one such t
    between 0 and 1 - estimate.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = _root(lambda t: t - crit * np.sqrt(variance(t)), 1 - estimate)
    return np.minimum(estimate + reach, 1)


def _root(f: Callable[[Array], Array], end: Array) -> Array:
    """The point of (0, end] where ``f(t) = t - g(t)`` turns from negative to positive.

    Steps to g(t) until both signs are met, then Chandrupatla's (1997) mix of bisection and inverse
    interpolation. An element stops on its own, whatever the company it is solved in.
    """
    a, b = end, np.zeros_like(end)
    fa, fb = f(a), np.zeros_like(end)
    root = np.where(np.isnan(fa) & (end > 0), fa, end)
    unsolved = fa > 0
    step = _towards_g(a, fa)
    for _ in range(_MOST_STEPS):
        if not unsolved.any():
            break
        x = a + step * (b - a)
        fx = f(x)
        same = (fx > 0) == (fa > 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        width, close = np.abs(b - a), _CLOSE * a
        nearer = np.where((np.abs(fa) < np.abs(fb)) | (b == 0), a, b)
        root = np.where(unsolved, nearer, root)
        unsolved &= width > close
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc)
        inverse += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        step = np.where(b > 0, np.where(smooth, inverse, 0.5), _towards_g(a, fa))
        edge = np.minimum(0.5, close / width / 2)
        step = np.clip(step, edge, 1 - edge)
    return root


def _towards_g(t: Array, f: Array) -> Array:
    """The share of the way from t to 0 that leads to g(t) = t - f, at least half of it."""
    return np.clip(f / t, 0.5, 0.9999)


def _agreeing(low: Array, high: Array, z: Array, reject: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Limits kept on the test's side of 0 where the last digit could part them."""
    low = np.where(reject & (z > 0), np.maximum(low, _TINY), np.minimum(low, 0))
    high = np.where(reject & (z < 0), np.minimum(high, -_TINY), np.maximum(high, 0))
    return low, high
