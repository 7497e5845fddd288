from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from polars.testing import assert_frame_equal
from scipy import stats
from sklearn.metrics import roc_auc_score

import frame_eval as fe
from frame_eval.inference import resample
from frame_eval.inference.resample import Draws, _binomial, coins
from frame_eval.inference.urns import Kinds, urn

KINDS = ("percentile", "basic", "bca", "studentized")
SCIPY = {"percentile": "percentile", "basic": "basic", "bca": "BCa"}


def row(frame, metric, **options):
    return fe.summary(frame, metric, **options).row(0, named=True)


def difference(frame, metric, **options):
    options = {"system": "m", "example": "id", "baseline": "a", **options}
    return fe.compare(frame, metric, **options).row(0, named=True)


def two_systems(n=250, clusters=40, seed=0, shift=0.3):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    frames = [
        pl.DataFrame(
            {
                "m": [name] * n,
                "id": np.arange(n),
                "doc": np.arange(n) % clusters,
                "y": truth > 0.3,
                "p": truth + rng.normal(size=n) > 0.3 - by,
                "ok": rng.random(n) < 0.6 + by / 2,
                "x": rng.exponential(size=n) + by,
                "s": truth + (1 + by) * rng.normal(size=n),
            }
        )
        for name, by in (("a", 0.0), ("b", shift))
    ]
    return pl.concat(frames)


@pytest.mark.parametrize(
    ("total", "share"), [(2, 0.5), (30, 0.9), (10_000, 0.7), (2_000_000, 1e-6), (10**6, 0.3)]
)
def test_the_law_of_two_kinds_is_the_binomial_one(total, share):
    first, law = _binomial(total, share)
    counts = np.arange(first, first + len(law))
    assert_allclose(law, stats.binom(total, share).cdf(counts), rtol=1e-10, atol=1e-13)
    assert stats.binom(total, share).cdf(first - 1) < 1e-30


@pytest.mark.parametrize(
    "counts",
    [
        [3, 4, 20],
        [1] * 30,
        [1] * 9000,
        [2, 1, 3] * 20,
        [1000, 2000, 500],
        [*range(1, 61)],
        [*range(50, 250)],
        [1, 1],
        [7000, 3000],
        [2, 200_000],
    ],
    ids=[
        "kinds",
        "few",
        "many",
        "some-alike",
        "two-thousand",
        "all-sizes",
        "many-of-many",
        "a-pair",
        "a-rate",
        "a-rare-one",
    ],
)
def test_weights_are_multinomial(counts):
    counts, resamples = np.array(counts), 4000
    weights = np.concatenate(Draws(resamples, 1).each(np.copy, counts))
    n = counts.sum()
    assert weights.shape == (resamples, len(counts))
    assert_array_equal(weights.sum(1), n)
    # Sums over any set of kinds are binomial: moments of some of them, and of single kinds.
    rng = np.random.default_rng(0)
    for _ in range(20):
        chosen = rng.random(len(counts)) < rng.random()
        p = counts[chosen].sum() / n
        total = weights[:, chosen].sum(1)
        error = np.sqrt(n * p * (1 - p) / resamples)
        assert abs(total.mean() - n * p) <= 4.5 * error
        if error > 0:
            assert abs(total.var() / (n * p * (1 - p)) - 1) < 4.5 * np.sqrt(2 / resamples)
    first = weights[:, 0]
    seen = np.bincount(first.astype(int))
    expected = stats.binom(n, counts[0] / n).pmf(np.arange(len(seen))) * resamples
    usual = expected >= 5
    assert (
        stats.chisquare(seen[usual], expected[usual] * seen[usual].sum() / expected[usual].sum())[1]
        > 1e-4
    )


