"""The works: which question, on which data, against whom, and what was promised."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from data import classified, many_systems, tied, two_systems, written
from measure import Seconds, Sides, Work
from peers import (
    bare_counts,
    bare_pairs,
    cluster_regressions,
    delong,
    drawn_auc,
    evalstats_bootstrap,
    fairlearn_frame,
    mcnemar_tests,
    polars_ds_rankings,
    polars_ds_slices,
    presorted_auc,
    resampled_clusters,
    scipy_bootstrap,
    sklearn_curves,
    sklearn_rankings,
    sklearn_slices,
)

import frame_eval as fe

FOUR = (
    fe.accuracy("label", "pred"),
    fe.precision("label", "pred"),
    fe.recall("label", "pred"),
    fe.f1("label", "pred"),
)
PAIRING = {"system": "system", "example": "example"}


def _size(short: bool) -> tuple[int, int, int]:
    return (20_000, 20, 200) if short else (10_000_000, 1_000, 10_000)


def _same(ours: Any, theirs: Any) -> bool:
    return bool(np.allclose(np.asarray(ours, float), np.asarray(theirs, float), equal_nan=True))


def _same_counts(result: pl.DataFrame, sums: pl.DataFrame) -> bool:
    """Accuracy and F1 by slice, from the result and from the bare sums."""
    whole = sums.group_by("slice").sum().sort("slice")
    f1 = 2 * whole["tp"] / (2 * whole["tp"] + whole["fp"] + whole["fn"])
    return all(
        _same(result.filter(metric=name)["estimate"], values)
        for name, values in {"accuracy": whole["correct"] / whole["len"], "f1": f1}.items()
    )


def _clustered(short: bool) -> Sides:
    frame = classified(*_size(short))
    return Sides(
        lambda: frame.eval.summary(*FOUR, by="slice", cluster="cluster"),
        lambda: bare_counts(frame),
        _same_counts,
    )


def _from_parquet(short: bool) -> Sides:
    folder = Path(tempfile.gettempdir()) / "frame_eval_benchmarks"
    folder.mkdir(exist_ok=True)
    path = written(*_size(short), folder)
    return Sides(
        lambda: pl.scan_parquet(path).eval.summary(*FOUR, by="slice", cluster="cluster"),
        lambda: bare_counts(pl.scan_parquet(path)),
        _same_counts,
    )


def _per_slice(short: bool) -> Sides:
    frame = classified(*((5_000, 20, 200) if short else (1_000_000, 1_000, 10_000)))
    return Sides(
        lambda: frame.eval.summary(*FOUR, by="slice"),
        fairlearn_frame(frame),
        lambda ours, theirs: _same(ours["estimate"], theirs.to_numpy().ravel()),
    )


def _pair(short: bool) -> Sides:
    frame = two_systems(*((2_000, 200) if short else (1_000_000, 100_000)))

    def agree(ours: pl.DataFrame, sums: pl.DataFrame) -> bool:
        whole = sums.group_by("system").sum().sort("system")
        rates = whole["correct"] / whole["len"]
        return _same(ours["difference"], [rates[1] - rates[0]])

    return Sides(
        lambda: frame.eval.compare(fe.rate("correct"), baseline="a", cluster="cluster", **PAIRING),
        lambda: bare_pairs(frame),
        agree,
    )


def _all_pairs(short: bool) -> Sides:
    frame = many_systems(4 if short else 24)
    return Sides(
        lambda: frame.eval.compare(fe.rate("correct"), cluster="repo", **PAIRING),
        cluster_regressions(frame),
        lambda ours, theirs: _same(ours.sort("baseline", "system")["difference"], theirs[:, 0]),
    )


def _all_pairs_by_repository(short: bool) -> Sides:
    frame = many_systems(4 if short else 24)

    def agree(ours: pl.DataFrame, theirs: Any) -> bool:
        p = ours.sort("repo", "baseline", "system")["p_value"].to_numpy()
        there = np.isfinite(theirs)  # without a discordant pair statsmodels divides 0 by 0
        return _same(p[there], theirs[there])

    return Sides(
        lambda: frame.eval.compare(fe.rate("correct"), by="repo", **PAIRING),
        mcnemar_tests(frame),
        agree,
    )


RANKINGS = (fe.roc_auc("label", "score"), fe.average_precision("label", "score"))
THREE = (RANKINGS[0], fe.f1("label", "pred"), fe.accuracy("label", "pred"))


def _same_estimates(ours: pl.DataFrame, theirs: Any) -> bool:
    return _same(ours["estimate"], theirs)


def _rankings(peer: Any, interval: Any, short: bool) -> Sides:
    frame = classified(*_size(short))
    return Sides(
        lambda: frame.eval.summary(*RANKINGS, interval=interval), peer(frame), _same_estimates
    )


def _ranked_slices(peer: Any, interval: Any, data: Any, short: bool) -> Sides:
    frame = data(*_size(short))
    return Sides(
        lambda: frame.eval.summary(*THREE, by="slice", interval=interval),
        peer(frame),
        _same_estimates,
    )


def _clustered_rankings(short: bool) -> Sides:
    frame = classified(*_size(short))
    return Sides(
        lambda: frame.eval.summary(*THREE, by="slice", cluster="cluster"),
        lambda: frame.eval.summary(*THREE, by="slice"),
        lambda ours, theirs: _same(ours["estimate"], theirs["estimate"]),
    )


def _delong(metrics: Any, short: bool) -> Sides:
    frame = classified(*((2_000, 2, 20) if short else (100_000, 2, 20)))
    return Sides(
        lambda: frame.eval.summary(*metrics),
        delong(frame),
        lambda ours, theirs: _same(ours.select("estimate", "std_error").row(0), theirs),
    )


def _curves(short: bool) -> Sides:
    frame = classified(*_size(short))

    def agree(ours: Any, theirs: Any) -> bool:
        (roc, pr), ((fpr, tpr, falling), (precision, recall, rising)) = ours, theirs
        at = np.searchsorted(-falling, -roc["threshold"].to_numpy())
        below = np.searchsorted(rising, pr["threshold"].to_numpy())
        same = [_same(roc["fpr"], fpr[at]), _same(roc["tpr"], tpr[at])]
        return all(
            [*same, _same(pr["precision"], precision[below]), _same(pr["recall"], recall[below])]
        )

    return Sides(
        lambda: tuple(frame.eval.curve(kind, "label", "score") for kind in ("roc", "pr")),
        sklearn_curves(frame),
        agree,
    )


def _close(ours: pl.DataFrame, theirs: Any) -> bool:
    """Limits that differ by no more than the Monte Carlo error of both (a tenth of the width)."""
    low, high = ours["ci_low"].item(), ours["ci_high"].item()
    return bool(np.allclose([low, high], list(theirs), atol=0.1 * (high - low)))


def _bootstrap_rate(peer: Any, rows: int, short: bool) -> Sides:
    rows, resamples = (1_000, 200) if short else (rows, 9_999)
    frame = pl.DataFrame({"correct": np.random.default_rng(3).random(rows) < 0.7})
    return Sides(
        lambda: frame.eval.summary(fe.rate("correct"), interval="bootstrap", resamples=resamples),
        peer(frame["correct"].to_numpy(), resamples),
        lambda ours, theirs: short or _close(ours, theirs),
    )


def _bootstrap_slices(short: bool) -> Sides:
    rng = np.random.default_rng(3)
    rows, resamples = (1_000, 200) if short else (100_000_000, 9_999)
    frame = pl.DataFrame(
        {"slice": rng.integers(0, 20, rows, dtype=np.int8), "correct": rng.random(rows) < 0.7}
    )
    counts = pl.len(), pl.col("correct").sum()
    return Sides(
        lambda: frame.eval.summary(
            fe.rate("correct"), by="slice", interval="bootstrap", resamples=resamples
        ),
        lambda: frame.lazy().group_by("slice").agg(*counts).collect(engine="streaming"),
        lambda ours, theirs: _same(
            ours["estimate"],
            theirs.sort("slice").select(pl.col("correct") / pl.col("len")).to_series(),
        ),
    )


def _bootstrap_pair(distinct: bool, equal: bool, short: bool) -> Sides:
    frame = two_systems(*((2_000, 200) if short else (1_000_000, 100_000)), equal=equal)
    resamples, column, metric = 200 if short else 9_999, "correct", fe.rate("correct")
    if distinct:
        noise = np.random.default_rng(4).normal(size=frame.height)
        frame = frame.with_columns(value=pl.Series(noise) + pl.col("correct"))
        column, metric = "value", fe.mean("value")
    return Sides(
        lambda: frame.eval.compare(
            metric,
            baseline="a",
            cluster="cluster",
            method="bootstrap",
            resamples=resamples,
            **PAIRING,
        ),
        resampled_clusters(frame, column, resamples),
        lambda ours, theirs: short or _close(ours, theirs),
    )


def _bootstrap_auc(presorted: bool, short: bool) -> Sides:
    frame = classified(*((2_000, 2, 20) if short else (100_000, 2, 20)))
    resamples = 200 if short else 1_000
    return Sides(
        lambda: frame.eval.summary(
            fe.roc_auc("label", "score"), interval="bootstrap", resamples=resamples
        ),
        (presorted_auc if presorted else drawn_auc)(frame, resamples),
        lambda ours, theirs: short or not presorted or _close(ours, theirs),
    )


def _bca(short: bool) -> Sides:
    frame = classified(*((2_000, 2, 20) if short else (1_000_000, 2, 1_000)))

    def with_interval(interval: Any) -> Callable[[], Any]:
        return lambda: frame.eval.summary(
            fe.f1("label", "pred"), cluster="cluster", interval=interval
        )

    return Sides(with_interval("bca"), with_interval("percentile"))


def _small(pandas: bool, short: bool) -> Sides:
    del short
    frame = classified(500, 5, 50)
    bare = frame.lazy().group_by("slice", "cluster").agg(pl.len(), pl.col("label").sum())
    native = frame.to_pandas() if pandas else frame
    return Sides(
        lambda: fe.summary(native, fe.rate("label"), by="slice", cluster="cluster"),
        (lambda: native.groupby(["slice", "cluster"])["label"].agg(["size", "sum"]))
        if pandas
        else (lambda: bare.collect(engine="streaming")),
    )


def _small_pair(short: bool) -> Sides:
    del short
    frame = two_systems(250, 50).with_columns(slice=pl.col("cluster") % 5)
    rows = frame.lazy()
    bare = (
        rows.filter(system="a")
        .join(rows.filter(system="b"), on="example")
        .group_by("slice", "cluster")
        .agg((pl.col("correct_right").cast(float) - pl.col("correct").cast(float)).sum())
    )
    return Sides(
        lambda: frame.eval.compare(
            fe.rate("correct"), baseline="a", by="slice", cluster="cluster", **PAIRING
        ),
        lambda: bare.collect(engine="streaming"),
    )


def _import_time(modules: str, after: str) -> Callable[[], Seconds]:
    clock = "import time; s = time.perf_counter(); "
    code = f"{after}{clock}import {modules}; print(time.perf_counter() - s)"
    # Installed packages are compiled already; the first round does it for the others.
    compiled = Path(tempfile.gettempdir()) / "frame_eval_benchmarks" / "bytecode"
    told = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(compiled)}

    def run() -> Seconds:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, **told}
        )
        return Seconds(done.stdout)

    return run


def _import(short: bool) -> Sides:
    del short
    return Sides(
        _import_time("frame_eval", after="import pandas, polars; "),
        _import_time("pandas, polars", after=""),
    )


BARE = "the bare Polars group-by of the same sums"
WORKS = (
    Work(
        "clustered",
        "accuracy, precision, recall and F1 with clustered intervals; 10M rows, 1,000 slices, "
        "10,000 clusters",
        BARE,
        _clustered,
        most=1.5,
    ),
    Work(
        "parquet",
        "the same from a lazy Parquet scan of ten columns",
        f"{BARE} from the scan",
        _from_parquet,
        most=1.5,
        rounds=5,
        peer_rounds=5,
    ),
    Work(
        "per slice",
        "the same four with intervals, without clusters; 1M rows, 1,000 slices",
        "fairlearn MetricFrame (no intervals)",
        _per_slice,
        most=0.01,
        peer_rounds=2,
    ),
    Work(
        "pair",
        "compare two systems; 1M examples in 100,000 clusters, matched",
        f"{BARE} (nothing matched)",
        _pair,
        most=3.0,
    ),
    Work(
        "all pairs",
        "compare all 276 pairs of 24 systems on 500 examples in 12 clusters (CR2)",
        "a loop of statsmodels cluster regressions (CR1)",
        _all_pairs,
        most=1.0,
        relative=False,
    ),
    Work(
        "all pairs by repository",
        "the 276 pairs in each of 12 slices, 3,312 tests and intervals",
        "a loop of statsmodels mcnemar (no intervals)",
        _all_pairs_by_repository,
        most=1.0,
        relative=False,
        peer_rounds=3,
    ),
    *(
        Work(
            f"bootstrap {rows} {package}",
            f"10,000 bootstrap replicates of a rate; {rows:,} rows",
            named,
            partial(_bootstrap_rate, peer, rows),
            most=most,
            rounds=25 if rows < 1_000_000 else 7,
            peer_rounds=1,
            # The peers take minutes for more rows.
            peaks=("ours", "theirs") if rows <= 100_000 else ("ours",),
            needs=package,
        )
        for rows, most in ((10_000, 1 / 200), (100_000, 1 / 1_000), (1_000_000, 1 / 5_000))
        for package, named, peer in (
            ("scipy", "scipy.stats.bootstrap", scipy_bootstrap),
            ("evalstats", "evalstats", evalstats_bootstrap),
        )
    ),
    Work(
        "bootstrap slices",
        "10,000 bootstrap replicates of a rate in 20 slices; 100M rows",
        "the bare Polars group-by of the same sums",
        _bootstrap_slices,
        most=2,
        rounds=3,
    ),
    Work(
        "bootstrap pair",
        "10,000 paired replicates of a difference of rates; 2M rows, 100,000 clusters of random "
        "size",
        "numpy drawing prepared cluster sums",
        partial(_bootstrap_pair, False, False),
        most=1 / 80,
        rounds=10,
        peer_rounds=1,
    ),
    Work(
        "bootstrap pair, equal clusters",
        "the same, of clusters of 10 examples each",
        "numpy drawing prepared cluster sums",
        partial(_bootstrap_pair, False, True),
        most=1 / 80,
        rounds=10,
        peer_rounds=1,
    ),
    Work(
        "bootstrap pair, distinct",
        "the same of means, clusters of random size and no two alike",
        "numpy drawing prepared cluster sums",
        partial(_bootstrap_pair, True, False),
        most=1 / 3,
        rounds=2,
        peer_rounds=1,
    ),
    Work(
        "bootstrap auc",
        "1,000 replicates of roc_auc; 100,000 rows",
        "numpy, scores sorted once, a weighting at a time",
        partial(_bootstrap_auc, True),
        most=1 / 3,
        rounds=3,
        peer_rounds=2,
    ),
    Work(
        "bootstrap auc, drawn",
        "the same",
        "scikit-learn roc_auc_score of drawn rows (20 replicates timed, the time scaled)",
        partial(_bootstrap_auc, False),
        most=1 / 50,
        rounds=3,
        peer_rounds=2,
        peaks=("ours",),
    ),
    Work(
        "bca",
        "BCa interval of F1; 1M rows, 1,000 clusters, 10,000 replicates",
        "the percentile interval of ours",
        _bca,
        most=3.0,
    ),
    Work(
        "small",
        "summary of 500 rows in 5 slices and 50 clusters",
        BARE,
        partial(_small, False),
        most=0.005,
        relative=False,
        rounds=50,
        peer_rounds=50,
    ),
    Work(
        "small pandas",
        "the same from pandas to pandas",
        "the bare pandas group-by of the same sums",
        partial(_small, True),
        most=0.005,
        relative=False,
        rounds=50,
        peer_rounds=50,
    ),
    Work(
        "small compare",
        "compare two systems on 250 examples in 50 clusters and 5 slices",
        "the bare Polars join and group-by",
        _small_pair,
        most=0.005,
        relative=False,
        rounds=50,
        peer_rounds=50,
    ),
    Work(
        "import",
        "import frame_eval, after pandas and polars",
        "import pandas and polars",
        _import,
        most=0.2,
        relative=False,
        rounds=9,
        peer_rounds=9,
        peaks=(),
    ),
    Work(
        "rankings",
        "roc_auc and average_precision; 10M rows, all scores distinct",
        "polars-ds",
        partial(_rankings, polars_ds_rankings, None),
        most=1 / 5,
        rounds=5,
        peer_rounds=5,
        needs="polars_ds",
    ),
    Work(
        "rankings, scikit-learn",
        "the same",
        "scikit-learn",
        partial(_rankings, sklearn_rankings, None),
        most=1 / 20,
        rounds=5,
        peer_rounds=1,
    ),
    Work(
        "rankings with intervals",
        "the same with intervals (DeLong's errors for roc_auc)",
        "polars-ds (no intervals)",
        partial(_rankings, polars_ds_rankings, "auto"),
        rounds=5,
        peer_rounds=5,
        needs="polars_ds",
    ),
    Work(
        "delong",
        "roc_auc alone with its interval; 100,000 rows",
        "confidenceinterval",
        partial(_delong, RANKINGS[:1]),
        most=1 / 20,
        rounds=20,
        peer_rounds=20,
        needs="confidenceinterval",
    ),
    Work(
        "delong and average precision",
        "both with intervals; 100,000 rows",
        "confidenceinterval (roc_auc alone)",
        partial(_delong, RANKINGS),
        rounds=20,
        peer_rounds=20,
        needs="confidenceinterval",
    ),
    Work(
        "curves",
        "ROC and precision-recall curves with bands, 1,000 points of each; 10M rows",
        "scikit-learn (all points, no bands)",
        _curves,
        rounds=3,
        peer_rounds=1,
    ),
    *(
        Work(
            f"ranked slices{name}",
            f"roc_auc, F1 and accuracy{what}; 10M rows, 1,000 slices",
            peer,
            partial(_ranked_slices, calls, interval, data),
            most=most,
            rounds=5,
            peer_rounds=rounds,
            needs=needs,
        )
        for name, what, peer, calls, interval, data, most, rounds, needs in (
            ("", "", "polars-ds", polars_ds_slices, None, classified, 1 / 3, 5, "polars_ds"),
            (
                ", tied",
                ", tied scores",
                "polars-ds",
                polars_ds_slices,
                None,
                tied,
                1 / 3,
                5,
                "polars_ds",
            ),
            (
                ", scikit-learn",
                "",
                "scikit-learn in a loop over slices",
                sklearn_slices,
                None,
                classified,
                1 / 20,
                1,
                None,
            ),
            (
                " with intervals",
                " with intervals",
                "polars-ds (no intervals)",
                polars_ds_slices,
                "auto",
                classified,
                None,
                5,
                "polars_ds",
            ),
        )
    ),
    Work(
        "ranked slices, clustered",
        "the same with clustered intervals, 10,000 clusters",
        "ours without clusters",
        _clustered_rankings,
        most=3.0,
        rounds=5,
        peer_rounds=5,
    ),
)
