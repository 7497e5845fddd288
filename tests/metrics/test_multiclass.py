"""Rank metrics over several classes against scikit-learn, and against the binary ones."""

import math
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

import frame_eval as fe
from frame_eval.inference.linear import central_differences
from frame_eval.metrics.core import Sums

EXACT = 1e-12
CLASSES = ["ant", "bee", "cat", "dog"]
SCORES = {name: f"s_{name}" for name in CLASSES}
AVERAGES = ["macro", "weighted", "micro"]
OVR = [("ovr", average) for average in AVERAGES]
OVO = [("ovo", "macro"), ("ovo", "weighted")]
each_auc = pytest.mark.parametrize(("multi_class", "average"), [*OVR, *OVO])


def _table(seed, n, *, digits=None, weighted=False):
    """Probabilities that know something of the class, rounded to so many digits (None: not)."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    raw = rng.normal(size=(n, 4)) + np.eye(4)[y]
    if digits is not None:
        raw = np.round(raw, digits)
    probs = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    return pl.DataFrame(
        {
            "y": np.array(CLASSES)[y],
            **{column: probs[:, k] for k, column in enumerate(SCORES.values())},
            "w": rng.integers(1, 6, n) / 2 if weighted else np.ones(n),
            "c": np.arange(n) // 3,
        }
    )


TABLES = {
    "random": _table(0, 150),
    "tied": _table(1, 200, digits=0),
    "weighted": _table(2, 180, digits=1, weighted=True),
    "all tied": _table(3, 60).with_columns(pl.lit(0.25).alias(c) for c in SCORES.values()),
    "single precision": _table(4, 120).with_columns(pl.col(*SCORES.values()).cast(pl.Float32)),
}
each_table = pytest.mark.parametrize("table", TABLES)


def _arrays(frame):
    scores = frame.select(SCORES.values()).to_numpy()
    if scores.dtype == np.float32:  # scikit-learn wants rows that sum to 1 in its own precision
        scores = scores.astype(float)
    return frame["y"].to_numpy(), scores, frame["w"].to_numpy()


def _one_to_one(y, scores, w, average):
    """Hand and Till's average with weights, by the definition: every pair, both ways."""
    values, weights = [], []
    for a, first in enumerate(CLASSES):
        for second in (name for name in CLASSES if name != first):
            of_pair = (y == first) | (y == second)
            part = y[of_pair] == first, scores[of_pair, a]
            values.append(sk.roc_auc_score(*part, sample_weight=w[of_pair]))
            weights.append(w[of_pair].sum() if average == "weighted" else 1.0)
    return np.average(values, weights=weights)


@each_table
@each_auc
def test_auc(table, multi_class, average):
    frame = TABLES[table]
    y, scores, w = _arrays(frame)
    metric = fe.roc_auc("y", SCORES, average=average, multi_class=multi_class)
    found = frame.eval.summary(metric, weight="w")["estimate"].item()
    if multi_class == "ovo":
        assert_allclose(found, _one_to_one(y, scores, w, average), rtol=EXACT)
        found, w = frame.eval.summary(metric)["estimate"].item(), None
    expected = sk.roc_auc_score(
        y, scores, average=average, multi_class=multi_class, labels=CLASSES, sample_weight=w
    )
    assert_allclose(found, expected, rtol=EXACT)


@each_table
@pytest.mark.parametrize("average", AVERAGES)
def test_average_precision(table, average):
    frame = TABLES[table]
    y, scores, w = _arrays(frame)
    metric = fe.average_precision("y", SCORES, average=average)
    found = frame.eval.summary(metric, weight="w")["estimate"].item()
    truth = y[:, None] == np.array(CLASSES)
    expected = sk.average_precision_score(truth, scores, average=average, sample_weight=w)
    assert_allclose(found, expected, rtol=EXACT)


