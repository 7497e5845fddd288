"""Comparisons of metrics over cells whose examples are larger than the memory: the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import IN_MEMORY
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import beside, cellwise, parts, wide

READ_IN_PARTS = ["polars-lazy", "arrow-dataset", "duckdb", "spark", "dask"]
EXAMPLES = 3_000
DOC = np.random.default_rng(1).integers(0, 900, EXAMPLES)
ID = np.arange(EXAMPLES)
GOLD = ID % 3


def of_system(name: str, seed: int) -> pl.DataFrame:
    """Answers of a system: scores with many ties, classes one of which nothing is of."""
    rng = np.random.default_rng(seed)
    label = (DOC % 3 == 0) ^ (ID % 5 == 0)
    answer = np.where(rng.random(EXAMPLES) < 0.5, GOLD, rng.integers(0, 4, EXAMPLES))
    scores = {f"s{k}": np.round(rng.random(EXAMPLES) + (k == GOLD), 1) for k in range(3)}
    return pl.DataFrame(
        {
            "system": name,
            "id": ID,
            "doc": DOC,
            "lang": pl.Series(["de", "sw", None])[DOC % 3],
            "part": DOC % 7,
            "weight": 1 + DOC % 4,
            "label": label,
            "gold": pl.Series(list("xyz"))[GOLD],
            "answer": pl.Series(list("xyzw"))[answer],
            "score": np.round(rng.normal(size=EXAMPLES) + label, 1),
            "risk": np.round(rng.random(EXAMPLES), 2),
            **scores,
        }
    )


FRAME = pl.concat([of_system(name, seed) for seed, name in enumerate("abc")]).sample(
    fraction=1, shuffle=True, seed=1
)
PAIRS = {"system": "system", "example": "id"}
SCORES = {name: f"s{k}" for k, name in enumerate("xyz")}
RANKS = [fe.roc_auc("label", "score"), fe.average_precision("label", "score")]
CLASSES = [
    fe.cohen_kappa("gold", "answer"),
    fe.f1("gold", "answer", average="macro"),
    fe.f1("gold", "answer", average=None),
    fe.recall("gold", "answer", average=None),
    fe.fbeta("gold", "answer", 2, average=None),
]
MIXED = [*RANKS, *CLASSES[:4], fe.accuracy("gold", "answer"), fe.mean("score", better="higher")]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of parts of every reading of the rows of a comparison."""
    found: list[int] = []
    shown = beside.shown

    def counting(steps: Any, what: str) -> Any:
        found.append(len(steps))
        return shown(steps, what)

    monkeypatch.setattr(beside, "shown", counting)
    return found


def assert_same(
    metrics: Any, passes: list[int], frame: pl.DataFrame = FRAME, rel_tol: float = 1e-9, **how: Any
) -> pl.DataFrame:
    """The answer within little memory, which is that of the rows in memory."""
    memory = how.pop("memory", 1e6)
    engine = IN_MEMORY[how.pop("engine", "polars-lazy")]
    options = {**PAIRS, **how}
    expected = frame.eval.compare(*metrics, **options)
    result = fe.of(engine(frame)).run(memory=memory).compare(*metrics, **options)
    assert passes
    assert_frame_equal(result, expected, rel_tol=rel_tol, abs_tol=1e-12)
    return result


@pytest.mark.parametrize("engine", READ_IN_PARTS)
@pytest.mark.parametrize("options", [{"by": "lang"}, {"cluster": "doc"}], ids=repr)
def test_rank_and_class_metrics_are_the_same_on_every_engine(engine, options, passes) -> None:
    metrics = [*RANKS, CLASSES[0], CLASSES[3]]
    assert_same(metrics, passes, engine=engine, baseline="a", **options)
    assert max(passes) > 1


