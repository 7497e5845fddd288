"""Differences of two systems on the same examples, or on different ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy

from frame_eval.errors import EvalError
from frame_eval.inference import bootstrap, pairs
from frame_eval.inference.bootstrap import Bootstrap
from frame_eval.inference.difference import (
    Difference,
    Pairs,
    Sides,
    example_values,
    has_values,
)
from frame_eval.inference.intervals import SANDWICH, shown
from frame_eval.inference.linear import Linear, Sample, added, crossed, scattered
from frame_eval.inference.margins import Limits
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.resampled import (
    Resampling,
    by_draws,
    by_wilcoxon,
    by_wild,
)
from frame_eval.inference.variance import Variance, cr2
from frame_eval.metrics.core import Metric
from frame_eval.metrics.quantiles import quantile_of
from frame_eval.table import Floats, Ints, keyed, numbered, strata_of
from frame_eval.threads import concurrently

Test: TypeAlias = Literal[
    "auto",
    "score",
    "exact",
    "mid-p",
    "corrected",
    "pooled",
    "unpooled",
    "t",
    "cr0",
    "cr1",
    "cr2",
    "permutation",
    "wild",
    "wilcoxon",
]
Method: TypeAlias = Test | Bootstrap | None
METHODS = (*get_args(Test), *bootstrap.KINDS, None)
WITH_LIMITS = ("auto", "score", "unpooled", "t", "cr0", "cr1", "cr2")
RESAMPLING = (*bootstrap.KINDS, "permutation")
BINARY = ("score", "exact", "mid-p", "corrected")
UNPAIRED = ("score", "pooled", "unpooled")


def paired(
    metric: Metric,
    sides: Sides,
    cluster_of: Ints,
    method: Method,
    level: float,
    draws: Draws = DRAWS,
    scale: float = 1.0,
    ways: Sequence[Ints] = (),
) -> Difference:
    """The difference of two systems on the same examples, in every slice.

    ``cluster_of`` is the cluster of every example; ``ways`` the one that it is in another way, and
    by both ways together. ``draws`` are those of the methods that resample. With ``scale`` the
    estimate of the second system counts only so much, for margins relative to it.
    """
    both = _pairs(metric, sides, cluster_of)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint, counted = _side_by_side(metric, both, scale)
    joint = crossed(joint, *(_joint(_pairs(metric, sides, way), scale) for way in ways))
    grouped = joint.clusters < joint.n
    with np.errstate(divide="ignore", invalid="ignore"):
        alike = scale == 1 and not both.a.weighted and both.a.strata is None
        binary = _is_binary(metric, both) & ~grouped & alike
        result = analysed(metric, joint, method, level, binary, counted)
        if method in RESAMPLING:
            units = [cluster_of[side.table.unit] for side in sides]
            first, strata = sides[0].table, None
            if first.strata is not None:
                size = int(units[0].max(initial=0)) + 1
                strata = strata_of(units[0], first.strata[first.unit], size)
            how = Resampling(units, strata, grouped, level, draws, scale)
            result = by_draws(result, metric, sides, method, how)
        elif method == "wild":
            result = by_wild(result, joint, grouped, draws)
        elif method == "wilcoxon":
            result = by_wilcoxon(result, metric, both, grouped, level)
    return tested(metric, method, of_strata(joint, result))


def analysed(
    metric: Metric, joint: Linear, method: Method, level: float, binary: Any, counted: Floats
) -> Difference:
    """A linearised difference, tested by its error or, where it is of 0/1 pairs, by their counts.

    ``counted`` are the examples that are higher, lower and equal.
    """
    grouped = joint.clusters < joint.n
    _check_method(metric, method, grouped, binary)
    kind = method if method in SANDWICH else "cr2"
    result = _by_t(joint, SANDWICH[str(kind)](joint), str(kind), level, grouped)
    higher, lower, ties = counted
    if method in ("auto", *BINARY) and np.any(binary):
        counts = (np.where(binary, x, np.nan) for x in (higher, lower, result.n))
        result = _by_score(result, "score" if method == "auto" else str(method), level, *counts)
    wins, losses = (lower, higher) if metric.better == "lower" else (higher, lower)
    return replace(result, wins=wins, losses=losses, ties=ties)


def joint(metric: Metric, sides: Sides, cluster_of: Ints, ways: Sequence[Ints] = ()) -> Linear:
    """The differences of two systems by slice, linearised over clusters, and in other ``ways``."""
    return crossed(*(_joint(_pairs(metric, sides, of), 1.0) for of in (cluster_of, *ways)))


def _pairs(metric: Metric, sides: Sides, cluster_of: Ints) -> Pairs:
    a, b = (in_units(metric, side) for side in sides)
    return Pairs(a, b, a.group, cluster_of[a.unit])


def _side_by_side(metric: Metric, both: Pairs, scale: float) -> tuple[Linear, Floats]:
    """The linearised difference, and how many examples are higher, lower and equal."""
    tasks: list[Any] = [partial(_joint, both, scale), partial(_counts, metric, both)]
    joint, counts = concurrently(tasks, len(both.slice))
    return joint, counts


def by_t(joint: Linear, level: float) -> Difference:
    """The t-test of differences that are linearised already, with CR2 errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _by_t(joint, cr2(joint), "cr2", level, joint.clusters < joint.n)


