"""``compare``: does a system differ from the baseline on the same examples, per slice?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import Columns, Input, Source
from frame_eval.errors import EvalError, check_option, did_you_mean, listing
from frame_eval.evaluation import verb
from frame_eval.inference import adjust as adjusting
from frame_eval.inference import bootstrap
from frame_eval.inference import paired as differences
from frame_eval.inference.difference import Difference, Sides
from frame_eval.inference.linear import Linear, linear
from frame_eval.inference.margins import margins
from frame_eval.inference.paired import METHODS, Method
from frame_eval.inference.power import mde as detectable
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.simultaneous import Family, family_of
from frame_eval.inference.summed import METHODS as SUMMABLE
from frame_eval.inference.summed import Summed, of_matched, summed
from frame_eval.inference.summed import sides as summed_sides
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import mean
from frame_eval.metrics.roc import in_bins
from frame_eval.reduce import Reduced, Roles, codes, reduce, side_by_side
from frame_eval.running import current
from frame_eval.slices import By, Crossed, Slices, cluster_ways, names, slices, unwrapped
from frame_eval.table import Ints, Matched, Table, keyed
from frame_eval.threads import concurrently
from frame_eval.verbs.results import joined, with_keys
from frame_eval.verbs.summary import (
    Missing,
    check_draws,
    check_level,
    check_metrics,
    check_names,
    check_ways,
    notes_of,
    of_one_class,
    per_class,
    together,
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
Unmatched = Literal["raise", "drop"]

_BATCH = 1_000_000  # rows of sums for the pairs that are worked on at once


@verb
def compare(
    frame: Any,
    *metrics: Metric,
    system: Columns | None = None,
    example: Columns | None = None,
    baseline: Any = None,
    by: By = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    paired: bool = True,
    unmatched: Unmatched = "raise",
    method: Method = "auto",
    level: float = 0.95,
    missing: Missing = "raise",
    adjust: adjusting.Method | None = "holm",
    family: Columns | None = None,
    simultaneous: bool = False,
    margin: float | None = None,
    mde: bool = False,
    resamples: int = 9999,
    seed: int = 0,
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
    by, trial, cluster, weight, strata, overall, missing
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
        ``paired=False`` the score test with the interval of Miettinen and Nurminen, else Welch;
        ``"unpooled"`` and ``"pooled"`` (p only) are the textbook z-tests of two rates.
        ``"bootstrap"`` (the same as ``"percentile"``), ``"basic"``, ``"bca"`` and
        ``"studentized"`` resample examples or clusters, the same ones for both systems.
        ``"permutation"`` (p only) exchanges the systems within examples or clusters, or, unpaired,
        examples or clusters between systems; exactly, where there are few ways. ``"wild"`` (p
        only) is the null-imposed wild cluster bootstrap, for few clusters (five or fewer can not
        reject at 5 %, nor can permutations of them). ``"wilcoxon"`` tests the signed ranks of
        single examples, with the Hodges-Lehmann estimate as ``difference``.
    level
        Nominal coverage, between 0 and 1.
    adjust
        For ``p_adjusted``: ``"holm"``, ``"bh"``, ``"by"``, ``"bonferroni"`` or None.
    family
        Result columns whose equal values make a family of tests; by default each metric's slices
        x systems are one, and overall rows one of their own.
    simultaneous
        Whether the intervals of a metric hold for all its slices and pairs at once;
        ``p_adjusted`` then belongs to them, instead of to ``adjust`` and ``family``.
    margin
        The difference (positive, in the unit of the metric) that would still do: adds the one-sided
        ``p_noninferior`` of being worse by the margin, and ``p_equivalent`` of being beyond it in
        either direction.
    mde
        Whether to add the achieved minimum detectable effect: the true difference that this test
        on as many examples finds with a power of 80 %.
    resamples, seed
        As in :func:`summary`.

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
    check_option("method", method, METHODS)
    check_option("adjust", adjust, (*adjusting.METHODS, None))
    chosen = slices(by, overall)
    if isinstance(cluster, Crossed):
        _check_crossed(method, simultaneous=simultaneous)
    ways = [Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)]
    drawn = method in differences.RESAMPLING
    for metric in check_metrics(metrics):
        if method in bootstrap.KINDS:
            bootstrap.check_bootstrap(metric, str(method))
    _check_margin(metrics, method, margin)
    draws = check_draws(resamples, seed)
    found = contrast(
        frame,
        metrics,
        chosen,
        ways,
        baseline,
        paired,
        unmatched,
        missing,
        alike=drawn,
        whole=simultaneous or method == "wilcoxon",
        large=method in SUMMABLE,
    )
    if simultaneous:
        if drawn or method is None or family is not None:
            raise EvalError("simultaneous=True goes with analytic methods, and without family=")
        families = found.families(draws)
        levels = {at: one.level(check_level(level)) for at, one in families.items()}
        rows = found.table(method, level, draws=draws, levels=levels, margin=margin)
        adjusted = _simultaneous(rows, families, [metric.name for metric in metrics])
    else:
        rows = found.table(method, check_level(level), draws=draws, margin=margin)
        adjusted = _adjusted(rows, adjust, family, method, chosen.is_whole(rows))
    rows = rows.hstack([adjusted])
    there = rows.columns
    order = [name for name in there if name not in COLUMNS]
    order += [name for name in COLUMNS if name in there and (mde or name != "mde")]
    return rows[order]


@dataclass(frozen=True)
class Contrast:
    """One metric of some pairs of systems, linearised in every slice of every pair.

    Slices of different pairs are slices of their own here, those of the first pair first.
    """

    position: int
    metric: Metric
    label: Any
    pairs: Sequence[tuple[int, int]]
    sides: Sides
    present: Any
    remarks: list[Any]
    summed: Summed | None = None


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
        levels: Mapping[int, float] | None = None,
        margin: float | None = None,
    ) -> pl.DataFrame:
        """The result frame; with ``scale``, of the system minus that much of the baseline.

        ``levels`` are higher ones by the position of the metric.
        """
        blocks = []
        for one in self.contrasts:
            at = level if levels is None else levels[one.position]
            if one.summed is not None:
                result = summed(one.metric, one.summed, one.sides, method, at, draws, scale)
            elif self.paired:
                assert self.found.cluster_of is not None
                result = differences.paired(
                    one.metric,
                    one.sides,
                    self.found.cluster_of,
                    method,
                    at,
                    draws,
                    scale,
                    self.crossed,
                )
            else:
                result = differences.unpaired(one.metric, one.sides, method, at, draws, scale)
            if levels is not None:
                result = replace(result, method=together(result.method))
            blocks.append(_block(one, result, level, margin))
        return _assembled(blocks, self.found, level if method is not None else None)

    def families(self, draws: Draws) -> dict[int, Family]:
        """The family of each metric (by position): all its slices and pairs."""
        members: dict[int, list[Linear]] = {}
        for one in self.contrasts:
            if self.paired:
                assert self.found.cluster_of is not None
                joint = differences.joint(one.metric, one.sides, self.found.cluster_of)
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
    asked = [*metrics, *_means_of_matched(metrics)]
    if paired and not whole and large:
        pairs_of = partial(_pairs, baseline=baseline)
        apart = side_by_side(frame, asked, chosen, roles, pairs_of, missing, unmatched)
        if apart is not None:
            return Contrasts(apart[0], paired, tuple(_of_large(metrics, *apart, unmatched)))
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
        tables = [_of_pairs(table, pairs, found.shape) for table in found.tables]
        slices = len(pairs) * found.shape[0]
        there = sum(_lengths(table, slices) for table in tables[0]) > 0
        there |= np.tile(found.named, len(pairs))
        notes: list[Any] = [""] * len(tables)
        if paired:
            matches = [_matched(table, found, pairs, unmatched, missing) for table in tables]
            tables, notes = [table for table, _ in matches], [note for _, note in matches]
        contrasts += _contrasts(metrics, found, tables, pairs, there, notes)
    crossed = _other_ways(frame, metrics[:1], others, missing)
    return Contrasts(found, paired, tuple(contrasts), crossed)


def _of_large(
    metrics: Sequence[Metric],
    found: Reduced,
    pairs: Sequence[tuple[int, int]],
    unmatched: Unmatched,
) -> Iterator[Contrast]:
    """Every metric of every pair, from tables of sums over examples, those of a pair together."""
    slices, many = found.shape[0], len(metrics) + len(_means_of_matched(metrics))
    tables = [Summed(table) for table in found.tables]
    for number, pair in enumerate(pairs):
        of_pair = tables[number * many :][:many]
        common, lonely = (of_pair[0].by_slice(k, slices).astype(int) for k in ("both", "lonely"))
        notes = [_common_notes(common, lonely)] if unmatched == "drop" else []
        yield from _of_sums(metrics, of_pair, [pair], slices, notes)


def _of_matched(
    metrics: Sequence[Metric], found: Reduced, matched: Matched, pairs: list[tuple[int, int]]
) -> Iterator[Contrast]:
    """Every metric of every pair, from examples that are matched already."""
    asked = [*metrics, *_means_of_matched(metrics)]
    slices, size = found.shape[0], max(1, _BATCH // len(matched.place))
    for batch in (pairs[i : i + size] for i in range(0, len(pairs), size)):
        sums = [of_matched(m, i, matched, batch, slices) for i, m in enumerate(asked)]
        yield from _of_sums(metrics, sums, batch, len(batch) * slices, [])


def _of_sums(
    metrics: Sequence[Metric],
    sums: Sequence[Summed],
    pairs: Sequence[tuple[int, int]],
    slices: int,
    notes: list[Any],
) -> Iterator[Contrast]:
    """Every metric of some pairs, from sums over examples."""
    asked = [*metrics, *_means_of_matched(metrics)]
    sides = [summed_sides(m, one, slices) for m, one in zip(asked, sums, strict=True)]
    extra = zip(asked[len(metrics) :], sides[len(metrics) :], strict=True)
    matched = {_only_input(metric).key: side for metric, side in extra}
    for i, metric in enumerate(metrics):
        remarks = [*notes, *_imbalance(metric, matched)]
        there = np.bincount(sums[i].both.slice, minlength=slices) > 0
        yield Contrast(i, metric, None, pairs, sides[i], there, remarks, sums[i])


def _matched_inputs(metric: Metric) -> dict[str, str]:
    """The inputs that should be alike for both systems, with what each is called."""
    if metric.unit is not None:
        return {}
    labels = [name for name, given in metric.made.items() if given.kind == "label"]
    # The first is what is true; predictions may differ.
    return {**dict.fromkeys(labels[:1], "prevalence"), **metric.matched}


def _means_of_matched(metrics: Sequence[Metric]) -> list[Metric]:
    """The mean of every input that should be alike for both systems, once for every column."""
    given = {
        metric.made[name].key: metric.made[name]
        for metric in metrics
        for name in _matched_inputs(metric)
    }
    return [replace(mean(""), name=f"__fe_{key}", inputs={"x": i}) for key, i in given.items()]


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


def _of_pairs(
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


def _lengths(table: Table, slices: int) -> Ints:
    """The number of rows of every slice of a sorted table."""
    return np.diff(np.searchsorted(table.slice, np.arange(slices + 1)))


def _matched(
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
    return _common_notes(*(np.bincount(where, minlength=slices) for where in (common, only)))


def _common_notes(both: Any, one: Any) -> list[str]:
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
        _only_input(metric).key: sides(metric, of)
        for metric, of in zip(_means_of_matched(metrics), tables[len(metrics) :], strict=True)
    }
    position = {metric.name: i for i, metric in enumerate(metrics)}
    result = []
    for metric, label, _ in per_class(metrics, replace(found, tables=found.tables[: len(metrics)])):
        at = position[metric.name]
        remarks = [notes[at], *_imbalance(metric, matched)]
        first, second = (of_one_class(metrics[at], table, label) for table in tables[at])
        both = sides(metric, (first, second))
        result.append(Contrast(at, metric, label, pairs, both, present, remarks))
    return result


def _only_input(metric: Metric) -> Input:
    (given,) = metric.made.values()
    return given


def _imbalance(metric: Metric, matched: dict[Any, Sides]) -> list[Any]:
    """Per slice, remarks where the systems differ in the mean of what should be alike."""
    remarks: list[Any] = []
    for name, word in _matched_inputs(metric).items():
        first, second = (side.estimate for side in matched[metric.made[name].key])
        remarks.append(
            [
                f"{word} {a:.3g} against {b:.3g}" if abs(a - b) > 1e-9 else ""
                for a, b in zip(first, second, strict=True)
            ]
        )
    return remarks


def _check_crossed(method: Method, *, simultaneous: bool) -> None:
    if method not in ("auto", "cr0", "cr1", "cr2", None) or simultaneous:
        raise EvalError("crossed clusters go with method='auto', 'cr1' or 'cr2', one at a time")


def _other_ways(
    frame: Any, metrics: Sequence[Metric], roles: Sequence[Roles], missing: Missing
) -> tuple[Ints, ...]:
    """The cluster of every example in other ways; examples have the same codes each time."""
    found = (
        reduce(frame, metrics, Slices(), one, missing=missing, by_example=True) for one in roles
    )
    return tuple(one.cluster_of for one in found if one.cluster_of is not None)


def _check_margin(metrics: Sequence[Metric], method: Method, margin: float | None) -> None:
    if margin is None:
        return
    given: object = margin
    if not isinstance(given, (int, float)) or not given > 0:
        raise EvalError(f"margin={margin!r} is not a positive number")
    if method not in differences.WITH_LIMITS:
        raise EvalError(f"margin= goes with analytic intervals, which method={method!r} has not")
    for metric in metrics:
        if metric.better is None:
            raise EvalError(
                f"{metric.name!r} does not say which direction is worse; give it better='higher' "
                "or 'lower'"
            )


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


WHOLE = ("wins", "losses", "ties", "n", "clusters", "missing")


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


def _simultaneous(
    rows: pl.DataFrame, families: Mapping[int, Family], metrics: Sequence[str]
) -> pl.Series:
    """p-values adjusted within the family of each metric's intervals."""
    p = rows["p_value"].to_numpy()
    adjusted = np.full(len(p), np.nan)
    for position, family in families.items():
        own = (rows["metric"] == metrics[position]).to_numpy()
        adjusted[own] = family.adjusted(p[own])
    return pl.Series("p_adjusted", adjusted, nan_to_null=True)


def _adjusted(
    rows: pl.DataFrame,
    adjust: adjusting.Method | None,
    family: Columns | None,
    method: Method,
    whole: npt.NDArray[np.bool_],
) -> pl.Series:
    """p-values adjusted within their families; one that the data could not give counts as 1."""
    if family is None:
        keys = list(zip(rows["metric"], whole.tolist(), strict=True))
        number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        code = np.array([number[key] for key in keys], np.int64)
    else:
        wanted = names(family)
        for name in wanted:
            if name not in rows.columns:
                hint = did_you_mean(name, rows.columns)
                raise EvalError(f"family {name!r} is not a column of the result.{hint}")
        code = codes(rows, wanted)[0]
    p = rows["p_value"].to_numpy()
    undefined = np.isnan(p) & (method is not None)
    adjusted = adjusting.adjust_families(p, code, adjust, undefined)
    return pl.Series("p_adjusted", adjusted, nan_to_null=True)
