"""Power against statsmodels, enumeration by hand and simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.stats.power import NormalIndPower, TTestIndPower, TTestPower

from frame_eval.inference import pairs
from frame_eval.inference.power import (
    Design,
    ExactPairs,
    mcnemar_power,
    mde,
    power_of,
    sample_size,
    smallest,
)

PLANS = [(0.95, 0.8), (0.9, 0.95), (0.99, 0.5), (0.8, 0.9)]


@pytest.mark.parametrize(("level", "power"), PLANS)
def test_normal_against_statsmodels(level, power):
    """Without the chance to be significant on the wrong side, as one side at alpha / 2."""
    options = {"ratio": 0, "alpha": (1 - level) / 2, "alternative": "larger"}
    peer = NormalIndPower()
    effect = mde(1 / 20, level, power)
    assert_allclose(peer.power(effect, 400, **options), power, rtol=1e-12)
    assert_allclose(sample_size(effect, 1, level, power), 400, rtol=1e-12)
    both = peer.power(0.1, 400, 1 - level, ratio=0, alternative="two-sided")
    assert_allclose(power_of(0.1, 1 / 20, level), both, rtol=1e-10)


@pytest.mark.parametrize(("level", "power"), PLANS)
@pytest.mark.parametrize("n", [2, 3, 12, 50, 200])
def test_t_against_statsmodels(level, power, n):
    peer = TTestPower()
    both = peer.power(0.4, n, 1 - level, alternative="two-sided")
    assert_allclose(power_of(0.4, 1 / np.sqrt(n), level, n - 1), both, rtol=1e-7, atol=1e-9)
    effect = mde(1 / np.sqrt(n), level, power, n - 1)
    reached = peer.power(effect, n, (1 - level) / 2, alternative="larger")
    assert_allclose(reached, power, rtol=1e-6)


@pytest.mark.parametrize(("level", "power"), PLANS)
def test_size_of_a_t_test_is_the_smallest(level, power):
    design = Design(1.0, normal=False)
    n = design.size(0.3, level, power)
    one_sided = {"alpha": (1 - level) / 2, "alternative": "larger"}
    assert TTestPower().power(0.3, n, **one_sided) >= power
    assert TTestPower().power(0.3, n - 1, **one_sided) < power


def test_two_samples_against_statsmodels():
    """Variance 1 in each group: the difference has 2 / n on 2 n - 2 degrees of freedom."""
    design = Design(2.0, samples=2, normal=False)
    both = TTestIndPower().power(0.5, 30, 0.05)
    assert_allclose(design.power(30, 0.5, 0.95), both, rtol=1e-8)
    n = design.size(0.5, 0.95, 0.8)
    assert n == np.ceil(TTestIndPower().solve_power(0.5, None, 0.05, 0.8))


def test_many_degrees_of_freedom_are_normal():
    assert_allclose(mde(1, df=1e7), mde(1), rtol=1e-6)
    assert_allclose(power_of(2, 1, df=1e7), power_of(2, 1), rtol=1e-6)


def test_undefined():
    assert np.isnan(mde([np.nan, 1, 1, 1], df=[5, 0, np.nan, 0.1])).all()
    assert np.isnan(power_of(1, [np.nan, 1, 1], df=[5, 0, 0.1])).all()


TESTS = {
    "exact": (pairs.mcnemar_exact, lambda b, c: stats.binomtest(b, b + c).pvalue),
    "mid-p": (
        pairs.mcnemar_midp,
        lambda b, c: (
            2 * stats.binom.cdf(min(b, c), b + c, 0.5) - stats.binom.pmf(min(b, c), b + c, 0.5)
            if b != c
            else 1
        ),
    ),
    "score": (
        lambda b, c: pairs.mcnemar_score(b, c)[1],
        lambda b, c: 2 * stats.norm.sf(abs(b - c) / np.sqrt(b + c)),
    ),
}


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(
    ("effect", "discordance", "n", "level"),
    [(0.1, 0.3, 40, 0.95), (0.25, 0.25, 30, 0.9), (-0.2, 0.5, 25, 0.6), (0.3, 1.0, 20, 0.95)],
)
def test_mcnemar_power_by_all_tables(test, effect, discordance, n, level):
    """Wins, losses and ties are multinomial: every table that rejects, with its probability."""
    ours, peer = TESTS[test]
    shares = [(discordance + effect) / 2, (discordance - effect) / 2, 1 - discordance]
    total = sum(
        stats.multinomial.pmf([b, c, n - b - c], n, shares)
        for b in range(n + 1)
        for c in range(n + 1 - b)
        if b + c > 0 and peer(b, c) < 1 - level
    )
    assert_allclose(mcnemar_power(effect, discordance, n, level, ours), total, rtol=1e-10)


def test_exact_power_of_many_pairs():
    """The normal power is its limit, and only likely counts are gone through."""
    exact = mcnemar_power(0.002, 0.2, 400_000)
    assert_allclose(exact, power_of(0.002, np.sqrt(0.2 / 400_000)), atol=2e-3)


def test_exact_effect_and_size():
    design = ExactPairs(0.2)
    effect = design.effect(500, 0.95, 0.8)
    assert_allclose(design.power(500, effect, 0.95), 0.8, atol=1e-9)
    n = design.size(0.05, 0.95, 0.8)
    assert design.power(n, 0.05, 0.95) >= 0.8 > design.power(n - 1, 0.05, 0.95)
    assert n > Design(0.2).size(0.05, 0.95, 0.8)
    assert np.isnan(design.effect(10, 0.95, 0.8))


def test_clusters_and_trials():
    """The variance of a mean of C clusters of m, each example tried k times, as simulated."""
    rng = np.random.default_rng(1)
    clusters, m, k, icc, share = 12, 8, 3, 0.3, 0.4
    sd = 2.0
    shape = (20_000, clusters)
    of_cluster = rng.normal(0, np.sqrt(icc), (*shape, 1))
    of_example = rng.normal(0, np.sqrt(1 - icc), (*shape, m))
    noise = rng.normal(0, 1 / np.sqrt(k), (*shape, m))
    x = sd * (np.sqrt(1 - share) * (of_cluster + of_example) + np.sqrt(share) * noise)
    design = Design(
        sd**2 * (1 - share),
        sd**2 * share,
        trials=k,
        independent=m,
        design_effect=1 + (m - 1) * icc,
        normal=False,
    )
    means = x.mean(axis=2)
    n = clusters * m
    assert_allclose(means.mean(axis=1).std(), design.std_error(n), rtol=0.02)
    effect = design.effect(n, 0.95, 0.8)
    p = stats.ttest_1samp(means + effect, 0, axis=1).pvalue
    assert abs((p < 0.05).mean() - 0.8) < 4 * np.sqrt(0.16 / 20_000)


@pytest.mark.parametrize("answer", [2, 3, 7, 100, 12345])
def test_smallest(answer):
    assert smallest(lambda n: n >= answer, 2) == answer


def test_smallest_of_none():
    with pytest.raises(OverflowError, match="not enough"):
        smallest(lambda _: False, 2)
