"""Intervals that hold for all slices at once."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import frame_eval as fe
from frame_eval.inference.linear import group_codes, linear
from frame_eval.inference.resample import Draws, coins
from frame_eval.inference.simultaneous import Family, family_of, joint_family, pairs_family
from frame_eval.inference.variance import cr2
from frame_eval.reduce import Roles, reduce
from frame_eval.slices import slices

ROLES = {"system": "m", "example": "id", "baseline": "a"}


def rows(seed=0, n=600, docs=30, slices=6, effect=0.0):
    rng = np.random.default_rng(seed)
    lang = rng.choice(list("abcdefgh")[:slices], n)
    doc = rng.integers(0, docs, n)
    wave = rng.normal(size=docs)[doc]
    frames = [
        pl.DataFrame(
            {
                "m": [name] * n,
                "id": np.arange(n),
                "lang": lang,
                "doc": doc,
                "ok": wave + rng.normal(size=n) + by > 0,
                "x": wave + rng.normal(size=n) + by,
            }
        )
        for name, by in (("a", 0.0), ("b", effect))
    ]
    return pl.concat(frames)


@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("metric", [fe.rate("ok"), fe.mean("x"), fe.median("x")])
def test_they_contain_the_pointwise_ones(cluster, metric):
    frame = rows()
    options = {"by": "lang", "system": "m", "cluster": cluster}
    plain = frame.eval.summary(metric, **options)
    wide = frame.eval.summary(metric, simultaneous=True, **options)
    assert (wide["ci_low"] <= plain["ci_low"]).all()
    assert (wide["ci_high"] >= plain["ci_high"]).all()
    assert (wide["ci_high"] - wide["ci_low"]).sum() > (plain["ci_high"] - plain["ci_low"]).sum()
    assert wide["method"].str.ends_with(", simultaneous").all()
    assert (wide["level"] == 0.95).all()


def test_independent_slices_have_the_level_of_sidak():
    frame = rows().filter(pl.col("m") == "a")
    wide = frame.eval.summary(fe.rate("ok"), by="lang", simultaneous=True)
    plain = frame.eval.summary(fe.rate("ok"), by="lang", level=0.95 ** (1 / 6))
    assert_allclose(wide["ci_low"], plain["ci_low"], rtol=1e-12)
    assert_allclose(Family(6).adjusted(np.array([0.01, np.nan])), [1 - 0.99**6, np.nan])


@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("effect", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_exclude_zero_exactly_when_the_adjusted_p_is_small(cluster, effect, level):
    frame = rows(effect=effect)
    for metric in (fe.rate("ok"), fe.mean("x")):
        found = fe.compare(
            frame, metric, by="lang", cluster=cluster, simultaneous=True, level=level,
            resamples=999, **ROLES,
        )  # fmt: skip
        outside = (found["ci_low"] > 0) | (found["ci_high"] < 0)
        assert (outside == (found["p_adjusted"] < round(1 - level, 12))).all()
        assert (found["p_adjusted"] >= found["p_value"]).all()


def test_one_member_is_pointwise():
    """With many clusters the signs give back the level that was asked for."""
    frame = rows(n=4000, docs=400)
    found = fe.compare(frame, fe.mean("x"), cluster="doc", simultaneous=True, **ROLES)
    plain = fe.compare(frame, fe.mean("x"), cluster="doc", **ROLES)
    assert_allclose(found["ci_low"], plain["ci_low"], atol=0.05 * plain["std_error"].item())


def test_a_copied_slice_adds_nothing():
    """Slices that are the same rows are one member, as their influences are the same."""
    frame = rows().filter(pl.col("m") == "a").with_columns(tongue=pl.col("lang"))
    options = {"cluster": "doc", "simultaneous": True}
    one = frame.eval.summary(fe.mean("x"), by=fe.each("lang"), **options)
    two = frame.eval.summary(fe.mean("x"), by=fe.each("lang", "tongue"), **options)
    both = two.filter(pl.col("slice") == "lang")
    assert_allclose(both["ci_low"], one["ci_low"], rtol=1e-9)


def test_signs_by_hand():
    """The largest studentised sum over members, one draw at a time."""
    rng = np.random.default_rng(1)
    influence = rng.normal(size=(12, 3))
    share = np.full((12, 3), 1 / 12)
    df = np.full(3, 11.0)
    family = joint_family([(influence, share, df)], Draws(300, 5))
    (bits,) = Draws(300, 5).blocks(lambda rows, generator: coins(rows, 12, generator), 15)
    largest = []
    for draw in bits * 2.0 - 1:
        signed = draw[:, None] * influence
        total = signed.sum(0)
        left = signed - total / 12
        t = total / np.sqrt((left**2 / (1 - 1 / 12)).sum(0))
        largest.append(np.max(1 - 2 * stats.t(11).sf(np.abs(t))))
    assert_allclose(family.confidence, np.sort(largest), rtol=1e-9)


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("units", [12, 500])
@pytest.mark.parametrize("groups", [3, 26])
def test_signs_of_pairs_by_hand(groups, units, unequal):
    """Groups that share units, some without variation; pairs of several degrees of freedom."""
    rng = np.random.default_rng(units + groups)
    size = rng.exponential(size=(units, groups)) ** (3 if unequal else 0.2)
    size *= rng.random(size.shape) < 0.7
    share = size / size.sum(0)
    influence = share * rng.normal(size=share.shape)
    influence[:, :2] = 0.0
    first, second = np.triu_indices(groups, 1)
    df = rng.uniform(3, 60, len(first))
    df[2::7] = np.nan
    family = pairs_family(influence, share, df, Draws(200, 5))
    psi, w = influence[:, first] - influence[:, second], (share[:, first] + share[:, second]) / 2
    width = units + (groups if groups > 3 else int(np.isfinite(df).sum()))
    (bits,) = Draws(200, 5).blocks(lambda rows, generator: coins(rows, units, generator), width)
    largest = []
    for draw in bits * 2.0 - 1:
        signed = draw[:, None] * psi
        total = signed.sum(0)
        error = np.sqrt((((signed - w * total) ** 2) / (1 - w)).sum(0))
        t = np.abs(total) / np.where(error > 0, error, np.inf)
        largest.append(np.nanmax(1 - 2 * stats.t(df).sf(t)))
    assert family.members == np.isfinite(df).sum()
    assert_allclose(family.confidence, np.sort(largest), rtol=1e-9)


def test_where_no_level_is_enough_the_limits_are_null_with_the_reason():
    """Two clusters a slice: signs that are alike in one, as half of all are, leave no error."""
    rng = np.random.default_rng(0)
    one = pl.DataFrame(
        {
            "m": "a",
            "id": np.arange(240),
            "lang": np.arange(240) // 8,
            "doc": np.arange(240) // 4,
            "x": rng.normal(size=240),
        }
    )
    other = one.with_columns(m=pl.lit("b"), x=pl.Series(rng.normal(size=240)))
    options = {"by": "lang", "cluster": "doc"}
    metric = fe.mean("x", better="higher")
    plain = one.eval.summary(metric, **options)
    for found in (
        one.eval.summary(metric, simultaneous=True, **options),
        one.eval.worst(metric, min_n=2, **options),
        fe.compare(pl.concat([one, other]), metric, simultaneous=True, **ROLES, **options),
    ):
        assert found["ci_low"].is_null().all()
        assert found["ci_high"].is_null().all()
        assert found["std_error"].is_not_null().all()
        assert found["note"].str.contains("too few clusters for intervals that hold all").all()
        assert found["method"].str.contains(r"CR2 t\(df=1\), simultaneous").all()
    assert plain["ci_low"].is_not_null().all()


def test_all_intervals_hold_together_as_often_as_promised():
    """Skewed cluster sizes, ten correlated slices, the true means known to be 0."""
    total, covered = 400, 0
    for seed in range(total):
        rng = np.random.default_rng(seed)
        doc = rng.choice(25, 500, p=np.arange(1, 26) / 325)
        frame = pl.DataFrame(
            {
                "lang": rng.integers(0, 10, 500),
                "doc": doc,
                "x": rng.normal(size=25)[doc] + rng.normal(size=500),
            }
        )
        found = reduce(frame, [fe.mean("x")], slices("lang", False), Roles(cluster=("doc",)))
        made = linear(fe.mean("x"), found.tables[0], *found.shape)
        level = family_of([made], Draws(499, seed), clustered=True).level(0.95)
        variance = cr2(made)
        half = stats.t(variance.df).ppf(0.5 + level / 2) * np.sqrt(variance.value)
        covered += bool((np.abs(made.estimate) <= half).all())
        assert group_codes(found.tables[0], 1).max() == 9
    assert covered >= stats.binom(total, 0.94).ppf(0.0005)


def test_what_it_does_not_go_with():
    frame = rows()
    with pytest.raises(fe.EvalError, match="analytic"):
        frame.eval.summary(fe.rate("ok"), interval="bootstrap", simultaneous=True)
    for options in ({"method": "bootstrap"}, {"method": None}, {"family": "lang"}):
        with pytest.raises(fe.EvalError, match="simultaneous=True goes with"):
            fe.compare(frame, fe.rate("ok"), by="lang", simultaneous=True, **ROLES, **options)


def test_metrics_without_errors_have_no_family():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"y": rng.integers(0, 2, 60), "s": rng.random(60), "doc": [*range(12)] * 5}
    )
    metrics = (fe.ks("y", "s"), fe.rate("y"))
    found = frame.eval.summary(*metrics, cluster="doc", simultaneous=True, resamples=199)
    assert found["ci_low"].is_null().to_list() == [True, False]
    assert found["note"][0] is not None
