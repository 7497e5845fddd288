"""Engines that can not answer: the error names the engine, what it said and a way out."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from conftest import IN_MEMORY, spark_session

import frame_eval as fe

FRAME = pl.DataFrame({"ok": [1, 0, 1, 1] * 50, "g": ["a", "b"] * 100, "x": [0.5, 2.5] * 100})


def summary(native):
    return fe.of(native).summary(fe.rate("ok"), by="g")


def duckdb_of(frame: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    return duckdb.connect().from_arrow(frame.to_arrow())


def dask_of(path: Path):
    return pytest.importorskip("dask.dataframe").read_parquet(path)


READERS = {
    "Polars": pl.scan_parquet,
    "DuckDB": lambda path: duckdb.connect().read_parquet(str(path)),
    "Arrow": ds.dataset,
    "Spark": lambda path: spark_session().read.parquet(str(path)),
    "Dask": dask_of,
}


@pytest.mark.parametrize("engine", READERS)
def test_damaged_files_are_named_as_such(engine, tmp_path) -> None:
    path = tmp_path / "rows.parquet"
    FRAME.write_parquet(path)
    damaged = bytearray(path.read_bytes())
    damaged[40:200] = bytes(160)
    path.write_bytes(damaged)
    named = "Polars" if engine == "Arrow" else engine
    with pytest.raises(fe.EvalError, match=f"^{named} could not read the frame: .*; see that its"):
        summary(READERS[engine](path))


def test_truncated_files_are_named_as_such(tmp_path) -> None:
    path = tmp_path / "rows.parquet"
    FRAME.write_parquet(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(fe.EvalError, match=r"Polars .* must end with PAR1.*; see that its files"):
        summary(pl.scan_parquet(path))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask still says it to pandas
@pytest.mark.parametrize("engine", ["Polars", "DuckDB", "Dask"])
def test_a_column_that_a_file_lacks_is_named(engine, tmp_path) -> None:
    FRAME.write_parquet(tmp_path / "1.parquet")
    FRAME.drop("ok").write_parquet(tmp_path / "2.parquet")
    path = tmp_path / "*.parquet" if engine == "DuckDB" else tmp_path
    with pytest.raises(fe.EvalError, match=rf"^{engine} could not .*\bok\b.*; see that its"):
        summary(READERS[engine](path))


def test_a_column_that_an_arrow_file_lacks_is_missing_there(tmp_path) -> None:
    FRAME.write_parquet(tmp_path / "1.parquet")
    FRAME.drop("ok").write_parquet(tmp_path / "2.parquet")
    with pytest.raises(fe.EvalError, match=r"200 rows are missing .* in 'ok'"):
        summary(ds.dataset(tmp_path))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask still says it to pandas
@pytest.mark.parametrize("engine", READERS)
def test_a_column_of_two_types_is_named(engine, tmp_path) -> None:
    FRAME.write_parquet(tmp_path / "1.parquet")
    FRAME.with_columns(ok=pl.lit("yes")).write_parquet(tmp_path / "2.parquet")
    path = tmp_path / "*.parquet" if engine == "DuckDB" else tmp_path
    # Arrow and Dask hand over parts, which Polars puts together.
    named = {"Arrow": "Polars", "Dask": "Polars"}.get(engine, engine)
    with pytest.raises(fe.EvalError, match=rf"^{named} could not .*(\bok\b|'yes').*; see that its"):
        summary(READERS[engine](path))


def test_a_closed_connection_is_named() -> None:
    connection = duckdb.connect()
    relation = connection.from_arrow(FRAME.to_arrow())
    connection.close()
    with pytest.raises(fe.EvalError, match=r"DuckDB .* closed.*connection is open.*frame.pl\(\)"):
        summary(relation)


def test_a_stopped_session_is_named(monkeypatch) -> None:
    rows = IN_MEMORY["spark"](FRAME)
    # What stopping leaves behind; this process needs its session for other tests.
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(fe.EvalError, match=r"^Spark could .* its session runs.*frame.toArrow\(\)"):
        summary(rows)


@pytest.mark.parametrize("make", [FRAME.lazy, lambda: duckdb_of(FRAME)], ids=["Polars", "DuckDB"])
def test_an_expression_that_an_engine_lacks_is_refused(make) -> None:
    by = fe.where(long=fe.col("x").cum_sum() > 3)
    with pytest.raises(fe.ColumnError, match=r"(Polars|DuckDB) can not .*Make it a column of the"):
        fe.of(make()).summary(fe.rate("ok"), by=by)


def test_a_query_that_spark_refuses_to_make_is_named() -> None:
    times = FRAME.with_columns(g=pl.time(pl.col("ok"), 30, 0))
    with pytest.raises(fe.EvalError, match=r"^Spark could not .*TIME is not supported.*; see that"):
        summary(IN_MEMORY["spark"](times))


def test_an_expression_that_does_not_fit_duckdb_is_refused() -> None:
    by = fe.where(long=(fe.col("g") == "a") * 2 > 1)
    with pytest.raises(fe.ColumnError, match=r"^DuckDB can not evaluate an expression: Binder"):
        fe.of(duckdb_of(FRAME)).summary(fe.rate("ok"), by=by)


@pytest.mark.parametrize("kind", ["duckdb", "spark"])
def test_halves_that_an_engine_rounds_otherwise_are_refused(kind) -> None:
    by = fe.where(two=fe.col("x").round(0) == 2)
    assert FRAME.eval.summary(fe.rate("ok"), by=by)["n"].item() == 100  # 2.5 to even
    with pytest.raises(fe.ColumnError, match=r"can not evaluate round\(\) as Polars does"):
        fe.of(IN_MEMORY[kind](FRAME)).summary(fe.rate("ok"), by=by)


def test_a_weekday_that_spark_counts_otherwise_is_refused() -> None:
    days = FRAME.with_columns(day=pl.date(2026, 2, pl.col("ok") + 1))
    by = fe.where(sunday=fe.col("day").dt.weekday() == 7)
    assert days.eval.summary(fe.rate("ok"), by=by)["n"].item() == 50
    with pytest.raises(fe.ColumnError, match=r"^Spark can not evaluate dt.weekday\(\)"):
        fe.of(IN_MEMORY["spark"](days)).summary(fe.rate("ok"), by=by)


def test_a_key_of_a_mix_that_is_not_there_is_named() -> None:
    with pytest.raises(fe.ColumnError, match=r"slice key 'h' is not a column. Columns: 'ok'"):
        FRAME.eval.poststratify(fe.rate("ok"), by="h", target={"a": 1.0})
