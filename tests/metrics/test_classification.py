"""Averages over classes, and which classes count."""

import polars as pl
import pytest
from numpy.testing import assert_allclose
from oracles.cases import EXACT, NAN, TABLES, WORDS, compare
from sklearn import metrics as sk

import frame_eval as fe


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (fe.precision, sk.precision_score),
        (fe.recall, sk.recall_score),
        (fe.f1, sk.f1_score),
        (lambda *a, **k: fe.fbeta(*a, 2, **k), lambda *a, **k: sk.fbeta_score(*a, beta=2, **k)),
    ],
    ids=["precision", "recall", "f1", "f2"],
)
class TestScoresPerClass:
    """Averages over chosen classes, a row per class, and values for 0/0."""

    @pytest.mark.parametrize("table", ["words", "weighted words", "alien prediction", "random"])
    def test_a_row_per_class(self, metric, score, table):
        _, frame = TABLES[table]
        result = frame.eval.summary(metric("y", "p", average=None), weight="w")
        classes = sorted({*frame["y"], *frame["p"]})
        assert result["class"].to_list() == classes
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=classes,
            average=None,
            sample_weight=frame["w"].to_numpy(),
            zero_division=NAN,
        )
        for row, value in zip(result.iter_rows(named=True), expected, strict=True):
            compare(row, value)

    @pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
    @pytest.mark.parametrize("labels", [["ant"], ["ant", "cat"], ["dog", "bee"]])
    @pytest.mark.parametrize("table", ["words", "weighted words"])
    def test_chosen_labels(self, metric, score, average, labels, table):
        _, frame = TABLES[table]
        result = frame.eval.summary(metric("y", "p", average=average, labels=labels), weight="w")
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=labels,
            average=average,
            sample_weight=frame["w"].to_numpy(),
            zero_division=NAN,
        )
        compare(result.row(0, named=True), expected)

    @pytest.mark.parametrize("average", ["macro", "micro"])
    @pytest.mark.parametrize("zero", [0, 1, None])
    @pytest.mark.parametrize("table", ["words", "unpredicted class", "alien prediction"])
    def test_a_label_that_never_occurs(self, metric, score, average, zero, table):
        _, frame = TABLES[table]
        labels = ["ant", "cat", "eel"]
        result = frame.eval.summary(
            metric("y", "p", average=average, labels=labels, zero_division=zero)
        )
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=labels,
            average=average,
            zero_division=NAN if zero is None else zero,
        )
        compare(result.row(0, named=True), expected)

    @pytest.mark.parametrize("zero", [0, 1, None])
    @pytest.mark.parametrize("table", ["words", "weighted words"])
    def test_a_label_that_never_occurs_has_a_row(self, metric, score, zero, table):
        _, frame = TABLES[table]
        labels = ["eel", "cat", "ant"]
        result = frame.eval.summary(
            metric("y", "p", average=None, labels=labels, zero_division=zero), weight="w"
        )
        assert result["class"].to_list() == labels
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=labels,
            average=None,
            sample_weight=frame["w"].to_numpy(),
            zero_division=NAN if zero is None else zero,
        )
        assert result["n"][0] == (frame.height if result["metric"][0] == "f2" else 0)
        for row, value in zip(result.iter_rows(named=True), expected, strict=True):
            if zero is None or row["class"] != "eel":
                compare(row, value)
            else:
                assert row["estimate"] == value

    @pytest.mark.parametrize("zero", [0, 1])
    @pytest.mark.parametrize("table", ["all negative", "no positives", "no predicted positives"])
    def test_zero_division(self, metric, score, zero, table):
        _, frame = TABLES[table]
        result = frame.eval.summary(metric("y", "p", zero_division=zero))
        y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
        assert result["estimate"].item() == score(y, p, zero_division=zero)


@pytest.mark.parametrize("zero", [None, 0, 1])
def test_an_expression_has_the_value_of_nothing(zero):
    """Also of a group whose rows are all missing, which has none."""
    frame = pl.DataFrame(
        {"g": [0, 0, 1, 2], "y": [1, 0, 1, None], "p": [0, 0, 1, 1]},
        schema_overrides={"y": pl.Int8},
    )
    for metric in (fe.precision("y", "p", zero_division=zero), fe.f1("y", "p", zero_division=zero)):
        found = frame.group_by("g").agg(metric.expr()).sort("g")[metric.name].to_list()
        expected = frame.eval.summary(metric, by="g", missing="drop")["estimate"].to_list()
        assert found == expected
    assert found[1:] == [1.0, None]


