"""Two-way clusters against statsmodels."""

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import frame_eval as fe


def ratings(seed=0, items=40, raters=15, each=6):
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), each)
    rater = np.concatenate([rng.choice(raters, each, replace=False) for _ in range(items)])
    wave = rng.normal(size=items)[item] + rng.normal(size=raters)[rater]
    return pl.DataFrame(
        {
            "item": item,
            "rater": rater,
            "lang": np.where(item % 2, "de", "sw"),
            "x": wave + rng.normal(size=len(item)),
            "ok": wave + rng.normal(size=len(item)) > 0,
            "y": rng.random(len(item)) < 0.5,
        }
    )


WAYS = fe.crossed("item", "rater")


@pytest.mark.parametrize("column", ["x", "ok"])
def test_against_statsmodels(column):
    frame = ratings()
    metric = fe.mean("x") if column == "x" else fe.rate("ok")
    row = frame.eval.summary(metric, cluster=WAYS, interval="cr1" if column == "x" else "auto")
    values = frame[column].cast(float).to_numpy()
    groups = frame.select("item", "rater").to_numpy()
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    plain = fit.cov_params().item()
    assert row["estimate"].item() == pytest.approx(values.mean(), rel=1e-12)
    assert row["clusters"].item() == 15
    if column == "x":
        # CR1 has its own factor for each of the three ways, statsmodels one for all.
        total = 0.0
        for way, sign in ((groups[:, 0], 1), (groups[:, 1], 1), (np.arange(len(values)), -1)):
            sums = np.bincount(way, values - values.mean()) / len(values)
            count = len(np.unique(way))
            total += sign * count / (count - 1) * np.sum(sums**2)
        assert_allclose(row["std_error"].item() ** 2, total, rtol=1e-9)
    assert_allclose(row["std_error"].item() ** 2, plain, rtol=0.15)


@pytest.mark.parametrize("metric", [fe.mean("x"), fe.rate("ok"), fe.f1("ok", "y"), fe.median("x")])
def test_a_mix_of_slices(metric):
    """The variance by item, plus by rater, less by both, each of the same mix."""
    frame = ratings()
    ask = {"by": "lang", "target": {"de": 0.8, "sw": 0.2}}
    ways = "item", "rater", ["item", "rater"]
    single = [frame.eval.poststratify(metric, cluster=way, **ask) for way in ways]
    one, other, both = (found["std_error"].item() ** 2 for found in single)
    row = frame.eval.poststratify(metric, cluster=WAYS, **ask).row(0, named=True)
    if metric.quantile is None:
        # A quantile's density is taken as wide as its error is.
        expected = max(one + other - both, one, other)
        assert_allclose(row["std_error"], np.sqrt(expected), rtol=1e-9)
    else:
        assert row["std_error"] > 0
    assert row["clusters"] == 15
    assert_allclose(row["estimate"], single[0]["estimate"].item(), rtol=1e-12)


@pytest.mark.parametrize("normalize", ["truth", "pred", "all"])
def test_shares_of_a_confusion_matrix(normalize):
    frame = ratings()
    found = frame.eval.confusion("y", "ok", normalize=normalize, by="lang", cluster=WAYS)
    side = {"truth": ("y", "truth"), "pred": ("ok", "predicted")}
    for row in found.iter_rows(named=True):
        rows = frame.filter(pl.col("lang") == row["lang"])
        if normalize in side:
            column, key = side[normalize]
            rows = rows.filter(pl.col(column) == row[key])
        hit = (pl.col("y") == row["truth"]) & (pl.col("ok") == row["predicted"])
        share = rows.with_columns(hit=hit).eval.summary(fe.rate("hit"), cluster=WAYS)
        columns = {
            "share": "estimate",
            "ci_low": "ci_low",
            "ci_high": "ci_high",
            "std_error": "std_error",
        }
        for ours, theirs in columns.items():
            assert_allclose(row[ours], share[theirs].item(), rtol=1e-9)


