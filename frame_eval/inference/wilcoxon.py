"""Wilcoxon's signed rank test with the estimate and interval of Hodges and Lehmann."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from frame_eval.table import Floats, Ints

EXACT = 50  # up to so many differences without ties and zeros p is exact
EXACT_TIED = 13  # and up to so many with them

_FEW = 200_000  # sums that are looked at one by one
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class SignedRank:
    """The test by group; NaN where there is no difference to rank, or no interval.

    ``n`` counts the differences that are not 0, ``exact`` says where p comes from the exact
    distribution, the normal one otherwise.
    """

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    n: Floats
    exact: Any


def signed_rank(
    difference: Floats, group: Ints, groups: int, level: float, rounding: ArrayLike = 0.0
) -> SignedRank:
    """Wilcoxon's (1945) test that differences are symmetric around 0, by group.

    Differences of 0 are dropped and tied ones share their mean rank. The sum W of the ranks of
    the positive ones is compared with its distribution under random signs: the exact one up to 50
    differences without ties and zeros, and up to 13 with them; else the normal one, with the
    variance n (n + 1) (2 n + 1) / 24 - sum (t^3 - t) / 48 over ties of size t.

    The estimate is the median of the n (n + 1) / 2 Walsh averages (d_i + d_j) / 2, i <= j, of the
    differences that are not 0 (Hodges and Lehmann 1963). W is the number of positive ones, halves
    for 0; so the limits are the Walsh averages at the critical ranks of the very distribution that
    gives p, and exclude 0 exactly when p < 1 - level.

    Parameters
    ----------
    difference, group, groups
        Float64; the group of each, 0, 1, ...; and how many groups there are.
    level
        Nominal coverage.
    rounding
        Sizes of differences this close to each other, or to 0, are equal; a number, or by group.
        Differences that come from arithmetic have such errors, on which ties must not depend.

    Returns
    -------
    SignedRank
        Arrays by group. Without a difference that is not 0, p = 1 and there is no estimate. Where
        no W would reject at this level the limits are NaN.

    Notes
    -----
    p as in ``scipy.stats.wilcoxon(d, method="auto")`` and, dropping zeros, as in R. Walsh averages
    are found without listing them, in O(n log n) steps and O(n) memory (Johnson and Mizoguchi
    1978).

    Examples
    --------
    >>> import numpy as np
    >>> d = np.array([1.1, 2.2, 0.3, -0.4, 1.5, 2.6])
    >>> found = signed_rank(d, np.zeros(6, int), 1, 0.9)
    >>> found.p_value.round(4), found.estimate.round(4)
    (array([0.0938]), array([1.2]))
    >>> found.low.round(4), found.high.round(4)
    (array([0.3]), array([2.2]))
    """
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group, minlength=groups))
    parts = np.split(difference[order], ends[:-1]) if groups else []
    close = np.broadcast_to(np.asarray(rounding, np.float64), groups)
    found = [_one(_settled(d, apart), level) for d, apart in zip(parts, close, strict=True)]
    estimate, low, high, p_value, n, exact = np.array(found, float).reshape(groups, 6).T
    return SignedRank(estimate, low, high, p_value, n, exact > 0)


def _settled(difference: Floats, rounding: float) -> Floats:
    """The differences, those of nearly one size (or nearly 0) made equal."""
    sizes = np.sort(np.abs(difference))
    apart = np.diff(sizes, prepend=0.0) > rounding
    level = np.maximum.accumulate(np.where(apart, sizes, 0.0))
    settled: Floats = np.sign(difference) * level[np.searchsorted(sizes, np.abs(difference))]
    return settled


class _Test(NamedTuple):
    estimate: float
    low: float
    high: float
    p_value: float
    n: int
    exact: bool


def _one(difference: Floats, level: float) -> _Test:
    d = np.sort(difference[difference != 0])
    n, pairs = len(d), len(d) * (len(d) + 1) // 2
    if n == 0:
        undefined = np.nan
        return _Test(
            undefined, undefined, undefined, 1.0 if len(difference) else undefined, 0, True
        )
    code, ties = np.unique(np.abs(d), return_inverse=True, return_counts=True)[1:]
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[code]
    w = ranks[d > 0].sum()
    tied = n < len(difference) or len(ties) < n
    exact = len(difference) <= (EXACT_TIED if tied else EXACT)
    if exact:
        p, under = _exact(w, _law(tuple(np.sort(2 * ranks).astype(int))), level)
    else:
        p, under = _normal(w, pairs / 2, np.sqrt((ranks**2).sum() / 4), level)
    centre = _walsh(d, (pairs + 1) // 2) / 2 + _walsh(d, pairs // 2 + 1) / 2
    if under < 1:
        return _Test(centre / 2, np.nan, np.nan, p, n, exact)
    low, high = _walsh(d, under) / 2, _walsh(d, pairs + 1 - under) / 2
    # Where 0 is the limit itself, it is on the test's side.
    if p < 1 - level and w > pairs / 2:
        low = max(low, _TINY)
    elif p < 1 - level:
        high = min(high, -_TINY)
    return _Test(centre / 2, low, high, p, n, exact)


def _exact(w: float, law: Floats, level: float) -> tuple[float, int]:
    """p, and how many Walsh averages are under the interval and at its lower limit."""
    cumulative = np.cumsum(law)
    most = len(law) - 1
    smaller = round(2 * min(w, most / 2 - w))
    rejected = int(np.searchsorted(2 * cumulative, 1 - level))  # the halves of W that reject
    return min(1.0, 2 * cumulative[smaller]), (rejected + 1) // 2 if rejected else 0


@lru_cache(maxsize=128)
def _law(doubled: tuple[int, ...]) -> Floats:
    """The probabilities of twice the sum of the ranks that get a random plus."""
    law = np.ones(1)
    for rank in doubled:
        longer = np.zeros(len(law) + rank)
        longer[: len(law)] += law / 2
        longer[rank:] += law / 2
        law = longer
    return law


def _normal(w: float, centre: float, error: float, level: float) -> tuple[float, int]:
    p = 2 * scipy.special.ndtr(-abs(w - centre) / error)
    half = -scipy.special.ndtri((1 - level) / 2) * error
    return float(p), int(np.ceil(centre - half))


def _walsh(d: Floats, k: int) -> float:
    """The k-th smallest d_i + d_j, i <= j, of ascending d.

    Every row i ascends in j. The weighted median of the middles of all rows parts what is left so
    that at least a quarter of it goes.
    """
    left, right = np.arange(len(d)), np.full(len(d), len(d))
    below = 0
    while (right - left).sum() > _FEW:
        width = right - left
        rows = np.flatnonzero(width)
        middles = d[rows] + d[(left[rows] + right[rows]) // 2]
        order = np.argsort(middles)
        half = np.searchsorted(np.cumsum(width[rows][order]), width.sum() // 2)
        pivot = float(middles[order[half]])
        start = _columns(d, left, right, np.less, pivot)
        stop = _columns(d, start, right, np.less_equal, pivot)
        smaller = below + (start - left).sum()
        if k <= smaller:
            right = start
        elif k <= smaller + (stop - start).sum():
            return pivot
        else:
            below, left = below + (stop - left).sum(), stop
    width = right - left
    column = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width - left, width)
    sums = np.repeat(d, width) + d[column]
    return float(np.partition(sums, k - below - 1)[k - below - 1])


def _columns(d: Floats, left: Ints, right: Ints, under: Any, pivot: float) -> Ints:
    """For every row the first column, from left to right, whose sum is not under the pivot."""
    left, right = left.copy(), right.copy()
    while (open_ := left < right).any():
        middle = (left + right) // 2
        smaller = under(d + d[np.minimum(middle, len(d) - 1)], pivot)
        left = np.where(open_ & smaller, middle + 1, left)
        right = np.where(open_ & ~smaller, middle, right)
    return left
