from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportions_ztest, test_proportions_2indep

from frame_eval.inference.pairs import (
    mcnemar_corrected,
    mcnemar_exact,
    mcnemar_midp,
    mcnemar_score,
    miettinen_nurminen,
    pooled_z,
    tango,
    two_proportions,
    unpooled_z,
    welch_df,
)

test_proportions_2indep.__test__ = False  # an oracle, not a test

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)

paired = st.tuples(*[st.integers(0, 300)] * 3).filter(any).map(lambda t: (t[0], t[1], sum(t)))
group = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
groups = st.tuples(group, group).map(lambda pair: (*pair[0], *pair[1]))
levels = st.floats(0.5, 0.999)


def bisect(f, low, high):
    """Where f, negative on the left, turns positive."""
    for _ in range(55):
        middle = (low + high) / 2
        low, high = (low, middle) if f(middle) > 0 else (middle, high)
    return (low + high) / 2


def paired_variance(b, c, n, d):
    """By maximising the likelihood of the three cells with p_b - p_c = d, no closed form."""

    def slope(q):
        u, w = q + d, 1 - d - 2 * q
        return b * q * w + c * u * w - 2 * (n - b - c) * q * u

    q = bisect(lambda q: -slope(q), max(0.0, -d), (1 - d) / 2)
    return max(2 * q + d - d * d, 0) / n


def unpaired_variance(x1, n1, x2, n2, d):
    """By maximising the two binomial likelihoods with p1 - p2 = d, no closed form."""

    def slope(p):
        q = p + d
        return (x1 - n1 * q) * p * (1 - p) + (x2 - n2 * p) * q * (1 - q)

    p = bisect(lambda p: -slope(p), max(0.0, -d), min(1.0, 1 - d))
    q, total = p + d, n1 + n2
    return max(q * (1 - q) / n1 + p * (1 - p) / n2, 0) * total / (total - 1)


def inverted(estimate, variance, level):
    """The interval as the definition says, by bisection over the difference."""
    z = stats.norm.ppf((1 + level) / 2)
    reach = [
        bisect(lambda t, s=s: t - z * variance(estimate + s * t) ** 0.5, 0.0, 1 - s * estimate)
        for s in (-1, 1)
    ]
    return estimate - reach[0], estimate + reach[1]


def excludes_zero(low, high):
    return (low > 0) | (high < 0)


def small_paired():
    return np.array(
        [(b, c, n) for n in range(1, 13) for b in range(n + 1) for c in range(n + 1 - b)]
    ).T


def small_groups(most=7):
    counts = [(x, n) for n in range(1, most + 1) for x in range(n + 1)]
    return np.array([(*one, *two) for one, two in product(counts, counts)]).T


# Paired tests


def test_mcnemar_statsmodels():
    for b, c in product(range(15), range(15)):
        table = [[20, b], [c, 20]]
        assert_allclose(mcnemar_exact(b, c), mcnemar(table, exact=True).pvalue, rtol=1e-12)
        if b + c:
            want = mcnemar(table, exact=False, correction=False)
            z, p = mcnemar_score(b, c)
            assert_allclose((z**2, p), (want.statistic, want.pvalue), rtol=1e-12)
        if b != c:
            want = mcnemar(table, exact=False, correction=True)
            assert_allclose(mcnemar_corrected(b, c), (want.statistic, want.pvalue), rtol=1e-12)


@settings(deadline=None)
@given(b=st.integers(0, 3000), c=st.integers(0, 3000))
def test_exact_and_midp_scipy(b, c):
    if b + c == 0:
        return
    exact = stats.binomtest(b, b + c).pvalue
    # Below 1e-290 numbers have fewer digits.
    assert_allclose(mcnemar_exact(b, c), exact, rtol=1e-9, atol=1e-290)
    point = stats.binom.pmf(b, b + c, 0.5)
    want = 1 if b == c else exact - point
    assert_allclose(mcnemar_midp(b, c), want, rtol=1e-9, atol=1e-290)


