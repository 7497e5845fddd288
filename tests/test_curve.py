"""Curves against scikit-learn's, their ends, their thinning and their bands."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from statsmodels.stats.proportion import proportion_confint

import frame_eval as fe
from frame_eval.inference import curves
from frame_eval.inference.curves import Flagged
from frame_eval.metrics.core import Sums

RNG = np.random.default_rng(3)
KINDS = ("roc", "pr", "det", "threshold", "gain", "risk_coverage", "abstention", "reliability")


def data(rows=300, digits=2, seed=0):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(rows), digits)
    return pl.DataFrame(
        {
            "y": rng.random(rows) < p,
            "p": p,
            "w": rng.integers(1, 5, rows) / 2,
            "g": rng.integers(0, 3, rows),
            "m": rng.choice(["a", "b"], rows),
        }
    )


FRAMES = {"tied": data(digits=1), "distinct": data(digits=12), "one row": data(1)}
each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def numbers(curve, *names):
    return [curve[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in names]


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("frame", [FRAMES["tied"], FRAMES["distinct"]])
def test_roc_and_pr_are_those_of_scikit_learn(frame, weight):
    y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
    w = None if weight is None else frame[weight].to_numpy()
    threshold, fpr, tpr = numbers(
        frame.eval.curve("roc", "y", "p", weight=weight, points=None), "threshold", "fpr", "tpr"
    )
    expected = sk.roc_curve(y, p, sample_weight=w, drop_intermediate=False)
    assert_allclose([fpr, tpr, threshold], expected, rtol=1e-12, atol=1e-15)
    fnr = numbers(frame.eval.curve("det", "y", "p", weight=weight, points=None), "fnr")[0]
    assert_allclose(fnr, 1 - tpr, atol=1e-15)
    found = numbers(
        frame.eval.curve("pr", "y", "p", weight=weight, points=None),
        *("precision", "recall", "threshold"),
    )
    precision, recall, threshold = sk.precision_recall_curve(y, p, sample_weight=w)
    expected = precision[-2::-1], recall[-2::-1], threshold[::-1]
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_reliability_is_that_of_scikit_learn(strategy):
    frame = FRAMES["distinct"]
    found = frame.eval.curve("reliability", "y", "p", bins=8, strategy=strategy)
    observed, predicted = calibration_curve(frame["y"], frame["p"], n_bins=8, strategy=strategy)
    if strategy == "uniform":
        assert_allclose(found["observed"], observed, rtol=1e-12)
        assert_allclose(found["predicted"], predicted, rtol=1e-12)
        assert_allclose(found["bin_high"], np.arange(1, 9) / 8)
    else:
        # quantiles lie between rows, which go to either side
        assert_allclose(found["predicted"], predicted, atol=0.01)
        assert found["n"].to_list() == [38, 37, 38, 37, 38, 37, 38, 37]
    share = (found["n"] / found["n"].sum()).to_numpy()
    gap = np.abs(found["observed"] - found["predicted"]).to_numpy()
    ece = frame.eval.summary(fe.ece("y", "p", bins=8, strategy=strategy))["estimate"].item()
    assert_allclose(share @ gap, ece, rtol=1e-12)


@each_frame
def test_the_threshold_table_counts(frame):
    y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
    found = frame.eval.curve("threshold", "y", "p", points=None)
    assert found["threshold"].to_list() == [np.inf, *sorted(set(p), reverse=True)]
    for row in found.iter_rows(named=True):
        flagged = p >= row["threshold"]
        counts = [(flagged & y).sum(), (flagged & ~y).sum(), (~flagged & y).sum()]
        assert [row["tp"], row["fp"], row["fn"], row["n"]] == [*counts, flagged.sum()]
        assert row["tn"] == (~flagged & ~y).sum()
        wanted = {
            "precision": sk.precision_score(y, flagged, zero_division=np.nan),
            "recall": sk.recall_score(y, flagged, zero_division=np.nan),
            "f1": sk.f1_score(y, flagged, zero_division=np.nan),
            "accuracy": sk.accuracy_score(y, flagged),
        }
        for name, value in wanted.items():
            assert_allclose(np.nan if row[name] is None else row[name], value, rtol=1e-12)


def test_gain_and_risk_by_counting():
    frame = FRAMES["tied"]
    y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
    gain = frame.eval.curve("gain", "y", "p")
    risk = frame.eval.curve("risk_coverage", "y", "p")
    assert gain.row(0, named=True)["lift"] is None
    assert gain["threshold"][1:].to_list() == risk["threshold"].to_list()
    for row, other in zip(gain[1:].iter_rows(named=True), risk.iter_rows(named=True), strict=True):
        kept = p >= row["threshold"]
        found = [row["share"], row["gain"], row["lift"], other["coverage"], other["risk"]]
        wanted = [kept.mean(), y[kept].sum() / y.sum(), y[kept].mean() / y.mean()]
        assert_allclose(found, [*wanted, kept.mean(), (~y[kept]).mean()], rtol=1e-12)


def test_bands_are_wilsons():
    found = FRAMES["tied"].eval.curve("pr", "y", "p", level=0.9)
    y, p = FRAMES["tied"]["y"].to_numpy(), FRAMES["tied"]["p"].to_numpy()
    for row in found.iter_rows(named=True):
        kept = p >= row["threshold"]
        hits = (y & kept).sum()
        for name, size in (("precision", kept.sum()), ("recall", y.sum())):
            band = proportion_confint(hits, size, 0.1, "wilson")
            assert_allclose([row[f"{name}_low"], row[f"{name}_high"]], band, rtol=1e-9, atol=1e-12)
    moved = FRAMES["tied"].eval.curve("pr", "y", "p", at_prevalence=0.1, weight="w")
    assert moved["precision_low"].null_count() == moved.height


FLAGGED = "flagged"
RATES = {
    "recall": fe.recall("y", FLAGGED),
    "tpr": fe.recall("y", FLAGGED),
    "gain": fe.recall("y", FLAGGED),
    "precision": fe.precision("y", FLAGGED),
    "fpr": fe.fpr("y", FLAGGED),
    "fnr": fe.fnr("y", FLAGGED),
    "accuracy": fe.accuracy("y", FLAGGED),
    "risk": fe.rate("wrong"),
    "correct": fe.rate("both"),
    "wrong": fe.rate("only_flagged"),
    "abstained": fe.rate("unflagged"),
}
CURVES = {
    "roc": ["fpr", "tpr"],
    "det": ["fpr", "fnr"],
    "pr": ["recall", "precision"],
    "threshold": ["recall", "precision", "fpr", "accuracy"],
    "gain": ["gain"],
    "risk_coverage": ["risk"],
    "abstention": ["correct", "wrong", "abstained"],
}


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize(
    "options",
    [
        {"cluster": "c"},
        {"weight": "w"},
        {"cluster": "c", "weight": "w"},
        {"cluster": fe.crossed("c", "d")},
        {"cluster": fe.crossed("c", "d"), "weight": "w"},
        {},
    ],
    ids=["clusters", "weights", "both", "crossed", "crossed, weights", "neither"],
)
@pytest.mark.parametrize("block", [2_000_000, 50])
def test_bands_are_the_intervals_of_a_summary(kind, options, block, monkeypatch):
    monkeypatch.setattr(curves, "_ENTRIES", block)
    row = pl.int_range(pl.len())
    frame = FRAMES["tied"][:120].with_columns(c=row // 3 % 25, d=row * 7 % 9)
    found = frame.eval.curve(kind, "y", "p", by="m", level=0.9, **options)
    for row in found.iter_rows(named=True):
        part = frame.filter(m=row["m"]).with_columns(flagged=pl.col("p") >= row["threshold"])
        part = part.with_columns(
            wrong=~pl.col("y"),
            both=pl.col("flagged") & pl.col("y"),
            only_flagged=pl.col("flagged") & ~pl.col("y"),
            unflagged=~pl.col("flagged"),
        )
        for name in CURVES[kind]:
            rows = part.filter("flagged") if name == "risk" else part
            one = rows.eval.summary(RATES[name], level=0.9, **options).row(0, named=True)
            wanted = [one["estimate"], one["ci_low"], one["ci_high"]]
            band = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
            assert [value is None for value in band] == [value is None for value in wanted]
            if one["estimate"] is not None:
                assert_allclose(
                    np.array(band, float), np.array(wanted, float), rtol=1e-9, atol=1e-12
                )


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize(
    "options", [{"cluster": "c"}, {"weight": "w"}, {"cluster": fe.crossed("c", "d")}], ids=str
)
def test_bands_of_bins_are_the_intervals_of_a_summary(strategy, options):
    row = pl.int_range(pl.len())
    frame = FRAMES["distinct"].with_columns(c=row % 20, d=row // 20 % 9)
    found = frame.eval.curve("reliability", "y", "p", bins=4, strategy=strategy, **options)
    assert found.height == 4
    for row in found.iter_rows(named=True):
        low = (
            pl.col("p") > row["bin_low"] if strategy == "uniform" else pl.col("p") >= row["bin_low"]
        )
        one = frame.filter(low, pl.col("p") <= row["bin_high"]).eval.summary(
            fe.rate("y"), **options
        )
        wanted = one.select("estimate", "ci_low", "ci_high", "n").row(0)
        band = [row[name] for name in ("observed", "observed_low", "observed_high", "n")]
        assert_allclose(band, wanted, rtol=1e-9)


def test_abstention_by_counting():
    frame = FRAMES["tied"]
    found = frame.eval.curve("abstention", "y", "p")
    assert found.row(0, named=True)["accuracy"] is None
    for row in found.iter_rows(named=True):
        metrics = fe.abstention("y", fe.col("p") >= row["threshold"])
        values = dict(frame.eval.summary(*metrics).select("metric", "estimate").rows())
        expected = {
            "coverage": values["coverage"],
            "accuracy": values["selective_accuracy"],
            "correct": values["correct"],
            "wrong": values["wrong"],
            "abstained": values["refused"],
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_thinned_curves_without_positives(kind):
    frame = pl.DataFrame({"y": np.zeros(200, int), "p": np.linspace(0, 1, 200)})
    found = frame.eval.curve(kind, "y", "p", points=50)
    assert found["n"][-1] == (200 if kind != "reliability" else 14)


@pytest.mark.parametrize("kind", KINDS)
def test_slices_and_systems_are_the_parts(kind):
    frame = FRAMES["tied"]
    found = frame.eval.curve(kind, "y", "p", by="g", system="m")
    assert found.columns[:3] == ["g", "m", "curve"]
    assert found["curve"].unique().to_list() == [kind]
    for (g, m), part in found.group_by("g", "m", maintain_order=True):
        alone = frame.filter(g=g, m=m).eval.curve(kind, "y", "p")
        assert part.drop("g", "m").equals(alone)
    stacked = frame.eval.curve(kind, "y", "p", by="g", overall=True)
    whole = stacked.filter(slice="overall").drop("slice", "value")
    assert whole.equals(frame.eval.curve(kind, "y", "p"))


@pytest.mark.parametrize("points", [50, 200, 1000])
@pytest.mark.parametrize("shape", ["easy", "hard", "few positives", "tied"])
def test_thinning_keeps_the_picture(points, shape):
    rng = np.random.default_rng(points)
    rows = 60_000
    y = rng.random(rows) < (0.002 if shape == "few positives" else 0.3)
    s = rng.normal(size=rows) + y * (4 if shape == "easy" else 0.5)
    s = np.round(s, 1) if shape == "tied" else s
    frame = pl.DataFrame({"y": y, "s": s})
    thin = frame.eval.curve("roc", "y", "s", points=points)
    whole = frame.eval.curve("roc", "y", "s", points=None)
    assert thin.height <= min(points, whole.height)
    assert thin.join(whole, on=["threshold", "fpr", "tpr"], how="semi").height == thin.height
    assert thin.row(0) == whole.row(0)
    assert thin.row(-1) == whole.row(-1)
    areas = [np.trapezoid(c["tpr"], c["fpr"]) for c in (thin, whole)]
    assert_allclose(areas[1], sk.roc_auc_score(y, s), rtol=1e-10)
    assert abs(areas[0] - areas[1]) <= 3 / (points - 2)
    gaps = np.interp(whole["fpr"], thin["fpr"], thin["tpr"]) - whole["tpr"].to_numpy()
    assert np.trapezoid(np.abs(gaps), whole["fpr"]) <= 3 / (points - 2)


def test_curves_end_where_the_metrics_are():
    frame = FRAMES["tied"]
    roc, pr = (frame.eval.curve(kind, "y", "p") for kind in ("roc", "pr"))
    auc, ap, ks = frame.eval.summary(
        fe.roc_auc("y", "p"), fe.average_precision("y", "p"), fe.ks("y", "p")
    )["estimate"]
    assert_allclose(np.trapezoid(roc["tpr"], roc["fpr"]), auc, rtol=1e-12)
    steps = np.diff(pr["recall"].to_numpy(), prepend=0.0)
    assert_allclose(steps @ pr["precision"].to_numpy(), ap, rtol=1e-12)
    assert_allclose((roc["tpr"] - roc["fpr"]).abs().max(), ks, rtol=1e-12)
    at = frame.eval.curve("pr", "y", "p", at_prevalence=0.01)
    steps = np.diff(at["recall"].to_numpy(), prepend=0.0)
    metric = fe.average_precision("y", "p", at_prevalence=0.01)
    assert_allclose(
        steps @ at["precision"].to_numpy(),
        frame.eval.summary(metric)["estimate"].item(),
        rtol=1e-12,
    )


def test_one_class_is_null_with_a_reason():
    frame = pl.DataFrame({"y": [0, 0], "p": [0.5, 0.1]})
    roc = frame.eval.curve("roc", "y", "p")
    assert roc["tpr"].null_count() == roc.height
    assert set(roc["note"]) == {"no positives"}
    assert roc["fpr"].to_list() == [0, 0.5, 1]


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_slices_without_rows_have_no_curve(cluster):
    frame = pl.DataFrame({"y": [0, 1, 1], "s": [0.1, 0.9, 0.4], "doc": [1, 1, 2]})
    never = fe.where(never=fe.col("s") > 1)
    with pytest.raises(fe.EvalError, match="there is no curve"):
        frame.eval.curve("roc", "y", "s", by=never, cluster=cluster)


def test_both_doors_and_pandas():
    frame = FRAMES["tied"]
    native = frame.to_pandas()
    found = native.eval.curve("roc", "y", "p", by="g")
    assert isinstance(found, pd.DataFrame)
    assert found["g"].dtype == native["g"].dtype
    assert fe.curve(frame.lazy(), "roc", "y", "p", by="g").equals(
        pl.from_pandas(found).cast({"note": pl.String})
    )
    bound = frame.eval.roles(system="m").curve("pr", "y", "p")
    assert bound.columns[:2] == ["m", "curve"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "rco"}, "Did you mean 'roc'"),
        ({"points": 5}, "points=5 is neither None nor a whole number of at least 50"),
        ({"level": 2}, "level=2 is not between 0 and 1"),
        ({"kind": "reliability", "score": "s"}, "reliability needs probabilities"),
        ({"kind": "reliability", "bins": 0}, "bins=0 is not a whole number of at least 1"),
        ({"kind": "reliability", "at_prevalence": 0.1}, "at_prevalence=0.1 is for thresholds"),
        ({"score": "q"}, "input 'q' is not a column"),
        ({"by": "threshold"}, "key column 'threshold' has the name of a result column"),
        ({"missing": "worst"}, "missing='worst' is unknown"),
        ({"score": "none", "missing": "drop"}, "no row of any slice has"),
        ({"score": "none"}, "rows are missing"),
    ],
)
def test_what_can_not_be_is_said(options, message):
    frame = pl.DataFrame(
        {"y": [0, 1], "p": [0.1, 0.2], "s": [-1, 3], "threshold": ["a", "b"], "none": [None, None]},
        schema_overrides={"none": pl.Float64},
    )
    given = {"kind": "roc", "label": "y", "score": "p", **options}
    with pytest.raises(fe.EvalError, match=message):
        frame.eval.curve(**given)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("reliability", {"bins": "many"}),
        ("reliability", {"bins": 2.5}),
        ("roc", {"at_prevalence": "half"}),
    ],
)
def test_numbers_that_are_none(kind, options):
    frame = pl.DataFrame({"y": [1, 0], "p": [0.9, 0.1]})
    with pytest.raises(fe.EvalError, match=next(iter(options))):
        frame.eval.curve(kind, "y", "p", **options)


def test_thinned_points_are_those_at_which_a_part_of_a_range_begins():
    rng = np.random.default_rng(7)
    sums = Sums(
        {
            "pos": rng.integers(0, 9, 5000) * 0.7,
            "neg": rng.integers(0, 3, 5000),
            "rows": np.ones(5000),
        },
        (np.arange(5000.0),),
    )
    whole = Flagged.of(sums, counted=True)
    keep, parts = np.zeros(5001, bool), (300 - 2) // 6
    keep[[0, -1]] = True
    for values in (whole.tp, whole.fp, np.log1p(whole.n)):
        part = np.floor(values * (parts / values[-1]))
        changed = np.flatnonzero(np.diff(part)) + 1
        keep[changed] = keep[changed - 1] = True
    assert_array_equal(whole.thinned(300).at, np.flatnonzero(keep))


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_without_weight_has_no_rates_and_says_so(kind):
    frame = data(40).with_columns(part=pl.int_range(pl.len()) % 2)
    frame = frame.with_columns(w=pl.col("part").cast(float))
    found = frame.eval.curve(kind, "y", "p", by="part", weight="w")
    assert set(found.filter(part=0)["note"]) == {"no rows"}
    assert set(found.filter(part=1)["note"]) == {None}
