"""Frames in which no row counts: all missing, or all of weight 0."""

import polars as pl
import pytest

import frame_eval as fe

TEXTS = pl.Series([None] * 6, dtype=pl.String)
FRAME = pl.DataFrame(
    {
        "model": ["a", "b"] * 3,
        "id": [0, 0, 1, 1, 2, 2],
        "y": [0, 0, 1, 1, 1, 1],
        "s": [0.2, 0.4, 0.6, 0.1, 0.9, 0.5],
        "label": TEXTS,
        "pred": TEXTS,
        "none": pl.Series([None] * 6, dtype=pl.Float64),
        "zero": [0.0] * 6,
    }
)
METRICS = [
    *(fe.f1("label", "pred", average=average) for average in ("macro", "micro", "weighted", None)),
    fe.accuracy("label", "pred"),
    fe.mcc("label", "pred"),
    fe.cohen_kappa("label", "pred"),
    fe.average_precision("y", "none"),
    fe.roc_auc("y", "none"),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_label_or_score_is_missing(metric):
    roles = {"system": "model", "missing": "drop"}
    found = FRAME.eval.summary(metric, **roles)
    assert found.select("estimate", "n", "missing", "note").rows() == [(None, 0, 3, "no rows")] * 2
    compared = FRAME.eval.compare(metric, example="id", baseline="a", **roles)
    assert compared.select("difference", "note").rows() == [(None, "no rows")]
    drawn = FRAME.eval.bootstrap(metric, example="id", resamples=100, **roles)
    assert drawn["resampled"].is_null().all()


def test_every_weight_is_0():
    found = FRAME.eval.summary(fe.average_precision("y", "s"), weight="zero")
    assert found["estimate"].item() is None
    assert found["note"].item()
    curve = FRAME.eval.curve("risk_coverage", "y", "s", weight="zero")
    assert curve["coverage"].is_null().all()


def test_no_class_is_among_the_labels():
    frame = pl.DataFrame({"y": ["ant", "bee"], "p": ["ant", "ant"]})
    with pytest.raises(fe.EvalError, match=r"labels=\['Ant'\]. Classes: 'ant', 'bee'"):
        frame.eval.summary(fe.f1("y", "p", average=None, labels=["Ant"]))