def in_units(metric: Metric, found: Linear) -> Linear:
    """The influences on the metric, where those at hand are on a share that it is a function of."""
    if metric.quantile is not None:
        slope = per_share(metric.quantile, found)
    elif metric.proportion is not None and metric.proportion.slope is not None:
        slope = metric.proportion.slope(found.share)
    else:
        return found
    return _scaled(found, slope)


def _scaled(found: Linear, slope: Floats) -> Linear:
    """The influences on a group times its slope."""
    samples = tuple(
        replace(
            sample,
            influence=sample.influence * slope[found.group],
            squares=sample.squares * slope[found.group] ** 2,
            within=sample.within * slope**2,
        )
        for sample in found.samples
    )
    ways = tuple(_scaled(way, slope) for way in found.crossed or ())
    return replace(found, samples=samples, crossed=ways or None)


def per_share(q: float, found: Linear) -> Floats:
    """How a quantile falls as the share below it grows: minus one over the density.

    The density is that of the order statistics one standard error around the quantile (Francisco
    and Fuller 1991).
    """
    error = np.sqrt(cr2(found).value)
    slope = np.full(len(error), np.nan)
    for index, sums in found.totals.blocks:
        i = int(index[0])
        if error[i] > 1e-12:
            around = np.clip(q + error[i] * np.array([-1.0, 1.0]), 0, 1)
            low, high = quantile_of(sums.classes[0], sums.n, around, float(np.sum(sums.rows)))
            slope[i] = -(high - low) / (around[1] - around[0])
        elif error[i] <= 1e-12 and np.count_nonzero(sums.n) == 1:
            slope[i] = 0.0  # the quantile of one value, however often, has no error
    return slope


def _joint(both: Pairs, scale: float) -> Linear:
    """The difference of influences by cluster, as a linearisation of its own."""
    a, b = both.a, both.b
    slices = len(a.estimate)
    group, cluster, place = _clusters(both)

    def by_cluster(*values: Any) -> list[Floats]:
        tasks = [partial(scattered, place, column, len(group)) for column in values]
        return concurrently(tasks, len(place))

    samples, counted = [], np.zeros(len(place), bool)
    for of_a, of_b in zip(a.samples, b.samples, strict=True):
        step = of_a.influence - scale * of_b.influence
        there = (of_a.size > 0) | (of_b.size > 0)
        influence, share, rows = by_cluster(step, of_a.share + of_b.share, there)
        between = influence**2 / np.maximum(rows, 1.0)
        within = added(both.slice, step**2, slices) - added(group, between, slices)
        repeated = added(group, rows > 1, slices) > 0
        weight: Floats | float = 1.0
        if a.weighted:
            sides = (side.weight * side.size for side in (of_a, of_b))
            weight = by_cluster(np.maximum(*sides))[0] / np.maximum(rows, 1.0)
        samples.append(
            Sample(
                influence,
                influence**2,
                share / 2,
                rows,
                (rows > 0).astype(float),
                np.where(repeated, np.maximum(within, 0), 0),
                weight,
            )
        )
        counted |= there
    (sizes,) = by_cluster(counted)
    return replace(
        a,
        estimate=a.estimate - scale * b.estimate,
        n=added(group, sizes, slices),
        clusters=added(group, np.where(sizes > 0, 1.0, 0.0), slices),
        missing=a.missing + b.missing,
        group=group,
        unit=cluster,
        samples=tuple(samples),
        singles=False,
        strata=None if a.strata is None else strata_of(place, a.strata, len(group)),
    )


