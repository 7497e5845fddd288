"""Columns of lists of labels against scikit-learn on their indicator matrices."""

import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from sklearn import metrics as sk
from sklearn.preprocessing import MultiLabelBinarizer

import frame_eval as fe

NAN = np.nan
TOPICS = ["art", "law", "sea", "war", "zoo"]
AVERAGES = ["micro", "macro", "weighted", "samples"]
SCORES = {
    "precision": (fe.precision, sk.precision_score),
    "recall": (fe.recall, sk.recall_score),
    "f1": (fe.f1, sk.f1_score),
    "f2": (
        lambda *a, **k: fe.fbeta(*a, 2, **k),
        lambda *a, **k: sk.fbeta_score(*a, beta=2, **k),
    ),
}
each_score = pytest.mark.parametrize("score", SCORES)
each_average = pytest.mark.parametrize("average", AVERAGES)


def drawn(n, seed, topics=tuple(TOPICS)):
    """Lists in any order, with repeats and empty ones; a topic is right now and then."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, len(topics))) < np.linspace(0.6, 0.1, len(topics))
    found = np.where(rng.random(truth.shape) < 0.7, truth, rng.random(truth.shape) < 0.3)

    def lists(flags):
        rows = [[topics[k] for k in rng.permutation(np.flatnonzero(row))] for row in flags]
        return [row + row[: rng.integers(0, 2)] for row in rows]

    return pl.DataFrame(
        {
            "y": pl.Series(lists(truth), dtype=pl.List(pl.String)),
            "p": pl.Series(lists(found), dtype=pl.List(pl.String)),
            "w": rng.integers(1, 5, n) / 2,
            "c": np.arange(n) // 4,
            "g": rng.integers(0, 3, n),
        }
    )


FRAME = drawn(120, 0)
SPARSE = drawn(40, 1).with_columns(p=pl.col("p").list.filter(pl.element() != "sea"))


def one(frame, metric, **options):
    return frame.eval.summary(metric, **options).row(0, named=True)


def matrices(frame, labels=None):
    names = labels or sorted(set(frame["y"].explode()) | set(frame["p"].explode()) - {None})
    names = [name for name in names if name is not None]
    maker = MultiLabelBinarizer(classes=names).fit([])
    rows = ([[t for t in row if t in names] for row in frame[c]] for c in ("y", "p"))
    return names, *(maker.transform(part) for part in rows)


@each_score
@each_average
@pytest.mark.parametrize("frame", [FRAME, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("zero", [None, 0, 1])
def test_scores(score, average, frame, zero):
    build, oracle = SCORES[score]
    _, y, p = matrices(frame)
    metric = build("y", "p", average=average, multilabel=True, zero_division=zero)
    found = one(frame, metric, weight="w")
    expected = oracle(
        y,
        p,
        average=average,
        sample_weight=frame["w"].to_numpy(),
        zero_division=NAN if zero is None else zero,
    )
    assert_allclose(found["estimate"], expected, rtol=1e-12)
    assert found["metric"] == f"{average}_{score}"
    assert found["n"] == frame.height
    assert found["ci_low"] < found["estimate"] < found["ci_high"]


@each_average
@pytest.mark.parametrize("labels", [["sea", "art"], ["law", "eel"], TOPICS])
def test_chosen_labels(average, labels):
    _, y, p = matrices(FRAME, labels)
    metric = fe.recall("y", "p", average=average, labels=labels, multilabel=True)
    expected = sk.recall_score(y, p, average=average, zero_division=NAN)
    assert_allclose(one(FRAME, metric)["estimate"], expected, rtol=1e-12)


@pytest.mark.parametrize("average", ["micro", "macro", "samples"])
def test_jaccard(average):
    _, y, p = matrices(FRAME)
    there = (y | p).any(1) if average == "samples" else slice(None)
    expected = sk.jaccard_score(y[there], p[there], average=average)
    metric = fe.jaccard("y", "p", average=average, multilabel=True)
    assert_allclose(one(FRAME, metric)["estimate"], expected, rtol=1e-12)


@pytest.mark.parametrize("average", ["micro", "macro", "samples"])
def test_specificity(average):
    _, y, p = matrices(FRAME)
    metric = fe.specificity("y", "p", average=average, multilabel=True)
    expected = sk.recall_score(1 - y, 1 - p, average=average, zero_division=NAN)
    assert_allclose(one(FRAME, metric)["estimate"], expected, rtol=1e-12)


@pytest.mark.parametrize("labels", [None, TOPICS, ["art", "sea", "eel"]])
@pytest.mark.parametrize("weight", [None, "w"])
def test_hamming_loss_and_accuracy(labels, weight):
    _, y, p = matrices(FRAME, labels)
    w = None if weight is None else FRAME[weight].to_numpy()
    hamming = fe.hamming_loss("y", "p", multilabel=True, labels=labels)
    found = one(FRAME, hamming, weight=weight)
    assert_allclose(found["estimate"], sk.hamming_loss(y, p, sample_weight=w), rtol=1e-12)
    if labels is None:
        found = one(FRAME, fe.accuracy("y", "p", multilabel=True), weight=weight)
        assert_allclose(found["estimate"], sk.accuracy_score(y, p, sample_weight=w), rtol=1e-12)
        same = [float(set(a) == set(b)) for a, b in FRAME.select("y", "p").rows()]
        plain = one(FRAME.with_columns(ok=pl.Series(same)), fe.mean("ok"), weight=weight)
        assert_allclose(found["std_error"], plain["std_error"], rtol=1e-9)


@each_score
@pytest.mark.parametrize("labels", [None, ["zoo", "eel", "art"]])
@pytest.mark.parametrize("cluster", [None, "c"])
def test_a_row_per_label_is_the_binary_metric(score, labels, cluster):
    build, _ = SCORES[score]
    metric = build("y", "p", average=None, labels=labels, multilabel=True)
    found = FRAME.eval.summary(metric, cluster=cluster, by="g")
    names = labels or TOPICS
    assert found["class"].to_list() == names * 3
    for name in names:
        flags = FRAME.with_columns(pl.col("y", "p").list.contains(name))
        expected = flags.eval.summary(build("y", "p"), cluster=cluster, by="g")
        row = found.filter(pl.col("class") == name).drop("class")
        assert_frame_equal(row, expected, rel_tol=1e-12)


@each_average
@pytest.mark.parametrize("build", [fe.f1, fe.precision, fe.specificity])
@pytest.mark.parametrize("weight", [None, "w"])
def test_gradients_are_the_derivatives(build, average, weight):
    metric = build("y", "p", average=average, multilabel=True)
    numeric = replace(metric, gradient=None)
    part = FRAME[:30]
    options = {"weight": weight, "cluster": "c"}
    found, expected = one(part, metric, **options), one(part, numeric, **options)
    assert_allclose(found["std_error"], expected["std_error"], rtol=1e-6)


@each_average
def test_the_bootstrap_agrees(average):
    metric = fe.f1("y", "p", average=average, multilabel=True)
    plain = one(FRAME, metric, cluster="c")
    drawn_error = one(FRAME, metric, cluster="c", interval="percentile", resamples=999)
    assert_allclose(drawn_error["std_error"], plain["std_error"], rtol=0.15)


def test_rows_of_labels_say_the_same():
    """A row per label of each example, and lists: the same averages over examples and labels."""
    rows = FRAME.with_row_index("id").select(
        "id", *(pl.col(c).list.contains(t).alias(f"{c}_{t}") for t in TOPICS for c in ("y", "p"))
    )
    long = pl.concat(
        [rows.select("id", y=f"y_{t}", p=f"p_{t}").with_columns(topic=pl.lit(t)) for t in TOPICS]
    )
    trial = {"example": "id", "trial": "topic"}
    for average, other in (("micro", "binary"), ("samples", "samples")):
        lists = one(FRAME, fe.f1("y", "p", average=average, multilabel=True))
        each = one(long, fe.f1("y", "p", average=other), **trial)
        assert_allclose(lists["estimate"], each["estimate"], rtol=1e-12)
        if average == "samples":
            assert_allclose(lists["std_error"], each["std_error"], rtol=1e-3)  # n / (n - 1)
    macro = one(FRAME, fe.f1("y", "p", average="macro", multilabel=True))["estimate"]
    by_topic = long.eval.summary(fe.f1("y", "p"), by="topic", **trial)["estimate"]
    assert_allclose(macro, by_topic.mean(), rtol=1e-12)


def test_systems_are_compared_on_the_same_rows():
    first = FRAME.with_columns(m=pl.lit("a"), i=pl.int_range(pl.len()))
    second = first.with_columns(m=pl.lit("b"), p=pl.col("y").list.head(2))
    both = pl.concat([first, second])
    metrics = [
        fe.f1("y", "p", average=average, multilabel=True).alias(str(average))
        for average in (*AVERAGES, None)
    ]
    result = both.eval.compare(*metrics, system="m", example="i", baseline="a", cluster="c")
    values = both.eval.summary(*metrics, by="m")
    wide = values.pivot("m", index=["metric", "class"], values="estimate")
    joined = result.join(wide, on=["metric", "class"], nulls_equal=True)
    assert joined.height == 4 + len(TOPICS)
    assert_allclose(joined["difference"], joined["b"] - joined["a"], atol=1e-12)
    assert result["p_value"].is_not_null().all()


def test_every_engine(engine):
    metrics = [
        fe.f1("y", "p", average="macro", multilabel=True),
        fe.jaccard("y", "p", average="samples", multilabel=True),
        fe.recall("y", "p", average=None, multilabel=True),
        fe.hamming_loss("y", "p", multilabel=True),
    ]
    expected = FRAME.eval.summary(*metrics, by="g", cluster="c")
    found = fe.summary(engine(FRAME.drop("w")), *metrics, by="g", cluster="c")
    found = found if isinstance(found, pl.DataFrame) else pl.from_pandas(found)
    assert_frame_equal(found, expected, rel_tol=1e-12, check_dtypes=False)


def test_lists_of_other_types():
    expected = one(FRAME, fe.f1("y", "p", average="macro", multilabel=True))
    numbers = {name: k for k, name in enumerate(TOPICS)}
    typed = [
        FRAME.with_columns(pl.col("y", "p").cast(pl.List(pl.Categorical))),
        FRAME.with_columns(pl.col("y", "p").list.eval(pl.element().replace_strict(numbers))),
        FRAME.to_pandas(),
        FRAME.to_pandas().assign(y=[set(row) for row in FRAME["y"]]),
    ]
    for frame in typed:
        found = fe.summary(frame, fe.f1("y", "p", average="macro", multilabel=True))
        assert_allclose(found["estimate"].to_list(), [expected["estimate"]], rtol=1e-12)


def test_nothing_to_find():
    empty = pl.DataFrame({"y": [[], []], "p": [[], []]}, schema_overrides={"y": pl.List(pl.String)})
    for average in (*AVERAGES, None):
        metric = fe.f1(
            "y", "p", average=average, labels=["art"] if not average else None, multilabel=True
        )
        if average is None:
            with pytest.raises(fe.EvalError, match="no class is among labels"):
                empty.eval.summary(metric)
            continue
        found = one(empty, metric)
        assert found["estimate"] is None
        assert found["note"]
    assert one(empty, fe.hamming_loss("y", "p", multilabel=True))["estimate"] is None
    assert one(empty, fe.accuracy("y", "p", multilabel=True))["estimate"] == 1
    half = pl.DataFrame({"y": [["art"], []], "p": [["art"], []]})
    found = one(half, fe.f1("y", "p", average="samples", multilabel=True))
    assert (found["estimate"], found["note"]) == (
        1.0,
        "1 row undefined, left out; all alike: a linearised error would be zero",
    )


def test_a_missing_list_is_a_missing_row():
    frame = FRAME.with_columns(p=pl.when(pl.int_range(pl.len()) % 10 > 0).then("p"))
    metric = fe.f1("y", "p", average="macro", multilabel=True)
    with pytest.raises(fe.EvalError, match="12 rows are missing"):
        frame.eval.summary(metric)
    found = frame.eval.summary(metric, missing="drop")
    expected = frame.drop_nulls("p").eval.summary(metric)
    assert found["missing"].item() == 12
    assert_frame_equal(found.drop("missing"), expected.drop("missing"), rel_tol=1e-12)


def test_rare_labels_are_left_out_and_named():
    support = FRAME["y"].list.unique().explode().value_counts().sort("y")
    least = int(support["count"].sort()[1])
    metric = fe.recall("y", "p", average="macro", min_support=least, multilabel=True)
    kept = support.filter(pl.col("count") >= least)["y"].to_list()
    rest = fe.recall("y", "p", average="macro", labels=kept, multilabel=True)
    found = one(FRAME, metric)
    assert_allclose(found["estimate"], one(FRAME, rest)["estimate"], rtol=1e-12)
    (rare,) = set(TOPICS) - set(kept)
    assert found["note"] == f"fewer than {least} rows, left out: {rare!r}"


@given(st.data())
def test_of_single_labels_it_is_multiclass(data):
    n = data.draw(st.integers(1, 12))
    columns = {
        name: data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
        for name in ("y", "p")
    }
    frame = pl.DataFrame(columns)
    lists = frame.with_columns(pl.concat_list(c).alias(c) for c in ("y", "p"))
    for average in ("micro", "macro", "weighted"):
        first = one(frame, fe.f1("y", "p", average=average))["estimate"]
        second = one(lists, fe.f1("y", "p", average=average, multilabel=True))["estimate"]
        assert (first is None and second is None) or abs(first - second) < 1e-12
    micro = one(frame, fe.f1("y", "p", average="micro"))["estimate"]
    assert abs(micro - one(frame, fe.accuracy("y", "p"))["estimate"]) < 1e-12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fe.f1("y", "p", multilabel=True), "goes with average="),
        (lambda: fe.f1("y", "p", average="macro", positive="art", multilabel=True), "labels="),
        (lambda: fe.f1("y", "p", average="samples", labels=["art"]), "labels="),
        (lambda: fe.hamming_loss("y", "p", labels=["art"]), "multilabel=True"),
        (lambda: fe.recall("y", "p", average="micro", min_support=3, multilabel=True), "min_"),
    ],
)
def test_what_does_not_go_together(make, message):
    with pytest.raises(fe.EvalError, match=message):
        make()


def test_lists_and_labels_are_told_apart():
    metrics = fe.f1("y", "p", average="macro"), fe.accuracy("y", "p"), fe.f1("y", "p", positive="a")
    for metric in metrics:
        with pytest.raises(fe.ColumnError, match=r"column 'y' is List\(String\).*multilabel=True"):
            FRAME.eval.summary(metric)
    words = FRAME.with_columns(pl.lit("art").alias("y"))
    with pytest.raises(fe.ColumnError, match="column 'y' is String, not lists of labels"):
        words.eval.summary(fe.f1("y", "p", average="macro", multilabel=True))


def test_metrics_pickle():
    for average in (*AVERAGES, None):
        metric = fe.f1("y", "p", average=average, multilabel=True)
        again = pickle.loads(pickle.dumps(metric))
        assert_frame_equal(FRAME.eval.summary(again), FRAME.eval.summary(metric))
