"""Rows in parts that are read one after the other, told apart by the hash of some columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import narwhals as nw
import polars as pl

from frame_eval.errors import EvalError
from frame_eval.reduce.engines import collect
from frame_eval.reduce.failures import engine_name, said_by

_SAMPLED = 16  # of how many parts one is counted
_READINGS = 6  # that take no longer than to write the rows and read them once
_WAITING = 1 << 21  # rows of all parts together before they are written
_FORMAT: Any = {
    "compression": "lz4",
    "statistics": False,
    "maintain_order": False,
    "engine": "streaming",
}


@contextmanager
def in_parts(
    frame: nw.LazyFrame[Any], columns: Sequence[str], number: int, readings: int = 1
) -> Iterator[Sequence[nw.LazyFrame[Any]]]:
    """The frame in so many parts, each to be read so often; equal columns are in the same part.

    Polars reads few parts from the source. For many it puts the rows into temporary files first,
    which are gone in the end; other engines have temporary files of their own.
    """
    if number == 1:
        yield [frame]
    elif number * readings > _READINGS and frame.implementation.is_polars():
        with _in_files(frame, columns, number) as parts:
            yield parts
    else:
        yield [_part(frame, columns, number, at) for at in range(number)]


def distinct_count(frame: nw.LazyFrame[Any], columns: Sequence[str], apart: Sequence[str]) -> int:
    """About how many combinations of some columns there are, and hardly ever more than this.

    Counted where ``apart``, some of the columns, have one of a few hashes.
    """
    some = _part(frame, apart, _SAMPLED, 0)
    native = nw.to_native(some)
    with said_by(native):
        if frame.implementation.is_polars():
            hashed = pl.struct(columns).hash().approx_n_unique()
            count = native.select(hashed).collect(engine="streaming").item()
        else:
            groups = some.group_by(*columns).agg(nw.len().alias("__fe_len"))
            count = collect(groups.select(nw.len())).item()
    return int(1.25 * _SAMPLED * count)


def _part(
    frame: nw.LazyFrame[Any], columns: Sequence[str], number: int, at: int
) -> nw.LazyFrame[Any]:
    native, kind = nw.to_native(frame), frame.implementation
    named = ", ".join(columns)
    conditions: dict[str, Any] = {
        "polars": _part_of(columns, number) == at,
        "duckdb": f"hash({named}) % {number} = {at}",
        "pyspark": f"pmod(xxhash64({named}), {number}) = {at}",
    }
    if str(kind) not in conditions:
        raise EvalError(
            f"{engine_name(native)} can not be read in parts, which the memory of the question "
            "asks for: give it more with frame.eval.run(memory=), or hand over the rows as a "
            "Polars frame"
        )
    found: nw.LazyFrame[Any] = nw.from_native(native.filter(conditions[str(kind)]))
    return found


def _part_of(columns: Sequence[str], number: int) -> pl.Expr:
    return pl.struct(columns).hash() % number


@contextmanager
def in_one(parts: Iterable[nw.LazyFrame[Any]]) -> Iterator[nw.LazyFrame[Any]]:
    """Parts of a frame of Polars as one again, each worked on by itself, in temporary files."""
    with _folder() as folder:
        files = list[Path]()
        for at, part in enumerate(parts):
            files.append(Path(folder) / f"{at}.parquet")
            with _written(nw.to_native(part), folder) as native:
                native.sink_parquet(files[-1], **_FORMAT)
        yield nw.from_native(pl.scan_parquet(files, glob=False))


@contextmanager
def _in_files(
    frame: nw.LazyFrame[Any], columns: Sequence[str], number: int
) -> Iterator[list[nw.LazyFrame[Any]]]:
    """The parts, in files."""
    with _folder() as folder:
        part = _part_of(columns, number).alias("__fe_part")
        with _written(nw.to_native(frame), folder) as native:
            native.sink_parquet(
                pl.PartitionBy(folder, key=part, include_key=False),
                row_group_size=max(_WAITING // number, 1_000),
                **_FORMAT,
            )
        folders = [Path(folder) / f"__fe_part={at}" for at in range(number)]
        yield [
            nw.from_native(
                pl.scan_parquet(sorted(one.iterdir()), hive_partitioning=False, glob=False)
                if one.exists()
                else native.clear()
            )
            for one in folders
        ]


@contextmanager
def _folder() -> Iterator[str]:
    """A folder where Polars would put what it has no memory for, until it is left."""
    place = os.environ.get("POLARS_TEMP_DIR")
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="frame_eval-", dir=place or None) as folder:
        yield folder


@contextmanager
def _written(native: pl.LazyFrame, folder: str) -> Iterator[pl.LazyFrame]:
    """Say it where the disk is full."""
    try:
        yield native
    except (pl.exceptions.PolarsError, OSError) as error:
        if "No space left" not in str(error):
            with said_by(native):
                raise
        raise EvalError(
            f"the disk of {folder} is full: the rows of the question do not fit there. Set TMPDIR "
            "or POLARS_TEMP_DIR to a folder with more room, or give more memory with "
            "frame.eval.run(memory=)"
        ) from error