def _clusters(both: Pairs) -> tuple[Ints, Ints, Ints]:
    """The slice and cluster of every cluster that there is, in order; and where each example is."""
    size = int(both.cluster.max(initial=0)) + 1
    key = keyed(both.slice, both.cluster, size)
    if (key[1:] > key[:-1]).all():
        return both.slice, both.cluster, np.arange(len(key))
    distinct, place = numbered(key)
    return distinct // size, distinct % size, place


def _is_binary(metric: Metric, both: Pairs) -> Any:
    """Slices in which both systems have one trial or none on each example, and the same ones."""
    slices = len(both.a.estimate)
    if metric.proportion is None or metric.proportion.map is not None:
        return np.zeros(slices, bool)
    size_a, size_b = both.a.samples[0].size, both.b.samples[0].size
    bad = (size_a != size_b) | (size_a > 1)
    return added(both.slice, bad, slices) == 0


def _check_method(metric: Metric, method: Method, grouped: Any, binary: Any) -> None:
    if method in ("pooled", "unpooled"):
        raise EvalError(f"method={method!r} is for paired=False; use 'auto'")
    if method in BINARY and not binary.all():
        why = (
            "there are clusters" if grouped.any() else f"{metric.name!r} is not 0/1 on each example"
        )
        raise EvalError(f"method={method!r} needs independent 0/1 pairs, but {why}; use 'auto'")
    if method == "t" and grouped.any():
        raise EvalError("method='t' takes examples as independent; with clusters use 'cr2'")


def _counts(metric: Metric, both: Pairs) -> Floats:
    """Examples with a higher value for the first system, a lower and an equal one, by slice.

    NaN where single examples have no value, or one for one system only.
    """
    slices = len(both.a.estimate)
    if not has_values(metric):
        return np.full((3, slices), np.nan)
    size_a, size_b = both.a.samples[0].size, both.b.samples[0].size
    a, b = (example_values(metric, side) for side in (both.a, both.b))
    rounding: Any = 0.0
    if both.a.weighted or max(size_a.max(initial=0), size_b.max(initial=0)) > 1:
        # Averages come with rounding in their last digits, single values as they are.
        rounding = 1e-12 * (np.abs(a) + np.abs(b))
    gap = a - b
    kinds = (gap > rounding, gap < -rounding, np.abs(gap) <= rounding)
    counts = np.array([added(both.slice, kind, slices) for kind in kinds])
    # Of a precision or recall, different examples are the denominator of each system.
    share = metric.proportion is not None
    differ = size_a != size_b if share else (size_a > 0) != (size_b > 0)
    return np.where(added(both.slice, differ, slices) == 0, counts, np.nan)


def _by_t(
    joint: Linear,
    variance: Variance,
    kind: str,
    level: float,
    grouped: Any,
    words: tuple[str, str] = ("paired t", "paired cluster"),
) -> Difference:
    """A t-test of a difference; ``words`` name it without and with clusters."""
    value = joint.estimate
    error = np.sqrt(variance.value)
    flat = ~(error > 1e-12 * np.abs(value)) & np.isfinite(error)
    same = flat & (value == 0)
    p = np.where(flat, np.nan, 2 * scipy.special.stdtr(variance.df, -np.abs(value / error)))
    p = np.where(same & np.isfinite(value), 1.0, p)

    def limits(levels: Floats) -> tuple[Floats, Floats]:
        with np.errstate(invalid="ignore"):
            reach = scipy.special.stdtrit(variance.df, 0.5 + levels / 2) * error
        reach = np.where(flat, np.nan, reach)
        return value - reach, value + reach

    low, high = limits(np.full(len(value), level))
    texts, notes = np.full(len(value), "", object), np.full(len(value), "", object)
    for i in np.flatnonzero(np.isfinite(value)):
        if same[i]:
            texts[i] = f"{words[1]} t" if grouped[i] else words[0]
            notes[i] = "no example differs"
        elif flat[i]:
            notes[i] = "all differences are alike: no error can be estimated"
        elif not np.isfinite(error[i]):
            notes[i] = "one cluster: no error can be estimated"
        else:
            clustered = grouped[i] or kind in ("cr0", "cr1")
            name = f"{words[1]} {kind.upper()} t" if clustered else words[0]
            texts[i] = f"{name}(df={shown(variance.df[i], 4)})"
    nothing = np.full(len(value), np.nan)
    return Difference(
        value,
        np.where(flat & ~same, np.nan, error),
        low,
        high,
        p,
        nothing,
        nothing,
        nothing,
        joint.n,
        joint.clusters,
        texts,
        notes,
        variance.df,
        limits,
    )


