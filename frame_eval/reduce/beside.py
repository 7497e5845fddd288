"""Pairs of systems side by side, where their examples are too many for the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl

from frame_eval.errors import BeyondMemory, listing
from frame_eval.metrics.core import Metric
from frame_eval.reduce.cellwise import (
    ByCell,
    Rows,
    SliceSet,
    needs_cells,
    of_both,
    slice_sets,
    totals,
    with_columns,
)
from frame_eval.reduce.coded import Reduced, coded, renamed
from frame_eval.reduce.coding import codes
from frame_eval.reduce.kinds import pairs_in_equals, pairs_in_kinds
from frame_eval.reduce.parts import in_parts
from frame_eval.reduce.passes import LEAST_BITS, MOST_BITS, as_few, domain_of, passes_of
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.query import Query, keys_of
from frame_eval.reduce.wide import (
    Pair,
    check_common,
    of_patterns,
    of_systems,
    wide,
    wide_passes,
)
from frame_eval.running import current, shown
from frame_eval.table import Table, apart

_AT_ONCE = 8  # metrics whose sums are taken in one pass, where some of them are over cells

Parts: TypeAlias = "Sequence[nw.LazyFrame[Any]]"
# From a metric over cells, its position, its totals over all rows and over those that are compared,
# a pair of systems, and how many slices and systems there are.
MakePlain: TypeAlias = (
    "Callable[[Metric, int, Table, Table, tuple[int, int], tuple[int, int]], Sequence[ByCell]]"
)


@dataclass(frozen=True)
class Beside:
    """What two systems add up to over their examples, for the metric at a position.

    The contributions of both systems; its plain sums are followed by how many examples count for
    either, by sample, and compare how (``COUNTED``). A metric that was over cells is ``by_cell``.
    """

    position: int
    table: Table
    by_cell: Any


@dataclass(frozen=True)
class _Question:
    """What is asked of every pair of systems."""

    prepared: Prepared
    metrics: Sequence[Metric]
    missing: str
    unmatched: str
    domain: pl.DataFrame
    sets: Sequence[SliceSet]
    plain: MakePlain
    shape: tuple[int, int]
    drawn: bool


@dataclass(frozen=True)
class _Ask:
    """One of the metrics, or one that is made of it in some slices."""

    position: int
    metric: Metric
    by_cell: tuple[ByCell, SliceSet] | None = None


def side_by_side(
    prepared: Prepared,
    metrics: Sequence[Metric],
    pairs_of: Callable[[pl.DataFrame], list[tuple[int, int]]],
    plain: MakePlain,
    missing: str,
    unmatched: str,
    drawn: bool,
) -> tuple[Reduced, list[tuple[tuple[int, int], list[Beside]]]] | None:
    """The sums over examples of pairs of systems, where examples are too many for the memory.

    None where they are not. Metrics over cells are made ``plain`` by their totals, and become one
    or more. Units that are to be ``drawn`` are examples where there are no clusters.
    """
    examples = list(prepared.examples.values())
    # As many as would be asked for where they fit.
    every = [keys_of(prepared, metric, by_example=True, alike=False) for metric in metrics]
    keys = max(every, key=len)
    single = not prepared.trials and all(metric.unit is None for metric in metrics)
    if passes_of(prepared, keys, examples, 1 + len(metrics), single) == 1:
        return None
    domain = domain_of(prepared)
    systems = codes(domain, list(prepared.systems.values()))[1]
    named = renamed(systems, prepared.systems, prepared.dtypes)
    pairs = pairs_of(named)
    _check_summable(prepared, metrics, missing, drawn)
    # What comes back of an example is more than what it takes where it is put together.
    width = 4 if drawn and not prepared.roles.cluster else 1
    if drawn:
        roles = replace(prepared.roles, cluster=prepared.roles.unit)
        prepared = replace(prepared, roles=roles)
    sets = slice_sets(prepared, domain)
    shape = sets[-1].codes.stop, systems.height
    asked = _Question(prepared, metrics, missing, unmatched, domain, sets, plain, shape, drawn)
    over_cells = [i for i, metric in enumerate(metrics) if metric.cells]
    whole = _totals(asked, over_cells)
    passes = wide_passes(prepared, max(len(metrics) * width, _AT_ONCE if over_cells else 1))
    apart = prepared.units if prepared.roles.cluster else prepared.examples
    found: list[tuple[tuple[int, int], list[Beside]]] = []
    with in_parts(prepared.frame, list(apart.values()), passes, len(pairs)) as parts:
        for pair in pairs:
            values = systems.row(pair[0]), systems.row(pair[1])
            kept = whole
            if over_cells and "drop" in (missing, unmatched):
                kept = _totals(asked, over_cells, (parts, values))
            made = {i: plain(metrics[i], i, whole[i], kept[i], pair, shape) for i in over_cells}
            found.append((pair, _of_pair(asked, made, parts, values)))
    names = coded(prepared, [], {}, by_example=False, domain=domain)
    return replace(names, systems=named), found


def _check_summable(
    prepared: Prepared, metrics: Sequence[Metric], missing: str, drawn: bool
) -> None:
    """Raise for what needs the single examples of a comparison at once."""
    rough = [
        metric.name
        for metric in metrics
        if metric.unit
        or (metric.cells and (drawn or needs_cells(metric, missing)))
        or (metric.quantile is not None and (prepared.weight is not None or prepared.strata))
    ]
    if rough or prepared.trials:
        what = listing(rough) if rough else "a comparison with trials"
        raise BeyondMemory(
            f"{what} needs all examples in memory, and they take more than "
            f"{current().memory:g} bytes: give more with frame.eval.run(memory=), compare fewer "
            "rows, or take the systems as independent with paired=False"
        )


def _totals(
    asked: _Question, over_cells: Sequence[int], of: tuple[Parts, Pair] | None = None
) -> dict[int, Table]:
    """The totals of metrics over cells: of all rows, or of the examples that two systems have."""
    if not over_cells:
        return {}
    metrics = [asked.metrics[i] for i in over_cells]
    some: Rows | None = None
    if of is not None:
        parts, pair = of
        some = partial(_of_both, asked, parts, pair)
    found = totals(asked.prepared, metrics, asked.missing, asked.domain, some)
    return dict(zip(over_cells, found, strict=True))


def _of_both(
    asked: _Question, parts: Parts, pair: Pair, metric: Metric
) -> Iterator[nw.LazyFrame[Any]]:
    for part in shown(parts, "totals of cells"):
        yield of_both(asked.prepared, part, pair, metric, asked.missing)


def _of_pair(
    asked: _Question, made: dict[int, Sequence[ByCell]], parts: Parts, pair: Pair
) -> list[Beside]:
    """Every metric of two systems, those that were over cells in one set of slices at a time.

    What a row adds to them differs by slice, and it is in one of each set.
    """
    plain = {(i, 0): _Ask(i, m) for i, m in enumerate(asked.metrics) if i not in made}
    found: dict[tuple[int, int], list[Table]] = {}
    for number, slices in enumerate(asked.sets if made else asked.sets[:1]):
        asks = plain if number == 0 else {}
        for i, of in made.items():
            asks |= {(i, k): _Ask(i, one.metric, (one, slices)) for k, one in enumerate(of)}
        for at in range(0, len(asks), size := _AT_ONCE if made else len(asks)):
            some = dict(list(asks.items())[at : at + size])
            tables = _added(asked, list(some.values()), parts, pair)
            for key, table in zip(some, tables, strict=True):
                found.setdefault(key, []).append(table)
    return [
        Beside(i, apart(found[i, k]), made[i][k] if i in made else None) for i, k in sorted(found)
    ]


def _added(asked: _Question, asks: Sequence[_Ask], parts: Parts, pair: Pair) -> list[Table]:
    """The sums over the examples of two systems, a table for each ask."""
    prepared, metrics = asked.prepared, [ask.metric for ask in asks]
    mine = of_systems(prepared, pair)
    by_cell = [ask.by_cell for ask in asks if ask.by_cell is not None]

    def sums() -> Iterator[Query]:
        for part in shown(parts, "examples side by side"):
            native = nw.to_native(part.filter(mine[0] | mine[1]))
            rows = with_columns(replace(prepared, native=native), by_cell, pair)
            yield wide(rows, metrics, pair, asked.missing, asked.unmatched)

    queries: Iterable[Query] = sums()
    if asked.unmatched == "drop":
        queries = check_common(queries, pair)
    clustered = bool(prepared.roles.cluster)
    without = replace(prepared, systems={}, units=prepared.units if clustered else {})
    doubled = [metric for metric in metrics for _ in range(2)]
    kinds: dict[int, list[Table]] = {i: [] for i in range(len(metrics))}
    fewer, bits = (pairs_in_equals, LEAST_BITS) if asked.drawn else (pairs_in_kinds, MOST_BITS)
    told_by = "sums" if asked.drawn else "sizes"
    for found in queries if clustered else [of_patterns(queries)]:
        of = dict.fromkeys(found.places, found)
        tables = coded(without, doubled, of, by_example=False, domain=asked.domain).tables
        for i, both in enumerate(tables[::2]):
            counts = tables[2 * i + 1].sums[:, 1:]
            table = replace(both, plain=np.hstack([both.plain, counts]))
            by = asks[i].by_cell
            kinds[i].append(table if by is None else table.take(by[1].of(table)))
        if clustered:
            bits = as_few(kinds, lambda i, *of: fewer(metrics[i], *of), bits, told_by)
    weighted = prepared.weight is not None
    return [replace(table, weighted=weighted) for (table,) in kinds.values()]
