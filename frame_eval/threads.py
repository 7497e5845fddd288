"""Work that can be done at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

_LARGE = 100_000  # rows that are worth a thread


def concurrently(tasks: Sequence[Callable[[], T]], rows: int) -> list[T]:
    """The results of some tasks about so many rows, side by side where the rows are many.

    numpy and Polars let go of the interpreter while they compute.
    """
    if rows < _LARGE or len(tasks) == 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(len(tasks)) as pool:
        # numpy's errstate is part of the context.
        running = [pool.submit(copy_context().run, task) for task in tasks]
        return [task.result() for task in running]


def halves(rows: int) -> list[slice]:
    """All rows as two runs of them."""
    return [slice(0, rows // 2), slice(rows // 2, rows)]