OTHERS = {
    "other averages": [
        fe.f1("gold", "answer", average="micro", labels=["x", "y"]),
        fe.mcc("gold", "answer"),
        fe.balanced_accuracy("gold", "answer"),
        fe.recall("gold", "answer", average=None, labels=["y", "q"]),
    ],
    "other ranks": [fe.gini("label", "score"), fe.partial_auc("label", "score", 0.3)],
    "several classes": [
        fe.roc_auc("gold", SCORES),
        fe.roc_auc("gold", SCORES, average=None),
        fe.average_precision("gold", SCORES, average="weighted"),
    ],
    "quantiles": [fe.median("score"), fe.quantile("score", 0.9)],
    "without errors": [fe.ks("label", "score"), fe.ece("label", "risk")],
    "labels of classes": [fe.f1("label", "label", average="macro", label_of="part")],
}


@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("metrics", OTHERS)
def test_other_metrics_over_cells(metrics, cluster, passes) -> None:
    memory = 3e6 if metrics == "several classes" else 1e6
    assert_same(OTHERS[metrics], passes, baseline="b", cluster=cluster, memory=memory)


def test_lists_of_labels(passes) -> None:
    lists = FRAME.with_columns(tags=pl.concat_list("gold", "lang"), guess=pl.concat_list("answer"))
    metrics = [
        fe.f1("tags", "guess", average=average, multilabel=True) for average in ("macro", "micro")
    ]
    assert_same(metrics, passes, lists, cluster="doc")


WAYS: list[dict[str, Any]] = [
    {},
    {"by": fe.each("lang", "part"), "overall": True, "cluster": "doc"},
    {"by": fe.cube("lang", "part")},
    {"by": fe.where(some=fe.col("part") > 2, none=fe.col("part") > 9), "overall": True},
    {"weight": "weight", "baseline": "a"},
    {"weight": "weight", "cluster": ["doc", "part"], "by": "lang"},
    {"method": "cr0", "cluster": "doc"},
    {"method": "cr1"},
    {"method": "t", "margin": 0.05, "mde": True, "by": "lang"},
    {"method": None, "by": "lang", "cluster": "doc"},
]


@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_every_way_to_compare(options, passes) -> None:
    assert_same(MIXED, passes, memory=3e6, **options)


HOLES = FRAME.with_columns(
    pl.when((pl.col("id") % 7 > 0) | (pl.col("system") == "b")).then("score").alias("score"),
    pl.when((pl.col("id") % 11 > 0) | (pl.col("system") == "a")).then("answer").alias("answer"),
)
SOME = (pl.col("id") % 5 > 0) | (pl.col("system") == "a")


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb"])
@pytest.mark.parametrize(
    "options", [{"by": "lang", "cluster": "doc"}, {"weight": "weight"}, {"by": fe.each("part")}]
)
def test_totals_are_of_the_examples_that_are_compared(engine, options, passes) -> None:
    how = {"engine": engine, "baseline": "a", "memory": 3e6, **options}
    metrics = [RANKS[0], *CLASSES[1:3]]
    result = assert_same(metrics, passes, HOLES, missing="drop", **how)
    assert result["missing"].sum() > 100
    result = assert_same(metrics, passes, FRAME.filter(SOME), unmatched="drop", **how)
    assert result["note"].str.contains("examples in common").all()
    assert_same(metrics, passes, HOLES.filter(SOME), unmatched="drop", missing="drop", **how)


def test_classes_of_examples_that_are_left_out_are_rows(passes) -> None:
    rare = FRAME.filter((pl.col("gold") != "z") | (pl.col("system") == "a"))
    result = assert_same(CLASSES, passes, rare, unmatched="drop", baseline="a", cluster="doc")
    assert "z" in result["class"].to_list()


ONE_CLASS = FRAME.with_columns(label=pl.col("label") & pl.col("lang").eq_missing("de"))


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_slices_without_a_class_are_null(cluster, passes) -> None:
    result = assert_same(RANKS, passes, ONE_CLASS, by="lang", cluster=cluster)
    assert result["difference"].null_count() >= 6


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_equal_systems_do_not_differ(cluster, passes) -> None:
    half = FRAME.filter(pl.col("system") == "a")
    same = pl.concat([half, half.with_columns(system=pl.lit("b"))])
    result = assert_same(MIXED, passes, same, cluster=cluster)
    assert result["std_error"].drop_nulls().eq(0.0).all()


