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


def test_what_it_does_not_go_with():
    frame = ratings()
    for options in (
        {"interval": "bootstrap"}, {"simultaneous": True}, {"details": True}, {"strata": "lang"},
    ):  # fmt: skip
        with pytest.raises(fe.EvalError, match="crossed clusters go with"):
            frame.eval.summary(fe.mean("x"), cluster=WAYS, **options)
    with pytest.raises(fe.EvalError, match="two different sets"):
        fe.crossed("item", "item")
