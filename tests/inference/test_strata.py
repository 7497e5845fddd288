"""Samples taken within strata, against sums over strata by hand."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import frame_eval as fe

ROLES = {"system": "m", "example": "id", "baseline": "a"}


def rows(seed=0, n=480, docs=48):
    rng = np.random.default_rng(seed)
    doc = rng.integers(0, docs, n)
    level = doc % 4
    wave = rng.normal(size=docs)[doc]
    frames = [
        pl.DataFrame(
            {
                "m": [name] * n,
                "id": np.arange(n),
                "doc": doc,
                "level": level,
                "lang": rng.choice(["de", "sw"], n),
                "x": level + wave + rng.normal(size=n) + by,
                "ok": level / 2 + wave + rng.normal(size=n) > 1 - by,
            }
        )
        for name, by in (("a", 0.0), ("b", 0.3))
    ]
    return pl.concat(frames).with_columns(lang=pl.col("lang").first().over("id"))


def one(frame, metric, **options):
    return frame.eval.summary(metric, strata="level", **options).row(0, named=True)


@pytest.mark.parametrize("column", ["x", "ok"])
def test_rows_within_strata(column):
    frame = rows().filter(pl.col("m") == "a").with_columns(pl.col("ok").cast(int))
    metric = fe.mean("x") if column == "x" else fe.rate("ok")
    row = one(frame, metric)
    variance = 0.0
    for _, part in frame.group_by("level"):
        values = part[column].cast(float)
        variance += len(values) * values.var() / frame.height**2
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-9)
    assert row["method"].startswith("stratified, ")
    if column == "x":
        assert "df=476" in row["method"]


@pytest.mark.parametrize("metric", [fe.mean("x"), fe.rate("ok")])
def test_clusters_within_strata(metric):
    frame = rows().filter(pl.col("m") == "a")
    row = one(frame, metric, cluster="doc")
    column = "x" if metric.name == "mean(x)" else "ok"
    x, doc = frame[column].cast(float).to_numpy(), frame["doc"].to_numpy()
    total = np.bincount(doc, x - x.mean(), 48) / len(x)
    variance = sum(
        12 / 11 * np.sum((total[level::4] - total[level::4].mean()) ** 2) for level in range(4)
    )
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-9)
    plain = frame.eval.summary(metric, cluster="doc").row(0, named=True)
    assert row["std_error"] < plain["std_error"]
    assert row["clusters"] == 48


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_paired_differences_within_strata(cluster):
    frame = rows()
    options = {**ROLES, "cluster": cluster, "strata": "level"}
    row = fe.compare(frame, fe.mean("x"), **options).row(0, named=True)
    wide = frame.pivot("m", index=["id", "doc", "level"], values="x").sort("id")
    d = (wide["b"] - wide["a"]).to_numpy()
    unit = wide["doc" if cluster else "id"].to_numpy()
    stratum = wide["level"].to_numpy()
    total = np.bincount(unit, d - d.mean()) / len(d)
    of_unit = np.zeros(len(total), int)
    of_unit[unit] = stratum
    variance = 0.0
    for level in range(4):
        part = total[of_unit == level]
        variance += len(part) / (len(part) - 1) * np.sum((part - part.mean()) ** 2)
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-9)
    assert row["method"].startswith("stratified, paired")
    outside = row["ci_low"] > 0 or row["ci_high"] < 0
    assert outside == (row["p_value"] < 0.05)
    rate = fe.compare(frame, fe.rate("ok"), **options).row(0, named=True)
    assert rate["method"].startswith("stratified, paired")


@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("metric", [fe.mean("x"), fe.rate("ok"), fe.f1("ok", "ok2")])
def test_the_bootstrap_draws_within_strata(cluster, metric):
    frame = rows().with_columns(ok2=pl.col("x") > 1.2)
    alone = frame.filter(pl.col("m") == "a")
    linear = one(alone, metric, cluster=cluster)
    drawn = one(alone, metric, cluster=cluster, interval="bootstrap")
    assert_allclose(drawn["std_error"], linear["std_error"], rtol=0.1)
    options = {**ROLES, "cluster": cluster, "strata": "level"}
    for paired in (True, False):
        by_line = fe.compare(frame, metric, paired=paired, **options).row(0, named=True)
        by_draws = fe.compare(frame, metric, paired=paired, method="bootstrap", **options).row(
            0, named=True
        )
        assert_allclose(by_draws["std_error"], by_line["std_error"], rtol=0.1)


def test_slices_and_ranks_have_strata_too():
    frame = rows().with_columns(s=pl.col("x"))
    found = frame.eval.summary(
        fe.roc_auc("ok", "s"), fe.mean("x"), fe.median("x"),
        by="lang", cluster="doc", strata="level",
    )  # fmt: skip
    assert found.filter(pl.col("metric") != "p50(x)")["std_error"].null_count() == 0


def test_one_stratum_is_no_stratum():
    frame = rows().filter(pl.col("m") == "a").with_columns(level=pl.lit(1))
    for metric in (fe.mean("x"), fe.roc_auc("ok", "x")):
        row = one(frame, metric, cluster="doc", interval="cr1")
        plain = frame.eval.summary(metric, cluster="doc", interval="cr1").row(0, named=True)
        assert_allclose(row["std_error"], plain["std_error"], rtol=1e-9)
        assert_allclose(row["ci_low"], plain["ci_low"], rtol=1e-9)


def test_a_stratum_with_one_cluster_has_no_error():
    frame = rows().filter(pl.col("m") == "a")
    frame = frame.with_columns(level=pl.when(pl.col("doc") == 3).then(9).otherwise("level"))
    row = one(frame, fe.mean("x"), cluster="doc")
    assert row["std_error"] is None
    assert "a stratum with one unit" in row["note"]
    pair = fe.compare(
        rows().with_columns(level=pl.when(pl.col("doc") == 3).then(9).otherwise("level")),
        fe.mean("x"), cluster="doc", strata="level", **ROLES,
    )  # fmt: skip
    assert pair["p_value"].item() is None
    assert "a stratum with one unit" in pair["note"].item()


def test_bad_strata():
    frame = rows()
    torn = frame.with_columns(level=pl.col("id") % 2)
    with pytest.raises(fe.EvalError, match="units are in more than one stratum"):
        one(torn, fe.mean("x"), cluster="doc")
    with pytest.raises(fe.EvalError, match="in more than one stratum"):
        fe.compare(torn, fe.mean("x"), cluster="doc", strata="level", **ROLES)
    with pytest.raises(fe.EvalError, match="Did you mean 'level'"):
        frame.eval.summary(fe.mean("x"), strata="levle")
