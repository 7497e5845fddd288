"""Differences of two systems on the same examples, from sums over the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from frame_eval.inference.difference import Difference, Sides, has_values
from frame_eval.inference.linear import (
    Linear,
    Sample,
    added,
    combined,
    gradients,
    linear,
    scattered,
    spread,
)
from frame_eval.inference.paired import BINARY, RESAMPLING, WITH_LIMITS, Method, analysed, tested
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.resampled import Resampling, by_bootstrap, by_permutation, by_wild
from frame_eval.metrics.core import Array, Metric, Sums
from frame_eval.table import Floats, Matched, Table

METHODS = (*WITH_LIMITS, *BINARY, None)


@dataclass(frozen=True)
class Summed:
    """What two systems add up to over their examples, a row per slice and cluster.

    ``both`` has the contributions of the first system and then those of the second. ``either`` says
    how many examples of each row count for either system; ``counts`` by name, how many of each
    slice differ in that, and are higher, lower or equal. ``spread`` are the centred second moments
    of the contributions by slice; without it they are those of the rows of ``both``.
    """

    both: Table
    either: Floats
    counts: Mapping[str, Floats]
    spread: Floats | None = None


def of_tables(both: Table, counts: Table, slices: int) -> Summed:
    """From the table of contributions and that of counts of examples."""
    named = dict(zip(counts.names, counts.sums.T, strict=True))
    by_slice = {name: added(both.slice, values, slices) for name, values in named.items()}
    return Summed(both, named["either"], by_slice)


def of_matched(
    metric: Metric, position: int, found: Matched, pairs: Sequence[tuple[int, int]], slices: int
) -> Summed:
    """From examples side by side; a pair of systems after the other, with slices of its own."""
    rows_of, groups = len(found.slice), len(pairs) * slices
    number = np.arange(len(pairs))[:, None]
    place = found.place if len(pairs) == 1 else (number * rows_of + found.place).ravel()
    slice_of = (number * slices + found.slice).ravel()
    sums = found.sums[position]
    a, b = (
        {k: x[list(systems)].ravel() for k, x in sums.items()}
        for systems in zip(*pairs, strict=True)
    )
    values = [*a.values(), *b.values()]
    part = np.zeros(1, np.int64) if groups == 1 else slice_of[place]
    rows = np.bincount(place, minlength=len(slice_of)).astype(float)
    n = np.maximum(added(slice_of, rows, groups), 1.0)

    def by_slice(of_examples: Array) -> Floats:
        if groups == 1:
            return np.array([of_examples.sum(dtype=float)])
        return scattered(part, of_examples, groups)

    matrix = np.stack([rows, *(scattered(place, x, len(slice_of)) for x in values)]).T
    both = Table(
        ("n", *(f"a_{name}" for name in a), *(f"b_{name}" for name in b)),
        slice_of,
        np.zeros_like(slice_of),
        np.tile(found.unit, len(pairs)),
        (),
        (),
        rows,
        matrix,
        matrix,
        None,
        np.zeros(len(rows)),
        singles=False,
        weighted=False,
    )
    sizes = [np.broadcast_to(_size(metric, side), place.shape) for side in (a, b)]
    there = (sizes[0] > 0) | (sizes[1] > 0)
    counted = {"differ": sizes[0] != sizes[1]}
    if has_values(metric):
        x, y = (_over(metric, side) for side in (a, b))
        counted.update(higher=there & (x > y), lower=there & (x < y), ties=there & (x == y))
    counts = {name: by_slice(of_examples) for name, of_examples in counted.items()}
    means = [by_slice(x) / n for x in values]
    # Large means would cancel; counts are exact as they are.
    centred = [
        x if x.dtype == np.int8 else x - spread(mean, part)
        for x, mean in zip(values, means, strict=True)
    ]
    sums_of = [by_slice(x) for x in centred]
    moments = np.zeros((groups, len(both.names), len(both.names)))
    for i, x in enumerate(centred):
        for j, y in enumerate(centred[: i + 1]):
            product = by_slice(x * y) - sums_of[i] * sums_of[j] / n
            moments[:, i + 1, j + 1] = moments[:, j + 1, i + 1] = product
    either = rows if there.all() else scattered(place, there, len(slice_of))
    return Summed(both, either, counts, moments)


def _size(metric: Metric, sums: Mapping[str, Array]) -> Any:
    """How many rows of an example are behind the denominator of a metric."""
    plain = Sums({"n": 1.0, **sums})
    if metric.proportion is not None:
        return metric.proportion.trials(plain)
    return getattr(plain, next(iter(metric.samples or {"n": ()}))) if metric.counts else 1.0


def _over(metric: Metric, sums: Mapping[str, Array]) -> Any:
    """What an example counts for the numerator of a mean or share."""
    if metric.proportion is not None:
        return metric.proportion.hits(Sums({"n": 1.0, **sums}))
    (values,) = sums.values()
    return values


def sides(metric: Metric, found: Summed, slices: int) -> Sides:
    """Each system alone, estimated and linearised."""
    own = (len(found.both.names) - 1) // 2
    first, second = (
        linear(metric, _side(found.both, np.arange(own) + at), slices, 1, errors=False)
        for at in (1, 1 + own)
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
    metric: Metric,
    found: Summed,
    of: Sides,
    method: Method,
    level: float,
    draws: Draws = DRAWS,
    scale: float = 1.0,
) -> Difference:
    """The difference of two systems in every slice, as :func:`paired` of the examples has it."""
    slices = len(of[0].estimate)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = _joint(metric, found, of, scale)
        grouped = joint.clusters < joint.n
        nothing = np.zeros(slices)
        counted = np.array([found.counts.get(k, nothing) for k in ("higher", "lower", "ties")])
        same = found.counts["differ"] == 0
        counted = np.where(same & has_values(metric), counted, np.nan)
        share = metric.proportion is not None and metric.proportion.map is None
        binary = same & ~grouped & (share and scale == 1 and not found.both.weighted)
        result = analysed(metric, joint, method, level, binary, counted)
        if method in RESAMPLING:
            how = Resampling([side.table.unit for side in of], None, grouped, level, draws, scale)
            by = by_permutation if method == "permutation" else by_bootstrap
            result = by(result, metric, of, method, how)
        elif method == "wild":
            result = by_wild(result, joint, grouped, draws)
        return tested(metric, method, result)


def _joint(metric: Metric, found: Summed, of: Sides, scale: float) -> Linear:
    """The difference of influences by cluster, as a linearisation of its own."""
    a, b = of
    both, slices = found.both, len(a.estimate)
    of_a, of_b = gradients(metric, a.totals), scale * gradients(metric, b.totals)
    # Each system on its own, so that the order of the two changes no digit.
    influence = combined(of_a, both.slice, a.table.sums) - combined(of_b, both.slice, b.table.sums)
    gradient = np.hstack([of_a[:, :1] - of_b[:, :1], of_a[:, 1:], -of_b[:, 1:]])
    rows, none = found.either, np.zeros(slices)
    first, second = (side.samples[0] for side in of)
    if both.singles:
        part = (first.share * first.count + second.share * second.count) / 2
        each = np.where(rows > 0, part / rows, 0.0)
        squares = _squares(both, gradient, influence)
        sample = Sample(influence, squares, each, np.ones(len(rows)), rows, none)
        clusters = rows
    else:
        between = influence**2 / np.maximum(rows, 1.0)
        if found.spread is None:
            squares = added(both.slice, _squares(both, gradient, influence), slices)
        else:
            squares = _spread(found.spread, of_a[:, 1:], of_b[:, 1:])
        within = np.maximum(squares - added(both.slice, between, slices), 0.0)
        repeated = added(both.slice, rows > 1, slices) > 0
        clusters = (rows > 0).astype(float)
        share = (first.share + second.share) / 2
        within = np.where(repeated, within, none)
        sample = Sample(influence, influence**2, share, rows, clusters, within)
    return replace(
        a,
        estimate=a.estimate - scale * b.estimate,
        n=added(both.slice, rows, slices),
        clusters=added(both.slice, clusters, slices),
        missing=a.missing + b.missing,
        samples=(sample,),
    )


def _spread(moments: Floats, a: Floats, b: Floats) -> Floats:
    """The sum of squares of the difference, by slice, for the slopes of both systems."""
    own = slice(1, 1 + a.shape[1]), slice(1 + a.shape[1], None)

    def product(x: Floats, y: Floats, block: Floats) -> Floats:
        return np.asarray((x[:, :, None] * y[:, None, :] * block).sum((1, 2)))

    squares = product(a, a, moments[:, own[0], own[0]]) + product(b, b, moments[:, own[1], own[1]])
    return squares - 2 * product(a, b, moments[:, own[0], own[1]])


def _squares(both: Table, gradient: Floats, influence: Floats) -> Floats:
    """The squares of the influences of the examples behind every row."""
    assert both.moments is not None
    slope = gradient[both.slice]
    within: Floats = np.einsum("ri,rij,rj->r", slope, both.moments, slope)
    return within + np.where(both.rows > 0, influence**2 / both.rows, 0.0)
