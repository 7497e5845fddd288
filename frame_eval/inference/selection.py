"""Slices after looking at all of them: each against its complement, and their possible ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from frame_eval.inference.covariance import (
    covariance,
    influences_by_unit,
    most_units,
    products,
)
from frame_eval.inference.linear import (
    Linear,
    Sample,
    crossed,
    linear,
    put_at,
    scattered,
    ways_of,
)
from frame_eval.inference.pooling import Pooled, pooled, rate_variances
from frame_eval.inference.resample import Draws
from frame_eval.inference.simultaneous import Family, drawn_family, pairs_family
from frame_eval.inference.variance import Variance, cr2, two_way
from frame_eval.metrics.core import Metric
from frame_eval.table import Floats, Ints, Table, stacked


@dataclass(frozen=True)
class Contrast:
    """Every slice less its complement: the difference, the complement's estimate, and p-values.

    ``p_value`` is one-sided: how probable a difference at least as bad were, did the slice not
    differ from the rest.
    """

    rest: Floats
    difference: Floats
    p_value: Floats


def chosen_groups(found: Linear, groups: Ints) -> Linear:
    """The linearisation of some groups only, numbered anew in their order."""
    number = np.full(len(found.estimate), -1)
    number[groups] = np.arange(len(groups))
    rows = np.flatnonzero(number[found.group] >= 0)
    samples = tuple(
        Sample(
            sample.influence[rows],
            sample.squares[rows],
            sample.share[rows],
            sample.size[rows],
            sample.count[rows],
            sample.within[groups],
            np.broadcast_to(sample.weight, sample.size.shape)[rows],
        )
        for sample in found.samples
    )
    blocks = []
    for index, sums in found.totals.blocks:
        keep = np.flatnonzero(number[index] >= 0)
        if len(keep) == len(index):
            blocks.append((number[index], sums))
        elif len(keep):
            values = {name: value[keep] for name, value in vars(sums).items() if name != "classes"}
            blocks.append((number[index[keep]], type(sums)(values, sums.classes)))
    totals = replace(found.totals, blocks=tuple(blocks), groups=len(groups))
    by_group = {
        name: getattr(found, name)[groups]
        for name in ("estimate", "share", "n", "clusters", "missing", "rows")
    }
    return replace(
        found,
        **by_group,
        group=number[found.group[rows]],
        unit=found.unit[rows],
        samples=samples,
        totals=totals,
        strata=None if found.strata is None else found.strata[rows],
        times=None if found.times is None else found.times[rows],
        crossed=tuple(chosen_groups(way, groups) for way in found.crossed or ()) or None,
    )


def against_rest(
    metric: Metric,
    ways: Sequence[tuple[Table, list[Table]]],
    *,
    clustered: bool,
    sign: float,
) -> Contrast:
    """Every slice against the rest of the rows, clusters that are in both included.

    For each way of clustering (of crossed ones also by both together) there is the table of all
    rows of a system, and those of its slices. The difference is linearised as that of two samples,
    with CR2 errors and Satterthwaite degrees of freedom; for proportions the variances are those
    under the hypothesis that both have the rate of the whole, so that a slice that is all wrong has
    one too. ``sign`` is 1 where lower values are worse, -1 where higher ones are.
    """
    sides = [_and_rest(metric, *way) for way in ways]
    found, joint = crossed(*sides), crossed(*map(_two_samples, sides))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = cr2(joint)
        value, scale = joint.estimate, joint.estimate
        if metric.proportion is not None:
            scale = found.share[0::2] - found.share[1::2]
            whole, _ = ways[0]
            everything = replace(
                whole, slice=np.zeros_like(whole.slice), system=np.zeros_like(whole.system)
            )
            rate = float(linear(metric, everything, 1, 1).share[0])
            variance = _under_null(found, variance, rate, clustered=clustered)
        p = scipy.special.stdtr(variance.df, sign * scale / np.sqrt(variance.value))
    return Contrast(found.estimate[1::2], value, p)


def _and_rest(metric: Metric, whole: Table, parts: list[Table]) -> Linear:
    """Every part of all rows as one system of a slice, and the rest as another."""
    rests = [whole.without(part) for part in parts]
    sides = [
        replace(table, slice=np.full_like(table.slice, j), system=np.full_like(table.system, side))
        for side, tables in ((0, parts), (1, rests))
        for j, table in enumerate(tables)
    ]
    return linear(metric, stacked(sides), len(parts), 2)


def _two_samples(found: Linear) -> Linear:
    """System 0 less system 1 as one estimate of two samples."""
    side, slices = found.group % 2, found.group // 2
    size = int(found.unit.max(initial=0)) + 1
    if found.singles:
        group, unit, place = slices, found.unit, np.arange(len(slices))
    else:
        keys, place = np.unique(slices * size + found.unit, return_inverse=True)
        group, unit = keys // size, keys % size

    def of(sample: Sample, which: int, sign: float) -> Sample:
        own = np.where(side == which, 1.0, 0.0)

        def put(values: Floats) -> Floats:
            return scattered(place, np.nan_to_num(values * own), len(group))

        return Sample(
            put(sample.influence * sign),
            put(sample.squares),
            put(sample.share),
            put(sample.size),
            put(sample.count),
            sample.within[which::2],
            put(np.broadcast_to(sample.weight, side.shape)),
        )

    samples = tuple(
        of(sample, which, sign) for which, sign in ((0, 1.0), (1, -1.0)) for sample in found.samples
    )
    return replace(
        found,
        estimate=found.estimate[0::2] - found.estimate[1::2],
        n=found.n[0::2],
        clusters=found.clusters[0::2] + found.clusters[1::2],
        group=group,
        unit=unit,
        samples=samples,
        strata=put_at(found.strata, place, len(group)),
        times=put_at(found.times, place, len(group)),
    )


def _under_null(found: Linear, variance: Variance, rate: float, *, clustered: bool) -> Variance:
    """The variance of a difference of rates, were both the rate of the whole.

    Each side's own variance is carried over to that rate; where the side is all alike it is that of
    independent rows, with the design effect of the other side.
    """
    own = cr2(found).value
    share, n = found.share, found.n
    spread = share * (1 - share) / n
    effect = np.where(spread > 0, own / spread, np.nan) if clustered else np.ones(len(n))
    effect = np.maximum(effect, 1.0) if clustered else effect
    other = effect.reshape(-1, 2)[:, ::-1].ravel()
    effect = np.where(np.isfinite(effect), effect, np.where(np.isfinite(other), other, 1.0))
    null = rate * (1 - rate) / n * effect
    if not clustered:
        return Variance(null[0::2] + null[1::2], np.full(len(n) // 2, np.inf))
    shared = variance.value - own[0::2] - own[1::2]
    total = null[0::2] + null[1::2] + np.nan_to_num(shared)
    floor = np.maximum(null[0::2], null[1::2]) / 2
    df = np.where(np.isfinite(variance.df), variance.df, found.clusters[1::2] - 1)
    return Variance(np.maximum(total, floor), df)


def usual_variance(metric: Metric, found: Linear, *, clustered: bool) -> Variance:
    """The variances of shares or estimates, of a group that is all alike from the pooled rate.

    Such a group has no variance of its own: it gets that of the rate of all groups, with their
    usual (median) design effect.
    """
    variance = cr2(found)
    if metric.proportion is None:
        return variance
    p, n = found.share, found.n
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = float(np.nansum(p * n) / np.nansum(np.where(np.isfinite(p), n, 0)))
        effect = variance.value / (p * (1 - p) / n)
        known = effect[np.isfinite(effect)]
        usual = max(1.0, float(np.median(known))) if clustered and len(known) else 1.0
        alike = (p == 0) | (p == 1)
        value = np.where(alike, rate * (1 - rate) / n * usual, variance.value)
        df = np.where(alike, np.maximum(found.clusters - 1, 1), variance.df)
    return Variance(value, df)


def partially_pooled(metric: Metric, found: Linear, level: float, *, clustered: bool) -> Pooled:
    """The estimates of all groups drawn towards their mean, the more the less they are sure.

    Shares get variances from the rate of all groups, and are pooled as shares; clusters that have
    rows in several groups make their estimates depend on each other.
    """
    variance = cr2(found).value
    share = metric.proportion is not None
    if share:
        variance = rate_variances(found.share, found.n, variance)
    together = covariance([found], variance) if clustered else variance
    made = pooled(found.share if share else found.estimate, together, level)
    shown = metric.proportion.map if metric.proportion is not None else None
    values = [made.estimate, made.low, made.high]
    if share:
        values = [np.clip(value, 0, 1) for value in values]
    if shown is not None:
        values = [shown(value) for value in values]
    estimate, low, high = (np.clip(value, *metric.bounds) for value in values)
    return replace(made, estimate=estimate, low=low, high=high)


def all_differences(
    found: Linear, variance: Variance, draws: Draws, level: float, *, clustered: bool
) -> tuple[Ints, Ints, Floats, Floats]:
    """All pairs of groups, with simultaneous limits of the first less the second.

    With clusters the family is that of signs on the joint influences, with crossed or very many
    ones of normal draws with their covariance, else of independent normal groups.
    """
    groups = len(found.estimate)
    first, second = np.triu_indices(groups, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_first, of_second = variance.value[first], variance.value[second]
        if clustered:
            both = _of_differences(found, variance, first, second)
            df = _welch(of_first, variance.df[first], of_second, variance.df[second])
            family = _of_pairs(found, variance, df, draws)
        else:
            both, df = of_first + of_second, np.full(len(first), np.inf)
            family = _independent_pairs(np.sqrt(variance.value), draws)
        half = scipy.special.stdtrit(df, 0.5 + family.level(level) / 2) * np.sqrt(
            np.maximum(both, 0)
        )
    difference = found.estimate[first] - found.estimate[second]
    return first, second, difference - half, difference + half


def _of_pairs(found: Linear, variance: Variance, df: Floats, draws: Draws) -> Family:
    """The family of the differences of all pairs of groups, which have these degrees of freedom."""
    if found.drawn:
        together = covariance([found], variance.value)
        return drawn_family(together, variance.df, draws, differences=True)
    influence, share = influences_by_unit(found, most_units([found]))
    return pairs_family(influence, share, df, draws)


def _of_differences(found: Linear, variance: Variance, first: Ints, second: Ints) -> Floats:
    """The variances of the first groups less the second ones, which may share units.

    What a group is given beyond its own variance is added.
    """
    ways = []
    for way in ways_of(found):
        own = cr2(way).value
        ways.append(own[first] + own[second] - 2 * products([way])[first, second])
    between = ways[0] if len(ways) == 1 else two_way(*ways)
    given = variance.value - np.nan_to_num(cr2(found).value)
    return between + given[first] + given[second]


def _welch(a: Floats, df_a: Floats, b: Floats, df_b: Floats) -> Floats:
    df: Floats = (a + b) ** 2 / (a**2 / df_a + b**2 / df_b)
    return df


def _independent_pairs(errors: Floats, draws: Draws) -> Family:
    """The family of all pairs of independent normal estimates with these errors."""
    usable = errors[np.isfinite(errors) & (errors > 0)]
    first, second = np.triu_indices(len(usable), 1)
    if not len(first):
        return Family(1)
    generator = np.random.default_rng(draws.seed)
    spread = np.sqrt(usable[first] ** 2 + usable[second] ** 2)
    largest = np.empty(draws.resamples)
    size = max(1, 2**20 // len(first))
    for start in range(0, draws.resamples, size):
        noise = (
            generator.standard_normal((min(size, draws.resamples - start), len(usable))) * usable
        )
        z = np.abs(noise[:, first] - noise[:, second]) / spread
        largest[start : start + len(noise)] = z.max(axis=1)
    return Family(len(first), np.sort(1 - 2 * scipy.special.ndtr(-largest)))