def test_without_discordant_pairs():
    for p in (mcnemar_exact(0, 0), mcnemar_midp(0, 0)):
        assert p == 1
    for statistic, p in (mcnemar_score(0, 0), mcnemar_corrected(0, 0)):
        assert (statistic, p) == (0, 1)
    n, level = np.array([1, 2, 500]), 0.95
    low, high = tango(0, 0, n, level)
    z2 = stats.norm.ppf(0.975) ** 2
    assert_allclose(high, z2 / (n + z2), rtol=1e-13)
    assert_array_equal(low, -high)


def test_equal_splits_are_no_evidence():
    n = np.arange(1, 40)
    assert_array_equal(mcnemar_exact(n, n), 1)
    assert_array_equal(mcnemar_midp(n, n), 1)
    assert_array_equal(mcnemar_score(n, n)[1], 1)
    assert_array_equal(mcnemar_corrected(n, n), [np.zeros(39), np.ones(39)])


def test_sign_of_the_statistics():
    assert mcnemar_score(5, 2)[0] > 0
    assert two_proportions(5, 10, 2, 10)[0] > 0
    assert pooled_z(5, 10, 2, 10)[0] > 0
    assert unpooled_z(5, 10, 2, 10)[0] > 0


# Tango


@pytest.mark.parametrize(
    ("arguments", "limits", "digits"),
    [
        # Cavo et al. 2012 and Bentur et al. 2009, in Fagerland, Lydersen and Laake 2014
        ((6, 16, 161, 0.95), (-0.1240, -0.0054), 4),
        ((1, 7, 21, 0.95), (-0.517, -0.026), 3),
        # R, PropCIs::scoreci.mp(25, 28, 618, 0.90)
        ((28, 25, 618, 0.90), (-0.0148, 0.0247), 4),
    ],
)
def test_tango_published(arguments, limits, digits):
    assert_allclose(tango(*arguments), limits, rtol=0, atol=0.5 * 10.0**-digits)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_tango_by_brute_force(level):
    tables = [(b, c, n) for b, c, n in small_paired().T if n in {1, 2, 3, 6, 10}]
    tables += [(55, 40, 500), (3, 0, 1000), (0, 999, 1000), (499, 500, 1000), (1, 0, 10**6)]
    low, high = tango(*np.array(tables).T, level)
    for (b, c, n), got in zip(tables, zip(low, high, strict=True), strict=True):
        want = inverted((b - c) / n, lambda d, t=(b, c, n): paired_variance(*t, d), level)
        assert_allclose(got, want, rtol=0, atol=1e-10, err_msg=f"{b} {c} {n}")


