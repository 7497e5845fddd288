"""Every verb on every engine, and every type of column in every place: the same as on Polars."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import IN_MEMORY
from oracles.cases import TABLES
from oracles.catalogue import CATALOGUE
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
        "weight": 1.0 + EXAMPLE % 4,
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
    "guard": lambda e: e.guard(
        fe.rule(ACCURACY, max_drop=0.05), by="kind", cluster="doc", weight="weight", **PAIRED
    ),
    "routing": lambda e: e.routing("pred", "prob", fallback="label", system="model"),
    # Many scores are on the edge of a bin.
    "score bins": lambda e: e.run(score_bins=20).summary(fe.roc_auc("label", "score"), by="lang"),
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


# A column that no engine can compute, unless nobody asks for it.
POISONED: dict[str, Any] = {
    "polars": lambda frame: frame.lazy().with_columns(poison=pl.col("lang").cast(pl.Int64)),
    "duckdb": lambda frame: IN_MEMORY["duckdb"](frame).select("*, error(lang)::int as poison"),
}


@pytest.mark.parametrize("kind", POISONED)
@pytest.mark.parametrize("verb", [*VERBS, "conditions", "units"])
def test_verbs_read_only_the_columns_they_need(kind, verb) -> None:
    more = {
        "conditions": lambda e: e.summary(ACCURACY, by=fe.where(high=fe.col("score") > 0)),
        "units": lambda e: e.summary(fe.pass_at_k("label", 1), example="id", trial="model"),
    }
    ask = {**VERBS, **more}[verb]
    assert_same(ask(fe.of(POISONED[kind](FRAME))), ask(FRAME.eval))


@pytest.mark.parametrize("kind", POISONED)
def test_a_column_that_can_not_be_computed_is_an_error(kind) -> None:
    with pytest.raises(fe.EvalError, match=r"could not read the frame: .*\b(sw|de|fr)\b"):
        fe.of(POISONED[kind](FRAME)).summary(fe.mean("poison"))


def test_every_verb_is_asked() -> None:
    seen = set()

    class Evaluation:
        def run(self, **_: Any) -> Evaluation:
            return self

        def __getattr__(self, name: str) -> Any:
            seen.add(name)
            return lambda *_, **__: None

    for ask in VERBS.values():
        ask(Evaluation())
    verbs = {name for name in fe.__all__ if hasattr(fe.Evaluation, name)}
    assert seen == verbs - {"assert_passed"}  # that is about a result


def every_metric(kind: str) -> list[fe.Metric]:
    return [case.make(kind).alias(name) for name, case in CATALOGUE.items()]


def test_every_metric_is_the_same_on_every_engine(engine) -> None:
    kind, frame = TABLES["weighted"]
    options = {"by": "g", "cluster": "c", "weight": "w"}
    expected = frame.eval.summary(*every_metric(kind), **options)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=4)
    assert_same(fe.of(engine(shuffled)).summary(*every_metric(kind), **options), expected)


def test_every_metric_is_compared_the_same_on_every_engine(engine) -> None:
    kind, frame = TABLES["random"]
    frame = frame.head(200).with_columns(model=pl.col("e") % 2, e=pl.col("e") // 2)
    options = {"system": "model", "example": "e", "baseline": 0}
    expected = frame.eval.compare(*every_metric(kind), **options)
    assert_same(fe.of(engine(frame)).compare(*every_metric(kind), **options), expected)


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


def test_expressions_are_of_wide_numbers(engine) -> None:
    frame = pl.DataFrame(
        {
            "byte": pl.Series([200, 100, 3], dtype=pl.UInt8),
            "word": pl.Series([201, 90, 5], dtype=pl.UInt32),
            "long": pl.Series([1, 2, 3], dtype=pl.UInt64),
            "small": pl.Series([-128, 100, 1], dtype=pl.Int8),
            "single": pl.Series([0.1, 0.25, 0.05], dtype=pl.Float32),
        }
    )
    byte, word, small = fe.col("byte"), fe.col("word"), fe.col("small")
    means = [byte * 2, word - byte, fe.col("long") - 2, small * 2]
    found = fe.of(engine(frame)).summary(*map(fe.mean, means))
    assert polars_of(found)["estimate"].to_list() == pytest.approx([202, -7 / 3, 0, -18])
    # In single precision 0.1 is a little more than 0.1.
    by = fe.where(twice=byte * 2 > 300, single=fe.col("single") > 0.1)
    found = polars_of(fe.of(engine(frame)).summary(fe.mean("small"), by=by))
    assert found["n"].to_list() == [1, 2]
    rule = fe.rule(fe.mean("small"), min=0, where=byte * 2 > 300)
    assert polars_of(fe.of(engine(frame)).guard(rule))["estimate"].to_list() == [-128]


def test_expressions_are_the_same_on_every_engine(engine) -> None:
    frame = pl.DataFrame(
        {
            "i": [-7, -3, -1, 0, 1, 3, 7, None],
            "j": [2, -2, 1, 3, -1, -3, 5, 1],
            "x": [-2.5, -0.5, 0.0, 0.5, 1.5, float("nan"), None, 9.0],
            "z": [0.0, -0.0, 0.0, 1.0, 0.0, 2.0, 1.0, 0.0],
            "text": ["a", "B", "é", "z", "", " a", None, "aé"],
            "flag": [True, False, None, True, None, False, True, True],
            "day": [DAY + dt.timedelta(31 * k) for k in range(8)],
        }
    )
    i, j, x, text = (fe.col(name) for name in ("i", "j", "x", "text"))
    numbers = [i // 2, i // -2, i % 3, i % -3, i // j, i / j, i**2, i.abs(), i - i.mean()]
    numbers += [x.clip(0, 1), x % 1.0, x.fill_null(3), text.str.len_chars()]
    numbers += [fe.col("day").dt.year(), nw.when(i > 0).then(x).otherwise(fe.col("z"))]
    found = fe.of(engine(frame)).summary(*map(fe.mean, numbers), missing="drop")
    expected = frame.eval.summary(*map(fe.mean, numbers), missing="drop")
    assert_same(found, expected)
    assert expected["estimate"].null_count() == 0
    by = fe.where(
        text=text > "B",
        differs=text != "a",
        either=fe.col("flag") | (i > 0),
        neither=~(fe.col("flag") & (i > 0)),
        listed=~text.is_in(["a", "é"]),
        regex=text.str.contains("^[a-z]$"),
        upper=text.str.to_uppercase() == "É",
        less=fe.col("z") < 0,
        mean=x > x.mean(),
        day=fe.col("day") > DAY,
    )
    options = {"by": by, "missing": "drop"}
    expected = frame.eval.summary(fe.mean("i"), **options)
    assert_same(fe.of(engine(frame)).summary(fe.mean("i"), **options), expected)
    # By hand, of the seven rows that have an ``i``.
    assert expected["n"].to_list() == [3, 5, 5, 5, 4, 2, 1, 0, 1, 6]


def test_expressions_leave_keys_in_their_type() -> None:
    key = pl.Series([1, 200, 1], dtype=pl.UInt8)
    frame = pl.DataFrame({"key": key, "single": pl.Series([0.1, 0.1, 0.2], dtype=pl.Float32)})
    found = frame.eval.summary(fe.mean(fe.col("key") * 2), by=["key", "single"])
    assert dict(found.select("key", "single").schema) == dict(frame.schema)
    assert found["key"].to_list() == [1, 1, 200]


NAMES = {
    "model": "select",
    "id": "`id`",
    "doc": 'the "doc"',
    "lang": "a.lang",
    "label": "it's; --",
    "pred": "count(*)",
    "score": " score\n",
    "prob": "\U0001f600\\%s{0}",
}


def test_columns_have_any_name_on_every_engine(engine) -> None:
    frame = FRAME.rename(NAMES)

    def asked(evaluation: Any) -> list[Any]:
        accuracy = fe.accuracy(NAMES["label"], NAMES["pred"])
        auc = fe.roc_auc(NAMES["label"], NAMES["score"])
        roles = {"system": NAMES["model"], "cluster": NAMES["doc"]}
        by = fe.each(NAMES["lang"], "topic")
        return [
            evaluation.summary(accuracy, auc, by=by, weight=NAMES["prob"], **roles),
            evaluation.compare(accuracy, example=NAMES["id"], baseline="a", **roles),
            evaluation.worst(accuracy, by=NAMES["lang"]),
        ]

    for found, expected in zip(asked(fe.of(engine(frame))), asked(frame.eval), strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("kind", ["duckdb", "spark"])
def test_a_column_of_another_case_is_not_taken(kind) -> None:
    frame = fe.of(IN_MEMORY[kind](pl.DataFrame({"ok": [1, 0], "g": ["a", "b"]})))
    with pytest.raises(fe.ColumnError, match=r"column that is not there: .*\"G\".*\"g\""):
        frame.summary(fe.rate("ok"), by=fe.where(a=fe.col("G") == "a"))


@pytest.fixture
def parts() -> Any:
    """A Dask frame of two parts, with nulls in the second one alone and categories unknown."""
    dask = pytest.importorskip("dask.dataframe")
    whole = pd.DataFrame({"doc": [1, 1, 2, 2], "ok": [1, 0, 0, 1], "kind": list("abab")})
    holes = pd.DataFrame({"doc": [3, 3, None], "ok": [1, None, 1], "kind": ["a", None, "b"]})
    declared = whole.astype({"kind": "category"}).head(0)
    frame = dask.from_map(
        lambda part: part.astype({"kind": "category"}), [whole, holes], meta=declared
    )
    return frame.assign(kind=frame["kind"].cat.as_unknown())


def test_parts_of_a_dask_frame_are_what_it_declares(parts) -> None:
    expected = pl.DataFrame(
        {
            "doc": [1, 1, 2, 2, 3, 3, None],
            "ok": [1, 0, 0, 1, 1, None, 1],
            "kind": [*"abab", "a", None, "b"],
        }
    )
    for by in ("doc", "kind", fe.where(one=fe.col("doc") == 1)):
        options = {"by": by, "missing": "drop"}
        assert_same(
            fe.of(parts).summary(fe.rate("ok"), **options),
            expected.eval.summary(fe.rate("ok"), **options),
        )


@pytest.mark.parametrize("more", [2**53, 0.5])
def test_whole_numbers_that_pandas_makes_others_are_refused(parts, more) -> None:
    dask = pytest.importorskip("dask.dataframe")
    meta = {"doc": "int64", "ok": "int64"}
    shifted = dask.from_map(
        lambda i: parts[["doc", "ok"]].partitions[i].compute() + i * more, [0, 1], meta=meta
    )
    with pytest.raises(fe.EvalError, match=r"'doc' is Int64, but .* dtype_backend='pyarrow'"):
        fe.of(shifted).summary(fe.rate("ok"), by="doc", missing="drop")


def test_parts_of_a_dask_frame_may_be_of_other_widths() -> None:
    dask = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"doc": np.array([1, 1, 2], np.int64), "ok": [1, 0, 1]})
    narrow = frame.astype({"doc": "int32"})
    found = fe.of(dask.from_map(lambda part: part, [frame, narrow], meta=narrow.head(0)))
    assert found.summary(fe.rate("ok"), by="doc")["n"].to_list() == [4, 2]