def test_coins_are_fair_and_independent():
    thrown = coins(20_000, 70, np.random.default_rng(3))
    assert set(np.unique(thrown)) == {0, 1}
    # Five standard errors of 70 shares, and of the 2,415 correlations.
    assert np.abs(thrown.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(20_000)
    correlation = np.corrcoef(thrown.T) - np.eye(70)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


def test_threads_change_no_draw(monkeypatch):
    counts = np.ones(3000, np.int64)
    monkeypatch.setattr(resample, "_BLOCK", 2**16)
    shared = Draws(200, 7).each(np.copy, counts)
    assert len(shared) > 5
    monkeypatch.setattr(resample, "_MOST", 1)
    assert_array_equal(np.concatenate(Draws(200, 7).each(np.copy, counts)), np.concatenate(shared))


@pytest.mark.parametrize(
    "metric", [fe.roc_auc, fe.gini, fe.ks, partial(fe.partial_auc, max_fpr=0.3)]
)
@pytest.mark.parametrize("digits", [8, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_runs_of_like_rows_change_no_statistic(metric, digits, weighted):
    rng = np.random.default_rng(digits)
    y = rng.random(300) < 0.3
    kinds = Kinds(
        metric("y", "s"),
        np.zeros(300, np.int64),
        None,
        np.unique((rng.normal(size=300) + y).round(digits), return_inverse=True)[1],
        (np.arange(300.0),),
        ("n", "pos", "neg"),
        np.stack([np.ones(300), y, ~y], -1) * (1 + rng.integers(0, 2, 300)[:, None] * weighted),
        rng.integers(1, 4, 300),
    )
    merged = urn(kinds, [0])
    single = urn(replace(kinds, metric=replace(kinds.metric, runs=False)), [0])
    assert merged.counts.sum() == single.counts.sum()
    assert len(merged.counts) < (0.95 if digits == 8 else 1.01) * len(single.counts)
    every = [drawn.value(drawn.counts[None]) for drawn in (merged, single)]
    assert_allclose(*every, rtol=1e-12)
    spread = [drawn.replicates(Draws(4000, 1)).std() for drawn in (merged, single)]
    assert_allclose(*spread, rtol=0.06)  # two samples of 4,000
    if kinds.metric.smooth:
        moved = [drawn.jackknife() - every[0] for drawn in (merged, single)]
        sizes = [drawn.counts @ m**2 for drawn, m in zip((merged, single), moved, strict=True)]
        assert_allclose(*sizes, rtol=1e-9)


def test_strata_keep_their_sizes():
    counts, strata = np.array([3, 4, 5, 6]), np.array([0, 1, 0, 1])
    weights = np.concatenate(Draws(200, 0).each(np.copy, counts, strata))
    assert_array_equal(weights[:, strata == 0].sum(1), 8)
    assert_array_equal(weights[:, strata == 1].sum(1), 10)


@pytest.mark.parametrize("kind", SCIPY)
@pytest.mark.parametrize("n", [12, 60])
def test_means_against_scipy(kind, n):
    x = np.random.default_rng(n).exponential(size=n)
    oracle = stats.bootstrap((x,), np.mean, method=SCIPY[kind], n_resamples=40_000, rng=1)
    found = row(pl.DataFrame({"x": x}), fe.mean("x"), interval=kind, resamples=39_999)
    # Four Monte Carlo errors of the difference of two 2.5 % quantiles.
    close = 0.09 * oracle.standard_error
    assert_allclose(found["std_error"], oracle.standard_error, rtol=0.02)
    assert_allclose([found["ci_low"], found["ci_high"]], oracle.confidence_interval, atol=close)


@pytest.mark.parametrize("kind", SCIPY)
def test_auc_against_scipy(kind):
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3 == 0
    s = (rng.normal(size=60) + y).round(1)
    oracle = stats.bootstrap(
        (y, s), roc_auc_score, method=SCIPY[kind], n_resamples=3000, paired=True,
        vectorized=False, rng=1,
    )  # fmt: skip
    found = row(pl.DataFrame({"y": y, "s": s}), fe.roc_auc("y", "s"), interval=kind)
    close = 0.25 * oracle.standard_error
    assert_allclose([found["ci_low"], found["ci_high"]], oracle.confidence_interval, atol=close)


@pytest.mark.parametrize("kind", SCIPY)
def test_clusters_against_scipy(kind):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 9, 30)
    doc = np.repeat(np.arange(30), sizes)
    x = rng.normal(size=len(doc)) + rng.normal(size=30)[doc]
    sums = np.bincount(doc, x)

    def statistic(total, size, axis):
        return total.sum(axis) / size.sum(axis)

    oracle = stats.bootstrap(
        (sums, sizes), statistic, method=SCIPY[kind], n_resamples=40_000, paired=True, rng=1
    )
    frame = pl.DataFrame({"doc": doc, "x": x})
    found = row(frame, fe.mean("x"), cluster="doc", interval=kind, resamples=39_999)
    close = 0.09 * oracle.standard_error
    assert_allclose([found["ci_low"], found["ci_high"]], oracle.confidence_interval, atol=close)
    assert found["method"] == f"cluster bootstrap {kind}, B=39999"


def test_studentized_by_hand():
    """Bootstrap-t of a mean from resampled rows, with the error of each resample."""
    x = np.random.default_rng(0).exponential(size=25)
    drawn = np.random.default_rng(1).choice(x, (60_000, 25))
    t = (drawn.mean(1) - x.mean()) / (drawn.std(1) / 5)
    low, high = x.mean() - x.std() / 5 * np.quantile(t, [0.975, 0.025])
    found = row(pl.DataFrame({"x": x}), fe.mean("x"), interval="studentized", resamples=59_999)
    assert_allclose([found["ci_low"], found["ci_high"]], [low, high], atol=0.12 * x.std() / 5)


@pytest.mark.parametrize("roles", [{}, {"cluster": "doc"}], ids=str)
def test_a_spread_that_rounding_hides_has_no_t_statistics(roles):
    rng = np.random.default_rng(3)
    x, doc = rng.normal(size=80), np.repeat(np.arange(20), 4)
    near, far = (
        row(
            pl.DataFrame({"x": x + shift, "doc": doc}),
            fe.mean("x"),
            interval="studentized",
            resamples=999,
            **roles,
        )
        for shift in (1e4, 1e9)
    )
    at_zero = row(
        pl.DataFrame({"x": x, "doc": doc}),
        fe.mean("x"),
        interval="studentized",
        resamples=999,
        **roles,
    )
    assert_allclose(near["ci_low"] - 1e4, at_zero["ci_low"], atol=1e-5)
    assert (far["ci_low"], far["ci_high"]) == (None, None)
    assert "differ too little" in far["note"]


def test_all_resamples_of_four_rows():
    """Every resample there is, against the replicates' distribution."""
    x = np.array([1.0, 2.0, 4.0, 8.0])
    means = np.sort([np.mean(c) for c in product(x, repeat=4)])
    found = row(pl.DataFrame({"x": x}), fe.mean("x"), interval="percentile", level=0.9)
    assert_allclose(found["std_error"], means.std(), rtol=0.03)
    assert found["ci_low"] in (means[12], means[11], means[13])
    assert found["ci_high"] in (means[-13], means[-12], means[-14])


@pytest.mark.parametrize("k", [1, 30, 77])
def test_rates_have_binomial_limits(k):
    found = row(pl.DataFrame({"ok": np.arange(100) < k}), fe.rate("ok"), interval="percentile")
    limits = stats.binom(100, k / 100).ppf([0.025, 0.975])
    # A limit next to a jump of the distribution may fall on either side of it.
    assert_allclose(np.array([found["ci_low"], found["ci_high"]]) * 100, limits, atol=1)


METRICS = {
    "rate": fe.rate("ok"),
    "mean": fe.mean("x"),
    "ratio": fe.ratio("x", "s2"),
    "accuracy": fe.accuracy("y", "p"),
    "precision": fe.precision("y", "p"),
    "recall": fe.recall("y", "p"),
    "f1": fe.f1("y", "p"),
    "f2": fe.fbeta("y", "p", 2.0),
    "macro-f1": fe.f1("y", "p", average="macro"),
    "mcc": fe.mcc("y", "p"),
    "kappa": fe.cohen_kappa("y", "p"),
    "balanced": fe.balanced_accuracy("y", "p"),
    "auc": fe.roc_auc("y", "s"),
    "rmse": fe.rmse("x", "s"),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("verb", ["summary", "paired", "unpaired"])
def test_errors_are_those_of_the_linearisation(name, cluster, verb):
    """The spread of the replicates is the linearised error, of every metric, in every verb."""
    frame = two_systems(n=1200, clusters=300).with_columns(s2=pl.col("s").abs() + 1)
    options = {"cluster": cluster}
    if verb == "summary":
        frame, ask = frame.filter(pl.col("m") == "a"), row
        plain, drawn = {"interval": "auto"}, {"interval": "bootstrap", "resamples": 3999}
    else:
        ask = difference
        plain, drawn = {"method": "cr2"}, {"method": "bootstrap", "resamples": 3999}
        if verb == "unpaired":
            frame = frame.with_columns(doc=pl.concat_str("m", "doc"))
            options.update(paired=False, example=None)
    linear = ask(frame, METRICS[name], **options, **plain)
    found = ask(frame, METRICS[name], **options, **drawn)
    assert_allclose(found["std_error"], linear["std_error"], rtol=0.1)
    assert_allclose(found["ci_low"], linear["ci_low"], atol=0.35 * linear["std_error"])
    assert_allclose(found["ci_high"], linear["ci_high"], atol=0.35 * linear["std_error"])


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), shift=st.floats(-0.6, 0.6), level=st.sampled_from([0.8, 0.95]))
def test_the_interval_excludes_zero_exactly_when_p_is_small(kind, seed, shift, level):
    frame = two_systems(n=40, clusters=40, seed=seed, shift=shift)
    for metric in (fe.mean("x"), fe.rate("ok")):
        found = difference(frame, metric, method=kind, resamples=199, level=level)
        if found["ci_low"] is None or found["ci_high"] is None:
            continue
        outside = found["ci_low"] > 0 or found["ci_high"] < 0
        assert outside == (found["p_value"] < round(1 - level, 12))


@pytest.mark.parametrize("kind", KINDS)
def test_a_against_itself(kind):
    frame = two_systems(shift=0.0).filter(pl.col("m") == "a")
    twice = pl.concat([frame, frame.with_columns(m=pl.lit("b"))])
    for metric in (fe.mean("x"), fe.f1("y", "p"), fe.roc_auc("y", "s")):
        if kind == "studentized":
            continue
        found = difference(twice, metric, method=kind)
        assert (found["ci_low"], found["ci_high"], found["p_value"]) == (0, 0, 1)
        assert found["std_error"] == 0


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_the_same_draws_in_any_order_on_any_engine(cluster, engine):
    frame = two_systems(n=120, clusters=20)
    metrics = (fe.rate("ok"), fe.mean("x"), fe.f1("y", "p"), fe.roc_auc("y", "s"))
    options = {"by": "m", "cluster": cluster, "interval": "bootstrap", "resamples": 500}
    expected = fe.summary(frame, *metrics, **options)
    shuffled = engine(frame.sample(fraction=1, shuffle=True, seed=3))
    found = fe.of(shuffled).summary(*metrics, **options)
    if isinstance(found, pd.DataFrame):
        found = pl.from_pandas(found)
    numbers = ["estimate", "std_error", "ci_low", "ci_high"]
    assert_frame_equal(found.select(numbers), expected.select(numbers), rel_tol=1e-12)
    other = fe.summary(frame, *metrics, **options, seed=1)
    assert (other["std_error"] != expected["std_error"]).all()


def test_adding_a_metric_or_a_slice_changes_no_other_row():
    frame = two_systems(n=120, clusters=20)
    alone = fe.summary(frame.filter(pl.col("m") == "b"), fe.rate("ok"), interval="bca")
    both = fe.summary(frame, fe.mean("x"), fe.rate("ok"), by="m", interval="bca")
    again = both.filter(pl.col("metric") == "rate(ok)", pl.col("m") == "b").drop("m")
    assert_frame_equal(again, alone)


def test_undefined_resamples_are_counted_or_make_a_null():
    few = pl.DataFrame({"y": [1, 1, 1, 0, 0, 0, 0, 0, 0, 0], "p": [1, 1, 0] + [0] * 7})
    found = row(few, fe.recall("y", "p"), interval="bootstrap")
    assert found["ci_low"] is None
    assert "resamples undefined" in found["note"]
    lost = int(found["note"].split(" of ")[0])
    assert_allclose(lost / 9999, 0.7**10, rtol=0.25)
    more = pl.concat([few, few])
    found = row(more, fe.recall("y", "p"), interval="basic")
    assert found["ci_low"] is not None
    assert "resamples undefined" in found["note"]


def test_constant_data_have_no_width_and_say_so():
    found = row(pl.DataFrame({"ok": [1] * 80}), fe.rate("ok"), interval="bootstrap")
    assert (found["ci_low"], found["ci_high"]) == (1, 1)
    assert found["note"] == "all resamples are alike"


def test_few_units_are_named():
    frame = pl.DataFrame({"x": np.arange(20.0)})
    note = row(frame, fe.mean("x"), interval="bootstrap")["note"]
    assert note == "percentile intervals are too short with 20 units"
    assert row(frame, fe.mean("x"), interval="bca")["note"] is None


def test_duplicated_rows_are_weights():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=50), "w": rng.integers(1, 4, 50)})
    found = row(frame, fe.mean("x"), weight="w", interval="bootstrap", resamples=20_000)
    linear = row(frame, fe.mean("x"), weight="w")
    assert_allclose(found["std_error"], linear["std_error"], rtol=0.05)
    assert_allclose(found["estimate"], np.average(frame["x"], weights=frame["w"]))