def test_tango_limits_solve_the_score_equation():
    b, c, n = small_paired()
    z = stats.norm.ppf(0.975)
    for limit in tango(b, c, n, 0.95):
        for bi, ci, ni, d in zip(b, c, n, limit, strict=True):
            if abs(d) < 1:
                score = (d - (bi - ci) / ni) / paired_variance(bi, ci, ni, d) ** 0.5
                assert_allclose(abs(score), z, rtol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_tango_and_the_test_agree_on_every_small_table(level):
    b, c, n = small_paired()
    assert_array_equal(excludes_zero(*tango(b, c, n, level)), mcnemar_score(b, c)[1] < 1 - level)


@settings(deadline=None)
@given(table=paired, level=levels)
def test_tango_and_the_test_agree(table, level):
    p = mcnemar_score(*table[:2])[1]
    assert excludes_zero(*tango(*table, level)) == (p < 1 - level)
    for edge in (1 - p, np.nextafter(1 - p, 0), np.nextafter(1 - p, 1)):
        if 0 < edge < 1:
            assert excludes_zero(*tango(*table, edge)) == (p < 1 - edge)


@settings(deadline=None)
@given(table=paired, level=levels)
def test_tango_swap_flips_the_signs_bit_by_bit(table, level):
    b, c, n = table
    low, high = tango(b, c, n, level)
    assert_array_equal(tango(c, b, n, level), (-high, -low))
    assert mcnemar_score(c, b) == (-mcnemar_score(b, c)[0], mcnemar_score(b, c)[1])


@settings(deadline=None)
@given(table=paired)
def test_tango_holds_the_estimate_and_grows_with_the_level(table):
    b, c, n = table
    low, high = tango(b, c, n, np.linspace(0.01, 0.9999, 60))
    assert np.all((low >= -1) & (low <= (b - c) / n) & ((b - c) / n <= high) & (high <= 1))
    assert np.all(high - low > 0)
    assert np.all(np.diff(low) <= 1e-14)
    assert np.all(np.diff(high) >= -1e-14)


# Two groups


def test_two_groups_statsmodels():
    for x1, n1, x2, n2 in small_groups(5).T:
        if not 0 < x1 + x2 < n1 + n2:
            continue
        counts, sizes = np.array([x1, x2]), np.array([n1, n2])
        want = proportions_ztest(counts, sizes)
        assert_allclose(pooled_z(x1, n1, x2, n2), want, rtol=1e-12)
        # At a difference of 0 statsmodels' score test has the factor N / (N - 1) as well.
        factor = (n1 + n2 - 1) / (n1 + n2)
        z, p = two_proportions(x1, n1, x2, n2)
        assert_allclose(z, want[0] * factor**0.5, rtol=1e-12)
        assert_allclose(p, 2 * stats.norm.sf(abs(z)), rtol=1e-12)


@settings(deadline=None)
@given(one=st.integers(2, 300), two=st.integers(2, 300), data=st.data())
def test_two_groups_statsmodels_score_and_wald(one, two, data):
    x1, x2 = data.draw(st.integers(1, one - 1)), data.draw(st.integers(1, two - 1))
    for method, ours in (("score", two_proportions), ("wald", unpooled_z)):
        want = test_proportions_2indep(x1, one, x2, two, method=method, return_results=False)
        assert_allclose(ours(x1, one, x2, two), want, rtol=1e-10, atol=1e-14)


def test_groups_without_variance():
    for test in (two_proportions, pooled_z, unpooled_z):
        assert_array_equal(test([0, 4], [3, 4], [0, 5], [2, 5]), ([0, 0], [1, 1]))
    assert np.isnan(unpooled_z(3, 3, 0, 5)).all()
    assert two_proportions(3, 3, 0, 5)[0] > 0


@pytest.mark.parametrize(
    ("table", "low", "high", "digits"),
    [
        # Newcombe 1998 (Stat. Med. 17, 873-890), Table II, method 6
        ((56, 70, 48, 80), 0.0528, 0.3382, 4),
        ((9, 10, 3, 10), 0.1700, 0.8406, 4),
        ((10, 10, 0, 20), 0.7156, 1.0000, 4),
        # R, PropCIs::diffscoreci(7, 34, 1, 34, 0.95)
        ((7, 34, 1, 34), 0.0270416, 0.3452912, 7),
    ],
)
def test_miettinen_nurminen_published(table, low, high, digits):
    assert_allclose(miettinen_nurminen(*table, 0.95), (low, high), rtol=0, atol=0.5 * 10.0**-digits)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_miettinen_nurminen_by_brute_force(level):
    tables = [tuple(t) for t in small_groups(6).T if {t[1], t[3]} <= {1, 2, 5, 6}]
    tables += [(375, 500, 360, 500), (0, 1000, 3, 20), (999, 1000, 1, 2), (1, 10**6, 0, 3)]
    low, high = miettinen_nurminen(*np.array(tables).T, level)
    for t, got in zip(tables, zip(low, high, strict=True), strict=True):
        want = inverted(t[0] / t[1] - t[2] / t[3], lambda d, t=t: unpaired_variance(*t, d), level)
        assert_allclose(got, want, rtol=0, atol=1e-10, err_msg=str(t))


@pytest.mark.parametrize("level", LEVELS)
def test_miettinen_nurminen_and_the_test_agree_on_every_small_table(level):
    tables = small_groups()
    excluded = excludes_zero(*miettinen_nurminen(*tables, level))
    assert_array_equal(excluded, two_proportions(*tables)[1] < 1 - level)


@settings(deadline=None)
@given(table=groups, level=levels)
def test_miettinen_nurminen_and_the_test_agree(table, level):
    p = two_proportions(*table)[1]
    assert excludes_zero(*miettinen_nurminen(*table, level)) == (p < 1 - level)
    for edge in (1 - p, np.nextafter(1 - p, 0), np.nextafter(1 - p, 1)):
        if 0 < edge < 1:
            assert excludes_zero(*miettinen_nurminen(*table, edge)) == (p < 1 - edge)


@settings(deadline=None)
@given(table=groups, level=levels)
def test_two_groups_swap_and_complement(table, level):
    x1, n1, x2, n2 = table
    low, high = miettinen_nurminen(*table, level)
    assert_array_equal(miettinen_nurminen(x2, n2, x1, n1, level), (-high, -low))
    complement = miettinen_nurminen(n1 - x1, n1, n2 - x2, n2, level)
    assert_allclose(complement, (-high, -low), rtol=0, atol=1e-13)
    for test in (two_proportions, pooled_z, unpooled_z):
        z, p = test(*table)
        assert_array_equal(test(x2, n2, x1, n1), (-z, p))


@settings(deadline=None)
@given(table=groups)
def test_miettinen_nurminen_holds_the_estimate_and_grows_with_the_level(table):
    x1, n1, x2, n2 = table
    low, high = miettinen_nurminen(*table, np.linspace(0.01, 0.9999, 60))
    estimate = x1 / n1 - x2 / n2
    assert np.all((low >= -1) & (low <= estimate) & (estimate <= high) & (high <= 1))
    assert np.all(high - low > 0)
    assert np.all(np.diff(low) <= 1e-14)
    assert np.all(np.diff(high) >= -1e-14)


# All of them


def test_limits_do_not_depend_on_the_company():
    b, c, n = small_paired()
    low, high = tango(b, c, n, 0.95)
    x1, n1, x2, n2 = small_groups(4)
    mn_low, mn_high = miettinen_nurminen(x1, n1, x2, n2, 0.95)
    for i in range(0, len(b), 7):
        assert_array_equal(tango(b[i], c[i], n[i], 0.95), (low[i], high[i]))
    for i in range(0, len(x1), 7):
        alone = miettinen_nurminen(x1[i], n1[i], x2[i], n2[i], 0.95)
        assert_array_equal(alone, (mn_low[i], mn_high[i]))


def test_large_counts():
    n = 10**9
    low, high = tango(n // 4 + 10**5, n // 4, n, 0.95)
    half = stats.norm.ppf(0.975) * (0.5 / n) ** 0.5
    assert_allclose((low, high), (1e-4 - half, 1e-4 + half), atol=1e-8)
    low, high = miettinen_nurminen(n // 2, n, n // 2, n, 0.95)
    assert_allclose(high, stats.norm.ppf(0.975) * (0.5 / n) ** 0.5, rtol=1e-6)
    assert low == -high


def test_undefined_is_nan():
    nan = np.nan
    for b, c in ((nan, 1), (1, nan)):
        for got in (mcnemar_score(b, c), mcnemar_exact(b, c), mcnemar_midp(b, c)):
            assert np.isnan(got).all()
        assert np.isnan(mcnemar_corrected(b, c)).all()
    assert np.isnan(tango([0, 1, nan, 1], [0, 0, 1, 1], [0, nan, 5, 5], [0.9, 0.9, 0.9, nan])).all()
    empty = ([0, 1, nan, 1], [0, nan, 5, 5], [1, 1, 1, 0], [5, 5, 5, 0])
    for test in (two_proportions, pooled_z, unpooled_z):
        assert np.isnan(test(*empty)).all()
    assert np.isnan(miettinen_nurminen(*empty, 0.95)).all()


def test_everything_broadcasts():
    b, n, level = np.array([0, 3]), np.array([[9], [20], [50]]), np.array([0.9, 0.95])
    for low, high in (tango(b, 2, n, level), miettinen_nurminen(b, n, 2, 30, level)):
        assert low.shape == high.shape == (3, 2)
    assert_array_equal(tango(3, 2, 50, 0.95), [x[2, 1] for x in tango(b, 2, n, level)])


# Welch


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), n1=st.integers(2, 40), n2=st.integers(2, 40))
def test_welch_df_scipy(seed, n1, n2):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n1), rng.normal(scale=3, size=n2)
    got = welch_df(x.var(ddof=1) / n1, n1 - 1, y.var(ddof=1) / n2, n2 - 1)
    assert_allclose(got, stats.ttest_ind(x, y, equal_var=False).df, rtol=1e-12)
    assert min(n1, n2) - 1 <= got * (1 + 1e-12)
    assert got <= (n1 + n2 - 2) * (1 + 1e-12)


