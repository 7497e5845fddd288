"""Where tables of results lie: partitioned folders, lake tables, URLs; read where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow.dataset as ds
import pytest
from object_store import object_store
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import engines
from frame_eval.reduce.engines import collect

RNG = np.random.default_rng(11)
ROWS = 400
EXAMPLE = np.tile(np.arange(ROWS // 2), 2)
FRAME = pl.DataFrame(
    {
        "system": ["a"] * (ROWS // 2) + ["b"] * (ROWS // 2),
        "id": EXAMPLE,
        "doc": EXAMPLE // 4,
        "year": 2024 + EXAMPLE % 2,
        "ok": RNG.random(ROWS) < 0.6,
        "label": (EXAMPLE * 7) % 3 == 0,
        "score": RNG.normal(size=ROWS).round(1),
    }
)


def hive(folder: Path) -> Path:
    for (year,), part in FRAME.group_by("year"):
        (folder / f"year={year}").mkdir(parents=True)
        part.drop("year").write_parquet(folder / f"year={year}" / "rows.parquet")
    return folder


def delta(folder: Path) -> pl.LazyFrame:
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    FRAME.head(150).write_delta(folder / "table")
    FRAME[150:].write_delta(folder / "table", mode="append")
    return pl.scan_delta(folder / "table")


def iceberg(folder: Path) -> pl.LazyFrame:
    catalogs = pytest.importorskip(
        "pyiceberg.catalog.sql", reason="pyiceberg with its SQL catalog is not installed"
    )
    options = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    catalog = catalogs.SqlCatalog("here", **options)
    catalog.create_namespace("results")
    rows = FRAME.to_arrow()
    table = catalog.create_table("results.rows", schema=rows.schema)
    table.append(rows)
    catalog.close()
    return pl.scan_iceberg(table)


def url(folder: Path) -> pl.LazyFrame:
    FRAME.write_parquet(folder / "rows.parquet")
    return pl.scan_parquet(f"file://{folder}/rows.parquet")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "polars-hive": lambda folder: pl.scan_parquet(hive(folder), hive_partitioning=True),
    "arrow-hive": lambda folder: ds.dataset(hive(folder), partitioning="hive"),
    "duckdb-hive": lambda folder: duckdb.connect().read_parquet(
        str(hive(folder) / "*" / "*.parquet"), hive_partitioning=True
    ),
    "url": url,
    "delta": delta,
    "iceberg": iceberg,
}
PAIRED = {"system": "system", "example": "id", "baseline": "a", "cluster": "doc", "by": "year"}


@pytest.mark.parametrize("source", SOURCES)
def test_tables_are_read_where_they_lie(source, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    frame = fe.of(SOURCES[source](tmp_path))
    metrics = [fe.accuracy("label", "ok"), fe.f1("label", "ok"), fe.roc_auc("label", "score")]
    options = {"by": "year", "system": "system", "cluster": "doc"}
    for found, expected in (
        (frame.summary(*metrics, **options), FRAME.eval.summary(*metrics, **options)),
        (frame.compare(*metrics, **PAIRED), FRAME.eval.compare(*metrics, **PAIRED)),
        (
            frame.run(memory=5e4).compare(*metrics[:2], **PAIRED),
            FRAME.eval.compare(*metrics[:2], **PAIRED),
        ),
    ):
        same = found.with_columns(pl.col("year").cast(pl.Int64))
        assert_frame_equal(same, expected, rel_tol=1e-10, abs_tol=1e-12)


@pytest.mark.parametrize("source", ["polars-hive", "duckdb-hive"])
def test_conditions_leave_partitions_unread(source, tmp_path, monkeypatch) -> None:
    frame = SOURCES[source](tmp_path)
    plans = []

    def explained(read):
        def reading(asked, **how):
            plans.append(nw.to_native(asked, pass_through=True).explain())
            return read(asked, **how)

        return reading

    monkeypatch.setattr(engines, "collect", explained(collect))
    batches = explained(pl.LazyFrame.collect_batches)
    monkeypatch.setattr(pl.LazyFrame, "collect_batches", batches)
    rule = fe.rule(fe.rate("ok"), min=0.1, where=fe.col("year") == 2025)
    report = fe.of(frame).guard(rule, by="label")
    assert report["n"].sum() == ROWS // 2
    if source == "polars-hive":
        assert "year=2025" in plans[-1]
        assert "year=2024" not in plans[-1]
    else:
        assert "Scanning Files: 1/2" in plans[-1]


@pytest.mark.parametrize(
    "read",
    [
        lambda folder: pl.scan_parquet(folder, hive_partitioning=False),
        lambda folder: duckdb.connect().read_parquet(
            str(folder / "*" / "*.parquet"), hive_partitioning=False
        ),
        ds.dataset,
    ],
    ids=["polars", "duckdb", "arrow"],
)
def test_a_partition_column_that_is_not_read_is_named(read, tmp_path) -> None:
    with pytest.raises(fe.ColumnError, match=r"slice key 'year' is not a column. Columns: "):
        fe.of(read(hive(tmp_path))).summary(fe.rate("ok"), by="year")


@pytest.fixture
def bucket(tmp_path):
    """An object store with the rows in two files, beside columns that are long."""
    long = [f"{i}" * 2_000 for i in range(ROWS)]
    wide = FRAME.with_columns(text=pl.Series(long), more=pl.Series(long).shuffle(1))
    (tmp_path / "results").mkdir()
    for i, rows in enumerate((wide[:150], wide[150:])):
        rows.write_parquet(tmp_path / "results" / f"{i}.parquet", compression="uncompressed")
    with object_store(tmp_path) as store:
        yield store


def test_object_stores_are_read_where_they_are(bucket) -> None:
    frame = pl.scan_parquet("s3://results/*.parquet", storage_options=bucket.options)
    metrics = [fe.accuracy("label", "ok"), fe.roc_auc("label", "score")]
    options = {"by": "year", "system": "system", "cluster": "doc"}
    for found, expected in (
        (frame.eval.summary(*metrics, **options), FRAME.eval.summary(*metrics, **options)),
        (frame.eval.compare(*metrics, **PAIRED), FRAME.eval.compare(*metrics, **PAIRED)),
        (
            frame.eval.run(memory=5e4).compare(metrics[0], **PAIRED),
            FRAME.eval.compare(metrics[0], **PAIRED),
        ),
    ):
        assert_frame_equal(found, expected, rel_tol=1e-10, abs_tol=1e-12)


def test_of_an_object_store_only_the_columns_asked_for_are_read(bucket) -> None:
    frame = pl.scan_parquet("s3://results/*.parquet", storage_options=bucket.options)
    frame.eval.summary(fe.accuracy("label", "ok"), by="year")
    sizes = {path.name: path.stat().st_size for path in (bucket.folder / "results").iterdir()}
    assert len(bucket.read) == 2
    for name, size in sizes.items():
        assert 0 < bucket.read[f"results/{name}"] < size / 2


def test_an_object_store_that_refuses_is_named(bucket) -> None:
    wrong = {**bucket.options, "aws_access_key_id": "stranger", "max_retries": 0}
    frame = pl.scan_parquet("s3://results/0.parquet", storage_options=wrong)
    with pytest.raises(fe.EvalError, match=r"^Polars could not read the frame: .*see that its"):
        frame.eval.summary(fe.rate("ok"))
