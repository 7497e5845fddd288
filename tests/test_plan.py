"""``plan``: answers that agree with each other, with pilots by hand and with simulations."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.stats.power import TTestIndPower, TTestPower
from statsmodels.stats.proportion import power_proportions_2indep

import frame_eval as fe

ROLES = {"system": "model", "example": "id", "baseline": "old"}


def one(*args, **options):
    return fe.plan(*args, **options).row(0, named=True)


# Without a frame

WAYS = {
    "discordance": {"discordance": 0.2},
    "correlation": {"rate": 0.7, "correlation": 0.4},
    "unpaired": {"rate": 0.7, "paired": False},
    "one system": {"rate": 0.7, "systems": 1},
    "means": {"std_dev": 0.5},
    "unpaired means": {"std_dev": 0.5, "paired": False},
    "clusters": {"discordance": 0.2, "cluster_size": 10, "icc": 0.3},
    "trials": {"discordance": 0.2, "trials": 4, "trial_share": 0.5},
    "exact": {"discordance": 0.2, "method": "exact"},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_three_answers_agree(way):
    options = WAYS[way]
    found = one(n=300, **options)
    assert (found["solved"], found["power"]) == ("effect", 0.8)
    reached = one(n=300, effect=found["effect"], **options)
    assert reached["solved"] == "power"
    # The effect does not count the wrong side, the power does.
    assert_allclose(reached["power"], 0.8, atol=1e-6)
    needed = one(effect=found["effect"] * (1 + 1e-9), **options)
    assert (needed["solved"], needed["n"]) == ("n", 300)
    assert one(effect=-found["effect"] * (1 + 1e-9), **options)["n"] == 300


@pytest.mark.parametrize("way", WAYS)
def test_simulated_power_is_the_power(way):
    """Within what the normal approximation to counts is off by, and the simulation's error."""
    found = one(n=300, simulate=True, draws=20_000, **WAYS[way])
    assert abs(found["simulated_power"] - 0.8) < 0.025
    again = one(n=300, simulate=True, draws=20_000, **WAYS[way])
    assert found == again
    other = one(n=300, simulate=True, draws=20_000, seed=1, **WAYS[way])
    assert found["simulated_power"] != other["simulated_power"]


def test_simulation_rejects_as_often_as_statsmodels_says():
    found = one(n=400, effect=0.1, rate=0.5, paired=False, simulate=True, draws=40_000)
    peer = power_proportions_2indep(0.1, 0.45, 400).power
    assert abs(found["simulated_power"] - peer) < 0.015


@pytest.mark.parametrize("n", [5, 40])
def test_means_against_statsmodels(n):
    found = one(n=n, effect=0.3, std_dev=0.5)
    assert_allclose(found["power"], TTestPower().power(0.6, n, 0.05), rtol=1e-8)
    apart = one(n=n, effect=0.3, std_dev=0.5, paired=False)
    assert_allclose(apart["power"], TTestIndPower().power(0.6, n, 0.05), rtol=1e-8)


def test_every_combination_has_a_row():
    found = fe.plan(n=[100, 400], discordance=[0.1, 0.2], power=[0.5, 0.8])
    assert found.height == 8
    assert found["discordance"].to_list() == [0.1] * 4 + [0.2] * 4
    assert found["n"].to_list() == [100, 100, 400, 400] * 2
    single = [
        fe.plan(n=row["n"], discordance=row["discordance"], power=row["power"])
        for row in found.iter_rows(named=True)
    ]
    assert found.equals(pl.concat(single))


def test_four_times_the_examples_halve_the_effect():
    found = fe.plan(n=[250, 1000], discordance=0.2)["effect"]
    assert_allclose(found[0], 2 * found[1], rtol=1e-12)


def test_trials_divide_their_part_only():
    found = fe.plan(n=500, discordance=0.2, trial_share=0.6, trials=[1, 3, 1e6])
    variances = found["std_error"].to_numpy() ** 2 * 500
    assert_allclose(variances, [0.2, 0.2 * (0.4 + 0.2), 0.2 * 0.4], rtol=1e-5)