def test_welch_df_edges():
    got = welch_df([0, 2, 1e-200, 1, 0, 1], [5, 5, 4, np.inf, 5, 0], [3, 0, 1e-200, 1, 0, 1], 7)
    assert_allclose(got, [7, 5, 4 / (1 / 4 + 1 / 7), 28, np.nan, np.nan], rtol=1e-12)
    assert welch_df(1, np.inf, 1, np.inf) == np.inf


# Seeds


@pytest.mark.parametrize(
    ("name", "compute"),
    [
        ("mcnemar-exact-40-55", lambda i: mcnemar_exact(i["b"], i["c"])),
        ("mcnemar-exact-160-220", lambda i: mcnemar_exact(i["b"], i["c"])),
        ("mcnemar-exact-25-10", lambda i: mcnemar_exact(i["b"], i["c"])),
        ("permutation-equals-mcnemar", lambda i: mcnemar_exact(i["a_only"], i["b_only"])),
        ("broad-drop-sign", lambda i: mcnemar_exact(i["k"], i["n"] - i["k"])),
        ("mcnemar-edge-no-discordant", lambda i: mcnemar_exact(i["b"], i["c"])),
        ("mcnemar-edge-no-discordant", lambda i: mcnemar_score(i["b"], i["c"])[1]),
        ("mcnemar-midp-40-55", lambda i: mcnemar_midp(i["b"], i["c"])),
        ("mcnemar-chi2cc-40-55", lambda i: mcnemar_corrected(i["b"], i["c"])),
        ("mcnemar-chi2cc-25-10", lambda i: mcnemar_corrected(i["b"], i["c"])),
        (
            "mcnemar-chi2-40-55",
            lambda i: (mcnemar_score(i["b"], i["c"])[0] ** 2, mcnemar_score(i["b"], i["c"])[1]),
        ),
    ],
)
def test_seed_pairs(seeds, name, compute):
    row = seeds[name]
    assert_allclose(compute(row["input"]), row["expected"], atol=row["tolerance"], rtol=0)


