"""The wild cluster bootstrap against enumeration by hand and against published p-values."""

import itertools
import re

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from shared_data import DATA, entries, here

from frame_eval.inference.wild import WEBB, wild


def clustered(difference, cluster):
    """The arrays of one mean difference: influence, share, group and estimate."""
    code = np.unique(cluster, return_inverse=True)[1]
    sizes = np.bincount(code)
    share = sizes / len(code)
    contribution = np.bincount(code, difference) / len(code)
    estimate = np.mean(difference)
    return contribution - estimate * share, share, np.zeros(len(sizes), int), np.array([estimate])


def cr1_t(contribution, share):
    """t of each row of contributions, by the definition."""
    theta = contribution.sum(1)
    residual = contribution - theta[:, None] * share
    clusters = contribution.shape[1]
    variance = (residual**2).sum(1) * clusters / (clusters - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(theta) / np.sqrt(variance)
    return np.where((theta == 0) & (variance == 0), 0.0, t)


def by_hand(influence, share, estimate, strict=False):
    """The share of all 2^C sign patterns that are as extreme (or more extreme)."""
    x = influence + estimate * share
    signs = np.array(list(itertools.product([1, -1], repeat=len(x))))
    t_star, t = cr1_t(signs * x, share), cr1_t(x[None], share)
    close = np.isclose(t_star, t, rtol=1e-9)
    return np.mean((t_star > t) & ~close if strict else (t_star > t) | close)


@pytest.mark.parametrize("clusters", [2, 3, 5, 8, 12])
@pytest.mark.parametrize("kind", ["normal", "tied"])
def test_enumeration_by_hand(clusters, kind):
    rng = np.random.default_rng(clusters)
    for _ in range(5):
        cluster = np.concatenate([np.arange(clusters), rng.integers(0, clusters, 40)])
        values = (
            rng.normal(0.3, 1, len(cluster))
            if kind == "normal"
            else rng.integers(-1, 2, len(cluster))
        )
        arrays = clustered(values, cluster)
        assert_allclose(wild(*arrays), by_hand(arrays[0], arrays[1], arrays[3]), rtol=1e-12)


def test_groups_are_tested_on_their_own():
    rng = np.random.default_rng(3)
    singles = [
        clustered(rng.normal(0.2, 1, 200), rng.integers(0, size, 200)) for size in (4, 20, 9, 20)
    ]
    group = np.concatenate([np.full(len(s[0]), i) for i, s in enumerate(singles)])
    influence, share = (np.concatenate([s[k] for s in singles]) for k in (0, 1))
    estimate = np.concatenate([s[3] for s in singles])
    alone = np.concatenate([wild(*s, resamples=999) for s in singles])
    assert_array_equal(wild(influence, share, group, estimate, 999), alone)
    place = np.concatenate([np.arange(len(s[0])) for s in singles])
    order = np.argsort(place, kind="stable")  # the first clusters of all groups, then the second
    assert_array_equal(wild(influence[order], share[order], group[order], estimate, 999), alone)


def test_drawn_signs_agree_with_all_of_them():
    rng = np.random.default_rng(4)
    arrays = clustered(rng.normal(0.15, 1, 300), rng.integers(0, 13, 300))
    exact = wild(*arrays, resamples=2**13)[0]
    drawn = wild(*arrays, resamples=2**13 - 1)[0]
    assert exact != drawn
    assert abs(exact - drawn) < 4 * np.sqrt(exact * (1 - exact) / 2**13)
    assert wild(*arrays, resamples=999, seed=1) == wild(*arrays, resamples=999, seed=1)
    assert wild(*arrays, resamples=999, seed=1) != wild(*arrays, resamples=999, seed=2)


def test_webb_weights_under_twelve_clusters():
    """All 6^4 of them against as many draws; their mean is 0 and their variance 1."""
    assert_allclose([WEBB.mean(), (WEBB**2).mean()], [0, 1], atol=1e-15)
    rng = np.random.default_rng(5)
    influence, share, group, estimate = clustered(rng.normal(0.4, 1, 30), np.arange(30) % 4)
    x = influence + estimate * share
    weights = np.array(list(itertools.product(WEBB, repeat=4)))
    t_star, t = cr1_t(weights * x, share), cr1_t(x[None], share)
    exact = np.mean(t_star >= t * (1 - 1e-9))
    many = [wild(influence, share, group, estimate, 15, seed=seed)[0] for seed in range(4000)]
    # (1 + count) / 16 has the mean (1 + 15 p) / 16.
    assert abs(np.mean(many) - (1 + 15 * exact) / 16) < 4 * np.std(many) / np.sqrt(4000)


def test_degenerate():
    half = np.full(2, 0.5)
    zero = np.zeros(2, int)
    # No difference; one cluster; undefined; a cluster without rows is none.
    assert wild(np.zeros(2), half, zero, np.zeros(1)) == 1
    assert np.isnan(wild(np.zeros(1), np.ones(1), np.zeros(1, int), np.ones(1)))
    assert np.isnan(wild(np.zeros(2), half, zero, np.array([np.nan])))
    lone = np.array([0.5, 0.5, 0.0])
    assert wild(np.zeros(3), lone, np.zeros(3, int), np.ones(1)) == 0.5
    # Differences that are all alike have no error: only the signs all equal are as extreme.
    eight = np.full(8, 1 / 8)
    assert wild(np.zeros(8), eight, np.zeros(8, int), np.ones(1)) == 2 / 2**8
    assert len(wild(*(np.zeros(0),) * 2, np.zeros(0, int), np.zeros(0))) == 0


def test_size_with_twelve_unequal_clusters():
    """It rejects true nulls no more often than it says, with clusters as those of SWE-bench."""
    sizes = np.array([231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1])
    rng = np.random.default_rng(6)
    replicates = 1000
    share = sizes / sizes.sum()
    spread = np.sqrt(sizes + 0.05 * sizes**2) / sizes.sum()
    x = rng.normal(size=(replicates, 12)) * spread
    estimate = x.sum(1)
    group = np.repeat(np.arange(replicates), 12)
    influence = (x - estimate[:, None] * share).ravel()
    p = wild(influence, np.tile(share, replicates), group, estimate)
    low = stats.binomtest(int((p < 0.05).sum()), replicates).proportion_ci(0.998).low
    assert low <= 0.055


# Published results: SWE-bench Verified, clusters are the repositories

ENTRIES = [e for e in entries() if re.search(r"wild cluster|\|t\*\| >=", e["metric"])]


def all_pairs():
    frame = pl.read_parquet(DATA / "swebench_verified_bash_only.parquet").sort("instance_id")
    systems = sorted(frame["system"].unique())
    solved = np.array([frame.filter(pl.col("system") == s)["resolved"] for s in systems], float)
    return systems, solved, frame.filter(pl.col("system") == systems[0])["repo"].to_numpy()


@here
def test_all_entries_are_tested():
    assert len(ENTRIES) == 7


@here
@pytest.mark.parametrize("entry", ENTRIES, ids=range(len(ENTRIES)))
def test_reference_value(entry):
    """Ties count in ours; the entries that leave them out are those of the check by hand."""
    systems, solved, repo = all_pairs()
    if entry["filter"] == "all pairs":
        pairs = list(itertools.combinations(range(len(systems)), 2))
        parts = [clustered(solved[a] - solved[b], repo) for a, b in pairs]
        influence, share = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        group = np.repeat(np.arange(len(pairs)), [len(part[0]) for part in parts])
        p = wild(influence, share, group, np.concatenate([part[3] for part in parts]))
        found = (p < 0.05).sum()
    else:
        a, b = (systems.index(name) for name in re.findall(r"'(.+?)'", entry["filter"]))
        influence, share, group, estimate = clustered(solved[a] - solved[b], repo)
        found = wild(influence, share, group, estimate)[0]
        assert_allclose(found, by_hand(influence, share, estimate), rtol=1e-12)
        if "|t*| > |t|" in entry["metric"]:
            found = by_hand(influence, share, estimate, strict=True)
    assert_allclose(found, entry["value"], rtol=0, atol=max(entry["tolerance"], 1e-12))
