"""What engines say where they fail, as errors of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from frame_eval.errors import ColumnError, EvalError
from frame_eval.reduce.groups import TooManyGroups

_ENGINES = {
    "pyarrow": ("Arrow", "see that its files are whole and have the same columns and types"),
    "polars": ("Polars", "see that its files are whole and have the same columns and dtypes"),
    "duckdb": ("DuckDB", "see that its connection is open, or hand over the rows: frame.pl()"),
    "pyspark": ("Spark", "see that its session runs, or hand over the rows: frame.toArrow()"),
    "dask": ("Dask", "see that its parts are alike, or hand over the rows: frame.compute()"),
}
_THEIRS = (*_ENGINES, "_duckdb", "py4j", "narwhals")


@contextmanager
def said_by(native: Any) -> Iterator[None]:
    """Errors of the engine behind a frame, said as one of ours."""
    try:
        yield
    except (EvalError, MemoryError, TooManyGroups):
        raise
    except Exception as error:
        engine, way_out = _engine(native)
        said = first_line(error).rstrip(".;") or type(error).__name__
        raise EvalError(f"{engine} could not read the frame: {said}; {way_out}") from error


@contextmanager
def asked(native: Any) -> Iterator[None]:
    """Errors that an engine has while a question is put to it, said as ours; not those of our own.

    Spark and DuckDB look at a query when it is made, not when its answer is collected.
    """
    try:
        yield
    except Exception as error:
        if is_resident(native) or type(error).__module__.split(".")[0] not in _THEIRS:
            raise
        with said_by(native):
            raise


def engine_name(native: Any) -> str:
    """What the engine behind a frame is called."""
    return _engine(native)[0]


def _engine(native: Any) -> tuple[str, str]:
    """The name of the engine behind a frame, and what to try where it fails."""
    module = type(native).__module__.lstrip("_").split(".")[0]
    return _ENGINES.get(
        module, (module, "see that it is open, or hand over the rows as a Polars or pandas frame")
    )


def is_resident(native: Any) -> bool:
    """Whether the rows of a frame are in memory."""
    return isinstance(native, (pd.DataFrame, pl.DataFrame, pa.Table, pa.RecordBatch))


def misnamed(error: Exception) -> ColumnError:
    """What to raise where an engine does not find a column of an expression."""
    return ColumnError(f"an expression names a column that is not there: {first_line(error)}")


def first_line(error: Exception) -> str:
    """What an engine says, in one line: without examples, query plan and Java's stack."""
    text = re.split(r"\n(?:\nResolved plan|\nFor example|\nIf you would|\tCandidate)", str(error))[
        0
    ]
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes:
        return causes[-1].removeprefix("Caused by: ")
    return " ".join(line for line in lines if line and not line.startswith("\tat "))