def test_an_effect_out_of_reach():
    found = one(n=10, discordance=0.1)
    assert (found["effect"], found["note"]) == (None, "no effect has this power with n examples")
    exact = one(n=10, discordance=0.1, method="exact")
    assert (exact["effect"], exact["note"]) == (None, found["note"])
    lone = one(n=10, std_dev=1.0, cluster_size=10, icc=0.1)
    assert (lone["effect"], lone["note"]) == (None, "fewer than two clusters")
    assert one(n=10, effect=1, std_dev=1.0, cluster_size=10, icc=0.1)["power"] is None


# With a pilot


def pilot(rng, clusters=30, size=6, gap=0.1, trials=1):
    """Two systems on the same questions, in documents that lean one way."""
    n = clusters * size
    lean = np.repeat(rng.normal(0, 0.15, clusters), size)
    frames = []
    for model, side in (("old", -1), ("new", 1)):
        p = np.clip(0.5 + side * (gap / 2 + lean), 0.02, 0.98)
        p = np.clip(p + rng.normal(0, 0.2, n) * (trials > 1), 0.02, 0.98)
        frames += [
            pl.DataFrame(
                {
                    "model": model,
                    "id": np.arange(n),
                    "doc": np.repeat(np.arange(clusters), size),
                    "trial": t,
                    "ok": rng.random(n) < p,
                    "cost": rng.exponential(1, n) + side * lean,
                }
            )
            for t in range(trials)
        ]
    return pl.concat(frames)


def wide(frame, column):
    """The differences new - old of all examples, and their documents."""
    both = frame.filter(pl.col("model") == "new").join(
        frame.filter(pl.col("model") == "old"), on=["id", "doc", "trial"]
    )
    both = both.sort("trial", "id")
    difference = both[column].cast(float) - both[f"{column}_right"].cast(float)
    return difference.to_numpy(), both["doc"].to_numpy()


def test_pilot_of_pairs_by_hand():
    frame = pilot(np.random.default_rng(1))
    d, _ = wide(frame, "ok")
    found = one(frame, fe.rate("ok"), effect=0.05, **ROLES)
    assert_allclose(found["discordance"], np.mean(d != 0), rtol=1e-12)
    assert_allclose(found["pilot_estimate"], d.mean(), rtol=1e-12)
    assert (found["pilot_n"], found["pilot_clusters"]) == (180, 180)
    assert found["n"] == one(effect=0.05, discordance=np.mean(d != 0))["n"]
    rights = frame.pivot("model", index="id", values="ok").select(pl.corr("old", "new")).item()
    assert_allclose(found["correlation"], rights, rtol=1e-10)
    assert_allclose(found["rate"], frame["ok"].mean(), rtol=1e-12)


def test_pilot_of_means_by_hand():
    frame = pilot(np.random.default_rng(2))
    d, _ = wide(frame, "cost")
    found = one(frame, fe.mean("cost"), effect=0.2, **ROLES)
    assert_allclose(found["std_dev"], d.std(ddof=1), rtol=1e-10)
    assert found["n"] == one(effect=0.2, std_dev=d.std(ddof=1))["n"]
    exact_t = fe.compare(frame, fe.mean("cost"), **ROLES)["std_error"].item()
    assert_allclose(one(frame, fe.mean("cost"), **ROLES)["std_error"], exact_t, rtol=1e-10)


@pytest.mark.parametrize(("metric", "column"), [(fe.rate, "ok"), (fe.mean, "cost")])
def test_pilot_with_clusters_by_hand(metric, column):
    """CR2 of clusters of one size is CR1, with C - 1 degrees of freedom."""
    frame = pilot(np.random.default_rng(3))
    d, doc = wide(frame, column)
    found = one(frame, metric(column), cluster="doc", **ROLES)
    means = np.bincount(doc, d) / 6
    effect = means.var(ddof=1) / 30 / (d.var(ddof=1) / 180)
    assert_allclose(found["design_effect"], effect, rtol=1e-10)
    assert_allclose(found["icc"], (effect - 1) / 5, rtol=1e-9)
    assert (found["cluster_size"], found["pilot_clusters"]) == (6, 30)
    assert_allclose(found["df"], 29, rtol=1e-9)
    again = {"cluster_size": 6, "icc": found["icc"]}
    again |= {"discordance": found["discordance"]} if column == "ok" else {"std_dev": d.std(ddof=1)}
    assert_allclose(one(n=180, **again)["effect"], found["effect"], rtol=1e-9)


