"""``compare``: does a system differ from the baseline on the same examples, per slice?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import polars as pl

from frame_eval.columns import By, Columns, Input, Source, names, slices
from frame_eval.errors import EvalError, check_option, did_you_mean, listing
from frame_eval.evaluation import verb
from frame_eval.inference import adjust as adjusting
from frame_eval.inference.linear import Linear, linear
from frame_eval.inference import paired as differences
from frame_eval.inference.paired import METHODS, Difference, Method
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import mean
from frame_eval.reduce import Reduced, Roles, reduce
from frame_eval.table import Table
from frame_eval.verbs.summary import (
    Missing,
    check_level,
    check_metrics,
    check_names,
    notes_of,
    per_class,
)

COLUMNS = (
    "class",
    "metric",
    "system",
    "baseline",
    "estimate",
    "baseline_estimate",
    "difference",
    "std_error",
    "ci_low",
    "ci_high",
    "p_value",
    "p_adjusted",
    "wins",
    "losses",
    "ties",
    "n",
    "clusters",
    "missing",
    "level",
    "method",
    "note",
)
Unmatched = Literal["raise", "drop"]


@verb
def compare(
    frame: Any,
    *metrics: Metric,
    system: Columns | None = None,
    example: Columns | None = None,
    baseline: Any = None,
    by: By = None,
    trial: Columns | None = None,
    cluster: Columns | None = None,
    weight: Source | None = None,
    overall: bool = False,
    paired: bool = True,
    unmatched: Unmatched = "raise",
    method: Method = "auto",
    level: float = 0.95,
    missing: Missing = "raise",
    adjust: adjusting.Method | None = "holm",
    family: Columns | None = None,
) -> pl.DataFrame:
    """The difference of every system to the baseline, in every slice, on the same examples.

    Parameters
    ----------
    frame
        A long table with a row per (system, example), or per trial of it.
    metrics
        Metrics of the catalogue or your own.
    system
        The column(s) that say which system produced the row; required.
    example
        The column(s) on which systems are paired; required unless ``paired=False``.
    baseline
        The value of ``system`` that the others are compared with; None compares all pairs.
    by, trial, cluster, weight, overall, missing
        As in :func:`summary`. ``missing="drop"`` drops an example for both systems.
    paired
        False compares systems that answered different examples.
    unmatched
        Examples that only one of two systems answered: ``"raise"``, or ``"drop"`` (and say so in
        ``note``).
    method
        ``"auto"``: for 0/1 pairs without clusters or weights McNemar's score test with Tango's
        interval, else the difference of influences with CR2 errors on Satterthwaite's degrees of
        freedom (a paired t-test without clusters). ``"exact"``, ``"mid-p"`` and ``"corrected"``
        give p-values only. ``"t"``, ``"cr0"``, ``"cr1"``, ``"cr2"``. None: differences only. With
        ``paired=False`` the score test with the interval of Miettinen and Nurminen, else Welch.
    level
        Nominal coverage, between 0 and 1.
    adjust
        For ``p_adjusted``: ``"holm"``, ``"bh"``, ``"by"``, ``"bonferroni"`` or None.
    family
        Result columns whose equal values make a family of tests; by default each metric's slices
        x systems are one, and overall rows one of their own.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        Columns: the slice keys, ``class`` (with ``average=None``), ``metric``, ``system``,
        ``baseline``, ``estimate``, ``baseline_estimate``, ``difference``, ``std_error``,
        ``ci_low``, ``ci_high``, ``p_value``, ``p_adjusted``, ``wins``, ``losses``, ``ties`` (of
        single examples, where they have a meaning), ``n`` (the examples behind the difference),
        ``clusters``, ``missing``, ``level``, ``method``, ``note``. The interval excludes 0
        exactly when ``p_value`` < 1 - ``level``. Undefined is null with the reason in ``note``.

    Raises
    ------
    EvalError
        When the baseline is not there or there is one system only, for examples that are not
        matched or not common, repeated rows without ``trial``, weights that differ within a pair,
        an example in two clusters, and as :func:`summary`.

    Notes
    -----
    McNemar (1947), Tango (1998), Miettinen and Nurminen (1985), Bell and McCaffrey (2002), Holm
    (1979).

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "model": ["old"] * 4 + ["new"] * 4,
    ...     "id": [1, 2, 3, 4] * 2,
    ...     "correct": [1, 0, 0, 0, 1, 1, 1, 0],
    ... })
    >>> result = fe.compare(df, fe.rate("correct"), system="model", example="id", baseline="old")
    >>> result.select("system", "difference", "wins", "losses").row(0)
    ('new', 0.5, 2, 0)
    """
    check_metrics(metrics)
    check_option("method", method, METHODS)
    check_option("missing", missing, ("raise", "drop", "worst"))
    check_option("unmatched", unmatched, ("raise", "drop"))
    check_option("adjust", adjust, (*adjusting.METHODS, None))
    check_level(level)
    if system is None:
        raise EvalError("say system=<the column that names the systems>")
    if example is None and paired:
        raise EvalError(
            "say example=<the column(s) that identify what was asked>; for systems that answered "
            "different examples say paired=False"
        )
    chosen = slices(by, overall)
    roles = Roles(*(tuple(names(r)) for r in (system, example, trial, cluster)), weight)
    check_names(chosen.columns, COLUMNS)
    asked = [*metrics, *_prevalences(metrics)]
    found = reduce(
        frame,
        asked,
        chosen,
        roles,
        missing=missing,
        moments=True,
        by_example=paired,
    )
    chosen_pairs = _pairs(found.systems, baseline)
    blocks = []
    for a, b in chosen_pairs:
        restricted = [_pair(table, a, b) for table in found.tables]
        notes: list[str] = []
        if paired:
            restricted, notes = _matched(restricted, found, (a, b), unmatched, missing)
        blocks += _compared(
            metrics, replace(found, tables=restricted), (a, b), paired, method, level, notes
        )
    return _assembled(blocks, found, level, method, adjust, family)


def _prevalences(metrics: Sequence[Metric]) -> list[Metric]:
    """The share of positives, once for every label column that a metric has."""
    labels = {
        given.key: given
        for metric in metrics
        if metric.unit is None
        for given in metric.inputs.values()
        if isinstance(given, Input) and given.kind == "label"
    }
    return [replace(mean(""), name=f"__fe_{key}", inputs={"x": i}) for key, i in labels.items()]


def _pairs(systems: pl.DataFrame, baseline: Any) -> list[tuple[int, int]]:
    """The pairs (system, baseline) to compare, as positions."""
    values = [row[0] if len(row) == 1 else row for row in systems.rows()]
    if any(value is None for value in values):
        raise EvalError("the system column has null rows; drop them or give them a name")
    if len(values) < 2:
        raise EvalError(f"there is only one system, {values[0]!r}; comparing needs two")
    if baseline is None:
        return [(b, a) for a, b in combinations(range(len(values)), 2)]
    wanted = tuple(baseline) if isinstance(baseline, list) else baseline
    if wanted not in values:
        hint = did_you_mean(wanted, values)
        raise EvalError(
            f"baseline={baseline!r} is not among the systems.{hint} Systems: {listing(values)}."
        )
    at = values.index(wanted)
    return [(position, at) for position in range(len(values)) if position != at]


def _pair(table: Table, a: int, b: int) -> Table:
    """The rows of two systems, as systems 0 and 1."""
    rows = (table.system == a) | (table.system == b)
    part = table.take(rows)
    return replace(part, system=np.where(part.system == a, 0, 1)).merged()


def _matched(
    tables: list[Table],
    found: Reduced,
    pair: tuple[int, int],
    unmatched: Unmatched,
    missing: Missing,
) -> tuple[list[Table], list[str]]:
    """The tables restricted to the examples that both systems have; notes on what was dropped."""
    matched, notes = [], []
    size = len(found.cluster_of) if found.cluster_of is not None else 1
    for table in tables:
        key = table.slice * size + table.unit
        first = _distinct(key[table.system == 0])
        second = _distinct(key[table.system == 1])
        note = ""
        if not np.array_equal(first, second):
            common = np.intersect1d(first, second, assume_unique=True)
            only = np.setxor1d(first, second, assume_unique=True)
            if unmatched == "raise" or not len(common):
                _refuse(found, pair, common, only, size)
            table = table.take(np.isin(key, common))
            note = f"{len(common)} of {len(common) + len(only)} examples in common"
        if missing == "drop":
            table = _complete(table, size)
        _check_weights(table, found, size)
        matched.append(table)
        notes.append(note)
    return matched, notes


def _distinct(key: Any) -> Any:
    return key if (key[1:] > key[:-1]).all() else np.unique(key)


def _refuse(found: Reduced, pair: tuple[int, int], common: Any, only: Any, size: int) -> None:
    assert found.example_ids is not None
    a, b = (found.systems.row(i) for i in pair)
    a, b = (value[0] if len(value) == 1 else value for value in (a, b))
    rows = found.example_ids[np.unique(only % size)[:3]].rows()
    shown = listing([row[0] if len(row) == 1 else row for row in rows])
    if not len(common):
        raise EvalError(
            f"{a!r} and {b!r} have no example in common (such as {shown}): they can not be paired; "
            "say paired=False to compare different example sets"
        )
    raise EvalError(
        f"{len(only)} examples were answered by only one of {a!r} and {b!r} (such as {shown}); say "
        "unmatched='drop' to compare the common ones, or paired=False to compare them unpaired"
    )


def _complete(table: Table, size: int) -> Table:
    """Without the examples that miss an input for one of the systems, which stay counted."""
    key = table.slice * size + table.unit
    bad = np.isin(key, key[table.missing > 0])
    if not bad.any():
        return table
    zero = np.where(bad, 0.0, 1.0)
    return replace(
        table,
        rows=table.rows * zero,
        sums=table.sums * zero[:, None],
        plain=table.plain * zero[:, None],
        moments=None if table.moments is None else table.moments * zero[:, None, None],
    )


def _check_weights(table: Table, found: Reduced, size: int) -> None:
    if not table.weighted:
        return
    key = table.slice * size + table.unit
    keys, place = np.unique(key, return_inverse=True)
    sides = [
        np.bincount(place, np.where(table.system == side, table.sums[:, 0], 0.0), len(keys))
        for side in (0, 1)
    ]
    differ = np.abs(sides[0] - sides[1]) > 1e-9 * np.abs(sides[0] + sides[1])
    if differ.any():
        assert found.example_ids is not None
        rows = found.example_ids[np.unique(keys[differ] % size)[:3]].rows()
        shown = listing([row[0] if len(row) == 1 else row for row in rows])
        raise EvalError(
            f"{int(differ.sum())} examples have different weights for the two systems (such as "
            f"{shown}); a weight belongs to the example"
        )


def _compared(
    metrics: Sequence[Metric],
    found: Reduced,
    pair: tuple[int, int],
    is_paired: bool,
    method: Method,
    level: float,
    notes: list[str],
) -> list[pl.DataFrame]:
    """A block of rows for every metric of one pair."""
    shape = (found.shape[0], 2)
    prevalence = {
        metric.inputs["x"].key: linear(metric, table, *shape)  # type: ignore[union-attr]
        for metric, table in zip(_prevalences(metrics), found.tables[len(metrics) :], strict=True)
    }
    blocks = []
    position = {metric.name: i for i, metric in enumerate(metrics)}
    measured = replace(found, tables=found.tables[: len(metrics)])
    for metric, label, table in per_class(metrics, measured):
        one = linear(metric, table, *shape)
        if is_paired:
            assert found.cluster_of is not None
            result = differences.paired(metric, one, found.cluster_of, method, level)
        else:
            result = differences.unpaired(metric, one, method, level)
        at = position[metric.name]
        remarks = [notes[at] if notes else "", *_imbalance(metric, prevalence)]
        blocks.append(_block(metric, label, one, result, (at, *pair), remarks))
    return blocks


def _imbalance(metric: Metric, prevalence: dict[Any, Linear]) -> list[Any]:
    """Per slice, a remark where the systems' rows differ in their share of positives."""
    remarks: list[Any] = []
    for given in metric.inputs.values():
        if isinstance(given, Input) and given.key in prevalence:
            share = prevalence[given.key].estimate
            first, second = share[0::2], share[1::2]
            remarks.append(
                [
                    f"prevalence {a:.3g} against {b:.3g}" if abs(a - b) > 1e-9 else ""
                    for a, b in zip(first, second, strict=True)
                ]
            )
            break
    return remarks


