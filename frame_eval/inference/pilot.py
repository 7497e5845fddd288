"""What existing results say about the next ones: variances, clusters and trials."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference.difference import Sides
from frame_eval.inference.linear import Linear, Sample, added
from frame_eval.inference.paired import in_units, joint, paired
from frame_eval.inference.pairs import welch_df
from frame_eval.inference.variance import cr2
from frame_eval.metrics.core import Metric
from frame_eval.table import Floats, Ints


@dataclass(frozen=True)
class Pilot:
    """Existing results in the terms of a plan, by group; NaN where they do not say.

    ``between`` is the variance over examples of one example's value (or difference) without the
    noise of trials, ``within`` what a single trial adds, ``design_effect`` (at least 1) what
    clusters do to ``between`` and ``df`` the degrees of freedom; ``discordance`` is the share of
    0/1 pairs that differ, and ``correlation`` that of the two systems over examples.
    """

    estimate: Floats
    n: Floats
    clusters: Floats
    df: Floats
    between: Floats
    within: Floats
    trials: Floats
    cluster_size: Floats
    design_effect: Floats
    discordance: Floats
    rate: Floats
    correlation: Floats


def pilot_of_pairs(metric: Metric, sides: Sides, cluster_of: Ints) -> Pilot:
    """What two systems on the same examples say, by slice.

    n times the squared error of the difference is the variance of an example: with every example
    for itself, and with clusters; their ratio is the design effect. The variance of a trial comes
    from the squares around the means of examples (one-way random effects); divided by the trials
    of an example it is part of both. 0/1 pairs of one trial have their discordance for variance.
    """
    _check(metric)
    a, b = (in_units(metric, side) for side in sides)
    together = joint(metric, sides, cluster_of)
    alone = joint(metric, sides, np.arange(len(cluster_of)))
    counts = paired(metric, sides, cluster_of, None, 0.95)
    n = together.n
    with np.errstate(divide="ignore", invalid="ignore"):
        (trial_a, times_a), (trial_b, times_b) = _trials(a), _trials(b)
        within, noise = trial_a + trial_b, trial_a / times_a + trial_b / times_b
        clustered = cr2(together)
        between = np.maximum(cr2(alone).value * n - noise, 0)
        single = (times_a == 1) & (times_b == 1) & _is_share(metric) & (not a.weighted)
        discordance = np.where(single, (counts.wins + counts.losses) / n, np.nan)
        trials = np.where((within > 0) & (times_a != times_b), within / noise, times_a)
    size = np.sum([sample.size for sample in together.samples], axis=0)
    return Pilot(
        estimate=together.estimate,
        n=n,
        clusters=together.clusters,
        df=clustered.df,
        between=np.where(np.isfinite(discordance), discordance, between),
        within=within,
        trials=trials,
        cluster_size=_mean_size(together.group, size, len(n)),
        design_effect=_at_least_1(clustered.value * n - noise, between),
        discordance=discordance,
        rate=_rate(metric, a, (a.estimate + b.estimate) / 2),
        correlation=_correlation(a, b),
    )


def pilot_of_rows(metric: Metric, found: Linear) -> Pilot:
    """What every system says on its own, by group.

    n^2 / (n - 1) times the sum of squares of the linearised rows is the variance of a row; of a
    share it is p (1 - p). The CR2 variance, times n, is the same with clusters (or the trials of an
    example, which count as rows of a cluster).
    """
    _check(metric)
    found = in_units(metric, found)
    n, groups = found.n, len(found.estimate)
    size = np.sum([sample.size for sample in found.samples], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.sum([_row_squares(sample, found) for sample in found.samples], axis=0)
        variance = n**2 / (n - 1) * squares
        robust = cr2(found)
        clustered = np.where(found.clusters < n, robust.value * n, variance)
        share = found.estimate * (1 - found.estimate)
    nothing = np.full(groups, np.nan)
    return Pilot(
        estimate=found.estimate,
        n=n,
        clusters=found.clusters,
        df=robust.df,
        between=share if _is_share(metric) and not found.weighted else variance,
        within=np.zeros(groups),
        trials=np.ones(groups),
        cluster_size=np.where(found.clusters < n, _mean_size(found.group, size, groups), 1.0),
        design_effect=_at_least_1(clustered, variance),
        discordance=nothing,
        rate=_rate(metric, found, found.estimate),
        correlation=nothing,
    )


def pilot_of_two(metric: Metric, sides: Sides) -> Pilot:
    """What two systems on different examples say, by slice: the sum of their variances.

    Rates are taken as equal, at their mean. ``n`` is the harmonic mean of both numbers of rows, the
    size of two equal samples of the same error.
    """
    a, b = (pilot_of_rows(metric, side) for side in sides)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = Pilot(*((getattr(a, f.name) + getattr(b, f.name)) / 2 for f in fields(a)))
        of_a, of_b = a.between * a.design_effect, b.between * b.design_effect
        between, rate = a.between + b.between, mean.rate
        return replace(
            mean,
            estimate=a.estimate - b.estimate,
            n=2 / (1 / a.n + 1 / b.n),
            clusters=a.clusters + b.clusters,
            df=welch_df(of_a / a.n, a.df, of_b / b.n, b.df),
            between=np.where(np.isfinite(rate), 2 * rate * (1 - rate), between),
            design_effect=_at_least_1(of_a + of_b, between),
        )


def _check(metric: Metric) -> None:
    if not metric.smooth:
        raise EvalError(
            f"{metric.name!r} has no variance by example, which a plan needs; take a mean or a rate"
        )


def _is_share(metric: Metric) -> bool:
    return metric.proportion is not None and metric.proportion.map is None


def _rate(metric: Metric, found: Linear, value: Floats) -> Floats:
    share = _is_share(metric) and not found.weighted
    return value if share else np.full(len(value), np.nan)


def _trials(system: Linear) -> tuple[Floats, Floats]:
    """The variance of one trial around its example, and the harmonic mean of trials by example.

    With k trials of an example, each weighs 1 / (k n): their squares around the mean of the example
    sum to (k - 1) / (k n)^2 variances.
    """
    groups = len(system.estimate)
    k = np.max([sample.size for sample in system.samples], axis=0)
    each = np.where(k > 0, 1 / np.maximum(k, 1), 0.0)
    n = added(system.group, np.where(k > 0, 1.0, 0.0), groups)
    freedom = added(system.group, (k - 1) * each**2, groups)
    within = n**2 * np.sum([sample.within for sample in system.samples], axis=0)
    variance = np.where(freedom > 0, within / np.where(freedom > 0, freedom, 1), 0.0)
    return variance, n / added(system.group, each, groups)


def _mean_size(group: Ints, size: Floats, groups: int) -> Floats:
    """The size-weighted mean size of the clusters, sum m^2 / sum m, by group."""
    rows, squares = (added(group, values, groups) for values in (size, size**2))
    return np.where(rows > 0, squares / np.maximum(rows, 1), np.nan)


def _at_least_1(clustered: Floats, alone: Floats) -> Floats:
    known = (alone > 0) & np.isfinite(clustered)
    return np.maximum(np.where(known, clustered, 1.0) / np.where(known, alone, 1.0), 1.0)


def _correlation(a: Linear, b: Linear) -> Floats:
    groups = len(a.estimate)
    x, y = (np.sum([s.influence for s in one.samples], axis=0) for one in (a, b))
    product, of_x, of_y = (added(a.group, v, groups) for v in (x * y, x**2, y**2))
    scale = np.sqrt(of_x * of_y)
    return np.where(scale > 0, product / np.where(scale > 0, scale, 1), np.nan)


def _row_squares(sample: Sample, found: Linear) -> Floats:
    """The squares of the linearised rows, summed by group."""
    groups = len(found.estimate)
    if found.singles:
        return added(found.group, sample.squares, groups)
    between = np.where(sample.size > 0, sample.influence**2 / np.maximum(sample.size, 1), 0.0)
    return added(found.group, between, groups) + sample.within