def test_pilot_reaches_what_its_comparison_can():
    """Its own n has the error and degrees of freedom of ``compare``."""
    rng = np.random.default_rng(4)
    frame = pilot(rng).filter(pl.col("id") % 7 < pl.col("doc") % 5 + 2)
    found = one(frame, fe.mean("cost"), cluster="doc", **ROLES)
    row = fe.compare(frame, fe.mean("cost"), cluster="doc", **ROLES).row(0, named=True)
    assert_allclose(found["std_error"], row["std_error"], rtol=1e-10)
    assert f"{found['df']:.4g}" in row["method"]


def test_trials_by_hand():
    """One-way random effects: the mean squares within examples are those of a single trial."""
    k = 5
    frame = pilot(np.random.default_rng(5), trials=k)
    found = one(frame, fe.rate("ok"), trial="trial", **ROLES)
    within = 0
    for model in ("old", "new"):
        ok = frame.filter(pl.col("model") == model).sort("id", "trial")["ok"].cast(float)
        within += ok.to_numpy().reshape(-1, k).var(axis=1, ddof=1).mean()
    d = wide(frame, "ok")[0].reshape(k, -1).mean(0)
    between = d.var(ddof=1) - within / k
    assert_allclose(found["trial_share"], within / (within + between), rtol=1e-9)
    assert_allclose(found["std_dev"], d.std(ddof=1), rtol=1e-9)
    assert_allclose(found["trials"], k, rtol=1e-12)
    more = one(frame, fe.rate("ok"), trial="trial", trials=20, **ROLES)
    assert_allclose(more["std_dev"] ** 2, between + within / 20, rtol=1e-9)
    lists = fe.plan(frame, fe.rate("ok"), trial="trial", trials=[1, 20], effect=0.1, **ROLES)
    assert lists["n"][0] > lists["n"][1]


def test_trial_variance_is_found_again():
    """Unequal trials: the estimated parts are, over many pilots, those of the simulation."""
    rng = np.random.default_rng(6)
    n = 4000
    counts = rng.integers(1, 5, n)
    sides = []
    for model in ("old", "new"):
        truth = rng.normal(0, 1, n)
        ids = np.repeat(np.arange(n), counts)
        trial = np.concatenate([np.arange(c) for c in counts])
        x = truth[ids] + rng.normal(0, 2, len(ids))
        sides.append(pl.DataFrame({"model": model, "id": ids, "trial": trial, "x": x}))
    found = one(pl.concat(sides), fe.mean("x"), trial="trial", **ROLES)
    assert_allclose(found["trial_share"], 8 / (8 + 2), atol=0.02)
    assert_allclose(found["trials"], n / np.sum(1 / counts), rtol=1e-6)


def test_unpaired_pilot():
    frame = pilot(np.random.default_rng(7)).filter(
        (pl.col("model") == "new") | (pl.col("id") < 100)
    )
    roles = {"system": "model", "baseline": "old", "paired": False}
    found = one(frame, fe.rate("ok"), effect=0.05, **roles)
    rates = frame.group_by("model").agg(pl.col("ok").mean())["ok"]
    assert found["n"] == one(effect=0.05, rate=rates.mean(), paired=False)["n"]
    means = one(frame, fe.mean("cost"), **roles)
    row = fe.compare(frame, fe.mean("cost"), **roles).row(0, named=True)
    old, new = (frame.filter(pl.col("model") == m)["cost"].to_numpy() for m in ("old", "new"))
    welch = stats.ttest_ind(new, old, equal_var=False)
    # The harmonic mean of both sizes is rounded to examples.
    n = 2 / (1 / len(old) + 1 / len(new))
    assert means["n"] == round(n)
    assert_allclose((means["df"] + 2) / means["n"], (welch.df + 2) / n, rtol=1e-9)
    assert_allclose(row["difference"] / row["std_error"], welch.statistic, rtol=1e-9)
    pooled = np.sqrt((old.var(ddof=1) + new.var(ddof=1)) / 2)
    assert_allclose(means["std_dev"], pooled, rtol=1e-10)
    clustered = one(frame, fe.mean("cost"), cluster="doc", **roles)
    assert clustered["cluster_size"] > 1
    assert clustered["df"] < means["df"]