def _block(
    metric: Metric,
    label: Any,
    one: Linear,
    result: Difference,
    place: tuple[int, int, int],
    remarks: list[Any],
) -> pl.DataFrame:
    slices = len(result.value)
    reasons = notes_of(metric, one).reshape(slices, 2)
    position, a, b = place
    notes = []
    for i in range(slices):
        texts = [*dict.fromkeys(reasons[i]), result.note[i]]
        texts += [remark if isinstance(remark, str) else remark[i] for remark in remarks]
        notes.append("; ".join(text for text in texts if text) or None)
    there = one.rows.reshape(slices, 2).sum(1) + one.missing.reshape(slices, 2).sum(1) > 0
    count = slices
    return (
        pl.DataFrame(
            {
                "__fe_slice": np.arange(count),
                "__fe_metric": np.full(count, position),
                "__fe_a": np.full(count, a),
                "__fe_b": np.full(count, b),
                "class": pl.Series([label] * count),
                "metric": [metric.name] * count,
                "estimate": one.estimate[0::2],
                "baseline_estimate": one.estimate[1::2],
                "difference": result.value,
                "std_error": result.std_error,
                "ci_low": result.low,
                "ci_high": result.high,
                "p_value": result.p_value,
                "wins": result.wins,
                "losses": result.losses,
                "ties": result.ties,
                "n": result.n.round().astype(np.int64),
                "clusters": result.clusters.round().astype(np.int64),
                "missing": one.missing.reshape(slices, 2).sum(1).round().astype(np.int64),
                "method": [text or None for text in result.method],
                "note": pl.Series(notes, dtype=pl.String),
            },
            schema_overrides={"method": pl.String},
        )
        .with_columns(pl.col(pl.Float64).fill_nan(None))
        .with_columns(pl.col("wins", "losses", "ties").cast(pl.Int64))
        .filter(pl.Series(there))
    )


