"""The best threshold against a search through all of them, and what it costs elsewhere."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from shared_data import here
from sklearn.metrics import fbeta_score

import frame_eval as fe


def data(seed, digits=1, rows=120):
    rng = np.random.default_rng(seed)
    s = np.round(rng.normal(size=rows), digits)
    return pl.DataFrame(
        {
            "y": rng.random(rows) < 1 / (1 + np.exp(-2 * s)),
            "s": s,
            "w": rng.integers(1, 5, rows) / 2,
            "g": rng.integers(0, 3, rows),
            "m": rng.choice(["a", "b"], rows),
        }
    )


def search(frame, value, weight=None):
    """Threshold by threshold: the best value, and all thresholds that have it."""
    y, s = frame["y"].to_numpy(), frame["s"].to_numpy()
    w = np.ones(len(y)) if weight is None else frame[weight].to_numpy()
    found = {t: value(y, s >= t, w) for t in [np.inf, *sorted(set(s), reverse=True)]}
    best = max(v for v in found.values() if v is not None)
    return best, [t for t, v in found.items() if v is not None and np.isclose(v, best, rtol=1e-12)]


def cost(y, flagged, w):
    return -(3 * w[flagged & ~y].sum() + 7 * w[~flagged & y].sum()) / w.sum()


def f_half(y, flagged, w):
    return fbeta_score(y, flagged, beta=0.5, sample_weight=w, zero_division=0)


def precision_with_recall(y, flagged, w):
    reached = flagged.any() and w[flagged & y].sum() / w[y].sum() >= 0.8
    return w[flagged & y].sum() / w[flagged].sum() if reached else None


def recall_with_precision(y, flagged, w):
    reached = flagged.any() and w[flagged & y].sum() / w[flagged].sum() >= 0.85
    return w[flagged & y].sum() / w[y].sum() if reached else None


RULES = {
    "cost": ({"c_fp": 3, "c_fn": 7}, cost),
    "f0.5": ({"fbeta": 0.5}, f_half),
    "recall >= 0.8": ({"min_recall": 0.8}, precision_with_recall),
    "precision >= 0.85": ({"min_precision": 0.85}, recall_with_precision),
}


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", RULES)
def test_against_a_search(name, seed, weight):
    options, value = RULES[name]
    frame = data(seed, digits=1 if seed % 2 else 9)
    row = frame.eval.best_threshold("y", "s", weight=weight, **options).row(0, named=True)
    best, thresholds = search(frame, value, weight)
    assert row["rule"] == name
    assert_allclose(row["objective"], abs(best), rtol=1e-12)
    wanted = max(thresholds) if name.startswith("precision") else min(thresholds)
    assert row["threshold"] == wanted
    y, flagged = frame["y"].to_numpy(), frame["s"].to_numpy() >= wanted
    w = np.ones(120) if weight is None else frame["w"].to_numpy()
    counts = [
        w[a & b].sum()
        for a, b in zip((y, ~y, y, ~y), (flagged, flagged, ~flagged, ~flagged), strict=True)
    ]
    assert_allclose([row[k] for k in ("tp", "fp", "fn", "tn")], counts, rtol=1e-12)
    assert row["n"] == 120


@here
def test_flagging_nothing_is_considered(seeds):
    for name, at in (("cost-sweep", 0), ("cost-sweep-predict-none", None)):
        given, expected = seeds[name]["input"], seeds[name]["expected"]
        frame = pl.DataFrame({"y": given["y"], "s": given["score"]})
        costs = {"c_fp": given["c_fp"], "c_fn": given["c_fn"]}
        row = frame.eval.best_threshold("y", "s", **costs).row(0, named=True)
        assert_allclose(row["objective"] * row["n"], expected[1], rtol=1e-12)
        if at is not None:
            assert row["threshold"] == expected[0]
        else:
            assert row["threshold"] == np.inf
            assert row["note"] == "flagging nothing is best"
            assert row["precision"] is None
    bayes = seeds["bayes-threshold"]
    assert_allclose(fe.bayes_threshold(**bayes["input"]), bayes["expected"], rtol=1e-12)


def test_a_threshold_per_slice_and_system_is_applied_by_a_join():
    frame = data(5, rows=400)
    fit = frame.eval.best_threshold("y", "s", c_fp=1, c_fn=4, by="g", system="m")
    assert fit.columns[:3] == ["g", "m", "rule"]
    other = data(6, rows=400).join(fit.select("g", "m", "threshold"), on=["g", "m"])
    flagged = fe.col("s") >= fe.col("threshold")
    found = other.eval.summary(fe.precision("y", flagged), by="g", system="m")
    for row, at in zip(found.iter_rows(named=True), fit.iter_rows(named=True), strict=True):
        alone = data(6, rows=400).filter(g=row["g"], m=row["m"])
        kept = alone.filter(pl.col("s") >= at["threshold"])
        assert_allclose(row["estimate"], kept["y"].mean(), rtol=1e-12)


def test_the_bayes_threshold_is_the_best_for_calibrated_probabilities():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    frame = pl.DataFrame({"y": rng.random(200_000) < p, "p": p})
    bayes = fe.bayes_threshold(c_fp=1, c_fn=4)
    found = frame.eval.best_threshold("y", "p", c_fp=1, c_fn=4).row(0, named=True)
    flagged = p >= bayes
    y = frame["y"].to_numpy()
    at_bayes = ((flagged & ~y).sum() + 4 * (~flagged & y).sum()) / 200_000
    assert found["objective"] <= at_bayes
    assert_allclose(found["objective"], at_bayes, rtol=0.01)


def test_what_no_threshold_reaches_is_null_with_a_reason():
    frame = pl.DataFrame({"y": [0, 1, 0], "s": [0.9, 0.5, 0.1]})
    row = frame.eval.best_threshold("y", "s", min_precision=0.9).row(0, named=True)
    assert row["threshold"] is None
    assert row["tp"] is None
    assert row["note"] == "no threshold reaches precision 0.9"
    negatives = frame.with_columns(y=0)
    for options in ({"fbeta": 1}, {"min_recall": 0.5}):
        row = negatives.eval.best_threshold("y", "s", **options).row(0, named=True)
        assert row["threshold"] is None
        assert row["note"] == "no positives"


def test_pandas_gives_pandas():
    frame = data(1).to_pandas()
    fit = frame.eval.best_threshold("y", "s", fbeta=1, by="g")
    assert fit["g"].dtype == frame["g"].dtype
    assert list(fit["rule"].unique()) == ["f1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say one rule"),
        ({"fbeta": 1, "min_recall": 0.5}, "say one rule"),
        ({"c_fp": 1}, "say both c_fp= and c_fn="),
        ({"c_fp": 0, "c_fn": 0}, "not both 0"),
        ({"c_fp": -1, "c_fn": 2}, "costs are at least 0"),
        ({"fbeta": 0}, "fbeta=0 is not above 0"),
        ({"min_recall": 1.5}, "min_recall=1.5 is not above 0 and at most 1"),
        ({"min_precision": 0.0}, "min_precision=0.0 is not above 0"),
        ({"fbeta": 1, "by": "objective"}, "key column 'objective' has the name of a result column"),
    ],
)
def test_options_are_checked(options, message):
    frame = data(0).with_columns(objective=pl.lit("x"))
    with pytest.raises(fe.EvalError, match=message):
        frame.eval.best_threshold("y", "s", **options)


def test_costs_are_numbers():
    with pytest.raises(fe.EvalError, match="costs are at least 0"):
        fe.bayes_threshold(c_fp="1", c_fn=2)