def test_one_system_pilot():
    frame = pilot(np.random.default_rng(8))
    found = fe.plan(frame, fe.rate("ok"), systems=1, n=100, system="model")
    assert found["model"].to_list() == ["new", "old"]
    for row in found.iter_rows(named=True):
        rate = frame.filter(pl.col("model") == row["model"])["ok"].mean()
        assert_allclose(row["effect"], one(n=100, rate=rate, systems=1)["effect"], rtol=1e-12)
    clustered = fe.plan(frame, fe.rate("ok"), systems=1, system="model", cluster="doc")
    errors = fe.summary(frame, fe.rate("ok"), system="model", cluster="doc")["std_error"]
    assert (clustered["design_effect"] >= 1).all()
    wider = clustered.filter(pl.col("design_effect") > 1)
    assert wider.height
    # The variance of a rate is over n here, over n - 1 in its error.
    kept = errors.filter(clustered["design_effect"] > 1)
    assert_allclose(wider["std_error"], kept * np.sqrt(179 / 180), rtol=1e-9)


def test_simulation_from_the_clusters_of_a_pilot():
    """Its power is that of drawing documents anew and calling ``compare``."""
    rng = np.random.default_rng(9)
    frame = pilot(rng, clusters=20)
    effect, draws = 0.12, 400
    options = {**ROLES, "cluster": "doc"}
    found = one(frame, fe.rate("ok"), n=120, effect=effect, simulate=True, draws=4000, **options)
    d, doc = wide(frame, "ok")
    x = d - d.mean() + effect
    rows = []
    for draw in range(draws):
        chosen = rng.integers(0, 20, 20)
        rows += [
            pl.DataFrame(
                {
                    "draw": draw,
                    "doc": np.repeat(np.arange(20), 6) + 20 * draw,
                    "id": np.arange(120) + 120 * draw,
                    "x": np.concatenate([x[doc == c] for c in chosen]),
                }
            )
        ]
    drawn = pl.concat(rows)
    both = pl.concat(
        [
            drawn.with_columns(model=pl.lit("new")),
            drawn.with_columns(model=pl.lit("old"), x=pl.lit(0.0)),
        ]
    )
    p = both.eval.compare(fe.mean("x"), by="draw", **options)["p_value"]
    expected = (p < 0.05).mean()
    assert abs(found["simulated_power"] - expected) < 4 * np.sqrt(0.25 / draws)


def test_slices_pairs_and_metrics():
    frame = pilot(np.random.default_rng(10)).with_columns(lang=pl.col("id") % 3)
    third = frame.filter(pl.col("model") == "old").with_columns(model=pl.lit("older"))
    frame = pl.concat([frame, third])
    found = fe.plan(
        frame,
        fe.rate("ok"),
        fe.mean("cost"),
        by="lang",
        effect=[0.1, 0.2],
        system="model",
        example="id",
    )
    keys = fe.compare(
        frame, fe.rate("ok"), fe.mean("cost"), by="lang", system="model", example="id"
    ).select("lang", "metric", "system", "baseline")
    assert found.select(keys.columns).gather_every(2).equals(keys)
    assert found["effect"].to_list() == [0.1, 0.2] * keys.height
    # "older" is "old": no variance.
    same = found.filter(pl.col("system") == "older", pl.col("baseline") == "old")
    assert same["note"].unique().to_list() == ["no variance in the pilot"]
    assert same["n"].null_count() == same.height
    assert found.filter(pl.col("note").is_null())["n"].null_count() == 0


def test_engines_and_doors(engine):
    frame = pilot(np.random.default_rng(11)).with_columns(lang=pl.col("id") % 3)
    want = fe.plan(frame, fe.rate("ok"), by="lang", cluster="doc", **ROLES)
    found = fe.of(engine(frame)).roles(system="model", example="id", cluster="doc")
    result = found.plan(fe.rate("ok"), by="lang", baseline="old")
    if isinstance(result, pd.DataFrame):
        assert isinstance(result.index, pd.RangeIndex)
        result = pl.from_pandas(result)
    assert result.columns == want.columns
    for name in want.columns:
        if want[name].dtype == pl.Float64:
            assert_allclose(result[name].cast(float), want[name], rtol=1e-12)
        else:
            assert result[name].to_list() == want[name].to_list()


