"""Intervals that hold for all slices at once, and the p-values that belong to them.

A simultaneous interval is a pointwise one at a higher level, the same for the whole family: that at
which, were all true differences nothing, no member would be found in so many of all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from frame_eval.inference.covariance import covariance, influences_by_unit, most_units, rooted
from frame_eval.inference.linear import Linear
from frame_eval.inference.resample import Draws, coins
from frame_eval.inference.variance import cr2
from frame_eval.table import Floats

_MOST_DRAWN = 200  # estimates whose joint law is drawn
_MOST_UNITS = 100  # that a covariance is drawn from: more hardly vary


@dataclass(frozen=True)
class Family:
    """How small the smallest p-value of a family is by chance.

    ``confidence`` holds, for every draw, one minus the smallest p-value, ascending; or, for
    ``members`` that are independent, nothing.
    """

    members: int
    confidence: Floats | None = None

    def level(self, level: float) -> float:
        """The level at which pointwise intervals all hold together with the given one."""
        if self.confidence is None:
            return float(level ** (1 / max(self.members, 1)))
        total = len(self.confidence) + 1
        rank = int(np.ceil(round(1 - level, 12) * total - 1e-9)) - 1
        return max(level, float(self.confidence[-rank])) if rank > 0 else 1.0

    def adjusted(self, p: Floats) -> Floats:
        """The p-values of members, adjusted for the family; NaN stays."""
        if self.confidence is None:
            with np.errstate(divide="ignore"):
                return np.asarray(-np.expm1(self.members * np.log1p(-p)), float)
        total = len(self.confidence) + 1
        above = len(self.confidence) - np.searchsorted(self.confidence, 1 - p, side="left")
        return np.where(np.isnan(p), np.nan, np.maximum((1 + above) / total, p))


def family_of(members: Sequence[Linear], draws: Draws, *, clustered: bool) -> Family:
    """The family of all groups of some linearisations.

    With clusters, Rademacher signs are put on the cluster influences of all groups at once and each
    draw is studentised anew (the wild bootstrap of Cameron, Gelbach and Miller 2008, its maximum as
    in Romano and Wolf 2005); t-statistics of different degrees of freedom are compared by their
    p-values. Independent units in disjoint groups make independent members (Sidak 1967), which is
    cautious where groups overlap. No signs give the errors of crossed clusters, of which what both
    ways have in common is taken off: the law of the largest t is drawn from their covariance.
    """
    count = sum(int(np.isfinite(found.estimate).sum()) for found in members)
    if not clustered:
        return Family(count)
    # Metrics without errors have no samples, and no intervals to hold.
    usable = [found for found in members if found.samples]
    df = [cr2(found).df for found in usable]
    if any(found.crossed is not None for found in usable):
        every = np.concatenate(df)
        return drawn_family(covariance(usable, np.ones(len(every))), every, draws)
    units = most_units(members)
    parts = [(*influences_by_unit(found, units), of) for found, of in zip(usable, df, strict=True)]
    return joint_family(parts, draws)


def joint_family(parts: Sequence[tuple[Floats, Floats, Floats]], draws: Draws) -> Family:
    """The family of the columns of some matrices of influences and shares (units x members).

    With each pair of matrices come the degrees of freedom of its columns; those without any are
    left out.
    """
    largest = np.zeros(draws.resamples)
    for influence, share, df in parts:
        np.maximum(largest, _confidences(influence, share, df, draws), out=largest)
    return Family(sum(len(df) for _, _, df in parts), np.sort(largest))


def _confidences(influence: Floats, share: Floats, df: Floats, draws: Draws) -> Floats:
    """The largest of one minus the p-values of all columns, by draws."""
    usable = np.flatnonzero(np.isfinite(df))
    influence, share, df = influence[:, usable], share[:, usable], df[usable]
    stretch = 1 / (1 - np.minimum(share, 1 - 1e-9))
    fixed = (stretch * influence**2).sum(0)
    lean = stretch * share * influence
    spread = (stretch * share**2).sum(0)

    def largest(rows: int, generator: np.random.Generator) -> Floats:
        signs = 2.0 * coins(rows, len(influence), generator) - 1.0
        total = signs @ influence
        # Sum of a (v psi - w total)^2, as v^2 is 1.
        variance = fixed - 2 * total * (signs @ lean) + total**2 * spread
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(total) / np.sqrt(np.maximum(variance, 0.0))
        p = 2 * scipy.special.stdtr(df, -np.nan_to_num(t, nan=0.0, posinf=np.inf))
        most: Floats = np.max(1 - p, axis=1, initial=0.0)
        return most

    return np.concatenate(draws.blocks(largest, sum(influence.shape)))


def drawn_family(
    covariance: Floats, df: Floats, draws: Draws, *, differences: bool = False
) -> Family:
    """The family of estimates that are normal together, or of the ``differences`` of all pairs.

    Each draw is studentised by a covariance of its own, which is that of as many independent normal
    units as the smallest of the degrees of freedom says (Wishart's law), so that the t-statistics
    of two members are the more alike, numerators and denominators, the more these are correlated.
    Members without degrees of freedom are left out; of more than 200 estimates, whose joint law is
    not drawn, the family is that of independent ones, which never asks for less (Sidak 1967).
    """
    usable = np.flatnonzero(np.isfinite(df))
    size = len(usable)
    members = size * (size - 1) // 2 if differences else size
    if not 1 < size <= _MOST_DRAWN:
        return Family(members)
    kept = covariance[np.ix_(usable, usable)]
    apart = np.add.outer(np.diag(kept), np.diag(kept))
    alike = apart - 2 * kept <= 1e-9 * apart  # as each member is with itself
    root, units = rooted(kept), int(np.clip(df[usable].min(), 1, _MOST_UNITS))

    def largest(rows: int, generator: np.random.Generator) -> Floats:
        normal = generator.standard_normal((rows, 1 + units, size)) @ root
        z, sample = normal[:, 0], normal[:, 1:]
        if differences:
            products = np.matmul(sample.swapaxes(1, 2), sample) / units
            own = np.diagonal(products, axis1=1, axis2=2)
            variance = own[:, :, None] + own[:, None, :] - 2 * products
            square = (z[:, :, None] - z[:, None, :]) ** 2 / np.where(alike, np.inf, variance)
        else:
            square = z**2 / np.mean(sample**2, axis=1)
        t = np.sqrt(square.reshape(rows, -1).max(axis=1))
        confidence: Floats = 1 - 2 * scipy.special.stdtr(units, -t)
        return confidence

    width = (1 + units) * size + differences * size**2
    return Family(members, np.sort(np.concatenate(draws.blocks(largest, width))))
