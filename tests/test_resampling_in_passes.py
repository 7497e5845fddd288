"""Resampling of more units than the memory holds: the same draws, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import IN_MEMORY
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import passes, wide

READ_IN_PARTS = ["polars-lazy", "arrow-dataset", "duckdb", "spark", "dask"]
KINDS = ["percentile", "basic", "bca", "studentized"]
RNG = np.random.default_rng(8)
ROWS = 12_000
DOC = RNG.integers(0, 5_000, ROWS)
FRAME = pl.DataFrame(
    {
        "id": np.arange(ROWS),
        "system": np.array(["a", "b"])[RNG.integers(0, 2, ROWS)],
        "lang": pl.Series(["de", "sw", None])[DOC % 3],
        "doc": [f"d{c}" for c in DOC],
        "label": RNG.random(ROWS) < 0.4,
        "pred": RNG.random(ROWS) < 0.5,
        "stars": RNG.integers(1, 4, ROWS),
        "guess": RNG.integers(1, 4, ROWS),
        "price": RNG.integers(1, 400, ROWS),
        "latency": RNG.lognormal(0, 1, ROWS),
        "weight": 1 + DOC % 2,
    }
)
SHARES = [fe.rate("label"), fe.recall("label", "pred"), fe.f1("label", "pred")]
MEANS = [fe.mean("stars"), fe.ratio("pred", "stars"), fe.rmse("stars", "guess")]
DRAWS = {"resamples": 200, "seed": 3}


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the sums of every pass."""
    found: list[int] = []
    query = passes.query

    def measured(*args: Any, **options: Any) -> Any:
        made = query(*args, **options)
        found.append(made.frame.estimated_size())
        return made

    monkeypatch.setattr(passes, "query", measured)
    return found


def assert_same_draws(
    metrics: Any, pieces: list[int], memory: float, frame: pl.DataFrame = FRAME, **how: Any
) -> None:
    engine = IN_MEMORY[how.pop("engine", "polars-lazy")]
    expected = frame.eval.summary(*metrics, **DRAWS, **how)
    result = fe.of(engine(frame)).run(memory=memory).summary(*metrics, **DRAWS, **how)
    assert len(pieces) > 2
    assert max(pieces) < memory
    assert_frame_equal(result, expected, check_exact=True)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_clusters_are_drawn_alike_on_every_engine(engine, pieces) -> None:
    options = {"system": "system", "by": "lang", "cluster": "doc", "interval": "bca"}
    memory = 3e6 if engine == "spark" else 1e6
    assert_same_draws([*SHARES, *MEANS], pieces, memory, engine=engine, **options)


@pytest.mark.parametrize("interval", KINDS)
@pytest.mark.parametrize(
    "options",
    [
        {"cluster": "doc"},
        {"example": "id", "by": fe.where(dear=fe.col("price") > 200, none=fe.col("price") < 0)},
        {"cluster": ["doc", "weight"], "by": fe.each("lang", "system"), "overall": True},
        {"cluster": "doc", "weight": "weight", "by": fe.cube("lang", "system")},
        {"cluster": "doc", "strata": "lang", "by": "system"},
    ],
    ids=repr,
)
def test_every_kind_of_bootstrap_draws_alike(interval, options, pieces) -> None:
    assert_same_draws([*SHARES, *MEANS], pieces, 3e6, interval=interval, **options)


@pytest.mark.parametrize("engine", ["polars-lazy", "duckdb", "spark"])
@pytest.mark.parametrize(
    ("memory", "options"), [(5e5, {"by": "lang"}), (1.2e6, {"weight": "weight", "strata": "lang"})]
)
def test_rows_that_differ_are_drawn_alike(engine, memory, options, pieces) -> None:
    # Of many pairs of values, few differences.
    metrics = [fe.mae("price", "stars"), *SHARES[1:], fe.mean("price")]
    assert_same_draws(metrics, pieces, memory, engine=engine, interval="bca", **options)


def test_rows_of_many_weights_that_are_whole_are_drawn_alike(pieces) -> None:
    metrics = [fe.rate("label"), fe.mean("stars")]
    options = {"weight": "price", "by": "system", "interval": "percentile"}
    assert_same_draws(metrics, pieces, 8e5, **options)