def test_auc_and_per_class_metrics():
    rng = np.random.default_rng(12)
    y = np.tile(rng.integers(0, 2, 300), 2)
    frame = pl.DataFrame(
        {
            "model": ["old"] * 300 + ["new"] * 300,
            "id": np.tile(np.arange(300), 2),
            "y": y,
            "score": y + rng.normal(0, 1, 600),
            "pred": np.where(rng.random(600) < 0.7, y, 1 - y),
        }
    )
    found = one(frame, fe.roc_auc("y", "score"), **ROLES)
    error = fe.compare(frame, fe.roc_auc("y", "score"), **ROLES)["std_error"].item()
    assert_allclose(found["std_error"], error, rtol=0.01)
    for paired in (True, False):
        options = {**ROLES, "paired": paired, "example": "id" if paired else None}
        found = one(frame, fe.f1("y", "pred"), **options)
        error = fe.compare(frame, fe.f1("y", "pred"), **options)["std_error"].item()
        assert_allclose(found["std_error"], error, rtol=0.01)
    classes = fe.plan(frame, fe.f1("y", "pred", average=None), effect=0.05, **ROLES)
    assert classes["class"].to_list() == [0, 1]


def test_a_difference_that_the_pilot_has_not_is_null():
    frame = pl.DataFrame({"model": ["old"] * 2 + ["new"] * 2, "id": [1, 2] * 2, "y": [0] * 4})
    found = fe.plan(frame, fe.recall("y", "y"), effect=0.1, **ROLES)
    assert found.select("pilot_estimate", "pilot_n", "n").row(0) == (None, 0, None)


def test_a_slice_that_has_no_answer_says_why():
    """And leaves the others theirs."""
    frame = pl.DataFrame(
        {
            "model": ["old"] * 12 + ["new"] * 12,
            "id": [*range(12)] * 2,
            "doc": [0] * 4 + [1, 1, 2, 2] + [3, 4, 5, 6] + [0] * 4 + [1, 1, 2, 2] + [3, 4, 5, 6],
            "lang": (["one document"] * 4 + ["two"] * 4 + ["singles"] * 4) * 2,
            "ok": [1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0],
        }
    )
    found = fe.plan(frame, fe.rate("ok"), by="lang", cluster="doc", effect=0.4, **ROLES)
    assert found["lang"].to_list() == ["one document", "singles", "two"]
    first, second, third = found.iter_rows(named=True)
    assert (first["n"], first["note"]) == (None, "fewer than two clusters in the pilot")
    assert (second["n"], second["note"][:43]) == (
        None,
        "effect larger than the discordance, 0.25: t",
    )
    assert third["note"][:35] == "effect larger than the discordance,"
    small = fe.plan(frame, fe.rate("ok"), by="lang", effect=0.2, **ROLES)
    assert small["note"].null_count() == 3


# What is refused