def test_rates_at_a_threshold():
    """The intervals of ``summary``, for the rates that a threshold gives."""
    frame = ratings()
    flagged = frame.with_columns(p=pl.col("x") >= 0.3)
    metrics = {
        "recall": fe.recall("y", "p"),
        "precision": fe.precision("y", "p"),
        "fpr": fe.fpr("y", "p"),
        "accuracy": fe.accuracy("y", "p"),
    }
    ask = {"by": "lang", "cluster": WAYS}
    found = frame.eval.operating_point("y", "x", 0.3, **ask)
    expected = flagged.eval.summary(*metrics.values(), **ask)
    for name, metric in metrics.items():
        rows = expected.filter(metric=metric.name)
        for end in ("low", "high"):
            assert_allclose(
                found[f"{name}_{end}"].to_numpy(), rows[f"ci_{end}"].to_numpy(), rtol=1e-9
            )


def test_a_cascade():
    frame = ratings()
    found = frame.eval.routing("y", "x", fallback="ok", by="lang", cluster=WAYS)
    for row in found[::40].iter_rows(named=True):
        kept = pl.col("x") >= row["threshold"]
        right = frame.filter(lang=row["lang"]).with_columns(
            right=pl.when(kept).then("y").otherwise("ok")
        )
        one = right.eval.summary(fe.rate("right"), cluster=WAYS).row(0, named=True)
        band = [row[name] for name in ("accuracy", "accuracy_low", "accuracy_high")]
        assert_allclose(band, [one[name] for name in ("estimate", "ci_low", "ci_high")], rtol=1e-9)


def test_rules_of_a_guard():
    frame = ratings()
    found = frame.eval.guard(fe.rule(fe.mean("x"), max=0.5), by="lang", cluster=WAYS).sort("lang")
    expected = frame.eval.summary(fe.mean("x"), by="lang", cluster=WAYS, level=0.9)
    assert_allclose(found["ci_high"].to_numpy(), expected["ci_high"].to_numpy(), rtol=1e-12)
    for ask in (
        lambda: frame.eval.summary(fe.mean("x"), cluster=WAYS, strata="lang"),
        lambda: frame.eval.guard(fe.rule(fe.mean("x"), max=1), cluster=WAYS, strata="lang"),
    ):
        with pytest.raises(fe.EvalError, match="without strata"):
            ask()


def judged(seed=3):
    """Every rater judged two systems on the same items."""
    one, other = ratings(0), ratings(0).with_columns(x=pl.col("x") * 0.7 + 0.4)
    noise = np.random.default_rng(seed).normal(size=other.height)
    other = other.with_columns(x=pl.col("x") + pl.Series(noise), ok=pl.col("x") > 0.5)
    return pl.concat([one.with_columns(m=pl.lit("a")), other.with_columns(m=pl.lit("b"))])


PAIRED = {"system": "m", "example": ["item", "rater"], "baseline": "a", "cluster": WAYS}


def test_rules_about_a_difference():
    frame = judged()
    rule = fe.rule(fe.mean("x", better="higher"), max_drop=0.1)
    found = frame.eval.guard(rule, by="lang", **PAIRED).sort("lang")
    expected = frame.eval.compare(fe.mean("x"), by="lang", level=0.9, **PAIRED).sort("lang")
    assert_allclose(found["ci_low"].to_numpy(), expected["ci_low"].to_numpy(), rtol=1e-9)
    narrow = frame.eval.guard(rule, by="lang", **{**PAIRED, "cluster": "item"}).sort("lang")
    assert (found["ci_low"] < narrow["ci_low"]).all()


def test_rules_relative_to_the_baseline():
    """The limits are those of b - 0.9 a, as a share of a."""
    frame = judged().with_columns(x=pl.col("x") + 5)
    rule = fe.rule(fe.mean("x", better="higher"), max_drop=0.1, relative=True)
    found = frame.eval.guard(rule, by="lang", **PAIRED).sort("lang")
    less = frame.with_columns(x=pl.when(pl.col("m") == "a").then(0.9 * pl.col("x")).otherwise("x"))
    shifted = less.eval.compare(fe.mean("x"), by="lang", level=0.9, **PAIRED).sort("lang")
    base = shifted["baseline_estimate"] / 0.9
    limits = zip(shifted["ci_low"] / base - 0.1, shifted["ci_high"] / base - 0.1, strict=True)
    for reason, (low, high) in zip(found["reason"], limits, strict=True):
        assert f"({low:.3g} to {high:.3g})" in reason