@pytest.mark.parametrize("trials", [3, 4])
def test_examples_with_as_many_trials_each_are_drawn_alike(trials, pieces) -> None:
    frame = FRAME.with_columns(example=pl.col("id") // trials, trial=pl.col("id") % trials)
    options = {"example": "example", "trial": "trial", "interval": "studentized"}
    assert_same_draws([*SHARES, *MEANS[:2]], pieces, 4e5, frame, **options)


def test_values_that_are_missing_are_drawn_alike(pieces) -> None:
    holes = FRAME.with_columns(pl.when(pl.col("stars") != 2).then("label").alias("label"))
    options = {"cluster": "doc", "missing": "drop", "interval": "basic", "by": "lang"}
    assert_same_draws([*SHARES, fe.mean("stars")], pieces, 5e5, holes, **options)


@settings(max_examples=10)
@given(st.data())
def test_any_sums_that_are_whole_are_drawn_alike(data) -> None:
    seed, most = data.draw(st.integers(0, 99)), data.draw(st.integers(0, 6))
    rng = np.random.default_rng(seed)
    rows = data.draw(st.integers(150, 300))
    frame = pl.DataFrame(
        {
            "unit": rng.integers(0, rows // data.draw(st.integers(1, 3)), rows),
            "value": rng.integers(-most, most + 1, rows),
            "ok": rng.random(rows) < data.draw(st.sampled_from([0.0, 0.1, 0.5])),
            "weight": rng.integers(0, 3, rows),
            "slice": rng.integers(0, 2, rows),
        }
    )
    options = {
        "cluster": "unit",
        "weight": data.draw(st.sampled_from([None, "weight"])),
        "by": data.draw(st.sampled_from([None, "slice", fe.each("slice")])),
        "interval": data.draw(st.sampled_from(KINDS)),
        "resamples": 100,
        "seed": seed,
    }
    metrics = [fe.mean("value"), fe.rate("ok")]
    expected = frame.eval.summary(*metrics, **options)
    result = frame.lazy().eval.run(memory=4e4).summary(*metrics, **options)
    assert_frame_equal(result, expected, check_exact=True)


def test_sums_that_are_not_whole_are_refused_and_smaller_units_are_the_way_out(pieces) -> None:
    lazy = FRAME.lazy().eval.run(memory=1e6)
    options = {"cluster": "doc", "interval": "percentile", **DRAWS}
    with pytest.raises(fe.EvalError, match=r"^summary: 'mean\(latency\)' resamples .* no whole"):
        lazy.summary(fe.mean("latency"), **options)
    with pytest.raises(fe.EvalError, match="smaller units"):
        lazy.summary(fe.mean("stars"), weight=pl.col("weight") / 4, **options)
    tenths = FRAME.with_columns((pl.col("latency") * 10).round().alias("latency"))
    assert_same_draws([fe.mean("latency")], pieces, 1e6, tenths, cluster="doc", interval="bca")


def test_sums_that_differ_too_much_are_refused() -> None:
    lazy = FRAME.lazy().eval.run(memory=1e5)
    with pytest.raises(fe.EvalError, match=r"sums of more than .* clusters and slices differ"):
        lazy.summary(fe.mean("price"), cluster="doc", interval="bca")


@pytest.mark.parametrize(
    "metric", [fe.cohen_kappa("label", "pred"), fe.roc_auc("label", "latency")]
)
def test_metrics_over_cells_are_refused(metric) -> None:
    with pytest.raises(fe.EvalError, match=r"times memory=100000 bytes: give more with frame.eval"):
        FRAME.lazy().eval.run(memory=1e5).summary(metric, cluster="doc", interval="percentile")


def of_system(name: str) -> pl.DataFrame:
    """Answers of a system to examples in documents."""
    rng = np.random.default_rng(ord(name))
    return FRAME[:3_000].select(
        "id",
        "doc",
        "lang",
        "label",
        "weight",
        level=pl.col("id") % 3_000 // 1_000,
        system=pl.lit(name),
        pred=pl.Series(rng.random(3_000) < 0.5),
        stars=pl.Series(rng.integers(1, 4, 3_000)),
        latency=pl.Series(rng.lognormal(0, 1, 3_000)),
    )


PAIRED = pl.concat([of_system(name) for name in "abc"]).sample(fraction=1, shuffle=True, seed=4)
HOLES = PAIRED.with_columns(
    pl.when((pl.col("id") % 7 > 0) | (pl.col("system") == "b")).then("pred").alias("pred")
)
SOME = PAIRED.filter(
    ((pl.col("id") % 5 > 0) & (pl.col("lang") != "sw")) | (pl.col("system") == "a")
)
PAIRS = {"system": "system", "example": "id"}
ANSWERS = [
    fe.rate("pred"),
    fe.recall("label", "pred"),
    fe.f1("label", "pred"),
    fe.mean("stars"),
    fe.ratio("pred", "stars"),
]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of everything that comes back of examples side by side."""
    found: list[int] = []
    collect = wide.collect

    def measured(frame: Any, **options: Any) -> pl.DataFrame:
        made = collect(frame, **options)
        found.append(made.estimated_size())
        return made

    monkeypatch.setattr(wide, "collect", measured)
    return found


def assert_same_pairs(
    metrics: Any, collected: list[int], frame: pl.DataFrame = PAIRED, **how: Any
) -> None:
    engine = IN_MEMORY[how.pop("engine", "polars-lazy")]
    memory = how.pop("memory", 1.5e6)
    options = {**PAIRS, **DRAWS, **how}
    expected = frame.eval.compare(*metrics, **options)
    result = fe.of(engine(frame)).run(memory=memory).compare(*metrics, **options)
    pairs = 3 if how.get("baseline") is None else 2
    assert len(collected) > pairs
    assert max(collected) < memory
    if how["method"] == "permutation":
        # Beside the test stands the error of the linearised difference, of sums in another order.
        errors = [frame["std_error"] for frame in (result, expected)]
        np.testing.assert_allclose(*errors, rtol=1e-12)
        result, expected = (frame.drop("std_error") for frame in (result, expected))
    assert_frame_equal(result, expected, check_exact=True)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
@pytest.mark.parametrize(
    ("method", "cluster"), [("bca", "doc"), ("permutation", None)], ids=["clusters", "examples"]
)
def test_pairs_are_drawn_alike_on_every_engine(engine, method, cluster, collected) -> None:
    how = {"by": "lang", "cluster": cluster, "method": method, "baseline": "a"}
    assert_same_pairs(ANSWERS[:2], collected, engine=engine, memory=7e5, **how)


@pytest.mark.parametrize("method", [*KINDS, "permutation"])
@pytest.mark.parametrize(
    "options",
    [
        {"cluster": "doc"},
        {"by": "lang", "weight": "weight"},
        {"cluster": "doc", "weight": "weight"},
        {"cluster": "doc", "by": fe.each("lang", "level"), "overall": True},
        {"cluster": ["doc", "level"], "strata": "level", "by": fe.where(de=fe.col("lang") == "de")},
        {"strata": "level"},
    ],
    ids=repr,
)
def test_every_method_draws_pairs_alike(method, options, collected) -> None:
    assert_same_pairs(ANSWERS, collected, method=method, **options)


@pytest.mark.parametrize("method", ["percentile", "permutation"])
@pytest.mark.parametrize("options", [{"cluster": "doc"}, {"by": "lang"}, {"strata": "level"}])
def test_examples_that_lack_an_answer_are_not_drawn(method, options, collected) -> None:
    options = {**options, "method": method, "baseline": "a"}
    if "strata" in options:
        options["cluster"] = ["doc", "level"]
    assert_same_pairs(ANSWERS, collected, HOLES, missing="drop", **options)
    assert_same_pairs(ANSWERS, collected, SOME, unmatched="drop", **options)


@settings(max_examples=10)
@given(st.data())
def test_any_pairs_that_are_whole_are_drawn_alike(data) -> None:
    seed, rows = data.draw(st.integers(0, 99)), data.draw(st.integers(150, 250))
    most = data.draw(st.integers(0, 3))
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, rows // data.draw(st.integers(1, 3)), rows)
    sides = [
        pl.DataFrame(
            {
                "system": name,
                "id": np.arange(rows),
                "unit": clusters,
                "slice": clusters % 2,
                "value": rng.integers(-most, most + 1, rows),
                "ok": rng.random(rows) < data.draw(st.sampled_from([0.0, 0.1, 0.5])),
            }
        )[: rows - data.draw(st.integers(0, 20))]
        for name in "ab"
    ]
    options = {
        **PAIRS,
        "cluster": data.draw(st.sampled_from([None, "unit"])),
        "by": data.draw(st.sampled_from([None, "slice", fe.each("slice")])),
        "method": data.draw(st.sampled_from(KINDS)),
        "unmatched": "drop",
        "resamples": 100,
        "seed": seed,
    }
    frame = pl.concat(sides)
    metrics = [fe.mean("value"), fe.rate("ok")]
    expected = frame.eval.compare(*metrics, **options)
    result = frame.lazy().eval.run(memory=6e4).compare(*metrics, **options)
    assert_frame_equal(result, expected, check_exact=True)


def test_pairs_whose_sums_are_not_whole_are_refused() -> None:
    lazy = PAIRED.lazy().eval.run(memory=5e5)
    with pytest.raises(fe.EvalError, match=r"^compare: 'mean\(latency\)' resamples .* no whole"):
        lazy.compare(fe.mean("latency"), **PAIRS, cluster="doc", method="bca")
    with pytest.raises(fe.EvalError, match=r"'cohen_kappa' needs all examples in memory"):
        lazy.compare(fe.cohen_kappa("label", "pred"), **PAIRS, method="permutation")
