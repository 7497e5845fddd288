"""Questions about more rows than memory holds, and how their cost grows; written as tables.

python benchmarks/scale.py                      # 50 million rows, then how the cost grows
python benchmarks/scale.py --rows 500000000     # any other number; 10 bytes of disk a row
python benchmarks/scale.py --short              # tiny sizes, only to see that it runs
python benchmarks/scale.py --only summary       # one question, nothing is written
python benchmarks/scale.py --folder F --kept K  # goes on where it was stopped
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from measure import own_peak
from scale_data import written

import frame_eval as fe

Found: TypeAlias = "dict[str, float]"  # seconds, of the fastest call too, and MB

TABLE = Path(__file__).parent / "scale.md"
LONG = 20.0  # seconds: what takes longer is asked once
TURNS, QUICK = 5, 5.0  # of questions that are held against each other, if they take no longer
AGAINST = ("summary", "duckdb", "sql")
MEMORY = 1.8e9  # of a comparison, where fewer passes read the files less often
ACCURACY = fe.accuracy("label", "pred")
METRICS = (
    *(ACCURACY, fe.f1("label", "pred"), fe.recall("label", "pred"), fe.rate("label")),
    *(fe.specificity("label", "pred"), fe.precision("label", "pred")),
    *(fe.mean("tokens"), fe.ratio("label", "tokens")),
)
CLUSTERED = {"system": "system", "by": "slice", "cluster": "cluster"}
PAIRED = {**CLUSTERED, "example": "example", "baseline": "base"}
SUMS = """
select system, slice, cluster, count(*) n, sum((label = pred)::double) hits
from read_parquet('{files}') group by all
"""


def polars_of(files: str) -> Any:
    """The files as Polars reads them."""
    return fe.of(pl.scan_parquet(files))


def duckdb_of(files: str) -> Any:
    """The files as DuckDB reads them."""
    import duckdb

    return fe.of(duckdb.connect().read_parquet(files))


def spark_of(files: str) -> Any:
    """The files as a Spark of this machine reads them."""
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master("local[*]").config(map=options).getOrCreate()
    return fe.of(session.read.parquet(str(Path(files).parent)))


def sums_of(files: str) -> Any:
    """The sums of clusters alone, by DuckDB's own SQL."""
    import duckdb

    return duckdb.sql(SUMS.format(files=files)).pl()


def summary_of(frame: Any) -> Any:
    """A share in every slice, with intervals that respect clusters."""
    return frame.summary(ACCURACY, **CLUSTERED)


# What it is called, how the files are opened, and what is measured.
QUESTIONS: dict[str, tuple[str, Callable[[str], Any], Callable[[Any], Any]]] = {
    "summary": ("summary by system and slice, clustered intervals", polars_of, summary_of),
    "compare": (
        "paired compare of two systems by slice, clustered",
        polars_of,
        lambda frame: frame.run(memory=MEMORY).compare(ACCURACY, **PAIRED),
    ),
    "auc": (
        "ROC-AUC by system, exact, DeLong intervals",
        polars_of,
        lambda frame: frame.summary(fe.roc_auc("label", "score"), system="system"),
    ),
    "sql": ("the sums of clusters alone, DuckDB's own SQL", str, sums_of),
    "duckdb": ("summary as above, through DuckDB", duckdb_of, summary_of),
    "spark": (
        "summary as above, through a Spark session that is open (memory without Java's)",
        spark_of,
        summary_of,
    ),
}
GROWTH: dict[str, tuple[int, ...]] = {
    "rows": (2_000_000, 4_000_000, 8_000_000, 16_000_000),
    "slices": (1, 10, 100, 1_000),
    "clusters": (1_000, 10_000, 100_000, 1_000_000),
    "systems": (2, 4, 8, 16),
    "metrics": (1, 2, 4, 8),
}
USUAL = {"rows": 4_000_000, "slices": 20, "clusters": 100_000, "systems": 2, "metrics": 1}