def test_examples_with_two_labels_are_clusters_of_their_own(passes) -> None:
    other = (pl.col("id") % 50 == 0) & (pl.col("system") == "a")
    twisted = FRAME.with_columns(label=pl.col("label") ^ other)
    assert_same(RANKS, passes, twisted, cluster="id", memory=3e6)
    assert_same(RANKS, passes, twisted, cluster="doc", by="lang")
    with pytest.raises(fe.EvalError, match=r"'roc_auc': examples .* say cluster=<the example>"):
        twisted.lazy().eval.run(memory=1e6).compare(*RANKS, **PAIRS)


def test_margins_of_rank_metrics(passes) -> None:
    rules = [
        fe.rule(RANKS[0], max_drop=0.05),
        fe.rule(CLASSES[1], max_drop=0.1, relative=True),
        fe.rule(RANKS[1], min=0.2),
    ]
    options = {**PAIRS, "cluster": "doc", "by": "lang", "baseline": "a"}
    expected = FRAME.eval.guard(*rules, **options)
    result = FRAME.lazy().eval.run(memory=1e6).guard(*rules, **options)
    assert passes
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-12)


def placements(label: Any, score: Any) -> tuple[Any, Any]:
    """The share of negatives under each positive, and of positives over each negative."""
    positives, negatives = score[label][:, None], score[~label]
    wins = (positives > negatives) + 0.5 * (positives == negatives)
    return wins.mean(1), wins.mean(0)


def test_areas_of_the_same_examples_are_compared_as_by_delong() -> None:
    sides = [FRAME.filter(pl.col("system") == name).sort("id") for name in ("b", "a")]
    label = sides[0]["label"].to_numpy()
    b, a = (placements(label, side["score"].to_numpy()) for side in sides)
    apart = [x - y for x, y in zip(b, a, strict=True)]
    error = np.sqrt(sum(d.var(ddof=1) / len(d) for d in apart))
    result = FRAME.lazy().eval.run(memory=1e6).compare(RANKS[0], **PAIRS, baseline="a")
    found = result.filter(system="b").select("difference", "std_error").row(0)
    np.testing.assert_allclose(found, (apart[0].mean(), error), rtol=1e-10)


def test_scores_that_are_too_many_are_put_into_bins(passes) -> None:
    exact = FRAME.with_columns(score=pl.col("score") + pl.col("id") / 1e5)
    lazy = exact.lazy().eval.run(memory=4e5)
    with pytest.raises(fe.EvalError, match=r"^compare: the scores that differ .*score_bins=10_000"):
        lazy.compare(RANKS[0], **PAIRS)
    expected = exact.eval.run(score_bins=200).compare(RANKS[0], **PAIRS)
    result = lazy.run(score_bins=200).compare(RANKS[0], **PAIRS)
    assert passes
    assert result["note"].str.contains("scores in 200 bins").all()
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (fe.median("score"), {"weight": "weight"}),
        (fe.pass_at_k("label", 1), {"trial": "part"}),
        (fe.median("score"), {"strata": "lang", "cluster": "doc"}),
    ],
)
def test_what_needs_all_examples_at_once_is_refused(metric, options) -> None:
    with pytest.raises(fe.EvalError, match=r"need.* all examples in memory.*run\(memory=\)"):
        FRAME.lazy().eval.run(memory=1e6).compare(metric, **PAIRS, **options)


def test_rows_that_miss_an_input_are_named() -> None:
    with pytest.raises(fe.EvalError, match=r"rows are missing .* in 'score'"):
        HOLES.lazy().eval.run(memory=1e6).compare(*RANKS, **PAIRS)