FRAME = pilot(np.random.default_rng(13))
ERRORS = {
    "nothing": (lambda: fe.plan(), "say n= .* effect= .* both"),
    "everything": (lambda: fe.plan(n=5, effect=0.1, power=0.8, discordance=0.2), "leave out"),
    "no effect": (lambda: fe.plan(effect=0, discordance=0.2), "effect=0 is no effect"),
    "one of several effects": (lambda: fe.plan(effect=[0.1, 0], discordance=0.2), "effect=0"),
    "small discordance": (
        lambda: fe.plan(effect=0.3, discordance=0.2),
        r"effect=0.3 is larger than the discordance, 0.2",
    ),
    "rate over 1": (lambda: fe.plan(n=50, rate=1.2, paired=False), "rate=1.2 .* between 0 and 1"),
    "rate of 1": (lambda: fe.plan(n=50, rate=1, systems=1), "rate=1 .* between 0 and 1"),
    "no room": (
        lambda: fe.plan(effect=0.3, rate=0.9, paired=False),
        "effect=0.3 is more than a rate of 0.9 leaves room for",
    ),
    "no power": (
        lambda: fe.plan(n=50, discordance=0.2, power=0.05, level=0.95),
        "power=0.05 is not over 1 - level = 0.05",
    ),
    "all power": (lambda: fe.plan(n=50, discordance=0.2, power=1), "power=1 .*between 0 and 1"),
    "one example": (lambda: fe.plan(n=1, discordance=0.2), "n=1 .*at least 2"),
    "half an example": (lambda: fe.plan(n=10.5, discordance=0.2), "n=10.5 .* whole number"),
    "a word": (lambda: fe.plan(n="many", discordance=0.2), "n='m' is not a number"),
    "not a number": (lambda: fe.plan(n=50, discordance=float("nan")), "discordance=nan"),
    "empty": (lambda: fe.plan(n=[], discordance=0.2), "n=.. is empty"),
    "level": (lambda: fe.plan(n=50, discordance=0.2, level=95), "level=95"),
    "method": (lambda: fe.plan(n=50, discordance=0.2, method="exakt"), "Did you mean 'exact'"),
    "no variation": (lambda: fe.plan(n=50), "discordance= or rate= or std_dev=, or pass a pilot"),
    "variation twice": (lambda: fe.plan(n=50, discordance=0.2, std_dev=1), "in one way"),
    "rate of pairs": (lambda: fe.plan(n=50, rate=0.7), "rate= .* needs correlation="),
    "correlation of others": (
        lambda: fe.plan(n=50, rate=0.7, correlation=0.5, paired=False),
        "correlation= goes with",
    ),
    "discordance of others": (
        lambda: fe.plan(n=50, discordance=0.2, paired=False),
        "discordance= is about pairs; with design 'unpaired' say rate= or std_dev=",
    ),
    "never differ": (lambda: fe.plan(n=50, discordance=0), "discordance=0"),
    "clusters without correlation": (
        lambda: fe.plan(n=50, discordance=0.2, cluster_size=5),
        "cluster_size= needs icc=",
    ),
    "trials without share": (
        lambda: fe.plan(n=50, discordance=0.2, trials=5),
        "trials= needs trial_share=",
    ),
    "exact of clusters": (
        lambda: fe.plan(n=50, discordance=0.2, cluster_size=5, icc=0.1, method="exact"),
        "method='exact' is McNemar's test",
    ),
    "one unpaired": (lambda: fe.plan(n=50, rate=0.7, systems=1, paired=False), "fixed bar"),
    "roles without a frame": (lambda: fe.plan(n=50, discordance=0.2, system="m"), "about a frame"),
    "a metric for a frame": (lambda: fe.plan(fe.rate("ok"), n=50), r"fe.plan\(frame, metric"),
    "a frame and assumptions": (
        lambda: fe.plan(FRAME, fe.rate("ok"), discordance=0.2, **ROLES),
        "discordance= comes from the frame",
    ),
    "no metric": (lambda: fe.plan(FRAME, n=50, **ROLES), "at least one metric"),
    "no system": (lambda: fe.plan(FRAME, fe.rate("ok"), n=50), "say system="),
    "trials that the pilot has not": (
        lambda: fe.plan(FRAME, fe.rate("ok"), trials=4, **ROLES),
        "trials=4 needs a pilot with several trials",
    ),
    "a quantile": (
        lambda: fe.plan(FRAME, fe.median("cost"), **ROLES),
        "has no variance by example",
    ),
    "a taken name": (
        lambda: fe.plan(FRAME.with_columns(effect=1), fe.rate("ok"), by="effect", **ROLES),
        "'effect' has the name of a result column",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message = ERRORS[case]
    with pytest.raises(fe.EvalError, match=message):
        call()


def test_two_clusters_are_the_least_that_an_effect_is_planned_with():
    rng = np.random.default_rng(0)
    pilot = pl.DataFrame(
        {
            "model": ["a"] * 24 + ["b"] * 24,
            "id": [*range(24)] * 2,
            "doc": [i // 4 for i in range(24)] * 2,
            "x": rng.random(48) / 100,
        }
    )
    roles = {"system": "model", "example": "id", "cluster": "doc"}
    row = pilot.eval.plan(fe.mean("x"), effect=1.0, **roles).row(0, named=True)
    assert row["df"] >= 1 > row["df"] - 1 / row["cluster_size"]
    few = pilot.eval.plan(fe.mean("x"), n=row["n"] - 1, **roles)
    assert few.select("effect", "note").row(0) == (None, "fewer than two clusters")
