"""How the estimates of groups vary together, where units have rows in several of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from frame_eval.inference.linear import (
    Linear,
    combined,
    gradients,
    group_codes,
    scattered,
    ways_of,
)
from frame_eval.inference.variance import within_strata
from frame_eval.table import Floats, Table

_ALONE = 1 - 1e-9  # the largest share of a unit, as one that is alone has no error
_FLAT = 1e-18  # of the largest variance: what varies by rounding alone


def influences_by_unit(found: Linear, units: int) -> tuple[Floats, Floats]:
    """Influences and shares as units x groups, of which the squares sum to the variances.

    With strata the influences are those around the mean of their stratum, and have no shares.
    """
    groups = len(found.estimate)
    at = found.unit * groups + found.group
    size = units * groups
    of_influence, of_share = (scattered(at, values, size) for values in _influences(found))
    return of_influence.reshape(units, groups), of_share.reshape(units, groups)


def _influences(found: Linear) -> tuple[Floats, Floats]:
    """Influences and shares, by the rows of the samples."""
    influence = np.sum([sample.influence for sample in found.samples], axis=0)
    share = np.mean([sample.share for sample in found.samples], axis=0)
    if found.strata is not None:
        return within_strata(found), np.zeros_like(share)
    return influence, share


def most_units(members: Sequence[Linear]) -> int:
    """How many units there are in all."""
    return 1 + max(int(found.unit.max(initial=0)) for found in members)


def inflation(share: Floats) -> Floats:
    """What the square of an influence is multiplied by for the leverage of its unit, as in CR2."""
    factor: Floats = 1 / (1 - np.minimum(share, _ALONE))
    return factor


def products(members: Sequence[Linear]) -> Floats:
    """The products of the influences of units on any two groups, inflated by leverage, summed.

    The groups are those of some linearisations, clustered one way. Units that stand for several are
    of one group each, where nothing else is known of them.
    """
    if members[0].together is not None:
        return members[0].together
    if any(found.times is not None for found in members):
        return np.diag(np.concatenate([_squares(found) for found in members]))
    units = most_units(members)
    parts = []
    for found in members:
        influence, share = influences_by_unit(found, units)
        parts.append(influence * np.sqrt(inflation(share)))
    inflated = np.hstack(parts)
    summed: Floats = inflated.T @ inflated
    return summed


def _squares(found: Linear) -> Floats:
    """The squares of the influences of units that stand for several, inflated, by group."""
    influence, share = _influences(found)
    squares = influence**2 * inflation(share) / np.asarray(found.times)
    return scattered(found.group, squares, len(found.estimate))


def products_of(found: Linear, table: Table) -> Floats:
    """The products of the influences of some units on any two groups, summed.

    The table has the sums of these units; what they do to the estimates is linearised already.
    """
    group = group_codes(table, found.systems)
    influence = combined(gradients(found.totals.metric, found.totals), group, table.sums)
    shape = int(table.unit.max(initial=0)) + 1, len(found.estimate)
    by_unit = scipy.sparse.csr_array((influence, (table.unit, group)), shape=shape)
    summed: Floats = (by_unit.T @ by_unit).toarray()
    return summed


def covariance(members: Sequence[Linear], variance: Floats) -> Floats:
    """The covariance of groups of these variances, correlated as their common units say.

    Of crossed clusters the products of one way and of the other are added and those of both
    together taken off. What is left may have negative eigenvalues, which are set to 0, as Cameron,
    Gelbach and Miller (2011) do. A group without variation of its own is correlated with none.
    """
    first, *others = (products(same) for same in zip(*map(ways_of, members), strict=True))
    if others:
        first = rooted(first + others[0] - others[1], 1.0)
    own = np.diag(first)
    error = np.sqrt(np.where(own > _FLAT * own.max(initial=0.0), own, np.inf))
    spread = np.sqrt(variance)
    found: Floats = first / np.outer(error, error) * np.outer(spread, spread)
    np.fill_diagonal(found, variance)
    return found


def rooted(matrix: Floats, power: float = 0.5) -> Floats:
    """The power of a symmetric matrix, its negative eigenvalues taken for 0."""
    values, vectors = np.linalg.eigh(matrix)
    # A zero that is one but for rounding would have a root that is not.
    values = np.where(values > 1e-12 * values.max(initial=0.0), values, 0.0)
    found: Floats = vectors * values**power @ vectors.T
    return found
