"""Tests against a margin: how sure is it that a difference is not beyond it?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from frame_eval.table import Floats

# From levels (an array by slice) to the limits of the intervals at these levels.
Limits: TypeAlias = Callable[[Floats], tuple[Floats, Floats]]

_STEPS = 60


@dataclass(frozen=True)
class Margins:
    """One-sided p-values by slice: of being worse by the margin, and of being beyond it."""

    noninferior: Floats
    equivalent: Floats


def margins(difference: Floats, limits: Limits, margin: float, *, sign: float) -> Margins:
    """The p-values of non-inferiority and equivalence, from the intervals of a test.

    The hypothesis of a difference beyond ``-margin`` has the one-sided p-value at which a limit of
    the interval reaches it, so that p < alpha exactly when the interval at level 1 - 2 alpha stays
    inside. Equivalence is both one-sided tests (Schuirmann 1987): the larger p-value. ``sign`` is 1
    where higher is better, -1 where lower is.
    """
    above = _p_above(difference, limits, -margin)
    below = _p_below(difference, limits, margin)
    return Margins(above if sign > 0 else below, np.maximum(above, below))


def _p_above(difference: Floats, limits: Limits, at: float) -> Floats:
    """The p-value of the hypothesis that the true difference is at most ``at``."""
    inside = difference > at

    def reached(level: Floats) -> Any:
        low, high = limits(level)
        return ~np.where(inside, low >= at, high <= at)

    tail = _tail_at(reached, len(difference))
    p = np.where(inside, tail / 2, 1 - tail / 2)
    return np.where(_made(limits, difference), p, np.nan)


def _p_below(difference: Floats, limits: Limits, at: float) -> Floats:
    """The p-value of the hypothesis that the true difference is at least ``at``."""

    def mirrored(level: Floats) -> tuple[Floats, Floats]:
        low, high = limits(level)
        return -high, -low

    return _p_above(-difference, mirrored, -at)


def _made(limits: Limits, difference: Floats) -> Any:
    low, high = limits(np.full(len(difference), 0.5))
    return np.isfinite(low) & np.isfinite(high)


def _tail_at(reached: Callable[[Floats], Any], size: int) -> Floats:
    """One minus the lowest level at which an interval reaches a value, by bisection of its log."""
    # No interval is made at a level of 1 - 1e-16: it counts as the whole line.
    low, high = np.full(size, -40.0), np.zeros(size)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        there = reached(-np.expm1(middle))
        low, high = np.where(there, middle, low), np.where(there, high, middle)
    tail: Floats = np.exp((low + high) / 2)
    return tail
