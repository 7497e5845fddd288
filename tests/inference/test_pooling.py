"""Robust empirical Bayes: the critical value against linear programs, and coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from statsmodels.stats.meta_analysis import combine_effects

from frame_eval.inference.pooling import cva, pooled, rate_variances


def miss(b2, c):
    b = np.sqrt(b2)
    return stats.norm.sf(c + b) + stats.norm.sf(c - b)


def largest_miss(m2, c, kurtosis):
    """Over all laws of b^2 on a fine grid with this mean (and second moment): a linear program."""
    grid = np.unique(np.append(np.linspace(0, c + np.sqrt(m2) + 8, 2000) ** 2, m2))
    second = {}
    if np.isfinite(kurtosis):
        second = {"A_ub": [(grid / m2) ** 2], "b_ub": [kurtosis]}
    means = np.array([np.ones_like(grid), grid / m2])
    return -optimize.linprog(-miss(grid, c), A_eq=means, b_eq=[1, 1], **second).fun


@pytest.mark.parametrize("level", [0.95, 0.8])
@pytest.mark.parametrize("kurtosis", [1.2, 2, 3, 10, np.inf])
@pytest.mark.parametrize("m2", [0.05, 0.5, 2, 9])
def test_least_favourable_laws(m2, kurtosis, level):
    """At the critical value the largest non-coverage of any law is just 1 - level."""
    c = float(cva(m2, level, kurtosis))
    assert_allclose(largest_miss(m2, c, kurtosis), 1 - level, atol=3e-5)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_no_bias_is_the_usual_interval(level):
    z = stats.norm.ppf((1 + level) / 2)
    assert_allclose(cva(0, level), z, rtol=1e-12)
    assert_allclose(cva(0, level, 3), z, rtol=1e-12)
    assert_allclose(cva(1e-9, level), z, rtol=1e-6)


def test_bias_of_one_size_is_the_folded_normal():
    """Kurtosis 1 means |b| is known: (Z + b)^2 is a noncentral chi-square."""
    m2 = np.array([0.1, 1, 4, 25])
    assert_allclose(cva(m2, 0.95, 1), np.sqrt(stats.ncx2.ppf(0.95, 1, m2)), rtol=1e-9)


def test_more_freedom_needs_more():
    m2 = np.linspace(0, 20, 41)
    curves = [cva(m2, 0.95, kurtosis) for kurtosis in (1, 1.5, 3, 10, np.inf)]
    assert (np.diff(curves, axis=1) > 0).all()
    assert (np.diff(curves, axis=0) >= -1e-9).all()
    # A normal law of the bias is among those of kurtosis 3.
    assert (curves[2] >= stats.norm.ppf(0.975) * np.sqrt(1 + m2) - 1e-9).all()
    assert np.isnan(cva([np.nan, 1])).tolist() == [True, False]


def test_spread_of_dersimonian_and_laird():
    rng = np.random.default_rng(1)
    variance = rng.uniform(0.5, 2, 40)
    y = rng.normal(1, 1.5, 40) + rng.normal(0, np.sqrt(variance))
    peer = combine_effects(y, variance, method_re="dl")
    found = pooled(y, variance)
    assert_allclose(found.spread**2, peer.tau2, rtol=1e-10)
    assert_allclose(found.mean, peer.mean_effect_fe, rtol=1e-12)
    assert_allclose(found.weight, peer.tau2 / (peer.tau2 + variance), rtol=1e-10)
    assert_allclose(found.estimate, found.weight * y + (1 - found.weight) * found.mean, rtol=1e-12)


def test_covariances_by_matrices():
    """The error of each estimate and its bias, as quadratic forms of its weights."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 6))
    covariance = root @ root.T / 6 + np.eye(6)
    y = rng.normal(0, 3, 6)
    found = pooled(y, covariance)
    w, tau2 = found.weight, found.spread**2
    share = 1 / np.diag(covariance)
    share /= share.sum()
    weights = np.diag(w) + np.outer(1 - w, share)
    error = np.sqrt(np.diag(weights @ covariance @ weights.T))
    bias = tau2 * ((weights - np.eye(6)) ** 2).sum(1)
    centring = np.eye(6) - share
    noise = np.diag(centring @ covariance @ centring.T)
    kept = share @ (((y - share @ y) ** 2) - noise) / (share @ np.diag(centring @ centring.T))
    assert_allclose(tau2, max(kept, 2 * share @ covariance @ share), rtol=1e-10)
    assert_allclose(found.estimate, weights @ y, rtol=1e-12)
    half = (found.high - found.low) / 2
    critical = half / error
    assert (critical <= cva(bias / error**2) + 1e-9).all()
    assert (critical >= cva(bias / error**2, kurtosis=1) - 1e-9).all()
    alike = pooled(y, np.diag(np.diag(covariance)))
    again = pooled(y, np.diag(covariance))
    assert_allclose(alike.low, again.low, rtol=1e-12)


LAWS = {
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "two points": lambda rng, n: np.where(rng.random(n) < 0.1, 3.0, -1 / 3),
    "skewed": lambda rng, n: rng.exponential(1, n),
    "all equal": lambda _, n: np.zeros(n),
}


@pytest.mark.parametrize(("slices", "replicates"), [(5, 100), (60, 50)])
@pytest.mark.parametrize("law", LAWS)
def test_coverage_over_slices(law, slices, replicates):
    """95 % of all slices, whatever law they come from, also where noise is larger than they are."""
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(replicates):
        variance = rng.choice([0.2, 1, 4], slices)
        truth = LAWS[law](rng, slices)
        found = pooled(truth + rng.normal(0, np.sqrt(variance)), variance)
        shares.append(np.mean((found.low <= truth) & (truth <= found.high)))
    assert np.mean(shares) + 3.1 * np.std(shares) / np.sqrt(replicates) >= 0.945


def test_intervals_are_shorter_than_those_of_slices_alone():
    rng = np.random.default_rng(4)
    y, variance = rng.normal(0, np.sqrt(1.5), 200), np.ones(200)
    found = pooled(y, variance)
    alone = 2 * stats.norm.ppf(0.975)
    assert np.mean(found.high - found.low) < 0.9 * alone
    assert np.mean((found.estimate - found.mean) ** 2) < 0.6 * np.mean((y - y.mean()) ** 2)


def test_slices_without_an_estimate():
    y, variance = np.array([0.5, np.nan, 0.6, 0.9, 0.2]), np.array([0.01, 0.01, 0.02, 0.01, 0])
    found = pooled(y, variance)
    assert np.isnan(found.estimate).tolist() == [False, True, False, False, True]
    kept = [0, 2, 3]
    alone = pooled(y[kept], variance[kept])
    assert_allclose(found.low[kept], alone.low, rtol=1e-12)
    few = pooled(y[:3], variance[:3])
    assert np.isnan([*few.estimate, *few.low, few.mean, few.spread]).all()


def test_variances_of_rates():
    """An all-wrong slice gets its variance from the others."""
    rate, n = np.array([0.0, 0.5, 0.8, 1.0]), np.array([10, 40, 30, 5])
    single = rate * (1 - rate) / n
    p = (rate * n).sum() / n.sum()
    assert_allclose(rate_variances(rate, n, single), p * (1 - p) / n, rtol=1e-12)
    assert_allclose(rate_variances(rate, n, 3 * single), 3 * p * (1 - p) / n, rtol=1e-12)
    assert_allclose(rate_variances(rate, n, single / 2), p * (1 - p) / n, rtol=1e-12)
    found = pooled(rate, rate_variances(rate, n, single))
    assert found.low[0] < 0.1 < found.estimate[0] < 0.6
