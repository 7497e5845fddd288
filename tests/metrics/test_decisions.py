"""Decisions and graded agreement beside scikit-learn, and derivatives beside differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from sklearn import metrics as sk

import frame_eval as fe

WORDS = ["ant", "bee", "cat", "dog"]
COSTS = {(a, b): 1.0 + i - 0.5 * j for i, a in enumerate(WORDS) for j, b in enumerate(WORDS)}


def drawn(n=300, seed=0):
    """Words, grades and 0/1 labels with predictions, a probability and scores per word."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])
    p = np.where(rng.random(n) < 0.6, y, rng.choice(4, n))
    return pl.DataFrame(
        {
            "y": np.array(WORDS)[y],
            "p": np.array(WORDS)[p],
            "grade": y + 1,
            "other": p + 1,
            "a": (y > 0).astype(int),
            "b": (p > 0).astype(int),
            "q": rng.random(n).round(2),
            "c": rng.integers(0, 40, n),
            "w": rng.integers(1, 4, n).astype(float),
            **{word: rng.normal(size=n) for word in WORDS},
        }
    ).with_columns(q=pl.col("q").clip(0.01, 0.99))


FRAME = drawn()
SMOOTH = [
    fe.jaccard("a", "b"),
    fe.jaccard("y", "p", average="macro"),
    fe.jaccard("y", "p", average="micro"),
    fe.jaccard("y", "p", average="weighted"),
    fe.cohen_kappa("grade", "other", weights="linear"),
    fe.cohen_kappa("y", "p", weights="quadratic", labels=WORDS[::-1]),
    fe.informedness("a", "b"),
    fe.markedness("a", "b"),
    fe.expected_cost("y", "p", COSTS),
    fe.brier("a", "q"),
    fe.log_loss("a", "q"),
    fe.perplexity("q", "grade"),
    fe.bits_per_byte("q", "grade"),
    fe.calibration_slope("a", "q"),
    fe.calibration_intercept("a", "q"),
]


def one(frame, metric, **options):
    return frame.eval.summary(metric, **options).row(0, named=True)


@pytest.mark.parametrize("metric", SMOOTH, ids=lambda metric: metric.name)
@pytest.mark.parametrize("options", [{}, {"weight": "w", "cluster": "c"}], ids=["rows", "clusters"])
def test_derivatives_are_those_of_the_value(metric, options):
    """Central differences of ``finish``, where there is a gradient or a proportion."""
    plain = replace(metric, gradient=None, proportion=None)
    exact = replace(metric, proportion=None)
    found, expected = one(FRAME, exact, **options), one(FRAME, plain, **options)
    assert_allclose(found["std_error"], expected["std_error"], rtol=1e-6)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("weights", ["linear", "quadratic"])
def test_weighted_kappa_against_scikit_learn(weights, weight):
    w = None if weight is None else FRAME["w"].to_numpy()
    for y, p, labels in (("grade", "other", None), ("y", "p", WORDS)):
        found = one(FRAME, fe.cohen_kappa(y, p, weights=weights, labels=labels), weight=weight)
        first, second = FRAME[y].to_numpy(), FRAME[p].to_numpy()
        expected = sk.cohen_kappa_score(first, second, weights=weights, sample_weight=w)
        assert found["metric"] == f"{weights}_cohen_kappa"
        assert_allclose(found["estimate"], expected, rtol=1e-12)


