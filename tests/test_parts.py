"""Rows that are read in parts: each row once, equal keys together, and nothing left behind."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest
from conftest import IN_MEMORY
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import parts
from frame_eval.reduce.parts import in_parts

FRAME = pl.DataFrame(
    {
        "id": [f"item {i % 500}" for i in range(3_000)],
        "lang": pl.Series(["de", None, "sw"] * 1_000),
        "value": range(3_000),
    }
)
PAIRED = pl.DataFrame(
    {
        "system": ["a", "b"] * 3_000,
        "id": [i // 2 for i in range(6_000)],
        "doc": [i // 6 for i in range(6_000)],
        "right": [i % 7 < 3 for i in range(6_000)],
    }
)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder where temporary files are put."""
    folder = tmp_path / "sp[a]ce"
    monkeypatch.setenv("POLARS_TEMP_DIR", str(folder))
    return folder


@pytest.mark.parametrize(
    ("engine", "number"),
    # Spark takes a query for every part.
    [
        (e, n)
        for e in ("polars-lazy", "duckdb", "spark")
        for n in (1, 3, 200)
        if (e, n) != ("spark", 200)
    ],
)
def test_parts_have_every_row_once_and_equal_keys_together(engine, number, temporary) -> None:
    frame = nw.from_native(IN_MEMORY[engine](FRAME)).lazy()
    with in_parts(frame, ["id", "lang"], number) as found:
        frames = [nw.to_native(part.collect("polars")) for part in found]
    assert len(frames) == number
    assert_frame_equal(pl.concat(frames).sort("value"), FRAME)
    keys = [frame.select("id", "lang").unique() for frame in frames]
    assert sum(map(len, keys)) == FRAME.select("id", "lang").n_unique()
    assert not temporary.exists() or not list(temporary.iterdir())


def compared(monkeypatch, frame, **options) -> pl.DataFrame:
    monkeypatch.setattr(parts, "_READINGS", 1)
    run = frame.lazy().eval.run(memory=2e5, progress=False)
    return run.compare(fe.rate("right"), system="system", example="id", **options)


def test_temporary_files_are_used_and_gone(temporary, monkeypatch) -> None:
    expected = PAIRED.eval.compare(fe.rate("right"), system="system", example="id")
    used = []
    scan = pl.scan_parquet
    monkeypatch.setattr(pl, "scan_parquet", lambda *a, **k: used.append(a) or scan(*a, **k))
    assert_frame_equal(compared(monkeypatch, PAIRED), expected, rel_tol=1e-9)
    assert len(used) > 3
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_temporary_files_are_gone_after_an_interruption(error, temporary, monkeypatch) -> None:
    def interrupted(*_, **__):
        assert list(temporary.iterdir())
        raise error

    monkeypatch.setattr("frame_eval.reduce.beside.coded", interrupted)
    with pytest.raises(error):
        compared(monkeypatch, PAIRED, cluster="doc")
    assert not list(temporary.iterdir())


def test_temporary_files_are_gone_after_an_error(temporary, monkeypatch) -> None:
    twice = pl.concat([PAIRED, PAIRED[:2]])
    with pytest.raises(fe.EvalError, match="examples have more than one row"):
        compared(monkeypatch, twice)
    assert not list(temporary.iterdir())


def test_a_full_disk_is_an_error_that_says_the_ways_out(temporary, monkeypatch) -> None:
    def full(*_, **__):
        raise pl.exceptions.ComputeError("parquet: No space left on device (os error 28)")

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", full)
    with pytest.raises(fe.EvalError, match=r"disk of .* is full.*TMPDIR.*run\(memory=\)"):
        compared(monkeypatch, PAIRED)
    assert not list(temporary.iterdir())