def _assembled(
    blocks: list[pl.DataFrame],
    found: Reduced,
    level: float,
    method: Method,
    adjust: adjusting.Method | None,
    family: Columns | None,
) -> pl.DataFrame:
    types = {block["class"].dtype for block in blocks} - {pl.Null}
    common = types.pop() if len(types) == 1 else pl.String()
    rows = pl.concat([block.with_columns(pl.col("class").cast(common)) for block in blocks])
    rows = rows.sort("__fe_slice", "__fe_metric", "class", "__fe_b", "__fe_a")
    system = _names_of(found.systems)
    keys = found.slices[rows["__fe_slice"].to_numpy()] if found.slices.width else pl.DataFrame()
    rows = rows.with_columns(
        system[rows["__fe_a"].to_numpy()].alias("system"),
        system[rows["__fe_b"].to_numpy()].alias("baseline"),
        pl.lit(level if method is not None else None, dtype=pl.Float64).alias("level"),
    )
    whole = pl.concat([keys, rows], how="horizontal") if keys.width else rows
    whole = whole.with_columns(_adjusted(whole, adjust, family, method))
    kept = [c for c in COLUMNS if c != "class" or rows["class"].dtype != pl.Null]
    if not any(block["class"].null_count() < block.height for block in blocks):
        kept = [c for c in kept if c != "class"]
    return whole.select(*keys.columns, *kept)


