"""Differences of two systems on the same examples, from sums over the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference.difference import Difference, Sides, has_values
from frame_eval.inference.linear import (
    Linear,
    Sample,
    added,
    by_sample,
    combined,
    gradients,
    linear,
    scattered,
    spread,
)
from frame_eval.inference.paired import (
    BINARY,
    RESAMPLING,
    WITH_LIMITS,
    Method,
    analysed,
    of_strata,
    tested,
)
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.resampled import Resampling, by_draws, by_wild
from frame_eval.metrics.core import Array, Metric, Sums
from frame_eval.table import COUNTED, Floats, Ints, Matched, Table

METHODS = (*WITH_LIMITS, *BINARY, *RESAMPLING, None)
_BITS = 4  # of patterns that are worth a count of their own


@dataclass(frozen=True)
class Summed:
    """What two systems add up to over their examples, a row per slice and cluster.

    ``both`` has the contributions of the first system and then those of the second; its plain sums
    are followed by how many examples count for either system, by sample, and by how many differ in
    what they add, differ in how they count, are higher, lower or equal, and are of both systems or
    of one (``COUNTED``). ``spread``
    has the centred second moments of the contributions by slice; without it they are those of the
    rows of ``both``.
    """

    both: Table
    spread: Floats | None = None

    def count(self, name: str) -> Floats:
        """How many examples, by row."""
        found: Floats = self.both.plain[:, COUNTED.index(name) - len(COUNTED)]
        return found

    def either(self, sample: int) -> Floats:
        """How many examples count for either system in one of the samples, by row."""
        found: Floats = self.both.plain[:, len(self.both.names) + sample]
        return found

    def by_slice(self, name: str, slices: int) -> Floats:
        """How many examples, by slice."""
        return np.rint(added(self.both.slice, self.count(name), slices))


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
    examples = _Examples(a, b, place, slice_of, groups).in_patterns()
    rows = examples.by_row(examples.ones)
    columns = [rows, *map(examples.by_row, examples.values)]
    compared = _compared(metric, examples.a, examples.b, examples.ones.shape)
    counts = {"both": rows, **{name: examples.by_row(x) for name, x in compared.items()}}
    counted = [counts.get(name, np.zeros_like(rows)) for name in ("either", *COUNTED)]
    both = Table(
        ("n", *(f"a_{name}" for name in a), *(f"b_{name}" for name in b)),
        slice_of,
        np.zeros_like(slice_of),
        np.tile(found.unit, len(pairs)),
        (),
        (),
        rows,
        np.stack(columns).T,
        np.stack([*columns, *counted]).T,
        None,
        np.zeros(len(rows)),
        singles=False,
        weighted=False,
    )
    return Summed(both, _moments(examples, added(slice_of, rows, groups)))


@dataclass(frozen=True)
class _Examples:
    """What examples contribute to two systems, and the row and slice that each belongs to.

    Where contributions are 0 or 1, examples are of few patterns: these then stand for them, and
    ``counts`` says how many there are of each (rows x patterns).
    """

    a: Mapping[str, Array]
    b: Mapping[str, Array]
    place: Ints
    slice_of: Ints
    groups: int
    counts: Floats | None = None

    def in_patterns(self) -> _Examples:
        """The same as patterns, if these are few."""
        bits = len(self.values)
        if bits > _BITS or any(x.dtype != np.int8 for x in self.values):
            return self
        key = self.place << bits
        for bit, x in enumerate(self.values):
            key += x << bit
        counts = np.bincount(key, minlength=len(self.slice_of) << bits).reshape(-1, 1 << bits)
        patterns = iter((np.arange(1 << bits) >> np.arange(bits)[:, None] & 1).astype(np.int8))
        a, b = ({name: next(patterns) for name in side} for side in (self.a, self.b))
        return replace(self, a=a, b=b, counts=counts.astype(float))

    @property
    def ones(self) -> Array:
        """A one for each of the examples."""
        return np.ones(len(self.place) if self.counts is None else self.counts.shape[1], np.int8)

    @property
    def values(self) -> list[Array]:
        """The contributions to both systems, one sum after the other."""
        return [*self.a.values(), *self.b.values()]

    def by_row(self, values: Array) -> Floats:
        """Values of the examples added up by row."""
        if self.counts is not None:
            return np.asarray(self.counts @ values, float)
        return scattered(self.place, values, len(self.slice_of))

    def by_slice(self, values: Array) -> Floats:
        """Values of the examples added up by slice."""
        if self.counts is not None:
            return added(self.slice_of, self.by_row(values), self.groups)
        if self.groups == 1:
            return np.array([values.sum(dtype=float)])
        return scattered(self.part, values, self.groups)

    @cached_property
    def part(self) -> Ints:
        """The slice of every example."""
        return np.zeros(1, np.int64) if self.groups == 1 else self.slice_of[self.place]


def _compared(
    metric: Metric, a: Mapping[str, Array], b: Mapping[str, Array], shape: tuple[int, ...]
) -> dict[str, Array]:
    """Which examples count for either system, differ, and are higher, lower or equal."""
    sizes = [np.broadcast_to(_size(metric, side), shape) for side in (a, b)]
    there = (sizes[0] > 0) | (sizes[1] > 0)
    apart = np.any([a[name] != b[name] for name in a], axis=0) & np.ones(shape, bool)
    found = {"either": there, "apart": apart, "differ": sizes[0] != sizes[1]}
    if has_values(metric):
        x, y = (_over(metric, side) for side in (a, b))
        found.update(higher=there & (x > y), lower=there & (x < y), ties=there & (x == y))
    return found


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
    return sums["x"]


def _moments(of: _Examples, rows: Floats) -> Floats:
    """The centred second moments of what examples contribute, by slice; those of ``n`` are 0."""
    n, size = np.maximum(rows, 1.0), 1 + len(of.values)
    # Large means would cancel; counts are exact as they are.
    centred = [
        x if x.dtype == np.int8 else x - spread(of.by_slice(x) / n, of.part) for x in of.values
    ]
    sums = [of.by_slice(x) for x in centred]
    moments = np.zeros((len(rows), size, size))
    for i, x in enumerate(centred):
        for j, y in enumerate(centred[: i + 1]):
            product = of.by_slice(x * y) - sums[i] * sums[j] / n
            moments[:, i + 1, j + 1] = moments[:, j + 1, i + 1] = product
    return moments


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
    moments = None
    if both.moments is not None:
        moments = both.moments[:, columns[:, None], columns]
    sums, plain = both.sums[:, columns], both.plain[:, columns]
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
        counted = np.array([found.by_slice(name, slices) for name in ("higher", "lower", "ties")])
        same = found.by_slice("differ", slices) == 0
        counted = np.where(same & has_values(metric), counted, np.nan)
        share = metric.proportion is not None and metric.proportion.map is None
        alike = scale == 1 and not found.both.weighted and found.both.strata is None
        binary = same & ~grouped & (share and alike)
        result = analysed(metric, joint, method, level, binary, counted)
        if method in RESAMPLING:
            units, strata = [side.table.unit for side in of], found.both.strata
            how = Resampling(units, strata, grouped, level, draws, scale)
            result = by_draws(result, metric, of, method, how)
        elif method == "wild":
            result = by_wild(result, joint, grouped, draws)
        return tested(metric, method, of_strata(joint, result))


def _joint(metric: Metric, found: Summed, of: Sides, scale: float) -> Linear:
    """The difference of influences by cluster, as a linearisation of its own."""
    a, b = of
    both, slices = found.both, len(a.estimate)
    of_a, of_b = gradients(metric, a.totals), scale * gradients(metric, b.totals)
    if scale == 1:
        # Systems that are alike have no difference at all, and none by rounding.
        of_a, of_b = (
            np.where(found.by_slice("apart", slices)[:, None], x, 0.0) for x in (of_a, of_b)
        )
    own = by_sample(metric, a.table.names)
    each = [_sample(found, of, k, of_a * m, of_b * m) for k, (_, m) in enumerate(own)]
    rows = np.array([found.either(k) for k in range(len(own))])
    if both.singles and len(own) > 1 and (np.count_nonzero(rows, axis=0) > 1).any():
        raise EvalError(
            f"{metric.name!r}: examples have another label for one system than for the other, so "
            "that they count in two samples; say cluster=<the example>, or give each one label"
        )
    if both.singles:
        clusters = rows.max(0)
    else:
        clusters = np.where(rows.any(0), 1.0 if both.times is None else both.times, 0.0)
    return replace(
        a,
        estimate=a.estimate - scale * b.estimate,
        n=added(both.slice, np.minimum(rows.sum(0), found.count("both")), slices),
        clusters=added(both.slice, clusters, slices),
        missing=a.missing + b.missing,
        samples=tuple(each),
    )


def _sample(found: Summed, of: Sides, number: int, of_a: Floats, of_b: Floats) -> Sample:
    """One sample of the difference, by cluster or by sets of like examples."""
    (a, b), both, slices = of, found.both, len(of_a)
    # Each system on its own, so that the order of the two changes no digit.
    influence = combined(of_a, both.slice, a.table.sums) - combined(of_b, both.slice, b.table.sums)
    gradient = np.hstack([of_a[:, :1] - of_b[:, :1], of_a[:, 1:], -of_b[:, 1:]])
    rows, none = found.either(number), np.zeros(slices)
    first, second = (side.samples[number] for side in of)
    weight = np.maximum(first.weight, second.weight)
    if both.singles:
        part = (first.share * first.count + second.share * second.count) / 2
        each = np.where(rows > 0, part / rows, 0.0)
        squares = _squares(both, gradient, influence)
        return Sample(influence, squares, each, np.ones(len(rows)), rows, none, weight)
    times = 1.0 if both.times is None else both.times
    between = influence**2 / np.maximum(rows, 1.0)
    if found.spread is None:
        squares = added(both.slice, _squares(both, gradient, influence), slices)
    else:
        squares = _spread(found.spread, of_a[:, 1:], of_b[:, 1:])
    within = np.maximum(squares - added(both.slice, between, slices), 0.0)
    repeated = added(both.slice, rows > times, slices) > 0
    share, count = (first.share + second.share) / 2, np.where(rows > 0, times, 0.0)
    within = np.where(repeated, within, none)
    return Sample(influence, influence**2 / times, share, rows / times, count, within, weight)


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
