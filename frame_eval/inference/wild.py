"""The wild cluster bootstrap: a test of differences for few clusters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from frame_eval.table import Floats, Ints

FEW_CLUSTERS = 12
SIGNS: Floats = np.array([-1.0, 1.0])
WEBB: Floats = np.outer(SIGNS, np.sqrt([0.5, 1.0, 1.5])).ravel()

_BLOCK = 4_000_000  # numbers that are worked on at once
_ROUNDING = 1e-11  # relative: where two statistics are equal


def wild(
    influence: Floats,
    share: Floats,
    group: Ints,
    estimate: Floats,
    resamples: int = 9999,
    seed: int = 0,
) -> Floats:
    """The null-imposed wild cluster bootstrap-t test that each estimate is 0 (two-sided p).

    A cluster g contributes x_g = estimate * share_g + influence_g, and the contributions sum to
    the estimate. Under the null they are as likely with either sign: every draw takes v_g x_g,
    with theta* their sum, and studentises it anew by the residuals left around it,

        t* = theta* / sqrt(sum (v_g x_g - theta* share_g)^2),

    the CR1 error, whose factor C / (C - 1) cancels against that of the data's own t. p is the
    share of |t*| >= |t|, ties counted.

    Where 2^C <= ``resamples`` all signs are taken once (half of them: v and -v give the same
    |t*|), and p is exact under symmetry. Else signs are drawn, or Webb's six-point weights under
    twelve clusters, and p = (1 + count) / (1 + resamples).

    Parameters
    ----------
    influence, share
        By cluster: the sum of its linearised differences, and its part of the denominator.
    group
        The estimate that each cluster belongs to, 0, 1, ...; in any order, but the clusters of a
        group in an order of their own, on which the draws depend.
    estimate
        By group.
    resamples, seed
        The number of draws, and where they start. A group's draws depend on its own clusters only.

    Returns
    -------
    numpy.ndarray
        p by group, NaN for an undefined estimate or under two clusters. A cluster that contributes
        nothing and has no share is none.

    Notes
    -----
    Cameron, Gelbach and Miller (2008); Webb (2014); Roodman, MacKinnon, Nielsen and Webb (2019),
    whose WCR this is.

    Examples
    --------
    Three clusters with differences of one sign: of the eight sign patterns two are as extreme.

    >>> import numpy as np
    >>> x = np.array([0.1, 0.2, 0.3])
    >>> share = np.full(3, 1 / 3)
    >>> wild(x - x.sum() * share, share, np.zeros(3, int), np.array([x.sum()]))
    array([0.25])
    """
    inside = np.flatnonzero((share != 0) | (influence != 0))
    order = inside[np.argsort(group[inside], kind="stable")]
    clusters = np.bincount(group[inside], minlength=len(estimate))
    first = np.cumsum(clusters) - clusters
    p = np.full(len(estimate), np.nan)
    usable = (clusters >= 2) & np.isfinite(estimate)
    for size in np.unique(clusters[usable]):
        alike = np.flatnonzero(usable & (clusters == size))
        many = max(1, _BLOCK // min(resamples, _BLOCK // int(size) + 1))
        for groups in np.split(alike, range(many, len(alike), many)):
            rows = order[first[groups] + np.arange(size)[:, None]]
            contribution = estimate[groups] * share[rows] + influence[rows]
            p[groups] = _p_values(contribution, share[rows], resamples, seed)
    return p


def _p_values(x: Floats, share: Floats, resamples: int, seed: int) -> Floats:
    """p of groups that have equally many clusters (clusters x groups)."""
    clusters = len(x)
    theta, variance = _statistic(x, share, np.ones((1, clusters)))
    count, total = np.zeros(x.shape[1]), 0
    for drawn in _draws(clusters, resamples, seed):
        theta_star, variance_star = _statistic(x, share, drawn)
        # |t*| >= |t| without a division: an error of 0 makes t infinite.
        extreme = theta_star**2 * variance >= theta**2 * variance_star * (1 - _ROUNDING)
        count += extreme.sum(0)
        total += len(drawn)
    if _enumerable(clusters, resamples):
        return count / total
    return (1 + count) / (1 + total)


def _statistic(x: Floats, share: Floats, drawn: Floats) -> tuple[Floats, Floats]:
    """theta* and the sum of squared residuals around it (draws x groups)."""
    theta = drawn @ x
    squares = drawn**2 @ x**2
    variance = squares - 2 * theta * (drawn @ (x * share)) + theta**2 * (share**2).sum(0)
    return theta, np.where(variance > _ROUNDING * squares, variance, 0.0)


def _enumerable(clusters: int, resamples: int) -> bool:
    return clusters < 63 and 2**clusters <= resamples


def _draws(clusters: int, resamples: int, seed: int) -> Iterator[Floats]:
    """The weights of the clusters, in blocks of draws (draws x clusters)."""
    block = max(1, _BLOCK // clusters)
    if _enumerable(clusters, resamples):
        patterns = np.arange(2 ** (clusters - 1))
        for part in np.split(patterns, range(block, len(patterns), block)):
            yield np.where(part[:, None] >> np.arange(clusters) & 1, -1.0, 1.0)
        return
    rng = np.random.default_rng(seed)
    weights = WEBB if clusters < FEW_CLUSTERS else SIGNS
    for start in range(0, resamples, block):
        size = (min(block, resamples - start), clusters)
        yield np.take(weights, rng.integers(0, len(weights), size, np.int8))
