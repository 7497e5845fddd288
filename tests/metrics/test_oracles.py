"""Every metric of the catalogue against its oracle, and what holds for all of them."""

import math
import pickle

import polars as pl
import polars.selectors as cs
import pytest
from numpy.testing import assert_allclose
from oracles.cases import EXACT, TABLES, compare, oracle_view
from oracles.catalogue import CATALOGUE
from polars.testing import assert_frame_equal

import frame_eval as fe

each_table = pytest.mark.parametrize("table", TABLES)
each_metric = pytest.mark.parametrize("name", CATALOGUE)


@each_table
@each_metric
def test_against_the_oracle(name, table):
    case, (kind, frame) = CATALOGUE[name], TABLES[table]
    metric = case.make(kind)
    result = frame.eval.summary(metric, weight="w")
    assert result["metric"].to_list() == [metric.name]
    compare(result.row(0, named=True), case.oracle(oracle_view(kind, frame)))
    if (frame["w"] == 1).all():
        plain = frame.eval.summary(metric)
        assert_allclose(
            plain["estimate"].to_numpy(), result["estimate"].to_numpy(), rtol=EXACT, equal_nan=True
        )


@each_table
@each_metric
def test_per_slice(name, table):
    case, (kind, frame) = CATALOGUE[name], TABLES[table]
    result = frame.eval.summary(case.make(kind), by="g", weight="w", cluster="c")
    assert result["g"].to_list() == sorted(frame["g"].unique())
    for row in result.iter_rows(named=True):
        part = frame.filter(pl.col("g") == row["g"])
        compare(row, case.oracle(oracle_view(kind, part)))
        assert row["n"] <= part.height
        assert row["clusters"] <= part["c"].n_unique()


@each_metric
def test_slices_of_a_partition_are_the_parts(name):
    """A slice knows nothing of the other rows of the frame: the whole row is equal."""
    for table in ("weighted", "words"):
        case, (kind, frame) = CATALOGUE[name], TABLES[table]
        metric = case.make(kind)
        together = frame.eval.summary(metric, by="g", weight="w", cluster="c")
        alone = pl.concat(
            part.eval.summary(metric, by="g", weight="w", cluster="c")
            for part in frame.partition_by("g", maintain_order=True)
        ).sort("g")
        assert_frame_equal(together, alone, rel_tol=1e-11, abs_tol=1e-12)


@each_metric
def test_row_order_does_not_matter(name):
    case, (kind, frame) = CATALOGUE[name], TABLES["weighted"]
    shuffled = frame.sample(fraction=1, shuffle=True, seed=11)
    for roles in ({}, {"weight": "w"}, {"cluster": "c"}, {"weight": "w", "cluster": "c"}):
        first = frame.eval.summary(case.make(kind), by="g", **roles)
        second = shuffled.eval.summary(case.make(kind), by="g", **roles)
        assert_frame_equal(first, second, rel_tol=EXACT, abs_tol=1e-13)


# Interpolation between order statistics and a bias of 1/n see the number of rows: copies are no
# weights there.
OF_ROWS = {
    name
    for name, case in CATALOGUE.items()
    if case.make(TABLES["weighted"][0]).quantile not in (None, 0, 1)
} | {"ece_debiased"}


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in OF_ROWS])
def test_duplicated_rows_of_a_cluster_weigh_twice(name):
    """Each row twice, or with weight 2: the same estimate and the same clustered error."""
    case, (kind, frame) = CATALOGUE[name], TABLES["weighted"]
    metric = case.make(kind)
    twice = pl.col("c") % 2 == 0
    doubled = pl.concat([frame, frame.filter(twice)])
    weighted = frame.with_columns(v=pl.when(twice).then(2.0).otherwise(1.0))
    first = doubled.eval.summary(metric, cluster="c").row(0, named=True)
    second = weighted.eval.summary(metric, cluster="c", weight="v").row(0, named=True)
    if not name.endswith("_at_k"):  # k counts rows, which weights are not
        assert_allclose(first["estimate"], second["estimate"], rtol=1e-12)
    assert first["clusters"] == second["clusters"]
    if metric.smooth:
        assert_allclose(first["std_error"], second["std_error"], rtol=1e-10)


