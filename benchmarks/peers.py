"""What people call instead; each returns what ours can be checked against."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from measure import Seconds


def bare_counts(frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The sums behind accuracy, precision, recall and F1 by slice and cluster, and nothing else."""
    y, p = pl.col("label").cast(pl.Float64), pl.col("pred").cast(pl.Float64)
    sums = [
        pl.len(),
        (y * p).sum().alias("tp"),
        ((1 - y) * p).sum().alias("fp"),
        (y * (1 - p)).sum().alias("fn"),
        (pl.col("label") == pl.col("pred")).cast(pl.Float64).sum().alias("correct"),
    ]
    return frame.lazy().group_by("slice", "cluster").agg(*sums).collect(engine="streaming")


def bare_pairs(frame: pl.DataFrame) -> pl.DataFrame:
    """The sums of 0/1 results by system and cluster; no example is matched."""
    sums = [pl.len(), pl.col("correct").cast(pl.Float64).sum()]
    return frame.lazy().group_by("system", "cluster").agg(*sums).collect(engine="streaming")


def scipy_bootstrap(values: Any, resamples: int) -> Callable[[], Any]:
    """The percentile interval of a mean by scipy, in batches that fit into memory."""
    from scipy import stats

    return lambda: (
        stats.bootstrap(
            (values,),
            np.mean,
            n_resamples=resamples,
            method="percentile",
            batch=max(1, 10**7 // len(values)),
            rng=0,
        ).confidence_interval
    )


def evalstats_bootstrap(values: Any, resamples: int) -> Callable[[], Any]:
    """The percentile interval of a mean by evalstats."""
    from evalstats.core.resampling import bootstrap_ci_1d

    numbers = values.astype(float)
    return lambda: bootstrap_ci_1d(
        numbers, numbers.mean(), "bootstrap", resamples, 0.05, np.random.default_rng(0)
    )


def resampled_clusters(frame: pl.DataFrame, column: str, resamples: int) -> Callable[[], Any]:
    """The percentile interval of a paired difference, by drawing prepared sums of clusters."""
    value = pl.col(column).cast(pl.Float64)
    sums = (
        frame.group_by("cluster", "system")
        .agg(value.sum().alias("total"), pl.len().alias("n"))
        .pivot("system", index="cluster", values=["total", "n"])
    )
    arrays = [
        sums[f"{of}_{name}"].to_numpy().astype(float) for name in "ba" for of in ("total", "n")
    ]

    def run() -> Any:
        rng = np.random.default_rng(0)
        drawn = np.empty(resamples)
        for i in range(resamples):
            chosen = rng.integers(0, len(arrays[0]), len(arrays[0]))
            b, n_b, a, n_a = (array[chosen].sum() for array in arrays)
            drawn[i] = b / n_b - a / n_a
        return np.quantile(drawn, [0.025, 0.975])

    return run


def presorted_auc(frame: pl.DataFrame, resamples: int) -> Callable[[], Any]:
    """The percentile interval of the AUC of distinct scores, sorted once, drawn one by one."""
    ordered = frame.sort("score")
    label = ordered["label"].to_numpy().astype(float)

    def run() -> Any:
        rng = np.random.default_rng(0)
        drawn = np.empty(resamples)
        for i in range(resamples):
            weight = np.bincount(rng.integers(0, len(label), len(label)), minlength=len(label))
            positive = weight * label
            negative = weight - positive
            below = np.cumsum(negative) - negative / 2
            drawn[i] = positive @ below / (positive.sum() * negative.sum())
        return np.quantile(drawn, [0.025, 0.975])

    return run


def drawn_auc(frame: pl.DataFrame, resamples: int) -> Callable[[], Any]:
    """How long roc_auc_score of scikit-learn takes for so many resamples, from 20 of them."""
    from sklearn.metrics import roc_auc_score

    label, score = frame["label"].to_numpy(), frame["score"].to_numpy()
    few = 20

    def run() -> Any:
        rng = np.random.default_rng(0)
        start = time.perf_counter()
        for _ in range(few):
            chosen = rng.integers(0, len(label), len(label))
            roc_auc_score(label[chosen], score[chosen])
        return Seconds((time.perf_counter() - start) * resamples / few)

    return run


def fairlearn_frame(frame: pl.DataFrame) -> Callable[[], Any]:
    """MetricFrame with the four metrics of scikit-learn."""
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


def _wide(frame: pl.DataFrame) -> tuple[Any, Any]:
    wide = frame.to_pandas().pivot(index=["repo", "example"], columns="system", values="correct")
    return wide.index.get_level_values("repo").to_numpy(), wide.to_numpy().astype(float)


def cluster_regressions(frame: pl.DataFrame) -> Callable[[], Any]:
    """The error of every pair's difference by a cluster regression of statsmodels, pair by pair."""
    import statsmodels.api as sm

    repo, values = _wide(frame)

    def run() -> Any:
        errors = []
        for a in range(values.shape[1]):
            for b in range(a + 1, values.shape[1]):
                model = sm.OLS(values[:, b] - values[:, a], np.ones(len(values)))
                fitted = model.fit(cov_type="cluster", cov_kwds={"groups": repo})
                fitted.conf_int()
                errors.append((fitted.params[0], fitted.bse[0], fitted.pvalues[0]))
        return np.array(errors)

    return run


def mcnemar_tests(frame: pl.DataFrame) -> Callable[[], Any]:
    """McNemar's test of statsmodels for every repository and pair; it makes no interval."""
    from statsmodels.stats.contingency_tables import mcnemar

    repo, values = _wide(frame)

    def run() -> Any:
        p = []
        for k in np.unique(repo):
            part = values[repo == k]
            for a in range(part.shape[1]):
                for b in range(a + 1, part.shape[1]):
                    x, y = part[:, b], part[:, a]
                    table = [
                        [np.sum(x * y), np.sum(x * (1 - y))],
                        [np.sum((1 - x) * y), np.sum((1 - x) * (1 - y))],
                    ]
                    with np.errstate(invalid="ignore"):
                        p.append(mcnemar(table, exact=False, correction=False).pvalue)
        return np.array(p)

    return run


def sklearn_rankings(frame: pl.DataFrame) -> Callable[[], Any]:
    """roc_auc_score and average_precision_score of all rows."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    label, score = frame["label"].to_numpy(), frame["score"].to_numpy()
    return lambda: [roc_auc_score(label, score), average_precision_score(label, score)]


def sklearn_curves(frame: pl.DataFrame) -> Callable[[], Any]:
    """The points of roc_curve and precision_recall_curve at all scores."""
    from sklearn.metrics import precision_recall_curve, roc_curve

    label, score = frame["label"].to_numpy(), frame["score"].to_numpy()
    return lambda: (
        roc_curve(label, score, drop_intermediate=False),
        precision_recall_curve(label, score),
    )


def sklearn_slices(frame: pl.DataFrame) -> Callable[[], Any]:
    """AUC, F1 and accuracy by scikit-learn, slice after slice."""
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    def run() -> Any:
        parts = frame.select("slice", "label", "pred", "score").partition_by("slice", as_dict=True)
        found = []
        for key in sorted(parts):
            label, pred, score = (
                parts[key][name].to_numpy() for name in ("label", "pred", "score")
            )
            found += [roc_auc_score(label, score), f1_score(label, pred)]
            found.append(accuracy_score(label, pred))
        return np.array(found)

    return run


def polars_ds_rankings(frame: pl.DataFrame) -> Callable[[], Any]:
    """AUC and average precision of all rows by the plugin of polars-ds."""
    import polars_ds as pds

    asked = pds.query_binary_metrics("label", "score").alias("found")

    def run() -> Any:
        found = frame.select(asked)["found"].struct.unnest()
        return [found["roc_auc"][0], found["avg_precision"][0]]

    return run


def polars_ds_slices(frame: pl.DataFrame) -> Callable[[], Any]:
    """AUC by the plugin of polars-ds, F1 and accuracy by Polars, in one group-by."""
    import polars_ds as pds

    y, p = pl.col("label"), pl.col("pred")
    asked = [
        pds.query_roc_auc("label", "score").alias("roc_auc"),
        (2 * (y & p).sum() / (y.sum() + p.sum())).alias("f1"),
        (y == p).mean().alias("accuracy"),
    ]

    def run() -> Any:
        found = frame.group_by("slice").agg(asked).sort("slice")
        return found.select("roc_auc", "f1", "accuracy").to_numpy().ravel()

    return run


def delong(frame: pl.DataFrame) -> Callable[[], Any]:
    """AUC and its DeLong interval by confidenceinterval."""
    from confidenceinterval import roc_auc_score

    label, score = frame["label"].to_numpy().astype(int), frame["score"].to_numpy()

    def run() -> Any:
        estimate, limits = roc_auc_score(label, score)
        return [estimate, (limits[1] - limits[0]) / 2 / 1.959963984540054]

    return run
