"""Non-inferiority, equivalence, detectable effects, and the tests by name."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

import frame_eval as fe
from frame_eval.inference.wild import wild

ROLES = {"system": "m", "example": "id", "baseline": "a"}


def pairs(n=80, docs=20, seed=0, shift=0.05):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=n)
    frames = [
        pl.DataFrame(
            {
                "m": [name] * n,
                "id": np.arange(n),
                "doc": np.arange(n) % docs,
                "x": base + rng.normal(0, 0.3, n) + by,
                "ok": base + rng.normal(size=n) > -0.5 - by,
            }
        )
        for name, by in (("a", 0.0), ("b", shift))
    ]
    return pl.concat(frames)


def wide(frame, column):
    b, a = (frame.filter(pl.col("m") == name)[column].to_numpy() for name in "ba")
    return b.astype(float), a.astype(float)


@pytest.mark.parametrize("margin", [0.05, 0.1, 0.3])
def test_means_against_two_one_sided_t_tests(margin):
    frame = pairs()
    row = fe.compare(frame, fe.mean("x", better="higher"), margin=margin, **ROLES)
    p, lower, upper = ttost_paired(*wide(frame, "x"), -margin, margin)
    assert_allclose(row["p_equivalent"].item(), p, rtol=1e-6)
    assert_allclose(row["p_noninferior"].item(), lower[1], rtol=1e-6)
    turned = fe.compare(frame, fe.mean("x", better="lower"), margin=margin, **ROLES)
    assert_allclose(turned["p_noninferior"].item(), upper[1], rtol=1e-6)


@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("metric", [fe.mean("x", better="higher"), fe.rate("ok")])
def test_p_is_small_exactly_when_the_interval_stays_inside(cluster, paired, metric):
    frame = pairs()
    options = {**ROLES, "cluster": cluster, "paired": paired, "level": 0.9}
    row = fe.compare(frame, metric, **options).row(0, named=True)
    for limit, sign in ((row["ci_low"], -1), (row["ci_high"], 1)):
        edge = limit * sign
        if edge <= 0:
            continue
        for step, inside in ((1.001, True), (0.999, False)):
            found = fe.compare(frame, metric, margin=edge * step, **options).row(0, named=True)
            p = found["p_noninferior"] if sign < 0 else found["p_equivalent"]
            other = max(-row["ci_low"], row["ci_high"]) <= edge * step
            assert (p < 0.05) == (inside if sign < 0 else other)


def test_the_difference_at_the_margin_has_p_one_half():
    frame = pairs()
    metric = fe.mean("x", better="higher")
    difference = fe.compare(frame, metric, **ROLES)["difference"].item()
    found = fe.compare(frame, metric, margin=abs(difference), **ROLES)
    p = found["p_equivalent"].item()
    assert_allclose(p, 0.5, atol=1e-9)


def test_detectable_effects():
    frame = pairs()
    row = fe.compare(frame, fe.mean("x"), mde=True, **ROLES).row(0, named=True)
    effect, critical = row["mde"] / row["std_error"], stats.t(79).ppf(0.975)
    assert_allclose(stats.nct(79, effect).sf(critical), 0.8, rtol=1e-6)
    row = fe.compare(frame, fe.rate("ok"), mde=True, **ROLES).row(0, named=True)
    assert_allclose(row["mde"], (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * row["std_error"])
    assert "mde" not in fe.compare(frame, fe.rate("ok"), **ROLES).columns


def test_wilcoxon_by_name():
    frame = pairs()
    row = fe.compare(frame, fe.mean("x"), method="wilcoxon", **ROLES).row(0, named=True)
    b, a = wide(frame, "x")
    d = b - a
    assert_allclose(row["p_value"], stats.wilcoxon(d).pvalue, rtol=1e-9)
    first, second = np.triu_indices(len(d))
    assert_allclose(row["difference"], np.median((d[first] + d[second]) / 2), rtol=1e-9)
    assert row["method"] == "Wilcoxon signed rank, Hodges-Lehmann"
    for options in ({"cluster": "doc"}, {"weight": "id"}, {"paired": False}):
        with pytest.raises(fe.EvalError, match="wilcoxon"):
            fe.compare(
                frame.with_columns(pl.col("id") + 1),
                fe.mean("x"),
                method="wilcoxon",
                **{**ROLES, **options},
            )
    with pytest.raises(fe.EvalError, match="needs a value per example"):
        fe.compare(frame, fe.rmse("x", "id"), method="wilcoxon", **ROLES)


def test_wilcoxon_of_slices():
    frame = pairs(200).with_columns(lang=pl.col("id") % 3)
    found = fe.compare(frame, fe.mean("x"), by="lang", method="wilcoxon", **ROLES)
    for row in found.iter_rows(named=True):
        b, a = wide(frame.filter(pl.col("lang") == row["lang"]), "x")
        assert_allclose(row["p_value"], stats.wilcoxon(b - a).pvalue, rtol=1e-9)


def test_the_wild_bootstrap_by_name():
    frame = pairs(docs=9, shift=0.1)
    options = {**ROLES, "cluster": "doc", "method": "wild"}
    row = fe.compare(frame, fe.mean("x"), **options).row(0, named=True)
    assert row["method"] == "wild cluster bootstrap, exact"
    b, a = wide(frame, "x")
    doc = np.arange(80) % 9
    share = np.bincount(doc) / 80
    total = np.bincount(doc, b - a) / 80
    estimate = (b - a).mean()
    influence = total - estimate * share
    expected = wild(influence, share, np.zeros(9, int), np.array([estimate]))[0]
    assert_allclose(row["p_value"], expected, rtol=1e-12)
    assert row["ci_low"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0}, "margin=0"),
        ({"margin": -0.1}, "margin=-0.1"),
        ({"margin": 0.1, "method": "bootstrap"}, "analytic intervals"),
        ({"margin": 0.1, "method": "exact"}, "analytic intervals"),
    ],
)
def test_bad_margins(options, message):
    with pytest.raises(fe.EvalError, match=message):
        fe.compare(pairs(), fe.rate("ok"), **ROLES, **options)


def test_a_margin_needs_a_direction():
    with pytest.raises(fe.EvalError, match="which direction is worse"):
        fe.compare(pairs(), fe.mean("x"), margin=0.1, **ROLES)