def test_grades_are_as_far_apart_as_their_numbers():
    """A grade that nobody gave still lies between its neighbours; the order is one step each."""
    frame = pl.DataFrame({"a": [1, 2, 5, 5], "b": [1, 5, 2, 5]})
    numbers = one(frame, fe.cohen_kappa("a", "b", weights="linear"))["estimate"]
    chance = np.abs(np.subtract.outer([1, 2, 5, 5], [1, 5, 2, 5])).mean()
    assert_allclose(numbers, 1 - 1.5 / chance, rtol=1e-13)
    steps = one(frame, fe.cohen_kappa("a", "b", weights="linear", labels=[1, 2, 5]))["estimate"]
    expected = sk.cohen_kappa_score(frame["a"].to_list(), frame["b"].to_list(), weights="linear")
    assert_allclose(steps, expected, rtol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_accuracy_against_scikit_learn(k):
    scores = FRAME.select(WORDS).to_numpy()
    metric = fe.top_k_accuracy("y", {word: word for word in WORDS}, k)
    found = one(FRAME, metric, weight="w")
    expected = sk.top_k_accuracy_score(
        FRAME["y"].to_numpy(), scores, k=k, labels=WORDS, sample_weight=FRAME["w"].to_numpy()
    )
    assert found["metric"] == f"top_{k}_accuracy"
    assert_allclose(found["estimate"], expected, rtol=1e-13)
    assert one(FRAME, metric)["method"] == "wilson"


def test_ties_are_behind_in_the_top_k():
    frame = pl.DataFrame(
        {"y": ["ant", "bee", "cat"], "ant": [1.0, 2.0, 0.0], "bee": [1.0, 2.0, 0.0], "cat": 0.0}
    ).with_columns(cat=pl.Series([0.0, float("-inf"), 0.0]))
    columns = {word: word for word in WORDS[:3]}
    found = [one(frame, fe.top_k_accuracy("y", columns, k))["estimate"] for k in (1, 2)]
    assert_allclose(found, [0, 2 / 3])
    missing = frame.with_columns(bee=pl.Series([None, 2.0, float("nan")]))
    worst = one(missing, fe.top_k_accuracy("y", columns, 2), missing="worst")
    assert (worst["estimate"], worst["missing"]) == (pytest.approx(1 / 3), 2)
    assert one(missing, fe.top_k_accuracy("y", columns, 2), missing="drop")["n"] == 1


@pytest.mark.parametrize("score", [fe.f1, fe.recall, fe.jaccard])
@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_classes_with_little_support_are_left_out_and_named(score, average):
    rows = FRAME["y"].value_counts().sort("y")
    frequent = rows.filter(pl.col("count") >= 30)["y"].to_list()
    rare = [word for word in WORDS if word not in frequent]
    assert rare
    found = one(FRAME, score("y", "p", average=average, min_support=30))
    expected = one(FRAME, score("y", "p", average=average, labels=frequent))
    assert_allclose(found["estimate"], expected["estimate"], rtol=1e-13)
    assert_allclose(found["std_error"], expected["std_error"], rtol=1e-10)
    assert found["note"] == f"fewer than 30 rows, left out: {', '.join(map(repr, rare))}"
    nothing = one(FRAME, score("y", "p", average=average, min_support=10_000))
    assert nothing["estimate"] is None
    assert "no class is defined" in nothing["note"]


def test_support_counts_rows_whatever_they_weigh():
    light = FRAME.with_columns(w=pl.lit(1e-3))
    metric = fe.balanced_accuracy("y", "p", min_support=30)
    assert one(light, metric, weight="w")["note"] == one(FRAME, metric)["note"]
    kept = one(FRAME, fe.recall("y", "p", average="macro", min_support=30))
    assert_allclose(one(FRAME, metric)["estimate"], kept["estimate"], rtol=1e-14)
    by = FRAME.eval.summary(metric, by="c")
    assert by["estimate"].null_count() == by.height


def test_costs_in_guards_and_comparisons():
    """Cheaper is better; a cost of one for all mistakes is the error rate."""
    flat = {(a, b): 1 for a in WORDS for b in WORDS if a != b}
    cost = one(FRAME, fe.expected_cost("y", "p", flat))
    assert_allclose(cost["estimate"], 1 - one(FRAME, fe.accuracy("y", "p"))["estimate"], rtol=1e-13)
    each = np.array([COSTS[pair] for pair in FRAME.select("y", "p").rows()])
    found = one(FRAME, fe.expected_cost("y", "p", COSTS))
    assert_allclose(found["estimate"], each.mean(), rtol=1e-13)
    assert_allclose(found["std_error"], each.std(ddof=1) / np.sqrt(len(each)), rtol=1e-10)
    decided = fe.expected_cost("a", pl.col("q") >= 0.5, {(1, 0): 9, (0, 1): 1})
    pair = FRAME.select(miss=(pl.col("a") == 1) & (pl.col("q") < 0.5), alarm=pl.col("a") == 0)
    expected = np.where(pair["miss"], 9, (pair["alarm"] & (FRAME["q"] >= 0.5)).cast(int)).mean()
    assert_allclose(one(FRAME, decided)["estimate"], expected, rtol=1e-13)


def test_rates_are_complements():
    y = FRAME.eval.summary(
        fe.fpr("a", "b"), fe.specificity("a", "b"), fe.fnr("a", "b"), fe.recall("a", "b")
    )
    assert_allclose(y["estimate"][0::2] + y["estimate"][1::2], 1.0, rtol=1e-14)
    assert_allclose(y["ci_low"][0::2] + y["ci_high"][1::2], 1.0, rtol=1e-12)
    assert y["n"][0] == y["n"][1]
    nothing = pl.DataFrame({"a": [1, 1], "b": [1, 1]})
    assert one(nothing, fe.fpr("a", "b"))["note"] == "no negatives"
    assert one(nothing, fe.npv("a", "b", zero_division=1))["estimate"] == 1


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: fe.cohen_kappa("y", "p", weights="square"), ["weights='square'"]),
        (lambda: fe.cohen_kappa("y", "p", labels=WORDS), ["labels=", "weights="]),
        (
            lambda: one(FRAME, fe.cohen_kappa("y", "p", weights="linear")),
            ["'ant', 'bee', 'cat', 'dog'", "labels=[...]"],
        ),
        (
            lambda: one(FRAME, fe.cohen_kappa("y", "p", weights="linear", labels=WORDS[:2])),
            ["'cat', 'dog'", "labels=['ant', 'bee']"],
        ),
        (lambda: fe.f1("y", "p", min_support=3), ["min_support=", "'macro'"]),
        (lambda: fe.npv("y", "p", zero_division=2), ["zero_division=2"]),
        (
            lambda: fe.top_k_accuracy("y", {"ant": "ant", "bee": "bee"}, 2),
            ["k=2", "between 1 and 1"],
        ),
        (lambda: fe.top_k_accuracy("y", {"ant": "ant", "bee": "bee"}, 1.0), ["k=1.0"]),
        (
            lambda: one(FRAME, fe.top_k_accuracy("y", {"ant": "ant", "bee": "bee"}, 1)),
            ["rows of column 'y'", "'ant', 'bee'"],
        ),
        (lambda: fe.expected_cost("y", "p", {("ant", "bee"): 5}), ["('bee', 'ant')"]),
        (lambda: fe.expected_cost("y", "p", {}), ["missing"]),
        (
            lambda: fe.expected_cost("y", "p", {("a", "b"): 5, ("b", "a"): float("nan")}),
            ["('b', 'a')", "nan"],
        ),
        (
            lambda: one(FRAME, fe.expected_cost("y", "p", {("ants", "b"): 5, ("b", "ants"): 1})),
            ["class 'ant' has no costs", "Did you mean 'ants'?"],
        ),
    ],
)
def test_errors(ask, words):
    with pytest.raises(fe.EvalError) as caught:
        ask()
    assert all(word in str(caught.value) for word in words), str(caught.value)


