"""The slices worst first, against tests by hand and against what chance does."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from scipy import stats
from statsmodels.stats.proportion import proportions_ztest

import frame_eval as fe


def rows(seed=0, n=900, slices=6, docs=45, spread=0.0):
    rng = np.random.default_rng(seed)
    lang = rng.choice(list("abcdefghij")[:slices], n)
    doc = rng.integers(0, docs, n)
    level = 0.75 + spread * (np.char.encode(lang, "ascii").view(np.uint8) - 97) / slices
    wave = rng.normal(0, 0.8, docs)[doc]
    p = stats.norm.cdf(stats.norm.ppf(np.clip(level, 0.02, 0.98)) + wave)
    return pl.DataFrame(
        {
            "lang": lang,
            "doc": doc,
            "ok": rng.random(n) < p,
            "x": rng.exponential(size=n) + wave,
            "y": rng.random(n) < 0.4,
            "s": rng.normal(size=n),
        }
    )


def test_the_columns_are_those_of_summary_and_more():
    frame = rows()
    found = frame.eval.worst(fe.rate("ok"), by="lang")
    assert found["estimate"].is_sorted()
    assert found["rank"].to_list() == [1, 2, 3, 4, 5, 6]
    summary = frame.eval.summary(fe.rate("ok"), by="lang", simultaneous=True)
    shared = ["lang", "metric", "estimate", "std_error", "ci_low", "ci_high", "n", "clusters"]
    assert_frame_equal(found.sort("lang").select(shared), summary.select(shared))


@pytest.mark.parametrize("metric", ["rate", "recall", "auc", "mean"])
@pytest.mark.parametrize("cluster", [None, "doc"])
def test_the_rest_is_the_metric_of_the_other_rows(metric, cluster):
    frame = rows()
    made = {
        "rate": fe.rate("ok"),
        "recall": fe.recall("y", "ok"),
        "auc": fe.roc_auc("y", "s"),
        "mean": fe.mean("x", better="higher"),
    }[metric]
    found = frame.eval.worst(made, by="lang", cluster=cluster)
    for row in found.iter_rows(named=True):
        rest = frame.filter(pl.col("lang") != row["lang"]).eval.summary(made)
        assert_allclose(row["rest"], rest["estimate"].item(), rtol=1e-12)
        assert_allclose(row["difference"], row["estimate"] - row["rest"], rtol=1e-9, atol=1e-15)


def test_rates_have_the_pooled_test_of_two_proportions():
    frame = rows()
    for row in frame.eval.worst(fe.rate("ok"), by="lang").iter_rows(named=True):
        inside = frame["lang"] == row["lang"]
        a, b = frame.filter(inside)["ok"], frame.filter(~inside)["ok"]
        oracle = proportions_ztest([a.sum(), b.sum()], [len(a), len(b)], alternative="smaller")
        assert_allclose(row["p_value"], oracle[1], rtol=1e-9)


def test_means_have_the_test_of_welch():
    frame = rows()
    for row in frame.eval.worst(fe.mean("x", better="lower"), by="lang").iter_rows(named=True):
        inside = frame["lang"] == row["lang"]
        a, b = frame.filter(inside)["x"], frame.filter(~inside)["x"]
        oracle = stats.ttest_ind(a, b, equal_var=False, alternative="greater")
        assert_allclose(row["p_value"], oracle.pvalue, rtol=1e-9)


def test_clusters_in_slice_and_rest_count_with_their_covariance():
    """CR2 of two samples that share clusters, by hand."""
    frame = rows()
    lang, doc, x = frame["lang"].to_numpy(), frame["doc"].to_numpy(), frame["x"].to_numpy()
    found = frame.eval.worst(fe.mean("x", better="higher"), by="lang", cluster="doc")
    for row in found.iter_rows(named=True):
        total, t = np.zeros(45), row["difference"]
        for inside, sign in ((lang == row["lang"], 1), (lang != row["lang"], -1)):
            off = np.bincount(doc, np.where(inside, x - x[inside].mean(), 0), 45) / inside.sum()
            share = np.bincount(doc, inside, 45) / inside.sum()
            total += sign * off / np.sqrt(1 - share)
        t /= np.sqrt(np.sum(total**2))
        # Welch's degrees of freedom, from those of both sides alone (which have oracles elsewhere).
        inside = pl.col("lang") == row["lang"]
        sides = [
            frame.filter(side).eval.summary(fe.mean("x"), cluster="doc", details=True)
            for side in (inside, ~inside)
        ]
        spread, df = (np.array([s[name].item() for s in sides]) for name in ("std_error", "df"))
        welch = np.sum(spread**2) ** 2 / np.sum(spread**4 / df)
        assert_allclose(row["p_value"], stats.t(welch).cdf(t), rtol=1e-9)


def test_holm_and_order():
    found = rows(spread=0.2).eval.worst(fe.rate("ok"), by="lang")
    p = found["p_value"].to_numpy()
    order = np.argsort(p)
    holm = np.minimum(np.maximum.accumulate(p[order] * (6 - np.arange(6))), 1)
    assert_allclose(found["p_adjusted"].to_numpy()[order], holm, rtol=1e-12)


def test_lower_is_better_turns_the_order():
    frame = rows().with_columns(wrong=~pl.col("ok"))
    up = frame.eval.worst(fe.mean("x", better="higher"), by="lang")
    down = frame.with_columns(-pl.col("x")).eval.worst(fe.mean("x", better="lower"), by="lang")
    assert up["lang"].to_list() == down["lang"].to_list()
    for name in ("p_value", "p_adjusted", "rank_low", "rank_high"):
        assert_allclose(up[name], down[name], rtol=1e-9)


def test_tiny_slices_stand_apart():
    frame = pl.concat(
        [rows().select("lang", "ok"), pl.DataFrame({"lang": ["zz"] * 4, "ok": [False] * 4})]
    )
    found = frame.eval.worst(fe.rate("ok"), by="lang")
    last = found.row(-1, named=True)
    assert (last["lang"], last["rank"], last["n"]) == ("zz", None, 4)
    assert last["note"].startswith("fewer than min_n=10 rows")
    assert last["p_value"] is None
    ranked = frame.eval.worst(fe.rate("ok"), by="lang", min_n=1)
    assert ranked.row(0, named=True)["lang"] == "zz"
    # Four wrong of four at a rate of .75: as improbable as the score test says, not impossible.
    assert 1e-5 < ranked["p_value"][0] < 0.01


def test_clear_slices_have_one_rank_and_like_ones_all():
    rate = {"a": 0.2, "b": 0.5, "c": 0.8}
    frame = pl.DataFrame(
        {
            "lang": np.repeat(list(rate), 400),
            "ok": np.concatenate([np.arange(400) < 400 * p for p in rate.values()]),
        }
    )
    found = frame.eval.worst(fe.rate("ok"), by="lang")
    assert found.select("lang", "rank_low", "rank_high").rows() == [
        ("a", 1, 1),
        ("b", 2, 2),
        ("c", 3, 3),
    ]
    alike = frame.with_columns(ok=pl.Series([True, False] * 600))
    found = alike.eval.worst(fe.rate("ok"), by="lang")
    assert set(found["rank_low"]) == {1}
    assert set(found["rank_high"]) == {3}


def test_pooled_estimates_lie_between_the_raw_ones_and_their_mean():
    frame = pl.concat(
        [
            rows(n=3000, spread=0.1).select("lang", "ok", "doc"),
            pl.DataFrame(
                {"lang": ["tiny"] * 12, "ok": [False] * 9 + [True] * 3, "doc": np.arange(12) % 9}
            ),
        ]
    )
    for cluster in (None, "doc"):
        found = frame.eval.worst(fe.rate("ok"), by="lang", cluster=cluster)
        tiny = found.row(0, named=True)
        assert tiny["lang"] == "tiny"
        large = found.filter(pl.col("lang") != "tiny")
        low, high = large["estimate"].min(), large["estimate"].max()
        assert low - 0.05 < tiny["pooled"] < high
        moved = (large["pooled"] - large["estimate"]).abs().max()
        assert moved < 0.25 * (tiny["pooled"] - tiny["estimate"])
        assert (found["pooled_low"] < found["pooled"]).all()
    two = rows().filter(pl.col("lang").is_in(["a", "b"])).eval.worst(fe.rate("ok"), by="lang")
    assert two["pooled"].null_count() == 2
    f1 = rows().eval.worst(fe.f1("y", "ok"), by="lang")
    assert (f1["pooled"] - f1["estimate"]).abs().max() < 0.2


def test_relabelling_slices_permutes_rows():
    frame = rows()
    names = dict(zip("abcdef", "fbdaec", strict=True))
    renamed = frame.with_columns(pl.col("lang").replace(names))
    for cluster in (None, "doc"):
        first = frame.eval.worst(fe.rate("ok"), by="lang", cluster=cluster)
        second = renamed.eval.worst(fe.rate("ok"), by="lang", cluster=cluster)
        first = first.with_columns(pl.col("lang").replace(names))
        assert_frame_equal(first, second, rel_tol=1e-9)


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_overlapping_slices_have_the_rest_of_all_rows(cluster):
    frame = rows().with_columns(long=pl.col("x") > 1.5, who=pl.col("doc") % 3)
    found = frame.eval.worst(fe.rate("ok"), by=fe.each("lang", "who"), cluster=cluster)
    assert "overall" not in found["slice"]
    assert found.height == 6 + 3
    for row in found.iter_rows(named=True):
        rest = frame.filter(pl.col(row["slice"]).cast(pl.String) != row["value"])
        assert_allclose(row["rest"], rest["ok"].mean(), rtol=1e-12)
    alone = frame.eval.worst(fe.rate("ok"), by="who", cluster=cluster)
    part = found.filter(pl.col("slice") == "who")
    assert_allclose(part.sort("value")["p_value"], alone.sort("who")["p_value"], rtol=1e-9)
    # Intervals hold for the larger family too.
    assert (part.sort("value")["ci_low"] < alone.sort("who")["ci_low"]).all()
    named = frame.eval.worst(fe.rate("ok"), by=fe.where(long=pl.col("x") > 1.5), cluster=cluster)
    assert_allclose(named["rest"].item(), frame.filter(~pl.col("long"))["ok"].mean(), rtol=1e-12)


def test_systems_are_judged_apart():
    frame = pl.concat([rows(0).with_columns(m=pl.lit("a")), rows(1).with_columns(m=pl.lit("b"))])
    both = frame.eval.worst(fe.rate("ok"), by="lang", system="m", cluster="doc")
    for name in ("a", "b"):
        one = frame.filter(pl.col("m") == name).eval.worst(fe.rate("ok"), by="lang", cluster="doc")
        part = both.filter(pl.col("m") == name).drop("m")
        assert_frame_equal(part, one, rel_tol=1e-9)


def test_any_engine_and_order(engine):
    frame = rows()
    expected = frame.eval.worst(fe.rate("ok"), by="lang", cluster="doc", resamples=999)
    given = engine(frame.sample(fraction=1, shuffle=True, seed=1))
    found = fe.of(given).worst(fe.rate("ok"), by="lang", cluster="doc", resamples=999)
    if isinstance(found, pd.DataFrame):
        found = pl.from_pandas(found)
    numbers = ["estimate", "ci_low", "ci_high", "rest", "p_value", "p_adjusted", "rank_high"]
    assert_frame_equal(
        found.select(numbers), expected.select(numbers), rel_tol=1e-9, check_dtypes=False
    )


def test_the_worst_of_many_like_slices_is_found_no_more_often_than_promised():
    """Ten slices of one rate over clusters: the smallest adjusted p, and the lowest interval."""
    false_alarms, covered, total = 0, 0, 150
    for seed in range(total):
        frame = rows(seed, n=1500, slices=10, docs=40)
        found = frame.eval.worst(fe.rate("ok"), by="lang", cluster="doc", resamples=399)
        false_alarms += found["p_adjusted"].min() < 0.05
        # The rate of all: the normal wave of the clusters flattens 0.75.
        rate = stats.norm.cdf(stats.norm.ppf(0.75) / np.sqrt(1 + 0.8**2))
        covered += found.filter(pl.col("ci_low") <= rate, pl.col("ci_high") >= rate).height == 10
    assert false_alarms <= stats.binom(total, 0.05).ppf(0.9995)
    assert covered >= stats.binom(total, 0.94).ppf(0.0005)


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (fe.mean("x"), {}, "better="),
        (fe.f1("y", "ok", average=None), {}, "average=None"),
        (fe.rate("ok"), {"by": None}, "say by="),
        (fe.rate("ok"), {"by": "lung"}, "did you mean 'lang'"),
        (fe.rate("ok"), {"level": 0}, "level=0"),
        (fe.rate("ok"), {"resamples": 10}, "resamples=10"),
        (fe.rate("ok"), {"interval": "bca"}, "analytic"),
        (fe.rate("ok"), {"interval": None}, "has no errors"),
    ],
)
def test_bad_input(metric, options, message):
    with pytest.raises(fe.EvalError, match=f"(?i){message}"):
        rows().eval.worst(metric, **{"by": "lang", **options})
