from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from frame_eval.inference.proportion import (
    INTERVALS,
    clopper_pearson,
    effective_size,
    jeffreys,
    wald,
    wilson,
)

LEVELS = (0.5, 0.8, 0.95, 0.999)
SIZES = (1, 2, 3, 10, 30, 500)

rates = st.floats(0, 1)
sizes = st.floats(0.5, 1e6)
levels = st.floats(0.5, 0.999)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(wilson, "wilson"), (clopper_pearson, "beta"), (jeffreys, "jeffreys"), (wald, "normal")],
)
def test_statsmodels(ours, theirs, n, level):
    k = np.arange(n + 1)
    low, high = ours(k / n, n, level)
    if ours is wald:  # statsmodels clips it
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    want_low, want_high = proportion_confint(k, n, alpha=1 - level, method=theirs)
    if ours is jeffreys:  # the limits set by Brown, Cai and DasGupta
        want_low[0], want_high[-1] = 0, 1
    assert_allclose(low, want_low, rtol=1e-9, atol=1e-14)
    assert_allclose(high, want_high, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("ours", "theirs"), [(wilson, "wilson"), (clopper_pearson, "exact")])
def test_scipy(ours, theirs, level):
    for n in SIZES:
        for k in {0, 1, n // 2, n}:
            want = stats.binomtest(k, n).proportion_ci(level, theirs)
            assert_allclose(ours(k / n, n, level), want, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    ("k", "n", "method", "low", "high"),
    [
        (81, 263, wilson, 0.2553, 0.3662),
        (15, 148, wilson, 0.0624, 0.1605),
        (0, 20, wilson, 0, 0.1611),
        (1, 29, wilson, 0.0061, 0.1718),
        (81, 263, clopper_pearson, 0.2527, 0.3676),
        (15, 148, clopper_pearson, 0.0578, 0.1617),
        (0, 20, clopper_pearson, 0, 0.1684),
        (1, 29, clopper_pearson, 0.0009, 0.1776),
    ],
)
def test_newcombe_1998_table_1(k, n, method, low, high):
    assert_allclose(method(k / n, n, 0.95), (low, high), rtol=0, atol=5e-5)


def test_wald_is_not_clipped():
    low, high = wald([1 / 30, 29 / 30], 30, 0.95)
    assert low[0] < 0
    assert high[1] > 1
    assert_allclose(high - low, 2 * stats.norm.ppf(0.975) * np.sqrt(29 / 30**3), rtol=1e-12)


@settings(deadline=None)
@given(p=rates, n=sizes, level=levels)
def test_wilson_solves_the_score_equation(p, n, level):
    z = stats.norm.ppf((1 + level) / 2)
    for limit in wilson(p, n, level):
        assert_allclose(n * (limit - p) ** 2, z**2 * limit * (1 - limit), rtol=1e-6, atol=1e-8)


@settings(deadline=None)
@given(p=st.floats(0.01, 0.99), n=st.floats(1, 1e4), level=levels)
def test_exact_and_jeffreys_limits_leave_half_of_the_rest_on_each_side(p, n, level):
    tail, x, y = (1 - level) / 2, n * p, n * (1 - p)
    # Under half a success a limit is so close to 0 or 1 that its rounding shows in the tail.
    assume(min(x, y) > 0.5)
    low, high = clopper_pearson(p, n, level)
    assert_allclose(stats.beta.cdf(low, x, y + 1), tail, rtol=1e-8)
    assert_allclose(stats.beta.sf(high, x + 1, y), tail, rtol=1e-8)
    low, high = jeffreys(p, n, level)
    assert_allclose(stats.beta.cdf(low, x + 0.5, y + 0.5), tail, rtol=1e-8)
    assert_allclose(stats.beta.sf(high, x + 0.5, y + 0.5), tail, rtol=1e-8)


@pytest.mark.parametrize("name", INTERVALS)
@settings(deadline=None)
@given(n=st.integers(1, 3000), share=rates, level=st.floats(0.8, 0.999))
def test_the_estimate_lies_inside(name, n, share, level):
    p = round(share * n) / n
    low, high = INTERVALS[name](p, n, level)
    assert low <= p <= high
    if name != "wald":
        assert 0 <= low < high <= 1


@pytest.mark.parametrize("name", INTERVALS)
@settings(deadline=None)
@given(p=rates, n=sizes)
def test_more_confidence_is_never_shorter(name, p, n):
    low, high = INTERVALS[name](p, n, np.linspace(0.01, 0.999, 50))
    assert np.all(np.diff(low) <= 1e-14)
    assert np.all(np.diff(high) >= -1e-14)


@pytest.mark.parametrize("name", INTERVALS)
@settings(deadline=None)
@given(k=st.integers(0, 400), n=st.integers(400, 400), level=levels)
def test_right_and_wrong_mirror_each_other(name, k, n, level):
    low, high = INTERVALS[name](k / n, n, level)
    mirrored_low, mirrored_high = INTERVALS[name]((n - k) / n, n, level)
    assert_allclose((1 - mirrored_high, 1 - mirrored_low), (low, high), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(INTERVALS) - {"wald"}))
@settings(deadline=None)
@given(n=sizes, level=levels)
def test_the_ends_are_exact(name, n, level):
    low, high = INTERVALS[name]([0, 1, -1e-16, 1 - 1e-16, 1 + 1e-15], n, level)
    assert_array_equal(low[[0, 2]], 0)
    assert_array_equal(high[[1, 3, 4]], 1)
    assert np.all((high > low) & (low[[1]] > 0) & (high[[0]] < 1))


