"""Power by simulation, with the tests that ``compare`` makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from frame_eval.inference import pairs
from frame_eval.inference.linear import Linear, Sample, added
from frame_eval.inference.power import Design
from frame_eval.inference.variance import cr2

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
    clusters = max(2, round(n / design.independent))
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
    joint: Linear, place: int, n: int, effect: float, level: float, draws: int, seed: int
) -> float:
    """Of the CR2 t-test, with clusters like those in slice ``place`` of a pilot.

    ``joint`` is the pilot's difference by cluster. Every draw takes round(C n / n_pilot) clusters
    with replacement, their differences moved so that the effect is the true one.
    """
    here = joint.group == place
    influence, share, size = (
        np.sum([getattr(sample, name)[here] for sample in joint.samples], axis=0)
        for name in ("influence", "share", "size")
    )
    within = sum(sample.within[place] for sample in joint.samples)
    count = max(2, round(len(size) * n / size.sum()))
    rng = np.random.default_rng(seed)
    rejected = 0.0
    for part in _parts(draws, count):
        chosen = rng.integers(0, len(size), (part, count))
        group = np.repeat(np.arange(part), count)
        whole = share[chosen].sum(1)
        drawn_share = (share[chosen] / whole[:, None]).ravel()
        drawn = (influence[chosen] / whole[:, None]).ravel()
        move = added(group, drawn, part)
        left = drawn - move[group] * drawn_share
        rows = size[chosen].sum(1) / size.sum()
        sample = Sample(
            influence=left,
            squares=left**2,
            share=drawn_share,
            size=size[chosen].ravel(),
            count=np.ones(len(left)),
            within=within * rows / whole**2,
        )
        variance = cr2(replace(joint, estimate=move, group=group, samples=(sample,)))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (effect + move) / np.sqrt(variance.value)
            rejected += np.sum(2 * scipy.special.stdtr(variance.df, -np.abs(t)) < 1 - level)
    return float(rejected / draws)


def _parts(draws: int, length: int) -> Iterator[int]:
    """The draws in parts that are worked on at once."""
    block = max(1, _BLOCK // length)
    for start in range(0, draws, block):
        yield min(block, draws - start)
