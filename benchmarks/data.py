"""The frames that are measured, each a function of its size, the same in every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

# The repositories of SWE-bench Verified and how many of its 500 problems each has.
REPOSITORIES = np.array([231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1])


def classified(rows: int, slices: int, clusters: int) -> pl.DataFrame:
    """Labels, predictions and scores in random order; the clusters are nested in the slices."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, clusters, rows)
    label = rng.random(rows) < 0.3
    return pl.DataFrame(
        {
            "slice": cluster % slices,
            "cluster": cluster,
            "label": label,
            "pred": label ^ (rng.random(rows) < 0.2),
            "score": rng.normal(size=rows) + label,
        }
    )


def tied(rows: int, slices: int, clusters: int) -> pl.DataFrame:
    """The same with scores of three decimals, so that most are tied."""
    return classified(rows, slices, clusters).with_columns(pl.col("score").round(3))


def two_systems(examples: int, clusters: int, *, equal: bool = False) -> pl.DataFrame:
    """Two systems on the same examples, in random order; in clusters of equal or of random size."""
    rng = np.random.default_rng(1)
    document = rng.integers(0, clusters, examples)
    if equal:
        document = rng.permutation(np.arange(examples) % clusters)
    order = rng.permutation(2 * examples)
    return pl.DataFrame(
        {
            "system": np.repeat(["a", "b"], examples)[order],
            "example": np.tile(np.arange(examples), 2)[order],
            "cluster": np.tile(document, 2)[order],
            "correct": (rng.random(2 * examples) < 0.7)[order],
        }
    )


def many_systems(systems: int) -> pl.DataFrame:
    """Many systems on the same 500 problems of twelve unequal repositories."""
    rng = np.random.default_rng(2)
    repo = np.repeat(np.arange(12), REPOSITORIES)
    hard = rng.random(len(repo))
    skill = np.linspace(0.4, 0.8, systems)[:, None]
    correct = rng.random((systems, len(repo))) < np.clip(skill + 0.5 - hard, 0.05, 0.95)
    return pl.DataFrame(
        {
            "system": np.repeat([f"s{i:02d}" for i in range(systems)], len(repo)),
            "example": np.tile(np.arange(len(repo)), systems),
            "repo": np.tile(repo, systems),
            "correct": correct.ravel(),
        }
    )


def written(rows: int, slices: int, clusters: int, folder: Path) -> Path:
    """The classified rows as Parquet, among columns that no metric reads."""
    path = folder / f"classified-{rows}.parquet"
    if not path.exists():
        frame = classified(rows, slices, clusters)
        text = pl.concat_str(pl.lit("the answer of row "), pl.int_range(pl.len()))
        noise = [(pl.col("score") * k).alias(f"other_{k}") for k in range(2, 6)]
        frame.with_columns(text.alias("answer"), *noise).write_parquet(path)
    return path
