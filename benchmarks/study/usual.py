"""What people would otherwise call, for many replicates at once.

Where the programs themselves are too slow for thousands of replicates these are their formulas;
``tests/inference/test_coverage_study.py`` compares them with the programs.
"""

from __future__ import annotations

import warnings
from typing import TypeAlias

import numpy as np
from scipy import special, stats

Limits: TypeAlias = "tuple[np.ndarray, np.ndarray]"
TAILS = (0.025, 0.975)
Z = float(special.ndtri(0.975))
DRAWS = 999


def normal(estimate: np.ndarray, error: np.ndarray) -> Limits:
    """The normal approximation, estimate -+ 1.96 errors."""
    return estimate - Z * error, estimate + Z * error


def row_bootstrap(hits: np.ndarray, trials: np.ndarray) -> Limits:
    """Percentile bootstrap of a share of independent rows, with as many draws as there are."""
    low, high = (stats.binom.ppf(tail, trials, hits / trials) / trials for tail in TAILS)
    return low, high


def scipy_bootstrap(values: np.ndarray, method: str) -> Limits:
    """``scipy.stats.bootstrap`` of the mean of every row of a matrix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BCa of equal values: no limits, and it says so
        found = stats.bootstrap(
            (values,),
            np.mean,
            axis=-1,
            method=method,
            n_resamples=DRAWS,
            batch=50,
            rng=np.random.default_rng(0),
        )
    return found.confidence_interval.low, found.confidence_interval.high


def cr1_error(residuals: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The error of a mean in a cluster regression of statsmodels: CR1 with its factor.

    From the sums of residuals by cluster (replicates, clusters) and the number of rows.
    """
    clusters = residuals.shape[1]
    return np.sqrt(clusters / (clusters - 1) * (residuals**2).sum(1)) / rows


def two_way_error(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The error of the mean of values (replicates, rows) in a two-way cluster regression.

    As statsmodels has it: CR1 one way, the other way, less both together; NaN where that is under
    0.
    """
    off, total = x - x.mean(1, keepdims=True), np.zeros(len(x))
    both = np.unique(np.stack([first, second]), axis=1, return_inverse=True)[1].ravel()
    for way, sign in ((first, 1), (second, 1), (both, -1)):
        order = np.argsort(way, kind="stable")
        starts = np.flatnonzero(np.diff(way[order], prepend=-1))
        sums = np.add.reduceat(off[:, order], starts, axis=1)
        total += sign * cr1_error(sums, np.array(x.shape[1])) ** 2
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(total))


def cr1(estimate: np.ndarray, error: np.ndarray, clusters: int) -> tuple[Limits, Limits]:
    """CR1 limits with the normal (statsmodels' default) and with t(C - 1)."""
    t = stats.t.ppf(0.975, clusters - 1)
    return normal(estimate, error), (estimate - t * error, estimate + t * error)


def two_sided(estimate: np.ndarray, error: np.ndarray, df: float) -> np.ndarray:
    """p-values of estimate over error against t; 0 over 0 does not reject."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(2 * stats.t.sf(np.abs(estimate / error), df))


def minimum_bootstrap(hits: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> Limits:
    """Percentiles of the smallest share over resampled rows: fairlearn's ``group_min_ci``.

    Rows are drawn from the whole set, so that the sizes of slices vary too.
    """
    limits = []
    for own in hits:
        cells = np.stack([own, sizes - own], -1)
        drawn = rng.multinomial(sizes.sum(), cells.ravel() / sizes.sum(), DRAWS)
        drawn = drawn.reshape(DRAWS, *cells.shape)
        lowest = (drawn[..., 0] / drawn.sum(-1)).min(1)
        limits.append(np.quantile(lowest, TAILS))
    low, high = np.transpose(limits)
    return low, high
