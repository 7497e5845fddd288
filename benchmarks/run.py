"""Every work beside its peer in one run, written as one table.

python benchmarks/run.py                 # the full sizes, some minutes; writes README.md
python benchmarks/run.py --only small    # one of them, nothing is written
python benchmarks/run.py --again small   # one of them, its row is written anew
python benchmarks/run.py --short         # tiny sizes, only to see that it runs
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
from measure import Measured, measured, own_peak
from works import WORKS

TABLE = Path(__file__).parent / "README.md"
HEAD = """\
| work | peer | ours | peer | ours / peer | rounds | memory, MB | target | |
|---|---|---:|---:|---:|---|---|---|---|
"""
ABOUT = """\
# Speed

Made by `make bench`: {machine}. Both sides of a work take turns in one run on the same data and
estimates are compared where both have them (not errors; small and import: none).
Calls of a few milliseconds, of either side, are repeated for 20 ms in a round. Times are those of
the fastest calls, ratios ours / peer below 1 mean that frame_eval is faster, "rounds" is the range
of the ratio. Memory is the peak of resident memory over what the data takes, in a process of its
own, of ours and of the peer (where that does not take minutes). The machine is shared: ratios under
1.3 are noise. Works of many seconds run once.

[coverage.md](coverage.md) says how often the intervals hold the truth, beside the usual ones.

"""


def row(found: Measured) -> str:
    """A row of the table."""
    work = found.work
    target = ""
    if work.most is not None:
        target = f"{work.most:.3g}x" if work.relative else _text(work.most)
    met = {True: "met", False: "**missed**", None: ""}[found.met]
    low, high = (_ratio(x) for x in (found.ratios[0], found.ratios[-1]))
    memory = " / ".join(f"{peak:,.0f}" for peak in found.memory)
    cells = [
        work.what,
        work.peer,
        _text(found.ours),
        _text(found.theirs),
        _ratio(found.ratio),
        f"{low} to {high}",
        memory,
        target,
        met,
    ]
    return f"| {' | '.join(cells)} |\n"


def _with(text: str, line: str, start: str) -> str:
    """A text with a line in the place of the one that starts like this, or at the end."""
    lines = text.splitlines(keepends=True)
    others = [line if old.startswith(start) else old for old in lines]
    return "".join(others if line in others else [*lines, line])


def _text(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def main() -> None:
    """Measure and print; without options write the table too."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [work.name for work in WORKS]
    parser.add_argument("--short", action="store_true", help="tiny sizes, nothing is written")
    parser.add_argument("--only", action="append", choices=names, help="nothing is written")
    parser.add_argument("--again", action="append", choices=names, help="its row is written anew")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        name, side = options.peak
        sides = next(work for work in WORKS if work.name == name).prepare(False)
        print(own_peak(getattr(sides, side)))
        return
    print(HEAD, end="")
    machine = (
        f"Python {platform.python_version()}, Polars {pl.__version__}, numpy {np.__version__}, "
        f"{os.cpu_count()} cores"
    )
    chosen = options.again or options.only
    text = TABLE.read_text() if options.again else ABOUT.format(machine=machine) + HEAD
    for work in WORKS:
        if chosen is not None and work.name not in chosen:
            continue
        if work.needs is not None and find_spec(work.needs) is None:
            print(f"{work.name}: skipped, {work.needs} is not installed", file=sys.stderr)
            continue
        line = row(measured(work, options.short))
        print(line, end="", flush=True)
        text = _with(text, line, f"| {work.what} | {work.peer} |")
        if not options.short and options.only is None:
            TABLE.write_text(text)  # after every work: a run that is stopped has measured something


if __name__ == "__main__":
    main()
