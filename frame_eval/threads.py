"""Work that can be done at the same time.

numpy and Polars let go of the interpreter while they loop over their arrays.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_LARGE = 100_000  # rows that are worth a thread
_BLOCK = 1 << 17  # rows whose numbers stay in the cache, enough for a thread


def cores() -> int:
    """How many threads can run at once."""
    return os.cpu_count() or 1


def at_once(rows: int) -> int:
    """How many of so many rows are worked on at once.

    Of few rows fewer: their arrays then are in memory that is not given back in between.
    """
    return _BLOCK if rows >= 4 * _BLOCK else max(_BLOCK // 4, 1)


def in_order(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    least: int = 1,
    most: int | None = None,
) -> Iterator[Result]:
    """What a function makes of every item, one after the other, while others are worked on.

    On all cores, but on ``most`` at most, each with at least so many items.
    """
    workers = min(len(items) // least, most or len(items))
    if workers > 1:
        workers = min(workers, cores())
    if workers < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        # Each thread ignores the floating point errors that its starter does.
        started = [pool.submit(copy_context().run, function, item) for item in items]
        for found in started:
            yield found.result()


def consumed(function: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Call a function with every item as they come, on all cores; only a few items wait."""
    with ThreadPoolExecutor(cores()) as pool:
        started = deque[Future[object]]()
        for item in items:
            started.append(pool.submit(copy_context().run, function, item))
            if len(started) > 2 * cores():
                started.popleft().result()
        for last in started:
            last.result()


def spread_out(
    function: Callable[[Item], Result], items: Sequence[Item], least: int = 4
) -> list[Result]:
    """What a function makes of every item, on all cores, each with at least so many of them."""
    return list(in_order(function, items, least))


def concurrently(tasks: Sequence[Callable[[], Result]], rows: int) -> list[Result]:
    """The results of some tasks about so many rows, side by side where the rows are many."""
    if rows < _LARGE:
        return [task() for task in tasks]
    return spread_out(lambda task: task(), tasks, 1)


def halves(rows: int) -> list[slice]:
    """All rows as two runs of them."""
    return [slice(0, rows // 2), slice(rows // 2, rows)]
