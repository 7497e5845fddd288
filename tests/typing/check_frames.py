"""What type checkers infer; never run, only checked by mypy and pyright."""

from typing import Any, assert_type

import pandas as pd
import polars as pl

import frame_eval as fe


def doors(pandas: pd.DataFrame, eager: pl.DataFrame, lazy: pl.LazyFrame, other: Any) -> None:
    """``fe.of`` knows what frame the results are."""
    assert_type(fe.of(pandas), fe.Evaluation[pd.DataFrame])
    assert_type(fe.of(pandas).summary(fe.rate("ok")), pd.DataFrame)
    assert_type(fe.of(eager).summary(fe.rate("ok"), by="lang"), pl.DataFrame)
    assert_type(fe.of(lazy).summary(fe.rate("ok"), by=fe.each("lang")), pl.DataFrame)
    assert_type(fe.of(lazy).compare(fe.rate("ok"), system="m", example="i"), pl.DataFrame)
    assert_type(fe.of(pandas).confusion("y", "p", normalize="truth"), pd.DataFrame)
    assert_type(fe.of(pandas).guard(fe.rule("ok", min=0.5)), pd.DataFrame)


def roles(pandas: pd.DataFrame, lazy: pl.LazyFrame) -> None:
    """Bound roles keep the type."""
    assert_type(fe.of(pandas).roles(system="m").summary(fe.rate("ok")), pd.DataFrame)
    assert_type(fe.of(lazy).roles(cluster="doc").compare(fe.rate("ok")), pl.DataFrame)


def functions(pandas: pd.DataFrame, eager: pl.DataFrame, lazy: pl.LazyFrame) -> None:
    """The public functions behind both doors."""
    assert_type(fe.summary(pandas, fe.rate("ok")), pd.DataFrame)
    assert_type(fe.summary(eager, fe.rate("ok")), pl.DataFrame)
    assert_type(fe.compare(lazy, fe.rate("ok"), system="m", example="i"), pl.DataFrame)
    assert_type(fe.plan(pandas, fe.rate("ok"), system="m", example="i"), pd.DataFrame)
    assert_type(fe.plan(n=500, discordance=0.2), pl.DataFrame)


def refusals(pandas: pd.DataFrame) -> None:
    """Wrong keywords and values are errors: an unused ignore would be one too."""
    fe.of(pandas).summary(fe.rate("ok"), bye="lang")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    fe.of(pandas).summary(fe.rate("ok"), interval="wislon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fe.of(pandas).summary("ok")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fe.of(pandas).roles(sistem="m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    fe.summary(pandas, fe.rate("ok"), missing="dorp")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
