"""Expressions in names and messages."""

import polars as pl
import pytest

import frame_eval as fe


@pytest.mark.parametrize("col", [fe.col, pl.col], ids=["fe.col", "pl.col"])
def test_expressions_are_called_as_they_are_written(col):
    assert fe.rate(col("s") > 0.5).name == "rate(s > 0.5)"
    assert fe.mean((col("a") + 1) * col("b")).name == "mean((a + 1) * b)"
    assert fe.ratio(col("a").alias("cost"), "b").name == "ratio(cost/b)"
    both = (col("a") > 1) & (col("b").abs() <= 2)
    assert str(fe.rule(fe.rate("ok"), min=0.5, where=both)).endswith(
        "where (a > 1) & (b.abs() <= 2)"
    )


def test_messages_name_the_expression():
    frame = pl.DataFrame({"s": [0.1, 0.9]})
    with pytest.raises(fe.EvalError, match=r"column 's \* 2' must be 0/1"):
        frame.eval.summary(fe.rate(fe.col("s") * 2))
    with pytest.raises(fe.EvalError, match=r"rows are missing \(null or NaN\) in 's / t'"):
        frame.with_columns(t=None).eval.summary(fe.mean(fe.col("s") / fe.col("t")))
