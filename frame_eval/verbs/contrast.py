"""Pairs of systems side by side: estimated and linearised, and the result frames of their tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from frame_eval.errors import EvalError, check_option, did_you_mean, listing
from frame_eval.inference import paired as differences
from frame_eval.inference.difference import Difference, Sides
from frame_eval.inference.linear import Linear, linear
from frame_eval.inference.margins import margins
from frame_eval.inference.paired import Method
from frame_eval.inference.plainly import Plain, plainly
from frame_eval.inference.power import mde as detectable
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.simultaneous import Family, family_of
from frame_eval.inference.summed import Summed, of_matched, summed
from frame_eval.inference.summed import sides as summed_sides
from frame_eval.metrics.core import Metric
from frame_eval.metrics.roc import in_bins
from frame_eval.reduce import Beside, Reduced, Roles, reduce, side_by_side
from frame_eval.running import current
from frame_eval.slices import Slices, unwrapped
from frame_eval.table import Ints, Matched, Table
from frame_eval.threads import concurrently
from frame_eval.verbs.matching import (
    Unmatched,
    common_examples,
    common_notes,
    imbalance,
    means_of_matched,
    of_pairs,
    only_input,
    rows_by_slice,
)
from frame_eval.verbs.measured import notes_of, of_one_class, per_class
from frame_eval.verbs.options import Missing, check_names, check_ways
from frame_eval.verbs.results import at_level, joined, with_keys

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
    "p_noninferior",
    "p_equivalent",
    "mde",
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
WHOLE = ("wins", "losses", "ties", "n", "clusters", "missing")
_BATCH = 1_000_000  # rows of sums for the pairs that are worked on at once


@dataclass(frozen=True)
class Tested:
    """The sums over examples that a test is made of, of a metric that they are plain sums of."""

    metric: Metric
    found: Summed
    sides: Sides


@dataclass(frozen=True)
class Contrast:
    """One metric of some pairs of systems, linearised in every slice of every pair.

    Slices of different pairs are slices of their own here, those of the first pair first. Where
    there are sums over examples alone, they are what is tested.
    """

    position: int
    metric: Metric
    label: Any
    pairs: Sequence[tuple[int, int]]
    sides: Sides
    present: Any
    remarks: list[Any]
    sums: Tested | None = None


@dataclass(frozen=True)
class Contrasts:
    """Pairs of systems estimated and linearised, before any test is made."""

    found: Reduced
    paired: bool
    contrasts: tuple[Contrast, ...]
    crossed: tuple[Ints, ...] = ()

    def table(
        self,
        method: Method,
        level: float,
        scale: float = 1.0,
        draws: Draws = DRAWS,
        families: Mapping[int, Family] | None = None,
        margin: float | None = None,
    ) -> pl.DataFrame:
        """The result frame; with ``scale``, of the system minus that much of the baseline.

        Intervals hold at once for the ``families`` of metrics, which are named by their position.
        """
        blocks = []
        for one in self.contrasts:
            make = partial(self._result, one, method, scale, draws)
            result = at_level(make, level, None if families is None else families[one.position])
            blocks.append(_block(one, result, level, margin))
        return _assembled(blocks, self.found, level if method is not None else None)

    def _result(
        self, one: Contrast, method: Method, scale: float, draws: Draws, level: float
    ) -> Difference:
        """The tests and intervals of one metric at a level."""
        if one.sums is not None:
            metric, found, sides = one.sums.metric, one.sums.found, one.sums.sides
            return summed(metric, found, sides, method, level, draws, scale)
        if not self.paired:
            return differences.unpaired(one.metric, one.sides, method, level, draws, scale)
        assert self.found.cluster_of is not None
        how = method, level, draws, scale, self.crossed
        return differences.paired(one.metric, one.sides, self.found.cluster_of, *how)

    def families(self, draws: Draws) -> dict[int, Family]:
        """The family of each metric (by position): all its slices and pairs."""
        members: dict[int, list[Linear]] = {}
        for one in self.contrasts:
            if self.paired:
                assert self.found.cluster_of is not None
                joint = differences.joint(
                    one.metric, one.sides, self.found.cluster_of, self.crossed
                )
            else:
                joint = one.sides[0]
            members.setdefault(one.position, []).append(joint)
        return {
            position: family_of(
                found,
                draws,
                clustered=self.paired and any((f.clusters < f.n).any() for f in found),
            )
            for position, found in members.items()
        }


def contrast(
    frame: Any,
    metrics: Sequence[Metric],
    chosen: Slices,
    ways: Sequence[Roles],
    baseline: Any,
    paired: bool,
    unmatched: Unmatched,
    missing: Missing,
    *,
    alike: bool = False,
    whole: bool = True,
    large: bool = True,
) -> Contrasts:
    """The pairs of systems of a frame, ready for tests and intervals at any level.

    They are clustered in one way, or in each of two and both together. Unless they are asked for as
    a ``whole``, examples are summed by cluster where nothing is lost; and, unless the question is
    not for ``large`` frames, where they are too many for the memory.
    """
    check_option("missing", missing, ("raise", "drop", "worst"))
    check_option("unmatched", unmatched, ("raise", "drop"))
    check_names(chosen.shown, COLUMNS)
    check_ways(ways)
    roles, *others = ways
    if not roles.system:
        raise EvalError("say system=<the column that names the systems>")
    if not roles.example and paired:
        raise EvalError(
            "say example=<the column(s) that identify what was asked>; for systems that answered "
            "different examples say paired=False"
        )
    if others and not paired:
        raise EvalError("crossed clusters go with systems that are paired")
    whole = whole or bool(others)
    metrics = [in_bins(metric, current().score_bins) for metric in metrics]
    asked = [*metrics, *means_of_matched(metrics)]
    if paired and not whole and large:
        pairs_of = partial(_pairs, baseline=baseline)
        how = pairs_of, _plain, missing, unmatched
        apart = side_by_side(frame, asked, chosen, roles, *how, drawn=alike)
        if apart is not None:
            return Contrasts(apart[0], paired, tuple(_of_large(asked, metrics, *apart, unmatched)))
    found = reduce(
        frame,
        asked,
        chosen,
        roles,
        missing=missing,
        by_example=paired,
        alike=alike,
        tabled=True,
        clustered=paired and not whole,
    )
    if found.matched is not None:
        every = _of_matched(metrics, found, found.matched, _pairs(found.systems, baseline))
        return Contrasts(found, paired, tuple(every))
    contrasts: list[Contrast] = []
    for pairs in _batches(_pairs(found.systems, baseline), found):
        tables = [of_pairs(table, pairs, found.shape) for table in found.tables]
        slices = len(pairs) * found.shape[0]
        there = sum(rows_by_slice(table, slices) for table in tables[0]) > 0
        there |= np.tile(found.named, len(pairs))
        notes: list[Any] = [""] * len(tables)
        if paired:
            matches = [common_examples(table, found, pairs, unmatched, missing) for table in tables]
            tables, notes = [table for table, _ in matches], [note for _, note in matches]
        contrasts += _contrasts(metrics, found, tables, pairs, there, notes)
    crossed = _other_ways(frame, metrics[:1], others, missing)
    return Contrasts(found, paired, tuple(contrasts), crossed)


def _plain(
    metric: Metric,
    position: int,
    whole: Table,
    compared: Table,
    pair: tuple[int, int],
    shape: tuple[int, int],
) -> list[Plain]:
    """A metric over cells of two systems as metrics of plain sums, one for each of its classes.

    The classes are those of the ``whole`` table, the cells those of rows that are ``compared``.
    """
    sides = of_pairs(compared, [pair], shape)
    return [
        plainly(one, label, sides, shape[0], f"__fe_p{position}_{number}_", in_units=True)
        for number, (one, label, _) in enumerate(per_class([metric], [whole]))
    ]


def _of_large(
    asked: Sequence[Metric],
    metrics: Sequence[Metric],
    found: Reduced,
    pairs: Sequence[tuple[tuple[int, int], Sequence[Beside]]],
    unmatched: Unmatched,
) -> Iterator[Contrast]:
    """Every metric of every pair, from tables of sums over examples, those of a pair together."""
    slices = found.shape[0]
    for pair, besides in pairs:
        of_pair = [_beside(asked[one.position], one, pair, found.named) for one in besides]
        first = Summed(besides[0].table)
        common, lonely = (first.by_slice(name, slices).astype(int) for name in ("both", "lonely"))
        notes = [common_notes(common, lonely)] if unmatched == "drop" else []
        yield from _remarked(metrics, of_pair, notes)


def _beside(metric: Metric, one: Beside, pair: tuple[int, int], always: Any) -> Contrast:
    """A metric of two systems from its sums over examples; over cells, with the estimates there.

    ``always`` says which slices are there without examples.
    """
    found, plain = Summed(one.table), one.by_cell
    of = metric if plain is None else plain.metric
    added = _of_sums(of, one.position, found, [pair], len(always))
    added = replace(added, present=added.present | always)
    if plain is None:
        return added
    pairs_of = list(zip(plain.sides, added.sides, strict=True))
    shown = tuple(replace(of_cells, missing=side.missing) for of_cells, side in pairs_of)
    tested = tuple(replace(side, estimate=of_cells.estimate) for of_cells, side in pairs_of)
    test = Tested(plain.metric, found, (tested[0], tested[1]))
    return replace(added, metric=plain.original, label=plain.label, sides=shown, sums=test)


def _of_matched(
    metrics: Sequence[Metric], found: Reduced, matched: Matched, pairs: list[tuple[int, int]]
) -> Iterator[Contrast]:
    """Every metric of every pair, from examples that are matched already."""
    asked = [*metrics, *means_of_matched(metrics)]
    slices, size = found.shape[0], max(1, _BATCH // len(matched.place))
    for batch in (pairs[i : i + size] for i in range(0, len(pairs), size)):
        contrasts = [
            _of_sums(m, i, of_matched(m, i, matched, batch, slices), batch, len(batch) * slices)
            for i, m in enumerate(asked)
        ]
        yield from _remarked(metrics, contrasts, [])


def _of_sums(
    metric: Metric, position: int, found: Summed, pairs: Sequence[tuple[int, int]], slices: int
) -> Contrast:
    """A metric of some pairs from its sums over examples, still without remarks."""
    sides = summed_sides(metric, found, slices)
    there = np.bincount(found.both.slice, minlength=slices) > 0
    test = Tested(metric, found, sides)
    return Contrast(position, metric, None, pairs, sides, there, [], test)


def _remarked(
    metrics: Sequence[Metric], contrasts: Sequence[Contrast], notes: list[Any]
) -> Iterator[Contrast]:
    """The contrasts of the metrics, with what there is to say of them and of the others' means."""
    others = (one for one in contrasts if one.position >= len(metrics))
    matched = {only_input(one.metric).key: one.sides for one in others}
    for one in contrasts:
        if one.position < len(metrics):
            metric = metrics[one.position]
            yield replace(one, remarks=[*notes, *imbalance(metric, matched)])


