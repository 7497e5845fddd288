"""Differences of two systems on the same examples, from sums over the examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from frame_eval.inference.difference import Difference, Sides, has_values
from frame_eval.inference.linear import Linear, Sample, added, combined, gradients, linear
from frame_eval.inference.paired import BINARY, WITH_LIMITS, Method, analysed, tested
from frame_eval.metrics.core import Metric
from frame_eval.table import COUNTED, Floats, Table

METHODS = (*WITH_LIMITS, *BINARY, None)


@dataclass(frozen=True)
class Summed:
    """What two systems add up to over their examples, a row per slice and cluster.

    ``both`` has the contributions of the first system and then those of the second, and their
    second moments; its plain sums are followed by how many examples count for either system, differ
    in that, are higher, lower or equal, and are of both systems or of one (``COUNTED``).
    """

    both: Table

    def count(self, name: str) -> Floats:
        """How many examples, by row."""
        found: Floats = self.both.plain[:, len(self.both.names) + COUNTED.index(name)]
        return found

    def by_slice(self, name: str, slices: int) -> Floats:
        """How many examples, by slice."""
        return np.rint(added(self.both.slice, self.count(name), slices))


def sides(metric: Metric, found: Summed, slices: int) -> Sides:
    """Each system alone, estimated and linearised."""
    own = (len(found.both.names) - 1) // 2
    first, second = (
        linear(metric, _side(found.both, np.arange(own) + at), slices, 1) for at in (1, 1 + own)
    )
    # What is missing is counted for both systems together.
    return first, replace(second, missing=np.zeros(slices))


def _side(both: Table, columns: Any) -> Table:
    """The sums of one system."""
    columns = np.concatenate([[0], columns])
    names = ("n", *(both.names[i].partition("_")[2] for i in columns[1:]))
    sums = both.sums[:, columns]
    plain = sums if both.plain is both.sums else both.plain[:, columns]
    moments = None
    if both.moments is not None:
        moments = both.moments[:, columns[:, None], columns]
    return replace(both, names=names, sums=sums, plain=plain, moments=moments)


def summed(
    metric: Metric, found: Summed, of: Sides, method: Method, level: float, scale: float = 1.0
) -> Difference:
    """The difference of two systems in every slice, as :func:`paired` of the examples has it."""
    slices = len(of[0].estimate)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = _joint(metric, found, of, scale)
        grouped = joint.clusters < joint.n
        counted = np.array([found.by_slice(name, slices) for name in ("higher", "lower", "ties")])
        same = found.by_slice("differ", slices) == 0
        counted = np.where(same & has_values(metric), counted, np.nan)
        share = metric.proportion is not None and metric.proportion.map is None
        binary = same & ~grouped & (share and scale == 1 and not found.both.weighted)
        return tested(metric, method, analysed(metric, joint, method, level, binary, counted))


def _joint(metric: Metric, found: Summed, of: Sides, scale: float) -> Linear:
    """The difference of influences by cluster, as a linearisation of its own."""
    a, b = of
    both, slices = found.both, len(a.estimate)
    of_a, of_b = (gradients(metric, side.totals) for side in of)
    gradient = np.hstack([of_a[:, :1] - scale * of_b[:, :1], of_a[:, 1:], -scale * of_b[:, 1:]])
    influence = combined(gradient, both.slice, both.sums)
    assert both.moments is not None
    slope = gradient[both.slice]
    squares = np.einsum("ri,rij,rj->r", slope, both.moments, slope)
    squares += np.where(both.rows > 0, influence**2 / both.rows, 0.0)
    rows, none = found.count("either"), np.zeros(slices)
    times = 1.0 if both.times is None else both.times
    first, second = (side.samples[0] for side in of)
    if both.singles:
        part = (first.share * first.count + second.share * second.count) / 2
        each = np.where(rows > 0, part / rows, 0.0)
        sample = Sample(influence, squares, each, np.ones(len(rows)), rows, none)
        clusters = rows
    else:
        between = influence**2 / np.maximum(rows, 1.0)
        within = np.maximum(added(both.slice, squares - between, slices), 0.0)
        repeated = added(both.slice, rows > times, slices) > 0
        clusters = np.where(rows > 0, times, 0.0)
        share = (first.share + second.share) / 2
        within = np.where(repeated, within, none)
        sample = Sample(influence, influence**2 / times, share, rows / times, clusters, within)
    return replace(
        a,
        estimate=a.estimate - scale * b.estimate,
        n=added(both.slice, rows, slices),
        clusters=added(both.slice, clusters, slices),
        missing=a.missing + b.missing,
        samples=(sample,),
    )
