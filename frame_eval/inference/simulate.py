"""Power by simulation, with the tests that ``compare`` makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from frame_eval.inference import pairs
from frame_eval.inference.linear import Linear, Sample, added
from frame_eval.inference.paired import split
from frame_eval.inference.power import Design
from frame_eval.inference.variance import cr2
from frame_eval.table import Floats, Ints

_BLOCK = 2_000_000  # numbers that are drawn at once


def power_of_pairs(
    discordance: float, n: int, effect: float, level: float, exact: bool, draws: int, seed: int
) -> float:
    """Of McNemar's score test (or the exact one): wins and losses of n pairs are multinomial.

    >>> power_of_pairs(0.2, 500, 0.02, 0.95, exact=True, draws=10_000, seed=0)
    0.1492
    """
    rng = np.random.default_rng(seed)
    shares = [(discordance + effect) / 2, (discordance - effect) / 2, 1 - discordance]
    b, c, _ = rng.multinomial(n, np.maximum(shares, 0), draws).T
    p = pairs.mcnemar_exact(b, c) if exact else pairs.mcnemar_score(b, c)[1]
    return float(np.mean(p < 1 - level))


def power_of_rates(
    rate: float, n: int, effect: float, level: float, draws: int, seed: int
) -> float:
    """Of the score test of two rates half an effect around ``rate``, n examples of each."""
    rng = np.random.default_rng(seed)
    x1, x2 = (rng.binomial(n, rate + side * effect / 2, draws) for side in (1, -1))
    return float(np.mean(pairs.two_proportions(x1, n, x2, n)[1] < 1 - level))


def power_of_rate(rate: float, n: int, effect: float, level: float, draws: int, seed: int) -> float:
    """Of Wilson's interval: the chance that ``rate`` is outside where rate + effect is true."""
    share = np.random.default_rng(seed).binomial(n, rate + effect, draws) / n
    z = (share - rate) / np.sqrt(rate * (1 - rate) / n)
    return float(np.mean(np.abs(z) > scipy.special.ndtri((1 + level) / 2)))


def power_of_means(
    design: Design, n: int, effect: float, level: float, draws: int, seed: int
) -> float:
    """Of the t-test of clusters of one size, with normal means; Welch's for two samples."""
    rng = np.random.default_rng(seed)
    clusters = int(n // design.cluster_size)
    spread = design.std_error(n) * np.sqrt(clusters / design.samples)
    rejected = 0.0
    for part in _parts(draws, clusters):
        x = rng.normal(0, spread, (design.samples, part, clusters))
        mean = effect + x[0].mean(-1) - (x[1].mean(-1) if design.samples == 2 else 0)
        variance = x.var(-1, ddof=1) / clusters
        df: Any = clusters - 1
        if design.samples == 2:
            df = pairs.welch_df(variance[0], df, variance[1], df)
        p = 2 * scipy.special.stdtr(df, -np.abs(mean) / np.sqrt(variance.sum(0)))
        rejected += np.sum(p < 1 - level)
    return float(rejected / draws)


def power_of_clusters(
    found: Linear,
    cluster_of: Ints,
    place: int,
    n: int,
    effect: float,
    level: float,
    draws: int,
    seed: int,
) -> float:
    """Of the CR2 t-test, with clusters like those in slice ``place`` of a pilot.

    Every draw takes round(C n / n_pilot) of them with replacement, their differences moved so that
    the effect is the true one.
    """
    pilot = _clusters(found, cluster_of, place)
    count = max(2, round(len(pilot.size) * n / pilot.size.sum()))
    rng = np.random.default_rng(seed)
    rejected = 0.0
    for part in _parts(draws, count):
        chosen = rng.integers(0, len(pilot.size), (part, count))
        group = np.repeat(np.arange(part), count)
        share, influence = pilot.share[chosen], pilot.influence[chosen]
        whole = share.sum(1, keepdims=True)
        share, influence = share / whole, influence / whole
        move = influence.sum(1)
        left = (influence - move[:, None] * share).ravel()
        within = added(group, (pilot.within[chosen] / whole**2).ravel(), part)
        size = pilot.size[chosen].ravel()
        sample = Sample(left, left**2, share.ravel(), size, np.ones(len(left)), within)
        drawn = replace(found, estimate=move, group=group, samples=(sample,), singles=False)
        variance = cr2(drawn)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (effect + move) / np.sqrt(variance.value)
            rejected += np.sum(2 * scipy.special.stdtr(variance.df, -np.abs(t)) < 1 - level)
    return float(rejected / draws)


def _clusters(found: Linear, cluster_of: Ints, place: int) -> Sample:
    """The differences of one slice of two systems, summed by cluster."""
    a, b = split(found)
    here = a.group == place
    cluster = np.unique(cluster_of[a.unit[here]], return_inverse=True)[1]
    clusters = int(cluster.max(initial=-1)) + 1

    def total(values: Any) -> Floats:
        return added(cluster, values[here], clusters)

    step = sum(x.influence - y.influence for x, y in zip(a.samples, b.samples, strict=True))
    share = sum((x.share + y.share) / 2 for x, y in zip(a.samples, b.samples, strict=True))
    there = np.max([s.size for s in (*a.samples, *b.samples)], axis=0) > 0
    influence, size = total(step), total(there.astype(float))
    inside = size > 0
    within = total(np.square(step)) - influence**2 / np.maximum(size, 1)
    parts = (influence, influence**2, total(share) / len(a.samples), size, size, within)
    return Sample(*(values[inside] for values in parts))


def _parts(draws: int, length: int) -> Iterator[int]:
    """The draws in parts that are worked on at once."""
    block = max(1, _BLOCK // length)
    for start in range(0, draws, block):
        yield min(block, draws - start)
