"""Slices of items that several raters saw: two-way clusters in ``worst``, by hand."""

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from scipy import stats
from statsmodels.stats.sandwich_covariance import cov_cluster_2groups

import frame_eval as fe
from frame_eval.inference.covariance import covariance, products, rooted
from frame_eval.inference.resample import Draws
from frame_eval.inference.simultaneous import drawn_family
from frame_eval.inference.variance import cr2
from frame_eval.reduce import Roles
from frame_eval.slices import cluster_ways, slices
from frame_eval.verbs.measured import measure_ways

ITEMS, RATERS, EACH = 60, 12, 5
WAYS = fe.crossed("item", "rater")
MEAN = fe.mean("x", better="higher")


def ratings(seed=0, of_rater=0.7):
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(ITEMS), EACH)
    rater = np.concatenate([rng.choice(RATERS, EACH, replace=False) for _ in range(ITEMS)])
    wave = 0.5 * rng.normal(size=ITEMS)[item] + of_rater * rng.normal(size=RATERS)[rater]
    x = wave + rng.normal(size=len(item))
    return pl.DataFrame(
        {
            "item": item,
            "rater": rater,
            "topic": np.array(list("abcd"))[item % 4],
            "part": rng.choice(list("uvw"), len(item)),
            "x": x,
            "ok": x > -0.8,
        }
    )


FRAME = ratings()
by_topic_or_part = pytest.mark.parametrize("by", ["topic", "part"])


def in_ways(frame):
    """The units of rows by item, by rater and by both, with the sign of each way's variance."""
    item, rater = (frame[name].to_numpy() for name in ("item", "rater"))
    return ((item, 1), (rater, 1), (item * RATERS + rater, -1))


def two_way(of):
    one, other, both = of
    return max(one + other - both, one, other)


def linearised(frame, metric, by):
    ways = [Roles.of(None, None, None, way, None) for way in cluster_ways(WAYS)]
    found = measure_ways(frame, [metric], slices(by, overall=False), ways, "raise")
    return found.metrics[0].linear


@by_topic_or_part
def test_errors_are_those_of_statsmodels(by):
    """Without factors, on the dummies of the slices."""
    found = FRAME.eval.worst(MEAN, by=by, cluster=WAYS, interval="cr0").sort(by)
    dummies = FRAME.select(by).to_dummies().to_numpy().astype(float)
    fit = sm.OLS(FRAME["x"].to_numpy(), dummies).fit()
    groups = (FRAME[name].to_numpy() for name in ("item", "rater"))
    both, one, other = (
        np.diag(cov)[: dummies.shape[1]]
        for cov in cov_cluster_2groups(fit, *groups, use_correction=False)
    )
    expected = np.maximum(both, np.maximum(one, other))
    assert_allclose(found["std_error"].to_numpy() ** 2, expected, rtol=1e-9)


@by_topic_or_part
@pytest.mark.parametrize("metric", [MEAN, fe.rate("ok")])
def test_the_columns_are_those_of_summary(by, metric):
    found = FRAME.eval.worst(metric, by=by, cluster=WAYS)
    summary = FRAME.eval.summary(metric, by=by, cluster=WAYS, simultaneous=True)
    shared = [by, "metric", "estimate", "std_error", "ci_low", "ci_high", "n", "clusters", "method"]
    assert_frame_equal(found.sort(by).select(shared), summary.select(shared))
    plain = FRAME.eval.summary(metric, by=by, cluster=WAYS)
    assert (summary["ci_high"] - summary["ci_low"] > plain["ci_high"] - plain["ci_low"]).all()


@by_topic_or_part
def test_against_the_rest_by_hand(by):
    """CR2 of two samples that share items and raters, on Welch's degrees of freedom each way."""
    x = FRAME["x"].to_numpy()
    for row in FRAME.eval.worst(MEAN, by=by, cluster=WAYS).iter_rows(named=True):
        inside = (FRAME[by] == row[by]).to_numpy()
        variances, dfs = [], []
        for way, _ in in_ways(FRAME):
            total, sides = np.zeros(way.max() + 1), []
            for rows, sign in ((inside, 1), (~inside, -1)):
                off = np.bincount(way, np.where(rows, x - x[rows].mean(), 0)) / rows.sum()
                share = np.bincount(way, rows) / rows.sum()
                total += sign * off / np.sqrt(1 - share)
                side = pl.DataFrame({"x": x[rows], "unit": way[rows]})
                alone = side.eval.summary(fe.mean("x"), cluster="unit", details=True)
                sides.append((alone["std_error"].item(), alone["df"].item()))
            variances.append(np.sum(total**2))
            error, df = np.array(sides).T
            dfs.append(np.sum(error**2) ** 2 / np.sum(error**4 / df))
        t = row["difference"] / np.sqrt(two_way(variances))
        assert_allclose(row["p_value"], stats.t(min(dfs)).cdf(t), rtol=1e-9)
        assert_allclose(row["rest"], x[~inside].mean(), rtol=1e-12)


