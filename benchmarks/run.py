"""Every work beside its peer in one run: ratios of interleaved rounds, written as one table.

python benchmarks/run.py            # the full sizes, a few minutes
python benchmarks/run.py --short    # tiny sizes, only to see that it runs
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

import frame_eval as fe

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Work:
    """What is measured: ours and the peer, on the same data."""

    name: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    rounds: int = 5
    peer_rounds: int = 5


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measured(work: Work) -> str:
    """A row of the table: medians, and the ratio peer / ours with its spread."""
    work.ours()
    if work.peer_rounds > 1:
        work.theirs()
    ours, theirs = [], []
    for i in range(work.rounds):
        ours.append(seconds(work.ours))
        if i < work.peer_rounds:
            theirs.append(seconds(work.theirs))
    ratios = sorted(b / a for a, b in zip(ours, theirs, strict=False))
    middle = statistics.median(ratios)
    return (
        f"| {work.name} | {work.peer} | {statistics.median(ours):.4g} | "
        f"{statistics.median(theirs):.4g} | {middle:.3g} | {ratios[0]:.3g} to {ratios[-1]:.3g} |"
    )


def classified(rows: int, slices: int) -> pl.DataFrame:
    """Labels and predictions in slices, with ten clusters nested in each."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, slices, rows)
    return pl.DataFrame(
        {
            "slice": group,
            "cluster": group * 10 + rng.integers(0, 10, rows),
            "label": rng.random(rows) < 0.3,
            "pred": rng.random(rows) < 0.4,
            "score": rng.normal(size=rows),
        }
    )


def two_systems(examples: int, clusters: int) -> pl.DataFrame:
    """Two systems on the same examples, in random order."""
    rng = np.random.default_rng(1)
    document = rng.integers(0, clusters, examples)
    order = rng.permutation(2 * examples)
    return pl.DataFrame(
        {
            "system": np.repeat(["a", "b"], examples)[order],
            "example": np.tile(np.arange(examples), 2)[order],
            "cluster": np.tile(document, 2)[order],
            "correct": (rng.random(2 * examples) < 0.7)[order],
        }
    )


def many_systems(systems: int, examples: int) -> pl.DataFrame:
    """Many systems on few examples in twelve unequal repositories."""
    rng = np.random.default_rng(2)
    sizes = np.array([231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1])
    repo = np.repeat(np.arange(12), sizes)[:examples]
    return pl.DataFrame(
        {
            "system": np.repeat([f"s{i:02d}" for i in range(systems)], len(repo)),
            "example": np.tile(np.arange(len(repo)), systems),
            "repo": np.tile(repo, systems),
            "correct": rng.random(systems * len(repo)) < 0.6,
        }
    )


METRICS = (
    fe.accuracy("label", "pred"),
    fe.precision("label", "pred"),
    fe.recall("label", "pred"),
    fe.f1("label", "pred"),
)


def bare_counts(frame: pl.DataFrame) -> pl.DataFrame:
    """The sums that the four metrics need, by slice and cluster, and nothing else."""
    y, p = pl.col("label").cast(pl.Float64), pl.col("pred").cast(pl.Float64)
    sums = [
        pl.len(),
        (y * p).sum().alias("tp"),
        ((1 - y) * p).sum().alias("fp"),
        (y * (1 - p)).sum().alias("fn"),
        (pl.col("label") == pl.col("pred")).cast(pl.Float64).sum().alias("correct"),
    ]
    return frame.lazy().group_by("slice", "cluster").agg(*sums).collect(engine="streaming")


def fairlearn_frame(frame: pl.DataFrame) -> Callable[[], object]:
    from fairlearn.metrics import MetricFrame
    from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

    columns = frame.select("label", "pred", "slice").to_pandas()
    metrics = {
        "accuracy": accuracy_score,
        "precision": precision_score,
        "recall": recall_score,
        "f1": f1_score,
    }
    return lambda: (
        MetricFrame(
            metrics=metrics,
            y_true=columns["label"],
            y_pred=columns["pred"],
            sensitive_features=columns["slice"],
        ).by_group
    )


def cluster_regressions(frame: pl.DataFrame) -> Callable[[], object]:
    import statsmodels.api as sm

    wide = frame.to_pandas().pivot(index=["example", "repo"], columns="system", values="correct")
    repo = wide.index.get_level_values("repo").to_numpy()
    values = wide.to_numpy().astype(float)

    def run() -> None:
        for a in range(values.shape[1]):
            for b in range(a):
                step = values[:, a] - values[:, b]
                model = sm.OLS(step, np.ones(len(step)))
                _ = model.fit(cov_type="cluster", cov_kwds={"groups": repo}).pvalues

    return run