ASKED = {
    "some": {"labels": ["ant", "cat"]},
    "of which one never occurs": {"labels": ["ant", "elk"]},
    "with a value for nothing": {"labels": ["ant", "elk"], "zero_division": 1},
    "all, with a value for nothing": {"zero_division": 0},
}


@pytest.mark.parametrize("options", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("family", [fe.precision, fe.recall, fe.specificity, fe.f1, fe.jaccard])
def test_an_average_over_chosen_classes_as_an_expression(family, average, options):
    for table in ("words", "unpredicted class", "alien prediction"):
        frame = TABLES[table][1].with_columns(g=pl.int_range(pl.len()) % 4)
        metric = family("y", "p", average=average, **options)
        found = frame.group_by("g").agg(metric.expr()).sort("g")[metric.name]
        expected = frame.eval.summary(metric, by="g")["estimate"]
        assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-13, equal_nan=True)


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_rare_classes_are_left_out_of_expressions_too(average):
    frame = TABLES["words"][1]
    counts = sorted(frame["y"].value_counts()["count"])
    for least in (1, counts[-2], counts[-1]):
        metric = fe.f1("y", "p", average=average, min_support=least)
        expected = frame.eval.summary(metric)["estimate"].item()
        assert frame.select(metric.expr()).item() == pytest.approx(expected, rel=1e-13)
    none = fe.f1("y", "p", average=average, min_support=counts[-1] + 1)
    assert frame.select(none.expr()).item() is None


def test_expressions_know_the_order_of_grades_and_raise_for_others():
    frame = pl.DataFrame(
        {"y": ["low", "mid", "top", "low", "top"], "p": ["low", "top", "mid", "mid", "top"]}
    )
    for weights in ("linear", "quadratic"):
        metric = fe.cohen_kappa("y", "p", weights=weights, labels=["low", "mid", "top"])
        expected = frame.eval.summary(metric)["estimate"].item()
        assert frame.select(metric.expr()).item() == pytest.approx(expected, rel=1e-14)
        few = fe.cohen_kappa("y", "p", weights=weights, labels=["low", "mid"])
        with pytest.raises(pl.exceptions.InvalidOperationError, match="incomplete mapping"):
            frame.select(few.expr())
    costs = fe.expected_cost("y", "p", {("low", "mid"): 1, ("mid", "low"): 2})
    with pytest.raises(pl.exceptions.InvalidOperationError, match="incomplete mapping"):
        frame.select(costs.expr())


@pytest.mark.parametrize("labels", [[1], [True], [1.0]])
@pytest.mark.parametrize("dtype", [pl.Int8, pl.Float64, pl.Boolean])
def test_numeric_labels_are_numbers(labels, dtype):
    """Labels name classes by value, whatever numeric type the column has."""
    _, frame = TABLES["random"]
    typed = frame.with_columns(pl.col("y", "p").cast(dtype))
    result = typed.eval.summary(fe.recall("y", "p", average="macro", labels=labels))
    expected = sk.recall_score(frame["y"].to_numpy(), frame["p"].to_numpy())
    assert_allclose(result["estimate"].item(), expected, rtol=EXACT)


def test_counts_behind_an_estimate():
    _, frame = TABLES["random"]
    y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
    metrics = fe.recall, fe.precision, fe.specificity, fe.f1, fe.accuracy
    result = frame.eval.summary(*(metric("y", "p") for metric in metrics))
    union = int((y | p).sum())
    assert result["n"].to_list() == [y.sum(), p.sum(), (1 - y).sum(), union, len(y)]


def test_any_class_may_be_the_positive_one():
    _, frame = TABLES["words"]
    for word in WORDS:
        found = frame.eval.summary(fe.f1("y", "p", positive=word))["estimate"].item()
        y, p = frame["y"].to_numpy() == word, frame["p"].to_numpy() == word
        assert_allclose(found, sk.f1_score(y, p), rtol=EXACT)