def _pairs(systems: pl.DataFrame, baseline: Any) -> list[tuple[int, int]]:
    """The pairs (system, baseline) to compare, as positions."""
    values = unwrapped(systems.rows())
    if any(value is None for value in values):
        raise EvalError("the system column has null rows; drop them or give them a name")
    if len(values) < 2:
        raise EvalError(f"there is only one system, {values[0]!r}; comparing needs two")
    if baseline is None:
        return [(b, a) for a, b in combinations(range(len(values)), 2)]
    at = position_of(baseline, values)
    return [(position, at) for position in range(len(values)) if position != at]


def position_of(baseline: Any, systems: Sequence[Any]) -> int:
    """Where the baseline is among the systems; raise where it is not."""
    wanted = tuple(baseline) if isinstance(baseline, list) else baseline
    if wanted not in systems:
        hint = did_you_mean(wanted, systems)
        raise EvalError(
            f"baseline={baseline!r} is not among the systems.{hint} Systems: {listing(systems)}."
        )
    return list(systems).index(wanted)


def _batches(pairs: list[tuple[int, int]], found: Reduced) -> Iterator[list[tuple[int, int]]]:
    """The pairs in batches that are worked on at once: as many as some memory holds, or one."""
    longest = max(len(table.rows) for table in found.tables)
    size = max(1, _BATCH * found.shape[1] // (2 * longest + 1))
    return (pairs[i : i + size] for i in range(0, len(pairs), size))


def _contrasts(
    metrics: Sequence[Metric],
    found: Reduced,
    tables: Sequence[tuple[Table, Table]],
    pairs: Sequence[tuple[int, int]],
    present: Any,
    notes: list[Any],
) -> list[Contrast]:
    """Every metric of a batch of pairs, from its tables of both systems."""
    slices = len(pairs) * found.shape[0]

    def sides(metric: Metric, of: tuple[Table, Table]) -> Sides:
        tasks = [partial(linear, metric, table, slices, 1) for table in of]
        a, b = concurrently(tasks, len(of[0].rows))
        return a, b

    matched = {
        only_input(metric).key: sides(metric, of)
        for metric, of in zip(means_of_matched(metrics), tables[len(metrics) :], strict=True)
    }
    position = {metric.name: i for i, metric in enumerate(metrics)}
    result = []
    for metric, label, _ in per_class(metrics, found.tables[: len(metrics)]):
        at = position[metric.name]
        remarks = [notes[at], *imbalance(metric, matched)]
        first, second = (of_one_class(metrics[at], table, label) for table in tables[at])
        both = sides(metric, (first, second))
        result.append(Contrast(at, metric, label, pairs, both, present, remarks))
    return result


def _other_ways(
    frame: Any, metrics: Sequence[Metric], roles: Sequence[Roles], missing: Missing
) -> tuple[Ints, ...]:
    """The cluster of every example in other ways; examples have the same codes each time."""
    found = (
        reduce(frame, metrics, Slices(), one, missing=missing, by_example=True) for one in roles
    )
    return tuple(one.cluster_of for one in found if one.cluster_of is not None)


def _against_margin(metric: Metric, result: Difference, margin: float) -> dict[str, Any]:
    """The p-values of being worse by a margin, and of being beyond it."""
    nothing = np.full(len(result.value), np.nan)
    if result.limits is None:
        return {"p_noninferior": nothing, "p_equivalent": nothing}
    sign = -1.0 if metric.better == "lower" else 1.0
    found = margins(result.value, result.limits, margin, sign=sign)
    return {"p_noninferior": found.noninferior, "p_equivalent": found.equivalent}


def _block(
    contrast: Contrast, result: Difference, level: float, margin: float | None
) -> dict[str, Any]:
    """The columns of one metric, a row per pair and slice that has rows."""
    (a, b), remarks, there = contrast.sides, contrast.remarks, contrast.present
    slices = len(result.value)
    of_a, of_b = (notes_of(contrast.metric, side) for side in contrast.sides)
    notes = []
    for i in range(slices):
        texts = [*dict.fromkeys((of_a[i], of_b[i])), result.note[i]]
        texts += [remark if isinstance(remark, str) else remark[i] for remark in remarks]
        notes.append("; ".join(text for text in texts if text) or None)
    per_pair = slices // len(contrast.pairs)
    first, second = np.repeat(np.array(contrast.pairs), per_pair, axis=0).T
    same = {"class": contrast.label, "metric": contrast.metric.name}
    columns = {
        "__fe_slice": np.arange(slices) % per_pair,
        "__fe_metric": np.full(slices, contrast.position),
        "__fe_a": first,
        "__fe_b": second,
        **{name: np.full(slices, value, object) for name, value in same.items()},
        "estimate": a.estimate,
        "baseline_estimate": b.estimate,
        "difference": result.value,
        "std_error": result.std_error,
        "ci_low": result.low,
        "ci_high": result.high,
        "p_value": result.p_value,
        **({} if margin is None else _against_margin(contrast.metric, result, margin)),
        "mde": detectable(result.std_error, level, df=result.df),
        "wins": result.wins,
        "losses": result.losses,
        "ties": result.ties,
        "n": result.n.round(),
        "clusters": result.clusters.round(),
        "missing": (a.missing + b.missing).round(),
        "method": np.array([text or None for text in result.method], object),
        "note": np.array(notes, object),
    }
    return {name: values[there] for name, values in columns.items()}


def _assembled(blocks: list[dict[str, Any]], found: Reduced, level: float | None) -> pl.DataFrame:
    """The blocks of all pairs and metrics, in the order of their keys, with the keys in front."""
    rows = joined(blocks, WHOLE, order=("__fe_slice", "__fe_metric", "class", "__fe_b", "__fe_a"))
    system, levels = (
        names_of(found.systems),
        np.full(rows.height, np.nan if level is None else level),
    )
    added = [
        system[rows["__fe_a"].to_numpy()].alias("system"),
        system[rows["__fe_b"].to_numpy()].alias("baseline"),
        pl.Series("level", levels, nan_to_null=True),
    ]
    rows = rows.hstack(added)
    there = set(rows.columns)
    kept = [name for name in COLUMNS if name in there]
    return with_keys(rows[kept], (found.slices, rows["__fe_slice"].to_numpy()))


def names_of(systems: pl.DataFrame) -> pl.Series:
    """The systems as one column: their own value, or the values joined where they have several."""
    if systems.width == 1:
        return systems.to_series()
    return systems.select(pl.concat_str(pl.all().cast(pl.String), separator=", ")).to_series()