@each_table
@pytest.mark.parametrize("build", [fe.roc_auc, fe.average_precision])
@pytest.mark.parametrize("cluster", [None, "c"])
def test_a_row_for_each_class_is_the_binary_metric(table, build, cluster):
    frame = TABLES[table]
    found = frame.eval.summary(build("y", SCORES, average=None), weight="w", cluster=cluster)
    assert found["class"].to_list() == CLASSES
    for name, column in SCORES.items():
        one = frame.eval.summary(build("y", column, positive=name), weight="w", cluster=cluster)
        row = found.filter(pl.col("class") == name)
        chosen = ["estimate", "n", "clusters", "missing", "note"]
        assert_frame_equal(row.select(chosen), one.select(chosen), rel_tol=1e-12, abs_tol=1e-12)
        errors = row["std_error"].item(), one["std_error"].item()
        # The samples are the classes; for the AUC of one against the rest they are two.
        size = 0.05 if build is fe.roc_auc else 1e-9
        assert errors == (None, None) or math.isclose(*errors, rel_tol=size)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("cluster", [None, "c"])
def test_of_two_classes_it_is_the_binary_metric(multi_class, cluster):
    frame = TABLES["random"].filter(pl.col("y").is_in(["ant", "bee"]))
    frame = frame.with_columns(other=-pl.col("s_ant"))
    several = fe.roc_auc("y", {"ant": "s_ant", "bee": "other"}, multi_class=multi_class)
    binary = fe.roc_auc("y", "s_ant", positive="ant")
    found, expected = (frame.eval.summary(m, cluster=cluster) for m in (several, binary))
    assert_frame_equal(found.drop("metric", "note"), expected.drop("metric", "note"), rel_tol=1e-9)


@each_auc
@pytest.mark.parametrize("build", [fe.roc_auc, fe.average_precision])
@pytest.mark.parametrize("table", ["random", "tied", "weighted"])
def test_gradients_are_the_derivatives(build, multi_class, average, table):
    if build is fe.average_precision and multi_class == "ovo":
        return
    options = {"multi_class": multi_class} if build is fe.roc_auc else {}
    metric = build("y", SCORES, average=average, **options)
    numeric = replace(metric, gradient=None)
    frame = TABLES[table][:40]
    found, expected = (frame.eval.summary(m, weight="w", cluster="c") for m in (metric, numeric))
    assert_frame_equal(
        found.select("estimate", "std_error", "ci_low", "ci_high"),
        expected.select("estimate", "std_error", "ci_low", "ci_high"),
        rel_tol=1e-6,
    )


@each_auc
def test_the_error_is_that_of_the_jackknife(multi_class, average):
    frame = TABLES["random"]
    metric = fe.roc_auc("y", SCORES, average=average, multi_class=multi_class)
    found = frame.eval.summary(metric, cluster="c").row(0, named=True)
    clusters = frame["c"].unique()
    without = [
        frame.filter(pl.col("c") != c).eval.summary(metric, interval=None)["estimate"].item()
        for c in clusters
    ]
    size = len(clusters)
    error = np.sqrt((size - 1) / size * np.square(without - np.mean(without)).sum())
    assert_allclose(found["std_error"], error, rtol=0.05)


def test_slices_and_comparisons_see_the_joint_law():
    first = TABLES["random"].with_columns(m=pl.lit("a"), i=pl.int_range(pl.len()))
    second = first.with_columns(m=pl.lit("b"), s_ant=pl.col("s_ant") + pl.col("s_bee") / 4)
    both = pl.concat([first, second])
    metric = fe.roc_auc("y", SCORES)
    result = both.eval.compare(metric, system="m", example="i", baseline="a").row(0, named=True)
    each = both.eval.summary(metric, by="m")
    values = dict(each.select("m", "estimate").rows())
    assert_allclose(result["difference"], values["b"] - values["a"], rtol=1e-12)
    assert result["std_error"] < each["std_error"].min() / 2
    drawn = both.eval.compare(
        metric, system="m", example="i", baseline="a", method="percentile", resamples=999
    ).row(0, named=True)
    assert_allclose(drawn["std_error"], result["std_error"], rtol=0.15)
    same = both.eval.compare(metric, system="m", example="i", baseline="a", by="c", overall=True)
    assert same.filter(slice="overall")["difference"].item() == result["difference"]


