"""The replicates as a frame: what is drawn together, and what may be made of them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import frame_eval as fe


def results(n=120, docs=30, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    frames = [
        pl.DataFrame(
            {
                "m": [name] * n,
                "id": np.arange(n),
                "doc": np.arange(n) % docs,
                "lang": np.where(np.arange(n) % docs < docs // 3, "de", "sw"),
                "y": truth > 0,
                "ok": truth + rng.normal(size=n) > 0,
                "x": rng.exponential(size=n),
                "s": truth + rng.normal(size=n),
            }
        )
        for name in ("a", "b")
    ]
    return pl.concat(frames)


ROLES = {"system": "m", "example": "id", "cluster": "doc"}


def test_the_columns_and_the_estimate():
    frame = results()
    draws = frame.eval.bootstrap(fe.rate("ok"), by="lang", resamples=200, **ROLES)
    assert draws.columns == ["lang", "m", "metric", "replicate", "resampled", "estimate"]
    assert draws.height == 4 * 200
    first = draws.filter(pl.col("replicate") == 1)
    summary = frame.eval.summary(fe.rate("ok"), by="lang", **ROLES)
    assert_allclose(first["estimate"], summary["estimate"])


def test_the_difference_of_replicates_is_the_bootstrap_of_compare():
    frame = results()
    metrics = (fe.rate("ok"), fe.roc_auc("y", "s"), fe.mean("x"))
    draws = frame.eval.bootstrap(*metrics, resamples=4000, **ROLES)
    wide = draws.pivot("m", index=["metric", "replicate"], values="resampled")
    spread = wide.group_by("metric").agg((pl.col("b") - pl.col("a")).std())
    found = frame.eval.compare(*metrics, baseline="a", method="bootstrap", **ROLES)
    joined = found.join(spread, on="metric")
    assert_allclose(joined["b"], joined["std_error"], rtol=0.06)


def test_slices_of_a_replicate_are_of_the_same_clusters():
    """Of each language as many hits as of the whole, in every replicate, whichever were drawn."""
    frame = results().filter(pl.col("m") == "a")
    hits = fe.Metric("hits", {"x": "ok"}, lambda c: {"x": c.x}, lambda s: s.x)
    whole = frame.eval.bootstrap(hits, cluster="doc", resamples=300)
    parts = frame.eval.bootstrap(hits, by="lang", cluster="doc", resamples=300)
    total = parts.group_by("replicate", maintain_order=True).agg(pl.col("resampled").sum())
    assert_allclose(total["resampled"], whole["resampled"])
    assert whole["resampled"].n_unique() > 10


def test_draws_within_strata():
    """As many units of every stratum as there are: a sum that only strata differ by never moves."""
    frame = results().with_columns(level=pl.col("doc") % 3)
    level = fe.mean("level")
    for roles in ({}, {"example": "id"}, {"cluster": "doc"}):
        draws = frame.eval.bootstrap(level, system="m", strata="level", resamples=150, **roles)
        assert_allclose(draws["resampled"], draws["estimate"], rtol=1e-12)
        free = frame.eval.bootstrap(level, system="m", resamples=150, **roles)
        assert free["resampled"].n_unique() > 10


@pytest.mark.parametrize("roles", [{}, {"cluster": "doc"}], ids=str)
def test_the_spread_within_strata(roles):
    """Sums over strata of the variance of their units' deviations, by hand."""
    frame = results().filter(pl.col("m") == "a").with_columns(level=pl.col("doc") % 3)
    frame = frame.with_columns(x=pl.col("x") + 3 * pl.col("level"))
    draws = frame.eval.bootstrap(fe.mean("x"), strata="level", resamples=6000, **roles)
    unit = ["doc"] if roles else ["id"]
    sums = frame.with_columns(d=pl.col("x") - pl.col("x").mean())
    sums = sums.group_by("level", *unit).agg(pl.col("d").sum())
    within = sums.group_by("level").agg(pl.len() * pl.col("d").var(ddof=0))
    assert_allclose(draws["resampled"].std(), np.sqrt(within["len"].sum()) / 120, rtol=0.04)


def test_the_same_seed_gives_the_same_draws_in_any_order():
    frame = results()
    options = {"resamples": 150, **ROLES}
    first = frame.eval.bootstrap(fe.rate("ok"), fe.mean("x"), **options)
    again = frame.sample(fraction=1, shuffle=True).eval.bootstrap(
        fe.rate("ok"), fe.mean("x"), **options
    )
    assert_frame_equal(first, again, rel_tol=1e-12)
    other = frame.eval.bootstrap(fe.rate("ok"), fe.mean("x"), seed=5, **options)
    assert not other["resampled"].equals(first["resampled"])


def test_a_system_and_its_copy_have_the_same_replicates():
    frame = results().filter(pl.col("m") == "a")
    twice = pl.concat([frame, frame.with_columns(m=pl.lit("b"))])
    draws = twice.eval.bootstrap(fe.f1("y", "ok"), resamples=200, **ROLES)
    wide = draws.pivot("m", index="replicate", values="resampled")
    assert (wide["a"] == wide["b"]).all()


def test_rows_without_names_have_one_metric():
    frame = results().filter(pl.col("m") == "a")
    draws = frame.eval.bootstrap(fe.mean("x"), by="lang", resamples=3000)
    spread = draws.group_by("lang", maintain_order=True).agg(pl.col("resampled").std())
    expected = frame.eval.summary(fe.mean("x"), by="lang")
    assert_allclose(spread["resampled"], expected["std_error"], rtol=0.06)
    with pytest.raises(fe.EvalError, match="say example= or cluster="):
        frame.eval.bootstrap(fe.mean("x"), fe.rate("ok"))


def test_pandas_in_pandas_out():
    found = results().to_pandas().eval.bootstrap(fe.rate("ok"), resamples=100, **ROLES)
    assert isinstance(found, pd.DataFrame)


def test_stacked_slices():
    draws = results().eval.bootstrap(
        fe.rate("ok"), by=fe.each("lang"), overall=True, resamples=100, **ROLES
    )
    assert draws.columns[:2] == ["slice", "value"]
    assert draws["value"].unique().sort().to_list() == ["all", "de", "sw"]


def test_names_that_collide():
    frame = results().rename({"lang": "replicate"})
    with pytest.raises(fe.EvalError, match="'replicate'"):
        frame.eval.bootstrap(fe.rate("ok"), by="replicate", **ROLES)