SCORES = {
    "precision": (fe.precision, sk.precision_score),
    "recall": (fe.recall, sk.recall_score),
    "f1": (fe.f1, sk.f1_score),
    "jaccard": (fe.jaccard, sk.jaccard_score),
}


class TestMultilabel:
    """A row per example and label, beside scikit-learn's indicator matrices."""

    @staticmethod
    def drawn(n=60, labels=5, seed=3):
        rng = np.random.default_rng(seed)
        truth = rng.random((n, labels)) < 0.4
        found = np.where(rng.random((n, labels)) < 0.7, truth, rng.random((n, labels)) < 0.3)
        rows = pl.DataFrame(
            {
                "id": np.repeat(np.arange(n), labels),
                "label": np.tile(np.arange(labels), n),
                "y": truth.ravel().astype(int),
                "p": found.ravel().astype(int),
                "lang": np.repeat(rng.integers(0, 2, n), labels),
                "doc": np.repeat(np.arange(n) // 3, labels),
                "w": np.repeat(rng.integers(1, 4, n), labels).astype(float),
            }
        )
        return truth, found, rows.sample(fraction=1, shuffle=True, seed=0)

    @pytest.mark.parametrize("name", SCORES)
    @pytest.mark.parametrize("zero", [0, 1])
    def test_mean_over_examples(self, name, zero):
        metric, score = SCORES[name]
        truth, found, rows = self.drawn()
        asked = metric("y", "p", average="samples", zero_division=zero)
        result = one(rows, asked, example="id")
        expected = score(truth, found, average="samples", zero_division=zero)
        assert_allclose(result["estimate"], expected, rtol=1e-13)
        assert (result["metric"], result["n"], result["note"]) == (f"samples_{name}", 60, None)
        weights = rows.unique("id").sort("id")["w"].to_numpy()
        weighted = one(rows, asked, example="id", weight="w")["estimate"]
        each = np.array(
            [
                score(t[None], f[None], average="samples", zero_division=zero)
                for t, f in zip(truth, found, strict=True)
            ]
        )
        assert_allclose(weighted, np.average(each, weights=weights), rtol=1e-12)
        assert_allclose(result["std_error"], each.std(ddof=1) / np.sqrt(60), rtol=1e-9)

    @pytest.mark.parametrize("name", SCORES)
    def test_undefined_examples_are_left_out_and_counted(self, name):
        metric, _ = SCORES[name]
        truth, found, rows = self.drawn()
        empty = {
            "precision": ~found.any(1),
            "recall": ~truth.any(1),
        }.get(name, ~(truth | found).any(1))
        result = one(rows, metric("y", "p", average="samples"), example="id", cluster="doc")
        kept = rows.filter(pl.col("id").is_in(np.flatnonzero(~empty)))
        expected = one(kept, metric("y", "p", average="samples"), example="id", cluster="doc")
        assert_allclose(result["estimate"], expected["estimate"], rtol=1e-13)
        assert_allclose(result["std_error"], expected["std_error"], rtol=1e-9)
        assert result["note"] == (
            f"{empty.sum()} examples undefined, left out" if empty.any() else None
        )
        nothing = rows.with_columns(y=0, p=0)
        assert (
            "no example is defined"
            in one(nothing, metric("y", "p", average="samples"), example="id")["note"]
        )

    def test_the_other_averages(self):
        truth, found, rows = self.drawn()
        micro = one(rows, fe.f1("y", "p"), cluster="id")["estimate"]
        assert_allclose(micro, sk.f1_score(truth, found, average="micro"), rtol=1e-13)
        macro = rows.eval.summary(fe.f1("y", "p"), by="label")["estimate"].mean()
        assert_allclose(macro, sk.f1_score(truth, found, average="macro"), rtol=1e-13)
        loss = one(rows, fe.hamming_loss("y", "p"), cluster="id")["estimate"]
        assert_allclose(loss, sk.hamming_loss(truth, found), rtol=1e-13)

    def test_it_needs_an_example(self):
        rows = self.drawn()[2]
        with pytest.raises(fe.EvalError, match="say example="):
            one(rows, fe.f1("y", "p", average="samples"))

    def test_engines_agree(self, engine):
        rows = self.drawn()[2]
        metrics = [score("y", "p", average="samples") for score, _ in SCORES.values()]
        options = {"by": "lang", "example": "id", "cluster": "doc", "weight": "w"}
        expected = rows.eval.summary(*metrics, **options)
        found = fe.of(engine(rows)).summary(*metrics, **options)
        if not isinstance(found, pl.DataFrame):
            found = pl.from_pandas(found)
        assert_frame_equal(found, expected, rel_tol=1e-11, check_dtypes=False)


def test_engines_agree_on_ranks_and_costs(engine):
    metrics = [
        fe.top_k_accuracy("y", {word: word for word in WORDS}, 2),
        fe.expected_cost("y", "p", COSTS),
        fe.cohen_kappa("grade", "other", weights="linear"),
        fe.npv("a", "b"),
        fe.informedness("a", "b"),
        fe.jaccard("y", "p", average=None).alias("classes"),
    ]
    expected = FRAME.eval.summary(*metrics, cluster="c")
    found = fe.of(engine(FRAME)).summary(*metrics, cluster="c")
    if not isinstance(found, pl.DataFrame):
        found = pl.from_pandas(found)
    assert_frame_equal(found, expected, rel_tol=1e-11, check_dtypes=False)
