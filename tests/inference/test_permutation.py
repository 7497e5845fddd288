import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import frame_eval as fe


def pairs(a, b, **columns):
    n = len(a)
    return pl.DataFrame(
        {
            "m": ["a"] * n + ["b"] * n,
            "id": [*range(n), *range(n)],
            "x": [*a, *b],
            **{name: [*values, *values] for name, values in columns.items()},
        }
    )


def p_of(frame, metric, **options):
    options = {"example": "id"} if "paired" not in options else options
    options.setdefault("method", "permutation")
    row = fe.compare(frame, metric, system="m", baseline="a", **options)
    return row["p_value"].item(), row["method"].item()


@pytest.mark.parametrize("seed", range(4))
def test_exact_against_scipy_for_pairs(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 9)).round(1)

    def statistic(x, y, axis):
        return x.mean(axis) - y.mean(axis)

    oracle = stats.permutation_test((a, b), statistic, permutation_type="samples", vectorized=True)
    p, method = p_of(pairs(a, b), fe.mean("x"))
    assert_allclose(p, oracle.pvalue, rtol=1e-12)
    assert method == "permutation, exact"


@pytest.mark.parametrize("seed", range(4))
def test_exact_against_scipy_for_independent_rows(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=7).round(1), rng.normal(size=8).round(1)

    def statistic(x, y, axis):
        return x.mean(axis) - y.mean(axis)

    oracle = stats.permutation_test(
        (a, b), statistic, permutation_type="independent", vectorized=True, n_resamples=1e6
    )
    frame = pl.DataFrame({"m": ["a"] * 7 + ["b"] * 8, "x": [*a, *b]})
    p, method = p_of(frame, fe.mean("x"), paired=False)
    assert_allclose(p, oracle.pvalue, rtol=1e-12)
    assert method == "permutation, exact"


def test_binary_pairs_are_the_exact_sign_test():
    a = [1] * 12 + [0] * 30 + [1] * 100
    b = [0] * 12 + [1] * 30 + [1] * 100
    p, method = p_of(pairs(a, b), fe.rate("x"))
    assert_allclose(p, stats.binomtest(12, 42).pvalue, rtol=1e-12)
    assert method == "permutation, exact"


def test_two_rates_are_the_hypergeometric_tails():
    frame = pl.DataFrame(
        {"m": ["a"] * 30 + ["b"] * 40, "x": [1] * 12 + [0] * 18 + [1] * 29 + [0] * 11}
    )
    tables = stats.hypergeom(70, 41, 30)
    assert_allclose(
        p_of(frame, fe.rate("x"), paired=False)[0],
        2 * min(tables.cdf(12), tables.sf(11)),
        rtol=1e-10,
    )


def test_clusters_flip_as_a_whole():
    rng = np.random.default_rng(2)
    cluster = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 6, 7, 8])
    a, b = rng.normal(size=(2, 36)) + rng.normal(size=(2, 8))[:, cluster]
    sums = np.bincount(cluster, b - a)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1)
    flipped = np.abs(sums @ signs)
    oracle = (flipped >= abs(sums.sum()) - 1e-12).mean()
    frame = pairs(a, b, doc=cluster)
    row = fe.compare(
        frame,
        fe.mean("x"),
        system="m",
        example="id",
        cluster="doc",
        baseline="a",
        method="permutation",
    )
    assert_allclose(row["p_value"].item(), oracle, rtol=1e-12)
    assert row["method"].item() == "cluster permutation, exact"
    assert row["ci_low"].item() is None


def test_rank_metric_exchanged_by_hand():
    rng = np.random.default_rng(5)
    n = 8
    y = np.array([1, 0] * 4)
    a, b = rng.integers(0, 5, (2, n)) + y * np.array([[1], [2]])

    def auc(scores):
        pos, neg = scores[y == 1], scores[y == 0]
        return ((pos[:, None] > neg) + 0.5 * (pos[:, None] == neg)).mean()

    values = []
    for mask in range(2**n):
        swap = (mask >> np.arange(n)) & 1 == 1
        values.append(auc(np.where(swap, a, b)) - auc(np.where(swap, b, a)))
    oracle = (np.abs(values) >= abs(values[0]) - 1e-12).mean()
    p, _ = p_of(pairs(a, b, y=y), fe.roc_auc("y", "x"))
    assert_allclose(p, oracle, rtol=1e-12)


def test_sampled_p_is_near_the_exact_one_and_counts_the_observed_way():
    rng = np.random.default_rng(0)
    n = 16
    a = rng.normal(size=n)
    b = a + rng.normal(0.5, 1, n)
    exact, _ = p_of(pairs(a, b), fe.mean("x"))
    # Twice the pairs with no difference: too many ways to enumerate, the same p-value.
    many = pairs([*a, *np.arange(40.0)], [*b, *np.arange(40.0)])
    sampled, method = p_of(many, fe.mean("x"))
    assert method == "permutation, B=9999"
    assert abs(sampled - exact) < 4 * np.sqrt(exact * (1 - exact) / 9999)
    far = pairs(np.zeros(60), np.arange(1.0, 61))
    assert_allclose(p_of(far, fe.mean("x"))[0], 1 / 10_000, rtol=1e-12)


def test_the_same_system_twice():
    x = np.random.default_rng(0).normal(size=40)
    assert p_of(pairs(x, x), fe.mean("x"))[0] == 1


def test_clusters_of_both_systems_can_not_be_dealt():
    frame = pairs([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0], doc=[1, 1, 2, 2])
    with pytest.raises(fe.EvalError, match="2 clusters have rows of both systems"):
        fe.compare(
            frame,
            fe.mean("x"),
            system="m",
            cluster="doc",
            baseline="a",
            paired=False,
            method="permutation",
        )
