"""What ``compare`` refuses, and what the message says."""

import re

import polars as pl
import pytest

import frame_eval as fe

FRAME = pl.DataFrame(
    {
        "model": ["old"] * 6 + ["new"] * 6,
        "id": [1, 2, 3, 4, 5, 6] * 2,
        "doc": [1, 1, 2, 2, 3, 3] * 2,
        "lang": ["de", "sw"] * 6,
        "pred": [1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0],
        "correct": [1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0],
        "cost": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 2.0, 2.5, 3.0, 1.0, 4.0, 4.5],
    }
)
NEW, OLD = pl.col("model") == "new", pl.col("model") == "old"


def compare(frame=FRAME, metric=None, **options):
    roles = {"system": "model", "example": "id", "baseline": "old"}
    return fe.compare(frame, metric or fe.rate("correct"), **{**roles, **options})


def trials(frame=FRAME):
    return frame.join(pl.DataFrame({"trial": [0, 1]}), how="cross")


CASES = {
    "unknown baseline": (
        lambda: compare(baseline="odl"),
        r"baseline='odl' is not among the systems.*Did you mean 'old'.*'new', 'old'",
    ),
    "one system": (lambda: compare(FRAME.filter(OLD)), r"only one system, 'old'.*needs two"),
    "null system": (
        lambda: compare(FRAME.with_columns(model=pl.when(OLD).then(pl.col("model")))),
        r"system column has null",
    ),
    "no system": (lambda: compare(system=None), r"system="),
    "no example": (lambda: compare(example=None), r"example=.*paired=False"),
    "no such column": (lambda: compare(example="idd"), r"example 'idd'.*Did you mean 'id'"),
    "unmatched": (
        lambda: compare(FRAME.filter(OLD | (pl.col("id") > 2))),
        r"^2 examples .* only one of 'new' and 'old' \(such as 1, 2\).*'drop'.*paired=False",
    ),
    "unmatched, counted once": (
        lambda: compare(FRAME.filter(OLD | (pl.col("id") > 2)), by=fe.each("lang"), overall=True),
        r"^2 examples .*\(such as 1, 2\)",
    ),
    "unmatched ids of two columns": (
        lambda: compare(FRAME.filter(OLD | (pl.col("id") > 1)), example=["lang", "id"]),
        r"^1 examples .*\('de', 1\)",
    ),
    "nothing in common": (
        lambda: compare(
            FRAME.with_columns(id=pl.col("id") + pl.when(NEW).then(100).otherwise(0)),
            unmatched="drop",
        ),
        r"'new' and 'old' have no example in common \(such as 1, 2, 3\).*paired=False",
    ),
    "one pair of three unmatched": (
        lambda: compare(
            pl.concat(
                [FRAME, FRAME.filter(NEW & (pl.col("id") > 2)).with_columns(model=pl.lit("x"))]
            ),
            baseline=None,
        ),
        r"^2 examples were answered by only one of 'x' and 'new' \(such as 1, 2\)",
    ),
    "repeats": (
        lambda: compare(pl.concat([FRAME, FRAME[:2]])),
        r"^2 examples have more than one row per system \(such as .*trial=",
    ),
    "repeated trials": (
        lambda: compare(pl.concat([trials(), trials()[:2]]), trial="trial"),
        r"^1 examples have more than one row per system and trial .*drop the repeats",
    ),
    "trial without example": (
        lambda: compare(trials(), trial="trial", example=None),
        r"trial=.*example=",
    ),
    "mixed ids": (
        lambda: compare(FRAME.to_pandas().assign(id=[1, "a"] * 6)),
        r"'id' holds mixed.*int, str",
    ),
    "weights within a pair": (
        lambda: compare(
            FRAME.with_columns(w=pl.when(NEW & (pl.col("id") < 3)).then(2).otherwise(1)), weight="w"
        ),
        r"^2 examples have different weights for the two systems \(such as 1, 2\)",
    ),
    "an example in two clusters": (
        lambda: compare(
            FRAME.with_columns(doc=pl.when(NEW & (pl.col("id") == 3)).then(9).otherwise("doc")),
            cluster="doc",
        ),
        r"^1 examples are in more than one cluster \(such as 3\)",
    ),
    "an example in two slices": (
        lambda: compare(by="pred"),
        r"^3 examples are in different slices for 'new' and 'old' \(such as 2, 3, 6\)",
    ),
    "null input": (
        lambda: compare(FRAME.with_columns(correct=pl.when(OLD).then(pl.col("correct")))),
        r"6 rows are missing.*'correct' \('\w+': \d.*missing='drop'",
    ),
    "exact with clusters": (
        lambda: compare(cluster="doc", method="exact"),
        r"'exact' needs independent 0/1 pairs, but there are clusters",
    ),
    "exact for means": (
        lambda: compare(metric=fe.mean("cost"), method="exact"),
        r"'exact'.*'mean\(cost\)' is not 0/1",
    ),
    "exact for trials": (
        lambda: compare(trials(), trial="trial", method="exact"),
        r"'exact'",
    ),
    "exact for weights": (
        lambda: compare(FRAME.with_columns(w=pl.col("id")), weight="w", method="exact"),
        r"'exact'",
    ),
    "exact, unpaired": (
        lambda: compare(paired=False, method="exact"),
        r"'exact' is for pairs",
    ),
    "pooled, paired": (lambda: compare(method="pooled"), r"'pooled' is for paired=False"),
    "pooled for means": (
        lambda: compare(metric=fe.mean("cost"), paired=False, method="pooled"),
        r"'pooled' needs rates",
    ),
    "t with clusters": (lambda: compare(cluster="doc", method="t"), r"'t'.*clusters use 'cr2'"),
    "unknown method": (lambda: compare(method="exakt"), r"Did you mean 'exact'"),
    "unknown adjustment": (lambda: compare(adjust="hulm"), r"Did you mean 'holm'"),
    "unknown option of unmatched": (lambda: compare(unmatched="dorp"), r"Did you mean 'drop'"),
    "unknown option of missing": (lambda: compare(missing="dorp"), r"Did you mean 'drop'"),
    "unknown family": (lambda: compare(family="metrik"), r"'metrik'.*Did you mean 'metric'"),
    "level": (lambda: compare(level=95), r"level=95 is not between 0 and 1"),
    "key called like a result": (
        lambda: compare(FRAME.rename({"lang": "wins"}), by="wins"),
        r"'wins' has the name of a result column.*rename",
    ),
    "empty": (lambda: compare(FRAME[:0]), r"empty"),
    "no metric": (lambda: fe.compare(FRAME, system="model", example="id"), r"at least one metric"),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_with_a_reason(case):
    ask, pattern = CASES[case]
    with pytest.raises(fe.EvalError) as caught:
        ask()
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)
