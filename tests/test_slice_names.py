"""Key columns may have any name and type, those of the library's own results among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import frame_eval as fe

CORRECT = fe.rate("correct")
PAIRED: dict[str, Any] = {"system": "system", "example": "example", "baseline": "a"}


def results(key: pl.Expr) -> pl.DataFrame:
    """Two systems on 60 examples in three slices."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "system": ["a"] * 60 + ["b"] * 60,
            "example": [*range(60)] * 2,
            "correct": rng.random(120) < 0.6,
        }
    )
    return frame.with_columns((pl.col("example") % 3).alias("key"), slice=key)


KEYS = {
    "numbers": pl.col("example") % 3,
    "texts": pl.concat_str(pl.lit("s"), pl.col("example") % 3),
    "dates": pl.date(2020, 1, 1 + pl.col("example") % 3),
    "a slice that is called overall": (pl.col("example") % 3).replace_strict(
        {0: "de", 1: "en", 2: "overall"}
    ),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_column_may_be_called_slice(key: pl.Expr) -> None:
    frame = results(key)
    named = frame.drop("slice").eval
    found = frame.eval.compare(CORRECT, by="slice", **PAIRED)
    assert found.drop("slice").equals(named.compare(CORRECT, by="key", **PAIRED).drop("key"))
    found = frame.eval.worst(CORRECT, by="slice").sort("slice")
    same = named.worst(CORRECT, by="key").sort("key")
    assert found.drop("slice").equals(same.drop("key"))
    rule = fe.rule(CORRECT, max_drop=0.01)
    verdicts = frame.eval.guard(rule, by="slice", **PAIRED).sort("slice")
    same = named.guard(rule, by="key", **PAIRED).sort("key")
    assert verdicts.drop("slice").equals(same.drop("key"))