@by_topic_or_part
def test_a_rate_against_the_rest_by_hand(by):
    """The two-way design effect of either side, at the rate of all rows, less what they share."""
    ok = FRAME["ok"].to_numpy()
    found = FRAME.eval.worst(fe.rate("ok"), by=by, cluster=WAYS)
    p = ok.mean()
    for row in found.iter_rows(named=True):
        inside = (FRAME[by] == row[by]).to_numpy()
        nulls, owns, dfs = [], [], [[], []]
        for rows in (inside, ~inside):
            side = FRAME.filter(rows)
            own = side.eval.summary(fe.mean("ok"), cluster=WAYS)["std_error"].item() ** 2
            share, n = ok[rows].mean(), rows.sum()
            nulls.append(p * (1 - p) / n * max(1, own / (share * (1 - share) / n)))
            owns.append(own)
            for df, way in zip(dfs, ("item", "rater"), strict=True):
                alone = side.eval.summary(fe.mean("ok"), cluster=way, details=True)
                df.append((alone["std_error"].item() ** 2, alone["df"].item()))
        variances = []
        for way, _ in in_ways(FRAME):
            total = np.zeros(way.max() + 1)
            for rows, sign in ((inside, 1), (~inside, -1)):
                off = np.bincount(way, np.where(rows, ok - ok[rows].mean(), 0)) / rows.sum()
                total += sign * off / np.sqrt(1 - np.bincount(way, rows) / rows.sum())
            variances.append(np.sum(total**2))
        null = max(sum(nulls) + two_way(variances) - sum(owns), max(nulls) / 2)
        welch = [sum(v for v, _ in sides) ** 2 / sum(v**2 / df for v, df in sides) for sides in dfs]
        both = np.bincount(in_ways(FRAME)[2][0]).max()
        assert both == 1  # rows of an item and a rater: more degrees of freedom than either way
        t = row["difference"] / np.sqrt(null)
        assert_allclose(row["p_value"], stats.t(min(welch)).cdf(t), rtol=1e-9)


@by_topic_or_part
def test_the_covariance_of_slices_by_inclusion_and_exclusion(by):
    found = linearised(FRAME, MEAN, by)
    x, keys = FRAME["x"].to_numpy(), sorted(FRAME[by].unique())
    expected, ways = 0.0, []
    for way, sign in in_ways(FRAME):
        columns = []
        for key in keys:
            rows = (FRAME[by] == key).to_numpy()
            off = np.bincount(way, np.where(rows, x - x[rows].mean(), 0)) / rows.sum()
            columns.append(off / np.sqrt(1 - np.bincount(way, rows) / rows.sum()))
        ways.append(np.array(columns) @ np.array(columns).T)
        expected = expected + sign * ways[-1]
    assert np.linalg.eigvalsh(expected).min() > 0
    assert_allclose(covariance([found], np.diag(expected)), expected, rtol=1e-9, atol=1e-15)
    for way, own in zip(found.crossed, ways, strict=True):
        assert_allclose(products([way]), own, rtol=1e-9, atol=1e-15)