def test_the_bootstrap_agrees_with_the_linearised_error():
    frame = TABLES["random"]
    metric = fe.roc_auc("y", SCORES, multi_class="ovo")
    plain = frame.eval.summary(metric)["std_error"].item()
    drawn = frame.eval.summary(metric, interval="percentile", resamples=999)["std_error"].item()
    assert_allclose(drawn, plain, rtol=0.15)


def test_a_class_without_rows_is_left_out_and_named():
    frame = TABLES["random"].filter(pl.col("y") != "dog")
    for average in ("macro", "weighted"):
        metrics = fe.roc_auc("y", SCORES, average=average), fe.average_precision("y", SCORES)
        rest = {name: column for name, column in SCORES.items() if name != "dog"}
        fewer = fe.roc_auc("y", rest, average=average), fe.average_precision("y", rest)
        found, expected = frame.eval.summary(*metrics), frame.eval.summary(*fewer)
        numbers = ["estimate", "std_error", "ci_low", "ci_high"]
        assert_frame_equal(found.select(numbers), expected.select(numbers), rel_tol=1e-12)
        assert found["note"].str.ends_with("without rows, left out: 'dog'").all()
    each = frame.eval.summary(fe.roc_auc("y", SCORES, average=None))
    assert each.row(-1, named=True)["estimate"] is None
    assert each.row(-1, named=True)["note"] == "no positives"
    alone = frame.filter(y="ant").eval.summary(fe.roc_auc("y", SCORES))
    assert alone.select("estimate", "note").row(0) == (None, "one class only")


def test_a_missing_score_is_a_missing_row():
    frame = TABLES["random"].with_columns(
        s_bee=pl.when(pl.int_range(pl.len()) % 10 > 0).then("s_bee")
    )
    metric = fe.roc_auc("y", SCORES)
    with pytest.raises(fe.EvalError, match=r"15 rows are missing .* in 's_bee'"):
        frame.eval.summary(metric)
    found = frame.eval.summary(metric, missing="drop")
    kept = frame.drop_nulls().eval.summary(metric)
    assert found["missing"].item() == 15
    assert_frame_equal(found.drop("missing"), kept.drop("missing"), rel_tol=1e-12)


def test_every_engine(engine):
    frame = TABLES["tied"].drop("w").with_columns(g=pl.col("c") % 2)
    metrics = fe.roc_auc("y", SCORES), fe.average_precision("y", SCORES, average="micro")
    expected = frame.eval.summary(*metrics, by="g", cluster="c")
    found = fe.summary(engine(frame), *metrics, by="g", cluster="c")
    found = found if isinstance(found, pl.DataFrame) else pl.from_pandas(found)
    assert_frame_equal(found, expected, rel_tol=1e-12, check_dtypes=False)


def test_metrics_pickle():
    for metric in (fe.roc_auc("y", SCORES, average=None), fe.average_precision("y", SCORES)):
        again = pickle.loads(pickle.dumps(metric))
        frame = TABLES["random"]
        assert_frame_equal(frame.eval.summary(again), frame.eval.summary(metric))


SHARES = {"dog": 0.7, "ant": 0.15, "bee": 0.1, "cat": 0.05}


def restated(shares=SHARES, average="macro"):
    return fe.average_precision("y", SCORES, average=average, at_prevalence=shares)


@each_table
@pytest.mark.parametrize("average", [*AVERAGES, None])
def test_a_restated_average_precision_is_that_of_weighted_rows(table, average):
    """Every row of a class weighs its share of the population over that of the sample."""
    frame = TABLES[table]
    y, scores, w = _arrays(frame)
    w = w * [SHARES[k] / w[y == k].sum() for k in y]
    truth = y[:, None] == np.array(CLASSES)
    if average == "micro":
        expected = [
            sk.average_precision_score(truth.ravel(), scores.ravel(), sample_weight=np.repeat(w, 4))
        ]
    else:
        expected = [
            sk.average_precision_score(truth[:, k], scores[:, k], sample_weight=w) for k in range(4)
        ]
    if average in ("macro", "weighted"):
        weights = [SHARES[k] for k in CLASSES] if average == "weighted" else None
        expected = [np.average(expected, weights=weights)]
    found = frame.eval.summary(restated(average=average), weight="w")
    assert_allclose(found["estimate"].to_numpy(), expected, rtol=EXACT)


