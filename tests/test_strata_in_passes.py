"""Strata of more clusters and examples than memory holds: the answers of rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import IN_MEMORY
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import beside, passes

READ_IN_PARTS = ["polars-lazy", "arrow-dataset", "duckdb", "spark", "dask"]
RNG = np.random.default_rng(11)
EXAMPLES = 5_000
DOC = RNG.integers(0, 2_000, EXAMPLES)
LABEL = RNG.random(EXAMPLES) < 0.2 + 0.2 * (DOC % 4)


def of_system(name: str) -> pl.DataFrame:
    """Answers of a system in documents of four levels, which differ; one stratum has no name."""
    level = DOC % 4
    return pl.DataFrame(
        {
            "system": name,
            "id": np.arange(EXAMPLES),
            "doc": [f"d{d}" for d in DOC],
            "level": pl.Series(["easy", "fair", None, "hard"])[level],
            "lang": pl.Series(["de", "sw", None])[DOC // 4 % 3],
            "weight": 1 + DOC % 3,
            "uneven": 1 + np.arange(EXAMPLES) % 3_000 / 1_000,
            "label": LABEL,
            "pred": RNG.random(EXAMPLES) < 0.3 + 0.1 * level,
            "latency": level + RNG.lognormal(0, 1, EXAMPLES),
            "score": np.round(level + RNG.normal(size=EXAMPLES), 1),
        }
    )


FRAME = pl.concat([of_system("a"), of_system("b")]).sample(fraction=1, shuffle=True, seed=1)
PLAIN = [fe.rate("label"), fe.f1("label", "pred"), fe.mean("latency"), fe.ratio("pred", "label")]
OVER_CELLS = [fe.cohen_kappa("label", "pred"), fe.median("score"), fe.roc_auc("label", "score")]
EXAMPLE = {"system": "system", "example": "id"}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts the rows are read in, each time."""
    found: list[int] = []
    for module in (passes, beside):
        in_parts = module.in_parts

        def counting(*asked: Any, in_parts: Any = in_parts) -> Any:
            found.append(asked[2])
            return in_parts(*asked)

        monkeypatch.setattr(module, "in_parts", counting)
    return found


def assert_same(
    verb: str, asked: Any, parts: list[int], rel_tol: float = 1e-10, **how: Any
) -> pl.DataFrame:
    """The answer within little memory, which is that of the rows in memory."""
    frame, engine = how.pop("frame", FRAME), how.pop("engine", "polars-lazy")
    bounded = fe.of(IN_MEMORY[engine](frame)).run(memory=how.pop("memory", 1.5e6))
    how["strata"] = "level"
    expected, result = (getattr(of, verb)(*asked, **how) for of in (frame.eval, bounded))
    assert min(parts) > 1
    assert_frame_equal(result, expected, rel_tol=rel_tol, abs_tol=1e-12)
    return result


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_clusters_of_strata_are_the_same_on_every_engine(engine, parts) -> None:
    found = assert_same("summary", PLAIN, parts, engine=engine, by="lang", cluster="doc")
    assert found["method"].str.starts_with("stratified, ").all()


@pytest.mark.parametrize(
    "how",
    [
        {"by": fe.each("lang", "system"), "overall": True},
        {"by": fe.where(slow=fe.col("latency") > 3, none=fe.col("latency") < 0)},
        {"system": "system", "weight": "weight"},
        {"interval": "cr1", "metrics": PLAIN[2:]},
        {"metrics": [fe.pass_at_k("pred", 1)], "example": "id", "trial": "system", "memory": 5e5},
    ],
    ids=str,
)
def test_clusters_of_strata_in_every_way(how, parts) -> None:
    how = dict(how)
    assert_same("summary", how.pop("metrics", PLAIN), parts, cluster="doc", **how)


def test_clusters_of_strata_of_metrics_over_cells(parts) -> None:
    assert_same("summary", OVER_CELLS, parts, by="lang", cluster="doc", memory=8e5)


def test_rows_of_strata_and_very_many_weights(parts) -> None:
    # Weights are told apart to few bits; `method` may round its degrees of freedom the other way.
    metrics, how = [fe.rate("label"), fe.mean("latency")], {"weight": "uneven", "strata": "level"}
    expected = FRAME.eval.summary(*metrics, **how).drop("method")
    result = FRAME.lazy().eval.run(memory=1.5e6).summary(*metrics, **how).drop("method")
    assert min(parts) > 1
    assert_frame_equal(result, expected, rel_tol=5e-7, abs_tol=1e-12)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_pairs_within_strata_are_the_same_on_every_engine(engine, parts) -> None:
    how = {**EXAMPLE, "baseline": "a", "cluster": "doc", "by": "lang", "memory": 1.5e6}
    found = assert_same("compare", PLAIN, parts, 1e-9, engine=engine, **how)
    assert found["method"].str.starts_with("stratified, ").all()


@pytest.mark.parametrize(
    "how",
    [
        {"weight": "weight", "cluster": "doc", "metrics": PLAIN[:3]},
        {"by": fe.each("lang"), "overall": True},
        {"weight": "weight", "by": "lang"},
        {"cluster": "doc", "method": "cr1", "by": fe.where(slow=fe.col("doc") > "d2")},
        {"cluster": "doc", "by": fe.each("lang"), "metrics": [OVER_CELLS[0], OVER_CELLS[2]]},
        {"by": "lang", "metrics": [OVER_CELLS[0], OVER_CELLS[2]]},
    ],
    ids=str,
)
def test_pairs_within_strata_in_every_way(how, parts) -> None:
    how = {**EXAMPLE, "memory": 1.2e6, **how}
    found = assert_same("compare", how.pop("metrics", PLAIN), parts, 1e-9, **how)
    assert not found["method"].is_in(["score"]).any()


def test_rules_and_margins_within_strata(parts) -> None:
    rules = [fe.rule(fe.rate("pred"), max_drop=0.1), fe.rule(fe.mean("latency"), max=3)]
    how = {**EXAMPLE, "baseline": "a", "cluster": "doc", "by": "lang"}
    assert_same("guard", rules, parts, 1e-9, **how)


@pytest.mark.parametrize("verb", ["summary", "compare"])
def test_a_stratum_with_one_cluster_says_so_in_passes(verb, parts) -> None:
    alone = (
        pl.when(pl.col("doc") == f"d{DOC[0]}")
        .then(pl.lit("alone"))
        .otherwise("level")
        .alias("level")
    )
    how = {**EXAMPLE, "cluster": "doc", "frame": FRAME.with_columns(alone), "memory": 8e5}
    found = assert_same(verb, [fe.rate("pred")], parts, 1e-9, **how)
    assert found["note"].str.contains("a stratum with one unit: no error can be estimated").all()
    assert found["std_error"].is_null().all()


@pytest.mark.parametrize("verb", ["summary", "compare"])
def test_a_cluster_in_two_strata_is_refused_in_passes(verb) -> None:
    torn = FRAME.with_columns(
        pl.when(pl.col("id") == 5).then(pl.lit("other")).otherwise("level").alias("level")
    )
    evaluation = torn.lazy().eval.run(memory=1.5e6)
    with pytest.raises(fe.EvalError, match="1 units are in more than one stratum"):
        getattr(evaluation, verb)(fe.rate("pred"), **EXAMPLE, cluster="doc", strata="level")
