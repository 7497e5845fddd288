"""The engines that every verb is tested on."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
import shared_data
from hypothesis import settings

# The same examples in every run of the pipeline; new ones on a developer's machine. Busy machines
# are slow, which is no failure.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

Engine = Callable[[pl.DataFrame], Any]


def _pandas_numpy(frame: pl.DataFrame) -> pd.DataFrame:
    return frame.to_pandas()


def _pandas_nullable(frame: pl.DataFrame) -> pd.DataFrame:
    return frame.to_pandas().convert_dtypes()


def _pandas_arrow(frame: pl.DataFrame) -> pd.DataFrame:
    return frame.to_pandas(use_pyarrow_extension_array=True)


def _chunked(frame: pl.DataFrame) -> pl.DataFrame:
    half = frame.height // 2
    return pl.concat([frame[:half], frame[half:]], rechunk=False)


def _duckdb(frame: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    return connection.from_arrow(frame.to_arrow())


def _module(name: str) -> Any:
    """A module of the extras: without it tests are skipped, except in the pipeline."""
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed")


@cache
def spark_session() -> Any:
    """The only Spark of this process: one core, one partition, nothing but errors in its log."""
    options = {
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = _module("pyspark.sql").SparkSession.builder.master("local[1]")
    return builder.config(map=options).getOrCreate()


def _spark(frame: pl.DataFrame) -> Any:
    # Spark has no unsigned integers.
    signed = frame.with_columns(pl.selectors.unsigned_integer().cast(pl.Int64))
    return spark_session().createDataFrame(signed.to_arrow())


def _dask(frame: pl.DataFrame) -> Any:
    return _module("dask.dataframe").from_pandas(_pandas_arrow(frame), npartitions=2)


IN_MEMORY: dict[str, Engine] = {
    "polars": lambda frame: frame,
    "polars-chunked": _chunked,
    "polars-lazy": lambda frame: frame.lazy(),
    "pandas-numpy": _pandas_numpy,
    "pandas-nullable": _pandas_nullable,
    "pandas-arrow": _pandas_arrow,
    "arrow-table": lambda frame: frame.to_arrow(),
    "arrow-dataset": lambda frame: ds.dataset(frame.to_arrow()),
    "duckdb": _duckdb,
    "spark": _spark,
    "dask": _dask,
}


@pytest.fixture(params=[*IN_MEMORY, "polars-parquet"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """From a Polars frame to the same rows on one engine."""
    if request.param != "polars-parquet":
        return IN_MEMORY[request.param]

    def scanned(frame: pl.DataFrame) -> pl.LazyFrame:
        path = tmp_path / "rows.parquet"
        frame.write_parquet(path, row_group_size=max(frame.height // 3, 1))
        return pl.scan_parquet(path)

    return scanned


@pytest.fixture(scope="session")
def seeds() -> dict[str, Any]:
    """The seed values by id."""
    found = shared_data.seeds()
    if not found:
        pytest.skip("../shared, with the reference data, is not beside the project")
    return found
