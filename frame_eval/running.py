"""How a question is run: the memory it may take, and whether its progress is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from frame_eval.errors import EvalError

T = TypeVar("T")
KEY, SUM = 48, 96  # bytes that a group takes while it is worked on, by key and by sum
_SHOWN_AFTER = 2  # seconds of work before a bar appears


@dataclass(frozen=True)
class Run:
    """The bytes that what leaves an engine may take at once, and whether long work shows a bar.

    With ``score_bins`` scores are put into so many bins of equal width.
    """

    memory: float = 2.0**30
    progress: bool = True
    score_bins: int | None = None

    def __post_init__(self) -> None:
        given: object = self.memory
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
            raise EvalError(f"memory={given!r} is not a positive number of bytes, such as 2e9")
        bins: object = self.score_bins
        if bins is not None and (not isinstance(bins, int) or bins < 2):
            raise EvalError(f"score_bins={bins!r} is not a whole number of at least 2")

    def most(self, width: float) -> int:
        """How many rows of so many bytes fit."""
        return max(int(min(self.memory / width, 2**62)), 1)


_USUAL = Run()
_RUN: ContextVar[Run] = ContextVar("run", default=_USUAL)


def current() -> Run:
    """How the question at hand is run."""
    return _RUN.get()


@contextmanager
def running(run: Run) -> Iterator[None]:
    """Run the questions inside like this."""
    before = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(before)


def most_groups(keys: Sequence[str], sums: int) -> int:
    """How many groups with so many sums fit into the memory."""
    return current().most(KEY * len(keys) + SUM * sums)


def shown(steps: Iterable[T], what: str, rows: int = 0) -> Iterator[T]:
    """The steps of some work, with a bar where it takes seconds, which counts ``rows`` a step.

    On a terminal, with tqdm installed, and unless ``progress=False``.
    """
    many = not isinstance(steps, Sized) or len(steps) > 1
    if not (many and current().progress and sys.stderr.isatty()):
        return iter(steps)
    try:
        from tqdm import tqdm
    except ImportError:
        return iter(steps)
    bar = partial(tqdm, desc=what, delay=_SHOWN_AFTER, leave=False)
    return iter(bar(steps, unit=" rows", unit_scale=rows) if rows else bar(steps))
