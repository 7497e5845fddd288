"""Questions about many slices at once, of more clusters than memory holds, each in one slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import IN_MEMORY
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.inference.covariance import influences_by_unit, most_units
from frame_eval.reduce import Roles, passes
from frame_eval.running import Run, running
from frame_eval.slices import slices
from frame_eval.verbs.measured import measure

READ_IN_PARTS = ["polars-lazy", "arrow-dataset", "duckdb", "spark", "dask"]
RNG = np.random.default_rng(3)
ROWS = 8_000
DOC = RNG.integers(0, 2_500, ROWS)
LANG = DOC % 5
FRAME = pl.concat(
    [
        pl.DataFrame(
            {
                "system": system,
                "doc": DOC,
                # The last language has one document.
                "lang": np.where(DOC[0] == DOC, 5, LANG),
                "stage": DOC // 5 % 3,
                "weight": 1 + DOC % 3,
                "label": RNG.random(ROWS) < 0.4,
                "pred": RNG.random(ROWS) < 0.2 + 0.1 * LANG + 0.1 * (DOC // 5 % 3),
                "latency": RNG.gamma(4, 1, ROWS) + LANG / 2,
            }
        )
        for system in ("a", "b")
    ]
).sample(fraction=1, shuffle=True, seed=1)
SLICES = {"by": "lang", "cluster": "doc"}
LATENCY = fe.mean("latency", better="lower")
METRICS = [fe.rate("pred"), LATENCY, fe.f1("label", "pred")]
OPTIONS = [
    {},
    {"system": "system", "strata": "stage"},
    {"weight": "weight"},
]
SEVERAL = [
    *((fe.rate("pred"), options) for options in OPTIONS),
    (LATENCY, {"system": "system", "interval": "cr1"}),
    (LATENCY, {"strata": "stage"}),
    (fe.f1("label", "pred"), {}),
]
DRAWN = ["ci_low", "ci_high", "method"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts the rows are read in, each time."""
    found: list[int] = []
    in_parts = passes.in_parts

    def counting(*asked: Any) -> Any:
        found.append(asked[2])
        return in_parts(*asked)

    monkeypatch.setattr(passes, "in_parts", counting)
    return found


def bounded(engine: str = "polars-lazy", memory: float = 5e5) -> fe.Evaluation:
    return fe.of(IN_MEMORY[engine](FRAME)).run(memory=memory)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_the_worst_slices_are_the_same_on_every_engine(engine, read) -> None:
    how = {**SLICES, "resamples": 999}
    expected = FRAME.eval.worst(fe.rate("pred"), **how)
    found = bounded(engine).worst(fe.rate("pred"), **how)
    assert min(read) > 1
    assert_frame_equal(found.drop(DRAWN), expected.drop(DRAWN), rel_tol=1e-10, abs_tol=1e-12)


@pytest.mark.parametrize(("metric", "options"), SEVERAL, ids=str)
def test_the_worst_slices_in_every_way(metric, options, read) -> None:
    options = {**SLICES, **options}
    expected = FRAME.eval.worst(metric, **options)
    found = bounded().worst(metric, **options)
    assert min(read) > 1
    # Weights are told apart to few bits, which moves degrees of freedom.
    rel_tol = 1e-7 if "weight" in options else 1e-10
    assert_frame_equal(found.drop(DRAWN), expected.drop(DRAWN), rel_tol=rel_tol, abs_tol=1e-12)
    judged = found["rank"].is_not_null()
    assert found.filter(judged)["method"].str.ends_with(", simultaneous by normal draws").all()
    for limit in ("ci_low", "ci_high"):
        # 9,999 draws tell the level of five independent slices to a few per cent of its tail.
        half = (expected[limit] - expected["estimate"]).abs()
        off = ((found[limit] - expected[limit]) / half).filter(judged)
        assert off.abs().max() < 0.03


def test_slices_without_a_common_cluster_are_independent(read) -> None:
    level = 0.95 ** (1 / 5)  # Sidak
    found = bounded().worst(LATENCY, **SLICES).filter(pl.col("lang") < 5).sort("lang")
    alone = FRAME.eval.summary(LATENCY, level=level, **SLICES)[:5]
    assert min(read) > 1
    width = np.log(found["ci_high"] / found["ci_low"])
    assert_allclose(width, np.log(alone["ci_high"] / alone["ci_low"]), rtol=0.03)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_mixes_of_slices_are_the_same_on_every_engine(engine, read) -> None:
    how = {**SLICES, "target": {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4, 4: 0, 5: 0}}
    expected = FRAME.eval.poststratify(*METRICS, **how)
    found = bounded(engine, 1e6).poststratify(*METRICS, **how)
    assert min(read) > 1
    assert_frame_equal(found, expected, rel_tol=1e-10, abs_tol=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("last", [0, 0.1])
def test_mixes_of_slices_in_every_way(options, last, read) -> None:
    target = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4 - last, 4: 0, 5: last}
    how = {**SLICES, **options, "target": target}
    metrics = [*METRICS, fe.cohen_kappa("label", "pred")]
    expected = FRAME.eval.poststratify(*metrics, **how)
    found = bounded(memory=1.8e6).poststratify(*metrics, **how)
    assert min(read) > 1
    rel_tol = 1e-7 if "weight" in options else 1e-10
    assert_frame_equal(
        found.drop("method"), expected.drop("method"), rel_tol=rel_tol, abs_tol=1e-12
    )
    assert found["std_error"].is_null().all() == (last > 0)


