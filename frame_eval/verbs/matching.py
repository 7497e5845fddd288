"""The examples of pairs of systems: which both have, and what is the matter where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from frame_eval.columns import Input
from frame_eval.errors import EvalError, listing
from frame_eval.inference.difference import Sides
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import mean
from frame_eval.reduce import Reduced
from frame_eval.slices import unwrapped
from frame_eval.table import Ints, Table, keyed
from frame_eval.verbs.options import Missing

Unmatched = Literal["raise", "drop"]


def of_pairs(
    table: Table, pairs: list[tuple[int, int]], shape: tuple[int, int]
) -> tuple[Table, Table]:
    """The rows of the first system of every pair, and of the second, in slices of the pair's own.

    The table is sorted by slice and system: blocks of it put one after the other stay sorted.
    """
    slices, systems = shape
    group = keyed(table.slice, table.system, systems)
    ends = np.searchsorted(group, np.arange(slices * systems), side="right")
    lengths = np.diff(ends, prepend=0)

    def side(system: Ints) -> Table:
        blocks = (np.arange(slices) * systems + system[:, None]).ravel()
        part = table.runs(ends[blocks] - lengths[blocks], ends[blocks])
        slice_of = np.repeat(np.arange(len(blocks)), lengths[blocks])
        return replace(part, slice=slice_of, system=np.zeros_like(slice_of))

    first, second = np.array(pairs).T
    return side(first), side(second)


def rows_by_slice(table: Table, slices: int) -> Ints:
    """The number of rows of every slice of a sorted table."""
    return np.diff(np.searchsorted(table.slice, np.arange(slices + 1)))


def common_examples(
    tables: tuple[Table, Table],
    found: Reduced,
    pairs: Sequence[tuple[int, int]],
    unmatched: Unmatched,
    missing: Missing,
) -> tuple[tuple[Table, Table], Any]:
    """The tables restricted to the examples that both systems have; notes on what was dropped."""
    assert found.cluster_of is not None
    size = len(found.cluster_of)
    keys = [keyed(table.slice, table.unit, size) for table in tables]
    first, second = map(_distinct, keys)
    note: Any = ""
    if not np.array_equal(first, second):
        common = np.intersect1d(first, second, assume_unique=True)
        only = np.setxor1d(first, second, assume_unique=True)
        _check_match(found, pairs, (first, second), common, only, unmatched)
        inside = [np.isin(key, common) for key in keys]
        tables = (tables[0].take(inside[0]), tables[1].take(inside[1]))
        note = _unmatched_notes(common // size, only // size, len(pairs) * found.shape[0])
    if missing == "drop":
        tables = _complete(tables, size)
    if tables[0].weighted:
        _check_weights(tables, found, size)
    return tables, note


def _distinct(key: Any) -> Any:
    return key if (key[1:] > key[:-1]).all() else np.unique(key)


def _unmatched_notes(common: Any, only: Any, slices: int) -> list[str]:
    return common_notes(*(np.bincount(where, minlength=slices) for where in (common, only)))


def common_notes(both: Any, one: Any) -> list[str]:
    return [
        f"{b} of {b + o} examples in common" if o else "" for b, o in zip(both, one, strict=True)
    ]


def _check_match(
    found: Reduced,
    pairs: Sequence[tuple[int, int]],
    sides: tuple[Any, Any],
    common: Any,
    only: Any,
    unmatched: Unmatched,
) -> None:
    """Raise for the first pair without a common example, or with unmatched ones not asked for."""
    size = len(found.cluster_of) if found.cluster_of is not None else 1
    per_pair = found.shape[0] * size
    shared, lonely = (np.bincount(k // per_pair, minlength=len(pairs)) > 0 for k in (common, only))
    refused = lonely if unmatched == "raise" else lonely & ~shared
    if not refused.any():
        return
    at = int(np.argmax(refused))
    first, second, alone = (
        np.unique(k[k // per_pair == at] % size) for k in (sides[0], sides[1], only)
    )
    torn = np.intersect1d(np.intersect1d(first, second), alone)
    names = [found.systems.row(i) for i in pairs[at]]
    between = " and ".join(map(repr, unwrapped(names)))
    of_pair = only[only // per_pair == at]
    if found.named[of_pair % per_pair // size].any() and not len(torn):
        raise EvalError(
            f"{len(alone)} examples are in a slice for only one of {between} (such as "
            f"{_examples(found, alone)}): only one answered them, or a condition is about the "
            "answer; say unmatched='drop' to compare the common ones, or slice by what was asked"
        )
    raise EvalError(_mismatch(found, between, bool(shared[at]), torn, alone))


def _mismatch(found: Reduced, between: str, shared: bool, torn: Any, alone: Any) -> str:
    """Why two systems can not be paired, and what would help."""
    if len(torn):
        return (
            f"{len(torn)} examples are in different slices for {between} (such as "
            f"{_examples(found, torn)}): slice by what was asked, not by what was answered"
        )
    if not shared:
        return (
            f"{between} have no example in common (such as {_examples(found, alone)}): they can "
            "not be paired; say paired=False to compare different example sets"
        )
    return (
        f"{len(alone)} examples were answered by only one of {between} (such as "
        f"{_examples(found, alone)}); say unmatched='drop' to compare the common ones, or "
        "paired=False to compare them unpaired"
    )


def _examples(found: Reduced, units: Any) -> str:
    """Some ids of examples, for messages."""
    assert found.example_ids is not None
    rows = found.example_ids[units[:3]].rows()
    return listing(unwrapped(rows))


def _complete(tables: tuple[Table, Table], size: int) -> tuple[Table, Table]:
    """Without the examples that miss an input for one of the systems, which stay counted."""
    keys = [keyed(table.slice, table.unit, size) for table in tables]
    lost = np.concatenate([k[t.missing > 0] for k, t in zip(keys, tables, strict=True)])
    if not len(lost):
        return tables
    a, b = (t.emptied(np.isin(k, lost)) for k, t in zip(keys, tables, strict=True))
    return a, b


def _check_weights(tables: tuple[Table, Table], found: Reduced, size: int) -> None:
    every = [keyed(table.slice, table.unit, size) for table in tables]
    keys, place = np.unique(np.concatenate(every), return_inverse=True)
    sides = [
        np.bincount(at, table.sums[:, 0], len(keys))
        for at, table in zip(np.split(place, [len(every[0])]), tables, strict=True)
    ]
    differ = np.abs(sides[0] - sides[1]) > 1e-9 * np.abs(sides[0] + sides[1])
    if differ.any():
        units = np.unique(keys[differ] % size)
        raise EvalError(
            f"{len(units)} examples have different weights for the two systems (such as "
            f"{_examples(found, units)}); a weight belongs to the example"
        )


def matched_inputs(metric: Metric) -> dict[str, str]:
    """The inputs that should be alike for both systems, with what each is called."""
    if metric.unit is not None:
        return {}
    labels = [name for name, given in metric.made.items() if given.kind == "label"]
    # The first is what is true; predictions may differ.
    return {**dict.fromkeys(labels[:1], "prevalence"), **metric.matched}


def means_of_matched(metrics: Sequence[Metric]) -> list[Metric]:
    """The mean of every input that should be alike for both systems, once for every column."""
    given = {
        metric.made[name].key: metric.made[name]
        for metric in metrics
        for name in matched_inputs(metric)
    }
    return [replace(mean(""), name=f"__fe_{key}", inputs={"x": i}) for key, i in given.items()]


def only_input(metric: Metric) -> Input:
    """The input of a metric that has one."""
    (given,) = metric.made.values()
    return given


def imbalance(metric: Metric, matched: dict[Any, Sides]) -> list[Any]:
    """Per slice, remarks where the systems differ in the mean of what should be alike."""
    remarks: list[Any] = []
    for name, word in matched_inputs(metric).items():
        first, second = (side.estimate for side in matched[metric.made[name].key])
        remarks.append(
            [
                f"{word} {a:.3g} against {b:.3g}" if abs(a - b) > 1e-9 else ""
                for a, b in zip(first, second, strict=True)
            ]
        )
    return remarks
