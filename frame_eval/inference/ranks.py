"""Intervals of ranks, from simultaneous intervals of all differences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from frame_eval.table import Floats, Ints


class Ranks(NamedTuple):
    """Ranks from 1, the best, with the best and the worst one that the data allow."""

    rank: Ints
    low: Ints
    high: Ints


def rank_intervals(
    estimate: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    higher_is_better: bool = True,
) -> Ranks:
    """Ranks of slices or systems with confidence sets (Mogstad, Romano, Shaikh and Wilhelm 2024).

    The rank is 1 + the number that are better; equal ones share it. With intervals of the
    differences that hold together at some level, an item is at best behind all those that are
    better for sure (whose interval is on one side of 0), and at worst before all that are worse for
    sure: all true ranks are within these limits at the same level.

    Parameters
    ----------
    estimate
        By item.
    first, second
        The positions of the items of each pair; every pair once, in either order.
    low, high
        By pair: simultaneous limits of the first minus the second. NaN says nothing.
    higher_is_better
        Whether rank 1 is the highest.

    Returns
    -------
    Ranks
        Integers by item.

    Examples
    --------
    The second is surely better than the third, no more is sure:

    >>> rank_intervals([0.5, 0.8, 0.4], [0, 0, 1], [1, 2, 2], [-0.7, -0.3, 0.1], [0.1, 0.5, 0.7])
    Ranks(rank=array([2, 1, 3]), low=array([1, 1, 2]), high=array([3, 2, 3]))
    """
    sign = 1.0 if higher_is_better else -1.0
    value = sign * np.asarray(estimate, np.float64)
    first, second = np.asarray(first, np.int64), np.asarray(second, np.int64)
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    above = low > 0 if higher_is_better else high < 0
    below = high < 0 if higher_is_better else low > 0
    items = len(value)
    better = np.bincount(second[above], minlength=items)
    better += np.bincount(first[below], minlength=items)
    worse = np.bincount(first[above], minlength=items)
    worse += np.bincount(second[below], minlength=items)
    return Ranks(_rank(value), better + 1, items - worse)


def _rank(value: Floats) -> Ints:
    """1 + how many are higher."""
    ascending = np.sort(value)
    higher: Ints = len(value) - np.searchsorted(ascending, value, side="right")
    return higher + 1
