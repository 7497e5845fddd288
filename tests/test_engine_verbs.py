"""Every verb on every engine, and every type of column in every place: the same as on Polars."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frame_eval as fe

RNG = np.random.default_rng(17)
HALF = 120
EXAMPLE = np.tile(np.arange(HALF), 2)
LABEL = (RNG.random(HALF) < 0.4)[EXAMPLE]
DAY = dt.date(2026, 1, 5)
MOMENT = dt.datetime(2026, 3, 29, 1, 30)
FRAME = pl.DataFrame(
    {
        "model": ["a"] * HALF + ["b"] * HALF,
        "id": EXAMPLE,
        "doc": EXAMPLE // 5,
        "lang": np.array(["sw", "de", "fr"])[EXAMPLE % 3],
        "topic": EXAMPLE // 5 % 3,
        "label": LABEL,
        "pred": LABEL ^ (RNG.random(2 * HALF) < 0.3),
        "kind": np.array(["cat", "dog"])[LABEL.astype(int)],
        "guess": np.array(["cat", "dog"])[RNG.integers(0, 2, 2 * HALF)],
        "score": np.round(RNG.normal(LABEL * 1.0, 1.0), 1),
        "prob": np.round(RNG.random(2 * HALF), 2),
    }
)
ACCURACY = fe.accuracy("label", "pred")
PAIRED = {"system": "model", "example": "id", "baseline": "a"}
VERBS: dict[str, Any] = {
    "bootstrap": lambda e: e.bootstrap(
        ACCURACY, fe.roc_auc("label", "score"), by="lang", cluster="doc", resamples=200
    ),
    "bootstrap interval": lambda e: e.summary(
        ACCURACY, fe.mcc("label", "pred"), cluster="doc", interval="bca", resamples=200
    ),
    "permutation": lambda e: e.compare(ACCURACY, method="permutation", resamples=200, **PAIRED),
    "wild": lambda e: e.compare(ACCURACY, method="wild", resamples=200, cluster="doc", **PAIRED),
    "wilcoxon": lambda e: e.compare(fe.mean("score"), method="wilcoxon", by="lang", **PAIRED),
    "unpaired": lambda e: e.compare(
        ACCURACY, system="model", baseline="a", paired=False, by="lang"
    ),
    "confusion": lambda e: e.confusion("kind", "guess", by="lang", normalize="truth"),
    "roc curve": lambda e: e.curve("roc", "label", "score", system="model", by="lang"),
    "pr curve": lambda e: e.curve("pr", "label", "score", system="model"),
    "reliability": lambda e: e.curve("reliability", "label", "prob", system="model"),
    "best_threshold": lambda e: e.best_threshold("label", "score", fbeta=1.0, system="model"),
    "operating_point": lambda e: e.operating_point("label", "score", 0.5, by="lang", cluster="doc"),
    "worst": lambda e: e.worst(ACCURACY, by=fe.each("lang", "kind"), system="model"),
    "worst, crossed": lambda e: e.worst(
        ACCURACY, by="kind", system="model", cluster=fe.crossed("doc", "lang"), resamples=200
    ),
    "curve, crossed": lambda e: e.curve(
        "pr", "label", "score", system="model", cluster=fe.crossed("doc", "lang")
    ),
    "poststratify": lambda e: e.poststratify(
        ACCURACY, by="lang", target={"sw": 0.5, "de": 0.3, "fr": 0.2}, system="model", cluster="doc"
    ),
    "plan": lambda e: e.plan(ACCURACY, n=500, **PAIRED),
    "simultaneous": lambda e: e.summary(
        ACCURACY, by="lang", cluster="doc", simultaneous=True, resamples=200
    ),
    "details": lambda e: e.summary(ACCURACY, by="lang", cluster="doc", details=True),
    "strata": lambda e: e.summary(ACCURACY, cluster="doc", strata="topic"),
}


def polars_of(result: Any) -> pl.DataFrame:
    return pl.from_pandas(result) if isinstance(result, pd.DataFrame) else result


def assert_same(found: Any, expected: Any) -> None:
    found, expected = polars_of(found), polars_of(expected)
    assert expected.height
    assert_frame_equal(found, expected, rel_tol=1e-12, abs_tol=1e-13, check_dtypes=False)


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_are_the_same_on_every_engine(engine, verb) -> None:
    expected = VERBS[verb](FRAME.eval)
    shuffled = FRAME.sample(fraction=1, shuffle=True, seed=2)
    assert_same(VERBS[verb](fe.of(engine(shuffled))), expected)


KEYS: dict[str, Any] = {
    "string": ["b", "a", None],
    "categorical": pl.Series(["b", "a", None], dtype=pl.Categorical),
    "bool": [True, False, None],
    "int": [3, -1, None],
    "float": [0.5, float("nan"), None],
    "decimal": [Decimal("1.50"), Decimal("0.25"), None],
    "date": [DAY, DAY - dt.timedelta(3), None],
    "zoned": pl.Series([MOMENT, MOMENT + dt.timedelta(hours=2), None]).dt.replace_time_zone("UTC"),
}


def keyed(kind: str) -> pl.DataFrame:
    """The frame with a key of a type, by cluster."""
    values = KEYS[kind] if isinstance(KEYS[kind], pl.Series) else pl.Series(KEYS[kind])
    return FRAME.with_columns(key=values[EXAMPLE // 5 % 3])


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type_slice_comparisons_on_every_engine(engine, kind) -> None:
    frame = keyed(kind)
    expected = frame.eval.compare(ACCURACY, by="key", cluster="doc", **PAIRED)
    found = polars_of(fe.of(engine(frame)).compare(ACCURACY, by="key", cluster="doc", **PAIRED))
    assert_same(found.drop("key"), expected.drop("key"))


@pytest.mark.parametrize("kind", [kind for kind in KEYS if kind != "float"])
def test_examples_and_clusters_of_any_type(engine, kind) -> None:
    # Ids are never null: the third value takes the place of the null.
    frame = keyed(kind).filter(pl.col("key").is_not_null())
    options = {"system": "model", "cluster": ["key", "doc"], "example": ["key", "id"]}
    expected = frame.eval.summary(ACCURACY, fe.mean("score"), **options)
    assert_same(fe.of(engine(frame)).summary(ACCURACY, fe.mean("score"), **options), expected)


CONDITIONS: dict[str, Any] = {
    "string": fe.col("key") == "a",
    "bool": fe.col("key"),
    "int": fe.col("key") > 0,
    "float": fe.col("key") > 0.1,
    "date": fe.col("key") >= DAY,
}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_conditions_on_any_type(engine, kind) -> None:
    frame = keyed(kind)
    by = fe.where(chosen=CONDITIONS[kind])
    options = {"by": by, "system": "model", "cluster": "doc", "overall": True}
    expected = frame.eval.summary(ACCURACY, **options)
    chosen = expected.filter(pl.col("slice") == "chosen")["n"].sum()
    assert 0 < chosen < frame.height
    assert_same(fe.of(engine(frame)).summary(ACCURACY, **options), expected)
