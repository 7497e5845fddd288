"""Intervals that hold for all slices at once, and the p-values that belong to them.

A simultaneous interval is a pointwise one at a higher level, the same for the whole family: that at
which, were all true differences nothing, no member would be found in so many of all samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from frame_eval.inference.covariance import (
    covariance,
    inflation,
    influences_by_unit,
    most_units,
    rooted,
)
from frame_eval.inference.linear import Linear
from frame_eval.inference.resample import Draws, coins
from frame_eval.inference.variance import cr2
from frame_eval.table import Floats, Ints

MOST_DRAWN = 200  # estimates whose joint law is drawn
_MOST_UNITS = 100  # that a covariance is drawn from: more hardly vary
_AT_ONCE = 2**20  # influences of pairs that are held at once
_FEW = 250  # pairs that are all studentised
_SINGLE = 40  # how much longer the error of one draw takes alone than among all draws


@dataclass(frozen=True)
class Family:
    """How small the smallest p-value of a family is by chance.

    ``confidence`` holds, for every draw, one minus the smallest p-value, ascending; or, for
    ``members`` that are independent, nothing. ``normal`` draws are those with a covariance.
    """

    members: int
    confidence: Floats | None = None
    normal: bool = False

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
    ways have in common is taken off: the law of the largest t is drawn from their covariance, as it
    is where units are too many to put a sign on each.
    """
    count = sum(int(np.isfinite(found.estimate).sum()) for found in members)
    if not clustered:
        return Family(count)
    # Metrics without errors have no samples, and no intervals to hold.
    usable = [found for found in members if found.samples]
    df = [cr2(found).df for found in usable]
    if any(found.drawn for found in usable):
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
    columns = _Columns.of(influence, share)

    def largest(rows: int, generator: np.random.Generator) -> Floats:
        signs = _signs(rows, len(influence), generator)
        return _raised(np.zeros(rows), columns.studentized(signs, signs @ influence), df)

    return np.concatenate(draws.blocks(largest, sum(influence.shape)))


def pairs_family(influence: Floats, share: Floats, df: Floats, draws: Draws) -> Family:
    """The family of the differences of all pairs of columns of :func:`joint_family`.

    The first less the second one, of which the shares are the mean, in the order of
    ``np.triu_indices``, with the degrees of freedom of each. Only those are studentised that may be
    the largest of a draw.
    """
    usable = np.flatnonzero(np.isfinite(df))
    if not len(usable):
        return Family(0)
    first, second = (of[usable] for of in np.triu_indices(influence.shape[1], 1))
    if len(usable) <= _FEW:
        apart = influence[:, first] - influence[:, second]
        part = (share[:, first] + share[:, second]) / 2
        return joint_family([(apart, part, df[usable])], draws)
    pairs = _Pairs(influence, share, first, second, df[usable])

    def largest(rows: int, generator: np.random.Generator) -> Floats:
        signs = _signs(rows, len(influence), generator)
        return pairs.confidences(signs, signs @ influence)

    with np.errstate(divide="ignore", invalid="ignore"):
        found = draws.blocks(largest, sum(influence.shape))
    return Family(len(usable), np.sort(np.concatenate(found)))