def test_a_copied_cluster_under_the_same_id_only_weighs_more():
    frame = two_systems(n=200, clusters=20).filter(pl.col("m") == "a")
    copied = pl.concat([frame, frame.filter(pl.col("doc") == 3)])
    found = row(copied, fe.mean("x"), cluster="doc", interval="bootstrap")
    assert found["clusters"] == 20
    twice = row(pl.concat([frame, frame]), fe.mean("x"), cluster="doc", interval="bootstrap")
    once = row(frame, fe.mean("x"), cluster="doc", interval="bootstrap")
    assert_allclose(twice["std_error"], once["std_error"], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resamples": 99}, "resamples=99"),
        ({"resamples": 1000.0}, "resamples=1000.0"),
        ({"seed": -1}, "seed=-1"),
        ({"level": 1.0}, "level=1.0"),
        ({"interval": "bootsrap"}, "did you mean 'bootstrap'"),
    ],
)
def test_bad_options(options, message):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
    with pytest.raises(fe.EvalError, match=f"(?i){message}"):
        fe.summary(frame, fe.mean("x"), **{"interval": "bootstrap", **options})


def test_what_a_metric_can_not_have():
    frame = two_systems()
    with pytest.raises(fe.EvalError, match="takes smooth metrics"):
        fe.summary(frame, fe.median("x"), interval="bca")
    with pytest.raises(fe.EvalError, match="use 'bca'"):
        fe.summary(frame, fe.roc_auc("y", "s"), interval="studentized")