def test_a_mix_of_differences():
    frame, ask = judged(), {"by": "lang", "target": {"de": 0.8, "sw": 0.2}}
    ways = "item", "rater", ["item", "rater"]
    one, other, both = (
        frame.eval.poststratify(fe.mean("x"), **{**PAIRED, **ask, "cluster": way})[
            "std_error"
        ].item()
        ** 2
        for way in ways
    )
    found = frame.eval.poststratify(fe.mean("x"), **PAIRED, **ask).row(0, named=True)
    assert_allclose(found["std_error"] ** 2, max(one + other - both, one, other), rtol=1e-9)


def test_without_factors_it_is_statsmodels():
    frame = ratings()
    row = frame.eval.summary(fe.mean("x"), cluster=WAYS, interval="cr0")
    values = frame["x"].to_numpy()
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster",
        cov_kwds={"groups": frame.select("item", "rater").to_numpy(), "use_correction": False},
    )
    assert_allclose(row["std_error"].item() ** 2, fit.cov_params().item(), rtol=1e-9)


def test_it_is_wider_than_either_way_in_every_slice():
    frame = ratings()
    metrics = (fe.mean("x"), fe.rate("ok"), fe.f1("y", "ok"), fe.roc_auc("y", "x"))
    both = frame.eval.summary(*metrics, by="lang", cluster=WAYS)
    for way in ("item", "rater"):
        one = frame.eval.summary(*metrics, by="lang", cluster=way)
        assert (both["std_error"] >= one["std_error"] * (1 - 1e-12)).all()


def test_paired_differences_by_hand():
    """An example is an item and a rater."""
    frame, options = judged(), PAIRED
    one, other = (frame.filter(pl.col("m") == name) for name in "ab")
    row = frame.eval.compare(fe.mean("x"), method="cr1", **options).row(0, named=True)
    d = (other["x"] - one["x"]).to_numpy()
    total = 0.0
    for way, sign in ((one["item"], 1), (one["rater"], 1), (np.arange(len(d)), -1)):
        sums = np.bincount(np.asarray(way), d - d.mean()) / len(d)
        count = len(np.unique(np.asarray(way)))
        total += sign * count / (count - 1) * np.sum(sums**2)
    by_item = np.bincount(one["item"], d - d.mean()) / len(d)
    by_rater = np.bincount(one["rater"], d - d.mean()) / len(d)
    least = max(40 / 39 * np.sum(by_item**2), 15 / 14 * np.sum(by_rater**2))
    assert_allclose(row["std_error"] ** 2, max(total, least), rtol=1e-9)
    assert row["clusters"] == 15
    both = frame.eval.compare(fe.mean("x"), fe.rate("ok"), by="lang", **options)
    outside = (both["ci_low"] > 0) | (both["ci_high"] < 0)
    assert (outside == (both["p_value"] < 0.05)).all()
    for way in ("item", "rater"):
        alone = frame.eval.compare(
            fe.mean("x"), fe.rate("ok"), by="lang", **{**options, "cluster": way}
        )
        assert (both["std_error"] >= alone["std_error"] * (1 - 1e-12)).all()
    for bad in ({"method": "bootstrap"}, {"paired": False}):
        with pytest.raises(fe.EvalError, match="crossed clusters go with"):
            frame.eval.compare(fe.mean("x"), **{**options, **bad})


def test_what_it_does_not_go_with():
    frame = ratings()
    for options in ({"interval": "bootstrap"}, {"details": True}, {"strata": "lang"}):
        with pytest.raises(fe.EvalError, match="crossed clusters go with"):
            frame.eval.summary(fe.mean("x"), cluster=WAYS, **options)
    for verb in (frame.eval.worst, frame.eval.summary):
        with pytest.raises(fe.EvalError, match="without strata"):
            verb(fe.mean("x", better="higher"), by="lang", cluster=WAYS, strata="lang")
    for ask in (
        lambda: frame.eval.curve("roc", "y", "x", cluster=WAYS, strata="lang"),
        lambda: frame.eval.routing("y", "x", fallback="ok", cluster=WAYS, strata="lang"),
    ):
        with pytest.raises(fe.EvalError, match="without strata"):
            ask()
    with pytest.raises(fe.EvalError, match="two different sets"):
        fe.crossed("item", "item")
