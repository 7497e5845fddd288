"""Clusters laid open, against their definitions."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import frame_eval as fe


def rows(seed=0, n=400, docs=25):
    rng = np.random.default_rng(seed)
    doc = rng.integers(0, docs, n)
    wave = rng.normal(size=docs)[doc]
    return pl.DataFrame(
        {"doc": doc, "x": wave + rng.normal(size=n), "ok": wave + rng.normal(size=n) > 0}
    )


def one(frame, metric, **options):
    return frame.eval.summary(metric, details=True, **options).row(0, named=True)


@pytest.mark.parametrize("column", ["x", "ok"])
def test_the_design_effect_is_a_ratio_of_variances(column):
    frame = rows()
    metric = fe.mean("x") if column == "x" else fe.rate("ok")
    row = one(frame, metric, cluster="doc")
    values = frame[column].cast(float).to_numpy()
    alone = values.var(ddof=1) / len(values)
    assert_allclose(row["design_effect"], row["std_error"] ** 2 / alone, rtol=1e-9)
    assert_allclose(row["n_effective"], len(values) / row["design_effect"], rtol=1e-9)
    by_doc = frame.group_by("doc").agg(pl.col(column).cast(float).mean())
    assert_allclose(row["cluster_mean"], by_doc[column].mean(), rtol=1e-12)


def test_equal_clusters_have_the_textbook_design_effect():
    """1 + (m - 1) rho, with the ANOVA correlation, of clusters of one size (Kish 1965)."""
    rng = np.random.default_rng(1)
    docs, m = 60, 8
    x = (rng.normal(size=docs)[:, None] + rng.normal(size=(docs, m))).ravel()
    frame = pl.DataFrame({"doc": np.repeat(np.arange(docs), m), "x": x})
    row = one(frame, fe.mean("x"), cluster="doc")
    means = x.reshape(docs, m).mean(1)
    between = m * means.var(ddof=1)
    within = ((x.reshape(docs, m) - means[:, None]) ** 2).sum() / (docs * (m - 1))
    assert_allclose(row["icc"], (between - within) / (between + (m - 1) * within), rtol=1e-9)
    assert_allclose(row["df"], docs - 1, rtol=1e-9)
    assert_allclose(row["design_effect"], 1 + (m - 1) * row["icc"], rtol=0.02)


def test_without_clusters_rows_are_worth_what_they_are():
    row = one(rows(), fe.rate("ok"))
    assert_allclose(row["design_effect"], 1, rtol=1e-9)
    assert_allclose(row["n_effective"], 400, rtol=1e-9)
    assert row["icc"] == 0
    assert row["cluster_mean"] is None


def test_all_alike_say_nothing():
    frame = rows().with_columns(ok=pl.lit(1))
    row = one(frame, fe.rate("ok"), cluster="doc")
    assert row["design_effect"] is None
    assert row["icc"] is None


def test_every_kind_of_metric_has_details():
    frame = rows().with_columns(s=pl.col("x") + 1)
    metrics = (fe.f1("ok", "ok"), fe.roc_auc("ok", "s"), fe.rmse("x", "s"), fe.mcc("ok", "ok"))
    found = frame.eval.summary(*metrics, cluster="doc", details=True)
    assert found["df"].dtype == pl.Float64
    plain = frame.eval.summary(*metrics, cluster="doc")
    assert_allclose(found["std_error"].to_numpy(), plain["std_error"].to_numpy(), rtol=1e-9)
    assert not set(found.columns[-8:-3]) & set(plain.columns)
    with pytest.raises(fe.EvalError, match="analytic intervals"):
        frame.eval.summary(fe.rate("ok"), details=True, interval="bootstrap")
