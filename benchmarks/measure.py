"""Time in interleaved rounds, and memory in processes of their own."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_WHILE = 0.02  # seconds


class Seconds(float):
    """A result that is itself the time to report, taken where only the callee can take it."""


class Sides(NamedTuple):
    """Both ways to do a work on data that is there already, and whether their results agree."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    agree: Callable[[Any, Any], bool] = lambda _ours, _theirs: True


@dataclass(frozen=True)
class Work:
    """What is measured; ``prepare`` makes the data, tiny if it is told so.

    ``most`` is the target: seconds of ours, or with ``relative`` ours / peer. Without the module
    that the peer ``needs`` the work is left out.
    """

    name: str
    what: str
    peer: str
    prepare: Callable[[bool], Sides]
    most: float | None = None
    relative: bool = True
    rounds: int = 7
    peer_rounds: int = 7
    peaks: tuple[str, ...] = ("ours", "theirs")  # sides whose memory is measured
    needs: str | None = None


@dataclass(frozen=True)
class Measured:
    """The fastest seconds, ratios ours / peer of the rounds, and peaks of memory in MB."""

    work: Work
    ours: float
    theirs: float
    ratios: tuple[float, ...]
    memory: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The ratio of the fastest rounds, which other users of the machine disturb least."""
        return self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        """Whether the target is met, if there is one."""
        if self.work.most is None:
            return None
        return (self.ratio if self.work.relative else self.ours) <= self.work.most


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call, and how long it took: the fastest of as many as fit into a while."""
    fastest, spent = math.inf, 0.0
    while spent < _WHILE:
        start = time.perf_counter()
        result = call()
        taken = time.perf_counter() - start
        if isinstance(result, Seconds):
            return result, float(result)
        fastest, spent = min(fastest, taken), spent + taken
    return result, fastest


def measured(work: Work, short: bool) -> Measured:
    """Run both sides in turn; in the first round, check that they agree."""
    sides = work.prepare(short)
    ours, theirs = [], []
    for i in range(1 if short else work.rounds):
        mine, taken = timed(sides.ours)
        ours.append(taken)
        if i < work.peer_rounds:
            other, taken = timed(sides.theirs)
            theirs.append(taken)
            if i == 0 and not sides.agree(mine, other):
                raise SystemExit(f"{work.name}: the results differ")
            del other
        del mine
    ratios = [a / b for a, b in zip(ours, theirs, strict=False)]
    if len(theirs) < len(ours):
        ratios = [a / statistics.median(theirs) for a in ours]
    del sides
    memory = () if short else tuple(peak(work.name, side) for side in work.peaks)
    return Measured(work, min(ours), min(theirs), tuple(sorted(ratios)), memory)


def peak(name: str, side: str) -> float:
    """The memory in MB that one call needs on top of the data, in a process of its own."""
    command = [sys.executable, str(Path(__file__).parent / "run.py"), "--peak", name, side]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def own_peak(call: Callable[[], Any]) -> float:
    """The highest resident memory of this process during a call, over what it had before, in MB."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():  # not Linux
        return float("nan")

    def kilobytes(field: str) -> int:
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

    before = kilobytes("VmRSS:")
    reset.write_text("5")
    call()
    return (kilobytes("VmHWM:") - before) / 1024