@pytest.mark.parametrize("name", INTERVALS)
def test_undefined_is_nan(name):
    p, n = [0.0, 0.5, 1.0, np.nan, 0.5, -0.1, 1.1, 0.5], [0, 0, np.nan, 5, np.nan, 5, 5, -1]
    assert np.isnan(INTERVALS[name](p, n, 0.95)).all()


@pytest.mark.parametrize("name", INTERVALS)
def test_everything_broadcasts(name):
    p, n, level = np.array([0.1, 0.6]), np.array([[5], [7], [9]]), np.array([0.9, 0.95])
    low, high = INTERVALS[name](p, n, level)
    assert low.shape == high.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        one = INTERVALS[name](p[j], n[i, 0], level[j])
        assert_array_equal(one, (low[i, j], high[i, j]))


def test_an_odd_effective_size_lies_between_its_neighbours():
    widths = [np.subtract(*clopper_pearson(0.5, n, 0.95)[::-1]) for n in (10, 10.3, 10.9, 12)]
    assert all(wide > narrow for wide, narrow in pairwise(widths))


def test_effective_size_against_the_formula():
    p, n, v, df, level = 0.8, 200, 0.8 * 0.2 / 60, 11.3, 0.9
    n_eff, n_star = effective_size(p, n, v, df, level, 20)
    want = n / (v * (n - 1) / (p * (1 - p)))
    assert_allclose(n_eff, want, rtol=1e-12)
    ratio = stats.t.ppf(0.95, n - 1) / stats.t.ppf(0.95, df)
    assert_allclose(n_star, want * ratio**2, rtol=1e-9)


def test_the_design_effect_of_one_correlation_is_the_least():
    n_eff, n_star = effective_size(0.8, 200, 0.8 * 0.2 / 60, 11.3, 0.95, 20, [1, 2, 3.32, 5, 50])
    robust = 200 / (199 / 60)
    assert_allclose(n_eff, [robust, robust, 200 / 3.32, 40, 4], rtol=1e-12)
    ratio = stats.t.ppf(0.975, 199) / stats.t.ppf(0.975, 11.3)
    assert_allclose(n_star, np.minimum(n_eff, robust * ratio**2), rtol=1e-9)


@given(n=st.integers(2, 10_000), share=st.floats(0.05, 0.95), level=levels)
@settings(deadline=None)
def test_singleton_clusters_are_plain_rows(n, share, level):
    p = min(max(round(share * n), 1), n - 1) / n
    sizes = effective_size(p, n, p * (1 - p) / (n - 1), n - 1, level, n)
    assert_allclose(sizes, n, rtol=1e-12)
    assert_allclose(wilson(p, sizes[1], level), wilson(p, n, level), rtol=1e-11)


def test_negative_correlation_adds_no_rows():
    n_eff, n_star = effective_size(0.5, 100, [0.0001, 0], [99, 3], 0.95, 10)
    assert_array_equal(n_eff, 100)
    assert n_star[0] == 100
    assert n_star[1] < 100


@given(df=st.floats(1, 98))
@settings(deadline=None)
def test_an_uncertain_variance_costs_rows(df):
    n_eff, n_star = effective_size(0.5, 100, 0.01, df, 0.95, 100)
    assert 0 < n_star < n_eff


def test_a_well_known_variance_adds_no_rows():
    n_star = effective_size(0.5, [5, 100], 0.001, 500, 0.95, 5)[1]
    assert_array_equal(n_star, [5, 100])


def test_constant_clusters_count_as_one_row_each():
    n_eff, n_star = effective_size([0, 1, 1 - 1e-16], 40, [0, 0, 1e-34], np.nan, 0.95, [8, 40, 5])
    assert_array_equal(n_eff, [8, 40, 5])
    assert_array_equal(n_star, [8, 40, 5])


def test_one_cluster_is_undefined_unless_it_is_one_row():
    for p, n, want in [(0.5, 10, np.nan), (1, 10, np.nan), (1, 1, 1), (0, 1, 1)]:
        assert_array_equal(effective_size(p, n, np.nan, np.nan, 0.95, 1), (want, want))


def test_a_variance_that_could_not_be_had_gives_no_size():
    n_eff, n_star = effective_size(0.5, 10, [np.nan, 0.1], [3, np.nan], 0.95, 4)
    assert_array_equal(np.isnan(n_eff), [True, False])
    assert np.isnan(n_star).all()


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("wald-360-500", wald),
        ("wald-1-30", wald),
        ("wilson-1-30", wilson),
        ("wilson-360-500", wilson),
        ("wilson-0-100", wilson),
        ("wilson-33-40", wilson),
        ("clopper-pearson-1-30", clopper_pearson),
        ("clopper-pearson-0-100", clopper_pearson),
        ("clopper-pearson-360-500", clopper_pearson),
    ],
)
def test_seed_intervals(seeds, name, method):
    row = seeds[name]
    k, n, level = (row["input"][key] for key in ("k", "n", "conf"))
    assert_allclose(method(k / n, n, level), row["expected"][:2], atol=row["tolerance"], rtol=0)


def test_seed_half_width(seeds):
    row = seeds["prop-se-07-500"]
    p, n = row["input"]["p"], row["input"]["n"]
    half = wald(p, n, 0.95)[1] - p
    assert_allclose(half, row["expected"][1], atol=row["tolerance"], rtol=0)


def test_seed_coverage(seeds):
    row = seeds["coverage-30"]
    n, p = row["input"]["n"], 1 / 30
    k = np.arange(n + 1)
    for method, want in zip((wald, wilson, clopper_pearson), row["expected"], strict=True):
        low, high = method(k / n, n, 0.95)
        covered = stats.binom.pmf(k, n, p)[(low <= p) & (p <= high)].sum()
        assert_allclose(covered, want, atol=row["tolerance"], rtol=0)
