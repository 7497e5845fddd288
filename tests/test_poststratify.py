"""Numbers at another mix of slices, against explicit sums over slices."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import frame_eval as fe

TARGET = {"a": 0.5, "b": 0.3, "c": 0.2}
ROLES = {"system": "m", "example": "id", "baseline": "x"}


def rows(seed=0, n=600, docs=40):
    rng = np.random.default_rng(seed)
    lang = rng.choice(list("abc"), n, p=[0.1, 0.3, 0.6])
    doc = rng.integers(0, docs, n)
    wave = rng.normal(size=docs)[doc]
    frames = [
        pl.DataFrame(
            {
                "m": [name] * n,
                "id": np.arange(n),
                "lang": lang,
                "doc": doc,
                "ok": wave + rng.normal(size=n) > by - 0.5 * (lang == "a"),
                "t": wave + rng.exponential(size=n) + (lang == "c"),
            }
        )
        for name, by in (("x", 0.0), ("y", -0.2))
    ]
    return pl.concat(frames)


@pytest.mark.parametrize("column", ["ok", "t"])
def test_independent_rows_have_the_errors_of_a_stratified_sample(column):
    frame = rows().filter(pl.col("m") == "x").with_columns(pl.col("ok").cast(float))
    metric = fe.mean(column)
    row = frame.eval.poststratify(metric, by="lang", target=TARGET).row(0, named=True)
    value = variance = 0.0
    for name, share in TARGET.items():
        part = frame.filter(pl.col("lang") == name)[column]
        value += share * part.mean()
        variance += share**2 * part.var() / len(part)
    assert_allclose(row["estimate"], value, rtol=1e-12)
    assert_allclose(row["raw"], frame[column].mean(), rtol=1e-12)
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-9)
    assert row["n"] == 600


def test_clusters_that_span_slices_keep_their_covariance():
    frame = rows().filter(pl.col("m") == "x")
    row = frame.eval.poststratify(fe.mean("t"), by="lang", target=TARGET, cluster="doc").row(
        0, named=True
    )
    lang, doc, t = (frame[name].to_numpy() for name in ("lang", "doc", "t"))
    # CR2 of a regression on an indicator for each slice, with the matrix of each cluster.
    design = (lang[:, None] == list(TARGET)).astype(float)
    inverse = np.diag(1 / design.sum(0))
    residual = t - design @ inverse @ design.T @ t
    weights = design @ inverse @ list(TARGET.values())
    variance = 0.0
    for one in range(40):
        of = doc == one
        roots, vectors = np.linalg.eigh(np.eye(of.sum()) - design[of] @ inverse @ design[of].T)
        variance += (weights[of] @ vectors @ np.diag(roots**-0.5) @ vectors.T @ residual[of]) ** 2
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-9)
    assert row["clusters"] == 40
    assert row["method"].startswith("post-stratified, cluster CR2")


def test_the_own_mix_gives_the_raw_number():
    frame = rows()
    shares = frame.group_by("lang").agg(share=pl.len() / frame.height)
    found = frame.eval.poststratify(
        fe.rate("ok"), fe.mean("t"), by="lang", target=shares, system="m"
    )
    assert_allclose(found["estimate"], found["raw"], rtol=1e-12)
    assert found["m"].to_list() == ["x", "x", "y", "y"]


def test_differences_on_the_same_examples():
    frame = rows()
    found = frame.eval.poststratify(fe.mean("t"), by="lang", target=TARGET, **ROLES)
    row = found.row(0, named=True)
    wide = frame.pivot("m", index=["id", "lang"], values="t")
    wide = wide.with_columns(d=pl.col("y") - pl.col("x"))
    value = variance = 0.0
    for name, share in TARGET.items():
        d = wide.filter(pl.col("lang") == name)["d"]
        value += share * d.mean()
        variance += share**2 * d.var() / len(d)
    assert_allclose(row["difference"], value, rtol=1e-12)
    assert_allclose(row["raw"], wide["d"].mean(), rtol=1e-12)
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-9)
    z = abs(row["difference"] / row["std_error"])
    assert stats.norm.sf(z) * 2 <= row["p_value"] <= stats.t(30).sf(z) * 2
    assert (row["system"], row["baseline"]) == ("y", "x")
    outside = row["ci_low"] > 0 or row["ci_high"] < 0
    assert outside == (row["p_value"] < 0.05)


def test_f1_and_auc_are_means_of_the_slices():
    frame = rows().with_columns(y=pl.col("t") > 0.5)
    metrics = (fe.f1("y", "ok"), fe.roc_auc("y", "t"), fe.median("t"))
    found = frame.eval.poststratify(*metrics, by="lang", target=TARGET, cluster="doc")
    parts = frame.eval.summary(*metrics, by="lang")
    for metric in metrics:
        of = parts.filter(pl.col("metric") == metric.name).sort("lang")["estimate"].to_numpy()
        row = found.filter(pl.col("metric") == metric.name).row(0, named=True)
        assert_allclose(row["estimate"], of @ list(TARGET.values()), rtol=1e-12)


def test_several_columns_pandas_and_a_share_of_zero():
    frame = rows().with_columns(odd=pl.col("id") % 2).to_pandas()
    shares = {(k, odd): v / 2 for k, v in {"a": 0.0, "b": 0.4, "c": 0.6}.items() for odd in (0, 1)}
    found = frame.eval.poststratify(fe.rate("ok"), by=["lang", "odd"], target=shares, system="m")
    assert isinstance(found, pd.DataFrame)
    cells = frame.groupby(["m", "lang", "odd"])["ok"].mean()
    expected = sum(cells["x", k, odd] * v for (k, odd), v in shares.items())
    assert_allclose(found["estimate"][0], expected, rtol=1e-12)


def test_a_slice_that_is_all_right_is_named():
    frame = rows().filter(pl.col("m") == "x")
    frame = frame.with_columns(ok=pl.col("ok") | (pl.col("lang") == "a"))
    row = frame.eval.poststratify(fe.rate("ok"), by="lang", target=TARGET).row(0, named=True)
    assert row["note"] == "1 slices are all alike and add no error"


@pytest.mark.parametrize("difference", [False, True])
@pytest.mark.parametrize("cluster", [None, "doc"])
def test_a_slice_of_one_unit_leaves_no_error(difference, cluster):
    few = pl.col("doc") == 3 if cluster else pl.col("id") == pl.col("id").min()
    frame = rows().filter((pl.col("lang") != "a") | few.over("lang"))
    roles = {**ROLES, "cluster": cluster}
    if not difference:
        frame, roles = frame.filter(pl.col("m") == "x"), {"cluster": cluster}
    found = frame.eval.poststratify(fe.rate("ok"), fe.mean("t"), by="lang", target=TARGET, **roles)
    value = found["difference" if difference else "estimate"]
    assert value.null_count() == 0
    assert found.select("std_error", "ci_low", "ci_high").null_count().row(0) == (2, 2, 2)
    assert set(found["note"]) == {"1 slices have one row or cluster: no error can be estimated"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"a": 0.5, "b": 0.5}, "1 slices of the frame have no share in the target .such as 'c'"),
        ({"a": 0.5, "b": 0.3, "c": 0.3}, "sum to 1.1"),
        ({"a": 1.5, "b": -0.3, "c": -0.2}, "3 shares are not between 0 and 1"),
        ({"a": 0.5, "b": 0.2, "c": 0.2, "d": 0.1}, "1 slices of the target have no rows"),
        (pl.DataFrame({"lang": ["a", "b"], "part": [0.5, 0.5]}), "neither a mapping nor a frame"),
        (pl.DataFrame({"lang": ["a", "a"], "share": [0.5, 0.5]}), "more than once"),
        (0.5, "neither a mapping nor a frame"),
    ],
)
def test_bad_targets(target, message):
    with pytest.raises(fe.EvalError, match=message):
        rows().eval.poststratify(fe.rate("ok"), by="lang", target=target)


@pytest.mark.parametrize("share", [None, "half", float("nan"), -0.5])
def test_a_share_is_a_number(share):
    frame = pl.DataFrame({"lang": ["de", "sw"], "ok": [1, 0]})
    with pytest.raises(fe.EvalError, match=r"1 shares are not between 0 and 1 .*'sw'"):
        frame.eval.poststratify(fe.rate("ok"), by="lang", target={"de": 0.5, "sw": share})


def test_shares_in_a_frame_are_numbers():
    frame = pl.DataFrame({"lang": ["de", "sw"], "ok": [1, 0]})
    target = pl.DataFrame({"lang": ["de", "sw"], "share": ["half", "half"]})
    with pytest.raises(fe.EvalError, match="2 shares are not between 0 and 1"):
        frame.eval.poststratify(fe.rate("ok"), by="lang", target=target)
