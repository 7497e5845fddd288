"""The step of unit metrics: one row per example, with its value, before any sum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw

from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.checks import count, explain, flags
from frame_eval.reduce.inputs import inputs_of
from frame_eval.reduce.prepare import Prepared


def one_row_per_unit(prepared: Prepared, metric: Metric, missing: str) -> nw.LazyFrame[Any]:
    """The frame with one row per (slice, system, example), carrying the unit's value.

    ``__fe_lost`` counts the rows of the unit that miss an input; a unit without any other has no
    value.
    """
    unit = metric.unit
    if unit is None:
        return prepared.frame
    if not prepared.examples:
        raise EvalError(f"{metric.name!r} has one value per problem: say example=<its column>")
    rows = replace(metric, unit=None)
    bad = flags(prepared, {0: rows}, missing)
    if bad is not None and count(prepared.frame, bad):
        explain(prepared, {0: rows}, missing)
    columns, valid, made = inputs_of(prepared, rows, missing, 0)
    asked = dict(unit.sums(Sums(columns)))
    aggregates = [value.sum().alias(f"__fe_a_{name}") for name, value in asked.items()]
    lost = nw.lit(0.0) if valid is None else (~valid).cast(nw.Float64)
    frame = prepared.frame.with_columns(*made, lost.alias("__fe_lost"))
    aggregates += [nw.col("__fe_lost").sum(), nw.len().alias("__fe_rows")]
    if prepared.weight is not None:
        weight = nw.col(prepared.weight)
        aggregates += [weight.min(), weight.max().alias("__fe_heaviest")]
    roles = (prepared.units, prepared.strata, prepared.examples)
    keys = [*prepared.groups, *(column for role in roles for column in role.values())]
    frame = frame.group_by(list(dict.fromkeys(keys))).agg(*aggregates)
    sums = Sums({name: nw.col(f"__fe_a_{name}") for name in asked})
    empty = nw.col("__fe_lost") >= nw.col("__fe_rows")
    invalid = empty & ~empty if unit.invalid is None else unit.invalid(sums) & ~empty
    if unit.drop:
        frame = frame.filter(~invalid)
    else:
        _check_units(frame, metric, invalid)
    if prepared.weight is not None:
        _check_even_weights(frame, prepared.weight)
    value = nw.when(~(empty | invalid)).then(unit.value(sums, nw.when))
    return frame.with_columns(value.alias("__fe_value"))


def _check_units(frame: nw.LazyFrame[Any], metric: Metric, invalid: Any) -> None:
    short = count(frame, invalid)
    if short and metric.unit is not None:
        raise EvalError(f"{metric.name}: {short} problems have {metric.unit.message}")


def _check_even_weights(frame: nw.LazyFrame[Any], weight: str) -> None:
    uneven = count(frame, nw.col("__fe_heaviest") > nw.col(weight))
    if uneven:
        raise EvalError(
            f"{uneven} problems have rows of different weight; a weight belongs to the example"
        )
