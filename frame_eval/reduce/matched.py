"""Examples that every system answered once, by system and example without a sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from frame_eval.metrics.core import Array, Metric
from frame_eval.reduce.coded import Reduced, renamed
from frame_eval.reduce.coding import codes, sparse_codes
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.query import Query
from frame_eval.table import Matched, keyed, numbered, put
from frame_eval.threads import concurrently


def can_match(prepared: Prepared, metrics: Sequence[Metric], missing: str) -> bool:
    """Whether sums over the examples of clusters say all that is asked, if no row is missing."""
    roles = prepared.roles
    plain = all(
        not metric.cells and metric.unit is None and len(metric.samples or {"n": ()}) == 1
        for metric in metrics
    )
    alike = prepared.weight is None and not roles.trial and not roles.strata
    whole = bool(roles.cluster and roles.system) and not prepared.slices.stacked
    return plain and alike and whole and missing == "raise"


def matched(prepared: Prepared, metrics: Sequence[Metric], found: Query) -> Reduced | None:
    """The examples of all systems side by side.

    None where a system lacks an example or has it twice, and where an example is in two clusters or
    slices.
    """
    rows = found.frame
    told = prepared.systems, prepared.examples, prepared.units, prepared.keys
    ways: list[Callable[..., Any]] = [codes, sparse_codes, sparse_codes, codes]
    tasks = [partial(way, rows, [*of.values()]) for way, of in zip(ways, told, strict=True)]
    coded = concurrently(tasks, rows.height)
    (system, systems), (example, ids), (cluster, clusters), (part, slices) = coded
    if rows.height != systems.height * ids:
        example, names = codes(rows, [*prepared.examples.values()])
        ids = names.height
    if rows.height != systems.height * ids:
        return None
    shape = systems.height, ids
    place = keyed(system, example, ids)

    def side_by_side(values: Array) -> Array:
        moved = np.full(len(place), -1, values.dtype)
        put(moved, place, values)
        return moved.reshape(shape)

    of_rows = (cluster, part) if prepared.keys else (cluster,)
    keys_of = [side_by_side(code.astype(np.int32, copy=False)) for code in of_rows]
    # There are as many rows as places: where none is left out, none has two.
    if (keys_of[0][0] < 0).any() or any((key != key[0]).any() for key in keys_of):
        return None
    cluster_of, *slice_of = (key[0].astype(np.int64) for key in keys_of)
    place_in = keyed(slice_of[0], cluster_of, clusters) if slice_of else cluster_of
    key, place_of = numbered(place_in)
    columns = {
        name: side_by_side(_narrow(rows[name]))
        for places in found.places.values()
        for name in places.plain[1:]
    }
    sums = []
    for position in range(len(metrics)):
        places = found.places[position]
        named = zip(places.names[1:], places.plain[1:], strict=True)
        sums.append({name: columns[column] for name, column in named})
    return Reduced(
        renamed(slices, prepared.keys, prepared.dtypes),
        renamed(systems, prepared.systems, prepared.dtypes),
        (slices.height, systems.height),
        [],
        matched=Matched(tuple(sums), place_of, key // clusters, key % clusters),
    )


def _narrow(values: pl.Series) -> Array:
    """Numbers, as int8 where all are 0 or 1."""
    numbers = values.to_numpy()
    flags = numbers != 0
    return flags.view(np.int8) if (numbers == flags).all() else numbers.astype(float, copy=False)