def _by_score(
    found: Difference, method: str, level: float, b: Floats, c: Floats, n: Floats
) -> Difference:
    """McNemar's test in the slices that have counts of discordant pairs."""
    use = n > 0
    low, high = np.full(len(b), np.nan), np.full(len(b), np.nan)
    limits: Limits | None = None
    if method == "score":
        p = pairs.mcnemar_score(b, c)[1]
        limits = _where(use, lambda levels: pairs.tango(b, c, n, levels), found.limits)
        low, high = pairs.tango(b, c, n, level)
    elif method == "exact":
        p = pairs.mcnemar_exact(b, c)
    elif method == "mid-p":
        p = pairs.mcnemar_midp(b, c)
    else:
        p = pairs.mcnemar_corrected(b, c)[1]
    name = {
        "score": "McNemar score, Tango",
        "exact": "McNemar exact",
        "mid-p": "McNemar mid-p",
        "corrected": "McNemar corrected",
    }[method]
    alone = use & ~np.isfinite(found.std_error)
    error = np.where(alone & (found.n > 1), 0.0, found.std_error)
    return replace(
        found,
        std_error=np.where(use, error, found.std_error),
        low=np.where(use, low, found.low),
        high=np.where(use, high, found.high),
        p_value=np.where(use, p, found.p_value),
        method=np.where(use, name, found.method),
        note=np.where(use, "", found.note),
        df=np.where(use, np.inf, found.df),
        limits=limits,
    )


def _where(use: Any, here: Limits, elsewhere: Limits | None) -> Limits:
    """The limits of one test in some slices, of another in the rest."""

    def limits(levels: Floats) -> tuple[Floats, Floats]:
        low, high = here(levels)
        if elsewhere is None:
            return low, high
        other = elsewhere(levels)
        return np.where(use, low, other[0]), np.where(use, high, other[1])

    return limits


def of_strata(found: Linear, result: Difference) -> Difference:
    """The difference, named as that of a stratified sample if it is one."""
    if found.strata is None:
        return result
    lone = np.isfinite(result.value) & ~np.isfinite(result.std_error) & ~np.isfinite(result.low)
    note = np.where(lone, "a stratum with one unit: no error can be estimated", result.note)
    names = [text and f"stratified, {text}" for text in result.method]
    return replace(result, method=np.array(names, object), note=note)


def tested(metric: Metric, method: Method, found: Difference) -> Difference:
    """The difference, without its test where none was asked for or is valid for the metric."""
    if method in RESAMPLING or (method is not None and metric.linear):
        return found
    if method not in ("auto", None):
        raise EvalError(f"method={method!r} is not valid for {metric.name!r}; use 'auto'")
    nothing = np.full(len(found.value), np.nan)
    blank = np.full(len(found.value), "", object)
    return replace(
        found,
        std_error=nothing,
        low=nothing,
        high=nothing,
        p_value=nothing,
        method=blank,
        note=found.note if metric.linear else blank,
    )


