"""Many units made few that say the same of every sum over units that a variance is made of.

Such sums are of squares of what units add up to, times functions of their sizes. Units of equal
sizes may therefore be replaced by as many with the same mean and covariance: some at the mean, and
as many on either side of it in each direction in which they vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.coded import codes
from frame_eval.table import Floats, Ints, Table, stacked

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
        like, _ = codes(pl.DataFrame({"weight": _rounded(weight, bits)}), ["weight"])
        return replace(found, unit=like, times=None).merged()
    kind, kinds = _kinds_of(metric, found, bits)
    order = np.argsort(kind, kind="stable")
    found, kind = found.take(order), kind[order]
    starts = np.searchsorted(kind, np.arange(kinds))
    times = np.asarray(found.times)
    whole = np.add.reduceat(times, starts)

    def mean(values: Floats) -> Floats:
        total = np.add.reduceat(values, starts, axis=0)
        found: Floats = total / whole.reshape(-1, *[1] * (total.ndim - 1))
        return found

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
        found = mean(values)[place]
        return found * number.reshape(-1, *[1] * (found.ndim - 1))

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
    parts, units = [], 0
    for table in tables:
        rows = len(table.rows)
        times = np.ones(rows) if table.times is None else table.times
        parts.append(replace(table, unit=units + np.arange(rows), times=times))
        units += rows
    return stacked(parts)


def _kinds_of(metric: Metric, table: Table, bits: int) -> tuple[Ints, int]:
    """The kind of every unit: those of one have the same group and sizes; and how many there are.

    Of counts, all are sizes. Kinds are in the order of groups.
    """
    times = np.asarray(table.times)
    named = dict(zip(table.names, table.sums.T / times, strict=True))
    sizes = [table.rows / times]
    if metric.counts or metric.proportion is not None:
        sizes += list(table.plain.T / times)
    if metric.proportion is not None:
        denominators = [metric.proportion.trials(Sums(named))]
    else:
        denominators = [named[name] for name in metric.samples or ("n",)]
    sizes += [_rounded(values, bits) for values in denominators]
    keys = pl.DataFrame([table.slice, table.system, *sizes])
    kind, distinct = codes(keys, keys.columns)
    return kind, distinct.height


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
