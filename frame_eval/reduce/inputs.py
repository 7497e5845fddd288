"""The inputs of a metric under each treatment of missing values."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

import narwhals as nw

from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.prepare import Prepared


def inputs_of(
    prepared: Prepared, metric: Metric, missing: str, position: int, words: Any = nw
) -> tuple[dict[str, Any], Any, list[Any]]:
    """The metric's inputs, which rows count (None: all), and columns to be made for that."""
    raw: dict[str, Any] = {
        name: words.col(prepared.inputs[given.key]) for name, given in metric.made.items()
    }
    if metric.unit is not None:
        value = words.col("__fe_value")
        return {"value": value}, ~value.is_null(), []
    if missing == "raise":
        return raw, None, []
    if missing == "worst":
        return _worst(metric, raw, position, words)
    valid = reduce(and_, (~c.is_null() for c in raw.values()))
    if len(raw) == 1:
        return raw, valid, []
    made = [
        words.when(valid).then(column).alias(f"__fe_f{position}_{name}")
        for name, column in raw.items()
        if name not in metric.cells
    ]
    columns = {
        name: column if name in metric.cells else words.col(f"__fe_f{position}_{name}")
        for name, column in raw.items()
    }
    return columns, valid, made


def _worst(
    metric: Metric, raw: dict[str, Any], position: int, words: Any
) -> tuple[dict[str, Any], None, list[Any]]:
    """The inputs with what the metric says a missing one counts as."""
    columns, made = dict(raw), []
    for name, worst in (metric.worst or {}).items():
        value: Any = worst(Sums(raw)) if callable(worst) else words.lit(float(worst))
        alias = f"__fe_f{position}_{name}"
        filled = words.when(raw[name].is_null()).then(value).otherwise(raw[name])
        made.append(filled.alias(alias))
        columns[name] = words.col(alias)
    return columns, None, made
