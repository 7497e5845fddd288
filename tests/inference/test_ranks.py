"""Rank intervals by hand, by counting all pairs, and their coverage."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

from frame_eval.inference.ranks import rank_intervals


def by_counting(estimate, limits, sign):
    """For every item: how many are better, better for sure, and not worse for sure."""
    items = range(len(estimate))

    def surely(a, b):
        """Whether a is better than b."""
        low, high = limits[a, b] if (a, b) in limits else [-x for x in reversed(limits[b, a])]
        return low > 0 if sign > 0 else high < 0

    rank = [1 + sum(sign * estimate[k] > sign * estimate[j] for k in items) for j in items]
    others = [[k for k in items if k != j] for j in items]
    best = [1 + sum(surely(k, j) for k in others[j]) for j in items]
    worst = [len(estimate) - sum(surely(j, k) for k in others[j]) for j in items]
    return rank, best, worst


@settings(deadline=None)
@given(
    estimate=st.lists(st.integers(-3, 3), min_size=1, max_size=8),
    half=st.floats(0, 4),
    higher=st.booleans(),
    turned=st.booleans(),
)
def test_by_counting(estimate, half, higher, turned):
    pairs = list(itertools.combinations(range(len(estimate)), 2))
    pairs = [(b, a) for a, b in pairs] if turned else pairs
    limits = {
        (a, b): (estimate[a] - estimate[b] - half, estimate[a] - estimate[b] + half)
        for a, b in pairs
    }
    first, second = np.array(pairs, int).reshape(-1, 2).T
    low, high = np.array(list(limits.values()), float).reshape(-1, 2).T
    found = rank_intervals(estimate, first, second, low, high, higher_is_better=higher)
    for ours, theirs in zip(found, by_counting(estimate, limits, 1 if higher else -1), strict=True):
        assert_array_equal(ours, theirs)
    assert (found.low <= found.rank).all()
    assert (found.rank <= found.high).all()


def test_nothing_known_is_every_rank():
    nothing = np.full(3, np.nan)
    found = rank_intervals([3, 1, 2], [0, 0, 1], [1, 2, 2], nothing, nothing)
    assert_array_equal(found, [[1, 3, 2], [1, 1, 1], [3, 3, 3]])


def test_certain_differences_are_ranks():
    estimate = np.array([0.3, 0.9, 0.1, 0.5])
    first, second = np.triu_indices(4, 1)
    difference = estimate[first] - estimate[second]
    found = rank_intervals(estimate, first, second, difference, difference)
    assert_array_equal(found.low, [3, 1, 4, 2])
    assert_array_equal(found.high, found.low)


@pytest.mark.parametrize("truth", [[0, 0, 0, 0, 0], [0, 0.5, 1, 1.5, 2], [0, 0, 1, 1, 5]])
def test_all_ranks_are_covered(truth):
    """With the studentised range (Tukey) the limits hold together at exactly 95 %.

    Of equal items every rank from the best to the worst that they share is true.
    """
    rng = np.random.default_rng(1)
    truth = np.array(truth, float)
    first, second = np.triu_indices(5, 1)
    half = stats.studentized_range.ppf(0.95, 5, 1e6)
    best = 1 + (truth[None] > truth[:, None]).sum(1)
    worst = 5 - (truth[None] < truth[:, None]).sum(1)
    covered, total = 0, 2000
    for _ in range(total):
        estimate = truth + rng.normal(size=5)
        difference = estimate[first] - estimate[second]
        found = rank_intervals(estimate, first, second, difference - half, difference + half)
        covered += ((found.low <= best) & (found.high >= worst)).all()
    assert stats.binomtest(int(covered), total).proportion_ci(0.998).high >= 0.95
