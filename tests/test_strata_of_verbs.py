"""Strata in the verbs that make errors: the numbers of ``summary``, or sums over strata by hand."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import frame_eval as fe
from frame_eval.inference.covariance import influences_by_unit
from frame_eval.inference.variance import stratified
from frame_eval.reduce import Roles
from frame_eval.slices import slices
from frame_eval.verbs.measured import measure

RNG = np.random.default_rng(4)
N, DOCS = 480, 60
DOC = RNG.integers(0, DOCS, N)
FRAME = pl.DataFrame(
    {
        "doc": DOC,
        "level": DOC % 5,
        "lang": RNG.choice(["de", "fr", "sw"], N),
        "x": (DOC % 5) + RNG.normal(size=DOCS)[DOC] + RNG.normal(size=N),
        "y": (RNG.random(N) < 0.2 + 0.15 * (DOC % 5)).astype(int),
        "p": RNG.integers(0, 2, N),
        "s": np.round(RNG.normal(size=N), 1),
        "w": RNG.integers(1, 4, N) / 2,
    }
)
WAYS = [{}, {"cluster": "doc"}, {"weight": "w"}, {"cluster": "doc", "weight": "w"}]
each_way = pytest.mark.parametrize("roles", WAYS, ids=str)


def interval(frame, metric, roles):
    row = frame.eval.summary(metric, strata="level", **roles).row(0, named=True)
    return [row["ci_low"], row["ci_high"]]


@each_way
def test_bands_of_a_curve(roles):
    found = FRAME.eval.curve("threshold", "y", "s", strata="level", **roles)
    for row in found[::12].iter_rows(named=True):
        flagged = FRAME.with_columns(right=(pl.col("s") >= row["threshold"]) == (pl.col("y") == 1))
        expected = interval(flagged, fe.rate("right"), roles)
        assert_allclose([row["accuracy_low"], row["accuracy_high"]], expected, rtol=1e-9)


@each_way
def test_bands_of_a_cascade(roles):
    found = FRAME.eval.routing("y", "s", fallback="p", strata="level", **roles)
    for row in found[::12].iter_rows(named=True):
        kept = pl.col("s") >= row["threshold"]
        expected = interval(
            FRAME.with_columns(right=pl.when(kept).then("y").otherwise("p")),
            fe.rate("right"),
            roles,
        )
        assert_allclose([row["accuracy_low"], row["accuracy_high"]], expected, rtol=1e-9)


@each_way
def test_shares_of_a_confusion_matrix(roles):
    found = FRAME.eval.confusion("y", "p", normalize="all", strata="level", **roles)
    for row in found.iter_rows(named=True):
        hit = (pl.col("y") == row["truth"]) & (pl.col("p") == row["predicted"])
        expected = interval(FRAME.with_columns(hit=hit), fe.rate("hit"), roles)
        assert_allclose([row["ci_low"], row["ci_high"]], expected, rtol=1e-9)


@each_way
def test_rules_of_a_guard(roles):
    found = FRAME.eval.guard(fe.rule(fe.mean("x"), max=3), strata="level", **roles)
    row = FRAME.eval.summary(fe.mean("x"), strata="level", level=0.9, **roles).row(0, named=True)
    assert_allclose(found["ci_high"].item(), row["ci_high"], rtol=1e-9)


def by_strata(total, level):
    """Sum of C_h / (C_h - 1) times squares around the mean of the stratum."""
    return sum(
        len(part) / (len(part) - 1) * np.sum((part - part.mean()) ** 2)
        for part in (total[level == h] for h in np.unique(level))
    )


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_a_mix_of_slices(cluster):
    target = {"de": 0.6, "fr": 0.3, "sw": 0.1}
    found = FRAME.eval.poststratify(
        fe.mean("x"), by="lang", target=target, strata="level", cluster=cluster
    ).row(0, named=True)
    influence = np.zeros(N)
    for lang, share in target.items():
        inside = (FRAME["lang"] == lang).to_numpy()
        x = FRAME["x"].to_numpy()
        influence += share * inside * (x - x[inside].mean()) / inside.sum()
    if cluster:
        unit, level = np.arange(DOCS), np.arange(DOCS) % 5
        there = np.isin(unit, DOC)
        variance = by_strata(np.bincount(DOC, influence, DOCS)[there], level[there])
    else:
        variance = by_strata(influence, FRAME["level"].to_numpy())
    assert_allclose(found["std_error"], np.sqrt(variance), rtol=1e-9)
    assert "stratified" in found["method"]


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_a_slice_against_the_rest(cluster):
    metric = fe.mean("x", better="higher")
    found = FRAME.eval.worst(metric, by="lang", strata="level", cluster=cluster)
    x, level = FRAME["x"].to_numpy(), FRAME["level"].to_numpy()
    for row in found.iter_rows(named=True):
        inside = (FRAME["lang"] == row["lang"]).to_numpy()
        influence = inside * (x - x[inside].mean()) / inside.sum()
        influence -= ~inside * (x - x[~inside].mean()) / (~inside).sum()
        if cluster:
            there = np.isin(np.arange(DOCS), DOC)
            total, strata = np.bincount(DOC, influence, DOCS)[there], (np.arange(DOCS) % 5)[there]
            variance, df = by_strata(total, strata), there.sum() - 5
        else:
            variance, df = by_strata(influence, level), N - 5
        difference = x[inside].mean() - x[~inside].mean()
        assert_allclose(row["difference"], difference, rtol=1e-9)
        p = stats.t.cdf(difference / np.sqrt(variance), df)
        assert_allclose(row["p_value"], p, rtol=1e-8)


@pytest.mark.parametrize("metric", [fe.mean("x"), fe.rate("y"), fe.f1("y", "p")])
def test_squares_of_influences_are_variances(metric):
    """What signs are put on for simultaneous intervals, and covariances are made of."""
    found = measure(
        FRAME,
        [metric],
        slices("lang", overall=False),
        Roles.of(None, None, None, "doc", None, "level"),
        "raise",
    )
    linear = found.metrics[0].linear
    influence, share = influences_by_unit(linear, 1 + int(linear.unit.max()))
    assert_allclose((influence**2).sum(0), stratified(linear).value, rtol=1e-12)
    assert not share.any()


def test_simultaneous_intervals_within_strata():
    pointwise, together = (
        FRAME.eval.summary(
            fe.mean("x"), by="lang", cluster="doc", strata="level", simultaneous=simultaneous
        )
        for simultaneous in (False, True)
    )
    assert_allclose(together["std_error"].to_numpy(), pointwise["std_error"].to_numpy())
    widths = [(f["ci_high"] - f["ci_low"]).to_numpy() for f in (pointwise, together)]
    # Between one interval and three independent ones.
    ratio = widths[1] / widths[0]
    assert (ratio > 1.05).all()
    assert (ratio < 1.35).all()


@pytest.mark.parametrize("roles", [{}, {"weight": "w"}], ids=str)
def test_problems_of_several_rows(roles):
    """The rate of passing is the mean of each problem's share, in strata as elsewhere."""
    frame = FRAME.with_columns(w=1.0 + pl.col("doc") % 3)
    found = frame.eval.summary(fe.pass_at_k("y", 1), example="doc", strata="level", **roles)
    problems = frame.group_by("doc", "level", "w").agg(pl.col("y").mean())
    expected = problems.eval.summary(fe.mean("y"), example="doc", strata="level", **roles)
    columns = ["estimate", "std_error", "n", "clusters"]
    assert_allclose(found.select(columns).row(0), expected.select(columns).row(0), rtol=1e-9)
