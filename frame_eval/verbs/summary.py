"""``summary``: what is each metric, per slice, with an interval?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import BeyondMemory, EvalError, check_option, listing
from frame_eval.evaluation import verb
from frame_eval.inference import bootstrap
from frame_eval.inference.covariance import products_of
from frame_eval.inference.details import DETAILS
from frame_eval.inference.details import details as details_of
from frame_eval.inference.intervals import INTERVALS, Interval, Intervals, choose, intervals
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
from frame_eval.slices import By, Crossed, Slices, cluster_ways, slices
from frame_eval.verbs.results import at_level, joined, with_keys

Missing = Literal["raise", "drop", "worst"]
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


@verb
def summary(
    frame: Any,
    *metrics: Metric,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    interval: Interval = "auto",
    level: float = 0.95,
    missing: Missing = "raise",
    simultaneous: bool = False,
    details: bool = False,
    resamples: int = 9999,
    seed: int = 0,
) -> pl.DataFrame:
    """Every metric in every slice, for every system, with an interval that respects clusters.

    Parameters
    ----------
    frame
        A long table: a row per (system, example), or per trial of it. pandas, Polars (eager or
        lazy), Arrow, DuckDB, Spark, Dask, or an :class:`Evaluation`.
    metrics
        Metrics of the catalogue or your own.
    by
        Slice keys: a column, a list (intersections), :func:`each`, :func:`cube` or :func:`where`.
    system
        The column(s) that say which system produced the row.
    example
        The column(s) that identify what was asked; each is one independent unit.
    trial
        The column(s) that tell repeated rows of one example apart; every example then counts the
        same, however many trials it has.
    cluster
        The column(s) that identify what was sampled independently, such as documents or users;
        default the example if given, else the row. :func:`crossed` for two ways at once, with
        analytic intervals.
    weight
        A column of probability weights: scale-free, ``n`` stays the number of rows.
    strata
        The column(s) within which clusters (or examples, or rows) were sampled, so many from each:
        errors are taken within strata (Cochran 1977), and the bootstrap draws within them.
    overall
        Whether to add the whole frame as slice ``"overall"`` (in columns ``slice`` and ``value``).
    interval
        ``"auto"``: Wilson for proportions (on the effective size when there are clusters), order
        statistics for quantiles, linearised errors (CR2) with Satterthwaite's degrees of freedom
        for the rest. By name: ``"wilson"``, ``"wald"``, ``"clopper-pearson"``, ``"jeffreys"``,
        ``"korn-graubard"`` for proportions; ``"t"``, ``"cr0"``, ``"cr1"``, ``"cr2"``; of clusters,
        examples or rows resampled, ``"bootstrap"`` (the same as ``"percentile"``), ``"basic"``,
        ``"bca"``, ``"studentized"``. None: none.
    level
        Nominal coverage, between 0 and 1.
    missing
        Null or NaN among a metric's inputs: ``"raise"``, ``"drop"`` (and count), or ``"worst"``
        (counts as the metric's worst value).
    simultaneous
        Whether the intervals of a metric hold for all its slices and systems at once: by signs on
        clusters, or, of more clusters than memory holds, by normal draws with the covariance of
        slices (Sidak above 200), which agree but for the error of the draws. ``method`` says which.
    details
        Whether to lay clusters open, in columns ``design_effect``, ``icc``, ``n_effective``,
        ``df`` and ``cluster_mean`` (the mean over clusters of each cluster's own value, beside the
        estimate over rows).
    resamples, seed
        How often a bootstrap draws (at least 100), and the seed of its generator: the same frame
        in any order, on any engine, has the same draws. Of more units than the memory holds it
        takes sums that are whole numbers, such as counts, or prices in cents.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        pandas for pandas, Polars for the rest. Columns: the slice keys, the system columns,
        ``class`` (with ``average=None``), ``metric``, ``estimate``, ``std_error``, ``ci_low``,
        ``ci_high``, ``n`` (the rows behind the estimate), ``clusters`` (the independent units),
        ``missing``, ``level``, ``method``, ``note``. Sorted by its keys. Undefined is null, with
        the reason in ``note``.

    Raises
    ------
    EvalError
        For a missing column, an empty frame, an unknown option, nulls, invalid weights, repeated
        rows without ``trial``, names that collide, or a metric that does not fit its column.

    Notes
    -----
    Clustered errors: Bell and McCaffrey (2002), Imbens and Kolesar (2016). Wilson (1927); on an
    effective size Korn and Graubard (1998), with the design effect at least what weights (Kish
    1965) and one correlation in all clusters imply (Franco, Little, Louis and Slud 2019). Bootstrap
    intervals: Efron (1987), Davison and Hinkley (1997); limits are order statistics of the
    replicates. Measured coverage of the defaults is in ``benchmarks/coverage.md``: 93.5 % and more
    with ten effective failures.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "lang": ["de", "de", "de", "sw", "sw"],
    ...     "correct": [1, 1, 0, 1, 0],
    ... })
    >>> result = fe.summary(df, fe.rate("correct"), by="lang")
    >>> result.select("lang", "estimate", "n").rows()
    [('de', 0.6666666666666666, 3), ('sw', 0.5, 2)]
    """
    check_option("interval", interval, INTERVALS)
    for metric in check_metrics(metrics):
        choose(metric, interval)
    chosen = slices(by, overall)
    roles = [Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)]
    drawn = interval in bootstrap.KINDS
    if simultaneous and (drawn or interval is None):
        raise EvalError(f"simultaneous=True goes with analytic intervals, not {interval!r}")
    if details and drawn:
        raise EvalError(f"details=True goes with analytic intervals, not {interval!r}")
    if len(roles) > 1 and (drawn or details):
        raise EvalError("crossed clusters go with analytic intervals, and without details")
    moments = details or (interval is not None and not drawn)
    apart = not (details or len(roles) > 1 or (simultaneous and strata is not None))
    how = {"moments": moments, "alike": drawn, "tabled": details, "apart": apart}
    how["joint"] = simultaneous
    found = measure_ways(frame, metrics, chosen, roles, missing, **how)
    draws = check_draws(resamples, seed)
    check_level(level)
    families = found.families(draws) if simultaneous else None
    return found.table(interval, level, draws=draws, families=families, laid_open=details)


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


def check_metrics(metrics: Sequence[Any]) -> Sequence[Metric]:
    """The metrics, if there are any and they have different names."""
    if not metrics:
        raise EvalError("name at least one metric, such as fe.rate('correct')")
    seen: set[str] = set()
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise EvalError(f"{metric!r} is not a metric{_instead(metric)}")
        if metric.name in seen:
            raise EvalError(f"two metrics are called {metric.name!r}; rename one with .alias()")
        seen.add(metric.name)
    return metrics


def _instead(given: object) -> str:
    """What may have been meant by something that is not a metric."""
    if isinstance(given, str):
        return f": did you mean fe.mean({given!r})?"
    if isinstance(given, (list, tuple)):
        return "; name metrics one after the other, or unpack them: *metrics"
    if callable(given):
        return "; call it with the columns that it is about"
    return ""


def check_ways(ways: Sequence[Roles]) -> None:
    """Raise for crossed clusters within strata."""
    if len(ways) > 1 and ways[0].strata:
        raise EvalError("crossed clusters go without strata")


def check_level(level: float) -> float:
    """The level, if it is a number strictly between 0 and 1."""
    given: object = level
    if not isinstance(given, (int, float)) or not 0 < given < 1:
        raise EvalError(f"level={level!r} is not between 0 and 1")
    return level


def check_draws(resamples: int, seed: int) -> Draws:
    """The draws, if there are enough of them and the seed is one."""
    if not isinstance(resamples, int) or resamples < 100:  # type: ignore[redundant-expr]
        raise EvalError(f"resamples={resamples!r} is not a whole number of at least 100")
    if not isinstance(seed, int) or seed < 0:  # type: ignore[redundant-expr]
        raise EvalError(f"seed={seed!r} is not a whole number of at least 0")
    return Draws(resamples, seed)


def check_names(keys: Sequence[str], columns: Sequence[str]) -> None:
    """Raise where key columns collide with each other or with the columns of the result."""
    for name in keys:
        if name in columns:
            raise EvalError(
                f"key column {name!r} has the name of a result column; rename it, for example "
                f"to {name + '_'!r}"
            )
        if list(keys).count(name) > 1:
            raise EvalError(f"column {name!r} is both a slice key and the system")


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
