"""What must hold of rank metrics and curves on any labels and scores."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import frame_eval as fe

METRICS = {
    "auc": fe.roc_auc("y", "s"),
    "gini": fe.gini("y", "s"),
    "ap": fe.average_precision("y", "s"),
    "partial": fe.partial_auc("y", "s", 0.4),
    "ks": fe.ks("y", "s"),
    "precision at recall": fe.precision_at_recall("y", "s", 0.6),
    "recall at precision": fe.recall_at_precision("y", "s", 0.6),
    "precision at k": fe.precision_at_k("y", "s", 3),
    "recall at k": fe.recall_at_k("y", "s", 0.3),
    "aurc": fe.aurc("y", "s"),
    "accuracy at coverage": fe.accuracy_at_coverage("y", "s", 0.4),
}
RATES = ("auc", "gini", "partial", "ks")  # of each class alone, whatever its share


@st.composite
def frames(draw):
    n = draw(st.integers(2, 14))
    column = st.lists(st.integers(-3, 3), min_size=n, max_size=n)
    labels = draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))
    return pl.DataFrame({"y": [0, 1, *labels], "s": draw(column)}).with_columns(
        pl.col("s").cast(float)
    )


def values(frame, names=METRICS, **options):
    metrics = [METRICS[name].alias(name) for name in names]
    result = frame.eval.summary(*metrics, interval=None, **options)
    return dict(result.select("metric", "estimate").rows())


def same(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        other = second[name]
        assert (value is None) == (other is None), name
        assert value is None or math.isclose(value, other, rel_tol=1e-12, abs_tol=1e-12), name


@given(frame=frames(), seed=st.integers(0, 99))
def test_row_order_never_matters(frame, seed):
    same(values(frame), values(frame.sample(fraction=1, shuffle=True, seed=seed)))


@given(
    frame=frames(),
    rise=st.sampled_from(
        [
            pl.col("s") * 1e300,
            pl.col("s") * 5e-324,
            pl.col("s").exp(),
            pl.col("s") ** 3 - 7,
            pl.col("s").cast(pl.Float32) / 3,
            pl.when(pl.col("s") > 2).then(math.inf).otherwise("s"),
            pl.when(pl.col("s") < -2).then(-math.inf).otherwise("s"),
        ]
    ),
)
def test_only_the_order_of_scores_matters(frame, rise):
    same(values(frame), values(frame.with_columns(s=rise)))


@given(frame=frames(), times=st.integers(2, 4))
def test_copies_of_negatives(frame, times):
    """They leave alone what is of each class for itself, and lower what is of the flagged rows."""
    negatives = frame.filter(y=0)
    more = pl.concat([frame, *[negatives] * (times - 1)])
    weighted = frame.with_columns(w=pl.when(pl.col("y") == 0).then(float(times)).otherwise(1.0))
    before, after = values(frame), values(more)
    same({name: before[name] for name in RATES}, {name: after[name] for name in RATES})
    assert after["ap"] <= before["ap"] + 1e-12
    first_negative = frame.filter(y=0)["s"].max() >= frame.filter(y=1)["s"].min()
    assert (after["ap"] < before["ap"] - 1e-12) == first_negative
    uncounted = [name for name in METRICS if name not in ("precision at k", "recall at k")]
    same(values(more, uncounted), values(weighted, uncounted, weight="w"))


@given(frame=frames())
def test_reversed_scores_and_labels(frame):
    turned = frame.with_columns(y=1 - pl.col("y"), s=-pl.col("s"))
    names = ["auc", "gini", "ks"]
    same(values(frame, names), values(turned, names))
    backwards = values(frame.with_columns(s=-pl.col("s")))
    assert_allclose(values(frame)["auc"] + backwards["auc"], 1)


@pytest.mark.parametrize("prevalence", [0.02, 0.2, 0.7])
def test_a_random_scorer_has_the_prevalence_for_its_average_precision(prevalence):
    rng = np.random.default_rng(5)
    y = np.arange(100_000) < prevalence * 100_000
    frame = pl.DataFrame({"y": y, "s": rng.random(len(y))})
    row = frame.eval.summary(METRICS["ap"]).row(0, named=True)
    assert abs(row["estimate"] - prevalence) < 4 * row["std_error"]
    assert_allclose(row["estimate"], prevalence, rtol=0.1)
    assert row["note"].startswith(f"prevalence {prevalence:g}")
    constant = frame.with_columns(s=0.5).eval.summary(METRICS["ap"])["estimate"].item()
    assert_allclose(constant, prevalence, rtol=1e-12)


@given(frame=frames())
def test_curves_end_where_the_metrics_say(frame):
    roc = frame.eval.curve("roc", "y", "s", points=None)
    found = values(frame)
    assert roc.select("fpr", "tpr").row(0) == (0, 0)
    assert roc.select("fpr", "tpr").row(-1) == (1, 1)
    assert_allclose(np.trapezoid(roc["tpr"], roc["fpr"]), found["auc"], rtol=1e-12, atol=1e-12)
    assert_allclose((roc["tpr"] - roc["fpr"]).abs().max(), found["ks"], rtol=1e-12)
    curve = frame.eval.curve("pr", "y", "s", points=None)
    steps = np.diff(curve["recall"], prepend=0) @ curve["precision"].to_numpy()
    assert_allclose(steps, found["ap"], rtol=1e-12)
    assert_allclose(curve["precision"][-1], frame["y"].mean())
    risk = frame.eval.curve("risk_coverage", "y", "s", points=None)
    area = np.diff(risk["coverage"], prepend=0) @ risk["risk"].to_numpy()
    assert_allclose(area, found["aurc"], rtol=1e-12, atol=1e-12)
    assert_allclose(risk["risk"][-1], 1 - frame["y"].mean(), atol=1e-12)