def unpaired(
    metric: Metric,
    sides: Sides,
    method: Method,
    level: float,
    draws: Draws = DRAWS,
    scale: float = 1.0,
) -> Difference:
    """The difference of two systems on different examples, in every slice."""
    a, b = (in_units(metric, side) for side in sides)
    value = a.estimate - scale * b.estimate
    grouped = (a.clusters < a.n) | (b.clusters < b.n)
    if method in ("exact", "mid-p", "corrected", "wild", "wilcoxon"):
        raise EvalError(f"method={method!r} is for pairs; with paired=False use 'auto'")
    if method == "t" and grouped.any():
        raise EvalError("method='t' takes examples as independent; with clusters use 'cr2'")
    with np.errstate(divide="ignore", invalid="ignore"):
        kind = str(method) if method in SANDWICH else "cr2"
        of_a, of_b = SANDWICH[kind](a), SANDWICH[kind](b)
        other = scale**2 * of_b.value
        variance = Variance(of_a.value + other, pairs.welch_df(of_a.value, of_a.df, other, of_b.df))
        joint = replace(a, estimate=value, n=a.n + b.n, clusters=a.clusters + b.clusters)
        result = _by_t(joint, variance, kind, level, grouped, ("Welch t", "cluster"))
        shared = grouped & _shared_clusters(a, b)
        note = "clusters of both systems taken as independent"
        result = replace(result, note=np.where(shared & (result.note == ""), note, result.note))
        alike = not a.weighted and a.strata is None
        score = np.full(len(value), metric.proportion is not None and alike)
        score &= ~grouped & (a.n > 0) & (b.n > 0) & (scale == 1)
        if metric.proportion is not None and metric.proportion.map is not None:
            score[:] = False
        if method in UNPAIRED and not score.all():
            raise EvalError(f"method={method!r} needs rates of independent rows; use 'auto'")
        if method in ("auto", *UNPAIRED):
            kind = "score" if method == "auto" else str(method)
            result = _by_two_proportions(result, a, b, kind, level, score)
        elif method in RESAMPLING:
            # Systems that are independent are strata: each keeps the number of its units.
            units = [side.table.unit * 2 + k for k, side in enumerate(sides)]
            strata = np.arange(1 + max(unit.max(initial=1) for unit in units)) % 2
            for unit, side in zip(units, sides, strict=True):
                if side.table.strata is not None:
                    strata[unit] += 2 * side.table.strata[side.table.unit]
            how = Resampling(units, strata, grouped, level, draws, scale, paired=False)
            result = by_draws(result, metric, sides, method, how)
    return tested(metric, method, of_strata(a, result))


def _shared_clusters(a: Linear, b: Linear) -> Any:
    """Slices in which a cluster has rows of both systems."""
    size = int(max(a.unit.max(initial=0), b.unit.max(initial=0))) + 1
    common = np.intersect1d(a.group * size + a.unit, b.group * size + b.unit)
    return np.isin(np.arange(len(a.estimate)), common // size)


def _by_two_proportions(
    found: Difference, a: Linear, b: Linear, kind: str, level: float, use: Any
) -> Difference:
    """A test of two independent rates, in the slices where it is the right one."""
    x = (np.round(a.share * a.n), a.n, np.round(b.share * b.n), b.n)
    x1, n1, x2, n2 = (np.where(use, value, np.nan) for value in x)
    error = np.sqrt(a.share * (1 - a.share) / a.n + b.share * (1 - b.share) / b.n)
    low, high = np.full(len(error), np.nan), np.full(len(error), np.nan)
    limits: Limits | None = None
    if kind == "score":
        p = pairs.two_proportions(x1, n1, x2, n2)[1]

        def by_score(levels: Any) -> tuple[Floats, Floats]:
            return pairs.miettinen_nurminen(x1, n1, x2, n2, levels)

        low, high = by_score(level)
        limits = _where(use, by_score, found.limits)
    elif kind == "unpooled":
        p = pairs.unpooled_z(x1, n1, x2, n2)[1]
        half = -scipy.special.ndtri((1 - level) / 2) * error
        low, high = found.value - half, found.value + half
    else:
        p = pairs.pooled_z(x1, n1, x2, n2)[1]
    name = {"score": "score, Miettinen-Nurminen", "unpooled": "z, unpooled", "pooled": "z, pooled"}
    return replace(
        found,
        std_error=np.where(use, error, found.std_error),
        low=np.where(use, low, found.low),
        high=np.where(use, high, found.high),
        p_value=np.where(use, p, found.p_value),
        method=np.where(use, name[kind], found.method),
        note=np.where(use, "", found.note),
        df=np.where(use, np.inf, found.df),
        limits=limits,
    )
