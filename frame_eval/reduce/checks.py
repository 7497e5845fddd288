"""Rows that make a question unanswerable: found in the same pass as the sums, then explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import narwhals as nw

from frame_eval.columns import OF_A_CLASS, Input
from frame_eval.errors import EvalError, listing
from frame_eval.metrics.core import Metric
from frame_eval.reduce.engines import collect
from frame_eval.reduce.prepare import Prepared
from frame_eval.slices import unwrapped


def flags(prepared: Prepared, metrics: Mapping[int, Metric], missing: str, words: Any = nw) -> Any:
    """A condition for rows that make the question unanswerable; None if there can be none."""
    conditions = [words.col(alias).is_null() for alias in _required(prepared, metrics, missing)]
    invalid = (_invalid(prepared, alias, words) for alias in _used(prepared, metrics))
    conditions += [condition.fill_null(False) for condition in invalid if condition is not None]
    if prepared.weight is not None:
        weight = words.col(prepared.weight)
        bad = (weight < 0) | ~weight.is_finite()
        conditions += [weight.is_null(), bad.fill_null(False)]
    ids = {**prepared.units, **prepared.examples}
    conditions += [words.col(alias).is_null() for alias in ids.values()]
    return reduce(or_, conditions) if conditions else None


def _invalid(prepared: Prepared, alias: str, words: Any = nw) -> Any:
    """A condition for rows with a value that an input can not be; None if there can be none."""
    given, _, dtype = prepared.read[alias]
    return given.invalid(words.col(alias), dtype)


def _used(prepared: Prepared, metrics: Mapping[int, Metric]) -> list[str]:
    """The columns of the inputs of all metrics over rows."""
    rows = [metric for metric in metrics.values() if metric.unit is None]
    aliases = [prepared.inputs[given.key] for metric in rows for given in metric.made.values()]
    return list(dict.fromkeys(aliases))


def _required(prepared: Prepared, metrics: Mapping[int, Metric], missing: str) -> list[str]:
    """Those that must not be missing."""
    if missing == "raise":
        return _used(prepared, metrics)
    if missing == "drop":
        return []
    needed = {
        prepared.inputs[given.key]
        for metric in metrics.values()
        for name, given in metric.made.items()
        if name not in (metric.worst or {})
    }
    return [alias for alias in _used(prepared, metrics) if alias in needed]


def explain(prepared: Prepared, metrics: Mapping[int, Metric], missing: str) -> None:
    """Raise for the rows that :func:`flags` found, naming column, count and what to do."""
    _explain_weight(prepared)
    explain_ids(prepared)
    for alias in _used(prepared, metrics):
        given, columns, _ = prepared.read[alias]
        invalid = _invalid(prepared, alias)
        if invalid is not None and (bad := count(prepared.frame, invalid.fill_null(False))):
            if given.kind in ("probability", "total"):
                _explain_range(prepared.frame.filter(invalid), alias, given, columns, bad)
            if given.kind in OF_A_CLASS:
                raise EvalError(
                    f"{bad} rows of column {columns[0]!r} are none of the classes "
                    f"{listing(given.classes)}; name a column for every class"
                )
            _explain_values(prepared.frame, alias, given, columns[0])
    for alias in _required(prepared, metrics, missing):
        _explain_nulls(prepared, alias, missing)
    raise EvalError("the frame changed while it was read")


def explain_ids(prepared: Prepared) -> None:
    """Raise where an example or a cluster has no name."""
    for name, alias in {**prepared.units, **prepared.examples}.items():
        nulls = count(prepared.frame, nw.col(alias).is_null())
        if nulls:
            raise EvalError(
                f"column {name!r} names what was sampled independently and has {nulls} null rows; "
                "fill or drop them first"
            )


def _explain_weight(prepared: Prepared) -> None:
    if prepared.weight is None:
        return
    weight = nw.col(prepared.weight)
    problems = {
        "null rows; drop or fill them first": weight.is_null(),
        "negative values; weights are at least 0": weight < 0,
        "infinite values; weights are finite": ~weight.is_finite(),
    }
    for text, condition in problems.items():
        found = count(prepared.frame, condition)
        if found:
            raise EvalError(f"weight has {found} {text}")


def _explain_nulls(prepared: Prepared, alias: str, missing: str) -> None:
    nulls = count(prepared.frame, nw.col(alias).is_null())
    if not nulls:
        return
    named = " or ".join(repr(name) for name in prepared.read[alias][1])
    named += _by_system(prepared, nw.col(alias).is_null())
    if missing == "worst":
        raise EvalError(
            f"{nulls} rows are missing in {named}, and the metric has no worst value for "
            "them; use missing='drop', or give the metric bounds and a direction"
        )
    raise EvalError(
        f"{nulls} rows are missing (null or NaN) in {named}; say missing='drop' to leave "
        "them out and count them, or missing='worst' to count them as failures"
    )


def _by_system(prepared: Prepared, condition: Any) -> str:
    """How many rows of each system meet a condition, most first, in brackets."""
    systems = list(prepared.systems.values())
    if not systems:
        return ""
    counted = prepared.frame.filter(condition).group_by(systems).agg(nw.len().alias("__fe_len"))
    rows = collect(counted).sort(["__fe_len", *systems], descending=[True, *[False] * len(systems)])
    names = unwrapped(rows.select(systems).rows())
    shown = [f"{name!r}: {n}" for name, n in zip(names, rows["__fe_len"], strict=True)]
    return f" ({', '.join(shown[:5])}{', ...' if len(shown) > 5 else ''})"


def _explain_values(frame: nw.LazyFrame[Any], alias: str, given: Input, column: str) -> None:
    seen = collect(frame.select(nw.col(alias)).unique().head(1000)).to_series().drop_nulls()
    values = sorted(seen.to_list())
    listed = ", ".join(f"{value:g}" for value in values[:20]) + (
        ", ..." if len(values) > 20 else ""
    )
    if given.kind == "label":
        raise EvalError(
            f"column {column!r} holds classes {listed}; name the positive= class, or choose "
            "average='macro', 'micro', 'weighted' or None"
        )
    raise EvalError(
        f"column {column!r} must be 0/1 or boolean, but holds {listed}; use fe.mean for scores"
    )


def _explain_range(
    outside: nw.LazyFrame[Any], alias: str, given: Input, columns: Sequence[str], bad: int
) -> None:
    ends = collect(
        outside.select(nw.col(alias).min().alias("low"), nw.col(alias).max().alias("high"))
    ).row(0)
    shown = " to ".join(f"{value:g}" for value in dict.fromkeys(ends))
    if given.kind == "total":
        raise EvalError(
            f"the probabilities in columns {listing(columns)} must sum to 1, but in {bad} rows "
            f"they do not ({shown}); name the columns of all classes, or divide by the sum"
        )
    raise EvalError(
        f"column {columns[0]!r} must hold probabilities, but {bad} rows are outside [0, 1] "
        f"({shown}); divide percentages by 100, or use fe.roc_auc for scores"
    )


def count(frame: nw.LazyFrame[Any], condition: Any) -> int:
    """How many rows meet a condition."""
    counted = collect(frame.select(condition.cast(nw.Float64).sum().alias("x")))["x"].sum()
    return int(counted or 0)
