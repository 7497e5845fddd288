"""Permutation tests: systems exchanged within units, or units exchanged between systems."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy

from frame_eval.inference.resample import Draw, Draws, coins
from frame_eval.inference.urns import Urn
from frame_eval.metrics.core import Array
from frame_eval.table import Floats, Ints

_ENUMERABLE = 17  # the log of how many ways


def paired_permutation(drawn: Urn, draws: Draws) -> tuple[float, bool]:
    """The p-value of a difference when systems are exchanged within units; whether it is exact.

    ``drawn`` holds the units of two groups. Under the null hypothesis each unit could as well have
    its systems the other way round; all ways are enumerated when they are few, else ``draws`` of
    them are taken and the observed one is counted in (Phipson and Smyth 2010).
    """
    exchanged = drawn.exchangeable()
    counts = drawn.counts

    def differences(swaps: Array) -> Floats:
        values = exchanged(swaps)
        return np.asarray(values[:, 0] - values[:, 1], float)

    observed = float(differences(np.zeros((1, len(counts))))[0])
    if np.log2(counts + 1.0).sum() <= _ENUMERABLE:
        ways = _all_ways(counts)
        weight = np.exp(_log_ways(counts, ways) - counts.sum() * np.log(2))
        return _two_sided([(differences(ways), weight)], observed, 0.0), True
    exchange = _exchange(counts)
    sampled = draws.blocks(lambda *of: differences(exchange(*of)), len(counts))
    return _two_sided([(values, np.ones(len(values))) for values in sampled], observed, 1.0), False


def unpaired_permutation(drawn: Urn, first: Ints, draws: Draws) -> tuple[float, bool]:
    """The p-value of a difference when units are dealt to the systems anew; whether it is exact.

    ``drawn`` holds the units of both systems as one group, ``first`` says how many of each kind the
    first system has. Each system keeps the number of its units.
    """
    counts, taken = drawn.counts, int(first.sum())

    def differences(weights: Array) -> Floats:
        return (drawn.value(weights) - drawn.value(counts - weights))[:, 0]

    observed = float(differences(first[None].astype(float))[0])
    if np.log2(counts + 1.0).sum() <= _ENUMERABLE:
        ways = _all_ways(counts)
        ways = ways[ways.sum(1) == taken]
        logs = _log_ways(counts, ways)
        weight = np.exp(logs - logs.max())
        return _twice_the_tail([(differences(ways), weight)], observed, 0.0), True
    deal = _deal(counts, taken)
    sampled = draws.blocks(lambda *of: differences(deal(*of)), int(counts.sum()))
    weighted = [(values, np.ones(len(values))) for values in sampled]
    return _twice_the_tail(weighted, observed, 1.0), False


def _exchange(counts: Ints) -> Draw:
    """How many units of each kind have their systems the other way round: each by a coin."""
    many = np.flatnonzero(counts > 1)

    def draw(rows: int, generator: np.random.Generator) -> Array:
        swaps = coins(rows, len(counts), generator)
        if len(many):
            swaps = swaps.astype(np.int64)
            swaps[:, many] = generator.binomial(counts[many], 0.5, (rows, len(many)))
        return swaps

    return draw


def _deal(counts: Ints, taken: int) -> Draw:
    """How many of each kind are among ``taken`` units, drawn without replacement."""
    total = int(counts.sum())
    kind = np.repeat(np.arange(len(counts)), counts)

    def draw(rows: int, generator: np.random.Generator) -> Array:
        if len(counts) * 15 <= total:
            return generator.multivariate_hypergeometric(counts, taken, rows, method="marginals")
        order = np.argpartition(generator.random((rows, total)), max(taken - 1, 0), axis=1)
        place = kind[order[:, :taken]] + np.arange(rows)[:, None] * len(counts)
        return np.bincount(place.ravel(), minlength=rows * len(counts)).reshape(rows, -1)

    return draw


def _all_ways(counts: Ints) -> Floats:
    """Every number of units of each kind, from none to all of them."""
    axes = np.meshgrid(*(np.arange(count + 1.0) for count in counts), indexing="ij")
    ways: Floats = np.stack([axis.ravel() for axis in axes], -1)
    return ways


def _log_ways(counts: Ints, ways: Floats) -> Floats:
    """The log of in how many ways so many units of each kind can be chosen."""
    gammaln = scipy.special.gammaln
    logs: Floats = (gammaln(counts + 1) - gammaln(ways + 1) - gammaln(counts - ways + 1)).sum(1)
    return logs


def _tolerance(observed: float) -> float:
    # What is equal but for rounding is as extreme.
    return 1e-9 * abs(observed) + 1e-15


def _two_sided(blocks: Iterable[tuple[Floats, Floats]], observed: float, own: float) -> float:
    """The weighted share of differences at least as far from 0; ``own`` counts the observed one."""
    edge = abs(observed) - _tolerance(observed)
    extreme, total = own, own
    for values, weight in blocks:
        # An undefined difference could have been extreme.
        extreme += float(weight[~(np.abs(values) < edge)].sum())
        total += float(weight.sum())
    return extreme / total


def _twice_the_tail(blocks: Iterable[tuple[Floats, Floats]], observed: float, own: float) -> float:
    """Twice the smaller tail, for a distribution that is not symmetric."""
    edge = _tolerance(observed)
    below, above, total = own, own, own
    for values, weight in blocks:
        below += float(weight[~(values > observed + edge)].sum())
        above += float(weight[~(values < observed - edge)].sum())
        total += float(weight.sum())
    return min(1.0, 2 * min(below, above) / total)