def test_negative_eigenvalues_are_set_to_zero():
    """Few raters who do nothing: what is taken off by chance outweighs what they add."""
    for seed in range(20):
        frame = ratings(seed, of_rater=0.0).with_columns(topic=pl.col("item") % 10)
        found = linearised(frame, MEAN, "topic")
        one, other, both = (products([way]) for way in found.crossed)
        raw = one + other - both
        if np.linalg.eigvalsh(raw).min() < 0:
            break
    else:
        pytest.fail("no covariance with a negative eigenvalue")
    values, vectors = np.linalg.eigh(raw)
    kept = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    error = np.sqrt(np.diag(kept))
    variance = cr2(found).value
    expected = kept / np.outer(error, error) * np.sqrt(np.outer(variance, variance))
    made = covariance([found], variance)
    assert_allclose(made, expected, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(made).min() > -1e-12
    table = frame.eval.worst(MEAN, by="topic", cluster=WAYS)
    assert table["pooled_low"].null_count() == 0
    assert (table["rank_low"] <= table["rank"]).all()


def test_roots_of_matrices():
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert_allclose(rooted(matrix) @ rooted(matrix), matrix, rtol=1e-12)
    assert_allclose(rooted(np.diag([4.0, -1.0])), np.diag([2.0, 0.0]), atol=1e-15)


@pytest.mark.parametrize("df", [4.0, 30.0])
def test_independent_estimates_have_the_level_of_sidak(df):
    level = drawn_family(np.eye(6), np.full(6, df), Draws(40_000, 1)).level(0.95)
    # The standard error of a share of .05 in 40,000 draws, on the scale of one of six members.
    assert level == pytest.approx(0.95 ** (1 / 6), abs=4 * 0.0011 / 6)


def test_alike_estimates_are_one():
    level = drawn_family(np.ones((6, 6)), np.full(6, 8.0), Draws(40_000, 1)).level(0.95)
    assert level == pytest.approx(0.95, abs=0.0044)


@pytest.mark.parametrize("rows", [3, 6])
def test_differences_of_independent_estimates_are_tukeys(rows):
    """The studentised range, here of one common variance that has many degrees of freedom."""
    family = drawn_family(np.eye(rows), np.full(rows, 1e9), Draws(40_000, 1), differences=True)
    wide = stats.studentized_range.ppf(0.95, rows, 1e6) / np.sqrt(2)
    assert stats.norm.ppf(0.5 + family.level(0.95) / 2) == pytest.approx(wide, rel=0.02)


def test_more_members_than_are_drawn_are_sidaks():
    family = drawn_family(np.eye(201), np.full(201, 5.0), Draws(100, 1))
    assert family.level(0.95) == pytest.approx(0.95 ** (1 / 201), rel=1e-12)
    lone = drawn_family(np.eye(2), np.array([5.0, np.nan]), Draws(100, 1))
    assert lone.level(0.95) == pytest.approx(0.95, rel=1e-12)


@by_topic_or_part
@pytest.mark.parametrize("metric", [MEAN, fe.rate("ok")])
def test_the_order_of_ways_does_not_matter(by, metric):
    first = FRAME.eval.worst(metric, by=by, cluster=WAYS)
    second = FRAME.eval.worst(metric, by=by, cluster=fe.crossed("rater", "item"))
    assert_frame_equal(first, second, rel_tol=1e-9)
    shuffled = FRAME.sample(fraction=1, shuffle=True, seed=1)
    assert_frame_equal(first, shuffled.eval.worst(metric, by=by, cluster=WAYS), rel_tol=1e-9)


def test_systems_have_slices_of_their_own():
    other = ratings(1)
    frame = pl.concat([FRAME.with_columns(m=pl.lit("a")), other.with_columns(m=pl.lit("b"))])
    found = frame.eval.worst(MEAN, by="topic", system="m", cluster=WAYS)
    for name, part in (("a", FRAME), ("b", other)):
        alone = part.eval.worst(MEAN, by="topic", cluster=WAYS)
        assert_frame_equal(found.filter(m=name).drop("m"), alone, rel_tol=1e-9)


def test_overlapping_slices():
    by = fe.each("topic", "part")
    found = FRAME.eval.worst(fe.rate("ok"), by=by, cluster=WAYS)
    assert found.height == 7
    alone = FRAME.eval.worst(fe.rate("ok"), by="topic", cluster=WAYS)
    for row in alone.iter_rows(named=True):
        same = found.filter(slice="topic", value=row["topic"])
        assert_allclose(same["p_value"].item(), row["p_value"], rtol=1e-9)
        assert same["ci_high"].item() > row["ci_high"]


def test_a_slice_of_one_rater_has_no_error():
    frame = FRAME.with_columns(
        topic=pl.when(pl.col("rater") == 0).then(pl.lit("lone")).otherwise("topic")
    )
    found = frame.eval.worst(MEAN, by="topic", cluster=WAYS)
    row = found.filter(topic="lone").row(0, named=True)
    assert row["ci_low"] is None
    assert row["p_value"] is None
    assert row["note"] == "one cluster: no error can be estimated"
    assert (row["rank_low"], row["rank_high"]) == (1, 5)
    assert found.filter(pl.col("topic") != "lone")["ci_low"].null_count() == 0


def test_simultaneous_differences_and_their_p_values():
    frame = pl.concat(
        [
            FRAME.with_columns(m=pl.lit("a")),
            FRAME.with_columns(
                x=pl.col("x") * 0.6 + pl.Series(ratings(5)["x"]) * 0.5 + 0.3, m=pl.lit("b")
            ),
        ]
    )
    ask = {"system": "m", "example": ["item", "rater"], "baseline": "a", "cluster": WAYS}
    plain = frame.eval.compare(MEAN, by="topic", **ask)
    found = frame.eval.compare(MEAN, by="topic", simultaneous=True, **ask)
    assert_allclose(found["std_error"].to_numpy(), plain["std_error"].to_numpy(), rtol=1e-12)
    assert (found["ci_low"] < plain["ci_low"]).all()
    outside = (found["ci_low"] > 0) | (found["ci_high"] < 0)
    assert (outside == (found["p_adjusted"] < 0.05)).all()
    assert (found["p_adjusted"] >= found["p_value"]).all()
