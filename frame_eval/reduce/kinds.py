"""Many units made few that say the same of every sum over units that a variance is made of.

Such sums are of squares of what units add up to, times functions of their sizes. Units of equal
sizes may therefore be replaced by as many with the same mean and covariance: some at the mean, and
as many on either side of it in each direction in which they vary. Where units are to be drawn, only
equal ones are replaced, by one that stands for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from frame_eval.errors import BeyondMemory
from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.coding import codes
from frame_eval.running import current
from frame_eval.table import COUNTED, Floats, Ints, Table, apart, strata_of, whole_kinds

_NONE = 1e-15  # of a correlation matrix: what rounding leaves of a direction without variance


def in_kinds(metric: Metric, tables: Sequence[Table], bits: int) -> Table:
    """The units of some tables that have none in common, as fewer units with ``times``.

    Counts of one kind are the same; denominators that are no counts agree to some ``bits``, which
    moves a variance by less than the largest share of a unit times 2^-``bits``.
    """
    found = _side_by_side(tables)
    if found.singles:
        # Sets of rows of one weight say how these vary: sets of like weights are one set.
        weight = found.sums[:, 0] / np.maximum(found.rows, 1)
        keys = pl.DataFrame([_rounded(weight, bits), *_strata(found)])
        like, distinct = codes(keys, keys.columns)
        strata = None if found.strata is None else distinct.to_series(1).to_numpy()
        return replace(found, unit=like, strata=strata, times=None).merged()
    return _fewer(
        found, *_kinds_of(found, _sizes(metric, found), _denominators(metric, found), bits)
    )


def pairs_in_kinds(metric: Metric, tables: Sequence[Table], bits: int) -> Table:
    """The units of two systems side by side, as :func:`in_kinds` has those of one.

    The sums of the second system follow those of the first; counts follow the plain sums, the first
    of them being, by sample, of the examples that count.
    """
    found = _side_by_side(tables)
    own, width = (len(found.names) - 1) // 2, len(found.names)
    sides = [_columns(found, [0, *range(at, at + own)]) for at in (1, 1 + own)]
    samples = len(metric.samples or ("n",))
    sizes = list(found.plain[:, width : width + samples].T / np.asarray(found.times))
    sizes += [size for side in sides for size in _sizes(metric, side)]
    denominators = [one for side in sides for one in _denominators(metric, side)]
    return _fewer(found, *_kinds_of(found, sizes, denominators, bits))


def in_equals(metric: Metric, tables: Sequence[Table], _: int = 0) -> Table:
    """The units of some tables that have none in common, equal ones as one with ``times``.

    They are told apart as a bootstrap does, which draws many of one kind as it does each of them.
    """
    found = _side_by_side(tables)
    if not found.singles:
        sums = found.sums if not found.weighted else np.hstack([found.sums, found.plain])
        return _equal(metric, found, sums / np.asarray(found.times)[:, None])
    # Of rows that are counted, the weight says what they can be.
    width = 1 if metric.counts or metric.proportion is not None else len(found.names)
    each = found.sums[:, :width] / np.maximum(found.rows, 1)[:, None]
    return replace(_equal(metric, found, each), times=None)


def pairs_in_equals(metric: Metric, tables: Sequence[Table], _: int = 0) -> Table:
    """The units of two systems side by side, as :func:`in_equals` has those of one."""
    found = _without_lonely(_side_by_side(tables))
    counted = len(found.names) + len(metric.samples or ("n",))
    each = np.hstack([found.sums, found.plain[:, :counted]])
    return _equal(metric, found, each / np.asarray(found.times)[:, None])


def _without_lonely(found: Table) -> Table:
    """Units without an example of both systems, which are not drawn, made part of one that is.

    What is counted of them by slice stays. Where none of a slice is drawn they are left.
    """
    drawn = found.plain[:, COUNTED.index("both") - len(COUNTED)] > 0
    there = np.flatnonzero(drawn)
    if not 0 < len(there) < len(drawn):
        return found
    host = np.searchsorted(found.slice[there], found.slice)
    host = there[np.minimum(host, len(there) - 1)]
    lonely = ~drawn & (found.slice[host] == found.slice)
    place = np.where(lonely, host, np.arange(len(drawn)))
    times = np.asarray(found.times)[place]
    return replace(found, unit=found.unit[place], times=times).merged()


def _equal(metric: Metric, found: Table, each: Floats) -> Table:
    """A row for all units that are ``each`` alike, by slice and system."""
    kinds = whole_kinds(each, [found.slice, found.system, *_strata(found)])
    if kinds is None:
        raise BeyondMemory(
            f"{metric.name!r} resamples all units at once, as their sums are no whole numbers that "
            f"could be counted, and they take more than memory={current().memory:g} bytes: give "
            "more with frame.eval.run(memory=), take values in smaller units (cents, "
            "milliseconds), name coarser clusters, or ask for an analytic method"
        )
    kind, count = kinds
    times = np.bincount(kind, np.asarray(found.times), count).astype(float)
    strata: Ints | None = None
    if found.strata is not None:
        strata = strata_of(kind, found.strata[found.unit], count)
    return replace(replace(found, unit=kind, strata=strata).merged(), times=times)


def _columns(table: Table, columns: Sequence[int]) -> Table:
    """Some of the sums, without the name of their system."""
    names = tuple(table.names[i].partition("_")[2] or table.names[i] for i in columns)
    return replace(table, names=names, sums=table.sums[:, columns], plain=table.plain[:, columns])


def _fewer(found: Table, kind: Ints, kinds: int) -> Table:
    """As many units of each kind, with the same mean and covariance, in fewer rows."""
    order = np.argsort(kind, kind="stable")
    found, kind = found.take(order), kind[order]
    starts = np.searchsorted(kind, np.arange(kinds))
    times = np.asarray(found.times)
    whole = np.add.reduceat(times, starts)

    def mean(values: Floats) -> Floats:
        total: Floats = np.add.reduceat(values, starts, axis=0)
        return np.asarray(total / whole.reshape(-1, *[1] * (total.ndim - 1)))

    centre = mean(found.sums)
    off = found.sums / times[:, None] - centre[kind]
    scatter = np.add.reduceat(times[:, None, None] * off[:, :, None] * off[:, None, :], starts)
    of, step = _directions(scatter)
    sides = 2 * np.bincount(of, minlength=kinds)
    fewer = np.diff(np.append(starts, len(kind))) > 1 + sides
    of, step = of[fewer[of]], step[fewer[of]]
    aside = whole // np.maximum(sides, 1)
    step = step / np.sqrt(2 * aside[of])[:, None]
    middle = np.flatnonzero(fewer & (whole > sides * aside))
    place = np.concatenate([middle, of, of])
    number = np.concatenate([(whole - sides * aside)[middle], aside[of], aside[of]])
    moved = np.concatenate([np.zeros((len(middle), centre.shape[1])), step, -step])

    def each(values: Floats) -> Floats:
        found: Floats = mean(values)[place]
        return np.asarray(found * number.reshape(-1, *[1] * (found.ndim - 1)))

    sums = number[:, None] * (centre[place] + moved)
    made = replace(
        found.take(starts[place]),
        rows=each(found.rows),
        sums=sums,
        plain=sums if found.plain is found.sums else each(found.plain),
        moments=None if found.moments is None else each(found.moments),
        missing=each(found.missing),
        times=number,
    )
    return _side_by_side([made, found.take(~fewer[kind])])


def _side_by_side(tables: Sequence[Table]) -> Table:
    """Tables whose units are all different ones, below one another; each unit counted."""
    return apart(
        [t if t.times is not None else replace(t, times=np.ones(len(t.rows))) for t in tables]
    )


def _sizes(metric: Metric, table: Table) -> list[Floats]:
    """What has to be the same in all units of a kind: their rows and counts."""
    times = np.asarray(table.times)
    if metric.proportion is None and not metric.counts:
        return [table.rows / times]
    counts = [table.names.index(name) for name in metric.samples or table.names]
    return [table.rows / times, *(table.plain[:, counts].T / times)]


def _denominators(metric: Metric, table: Table) -> list[Floats]:
    """Parts of what a unit has a share in."""
    named = dict(zip(table.names, table.sums.T / np.asarray(table.times), strict=True))
    if metric.proportion is not None:
        return [metric.proportion.trials(Sums(named))]
    return [named[name] for name in metric.samples or ("n",)]


def _kinds_of(
    table: Table, sizes: Sequence[Floats], denominators: Sequence[Floats], bits: int
) -> tuple[Ints, int]:
    """The kind of every unit, in the order of groups and strata; and how many there are."""
    of = [*sizes, *(_rounded(values, bits) for values in denominators)]
    keys = pl.DataFrame([table.slice, table.system, *_strata(table), *of])
    kind, distinct = codes(keys, keys.columns)
    return kind, distinct.height


def _strata(table: Table) -> list[Ints]:
    """The stratum of every row, if there are strata."""
    return [] if table.strata is None else [table.strata[table.unit]]


def _rounded(values: Floats, bits: int) -> Floats:
    """Numbers to so many bits."""
    fraction, exponent = np.frexp(values)
    rounded: Floats = np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent)
    return rounded


def _directions(scatter: Floats) -> tuple[Ints, Floats]:
    """Vectors whose outer products add up to each of some matrices, with the place of it."""
    scale = np.sqrt(np.einsum("kii->ki", scatter))
    varied = np.flatnonzero(scale.any(1))
    scale = scale[varied]
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(scatter[varied] * inverse[:, :, None] * inverse[:, None, :])
    at, which = np.nonzero(values > _NONE)
    step = scale[at] * vectors[at, :, which] * np.sqrt(values[at, which])[:, None]
    return varied[at], step
