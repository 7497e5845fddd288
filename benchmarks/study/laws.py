"""Data from known laws: many replicates at once, so that one call of the library sees them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

REPOSITORIES = (231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1)


def equal(clusters: int, rows: int = 10) -> tuple[int, ...]:
    """Clusters of one size."""
    return (rows,) * clusters


def unequal(clusters: int) -> tuple[int, ...]:
    """Geometric sizes from 1 to 60: half of the rows are in a sixth of the clusters."""
    return tuple(int(size) for size in np.geomspace(1, 60, clusters).round())


def design_effect(sizes: tuple[int, ...], icc: float, relevant: float = 1.0) -> float:
    """True variance of a share over that of independent rows; a share ``relevant`` of rows counts.

    1 + icc relevant (sum m^2 / sum m - 1), the sizes m fixed and the relevant rows at random.
    """
    m = np.array(sizes)
    return float(1 + icc * relevant * ((m**2).sum() / m.sum() - 1))


@dataclass(frozen=True)
class Counts:
    """Hits and misses among the rows that count, and the other rows: (replicates, clusters)."""

    hits: np.ndarray
    misses: np.ndarray
    others: np.ndarray

    def first(self, replicates: int) -> Counts:
        """The first replicates only, for methods that are slow."""
        return Counts(*(x[:replicates] for x in (self.hits, self.misses, self.others)))

    def rows(self) -> pl.DataFrame:
        """A row per example: ``replicate``, ``cluster``, ``kind`` (0 hit, 1 miss, 2 other)."""
        counts = np.stack([self.hits, self.misses, self.others], -1)
        keys = np.indices(counts.shape, np.int32).reshape(3, -1)
        replicate, cluster, kind = (np.repeat(key, counts.ravel()) for key in keys)
        return pl.DataFrame({"replicate": replicate, "cluster": cluster, "kind": kind})


def counts(
    rng: np.random.Generator,
    replicates: int,
    sizes: tuple[int, ...],
    p: float,
    icc: float,
    relevant: float = 1.0,
) -> Counts:
    """Beta-binomial hits: a cluster's rate has mean ``p`` and variance ``icc p (1 - p)``."""
    shape = (replicates, len(sizes))
    trials = rng.binomial(sizes, relevant, shape)
    rates = p if icc == 0 else rng.beta(p * (1 / icc - 1), (1 - p) * (1 / icc - 1), shape)
    hits = rng.binomial(trials, rates)
    return Counts(hits, trials - hits, np.array(sizes) - trials)


def values(
    rng: np.random.Generator, replicates: int, sizes: tuple[int, ...], icc: float
) -> np.ndarray:
    """Standard normal values (replicates, rows) with a normal effect of each cluster."""
    effect = rng.normal(size=(replicates, len(sizes))).repeat(sizes, axis=1)
    return np.sqrt(icc) * effect + np.sqrt(1 - icc) * rng.normal(size=effect.shape)


def ratings(items: int, raters: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """The item and the rater of every row: so many raters see each item, all of them as often."""
    item = np.repeat(np.arange(items), each)
    # The next raters in turn; one further after each round, so that others are together.
    return item, (np.arange(len(item)) + item // raters) % raters


def rated(
    rng: np.random.Generator,
    replicates: int,
    item: np.ndarray,
    rater: np.ndarray,
    of_item: float,
    of_rater: float,
) -> np.ndarray:
    """Standard normal values (replicates, rows) with normal effects of items and of raters."""
    effects = [rng.normal(size=(replicates, way.max() + 1))[:, way] for way in (item, rater)]
    noise = rng.normal(size=(replicates, len(item)))
    return (
        np.sqrt(of_item) * effects[0]
        + np.sqrt(of_rater) * effects[1]
        + np.sqrt(1 - of_item - of_rater) * noise
    )


def rows_of(array: np.ndarray, sizes: tuple[int, ...], name: str = "x") -> pl.DataFrame:
    """Values (replicates, rows) as a frame with ``replicate`` and ``cluster``."""
    replicates, rows = array.shape
    return pl.DataFrame(
        {
            "replicate": np.repeat(np.arange(replicates, dtype=np.int32), rows),
            "cluster": np.tile(np.repeat(np.arange(len(sizes)), sizes), replicates),
            name: array.ravel(),
        }
    )