class _Pairs:
    """Pairs of columns, the first less the second, under signs on their units."""

    def __init__(
        self, influence: Floats, share: Floats, first: Ints, second: Ints, df: Floats
    ) -> None:
        self.influence, self.share = np.ascontiguousarray(influence.T), share.T.copy()
        self.first, self.second, self.df = first, second, df
        size = max(1, _AT_ONCE // len(influence))
        self.parts = [np.arange(i, min(i + size, len(df))) for i in range(0, len(df), size)]
        sums = [(of.fixed, of.spread) for of in map(self.columns, self.parts)]
        self.fixed, self.spread = (np.concatenate(of) for of in zip(*sums, strict=True))

    def columns(self, pairs: Ints) -> _Columns:
        """The differences of some pairs."""
        influence, share = self._of(pairs)
        return _Columns.of(influence.T, share.T)

    def _of(self, pairs: Ints) -> tuple[Floats, Floats]:
        """The influences of some pairs, and their shares (pairs x units)."""
        a, b = self.first[pairs], self.second[pairs]
        influence, share = self.influence[a], self.share[a]
        influence -= self.influence[b]
        share += self.share[b]
        share *= 0.5
        return influence, share

    def confidences(self, signs: Floats, total: Floats) -> Floats:
        """The largest of one minus the p-values of all pairs, by draws."""
        rows = np.arange(len(signs))
        best, seen = np.zeros(len(signs)), np.zeros(len(signs), np.int64)
        for part in self.parts:
            t = self._about(total, part)
            at = t.argmax(axis=1)
            seen = np.where(t[rows, at] > best, part[at], seen)
            best = np.maximum(best, t[rows, at])
        confidence = self._raised(np.zeros(len(signs)), signs, total, rows, seen)
        for part in self.parts:
            # By Cauchy and Schwarz the error of a draw is at least that of its signs, less its
            # total times the root of the sum of squared shares.
            t = self._about(total, part)
            most = t / np.maximum(1 - t * np.sqrt(self.spread[part]), 0.0)
            possible = most >= _needed(confidence, self.df[part])[:, None]
            if np.count_nonzero(possible) * _SINGLE > possible.size:
                t = self.columns(part).studentized(signs, self._differences(total, part))
                confidence = _raised(confidence, t, self.df[part])
            else:
                row, at = np.nonzero(possible)
                confidence = self._raised(confidence, signs, total, row, part[at])
        return confidence

    def _differences(self, total: Floats, pairs: Ints) -> Floats:
        return total[:, self.first[pairs]] - total[:, self.second[pairs]]

    def _about(self, total: Floats, pairs: Ints) -> Floats:
        """The absolute t-statistics, but with the errors of the signs alone."""
        return _over(self._differences(total, pairs), self.fixed[pairs])

    def _raised(
        self, confidence: Floats, signs: Floats, total: Floats, rows: Ints, pairs: Ints
    ) -> Floats:
        """The largest confidence by draws: the given one, or that of some draws of some pairs."""
        found = confidence.copy()
        size = max(1, _AT_ONCE // signs.shape[1])
        for start in range(0, len(rows), size):
            row, pair = rows[start : start + size], pairs[start : start + size]
            a, b = self.first[pair], self.second[pair]
            influence, share = self._of(pair)
            influence *= share
            influence *= inflation(share)
            lean = np.einsum("ij,ij->i", influence, signs[row])
            t = _studentized(
                total[row, a] - total[row, b], lean, self.fixed[pair], self.spread[pair]
            )
            np.maximum.at(found, row, 1 - 2 * scipy.special.stdtr(self.df[pair], -t))
        return found


def _signs(rows: int, units: int, generator: np.random.Generator) -> Floats:
    return 2.0 * coins(rows, units, generator) - 1.0


@dataclass(frozen=True)
class _Columns:
    """What the errors of some columns are made of under signs on their units.

    That is the sum of a (v psi - w total)^2, as v^2 is 1.
    """

    fixed: Floats
    lean: Floats
    spread: Floats

    @classmethod
    def of(cls, influence: Floats, share: Floats) -> _Columns:
        stretch = inflation(share)
        lean = stretch * share
        spread = (lean * share).sum(0)
        lean *= influence
        return cls((stretch * influence**2).sum(0), lean, spread)

    def studentized(self, signs: Floats, total: Floats) -> Floats:
        """The absolute t-statistics of some draws (rows), which have these sums of influences."""
        return _studentized(total, signs @ self.lean, self.fixed, self.spread)


def _studentized(total: Floats, lean: Floats, fixed: Floats, spread: Floats) -> Floats:
    return _over(total, fixed - 2 * total * lean + total**2 * spread)


def _over(total: Floats, variance: Floats) -> Floats:
    """Absolute t-statistics; 0 where there is nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(total) / np.sqrt(np.maximum(variance, 0.0))
    return np.nan_to_num(t, nan=0.0, posinf=np.inf)


def _needed(confidence: Floats, df: Floats) -> Floats:
    """The t-statistic that a member must have to be more confident than so."""
    return np.asarray(scipy.special.stdtrit(np.max(df), 0.5 + confidence / 2) * (1 - 1e-9), float)


def _raised(confidence: Floats, t: Floats, df: Floats) -> Floats:
    """The largest confidence by draws: the given one, or one minus the p-value of some t."""
    if not len(df):
        return confidence
    rows, most = np.arange(len(t)), t.argmax(axis=1)
    first = 1 - 2 * scipy.special.stdtr(df[most], -t[rows, most])
    found: Floats = np.maximum(confidence, first)
    # Their law takes long: only those are asked for it that can be more confident.
    rows, columns = np.nonzero(t > _needed(found, df)[:, None])
    np.maximum.at(found, rows, 1 - 2 * scipy.special.stdtr(df[columns], -t[rows, columns]))
    return found


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
    if not 1 < size <= MOST_DRAWN:
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
    return Family(members, np.sort(np.concatenate(draws.blocks(largest, width))), normal=True)
