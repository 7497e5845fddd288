"""From rows to sums: the group-by that runs where the data lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from frame_eval.columns import Source
from frame_eval.metrics.core import Metric
from frame_eval.reduce import beside
from frame_eval.reduce.beside import Beside, MakePlain
from frame_eval.reduce.cellwise import ByCell, in_units, needs_cells
from frame_eval.reduce.coded import Reduced, coded
from frame_eval.reduce.coding import codes
from frame_eval.reduce.engines import (
    column_names,
    distinct,
    filtered,
    give_back,
    require,
    result_frame,
    scan,
)
from frame_eval.reduce.failures import asked, is_resident
from frame_eval.reduce.groups import TooManyGroups
from frame_eval.reduce.matched import can_match, matched
from frame_eval.reduce.ordered import Scored, scored
from frame_eval.reduce.passes import each_pass, in_passes, passes_needed, too_long
from frame_eval.reduce.prepare import Prepared, Roles, check_columns, prepare
from frame_eval.reduce.query import Query, layouts, query
from frame_eval.reduce.trials import averaged
from frame_eval.slices import Slices
from frame_eval.table import Ranked, Table

__all__ = [
    "Beside",
    "Ranked",
    "Reduced",
    "Roles",
    "Table",
    "asked",
    "at_second_look",
    "codes",
    "distinct",
    "filtered",
    "give_back",
    "reduce",
    "require",
    "result_frame",
    "side_by_side",
    "unit_by_unit",
]


def reduce(
    native: Any,
    metrics: Sequence[Metric],
    slices: Slices,
    roles: Roles,
    *,
    missing: str = "raise",
    moments: bool = True,
    by_example: bool = False,
    alike: bool = False,
    tabled: bool = False,
    apart: bool = False,
    once: bool = False,
    clustered: bool = False,
) -> Reduced:
    """Group the rows by slice, system, unit and cell, and sum what the metrics ask for.

    With ``alike`` units are to be drawn: rows that are units of their own are summed only with rows
    that have the same inputs, so that the table still knows every one of them. With ``tabled`` all
    metrics have a table, also those whose cells could be put in order without one; ordered cells
    have one too where their rows are too many for the memory. With ``apart`` nobody asks which
    units of two slices are the same: units that are too many then become kinds of units, those that
    are to be drawn of equal ones. With ``once`` they do, if each is in one slice of a system. With
    ``clustered`` examples that can be are matched, to be added up by cluster.
    """
    drawn, alike = alike, alike and not roles.unit
    rows = scan(native, _needed(native, metrics, slices, roles))
    if rows.is_polars:
        metrics = [metric.in_bytes for metric in metrics]
    prepared = prepare(rows, metrics, slices, roles)
    whole = by_example or tabled or bool(roles.strata)
    # Grouped by example, the sums show repeats by themselves.
    checked = roles.trial or not by_example
    with averaged(prepared, metrics) if checked else nullcontext(prepared) as even:
        queries, grouped = _in_layouts(prepared, even, metrics, missing, alike, whole)
        asked = partial(passes_needed, by_example=by_example, alike=alike, apart=apart or once)
        # Sums of clusters are asked for until they are too many, other groups are counted first.
        bounded = not prepared.resident and bool(roles.unit) and not by_example
        counted = [
            (base, chosen)
            for base, chosen in grouped
            if not bounded or any(metric.ordered for metric in chosen.values())
        ]
        passes = max([asked(base, chosen) for base, chosen in counted], default=1)
        try:
            for base, chosen in grouped if passes == 1 else ():
                found = query(base, chosen, missing, moments, by_example, alike, bounded=bounded)
                queries.update(dict.fromkeys(chosen, found))
        except TooManyGroups:
            passes = max(asked(base, chosen, least=2) for base, chosen in grouped)
        if passes > 1:
            how = {"alike": alike, "drawn": drawn, "once": once}
            return in_passes(prepared, metrics, queries, grouped, missing, moments, passes, **how)
        plain = queries[0]  # that of all metrics, if they can be matched
        if clustered and isinstance(plain, Query) and can_match(prepared, metrics, missing):
            in_place = matched(prepared, metrics, plain)
            if in_place is not None:
                return in_place
        return coded(prepared, metrics, queries, by_example)


def unit_by_unit(
    native: Any, metrics: Sequence[Metric], slices: Slices, roles: Roles, missing: str
) -> Iterator[list[Table]]:
    """The sums of units that are too many for the memory, a table per metric for some of them.

    The codes of slices and systems are those that :func:`reduce` gives.
    """
    prepared = _prepared(native, metrics, slices, roles)
    with averaged(prepared, metrics) as even:
        _, grouped = _in_layouts(prepared, even, metrics, missing, alike=False, whole=True)
        asked = partial(passes_needed, by_example=False, alike=False, apart=True, least=2)
        passes = max(asked(*one) for one in grouped)
        large = [(base, chosen, list(base.units.values())) for base, chosen in grouped]
        for some in each_pass(prepared, metrics, {}, large, missing, False, passes):
            yield some.tables


def at_second_look(
    native: Any,
    metrics: Sequence[Metric],
    slices: Slices,
    roles: Roles,
    plain: Callable[[Metric, int, Table, tuple[int, int]], Sequence[ByCell]],
    missing: str,
    once: bool,
) -> tuple[Reduced, list[tuple[int, Any, Any]]] | None:
    """The sums of units, where those of metrics over cells are too many for the memory.

    None where these can not be made plain, or by Polars alone. For every table: the position of its
    metric, what that was made of by cell, if it was, and its totals over cells.
    """
    prepared = _prepared(native, metrics, slices, roles)
    over_cells = [metric for metric in metrics if metric.cells]
    if not over_cells or any(needs_cells(metric, missing) for metric in over_cells):
        return None
    if not (prepared.is_polars and prepared.units):
        return None
    with averaged(prepared, metrics) as even:
        return in_units(prepared, even, metrics, plain, missing, once)


def _in_layouts(
    prepared: Prepared,
    even: Prepared,
    metrics: Sequence[Metric],
    missing: str,
    alike: bool,
    whole: bool,
) -> tuple[dict[int, Query | Scored], list[tuple[Prepared, dict[int, Metric]]]]:
    """The metrics by how they are reduced: those put in order by a sort, and those to be grouped.

    Of ``even`` rows, whose examples count the same, but for metrics that make a row per example
    themselves. Tables of the ``whole`` are grouped.
    """
    by_sort: dict[int, Query | Scored] = {}
    grouped: list[tuple[Prepared, dict[int, Metric]]] = []
    for positions in layouts(metrics, alike):
        chosen = {position: metrics[position] for position in positions}
        first = metrics[positions[0]]
        base = even if first.unit is None else prepared
        ranked = first.ordered and len(first.cells) == 1 and first.unit is None
        if ranked and not whole and not too_long(base):
            by_sort.update(dict.fromkeys(positions, scored(base, chosen, missing)))
        else:
            grouped.append((base, chosen))
    return by_sort, grouped


def side_by_side(
    native: Any,
    metrics: Sequence[Metric],
    slices: Slices,
    roles: Roles,
    pairs_of: Callable[[pl.DataFrame], list[tuple[int, int]]],
    plain: MakePlain,
    missing: str,
    unmatched: str,
    *,
    drawn: bool = False,
) -> tuple[Reduced, list[tuple[tuple[int, int], list[Beside]]]] | None:
    """The sums over examples of pairs of systems, where examples are too many for the memory.

    None where they are not. Units that are to be ``drawn`` are told apart where they differ.
    """
    if is_resident(native):
        return None
    prepared = _prepared(native, metrics, slices, roles)
    return beside.side_by_side(prepared, metrics, pairs_of, plain, missing, unmatched, drawn)


def _prepared(native: Any, metrics: Sequence[Metric], slices: Slices, roles: Roles) -> Prepared:
    """What a question needs of a frame of any kind."""
    rows = scan(native, _needed(native, metrics, slices, roles))
    return prepare(rows, metrics, slices, roles)


def _needed(
    native: Any, metrics: Sequence[Metric], slices: Slices, roles: Roles
) -> list[str] | None:
    """The columns that a pandas frame has to hand over; None for all of them."""
    there = column_names(native)
    if there is None:
        return None
    check_columns(there, metrics, slices, roles)
    sources: list[Source] = [*slices.columns, *slices.conditions.values()]
    sources += [s for m in metrics for i in m.made.values() for s in i.sources]
    sources += [*roles.system, *roles.example, *roles.trial, *roles.cluster, *roles.strata]
    sources += [] if roles.weight is None else [roles.weight]
    wanted: list[str] = []
    for source in sources:
        if isinstance(source, nw.Expr):
            return None
        wanted += [source] if isinstance(source, str) else source.meta.root_names()
    require(there, wanted, "an expression's")
    return list(dict.fromkeys(wanted))