@pytest.mark.parametrize("average", AVERAGES)
def test_the_gradient_of_a_restated_average_precision(average):
    frame = TABLES["random"][:40]
    metric = restated(average=average)
    counts = {f"y{k}": (frame["y"] == name).to_numpy() * 1.0 for k, name in enumerate(CLASSES)}
    cells = frame.select(pl.col(column).alias(f"s{k}") for k, column in enumerate(SCORES.values()))
    one = np.ones(frame.height)
    sums = Sums({"n": one, **counts, "rows": one}, (cells,))
    steps = central_differences(metric.finish, ("n", *counts), sums, metric.cells)
    for k, (name, count) in enumerate(counts.items(), 1):
        found = np.asarray(metric.slopes(sums)[name])
        assert_allclose(found[count > 0], steps[count > 0, k], rtol=1e-5, atol=1e-8)


def test_a_class_without_rows_can_not_be_restated():
    frame = TABLES["random"].with_columns(g=pl.col("y") == "dog")
    for average in (*AVERAGES, None):
        found = frame.eval.summary(restated(average=average), by="g")
        assert found["estimate"].is_null().all()
        assert found["note"].str.contains("without rows|no positives|one class|no negatives").all()


def test_the_note_of_an_average_is_of_its_rarest_class():
    frame = TABLES["random"]
    rarest = frame["y"].value_counts().sort("count").row(0, named=True)
    note = frame.eval.summary(fe.average_precision("y", SCORES))["note"].item()
    share = f"prevalence {rarest['count'] / frame.height:.3g}; {rarest['count']} positives"
    assert note == f"class {rarest['y']!r}: {share}: biased, and optimistic"
    few = frame.filter((pl.col("y") != "ant") | (pl.int_range(pl.len()) < 20))
    count = (few["y"] == "ant").sum()
    note = few.eval.summary(fe.roc_auc("y", SCORES, average="weighted"))["note"].item()
    assert note == f"class 'ant': {count} rows of the rarer class"


@given(st.data())
def test_monotone_maps_of_the_scores_change_nothing(data):
    n = data.draw(st.integers(3, 12))
    scores = st.lists(st.integers(-3, 3), min_size=n, max_size=n)
    frame = pl.DataFrame(
        {
            "y": data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n)),
            **{k: data.draw(scores) for k in "abc"},
        }
    )
    order = data.draw(st.permutations(range(n)))
    moved = frame.with_columns((pl.col(k).cast(float) / 3).exp() * 1e300 for k in "abc")[order]
    mapping = {k: k for k in "abc"}
    metrics = [fe.roc_auc("y", mapping, multi_class=how).alias(how) for how in ("ovr", "ovo")]
    first, second = (f.eval.summary(*metrics)["estimate"] for f in (frame, moved))
    for a, b in zip(first, second, strict=True):
        assert (a is None and b is None) or math.isclose(a, b, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fe.roc_auc("y", "s_ant", average="weighted"), "column of scores for each class"),
        (lambda: fe.roc_auc("y", "s_ant", multi_class="ovo"), "column of scores for each class"),
        (lambda: fe.average_precision("y", "s_ant", average=None), "column of scores for each"),
        (lambda: fe.roc_auc("y", SCORES, positive="ant"), "one column of scores"),
        (lambda: fe.average_precision("y", SCORES, positive="ant"), "one column of scores"),
        (lambda: fe.average_precision("y", SCORES, at_prevalence=0.1), "a share for each of the"),
        (
            lambda: restated({"ant": 0.5, "bee": 0.5}),
            "a share for each of the classes 'ant', 'bee'",
        ),
        (lambda: restated(dict.fromkeys(CLASSES, 0.3)), "shares that sum to 1.2, not to 1"),
        (lambda: restated({**dict.fromkeys(CLASSES, 0.5), "ant": -0.5}), "'ant'.=-0.5 is not betw"),
        (lambda: fe.roc_auc("y", SCORES, average="mean"), "'macro'"),
        (lambda: fe.roc_auc("y", SCORES, multi_class="all"), "'ovr'"),
        (lambda: fe.roc_auc("y", SCORES, average="micro", multi_class="ovo"), "goes with average="),
        (lambda: fe.roc_auc("y", SCORES, average=None, multi_class="ovo"), "goes with average="),
        (lambda: fe.roc_auc("y", {"ant": "s_ant"}), "two or more"),
    ],
)
def test_what_does_not_go_together(build, message):
    with pytest.raises(fe.EvalError, match=message):
        build()


