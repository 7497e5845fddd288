"""Metrics estimated and linearised in every slice, and their table at any level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from frame_eval.errors import BeyondMemory, EvalError, check_option, listing
from frame_eval.inference.covariance import products_of
from frame_eval.inference.details import DETAILS
from frame_eval.inference.details import details as details_of
from frame_eval.inference.intervals import Interval, Intervals, intervals
from frame_eval.inference.linear import Linear, crossed, linear
from frame_eval.inference.plainly import Plain, plainly
from frame_eval.inference.ranked import ranked
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.simultaneous import MOST_DRAWN, Family, family_of
from frame_eval.metrics.core import Metric
from frame_eval.metrics.roc import in_bins
from frame_eval.reduce import (
    Ranked,
    Reduced,
    Roles,
    Table,
    at_second_look,
    reduce,
    unit_by_unit,
)
from frame_eval.running import current
from frame_eval.slices import Slices
from frame_eval.verbs.options import Missing, check_names, check_ways
from frame_eval.verbs.results import at_level, joined, with_keys

WHOLE = ("n", "clusters", "missing")

COLUMNS = (
    "class",
    "metric",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "n",
    "clusters",
    "missing",
    *DETAILS,
    "level",
    "method",
    "note",
)


@dataclass(frozen=True)
class Entry:
    """One metric (of one class, with its label), linearised in every slice."""

    position: int
    metric: Metric
    label: Any
    linear: Linear

    @property
    def there(self) -> Any:
        """The slices that have rows."""
        return self.linear.rows + self.linear.missing > 0


@dataclass(frozen=True)
class Measured:
    """Metrics estimated and linearised in every slice, before any interval is made."""

    found: Reduced
    metrics: tuple[Entry, ...]
    clustered: bool
    keep_empty: bool

    def table(
        self,
        interval: Interval,
        level: float,
        *,
        keep_empty: bool = False,
        draws: Draws = DRAWS,
        families: Mapping[int, Family] | None = None,
        laid_open: bool = False,
    ) -> pl.DataFrame:
        """The result frame, with intervals at a level; at once for the ``families`` of metrics."""
        keep = keep_empty or self.keep_empty
        blocks = []
        for one in self.metrics:
            make = partial(self._intervals, one, interval, draws)
            made = at_level(make, level, None if families is None else families[one.position])
            shown = level if interval is not None else np.nan
            blocks.append(_block(one, made, shown, keep, laid_open=laid_open))
        rows = joined(blocks, WHOLE, order=("__fe_group", "__fe_metric"))
        group = rows["__fe_group"].to_numpy()
        systems = self.found.shape[1]
        return with_keys(
            rows[[name for name in COLUMNS if name in rows.columns]],
            (self.found.slices, group // systems),
            (self.found.systems, group % systems),
        )

    def _intervals(self, one: Entry, interval: Interval, draws: Draws, level: float) -> Intervals:
        return intervals(one.metric, one.linear, interval, level, self.clustered, draws)

    def crossed(self, second: Measured, both: Measured) -> Measured:
        """The same, clustered another way as well."""
        entries = [
            replace(one, linear=crossed(one.linear, other.linear, common.linear))
            for one, other, common in zip(self.metrics, second.metrics, both.metrics, strict=True)
        ]
        return replace(self, metrics=tuple(entries))

    def families(self, draws: Draws) -> dict[int, Family]:
        """The family of each metric (by position): all its slices and systems."""
        members: dict[int, list[Linear]] = {}
        for one in self.metrics:
            members.setdefault(one.position, []).append(one.linear)
        families = {}
        for position, found in members.items():
            clustered = self.clustered and any((f.clusters < f.n).any() for f in found)
            families[position] = family_of(found, draws, clustered=clustered)
        return families


def measure(
    frame: Any,
    metrics: Sequence[Metric],
    chosen: Slices,
    roles: Roles,
    missing: Missing,
    *,
    moments: bool = True,
    alike: bool = False,
    tabled: bool = False,
    apart: bool = False,
    once: bool = False,
    joint: bool = False,
) -> Measured:
    """The metrics of a frame, ready for intervals at any level; with ``joint`` for all at once."""
    check_option("missing", missing, ("raise", "drop", "worst"))
    check_names((*chosen.shown, *roles.system), COLUMNS)
    metrics = [in_bins(metric, current().score_bins) for metric in metrics]
    try:
        found = reduce(
            frame,
            metrics,
            chosen,
            roles,
            missing=missing,
            moments=moments,
            alike=alike,
            tabled=tabled or alike,
            apart=apart,
            once=once,
        )
    except BeyondMemory:
        # The sums of units by cell may be too many where plain sums of units are not.
        if alike or tabled or joint or not (apart or once):
            raise
        again = at_second_look(frame, metrics, chosen, roles, _plain, missing, once)
        if again is None:
            raise
        return _by_cell(metrics, *again, roles, chosen)
    linearised = tuple(
        Entry(position, metric, label, _estimated(metric, table, found.shape, moments))
        for position, (metric, label, table) in enumerate(per_class(metrics, found.tables))
    )
    if joint:
        linearised = _together(linearised, partial(unit_by_unit, frame), chosen, roles, missing)
    return Measured(found, linearised, bool(roles.unit), bool(chosen.conditions))


def _together(
    entries: tuple[Entry, ...], units: Any, chosen: Slices, roles: Roles, missing: Missing
) -> tuple[Entry, ...]:
    """The same, with what groups have in common where units are many, at a second look at them."""
    many = [
        one
        for one in entries
        if one.linear.times is not None and len(one.linear.estimate) <= MOST_DRAWN
    ]
    if not many:
        return entries
    summed = {one.position: np.zeros([len(one.linear.estimate)] * 2) for one in many}
    for tables in units([one.metric for one in many], chosen, roles, missing):
        for one, table in zip(many, tables, strict=True):
            summed[one.position] += products_of(one.linear, table)
    return tuple(
        replace(one, linear=replace(one.linear, together=summed.get(one.position)))
        for one in entries
    )


def _plain(metric: Metric, position: int, whole: Table, shape: tuple[int, int]) -> list[Plain]:
    """A metric over cells as metrics of plain sums, one for each of its classes."""
    slices, systems = shape
    parts = [whole.take(whole.system == i) for i in range(systems)]
    tables = [replace(part, system=np.zeros_like(part.system)) for part in parts]
    return [
        plainly(one, label, tables, slices, f"__fe_p{position}_{number}_")
        for number, (one, label, _) in enumerate(per_class([metric], [whole]))
    ]


def _by_cell(
    metrics: Sequence[Metric],
    found: Reduced,
    made: Sequence[tuple[int, Any, Table]],
    roles: Roles,
    chosen: Slices,
) -> Measured:
    """Metrics linearised from sums of units, those over cells with the estimates there."""
    entries = []
    for number, (table, (at, plain, whole)) in enumerate(zip(found.tables, made, strict=True)):
        metric, label = metrics[at], None
        if plain is None:
            estimated = linear(metric, table, *found.shape)
        else:
            metric, label = plain.original, plain.label
            estimated = plain.of_units(table, whole, *found.shape)
        entries.append(Entry(number, metric, label, estimated))
    return Measured(found, tuple(entries), bool(roles.unit), bool(chosen.conditions))


def measure_ways(
    frame: Any,
    metrics: Sequence[Metric],
    chosen: Slices,
    ways: Sequence[Roles],
    missing: Missing,
    **how: bool,
) -> Measured:
    """The same, clustered in one way, or in each of two and both together."""
    check_ways(ways)
    first, *others = (measure(frame, metrics, chosen, roles, missing, **how) for roles in ways)
    return first.crossed(*others) if others else first


def _estimated(metric: Metric, table: Any, shape: tuple[int, int], errors: bool) -> Linear:
    if isinstance(table, Ranked):
        wanted = errors and (metric.smooth or metric.quantile is not None)
        return ranked(metric, table, *shape, errors=wanted)
    return linear(metric, table, *shape, errors=errors)


def per_class(metrics: Sequence[Metric], tables: Sequence[Any]) -> list[tuple[Metric, Any, Any]]:
    """The metrics with their tables, those per class once for every class."""
    result: list[tuple[Metric, Any, Any]] = []
    for metric, table in zip(metrics, tables, strict=True):
        if metric.per_class is None:
            result.append((metric, None, table))
            continue
        known, wanted = metric.per_class.known(table.classes), metric.per_class.labels
        if wanted is not None and not set(wanted) & set(known):
            raise EvalError(
                f"no class is among labels={list(wanted)!r}. Classes: {listing(known)}."
            )
        result += [
            (
                metric.per_class.of(value).alias(metric.name),
                value,
                of_one_class(metric, table, value),
            )
            for value in (known if wanted is None else wanted)
        ]
    return result


def of_one_class(metric: Metric, table: Table, value: Any) -> Table:
    """The table of the metric of a class: the same, or with label and prediction as its cells."""
    if metric.per_class is None or metric.per_class.cells is None:
        return table
    cells = metric.per_class.cells(table.classes, value)
    (code,) = table.cells
    domain = [False, True]
    return replace(table, cells=tuple(c[code] for c in cells), classes=(domain, domain)).merged()


def notes_of(metric: Metric, found: Linear) -> Any:
    """Why an estimate is null, or what the metric has to remark on it."""
    missing = ~np.isfinite(found.estimate)
    notes = found.totals.apply(lambda s: _reasons(metric, s), default="", where=missing)
    notes = np.where(missing, notes, "")
    notes[missing & (notes == "")] = "undefined"
    notes[found.rows == 0] = "no rows"
    if metric.note is not None:
        remarks = found.totals.apply(metric.note, default="")
        notes = np.where(missing, notes, remarks)
    return notes


def _reasons(metric: Metric, sums: Any) -> Any:
    reasons: Any = None
    for text, condition in metric.undefined.items():
        holds = np.asarray(condition(sums))
        if reasons is None:
            reasons = np.full(holds.shape, "", dtype=object)
        reasons = np.where((reasons == "") & holds, text, reasons)
    return "" if reasons is None else reasons


def _block(
    one: Entry, made: Intervals, level: float, keep_empty: bool, *, laid_open: bool
) -> dict[str, Any]:
    """The columns of one metric, a row per slice and system."""
    metric, found = one.metric, one.linear
    notes = [
        "; ".join(text for text in (first, second) if text) or None
        for first, second in zip(notes_of(metric, found), made.note, strict=True)
    ]
    estimate = found.estimate
    methods = np.where(np.isfinite(estimate), made.method, "")
    if metric.zero_division is not None:
        undefined = ~np.isfinite(estimate) & (found.rows > 0)
        estimate = np.where(undefined, metric.zero_division, estimate)
    groups = len(estimate)
    columns = {
        "__fe_group": np.arange(groups),
        "__fe_metric": np.full(groups, one.position),
        "class": np.full(groups, one.label, object),
        "metric": np.full(groups, metric.name, object),
        "estimate": estimate,
        "std_error": made.std_error,
        "ci_low": made.low,
        "ci_high": made.high,
        "n": found.n.round(),
        "clusters": found.clusters.round(),
        "missing": found.missing.round(),
        **(details_of(metric, found) if laid_open else {}),
        "level": np.full(groups, level),
        "method": np.array([text or None for text in methods], object),
        "note": np.array(notes, object),
    }
    there = one.there | keep_empty
    return {name: values[there] for name, values in columns.items()}
