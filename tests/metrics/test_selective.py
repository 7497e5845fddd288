"""Selective prediction: counted by hand, and as the classification that it is."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import frame_eval as fe


def drawn(n, seed, digits=None):
    rng = np.random.default_rng(seed)
    confidence = rng.normal(size=n)
    ok = rng.random(n) < 1 / (1 + np.exp(-confidence))
    answerable = rng.random(n) < 0.7
    answered = rng.random(n) < np.where(answerable, 0.8, 0.4)
    return pl.DataFrame(
        {
            "ok": ok.astype(int),
            "confidence": confidence if digits is None else np.round(confidence, digits),
            "answerable": answerable,
            "answered": answered,
            "w": rng.integers(1, 5, n) / 2,
            "c": np.arange(n) // 4,
            "g": rng.integers(0, 3, n),
        }
    )


FRAMES = {"distinct": drawn(150, 0), "tied": drawn(200, 1, 0)}
FRAMES["all tied"] = drawn(60, 2).with_columns(confidence=0.5)
each_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def one(frame, metric, **options):
    return frame.eval.summary(metric, **options).row(0, named=True)


def _risk_of_rows(frame, weight):
    """The risk at the confidence of every row, by counting."""
    ok, confidence = frame["ok"].to_numpy(), frame["confidence"].to_numpy()
    kept = (confidence[None, :] >= confidence[:, None]) * weight
    return (kept * (1 - ok)).sum(1) / kept.sum(1)


@each_frame
@pytest.mark.parametrize("weight", [None, "w"])
def test_aurc_by_counting(frame, weight):
    w = np.ones(frame.height) if weight is None else frame[weight].to_numpy()
    found = one(frame, fe.aurc("ok", "confidence"), weight=weight)
    assert_allclose(found["estimate"], np.average(_risk_of_rows(frame, w), weights=w), rtol=1e-12)


def test_aurc_is_the_mean_risk_of_the_curve():
    frame = FRAMES["distinct"]
    curve = frame.eval.curve("risk_coverage", "ok", "confidence")
    assert_allclose(one(frame, fe.aurc("ok", "confidence"))["estimate"], curve["risk"].mean())


@each_frame
@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"cluster": "c"}])
def test_the_gradient_of_aurc(frame, options):
    metric = fe.aurc("ok", "confidence")
    found, expected = (
        one(frame[:50], m, **options)["std_error"] for m in (metric, replace(metric, gradient=None))
    )
    assert_allclose(found, expected, rtol=1e-6)


def test_the_error_of_aurc_is_that_of_the_jackknife():
    frame, metric = FRAMES["tied"], fe.aurc("ok", "confidence")
    values = [
        one(frame.filter(pl.col("c") != c), metric, interval=None)["estimate"]
        for c in frame["c"].unique()
    ]
    size = len(values)
    error = np.sqrt((size - 1) / size * np.square(values - np.mean(values)).sum())
    assert_allclose(one(frame, metric, cluster="c")["std_error"], error, rtol=0.03)


@each_frame
@pytest.mark.parametrize("coverage", [0.01, 0.25, 0.5, 0.999, 1])
def test_accuracy_at_coverage_is_the_mean_over_orders_of_ties(frame, coverage):
    found = one(frame, fe.accuracy_at_coverage("ok", "confidence", coverage))["estimate"]
    room, hits = coverage * frame.height, 0.0
    for (_,), rows in frame.sort("confidence", descending=True).group_by(
        "confidence", maintain_order=True
    ):
        share = min(1.0, room / rows.height)
        hits += share * rows["ok"].sum()
        room -= share * rows.height
    assert_allclose(found, hits / (coverage * frame.height), rtol=1e-9)


def test_everything_kept_is_the_accuracy():
    frame = FRAMES["tied"]
    kept = one(frame, fe.accuracy_at_coverage("ok", "confidence", 1), weight="w", by="g")
    assert_allclose(kept["estimate"], one(frame, fe.rate("ok"), weight="w", by="g")["estimate"])


@pytest.mark.parametrize("coverage", [0, -0.1, 1.01])
def test_a_coverage_that_can_not_be(coverage):
    with pytest.raises(fe.EvalError, match="above 0 and at most 1"):
        fe.accuracy_at_coverage("ok", "confidence", coverage)


def _outcomes(frame):
    """The outcome of every row, in words."""
    for ok, answered, answerable in frame.select("ok", "answered", "answerable").rows():
        if answerable:
            yield ("correct" if ok else "wrong") if answered else "false_refusal"
        else:
            yield "false_answer" if answered else "right_refusal"


@pytest.mark.parametrize("options", [{}, {"cluster": "c"}, {"weight": "w"}])
def test_outcomes_of_answerable_and_unanswerable_questions(options):
    frame = FRAMES["distinct"]
    metrics = fe.abstention("ok", "answered", answerable="answerable")
    found = frame.eval.summary(*metrics, by="g", **options)
    flagged = frame.with_columns(outcome=pl.Series(list(_outcomes(frame))))
    names = ["correct", "wrong", "false_refusal", "false_answer", "right_refusal"]
    for name in names:
        expected = flagged.with_columns(x=pl.col("outcome") == name).eval.summary(
            fe.rate("x").alias(name), by="g", **options
        )
        assert_frame_equal(found.filter(metric=name), expected, rel_tol=1e-12)
    sums = found.filter(pl.col("metric").is_in(names)).group_by("g").agg(pl.col("estimate").sum())
    assert_allclose(sums["estimate"], 1.0)


@pytest.mark.parametrize("options", [{}, {"cluster": "c"}, {"weight": "w"}])
def test_rates_are_those_of_a_classification(options):
    """Refusing is predicting that there is no answer."""
    frame = FRAMES["distinct"].with_columns(
        right=pl.col("ok").cast(bool) & pl.col("answered") & pl.col("answerable")
    )
    columns = ("answerable", "answered")
    pairs = {
        "coverage": fe.rate("answered"),
        "selective_accuracy": fe.precision("right", "answered"),
        "false_refusal_rate": fe.fnr(*columns),
        "false_answer_rate": fe.fpr(*columns),
        "refusal_precision": fe.precision(*columns, positive=False),
        "refusal_recall": fe.recall(*columns, positive=False),
        "refusal_f1": fe.f1(*columns, positive=False),
    }
    found = frame.eval.summary(
        *fe.abstention("ok", "answered", answerable="answerable"), by="g", **options
    )
    for name, metric in pairs.items():
        expected = frame.eval.summary(metric.alias(name), by="g", **options)
        assert_frame_equal(found.filter(metric=name), expected, rel_tol=1e-12)


def test_where_all_questions_have_an_answer():
    frame = FRAMES["distinct"]
    found = frame.eval.summary(*fe.abstention("ok", fe.col("confidence") >= 0.3))
    values = dict(found.select("metric", "estimate").rows())
    kept = frame.filter(pl.col("confidence") >= 0.3)
    assert list(values) == ["coverage", "selective_accuracy", "correct", "wrong", "refused"]
    assert_allclose(values["coverage"], kept.height / frame.height)
    assert_allclose(values["selective_accuracy"], kept["ok"].mean())
    assert_allclose(values["correct"] + values["wrong"] + values["refused"], 1)
    assert_allclose(values["correct"], kept["ok"].sum() / frame.height)
    assert_allclose(values["refused"], 1 - values["coverage"])


def test_what_is_not_answered_needs_no_verdict(engine):
    frame = FRAMES["distinct"].drop("w")
    metrics = fe.abstention("ok", "answered", answerable="answerable")
    blank = frame.with_columns(ok=pl.when(pl.col("answered") & pl.col("answerable")).then("ok"))
    found = fe.summary(engine(blank), *metrics, by="g")
    found = found if isinstance(found, pl.DataFrame) else pl.from_pandas(found)
    expected = frame.eval.summary(*metrics, by="g")
    assert_frame_equal(found, expected, rel_tol=1e-12, check_dtypes=False)
    with pytest.raises(fe.EvalError, match=r"missing .* in 'ok'"):
        fe.summary(engine(blank.with_columns(ok=pl.lit(None, pl.Int64))), *metrics)


def test_nothing_to_be_a_share_of():
    frame = pl.DataFrame({"ok": [1, 1], "answered": [False, False], "answerable": [True, True]})
    found = frame.eval.summary(*fe.abstention("ok", "answered", answerable="answerable"))
    notes = dict(found.filter(pl.col("estimate").is_null()).select("metric", "note").rows())
    assert notes == {
        "selective_accuracy": "nothing is answered",
        "false_answer_rate": "nothing is unanswerable",
        "refusal_recall": "nothing is unanswerable",
    }
    assert found.filter(metric="refusal_precision")["estimate"].item() == 0


def test_expressions_and_comparisons():
    frame = FRAMES["distinct"]
    metrics = fe.abstention("ok", "answered", answerable="answerable")
    found = frame.group_by("g").agg(m.expr() for m in metrics).sort("g")
    expected = frame.eval.summary(*metrics, by="g").pivot("metric", index="g", values="estimate")
    assert_frame_equal(found, expected, rel_tol=1e-12)
    both = pl.concat(
        [
            frame.with_columns(m=pl.lit("a"), i=pl.int_range(pl.len())),
            frame.with_columns(m=pl.lit("b"), i=pl.int_range(pl.len()), answered=True),
        ]
    )
    result = both.eval.compare(*metrics, fe.aurc("ok", "confidence"), system="m", example="i")
    row = result.filter(metric="coverage").row(0, named=True)
    assert_allclose(row["difference"], 1 - frame["answered"].mean())


@pytest.mark.parametrize("column", ["ok", "answered", "answerable"])
def test_flags_are_0_or_1(column):
    frame = FRAMES["distinct"].with_columns(pl.lit(2).alias(column))
    with pytest.raises(fe.EvalError, match=f"column '{column}' must be 0/1"):
        frame.eval.summary(*fe.abstention("ok", "answered", answerable="answerable"))
