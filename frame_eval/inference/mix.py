"""Estimates at another mix of slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from frame_eval.inference.linear import Linear, Sample, put_at, scattered
from frame_eval.table import Floats, Ints


def mixed(found: Linear, into: Ints, share: Floats, mixes: int) -> Linear:
    """Groups averaged with known shares, as a linearisation of its own.

    Group j counts with ``share[j]`` for the mix ``into[j]`` (-1: for none). Clusters that have rows
    in several groups keep their covariance, but not those of ``times``.
    """
    chosen = np.flatnonzero(into >= 0)
    value = np.zeros(mixes)
    np.add.at(value, into[chosen], share[chosen] * found.estimate[chosen])
    rows = np.flatnonzero(into[found.group] >= 0)
    strata = None if found.strata is None else found.strata[rows]
    times = None if found.times is None else found.times[rows]
    of_row, weight = into[found.group[rows]], share[found.group[rows]]
    if found.singles:
        order = np.argsort(of_row, kind="stable")
        rows, weight, group = rows[order], weight[order], of_row[order]
        strata = None if strata is None else strata[order]
        place, unit = np.arange(len(rows)), found.unit[rows]
    else:
        size = int(found.unit.max(initial=0)) + 1
        key, place = np.unique(of_row * size + found.unit[rows], return_inverse=True)
        group, unit = key // size, key % size

    times = put_at(times, place, len(group))
    several = 1.0 if times is None else times

    def put(values: Floats) -> Floats:
        return scattered(place, values, len(group))

    samples = []
    for sample in found.samples:
        # A row counts for its share of the slice, times that of the slice in the mix.
        rows_in = sample.count * sample.size
        each = np.broadcast_to(sample.weight, rows_in.shape)
        whole = scattered(found.group, rows_in * each, len(found.estimate))[found.group[rows]]
        each, rows_in = weight * each[rows] / np.where(whole > 0, whole, 1.0), rows_in[rows]
        # CR2 of a value for each slice: a unit is inflated by its leverage there. Of a slice that
        # is one unit (but for rounding) the error is not known.
        own = sample.share[rows]
        leverage = put(own * weight)
        rest = np.where(own < 1 - 1e-9, 1 - own, np.nan)
        inflation = (1 - leverage[place] if strata is None else rest) / rest
        step = weight * np.sqrt(inflation)
        influence = put(sample.influence[rows] * step)
        squares = put(sample.squares[rows] * step**2)
        within = np.zeros(mixes)
        np.add.at(within, into[chosen], share[chosen] ** 2 * sample.within[chosen])
        count = put(sample.count[rows])
        samples.append(
            Sample(
                influence,
                squares if found.singles else influence**2 / several,
                leverage,
                np.ones(len(group)) if found.singles else put(sample.size[rows]),
                count if found.singles else np.minimum(count, several),
                within,
                put(rows_in * each) / np.maximum(put(rows_in), np.finfo(float).tiny),
            )
        )

    def total(values: Floats) -> Floats:
        summed = np.zeros(mixes)
        np.add.at(summed, into[chosen], values[chosen])
        return summed

    ways = tuple(mixed(way, into, share, mixes) for way in found.crossed or ())
    counts = np.max([sample.count for sample in samples], axis=0)
    return replace(
        found,
        estimate=value,
        share=np.full(mixes, np.nan),
        n=total(found.n),
        missing=total(found.missing),
        rows=total(found.rows),
        clusters=np.min([way.clusters for way in ways[:2]] or [scattered(group, counts, mixes)], 0),
        group=group,
        unit=unit,
        samples=tuple(samples),
        strata=put_at(strata, place, len(group)),
        times=times,
        crossed=ways or None,
        source=None,
    )