def apart(kept: Path | None, *arguments: str) -> Found:
    """What this script finds when it is run with some arguments in a process of its own.

    What is kept in a file is not measured again.
    """
    known: dict[str, Found] = {}
    if kept is not None and kept.exists():
        known = json.loads(kept.read_text())
    asked = " ".join(arguments)
    if asked not in known:
        command = [sys.executable, __file__, *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        known[asked] = json.loads(done.stdout.splitlines()[-1])
        if kept is not None:
            kept.write_text(json.dumps(known))
    return known[asked]


def asked(name: str, files: str) -> dict[str, float]:
    """The seconds of a first call and of the fastest of three, and the MB of the first."""
    _, opened, answer = QUESTIONS[name]
    frame, times = opened(files), list[float]()

    def ask() -> None:
        start = time.perf_counter()
        answer(frame)
        times.append(time.perf_counter() - start)

    memory = own_peak(ask)
    while len(times) < 3 and times[0] < LONG:
        ask()
    return {"memory": memory, "seconds": times[0], "fastest": min(times)}


def grown(folder: Path, what: str, value: int, short: bool) -> dict[str, float]:
    """The seconds (the least of three) and the MB of a summary of one size."""
    size = {**USUAL, what: value}
    if short:
        size["rows"] = size["rows"] // 1_000
    names = ("slices", "clusters", "systems")
    files = written(folder, size["rows"], 4, **{name: size[name] for name in names})
    frame, times = polars_of(f"{files}/*.parquet"), []

    def ask() -> None:
        start = time.perf_counter()
        frame.summary(*METRICS[: size["metrics"]], **CLUSTERED)
        times.append(time.perf_counter() - start)

    memory = own_peak(ask)
    for _ in range(0 if short else 2):
        ask()
    shutil.rmtree(files)
    return {"memory": memory, "seconds": min(times)}


def in_turns(
    names: Sequence[str], files: str, kept: Path | None, turns: int
) -> dict[str, list[Found]]:
    """What is found of each question, in processes that alternate where several are needed."""
    found: dict[str, list[Found]] = {name: [] for name in names}
    for turn in range(turns):
        for name in names:
            if turn and (name not in AGAINST or found[name][0]["seconds"] > QUICK):
                continue
            again = ["--turn", str(turn)] if turn else []
            found[name].append(apart(kept, "--ask", name, files, *again))
    return found


def typical(found: Sequence[Found], what: str) -> float:
    """The median of what several processes found."""
    return statistics.median(one[what] for one in found)


def ratios(ours: Sequence[Found], theirs: Sequence[Found], what: str) -> str:
    """How many times as fast ours is, turn by turn."""
    found = [their[what] / our[what] for our, their in zip(ours, theirs, strict=True)]
    span = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
    return f"{statistics.median(found):.2f}{span} times"


def questions(folder: Path, rows: int, only: str | None, kept: Path | None, turns: int) -> str:
    """The table of all questions about so many rows."""
    files = written(folder, rows, max(min(rows // 1_000_000, 100), 2))
    text = f"## {rows:,} rows in {len(list(files.iterdir()))} Parquet files\n\n"
    text += "| question | seconds | fastest | memory, MB |\n|---|---:|---:|---:|\n"
    found = in_turns([only] if only else list(QUESTIONS), f"{files}/*.parquet", kept, turns)
    for name, of in found.items():
        first, fastest, memory = (typical(of, what) for what in ("seconds", "fastest", "memory"))
        text += f"| {QUESTIONS[name][0]} | {first:.3g} | {fastest:.3g} | {memory:,.0f} |\n"
    if only is None and len(found["summary"]) == len(found["sql"]):
        first, fastest = (ratios(found["summary"], found["sql"], w) for w in ("seconds", "fastest"))
        text += (
            f"\nThe whole summary is {first} as fast as DuckDB's own SQL for its sums in a first "
            f"call,\nand {fastest} in the fastest of three.\n"
        )
    print(text, flush=True)
    return text


def growth(folder: Path, short: bool, kept: Path | None) -> str:
    """The tables of how the cost of a summary grows, one size at a time."""
    usual = ", ".join(f"{value:,} {name}" for name, value in USUAL.items())
    text = "## How the cost grows\n\n"
    text += (
        f"`summary` with clustered intervals from Parquet; {usual}, but for the one that grows.\n\n"
    )
    text += "| what | sizes | seconds | memory, MB |\n|---|---|---|---|\n"
    for what, values in GROWTH.items():
        found = [
            apart(kept, "--grow", what, str(value), str(folder), *(["--short"] if short else []))
            for value in values
        ]
        sizes = ", ".join(f"{value:,}" for value in values)
        seconds = ", ".join(f"{one['seconds']:.2g}" for one in found)
        memory = ", ".join(f"{one['memory']:,.0f}" for one in found)
        text += f"| {what} | {sizes} | {seconds} | {memory} |\n"
        print(text.splitlines()[-1], flush=True)
    return text


ABOUT = """\
# Scale

Made by `make scale`: {machine}. Each question in a process of its own: the
seconds of its first call, which has lazy imports and fresh memory to get, and of the fastest of
three calls (of one, where it takes more than {long:.0f}); memory is the peak of resident memory
over what the imports take. The summaries and DuckDB's own SQL alternate in {turns} processes each
where they take under {quick:.0f} seconds; of these there are medians, and ratios with their range.
The machine is shared: times under 1.3 apart are noise.
Rows have a system, a slice, a cluster, an example, a label, a prediction and a
score of four digits; {clusters:,} clusters.
Files are read ahead, which takes some hundred MB of large ones, however many rows there are.

"""


def main() -> None:
    """Measure and print; without --short and --only write the table too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append", help="50 million unless said")
    parser.add_argument("--folder", type=Path, help="where the files are made, and stay")
    parser.add_argument("--short", action="store_true", help="tiny sizes, nothing is written")
    parser.add_argument("--only", choices=QUESTIONS, help="nothing is written")
    parser.add_argument("--kept", type=Path, help="what is measured stays there, for another run")
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    parser.add_argument("--grow", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(asked(*options.ask)))
        return
    if options.grow:
        what, value, folder = options.grow
        print(json.dumps(grown(Path(folder), what, int(value), options.short)))
        return
    machine = f"Python {platform.python_version()}, Polars {pl.__version__}, {os.cpu_count()} cores"
    text = ABOUT.format(
        machine=machine, long=LONG, turns=TURNS, quick=QUICK, clusters=USUAL["clusters"]
    )
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        for rows in options.rows or [50_000 if options.short else 50_000_000]:
            turns = 1 if options.short or options.only else TURNS
            text += questions(folder, rows, options.only, options.kept, turns) + "\n"
        if options.only is None:
            text += growth(folder, options.short, options.kept)
            if not options.short:
                TABLE.write_text(text)


if __name__ == "__main__":
    main()
