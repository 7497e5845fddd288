"""More sums than the memory holds at once: taken in passes, each over some of the units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

import narwhals as nw
import numpy as np
import polars as pl

from frame_eval.errors import BeyondMemory
from frame_eval.metrics.core import Metric
from frame_eval.reduce.coded import Cells, Reduced, coded
from frame_eval.reduce.coding import ONE
from frame_eval.reduce.engines import collect
from frame_eval.reduce.kinds import in_equals, in_kinds
from frame_eval.reduce.parts import distinct_count, in_parts
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.query import Query, cells_of, keys_of, query, values_of
from frame_eval.running import KEY, SUM, current, most_groups, shown
from frame_eval.table import Table, packed

MOST_BITS, LEAST_BITS = 10, 6  # of denominators of units that are one kind


def passes_of(
    prepared: Prepared,
    keys: Sequence[str],
    apart: Sequence[str],
    sums: int,
    single: bool = False,
) -> int:
    """How many passes it takes for the groups of each to fit into the memory.

    A pass has some of the values of ``apart``, which are among the keys. Frames that are in memory
    themselves are read at once. Groups of a ``single`` row are as many as the rows.
    """
    most = most_groups(keys, sums)
    if prepared.resident or not keys:
        return 1
    rows = _rows(prepared)
    if rows <= most:
        return 1
    groups = rows if single else min(rows, distinct_count(prepared.frame, keys, apart))
    return -(-groups // most)


def too_long(prepared: Prepared) -> bool:
    """Whether there are more rows than the memory holds."""
    return not prepared.resident and _rows(prepared) > current().most(KEY)


def _rows(prepared: Prepared) -> int:
    return int(collect(prepared.frame.select(nw.len())).item())


def domain_of(prepared: Prepared) -> pl.DataFrame:
    """The slices, systems and strata that there are together."""
    keys = [*prepared.groups, *prepared.strata.values()]
    return collect(prepared.frame.select(keys).unique()) if keys else ONE


def passes_needed(
    prepared: Prepared,
    metrics: Mapping[int, Metric],
    by_example: bool,
    alike: bool,
    apart: bool,
    least: int = 1,
) -> int:
    """How many passes a group-by takes; raise where it needs several and can not be had in parts.

    It takes ``least`` where that is known. It can be had in parts where units are kept ``apart`` by
    slice, and metrics are plain sums.
    """
    first = next(iter(metrics.values()))
    keys = keys_of(prepared, first, by_example, alike)
    many, what, way_out = _many(prepared, first, by_example, alike)
    width = 1 if first.ordered else 1 + len(metrics) if by_example else 2 + 2 * len(metrics)
    passes = max(least, passes_of(prepared, keys, many, width) if many else 1)
    if passes > 1 and (not apart or by_example or first.cells):
        raise BeyondMemory(
            f"{what} take about {passes} times memory={current().memory:g} bytes: give more with "
            f"frame.eval.run(memory=), or {way_out}"
        )
    return passes


def _many(
    prepared: Prepared, metric: Metric, by_example: bool, alike: bool
) -> tuple[list[str], str, str]:
    """The keys by which groups are many, what these are, and what would make them fewer."""
    if by_example:
        way_out = "ask for analytic methods, which need no single examples"
        return list(prepared.examples.values()), "the examples of all systems", way_out
    if metric.ordered:
        way_out = "put scores into bins with run(score_bins=10_000)"
        cells = list(cells_of(prepared, metric))
        return cells, "the scores that differ by slice, system and cluster", way_out
    if prepared.units:
        way_out = "name coarser clusters, or ask summary for analytic intervals, slice by slice"
        if metric.cells:
            way_out = "name coarser clusters, or hand over the rows as a Polars scan"
        return list(prepared.units.values()), "the sums of all clusters and slices", way_out
    weight = [] if prepared.weight is None else [prepared.weight]
    if alike:
        way_out = "ask for analytic intervals"
        return [*values_of(prepared, metric), *weight], "rows that differ", way_out
    return weight, "the weights that differ", "round weights"


def in_passes(
    prepared: Prepared,
    metrics: Sequence[Metric],
    queries: Mapping[int, Query | Cells],
    grouped: Sequence[tuple[Prepared, Mapping[int, Metric]]],
    missing: str,
    moments: bool,
    passes: int,
    *,
    alike: bool = False,
    drawn: bool = False,
    once: bool = False,
) -> Reduced:
    """The kinds of units of metrics that are ``grouped``, beside those that have ``queries``.

    Each pass over the rows sees some of the units. Units that are to be ``drawn`` are of a kind
    where they are equal; rows that are units, with ``alike``, where they have equal sums. With
    ``once`` raise where a unit is in several slices of a system.
    """
    whole, large = dict(queries), []
    for base, chosen in grouped:
        first = next(iter(chosen.values()))
        apart = _many(base, first, False, alike)[0]
        if first.cells or not apart:
            made = query(base, chosen, missing, moments, False, alike)
            whole.update(dict.fromkeys(chosen, made))
        else:
            large.append((base, chosen, apart))
    kinds: dict[int, list[Table]] = {i: [] for _, chosen, _ in large for i in chosen}
    fewer, bits = (in_equals, LEAST_BITS) if drawn else (in_kinds, MOST_BITS)
    told_by = "sums" if drawn else "sizes"
    reduced: Reduced | None = None
    how = missing, moments, passes
    for reduced in each_pass(prepared, metrics, whole, large, *how, alike=alike):
        for i, tables in kinds.items():
            if once:
                _check_once(reduced.tables[i], passes)
            tables.append(reduced.tables[i])
        bits = as_few(kinds, lambda i, *of: fewer(metrics[i], *of), bits, told_by)
    assert reduced is not None
    tables = [kinds[i][0] if i in kinds else table for i, table in enumerate(reduced.tables)]
    return replace(reduced, tables=tables)


def each_pass(
    prepared: Prepared,
    metrics: Sequence[Metric],
    whole: Mapping[int, Query | Cells],
    large: Sequence[tuple[Prepared, Mapping[int, Metric], Sequence[str]]],
    missing: str,
    moments: bool,
    passes: int,
    *,
    alike: bool = False,
) -> Iterator[Reduced]:
    """The sums of some units after the other, with the same codes of slices and systems.

    Metrics that are ``large`` come with the columns that tell their units apart.
    """
    domain = domain_of(prepared)
    with ExitStack() as opened:
        parts = [opened.enter_context(in_parts(base.frame, by, passes)) for base, _, by in large]
        for rows_of in shown(list(zip(*parts, strict=True)), "sums of units"):
            found = dict(whole)
            for rows, (base, chosen, _) in zip(rows_of, large, strict=True):
                some = query(base, chosen, missing, moments, False, alike, rows=rows)
                found.update(dict.fromkeys(chosen, some))
            yield coded(prepared, metrics, found, by_example=False, domain=domain)


def _check_once(table: Table, passes: int) -> None:
    """Raise where a unit has rows in several slices of a system."""
    unit = packed((table.system, table.unit))
    several = 0 if table.singles else len(unit) - len(np.unique(unit))
    if several:
        raise BeyondMemory(
            f"at least {several} clusters are in several slices, so that these vary together: the "
            f"sums of all clusters and slices take about {passes} times "
            f"memory={current().memory:g} bytes: give more with frame.eval.run(memory=), or name "
            "coarser clusters, or slice by what is the same in a cluster"
        )


def as_few(
    kinds: dict[int, list[Table]],
    in_kinds: Callable[[int, Sequence[Table], int], Table],
    bits: int,
    told_by: str = "sizes",
) -> int:
    """Make the tables of each metric one of kinds, as finely as fits; how many bits that took.

    Units are of different kinds where what they are ``told_by`` differs.
    """
    while True:
        for i, tables in kinds.items():
            kinds[i] = [in_kinds(i, tables, bits)]
        taken = sum(SUM * len(one.names) * len(one.rows) for (one,) in kinds.values())
        if taken <= current().memory:
            return bits
        if bits == LEAST_BITS:
            break
        bits -= 1
    most = max(len(one.rows) for (one,) in kinds.values())
    raise BeyondMemory(
        f"the {told_by} of more than {most} clusters and slices differ, which is more than "
        f"memory={current().memory:g} bytes hold: give more with frame.eval.run(memory=), "
        "slice less, round values or weights, or name coarser clusters"
    )
