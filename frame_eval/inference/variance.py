"""Variances of linearised estimates from the influences of independent units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference.linear import Linear, Sample, added, scattered
from frame_eval.table import Floats, Ints


@dataclass(frozen=True)
class Variance:
    """A variance by group and its degrees of freedom; NaN where it can not be estimated.

    ``effect`` is the design effect that weights (Kish 1965) and the intra-cluster correlation imply
    where rows vary alike, and it is the same in all clusters: without weights
    1 + rho (sum m^2 / sum m - 1); 1 where it is not asked for.
    """

    value: Floats
    df: Floats
    effect: Floats | float = 1.0


def cr2(found: Linear) -> Variance:
    """Bell and McCaffrey's (2002) CR2 variance with Satterthwaite degrees of freedom.

    Each influence is inflated by the leverage of its unit, 1 / (1 - share). The degrees of freedom
    take the intra-cluster correlation of the linearised rows for the working model (Imbens and
    Kolesar 2016), in which rows vary alike and their influences as their weights. With several
    samples (AUC: positives and negatives) the leverage is per sample and the degrees of freedom are
    Welch's, as far as there are units. NaN where a group has fewer than two units.
    """
    if found.crossed is not None:
        return _two_way(cr2, *found.crossed)
    if found.strata is not None:
        return stratified(found)
    groups = len(found.estimate)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [_one_sample(sample, found.group, groups) for sample in found.samples]
        if len(parts) == 1:
            return parts[0]
        # A class without rows in a slice is no sample of it.
        there = [added(found.group, sample.count, groups) > 0 for sample in found.samples]
        values = [np.where(t, part.value, 0.0) for t, part in zip(there, parts, strict=True)]
        spreads = [
            np.where(t, part.value**2 / part.df, 0.0) for t, part in zip(there, parts, strict=True)
        ]
        inflated = sum(
            np.where(sample.count > 0, sample.influence / np.sqrt(1 - sample.share), 0.0)
            for sample in found.samples
        )
        total = np.bincount(found.group, np.square(inflated) / _times(found), groups)
        if found.singles:
            total = np.sum(values, axis=0)
        df = np.sum(values, axis=0) ** 2 / np.sum(spreads, axis=0)
        # Units may be in several samples, which then tell no more than they.
        df = np.minimum(df, found.clusters - 1)
    # Without any variation the degrees of freedom are 0 / 0, and do not matter.
    usable = np.isfinite(total) & (np.isfinite(df) | (total == 0))
    return Variance(np.where(usable, total, np.nan), np.where(usable, df, np.nan))


def _one_sample(sample: Sample, group: Ints, groups: int) -> Variance:
    """CR2 and its degrees of freedom for one sample, in one pass over the units."""
    inside = sample.count > 0
    code, count = group[inside], sample.count[inside]
    w, size = sample.share[inside], sample.size[inside]

    def total(values: Floats) -> Floats:
        return added(code, values, groups)

    a = 1 / (1 - w)
    value = total(sample.squares[inside] * a)
    units = total(count)
    rho = intraclass(sample, group, groups)
    weight = np.broadcast_to(sample.weight, inside.shape)[inside]
    s = weight**2 * size * (1 + (size - 1) * rho[code])
    whole = total(count * s)
    effect = whole * total(count * size) / total(count * size * weight) ** 2
    big = whole[code]
    numerator = total(count * a * (s * (1 - 2 * w) + w**2 * big)) ** 2
    ss, sw, ww = (total(count * a * x * y) for x, y in ((s, s), (s, w), (w, w)))
    fourth = total(count * a**2 * (s**2 - 2 * s * (2 * w * s - w**2 * big)))
    # [x y] sums over all pairs of units, so that it weighs each unit by its inflation.
    cross = 2 * ss * ww + 2 * sw**2 + whole**2 * ww**2 - 4 * whole * sw * ww
    df = numerator / (fourth + cross)
    usable = (units >= 2) & np.isfinite(value) & (df > 0)
    return Variance(np.where(usable, value, np.nan), np.where(usable, df, np.nan), effect)


def intraclass(sample: Sample, group: Ints, groups: int) -> Floats:
    """The ANOVA intra-cluster correlation of the linearised rows, clipped to [0, 1].

    (MSB - MSW) / (MSB + (m0 - 1) MSW) with m0 the usual average size for unequal clusters
    (Donner 1986); 0 where all units are single rows.
    """
    inside = sample.count > 0
    code, size, count = group[inside], sample.size[inside], sample.count[inside]
    units = np.bincount(code, count, groups)
    rows = np.bincount(code, count * size, groups)
    between = np.bincount(code, sample.squares[inside] / size, groups) / (units - 1)
    within = sample.within / (rows - units)
    m0 = (rows - np.bincount(code, count * size**2, groups) / rows) / (units - 1)
    rho = (between - within) / (between + (m0 - 1) * within)
    clipped: Floats = np.where(rows > units, np.fmin(np.fmax(rho, 0.0), 1.0), 0.0)
    return clipped


def cr1(found: Linear) -> Variance:
    """The cluster-robust variance with the factor C / (C - 1), on C - 1 degrees of freedom."""
    if found.crossed is not None:
        return _two_way(cr1, *found.crossed)
    if found.strata is not None:
        return stratified(found)
    units = found.clusters
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(units > 1, units / (units - 1), np.nan)
        return Variance(_sandwich(found) * factor, np.where(units > 1, units - 1, np.nan))


def cr0(found: Linear) -> Variance:
    """The cluster-robust variance without a factor, on C - 1 degrees of freedom."""
    if found.crossed is not None:
        return _two_way(cr0, *found.crossed)
    if found.strata is not None:
        raise EvalError("with strata use 'auto', 'cr2' or 'cr1': 'cr0' has no factor to count them")
    usable = found.clusters > 1
    return Variance(
        np.where(usable, _sandwich(found), np.nan), np.where(usable, found.clusters - 1, np.nan)
    )


def _two_way(
    function: Callable[[Linear], Variance], first: Linear, second: Linear, both: Linear
) -> Variance:
    """The variance of two-way clusters (Cameron, Gelbach and Miller 2011), on the fewer df."""
    one, other, common = (function(found) for found in (first, second, both))
    value = two_way(one.value, other.value, common.value)
    effect = np.maximum(one.effect, other.effect)
    return Variance(value, np.minimum(one.df, other.df), effect)


def two_way(one: Floats, other: Floats, common: Floats) -> Floats:
    """V_1 + V_2 - V_12, but never under the larger of the first two, which it may be by chance."""
    value: Floats = np.maximum(one + other - common, np.maximum(one, other))
    return value


def stratified(found: Linear) -> Variance:
    """The variance of units sampled within strata, on C - H degrees of freedom.

    Sum over strata of C_h / (C_h - 1) times the squares of influences around their mean in the
    stratum (Cochran 1977, section 5.4). NaN where a stratum has one unit.
    """
    assert found.strata is not None
    groups, size = len(found.estimate), int(found.strata.max(initial=0)) + 1
    key = found.group * size + found.strata
    influence = np.sum([sample.influence for sample in found.samples], axis=0)
    count = np.max([sample.count for sample in found.samples], axis=0)
    squares = influence**2 / _times(found)
    if found.singles:
        count = np.sum([sample.count for sample in found.samples], axis=0)
        squares = np.sum([sample.squares for sample in found.samples], axis=0)
    total, square, units = (
        scattered(key, values, groups * size).reshape(groups, size)
        for values in (influence, squares, count)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(units > 1, units / (units - 1) * (square - total**2 / units), np.nan)
    value = np.where(units > 0, np.maximum(spread, 0.0), 0.0).sum(1)
    df = np.where(units > 0, units - 1, 0.0).sum(1)
    return Variance(value, np.where(np.isfinite(value), df, np.nan))


def within_strata(found: Linear) -> Floats:
    """The influences of units that are not single rows, so that their squares sum to the same.

    Those around the mean of the stratum, times the root of C_h / (C_h - 1).
    """
    assert found.strata is not None
    key = found.group * (int(found.strata.max(initial=0)) + 1) + found.strata
    influence = np.sum([sample.influence for sample in found.samples], axis=0)
    inside = np.max([sample.count for sample in found.samples], axis=0)
    size = int(key.max(initial=0)) + 1
    total, units = (scattered(key, values, size)[key] for values in (influence, inside))
    off = influence - inside * total / np.maximum(units, 1.0)
    centred: Floats = off * np.sqrt(units / np.maximum(units - 1.0, 1.0))
    return centred


def _sandwich(found: Linear) -> Floats:
    groups = len(found.estimate)
    if found.singles:
        squares = np.sum([sample.squares for sample in found.samples], axis=0)
    else:
        squares = np.sum([sample.influence for sample in found.samples], axis=0) ** 2
        squares = squares / _times(found)
    return added(found.group, squares, groups)


def _times(found: Linear) -> Floats | float:
    """How many units a row of the samples stands for, where that is not said by the sample."""
    return 1.0 if found.times is None else found.times
