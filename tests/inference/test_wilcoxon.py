"""Signed ranks against scipy, against Walsh averages listed by hand, and published p-values."""

import itertools
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from shared_data import DATA, entries, here

import frame_eval as fe
from frame_eval.inference import wilcoxon
from frame_eval.inference.wilcoxon import signed_rank


def one(difference, level=0.95):
    d = np.asarray(difference, float)
    return signed_rank(d, np.zeros(len(d), int), 1, level)


def walsh_averages(difference):
    d = np.asarray(difference, float)
    d = d[d != 0]
    i, j = np.triu_indices(len(d))
    return np.sort((d[i] + d[j]) / 2)


KINDS = {
    "continuous": lambda rng, n: rng.normal(0.3, 1, n),
    "tied": lambda rng, n: rng.integers(-3, 5, n),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.4, 0, rng.normal(0.3, 1, n)),
    "skewed": lambda rng, n: rng.exponential(1, n) ** 3 - 0.5,
    "one-sided": lambda rng, n: rng.random(n),
}


@pytest.mark.parametrize("n", [1, 2, 5, 6, 12, 13, 14, 30, 50, 51, 400])
@pytest.mark.parametrize("kind", KINDS)
def test_scipy(kind, n):
    rng = np.random.default_rng(n)
    for _ in range(3):
        d = KINDS[kind](rng, n)
        if not (d != 0).any():
            continue
        assert_allclose(one(d).p_value, stats.wilcoxon(d).pvalue, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 8, 31, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_estimate_is_the_median_walsh_average(kind, n):
    d = KINDS[kind](np.random.default_rng(n + 1), n)
    if (d != 0).any():
        assert_allclose(one(d).estimate, np.median(walsh_averages(d)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [6, 9, 13, 25, 50])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_exact_limits_by_hand(n, level):
    """From the k-th Walsh average on, with k the textbook's critical value plus 1."""
    d = np.random.default_rng(n).normal(0.2, 1, n)
    averages, weights = walsh_averages(d), np.ones(1)
    for rank in range(1, n + 1):
        weights = np.convolve(weights, [1, *[0] * (rank - 1), 1])
    tails = np.cumsum(weights) / 2**n
    k = int((2 * tails < 1 - level).sum())
    found = one(d, level)
    assert found.exact
    if k == 0:
        assert np.isnan([found.low, found.high]).all()
    else:
        assert_allclose([found.low[0], found.high[0]], [averages[k - 1], averages[-k]], rtol=1e-14)


def test_published_table():
    """Hollander and Wolfe's depression factors: W = 40 of 45, p = 0.039, estimate -0.46.

    R's help page of wilcox.test shows the same data; there one-sided, p = 0.01953.
    """
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    found = one(np.subtract(after, before))
    assert_allclose(found.p_value / 2, 0.01953, atol=5e-6)
    assert_allclose(found.estimate, -0.46, atol=1e-12)
    assert_allclose([found.low[0], found.high[0]], [-0.786, -0.010], atol=1e-12)


def test_normal_limits_hold_all_shifts_that_are_not_rejected():
    """On both sides of each limit the number of Walsh averages is as the test of 0 says."""
    d = np.random.default_rng(2).normal(0.1, 1, 300)
    found = one(d)
    averages = walsh_averages(d)
    half = stats.norm.ppf(0.975) * np.sqrt(300 * 301 * 601 / 24)
    for limit, inside in ((found.low[0], 1), (found.high[0], -1)):
        for side, accepted in ((inside, True), (-inside, False)):
            w = (averages > limit + side * 1e-9).sum()
            assert (abs(w - 300 * 301 / 4) <= half) == accepted


values = st.lists(st.integers(-4, 6) | st.floats(-3, 5).map(lambda x: round(x, 2)), max_size=60)


@settings(deadline=None, max_examples=300)
@given(d=values, level=st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_interval_excludes_0_exactly_when_p_rejects(d, level):
    found = one(d, level)
    p, low, high = found.p_value[0], found.low[0], found.high[0]
    excluded = low > 0 or high < 0
    assert excluded == (p < 1 - level)
    if np.isfinite(low):
        assert low <= found.estimate[0] <= high
    mirrored = one(np.negative(d), level)
    assert_array_equal([mirrored.low[0], mirrored.high[0], mirrored.p_value[0]], [-high, -low, p])


@pytest.mark.parametrize("kind", [*KINDS, "symmetric"])
def test_selection_without_listing(kind, monkeypatch):
    """Every order statistic of the sums, when hardly any may be listed."""
    rng = np.random.default_rng(5)
    d = np.sort(KINDS.get(kind, lambda rng, n: rng.choice([-1, 1], n))(rng, 40)).astype(float)
    i, j = np.triu_indices(len(d))
    sums = np.sort(d[i] + d[j])
    monkeypatch.setattr(wilcoxon, "_FEW", 10)
    found = [wilcoxon._walsh(d, k) for k in range(1, len(sums) + 1)]
    assert_array_equal(found, sums)


def test_groups_are_tested_on_their_own():
    rng = np.random.default_rng(6)
    d, group = rng.integers(-2, 4, 200).astype(float), rng.integers(0, 5, 200)
    group[group == 3] = 4  # nothing in group 3
    found = signed_rank(d, group, 6, 0.95)
    for g in range(6):
        alone = one(d[group == g])
        for name in ("estimate", "low", "high", "p_value", "n", "exact"):
            assert_array_equal(getattr(found, name)[g : g + 1], getattr(alone, name))
    assert np.isnan(found.p_value[[3, 5]]).all()


def test_no_difference():
    found = one(np.zeros(4))
    assert (found.p_value[0], found.n[0]) == (1, 0)
    assert np.isnan([found.estimate, found.low, found.high]).all()


@pytest.mark.parametrize("kind", ["tied", "zeros", "continuous"])
def test_ties_do_not_depend_on_rounding(kind):
    rng = np.random.default_rng(8)
    d = np.round(KINDS[kind](rng, 60), 1)
    noisy = d + rng.uniform(-1e-15, 1e-15, 60)
    found = signed_rank(noisy, np.zeros(60, int), 1, 0.95, rounding=1e-13)
    clean = one(np.round(d, 1))
    for name in ("estimate", "low", "high", "p_value", "n"):
        assert_allclose(getattr(found, name), getattr(clean, name), rtol=0, atol=1e-13)
    apart = signed_rank(
        np.concatenate([noisy, d]), np.repeat([0, 1], 60), 2, 0.95, rounding=[1e-13, 0]
    )
    assert_allclose(apart.p_value, clean.p_value[0], rtol=1e-12)


def test_hundred_thousand_differences():
    """Coverage of the true centre is another test's; here that size is no obstacle."""
    d = np.random.default_rng(7).standard_cauchy(100_000) + 0.01
    found = one(d)
    assert_allclose(found.p_value, stats.wilcoxon(d).pvalue, rtol=1e-9)
    assert found.low[0] < found.estimate[0] < found.high[0]
    count = sum(
        int(np.searchsorted(np.sort(d), 2 * found.estimate[0] - part, side="right").sum())
        for part in np.array_split(d, 10)
    )
    diagonal = (d <= found.estimate[0]).sum()
    assert abs((count + diagonal) / 2 - len(d) * (len(d) + 1) / 4) < 10


# Published results

ENTRIES = [e for e in entries() if "Wilcoxon" in e["metric"]]


def paired_differences(entry):
    metric = re.search(r" on (\w+)", entry["metric"])
    system, example, column = {
        "alpaca_eval2_preferences.parquet": ("model", "item_id", "win"),
        "robust03_per_topic.parquet": ("system", "topic", metric and metric[1]),
    }[entry["file"]]
    a, b = re.findall(r"'(.+?)'", entry["filter"])
    frame = pl.read_parquet(DATA / entry["file"]).sort(example)
    first, second = (frame.filter(pl.col(system) == name) for name in (a, b))
    common = first.join(second, on=example, maintain_order="left")
    return (common[column] - common[f"{column}_right"]).to_numpy()


@here
def test_all_entries_are_tested():
    assert len(ENTRIES) == 5


@here
@pytest.mark.parametrize("entry", ENTRIES, ids=range(len(ENTRIES)))
def test_reference_value(entry):
    found = one(paired_differences(entry))
    assert_allclose(found.p_value, entry["value"], rtol=0, atol=entry["tolerance"])


@here
def test_rankings_of_systems():
    """Kendall's tau-b between two rankings is no test of two systems: scipy has it."""
    frame = pl.read_parquet(DATA / "robust03_per_topic.parquet")
    (entry,) = [e for e in entries() if "rankings by map" in e["metric"]]
    means = frame.group_by("system", "topic_set").agg(pl.col("map").mean())
    old, new = (
        means.filter(pl.col("topic_set") == name).sort("system")["map"].to_numpy()
        for name in entry["filter"].split(" vs ")
    )
    concordant = sum(
        np.sign(old[i] - old[j]) * np.sign(new[i] - new[j])
        for i, j in itertools.combinations(range(len(old)), 2)
    )
    pairs = len(old) * (len(old) - 1) / 2
    found = [stats.kendalltau(old, new).statistic, concordant / pairs]
    assert_allclose(found, entry["value"], rtol=0, atol=entry["tolerance"])


def test_the_note_says_what_is_missing():
    frame = pl.DataFrame(
        {
            "by": ["same"] * 4 + ["few"] * 4,
            "model": ["a", "a", "b", "b"] * 2,
            "id": [0, 1, 0, 1, 2, 3, 2, 3],
            "x": [1.0, 2, 1, 2, 1, 2, 3, 3],
        }
    )
    found = frame.eval.compare(
        fe.mean("x"), system="model", example="id", by="by", baseline="a", method="wilcoxon"
    )
    few, same = found.select("difference", "ci_low", "note").rows()
    assert few == (
        1.5,
        None,
        "difference is the Hodges-Lehmann estimate; too few examples for its limits",
    )
    assert same == (None, None, "no example differs")