def test_labels_outside_the_classes():
    few = {"ant": "s_ant", "bee": "s_bee"}
    with pytest.raises(
        fe.EvalError, match=r"rows of column 'y' are none of the classes 'ant', 'bee'"
    ):
        TABLES["random"].eval.summary(fe.roc_auc("y", few))
    with pytest.raises(fe.ColumnError, match="class 1 is not of the type of column 'y'"):
        TABLES["random"].eval.summary(fe.roc_auc("y", {1: "s_ant", 2: "s_bee"}))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "metric",
    [
        *(fe.roc_auc("y", SCORES, average=a) for a in ("macro", "weighted", "micro")),
        *(fe.roc_auc("y", SCORES, average=a, multi_class="ovo") for a in ("macro", "weighted")),
        *(fe.average_precision("y", SCORES, average=a) for a in ("macro", "weighted", "micro")),
        *(
            fe.average_precision("y", SCORES, average=a, at_prevalence=SHARES)
            for a in ("macro", "weighted", "micro")
        ),
    ],
    ids=lambda metric: metric.name,
)
def test_the_expression_is_the_estimate(metric, name):
    table = TABLES[name].with_columns(g=pl.int_range(pl.len()) % 3)
    expected = table.eval.summary(metric, by="g", interval=None)["estimate"]
    found = table.group_by("g").agg(metric.expr()).sort("g")[metric.name]
    assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-12, equal_nan=True)
    assert_allclose(
        table.select(metric.expr()).item(), table.eval.summary(metric)["estimate"].item()
    )


def test_the_note_warns_of_a_class_that_is_rarer_elsewhere():
    """Binary of two classes; of more, negatives of unequal weight are worth fewer (Kish 1965)."""
    rows = pl.DataFrame({"y": ["a"] * 60 + ["b"] * 300 + ["c"] * 100}).with_row_index("s")
    scores = {"a": "s", "b": "s", "c": "s"}
    shares = {"a": 0.02, "b": 0.49, "c": 0.49}
    worth = 0.98**2 / (0.49**2 / 300 + 0.49**2 / 100) * 0.02 / 0.98
    said = f"negatives as for {worth:.3g} positives: biased upwards, errors too short"
    macro = fe.average_precision("y", scores, at_prevalence=shares)
    assert rows.eval.summary(macro)["note"].item() == f"class 'a': prevalence 0.13; {said}"
    each = fe.average_precision("y", scores, average=None, at_prevalence=shares)
    notes = dict(rows.eval.summary(each).select("class", "note").rows())
    assert said in notes["a"]
    two = rows.filter(pl.col("y") != "c").with_columns(z=-pl.col("s").cast(pl.Int64))
    shares = {"a": 0.02, "b": 0.98}
    several = fe.average_precision("y", {"a": "s", "b": "z"}, average=None, at_prevalence=shares)
    single = fe.average_precision("y", "s", positive="a", at_prevalence=0.02)
    note = two.eval.summary(several).filter(pl.col("class") == "a")["note"].item()
    assert note == two.eval.summary(single)["note"].item()


def test_a_row_per_class_is_no_expression():
    with pytest.raises(fe.EvalError, match="summary"):
        fe.roc_auc("y", SCORES, average=None).expr()