@each_metric
def test_weights_are_free_of_scale(name):
    case, (kind, frame) = CATALOGUE[name], TABLES["weighted"]
    scaled = frame.with_columns(w=1e-3 * pl.col("w"))
    for cluster in (None, "c"):
        first = frame.eval.summary(case.make(kind), weight="w", cluster=cluster)
        second = scaled.eval.summary(case.make(kind), weight="w", cluster=cluster)
        assert_frame_equal(first, second, rel_tol=1e-10, abs_tol=1e-12)


@each_metric
def test_a_metric_travels(name):
    """Pickled, printed, renamed."""
    case, (kind, frame) = CATALOGUE[name], TABLES["words"]
    metric = case.make(kind)
    again = pickle.loads(pickle.dumps(metric))
    assert_frame_equal(frame.eval.summary(again), frame.eval.summary(metric))
    assert metric.name in repr(metric)
    assert all(repr(c) in repr(metric) for i in metric.inputs.values() for c in i.sources)
    renamed = frame.eval.summary(metric.alias("mine"))
    assert renamed["metric"].to_list() == ["mine"]
    assert metric.name != "mine"
    assert_frame_equal(renamed.drop("metric"), frame.eval.summary(metric).drop("metric"))


@each_metric
def test_an_expression_leaves_missing_rows_out(name):
    """Rows without one of the inputs, in a window over groups."""
    kind, frame = TABLES["random"]
    metric = CATALOGUE[name].make(kind)
    if metric.cells and metric.expression is None:
        return
    holes = frame.with_columns(
        pl.when(pl.int_range(pl.len()) % 7 != k).then(column).alias(column)
        for k, column in enumerate(("p", "s", "q", "x", "z", "ok"))
    )
    found = holes.select("g", metric.expr().over("g")).unique().sort("g")
    expected = holes.eval.summary(metric, by="g", missing="drop", interval=None)
    assert_allclose(found[metric.name].to_numpy(), expected["estimate"].to_numpy(), rtol=1e-12)


@each_metric
@pytest.mark.parametrize("table", ["random", "tied", "bools", "one class", "no positives", "words"])
def test_the_expression_is_the_estimate(name, table):
    case, (kind, frame) = CATALOGUE[name], TABLES[table]
    metric = case.make(kind)
    expected = frame.eval.summary(metric, by="g")["estimate"].to_list()
    if metric.cells and metric.expression is None:
        with pytest.raises(fe.EvalError, match="summary"):
            metric.expr()
        return
    found = frame.group_by("g").agg(metric.expr()).sort("g")[metric.name].to_list()
    for value, estimate in zip(found, expected, strict=True):
        assert (value is None) == (estimate is None)
        assert value is None or math.isclose(value, estimate, rel_tol=1e-12, abs_tol=1e-15)


def test_pandas_gives_the_same():
    _, frame = TABLES["weighted"]
    metrics = [CATALOGUE[name].make("01").alias(name) for name in CATALOGUE]
    first = frame.eval.summary(*metrics, by="g", weight="w", cluster="c")
    second = frame.to_pandas().eval.summary(*metrics, by="g", weight="w", cluster="c")
    assert_frame_equal(
        first.select(cs.numeric()),
        pl.from_pandas(second).select(cs.numeric()),
        rel_tol=1e-12,
        check_dtypes=False,
    )


@pytest.mark.parametrize("name", ["mean", "rate", "median", "accuracy", "roc_auc", "f1 macro"])
def test_a_slice_without_weight_is_undefined(name):
    frame = pl.DataFrame(
        {"g": [0, 0, 1, 1], "w": [0.0, 0.0, 1.0, 2.0], "x": [1.0, 2.0, 3.0, 4.0], "s": [1, 2, 3, 4]}
    ).with_columns(y=pl.col("s") % 2, p=pl.col("s") % 2, ok=pl.col("s") > 2)
    metric = CATALOGUE[name].make("01")
    first, second = frame.eval.summary(metric, by="g", weight="w").iter_rows(named=True)
    compare(first, None)
    assert second["estimate"] is not None
