"""More sums than the memory holds at once: taken in passes, each over some of the units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import narwhals as nw

from frame_eval.errors import EvalError
from frame_eval.reduce.engines import collect, distinct_count, part
from frame_eval.reduce.prepare import Prepared
from frame_eval.running import current, shown
from frame_eval.table import Table

_KEY, _SUM = 48, 96  # bytes that a group takes while it is worked on, by key and by sum


def passes_of(prepared: Prepared, keys: Sequence[str], apart: Sequence[str], sums: int) -> int:
    """How many passes it takes for the groups of each to fit into the memory.

    A pass has some of the values of ``apart``, which are among the keys. Frames that are in memory
    themselves are read at once.
    """
    most = most_groups(keys, sums)
    if prepared.rows is not None or not keys:
        return 1
    rows = _rows(prepared)
    if rows <= most:
        return 1
    groups = min(rows, distinct_count(prepared.frame, keys, apart))
    return -(-groups // most)


def most_groups(keys: Sequence[str], sums: int) -> int:
    """How many groups with so many sums fit into the memory."""
    return current().most(_KEY * len(keys) + _SUM * sums)


def by_cell(prepared: Prepared, keys: Sequence[str]) -> bool:
    """Whether rows are so many that those of equal score have to be counted where they are.

    The score is the last of the keys.
    """
    if prepared.rows is not None or _rows(prepared) <= current().most(_KEY):
        return False
    cells = distinct_count(prepared.frame, keys, keys[-1:])
    most = most_groups(keys, 1)
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


def too_many(tables: Sequence[Table]) -> bool:
    """Whether tables take more than the memory."""
    taken = sum(_SUM * len(table.names) * len(table.rows) for table in tables)
    return taken > current().memory
