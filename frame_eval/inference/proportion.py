"""Intervals for one proportion, on any effective sample size.

Each takes the estimate ``p``, the size ``n`` behind it (rows, or an effective size, which need not
be whole) and the ``level``, broadcasts them, and gives the arrays ``(low, high)``. A size that is
not positive, or a ``p`` outside [0, 1], gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Interval = Callable[[ArrayLike, ArrayLike, ArrayLike], tuple[Array, Array]]

# A weighted mean of ones may come out as 1 - 1e-16, depending on the order of the sum.
_ROUNDING = 1e-12


def wilson(p: ArrayLike, n: ArrayLike, level: ArrayLike) -> tuple[Array, Array]:
    """Wilson's (1927) score interval: the rates that a z-test does not reject.

    Its limits stay in [0, 1]; the lower is exactly 0 at p = 0 and the upper exactly 1 at p = 1.

    >>> low, high = wilson([0.0, 0.72], [100, 500], 0.95)
    >>> low.round(4), high.round(4)
    (array([0.    , 0.6791]), array([0.037 , 0.7576]))
    """
    p, n = _checked(p, n)
    k = scipy.special.ndtri(_tail(level)) ** 2 / n
    reach = p + k / 2 + np.sqrt(k * p * (1 - p) + k**2 / 4)
    # The limits are the roots of a quadratic. The lower one as product over the upper one loses no
    # digits near 0; at p = 1 rounding is kept from moving the upper one.
    return p**2 / reach, np.where(p == 1, p, reach / (1 + k))


def wald(p: ArrayLike, n: ArrayLike, level: ArrayLike) -> tuple[Array, Array]:
    """The textbook interval p -+ z sqrt(p (1 - p) / n), its limits not clipped to [0, 1].

    Too short for small n, and of width zero at p = 0 and p = 1: for comparison with other programs.

    >>> low, high = wald([1 / 30], [30], 0.95)
    >>> low.round(4), high.round(4)
    (array([-0.0309]), array([0.0976]))
    """
    p, n = _checked(p, n)
    half = -scipy.special.ndtri(_tail(level)) * np.sqrt(p * (1 - p) / n)
    return p - half, p + half


def clopper_pearson(p: ArrayLike, n: ArrayLike, level: ArrayLike) -> tuple[Array, Array]:
    """The exact interval of Clopper and Pearson (1934), in its beta form.

    It covers at least ``level`` for whole ``n p``; for others the beta quantiles interpolate.

    >>> low, high = clopper_pearson([1 / 30], [30], 0.95)
    >>> low.round(4), high.round(4)
    (array([0.0008]), array([0.1722]))
    """
    p, n = _checked(p, n)
    hits, misses, tail = n * p, n * (1 - p), _tail(level)
    low = np.where(p == 0, p, scipy.special.betaincinv(hits, misses + 1, tail))
    high = np.where(p == 1, p, scipy.special.betainccinv(hits + 1, misses, tail))
    return low, high


def jeffreys(p: ArrayLike, n: ArrayLike, level: ArrayLike) -> tuple[Array, Array]:
    """Equal-tailed posterior interval under the Jeffreys prior Beta(1/2, 1/2).

    As in Brown, Cai and DasGupta (2001) the lower limit is 0 at p = 0 and the upper 1 at p = 1,
    so that the interval holds the estimate; statsmodels leaves the quantiles there.

    >>> low, high = jeffreys([0.0, 0.5], [10, 10], 0.95)
    >>> low.round(4), high.round(4)
    (array([0.    , 0.2235]), array([0.2172, 0.7765]))
    """
    p, n = _checked(p, n)
    a, b, tail = n * p + 0.5, n * (1 - p) + 0.5, _tail(level)
    low = np.where(p == 0, p, scipy.special.betaincinv(a, b, tail))
    high = np.where(p == 1, p, scipy.special.betainccinv(a, b, tail))
    return low, high


def effective_size(
    p: ArrayLike,
    n: ArrayLike,
    variance: ArrayLike,
    df: ArrayLike,
    level: ArrayLike,
    clusters: ArrayLike,
    effect: ArrayLike = 1.0,
) -> tuple[Array, Array]:
    """How many independent rows the ``n`` clustered rows behind a rate are worth.

    ``variance`` is the cluster-robust (CR2) variance of the rate ``p``, ``df`` its Satterthwaite
    degrees of freedom and ``effect`` the design effect that weights and one correlation of rows,
    the same in all clusters, imply. Gives ``n_eff``, n over the design effect, which is not allowed
    under ``effect`` or 1; and ``n_star = min(n_eff, n_robust (t_{n-1} / t_df)^2)`` with n over the
    robust design effect alone, smaller where few clusters leave the variance uncertain (Korn and
    Graubard 1998). ``wilson(p, n_star, level)`` is the default interval.

    Where failures are rare the robust variance hangs on the few clusters that hold them, and is too
    small in just those samples that have too few; all clusters together know their correlation
    better (Franco, Little, Louis and Slud 2019).

    Where p is 0 or 1 the data cannot show the correlation: a cluster then counts as one row,
    ``n_eff = n_star = clusters``, or as few as ``effect`` leaves, without the t ratio, since no
    variance is estimated. One cluster of several rows gives NaN.

    >>> n_eff, n_star = effective_size([0.8, 1], [100, 100], [0.004, 0], [9, 9], 0.95, [10, 10])
    >>> n_eff.round(2), n_star.round(2)
    (array([40.4, 10. ]), array([31.09, 10.  ]))
    """
    p, n = _checked(p, n)
    variance, df, clusters = (np.asarray(x, np.float64) for x in (variance, df, clusters))
    tail = _tail(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        robust = n / np.maximum(1, variance * (n - 1) / (p * (1 - p)))
        alike = n / np.maximum(1, effect)
        n_eff = np.minimum(robust, alike)
    n_star = np.minimum(
        n_eff, robust * (scipy.special.stdtrit(n - 1, tail) / scipy.special.stdtrit(df, tail)) ** 2
    )

    constant = (p == 0) | (p == 1)
    lone = (clusters < 2) & (clusters < n)
    bound = np.where(lone, np.nan, np.minimum(alike, clusters))
    keep = ~constant & ~lone
    return np.where(keep, n_eff, bound), np.where(keep, n_star, bound)


# The names of the public option; "korn-graubard" is meant for ``n_star``.
INTERVALS: Final[dict[str, Interval]] = {
    "wilson": wilson,
    "wald": wald,
    "clopper-pearson": clopper_pearson,
    "jeffreys": jeffreys,
    "korn-graubard": clopper_pearson,
}


def _tail(level: ArrayLike) -> Array:
    """The probability left out on either side of a two-sided interval."""
    return (1 - np.asarray(level, np.float64)) / 2


def _checked(p: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    """Broadcast floats, both NaN where there is no rate; a p within rounding of 0 or 1 is it."""
    p, n = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(n, np.float64))
    p = np.where(np.abs(p - np.round(p)) < _ROUNDING, np.round(p), p)
    valid = (n > 0) & (p >= 0) & (p <= 1)
    return np.where(valid, p, np.nan), np.where(valid, n, np.nan)