ASKED = {
    "worst": lambda e: e.worst(fe.rate("pred"), by="stage", cluster="torn"),
    "poststratify": lambda e: e.poststratify(
        fe.rate("pred"), by="stage", cluster="torn", target={0: 0.5, 1: 0.5, 2: 0}
    ),
}


@pytest.mark.parametrize("verb", ASKED)
def test_clusters_in_several_slices_are_refused_with_the_reason(verb) -> None:
    torn = FRAME.with_columns(torn=pl.col("doc") // 2).lazy().eval.run(memory=4e5)
    reason = r"clusters are in several slices, so that these vary together: .*run\(memory=\)"
    with pytest.raises(fe.EvalError, match=f"^{verb}: at least .* {reason}"):
        ASKED[verb](torn)


def test_the_whole_beside_its_slices_is_refused() -> None:
    with pytest.raises(fe.EvalError, match=r"^worst: the sums of all .*run\(memory=\)"):
        bounded().worst(fe.rate("pred"), by=fe.each("lang"), cluster="doc")


def assert_near(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """The same numbers, and limits within the error of 9,999 draws."""
    assert_frame_equal(found.drop(DRAWN), expected.drop(DRAWN), rel_tol=1e-10, abs_tol=1e-12)
    assert found["method"].drop_nulls().str.ends_with(", simultaneous by normal draws").all()
    for limit in ("ci_low", "ci_high"):
        half = (expected[limit] - expected["estimate"]).abs()
        assert ((found[limit] - expected[limit]) / half).abs().max() < 0.03


AT_ONCE = {"cluster": "doc", "simultaneous": True}
OVERLAPPING = [
    ({"by": "stage", "system": "system"}, 1e6),
    ({"by": fe.each("lang", "system"), "overall": True}, 2e6),
    ({"by": fe.where(long=fe.col("latency") > 5, odd=fe.col("doc") % 2 == 1)}, 1e6),
]


@pytest.mark.parametrize(("options", "memory"), OVERLAPPING, ids=str)
def test_intervals_at_once_of_slices_that_share_clusters(options, memory, read) -> None:
    how = {**AT_ONCE, **options}
    found = bounded(memory=memory).summary(*METRICS[:2], **how)
    assert min(read) > 1
    assert_near(found, FRAME.eval.summary(*METRICS[:2], **how))


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_intervals_at_once_on_every_engine(engine, read) -> None:
    how = {**AT_ONCE, "by": "stage", "system": "system"}
    found = bounded(engine, 1e6).summary(LATENCY, **how)
    assert min(read) > 1
    assert_near(found, FRAME.eval.summary(LATENCY, **how))


def test_systems_that_are_alike_count_once(read) -> None:
    one = FRAME.filter(pl.col("system") == "a")
    twice = pl.concat([one, one.with_columns(system=pl.lit("b"))])
    how = {**AT_ONCE, "by": "stage"}
    found = twice.lazy().eval.run(memory=5e5).summary(LATENCY, system="system", **how)
    assert min(read) > 1
    expected = one.eval.summary(LATENCY, **how)
    for name in ("a", "b"):
        assert_near(found.filter(pl.col("system") == name).drop("system"), expected)


def test_what_slices_have_in_common_is_the_sum_over_their_clusters() -> None:
    question = slices(fe.each("lang", "system"), overall=True), Roles(cluster=("doc",))
    whole = measure(FRAME, [LATENCY], *question, "raise").metrics[0].linear
    with running(Run(memory=1e6)):
        parts = measure(FRAME.lazy(), [LATENCY], *question, "raise", apart=True, joint=True)
    influence, _ = influences_by_unit(whole, most_units([whole]))
    found = parts.metrics[0].linear.together
    assert_allclose(found, influence.T @ influence, rtol=1e-9, atol=1e-18)
    # The languages, which come after the whole, have no document in common.
    assert np.count_nonzero(found[1:6, 1:6]) == 5


def test_very_many_slices_at_once_are_taken_as_independent(read) -> None:
    many = FRAME.with_columns(part=pl.col("doc") % 201)
    how = {"by": "part", "cluster": "doc"}
    found = many.lazy().eval.run(memory=5e5).summary(fe.rate("pred"), simultaneous=True, **how)
    assert min(read) > 1
    expected = many.eval.summary(fe.rate("pred"), level=0.95 ** (1 / 201), **how)
    assert found["method"].str.ends_with(", simultaneous").all()
    limits = ["ci_low", "ci_high"]
    assert_frame_equal(found[limits], expected[limits], rel_tol=1e-9)


@pytest.mark.parametrize(
    ("metric", "options"),
    [(fe.rate("pred"), {"strata": "stage"}), (fe.cohen_kappa("label", "pred"), {})],
)
def test_intervals_at_once_that_need_all_clusters_are_refused(metric, options) -> None:
    with pytest.raises(fe.EvalError, match=r"^summary: the sums of all .*run\(memory=\)"):
        bounded().summary(metric, by="lang", **AT_ONCE, **options)
