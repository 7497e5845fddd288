"""The operating point against metrics of rows flagged by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

import frame_eval as fe


def data(seed, rows=300):
    rng = np.random.default_rng(seed)
    s = np.round(rng.normal(size=rows), 1)
    return pl.DataFrame(
        {
            "y": (rng.random(rows) < 1 / (1 + np.exp(-2 * s))).astype(int),
            "s": s,
            "w": rng.integers(1, 5, rows) / 2,
            "doc": rng.integers(0, 25, rows),
            "lang": rng.choice(["de", "fr", "sw"], rows),
            "model": rng.choice(["a", "b"], rows),
        }
    )


VAL, TEST = data(0), data(1)
RATES = {"recall": fe.recall, "precision": fe.precision, "fpr": fe.fpr, "accuracy": fe.accuracy}
WAYS = [{}, {"cluster": "doc"}, {"weight": "w"}, {"cluster": "doc", "weight": "w"}]


@pytest.mark.parametrize("roles", WAYS, ids=str)
@pytest.mark.parametrize("threshold", [-0.35, 0.4, 9.0, -9.0])
def test_rates_are_those_of_a_summary_of_flagged_rows(threshold, roles):
    point = TEST.eval.operating_point("y", "s", threshold, by="lang", **roles)
    flagged = TEST.with_columns(p=(pl.col("s") >= threshold).cast(pl.Int8))
    for name, metric in RATES.items():
        expected = flagged.eval.summary(metric("y", "p"), by="lang", **roles)
        for ours, theirs in (("", "estimate"), ("_low", "ci_low"), ("_high", "ci_high")):
            assert_allclose(
                point[f"{name}{ours}"].cast(pl.Float64).fill_null(np.nan),
                expected[theirs].cast(pl.Float64).fill_null(np.nan),
                rtol=1e-9,
            )


def test_the_numbers_of_scikit_learn():
    row = TEST.eval.operating_point("y", "s", 0.3, weight="w").row(0, named=True)
    y, w = TEST["y"].to_numpy(), TEST["w"].to_numpy()
    p = TEST["s"].to_numpy() >= 0.3
    for name, score in (
        ("recall", recall_score),
        ("precision", precision_score),
        ("accuracy", accuracy_score),
        ("f1", f1_score),
    ):
        assert_allclose(row[name], score(y, p, sample_weight=w), rtol=1e-12)
    assert_allclose(row["prevalence"], np.average(y, weights=w), rtol=1e-12)
    assert_allclose([row["tp"], row["fp"]], [w[p & (y == 1)].sum(), w[p & (y == 0)].sum()])


@pytest.mark.parametrize(
    "convert", [pl.DataFrame, pl.DataFrame.to_pandas], ids=["polars", "pandas"]
)
def test_every_slice_and_system_at_the_threshold_of_its_own(convert):
    fit = VAL.eval.best_threshold("y", "s", fbeta=1, by="lang", system="model")
    found = TEST.eval.operating_point("y", "s", convert(fit), by="lang", system="model")
    assert found.height == 6
    chosen = {
        (lang, model): t for lang, model, t in fit.select("lang", "model", "threshold").rows()
    }
    for row in found.iter_rows(named=True):
        threshold = chosen[row["lang"], row["model"]]
        rows = TEST.filter(pl.col("lang") == row["lang"], pl.col("model") == row["model"])
        assert row["threshold"] == threshold
        assert row["tp"] == rows.filter(pl.col("y") == 1, pl.col("s") >= threshold).height
        assert row["tn"] == rows.filter(pl.col("y") == 0, pl.col("s") < threshold).height


def test_one_threshold_for_all_slices_or_one_for_each_system():
    fit = VAL.eval.best_threshold("y", "s", fbeta=1)
    found = TEST.eval.operating_point("y", "s", fit, by=fe.each("lang", "model"))
    assert found["threshold"].unique().to_list() == [fit["threshold"].item()]
    fit = VAL.eval.best_threshold("y", "s", min_precision=0.9, system="model")
    found = TEST.eval.operating_point("y", "s", fit, by="lang", system="model")
    of = dict(fit.select("model", "threshold").rows())
    assert found["threshold"].to_list() == [of[model] for model in found["model"]]


def test_the_rows_that_a_threshold_was_chosen_on_are_told():
    fit = VAL.eval.best_threshold("y", "s", c_fp=1, c_fn=4, by="lang")
    with pytest.warns(UserWarning, match="optimistic"):
        found = VAL.eval.operating_point("y", "s", fit, by="lang")
    assert found["note"].str.contains("optimistic").all()
    shuffled = VAL.sample(fraction=1, shuffle=True, seed=1).to_pandas()
    with pytest.warns(UserWarning, match="optimistic"):
        shuffled.eval.operating_point("y", "s", fit, by="lang")


def test_a_slice_without_a_threshold_has_no_rates():
    fit = VAL.filter(pl.col("lang") != "sw").eval.best_threshold("y", "s", fbeta=1, by="lang")
    found = TEST.eval.operating_point("y", "s", fit, by="lang")
    last = found.filter(pl.col("lang") == "sw").row(0, named=True)
    assert (last["threshold"], last["tp"], last["recall"], last["note"]) == (
        *[None] * 3,
        "no threshold",
    )
    assert last["n"] == TEST.filter(pl.col("lang") == "sw").height
    assert found["recall"].null_count() == 1


def test_nothing_flagged_has_no_precision():
    row = TEST.eval.operating_point("y", "s", np.inf).row(0, named=True)
    assert (row["tp"], row["fp"], row["precision"], row["recall"]) == (0, 0, None, 0.0)
    assert row["note"] == "nothing is flagged"


def test_trials_of_an_example_are_a_cluster():
    both = pl.concat([TEST.with_columns(trial=t) for t in (1, 2)])
    both = both.with_columns(id=pl.int_range(pl.len()) % TEST.height)
    roles, cluster = {"example": "id", "trial": "trial"}, {"cluster": "id"}
    for ask in (
        lambda **of: both.eval.operating_point("y", "s", 0.2, **of),
        lambda **of: both.eval.curve("roc", "y", "s", **of),
        lambda **of: both.eval.curve("reliability", "y", pl.col("s").tanh().abs(), **of),
        lambda **of: both.eval.routing("y", "s", fallback="y", **of),
    ):
        assert_frame_equal(ask(**roles), ask(**cluster))
        assert not ask(**roles).equals(ask())
        assert_frame_equal(ask(**roles, cluster="doc"), ask(cluster="doc"))


def test_prevalence_stands_beside_recall_and_precision():
    expected = TEST.group_by("lang").agg(pl.col("y").mean()).sort("lang")["y"]
    tables = (
        TEST.eval.operating_point("y", "s", 0.2, by="lang"),
        TEST.eval.best_threshold("y", "s", fbeta=1, by="lang"),
        *(TEST.eval.curve(kind, "y", "s", by="lang") for kind in ("pr", "threshold")),
    )
    for table in tables:
        found = table.group_by("lang").agg(pl.col("prevalence").unique()).sort("lang")
        assert_allclose(found["prevalence"].explode(), expected, rtol=1e-12)
    restated = TEST.eval.curve("pr", "y", "s", at_prevalence=0.01)["prevalence"]
    assert_allclose(restated, 0.01, rtol=1e-12)


@pytest.mark.parametrize(
    ("threshold", "options", "message"),
    [
        ("0.5", {}, "neither a number nor a frame with a column 'threshold'"),
        (True, {}, "neither a number"),
        (float("nan"), {}, "threshold=nan"),
        (
            VAL.eval.best_threshold("y", "s", fbeta=1, by="lang"),
            {},
            "3 rows have a threshold: say by=",
        ),
        (
            pl.concat([VAL.eval.best_threshold("y", "s", fbeta=b, system="model") for b in (1, 2)]),
            {"system": "model"},
            "4 rows have a threshold and the same 'model'",
        ),
        (pl.DataFrame({"threshold": []}), {}, "a frame without rows"),
        (pl.DataFrame({"threshold": [0.1], "doc": ["x"]}), {"by": "doc"}, "of another type"),
        (0.5, {"trial": "doc"}, "say example="),
        (0.5, {"level": 1}, "level=1"),
        (0.5, {"by": fe.where(never=fe.col("s") > 99)}, "nothing is flagged or not"),
    ],
)
def test_what_can_not_be_is_said(threshold, options, message):
    with pytest.raises(fe.EvalError, match=message):
        TEST.eval.operating_point("y", "s", threshold, **options)


def test_pandas_comes_back_as_pandas():
    found = TEST.to_pandas().eval.operating_point("y", "s", 0.1, by="lang")
    assert isinstance(found, pd.DataFrame)
    ours = TEST.eval.operating_point("y", "s", 0.1, by="lang")
    assert_frame_equal(pl.from_pandas(found.drop(columns="note")), ours.drop("note"))
