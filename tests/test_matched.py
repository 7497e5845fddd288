"""Clustered comparisons whose examples are matched in place, against those of sorted tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles, reduce
from frame_eval.slices import slices

ROLES = {"system": "m", "example": ["set", "id"], "cluster": "doc"}
METRICS = {
    "rate": lambda: fe.rate("ok"),
    "mean": lambda: fe.mean("cost"),
    "ratio": lambda: fe.ratio("cost", "tokens"),
    "precision": lambda: fe.precision("y", "ok"),
    "f1": lambda: fe.f1("y", "ok"),
    "specificity": lambda: fe.specificity("y", "ok"),
    "rmse": lambda: fe.rmse("cost", "tokens"),
    "own": lambda: Metric(
        "own", {"x": "cost", "k": "ok"}, lambda c: {"x": c.x, "k": c.k}, lambda s: s.x / (1 + s.k)
    ),
}


def answers(systems: int = 3, examples: int = 240, seed: int = 0) -> pl.DataFrame:
    """Systems on the same examples, in unequal documents, some across slices; in random order."""
    rng = np.random.default_rng(seed)
    doc = np.sort(rng.choice(31, examples, p=rng.dirichlet(np.ones(31)))) * 7 - 50
    frames = [
        pl.DataFrame(
            {
                "m": f"s{k}",
                "set": np.arange(examples) // 100,
                "id": np.arange(examples) % 100,
                "doc": doc,
                "lang": np.array(["sw", "de", "fr"])[np.arange(examples) % 3],
                "y": np.arange(examples) % 3 == 0,
                "ok": rng.random(examples) < 0.5 + 0.1 * k,
                "cost": rng.exponential(size=examples) + 100 + k / 10,
                "tokens": rng.integers(1, 9, examples) + 100,
            }
        )
        for k in range(systems)
    ]
    return pl.concat(frames).sample(fraction=1, shuffle=True, seed=seed)


def is_matched(
    frame: pl.DataFrame, metric: Metric, by: str | None = None, example: Any = ROLES["example"]
) -> bool:
    roles = Roles.of("m", example, None, "doc", None)
    cut = slices(by, overall=False)
    return reduce(frame, [metric], cut, roles, by_example=True, clustered=True).matched is not None


def by_tables(monkeypatch: pytest.MonkeyPatch, call: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["frame_eval.reduce"], "can_match", lambda *_: False)
        return call()


@pytest.mark.parametrize(
    "key",
    [
        pl.col("at"),
        pl.col("at") + 10**9,
        3 * pl.col("at") - 700,
        10**10 * pl.col("at"),
        pl.col("at").cast(pl.UInt64),
        pl.format("example {}", "at"),
    ],
    ids=["from 0", "far off", "with gaps", "wide", "unsigned", "texts"],
)
@pytest.mark.parametrize("role", ["id", "doc"])
def test_names_of_examples_and_clusters_do_not_matter(
    key: pl.Expr, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers are not looked through for gaps."""
    at = 100 * pl.col("set") + pl.col("id") if role == "id" else pl.col("doc") + 50
    named = answers().with_columns(at=at).with_columns(key.alias(role))
    roles: dict[str, Any] = {**ROLES, "example": "id"} if role == "id" else ROLES

    def ask() -> pl.DataFrame:
        return named.eval.compare(fe.rate("ok"), baseline="s0", **roles)

    assert is_matched(named, fe.rate("ok"), example=roles["example"])
    assert_frame_equal(ask(), by_tables(monkeypatch, ask), rel_tol=1e-12)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("by", [None, "lang"])
def test_same_as_from_sorted_tables(
    name: str, by: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, metric = answers(), METRICS[name]()
    assert is_matched(frame, metric, by)
    for options in ({"method": "auto", "mde": True}, {"method": "cr1"}, {"method": None}):
        asked: dict[str, Any] = {**ROLES, **options, "by": by}

        def call(asked: dict[str, Any] = asked) -> pl.DataFrame:
            return frame.eval.compare(metric, **asked)

        assert_frame_equal(call(), by_tables(monkeypatch, call), rel_tol=1e-8, abs_tol=1e-11)


@pytest.mark.parametrize("method", ["bootstrap", "bca", "studentized", "permutation", "wild"])
@pytest.mark.parametrize("name", ["rate", "f1", "mean"])
def test_draws_are_the_same(name: str, method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, metric = answers(2), METRICS[name]()

    def call() -> pl.DataFrame:
        return frame.eval.compare(metric, baseline="s0", method=method, resamples=300, **ROLES)

    assert_frame_equal(call(), by_tables(monkeypatch, call), rel_tol=1e-8, abs_tol=1e-11)


def test_several_metrics_and_batches_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = answers(5)

    def call() -> pl.DataFrame:
        return frame.eval.compare(*(make() for make in METRICS.values()), by="lang", **ROLES)

    found = call()
    assert found.height == len(METRICS) * 3 * 10
    monkeypatch.setattr(sys.modules["frame_eval.verbs.contrast"], "_BATCH", 700)
    assert_frame_equal(call(), found)
    assert_frame_equal(found, by_tables(monkeypatch, call), rel_tol=1e-8, abs_tol=1e-11)


def test_a_rate_by_hand() -> None:
    frame = answers(2)
    wide = frame.pivot("m", index=["set", "id", "doc"], values="ok").with_columns(
        pl.col("s0", "s1").cast(pl.Float64)
    )
    gap = (wide["s1"] - wide["s0"]).to_numpy()
    left = gap - gap.mean()
    sums = np.array([left[wide["doc"].to_numpy() == d].sum() for d in wide["doc"].unique()])
    row = frame.eval.compare(fe.rate("ok"), baseline="s0", method="cr1", **ROLES).row(0, named=True)
    assert row["difference"] == pytest.approx(gap.mean(), abs=1e-14)
    error = np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(gap)
    assert row["std_error"] == pytest.approx(error, rel=1e-12)
    counts = (gap > 0).sum(), (gap < 0).sum(), (gap == 0).sum(), len(gap), len(sums)
    names = ("wins", "losses", "ties", "n", "clusters")
    assert tuple(row[name] for name in names) == counts


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f[1:], "1 examples were answered by only one"),
        (lambda f: pl.concat([f[1:], f[5:6]]), "1 examples have more than one row per system"),
        (
            lambda f: f.with_columns(
                doc=pl.when(pl.int_range(pl.len()) == 3).then(9999).otherwise("doc")
            ),
            "1 examples are in more than one cluster",
        ),
        (
            lambda f: f.with_columns(
                lang=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("xx")).otherwise("lang")
            ),
            "1 examples are in different slices",
        ),
    ],
    ids=["lonely", "repeated", "two-clusters", "two-slices"],
)
def test_rows_that_do_not_match_are_named(spoil: Any, message: str) -> None:
    with pytest.raises(fe.EvalError, match=message):
        spoil(answers(2)).eval.compare(fe.rate("ok"), baseline="s0", by="lang", **ROLES)
