"""More sums than the memory holds at once: taken in passes, each over some of the units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import narwhals as nw
import polars as pl

from frame_eval.errors import EvalError
from frame_eval.reduce.engines import collect, collect_groups, distinct_count, part
from frame_eval.reduce.prepare import Prepared
from frame_eval.running import current, shown

_KEY, _SUM = 48, 96  # bytes that a group takes while it is worked on, by key and by sum


def passes_of(prepared: Prepared, keys: Sequence[str], apart: Sequence[str], sums: int) -> int:
    """How many passes it takes for the groups of each to fit into the memory.

    A pass has some of the values of ``apart``, which are among the keys. Frames that are in memory
    themselves are read at once.
    """
    most = current().most(_KEY * len(keys) + _SUM * sums)
    if prepared.resident or not keys:
        return 1
    rows = _rows(prepared)
    if rows <= most:
        return 1
    groups = min(rows, distinct_count(prepared.frame, keys, apart))
    return -(-groups // most)


def by_cell(prepared: Prepared, keys: Sequence[str]) -> bool:
    """Whether rows are so many that those of equal score have to be counted where they are.

    The score is the last of the keys.
    """
    if prepared.resident or _rows(prepared) <= current().most(_KEY):
        return False
    cells = distinct_count(prepared.frame, keys, keys[-1:])
    most = current().most(_KEY * len(keys) + _SUM)
    if cells > most:
        raise EvalError(
            f"about {cells} scores differ by slice, system and cluster, which is more "
            f"than memory={current().memory:g} bytes hold: put them into bins with "
            "frame.eval.run(score_bins=10_000), or give more with run(memory=)"
        )
    return True


def _rows(prepared: Prepared) -> int:
    return int(collect(prepared.frame.select(nw.len())).item())


def parts_of(
    frame: nw.LazyFrame[Any], columns: Sequence[str], passes: int, what: str
) -> Iterator[nw.LazyFrame[Any]]:
    """The frame in so many parts, one after the other; equal columns are in the same part."""
    if passes == 1:
        yield frame
        return
    for at in shown(range(passes), what):
        yield part(frame, columns, passes, at)


def in_kinds(
    prepared: Prepared, frame: nw.LazyFrame[Any], keys: Sequence[str], totals: Sequence[Any]
) -> pl.DataFrame:
    """A group-by whose units with equal sums in a group are one row, with how many they are.

    What it asks for are sums, called so by the row, and variances (``__fe_v...``) within units.
    """
    units = list(prepared.units.values())
    whole: pl.DataFrame | None = None
    for rows in parts_of(frame, units, prepared.passes, "sums of clusters"):
        groups = rows.group_by(keys).agg(*totals)
        found = collect_groups(groups, len(keys) + len(totals)).drop(units)
        found = found.with_columns(pl.lit(1.0).alias("__fe_times"))
        both = found if whole is None else pl.concat([whole, found])
        alike = pl.exclude("__fe_times")
        whole = both.group_by(alike).agg(pl.col("__fe_times").sum())
        if whole.height > current().most(_KEY * len(keys) + _SUM * len(totals)):
            raise EvalError(
                f"the sums of more than {whole.height} clusters and slices differ, which is more "
                f"than memory={current().memory:g} bytes hold: give more with "
                "frame.eval.run(memory=), slice less, or name coarser clusters"
            )
    assert whole is not None
    kept = {*keys, "__fe_times"}
    added = [name for name in whole.columns if name not in kept and not name.startswith("__fe_v")]
    return whole.with_columns(
        pl.col(added) * pl.col("__fe_times"),
        *(pl.int_range(pl.len()).alias(unit) for unit in units),
    )