def test_one_cluster_has_no_spread():
    frame = pl.DataFrame({"x": [1.0, 2.0, 5.0], "doc": ["a"] * 3})
    found = row(frame, fe.mean("x"), cluster="doc", interval="bootstrap")
    assert found["ci_low"] is None
    assert found["note"] == "one unit: no error can be estimated"


def test_quantiles_against_scipy():
    x = np.random.default_rng(5).gamma(2, size=41)
    oracle = stats.bootstrap((x,), np.median, method="percentile", n_resamples=20_000, rng=0)
    found = row(pl.DataFrame({"x": x}), fe.median("x"), interval="bootstrap", resamples=19_999)
    assert_allclose(found["std_error"], oracle.standard_error, rtol=0.04)
    # The limits are order statistics of the data.
    assert_allclose([found["ci_low"], found["ci_high"]], oracle.confidence_interval, atol=1e-9)


def test_a_studentized_limit_that_is_infinite_is_null_with_the_reason():
    # A quarter of the resamples are one row twice, on either side: they have no spread.
    frame = pl.DataFrame({"x": [1.0, 3.0]})
    row = frame.eval.summary(fe.mean("x"), interval="studentized").row(0, named=True)
    assert (row["ci_low"], row["ci_high"]) == (None, None)
    assert row["note"] == "too many resamples are without spread, and so without a t-statistic"