def _names_of(systems: pl.DataFrame) -> pl.Series:
    """The systems as one column: their own value, or the values joined where they have several."""
    if systems.width == 1:
        return systems.to_series()
    return systems.select(pl.concat_str(pl.all().cast(pl.String), separator=", ")).to_series()


def _adjusted(
    rows: pl.DataFrame, adjust: adjusting.Method | None, family: Columns | None, method: Method
) -> pl.Series:
    """p-values adjusted within their families; one that the data could not give counts as 1."""
    if family is None:
        codes = rows.select(
            pl.col("metric"),
            (pl.col("slice") == "overall") if "slice" in rows.columns else pl.lit(False),
        )
    else:
        wanted = names(family)
        for name in wanted:
            if name not in rows.columns:
                hint = did_you_mean(name, rows.columns)
                raise EvalError(f"family {name!r} is not a column of the result.{hint}")
        codes = rows.select(wanted) if wanted else rows.select(pl.lit(0))
    code = codes.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy() - 1
    p = rows["p_value"].fill_null(float("nan")).to_numpy()
    undefined = np.isnan(p) & (method is not None)
    adjusted = adjusting.adjust_families(p, code.astype(np.int64), adjust, undefined)
    return pl.Series("p_adjusted", adjusted).fill_nan(None)