def sklearn_auc(frame: pl.DataFrame) -> Callable[[], object]:
    from sklearn.metrics import roc_auc_score

    label, score = frame["label"].to_numpy(), frame["score"].to_numpy()
    return lambda: roc_auc_score(label, score)


def imported(extra: str) -> Callable[[], object]:
    command = [sys.executable, "-c", f"import pandas, polars{extra}"]
    return lambda: subprocess.run(command, check=True)


def works(short: bool) -> list[Work]:
    """All works; with ``short`` on tiny data."""
    scale = 1000 if short else 1
    big = classified(10_000_000 // scale, 1000 // (10 if short else 1))
    middle = classified(1_000_000 // scale, 1000 // (10 if short else 1))
    pairs = two_systems(1_000_000 // scale, 100_000 // scale)
    many = many_systems(4 if short else 24, 500)
    small = classified(500, 5)
    small_pandas: pd.DataFrame = small.to_pandas()
    by_pair = {"system": "system", "example": "example"}
    return [
        Work(
            "accuracy, precision, recall, F1 with clustered intervals, 10M rows, 1,000 slices, "
            "10,000 clusters",
            "bare streaming Polars group-by of the same sums",
            lambda: big.eval.summary(*METRICS, by="slice", cluster="cluster"),
            lambda: bare_counts(big),
        ),
        Work(
            "the same four with intervals, 1M rows, 1,000 slices",
            "fairlearn MetricFrame (no intervals)",
            lambda: middle.eval.summary(*METRICS, by="slice"),
            fairlearn_frame(middle),
            peer_rounds=2,
        ),
        Work(
            "roc_auc with DeLong errors, 1M rows",
            "scikit-learn roc_auc_score (no errors)",
            lambda: middle.eval.summary(fe.roc_auc("label", "score")),
            sklearn_auc(middle),
        ),
        Work(
            "compare two systems, 1M examples, 100,000 clusters, matching checked",
            "bare streaming Polars group-by of the same sums",
            lambda: pairs.eval.compare(
                fe.rate("correct"), baseline="a", cluster="cluster", **by_pair
            ),
            lambda: (
                pairs.lazy()
                .group_by("system", "cluster")
                .agg(pl.len(), pl.col("correct").cast(pl.Float64).sum())
                .collect(engine="streaming")
            ),
        ),
        Work(
            "compare all 276 pairs of 24 systems on 500 examples, clustered by repository",
            "a loop of statsmodels cluster regressions",
            lambda: many.eval.compare(fe.rate("correct"), cluster="repo", **by_pair),
            cluster_regressions(many),
        ),
        Work(
            "the same 276 pairs in each of 12 repositories",
            "the loop without slices",
            lambda: many.eval.compare(fe.rate("correct"), by="repo", **by_pair),
            cluster_regressions(many),
        ),
        Work(
            "summary of 500 rows in 5 slices, clustered, Polars",
            "a bare Polars group-by",
            lambda: small.eval.summary(fe.rate("label"), by="slice", cluster="cluster"),
            lambda: small.group_by("slice").agg(pl.col("label").mean()),
            rounds=30,
            peer_rounds=30,
        ),
        Work(
            "summary of 500 rows in 5 slices, clustered, pandas",
            "a bare pandas group-by",
            lambda: small_pandas.eval.summary(fe.rate("label"), by="slice", cluster="cluster"),
            lambda: small_pandas.groupby("slice")["label"].mean(),
            rounds=30,
            peer_rounds=30,
        ),
        Work(
            "import frame_eval, pandas and polars (whole process)",
            "import pandas and polars",
            imported(", frame_eval"),
            imported(""),
            rounds=3 if short else 9,
            peer_rounds=3 if short else 9,
        ),
    ]


def main() -> None:
    """Measure, print, and write the table (not in short mode)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="tiny sizes, nothing written")
    short = parser.parse_args().short
    lines = [
        "| work | peer | ours (s) | peer (s) | peer / ours | spread |",
        "|---|---|---:|---:|---:|---|",
    ]
    for work in works(short):
        lines.append(measured(work))
        print(lines[-1], flush=True)
    if short:
        return
    text = (
        "# Speed\n\n"
        f"Medians of interleaved rounds in one run (Python {platform.python_version()}, Polars "
        f"{pl.__version__}, numpy {np.__version__}); ratios above 1 mean that frame_eval is "
        "faster. Made by `make bench`.\n\n"
    )
    (HERE / "README.md").write_text(text + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