def test_seed_two_groups(seeds):
    def table(row):
        return [row["input"][key] for key in ("k2", "n2", "k1", "n1")]

    row = seeds["unpaired-p-360-375"]
    got = unpooled_z(*table(row))[1], pooled_z(*table(row))[1]
    assert_allclose(got, row["expected"], atol=row["tolerance"], rtol=0)
    row = seeds["unpaired-z-360-375"]
    assert_allclose(unpooled_z(*table(row))[0], row["expected"], atol=row["tolerance"], rtol=0)
    row = seeds["unpaired-360-345"]
    assert_allclose(pooled_z(*table(row))[1], row["expected"], atol=row["tolerance"], rtol=0)
    row = seeds["score-gap-704-720"]
    assert_allclose(pooled_z(*table(row))[1], row["expected"][1], atol=row["tolerance"], rtol=0)


@pytest.mark.parametrize("name", ["contamination-x", "contamination-y"])
def test_seed_contamination(seeds, name):
    row = seeds[name]
    p1, n1, p2, n2 = (row["input"][key] for key in ("p1", "n1", "p2", "n2"))
    z, p = unpooled_z(p1 * n1, n1, p2 * n2, n2)
    got = (p1 - p2) / z, z, np.log10(p)
    assert_allclose(got, row["expected"], atol=row["tolerance"], rtol=0)