def test_what_is_collected_fits_and_files_are_written_once(monkeypatch, tmp_path) -> None:
    memory, sizes, written = 4e5, [], []
    collect, sink = wide.collect, pl.LazyFrame.sink_parquet

    def collecting(frame: Any, **how: Any) -> pl.DataFrame:
        found = collect(frame, **how)
        sizes.append(found.estimated_size())
        return found

    def sinking(self: pl.LazyFrame, *args: Any, **how: Any) -> Any:
        written.append(args)
        return sink(self, *args, **how)

    monkeypatch.setattr(wide, "collect", collecting)
    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", sinking)
    monkeypatch.setattr(parts, "_READINGS", 1)
    monkeypatch.setenv("POLARS_TEMP_DIR", str(tmp_path))
    options = {**PAIRS, "unmatched": "drop"}
    metrics = [RANKS[0], CLASSES[1], fe.mean("score")]
    result = FRAME.lazy().eval.run(memory=memory).compare(*metrics, **options)
    assert len(sizes) > 6
    assert max(sizes) < memory / 10
    assert len(written) == 1
    assert not list(tmp_path.iterdir())
    assert_frame_equal(result, FRAME.eval.compare(*metrics, **options), rel_tol=1e-9)


CLUSTERED: list[dict[str, Any]] = [
    {"by": "lang", "system": "system"},
    {"by": fe.each("lang", "system"), "overall": True},
    {"by": fe.where(some=fe.col("part") > 2, none=fe.col("part") > 9), "weight": "weight"},
    {"interval": "cr1", "system": "system"},
    {"interval": None},
]


@pytest.mark.parametrize("engine", ["polars-lazy", "arrow-dataset", "dask"])
@pytest.mark.parametrize("options", CLUSTERED, ids=repr)
def test_clusters_of_metrics_over_cells(engine, options, monkeypatch) -> None:
    looked: list[object] = []
    in_passes = cellwise.in_passes
    monkeypatch.setattr(
        cellwise, "in_passes", lambda *a, **k: looked.append(a) or in_passes(*a, **k)
    )
    metrics = [*RANKS, *CLASSES, fe.mean("score")]
    if "interval" not in options:
        metrics += [fe.median("score"), fe.ks("label", "score")]
    frame = FRAME.with_columns(group=pl.col("id") // 3)
    expected = frame.eval.summary(*metrics, cluster="group", **options)
    lazy = fe.of(IN_MEMORY[engine](frame)).run(memory=1e6)
    result = lazy.summary(*metrics, cluster="group", **options)
    assert looked
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-12)


def test_clusters_of_rows_that_miss_an_input(monkeypatch) -> None:
    options = {"system": "system", "cluster": "doc", "missing": "drop"}
    metrics = [RANKS[0], *CLASSES[:3], fe.median("score"), fe.mean("score")]
    expected = HOLES.eval.summary(*metrics, **options)
    assert expected["missing"].sum() > 100
    result = HOLES.lazy().eval.run(memory=1e6).summary(*metrics, **options)
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-12)
    with pytest.raises(fe.EvalError, match=r"rows are missing .* in 'score'"):
        HOLES.lazy().eval.run(memory=1e6).summary(RANKS[0], cluster="doc")


def test_examples_of_metrics_over_cells_are_units() -> None:
    options = {"system": "system", "example": "id"}
    expected = FRAME.eval.summary(*RANKS, CLASSES[0], **options)
    result = FRAME.lazy().eval.run(memory=3e5).summary(*RANKS, CLASSES[0], **options)
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-12)


def test_clusters_of_cells_in_other_engines_are_refused() -> None:
    relation = fe.of(IN_MEMORY["duckdb"](FRAME)).run(memory=1e5)
    with pytest.raises(fe.EvalError, match=r"^summary: the sums of all clusters .* a Polars scan"):
        relation.summary(CLASSES[0], cluster="doc", system="system")
