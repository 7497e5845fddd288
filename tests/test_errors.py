"""Bad input: a clear exception that names the column, the count, and what to do."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import frame_eval as fe

DF = pl.DataFrame(
    {
        "model": ["a", "a", "a", "b", "b", "b"],
        "id": [1, 2, 3, 1, 2, 3],
        "lang": ["sw", "sw", "de", "sw", "sw", "de"],
        "label": [1, 0, 1, 1, 0, 1],
        "pred": [1, 1, 0, 1, 0, 1],
        "animal": ["cat", "dog", "eel", "cat", "dog", "eel"],
        "guess": ["cat", "cat", "eel", "cat", "dog", "eel"],
        "seconds": [1.5, None, float("nan"), 2.0, 1.0, 3.0],
        "weight": [1.0, -1.0, 1.0, 1.0, 1.0, 1.0],
        "light": [1.0, None, 1.0, 1.0, 1.0, 1.0],
        "heavy": [1.0, float("inf"), 1.0, 1.0, 1.0, 1.0],
        "doc": ["x", None, "y", "x", "y", "y"],
        "n": [1, 2, 3, 4, 5, 6],
    }
)
RATE = fe.rate("label")

# What is asked, and all that the message has to say.
CASES: dict[str, tuple[Callable[[], object], list[str]]] = {
    "input column": (
        lambda: DF.eval.summary(fe.rate("lable")),
        ["'lable' is not a column", "Did you mean 'label'?", "'model', 'id'"],
    ),
    "slice column": (
        lambda: DF.eval.summary(RATE, by="langg"),
        ["slice key 'langg'", "Did you mean 'lang'?"],
    ),
    "system column": (lambda: DF.eval.summary(RATE, system="modle"), ["system 'modle'", "'model'"]),
    "example column": (lambda: DF.eval.summary(RATE, example="idd"), ["example 'idd'", "'id'"]),
    "cluster column": (lambda: DF.eval.summary(RATE, cluster="dok"), ["cluster 'dok'", "'doc'"]),
    "weight column": (
        lambda: DF.eval.summary(RATE, weight="wight"),
        ["weight 'wight'", "'weight'"],
    ),
    "column in an expression": (
        lambda: DF.eval.summary(fe.mean(pl.col("nope") + 1)),
        ["expression", "nope"],
    ),
    "empty frame": (lambda: DF.head(0).eval.summary(RATE), ["frame is empty"]),
    "empty lazy frame": (lambda: DF.lazy().head(0).eval.summary(RATE, by="lang"), ["empty"]),
    "no metric": (lambda: DF.eval.summary(), ["at least one metric"]),
    "text for a metric": (lambda: DF.eval.summary("label"), ["not a metric", "fe.mean('label')"]),
    "unknown interval": (
        lambda: DF.eval.summary(RATE, interval="wislon"),
        ["interval='wislon'", "Did you mean 'wilson'?", "clopper-pearson"],
    ),
    "unknown missing": (
        lambda: DF.eval.summary(RATE, missing="dorp"),
        ["missing='dorp'", "'drop'"],
    ),
    "unknown average": (
        lambda: fe.f1("label", "pred", average="marco"),
        ["average='marco'", "Did you mean 'macro'?"],
    ),
    "level": (lambda: DF.eval.summary(RATE, level=95), ["level=95", "between 0 and 1"]),
    "wilson for a mean": (
        lambda: DF.eval.summary(fe.mean("n"), interval="wilson"),
        ["'wilson'", "mean(n)", "'cr2'"],
    ),
    "t with clusters": (
        lambda: DF.eval.summary(RATE, interval="t", cluster="lang"),
        ["interval='t'", "'cr2'"],
    ),
    "null and NaN inputs": (
        lambda: DF.eval.summary(fe.mean("seconds")),
        ["2 rows", "'seconds'", "missing='drop'", "missing='worst'"],
    ),
    "worst without bounds": (
        lambda: DF.eval.summary(fe.mean("seconds"), missing="worst"),
        ["2 rows", "no worst value", "missing='drop'"],
    ),
    "mixed id types": (
        lambda: pd.DataFrame({"id": [1, "a"], "ok": [1, 0]}).eval.summary(
            fe.rate("ok"), example="id"
        ),
        ["'id'", "mixed", "int, str"],
    ),
    "repeated rows": (
        lambda: DF.eval.summary(RATE, example="id"),
        ["3 examples have more than one row (such as 1, 2, 3)", "with system= or trial="],
    ),
    "repeated trials": (
        lambda: DF.with_columns(t=1).eval.summary(RATE, example="id", trial="t"),
        ["3 examples", "more than one row"],
    ),
    "trial without example": (
        lambda: DF.eval.summary(RATE, trial="id"),
        ["trial=", "example="],
    ),
    "rate of numbers": (
        lambda: DF.eval.summary(fe.rate("n")),
        ["'n'", "0/1", "1, 2, 3, 4, 5, 6", "fe.mean"],
    ),
    "more than two classes": (
        lambda: DF.eval.summary(fe.f1("n", "n")),
        ["'n'", "1, 2, 3, 4, 5, 6", "positive=", "macro"],
    ),
    "text labels": (
        lambda: DF.eval.summary(fe.precision("animal", "guess")),
        ["'animal'", "'cat', 'dog', 'eel'", "positive=", "average="],
    ),
    "positive of another type": (
        lambda: DF.eval.summary(fe.precision("label", "pred", positive="yes")),
        ["positive='yes'", "'label'", "Int64"],
    ),
    "labels of another type": (
        lambda: DF.eval.summary(fe.accuracy("label", "animal")),
        ["'label'", "'animal'", "cast"],
    ),
    "text for a number": (
        lambda: DF.eval.summary(fe.mean("animal")),
        ["'animal'", "needs numbers"],
    ),
    "negative weight": (
        lambda: DF.eval.summary(RATE, weight="weight"),
        ["1 negative", "at least 0"],
    ),
    "null weight": (lambda: DF.eval.summary(RATE, weight="light"), ["weight", "1 null"]),
    "infinite weight": (lambda: DF.eval.summary(RATE, weight="heavy"), ["weight", "infinite"]),
    "null cluster": (
        lambda: DF.eval.summary(RATE, cluster="doc"),
        ["'doc'", "1 null", "sampled independently"],
    ),
    "key called like a result": (
        lambda: DF.eval.summary(RATE, by="n"),
        ["'n'", "rename", "'n_'"],
    ),
    "two equal names": (
        lambda: DF.eval.summary(RATE, fe.rate("label")),
        ["'rate(label)'", ".alias()"],
    ),
    "system that is a slice": (
        lambda: DF.eval.summary(RATE, by="model", system="model"),
        ["'model'", "both"],
    ),
    "column named twice": (lambda: DF.eval.summary(RATE, by=["lang", "lang"]), ["twice", "lang"]),
    "an expression as key": (
        lambda: DF.eval.summary(RATE, by=pl.col("lang")),
        ["column name", "fe.where"],
    ),
    "condition that is no condition": (
        lambda: DF.eval.summary(RATE, by=fe.where(a="n")),
        ["condition 'a'", "not boolean"],
    ),
    "condition column": (
        lambda: DF.eval.summary(RATE, by=fe.where(a="nn")),
        ["condition 'nn'", "'n'"],
    ),
    "native expression elsewhere": (
        lambda: fe.of(duckdb.from_arrow(DF.to_arrow())).summary(fe.mean(pl.col("n"))),
        ["fe.col"],
    ),
    "unknown frame": (
        lambda: fe.of([1, 2]).summary(RATE),
        ["list", "pandas, Polars, Arrow, DuckDB, Spark or Dask"],
    ),
    "pass@k without problems": (
        lambda: DF.eval.summary(fe.pass_at_k("label", 1)),
        ["pass@1", "example="],
    ),
    "pass@k with few attempts": (
        lambda: DF.eval.summary(fe.pass_at_k("label", 3), example="id"),
        ["3 problems", "k=3", "short='drop'"],
    ),
    "pass@0": (lambda: fe.pass_at_k("label", 0), ["k=0", "at least 1"]),
    "pass@True": (lambda: fe.pass_at_k("label", True), ["k=True", "whole number"]),
    "quantile level": (lambda: fe.quantile("n", 95), ["q=95", "between 0 and 1"]),
    "beta": (lambda: fe.fbeta("label", "pred", 0), ["beta=0", "positive"]),
    "beta without an end": (lambda: fe.fbeta("label", "pred", float("inf")), ["beta=inf"]),
    "text for a share": (lambda: fe.partial_auc("label", "n", "m"), ["max_fpr='m'"]),
    "text for a least recall": (lambda: fe.precision_at_recall("label", "n", "m"), ["recall='m'"]),
    "text for labels": (
        lambda: fe.f1("label", "pred", average="macro", labels="abc"),
        ["labels='abc'", "list of classes"],
    ),
    "no labels": (lambda: fe.f1("label", "pred", average=None, labels=[]), ["labels=[]"]),
    "labels twice": (
        lambda: fe.f1("label", "pred", average="macro", labels=[1, 0, 1]),
        ["[1, 0, 1]", "twice"],
    ),
    "classes of another type": (
        lambda: DF.eval.summary(fe.f1("label", "pred", average="macro", labels=["1"])),
        ["'1' in labels=", "type of the classes 0, 1"],
    ),
    "part of a row as support": (
        lambda: fe.f1("label", "pred", average="macro", min_support=2.5),
        ["min_support=2.5"],
    ),
    "a matrix of costs": (
        lambda: fe.expected_cost("label", "pred", [[0, 1], [5, 0]]),
        ["costs is a list", "mapping"],
    ),
    "costs of classes": (lambda: fe.expected_cost("label", "pred", {0: 1.0}), ["pair", "0"]),
    "text for a cost": (
        lambda: fe.expected_cost("label", "pred", {(0, 1): "a", (1, 0): 1}),
        ["(0, 1)", "'a'"],
    ),
    "positive with macro": (
        lambda: fe.f1("label", "pred", average="macro", positive=1),
        ["positive=1", "'macro'"],
    ),
    "unknown role": (lambda: fe.of(DF).roles(sistem="model"), ["sistem"]),
    "expr of an average over lists of labels": (
        lambda: fe.f1("label", "pred", average="weighted", multilabel=True).expr(),
        ["weighted_f1", "summary"],
    ),
    "unknown sum": (
        lambda: DF.eval.summary(
            fe.Metric("m", {"x": "label"}, lambda c: {"x": c.x}, lambda s: s.y / s.n)
        ),
        ["no sum 'y'", "n, x"],
    ),
    "reserved sum": (
        lambda: DF.eval.summary(
            fe.Metric("m", {"x": "label"}, lambda c: {"n": c.x}, lambda s: s.n)
        ),
        ["'n'", "rename"],
    ),
    "two pandas columns of one name": (
        lambda: pd.DataFrame([[1, 0], [0, 1]], columns=["ok", "ok"]).eval.summary(fe.rate("ok")),
        ["more than one column", "'ok'"],
    ),
    "two Arrow columns of one name": (
        lambda: fe.of(pa.table([[1, 0], [0, 1]], names=["ok", "ok"])).summary(fe.rate("ok")),
        ["more than one column", "'ok'"],
    ),
    "column called like a pattern": (
        lambda: pl.DataFrame({"^a$": [1], "a": [0]}).eval.summary(fe.rate("^a$")),
        ["'^a$'", "pattern", "rename"],
    ),
    "all columns": (
        lambda: pl.DataFrame({"*": [1], "a": [0]}).eval.summary(RATE, by="*"),
        ["'*'", "pattern"],
    ),
    "number for a key": (lambda: DF.eval.summary(RATE, by=5), ["text, not 5"]),
    "number for a weight": (lambda: DF.eval.summary(RATE, weight=5), ["5 is not a column"]),
    "series for a column": (lambda: fe.mean(DF["n"]), ["a Series is not a column", "name"]),
    "array for a condition": (lambda: fe.where(a=[True]), ["a list is not a column"]),
    "column of a neutral expression": (
        lambda: DF.eval.summary(fe.mean(fe.col("nope") + 1)),
        ["expression", "nope"],
    ),
    "column of an expression on DuckDB": (
        lambda: fe.of(duckdb.from_arrow(DF.to_arrow())).summary(fe.mean(fe.col("nope") + 1)),
        ["expression", "not there", "nope", '"label"'],
    ),
    "column of an expression on pandas": (
        lambda: DF.to_pandas().eval.summary(fe.mean(pl.col("nope") + 1)),
        ["'nope' is not a column", "'label'"],
    ),
    "expression of the wrong type": (
        lambda: DF.eval.summary(fe.mean(pl.col("lang") + 1)),
        ["does not fit", "str"],
    ),
    "expression of many columns": (
        lambda: DF.eval.summary(fe.mean(pl.all())),
        ["more than one column"],
    ),
    "key of Python objects": (
        lambda: pl.DataFrame({"k": pl.Series([object()], dtype=pl.Object), "ok": [1]}).eval.summary(
            fe.rate("ok"), by="k"
        ),
        ["'k'", "objects"],
    ),
    "null in one of two ids": (
        lambda: DF.eval.summary(RATE, example=["id", "doc"], trial="model"),
        ["'doc'", "1 null"],
    ),
    "null ids": (
        lambda: DF.with_columns(id=None).eval.summary(RATE, example="id"),
        ["'id'", "6 null"],
    ),
    "nothing but nulls": (
        lambda: pl.DataFrame({"ok": [None, None]}).eval.summary(fe.rate("ok")),
        ["2 rows", "'ok'", "missing='drop'"],
    ),
    "input column of pandas": (
        lambda: DF.to_pandas().eval.summary(fe.rate("lable")),
        ["input 'lable' is not a column", "Did you mean 'label'?"],
    ),
    "system column of pandas": (
        lambda: DF.to_pandas().eval.summary(RATE, system="modle"),
        ["system 'modle' is not a column", "'model'"],
    ),
    "columns of pandas that are not text": (
        lambda: pd.DataFrame({0: [1, 0]}).eval.summary(fe.rate("0")),
        ["'0' is not a column", "text", "rename"],
    ),
    "columns of pandas of two levels": (
        lambda: pd.DataFrame({("a", "ok"): [1, 0]}).eval.summary(fe.rate("ok")),
        ["'ok' is not a column", "text", "rename"],
    ),
    "list of metrics": (lambda: DF.eval.summary([RATE]), ["not a metric", "*metrics"]),
    "function for a metric": (lambda: DF.eval.summary(fe.rate), ["not a metric", "call it"]),
    "series for a key": (lambda: DF.eval.summary(RATE, by=DF["lang"]), ["a Series is not a col"]),
    "pandas series for a key": (
        lambda: DF.eval.summary(RATE, by=DF["lang"].to_pandas()),
        ["a Series is not a column"],
    ),
    "key named twice": (lambda: DF.eval.summary(RATE, by=["n"] * 99), ["twice", "99 in all"]),
    "text for a flag": (
        lambda: pl.DataFrame({"ok": ["True", "False"]}).eval.summary(fe.rate("ok")),
        ["'ok' is String", "fe.col('ok') =="],
    ),
    "each without columns": (lambda: fe.each(), ["at least one"]),
    "cube too deep": (lambda: fe.cube("a", "b", depth=3), ["depth", "1 and 2"]),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_a_reason(case: str) -> None:
    ask, parts = CASES[case]
    with pytest.raises((fe.EvalError, TypeError)) as caught:
        ask()
    if case != "unknown role":
        assert isinstance(caught.value, fe.EvalError)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_all_weights_zero_is_undefined_with_a_reason() -> None:
    result = DF.with_columns(w=0.0).eval.summary(RATE, weight="w")
    assert result["estimate"].item() is None
    assert result["note"].item()


def test_errors_are_of_one_family() -> None:
    assert issubclass(fe.ColumnError, fe.EvalError)
    with pytest.raises(fe.ColumnError):
        DF.eval.summary(fe.rate("nope"))


def test_what_is_no_list_of_columns_is_called_by_its_name():
    frame = pl.DataFrame({"ok": [1, 0], "g": ["a", "b"], "h": [0, 1]})
    with pytest.raises(fe.EvalError, match=r"fe\.crossed is for cluster=, though not in bootstrap"):
        frame.eval.bootstrap(fe.rate("ok"), by="g", cluster=fe.crossed("g", "h"))
    with pytest.raises(fe.EvalError, match=r"fe\.crossed is for cluster="):
        frame.eval.worst(fe.rate("ok"), by=fe.crossed("g", "h"))
    with pytest.raises(fe.EvalError, match="name the column"):
        frame.eval.poststratify(fe.rate("ok"), by=fe.each("g"), target={"a": 0.5, "b": 0.5})
