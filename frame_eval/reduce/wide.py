"""Two systems side by side: a row per example with the sums of both, then sums over examples.

For comparisons whose examples are too many for the memory. Both steps run where the data lives,
over parts of the rows that each have some of the clusters (or examples) whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce as folded
from itertools import combinations_with_replacement
from operator import and_, or_
from typing import Any, TypeAlias

import narwhals as nw
import polars as pl

from frame_eval.errors import BeyondMemory, EvalError, listing
from frame_eval.metrics.core import Metric, Sums
from frame_eval.metrics.means import is_mean
from frame_eval.reduce.checks import explain, flags
from frame_eval.reduce.coded import repeats_message
from frame_eval.reduce.engines import collect
from frame_eval.reduce.inputs import inputs_of
from frame_eval.reduce.parts import distinct_count
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.query import Places, Query, any_null
from frame_eval.running import current
from frame_eval.slices import unwrapped
from frame_eval.table import COUNTED

SIDES = ("a", "b")
_EXAMPLE, _COLUMN = 160, 16  # bytes that an example takes while it is put together
_PER_E = 32  # classes of sizes that differ by a factor of e

Pair: TypeAlias = "tuple[Sequence[Any], Sequence[Any]]"  # the values of two systems


@dataclass(frozen=True)
class Side:
    """What an example says of one metric for one system, as expressions of its row."""

    sums: dict[str, Any]
    valid: Any
    lost: Any

    @property
    def plain(self) -> Sums:
        """The sums of the example, with its one row."""
        return Sums({"n": nw.lit(1.0), **self.sums})


def wide_passes(prepared: Prepared, metrics: int) -> int:
    """How many passes it takes for the examples of each to fit, with so many metrics at once."""
    ids = list(prepared.examples.values())
    examples = distinct_count(prepared.frame, ids, ids)
    width = _EXAMPLE + _COLUMN * (len(example_keys(prepared)) + 4 * metrics)
    return -(-examples // current().most(width))


def wide(
    prepared: Prepared,
    metrics: Sequence[Metric],
    pair: Pair,
    missing: str,
    unmatched: str,
) -> Query:
    """The sums over the examples of two systems, by slice and cluster.

    ``places[2 * i]`` are the contributions of both systems to metric i, ``places[2 * i + 1]`` how
    many examples count for either, by sample, and are higher, lower, ... (``COUNTED``).
    """
    asked = Columns("of")
    sides, rows = _examples(prepared, metrics, pair, missing, asked)
    has = [nw.col(f"__fe_{side}_rows") for side in SIDES]
    both, lonely = (has[0] == 1) & (has[1] == 1), (has[0] == 0) | (has[1] == 0)
    sums = Columns("sum")
    problems = {
        "bad": nw.col("__fe_bad"),
        "repeated": ((has[0] > 1) | (has[1] > 1)).cast(nw.Float64),
        "lonely": lonely.cast(nw.Float64),
        "both": both.cast(nw.Float64),
    }
    if prepared.weight is not None:
        a, b = (nw.col(f"__fe_{side}_weight") for side in SIDES)
        uneven = both & ((a - b).abs() > 1e-9 * (a + b).abs())
        problems["uneven"] = uneven.cast(nw.Float64)
    found = {name: sums.sum(value) for name, value in problems.items()}
    clustered = bool(prepared.roles.cluster)
    patterns = Columns("like")
    if prepared.weight is not None and not clustered:
        patterns(nw.col("__fe_a_weight"))
    places: dict[int, Places] = {}
    for i, metric in enumerate(metrics):
        keep = both & (sides[i][0].valid == 1) & (sides[i][1].valid == 1)
        places[2 * i] = _contributions(prepared, metric, sides[i], keep, sums)
        sizes = [_sizes(metric, side) for side in sides[i]]
        if not clustered:
            # Examples that count alike for the denominators are alike in all that is asked.
            counted = metric.counts or metric.proportion is not None
            alike = [*sizes[0], *sizes[1]] if counted else _magnitudes(metric, sides[i])
            for value in alike:
                patterns(nw.when(keep).then(value).otherwise(0.0))
        counts = _counts(metric, sides[i], sizes, keep)
        summed = [sums.sum(value.cast(nw.Float64)) for value in counts.values()]
        every = (places[2 * i].rows, *summed, found["both"], found["lonely"])
        names = ("n", *(f"either {k}" for k in range(len(sizes[0]))), *COUNTED)
        places[2 * i + 1] = Places(names, every[0], every, every, None)
    values = tuple(patterns.named.values())
    keys = [
        *prepared.groups_without_systems,
        *(prepared.units.values() if clustered else ()),
        *prepared.strata.values(),
        *values,
    ]
    examples = rows.group_by(example_keys(prepared)).agg(*asked.aliased)
    if values:
        examples = examples.with_columns(*patterns.aliased)
    groups = examples.group_by(keys).agg(*sums.aliased) if keys else examples.select(*sums.aliased)
    frame = collect(groups)
    _check(prepared, metrics, missing, unmatched, pair, frame, found, (examples, problems))
    frame = frame.with_columns(pl.col(found["both"]).alias("__fe_len"))
    return Query(frame, (), places, None, values)


def check_common(queries: Iterable[Query], pair: Pair) -> Iterator[Query]:
    """The queries of all parts; raise in the end where no example is of both systems."""
    common = 0.0
    for found in queries:
        common += float(found.frame["__fe_len"].sum())
        yield found
    if not common:
        raise EvalError(
            f"{_between(pair)} have no example in common: they can not be paired; say paired=False "
            "to compare different example sets"
        )


def of_patterns(queries: Iterable[Query]) -> Query:
    """All passes over single examples as one, if what they are like fits into the memory."""
    found = list[Query]()
    for query in queries:
        found.append(query)
        frames = [one.frame for one in found]
        if sum(frame.estimated_size() for frame in frames) > current().memory:
            raise BeyondMemory(
                f"the sizes and weights of {sum(map(len, frames))} examples differ, which is more "
                f"than memory={current().memory:g} bytes hold: give more with "
                "frame.eval.run(memory=), compare fewer metrics, or round weights"
            )
    return replace(found[0], frame=pl.concat([one.frame for one in found]))


class Columns:
    """Expressions by the private names that they get; equal ones are made once."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.named: dict[str, str] = {}
        self.made: dict[str, Any] = {}

    def __call__(self, expression: Any, name: str | None = None) -> str:
        """The name of the column that will hold the expression."""
        text = repr(expression)
        if text not in self.named:
            self.named[text] = name or f"__fe_{self.prefix}{len(self.named)}"
            self.made[self.named[text]] = expression
        return self.named[text]

    def sum(self, expression: Any) -> str:
        """The name of the column that will hold the sum of the expression."""
        return self(expression.sum())

    @property
    def aliased(self) -> list[Any]:
        """All of them, under their names."""
        return [expression.alias(name) for name, expression in self.made.items()]


def example_keys(prepared: Prepared) -> list[str]:
    """The private columns whose values an example has, whichever system answered it."""
    roles = (prepared.units, prepared.strata, prepared.examples)
    keys = [*prepared.groups_without_systems, *(key for role in roles for key in role.values())]
    return list(dict.fromkeys(keys))


def _examples(
    prepared: Prepared,
    metrics: Sequence[Metric],
    pair: Pair,
    missing: str,
    asked: Columns,
) -> tuple[list[list[Side]], nw.LazyFrame[Any]]:
    """What every metric finds in the row of an example, and the rows of both systems.

    The columns of that row are put into ``asked``.
    """
    mine = of_systems(prepared, pair)

    def by_side(value: Any, at: int) -> Any:
        return nw.col(asked.sum(nw.when(mine[at]).then(value)))

    for at, side in enumerate(SIDES):
        asked(mine[at].cast(nw.Float64).sum(), f"__fe_{side}_rows")
        if prepared.weight is not None:
            weight = nw.when(mine[at]).then(nw.col(prepared.weight)).sum()
            asked(weight + 0.0, f"__fe_{side}_weight")
    bad = flags(prepared, dict(enumerate(metrics)), missing)
    asked(bad.cast(nw.Float64).sum(), "__fe_bad")
    sides, made = [], []
    for i, metric in enumerate(metrics):
        columns, valid, extra = inputs_of(prepared, metric, missing, i)
        made += extra
        contributions = dict(metric.sums(Sums(columns)))
        of_metric = []
        for at, side in enumerate(SIDES):
            rows = nw.col(f"__fe_{side}_rows")
            there = rows if valid is None else by_side(valid.cast(nw.Float64), at)
            lost = rows - there
            if missing == "worst":
                lost = by_side(any_null(prepared, metric), at)
            sums = {name: by_side(value, at) for name, value in contributions.items()}
            of_metric.append(Side(sums, there, lost))
        sides.append(of_metric)
    frame = prepared.frame.filter(mine[0] | mine[1])
    return sides, frame.with_columns(*made) if made else frame


def of_systems(prepared: Prepared, pair: Pair) -> list[Any]:
    """Conditions for the rows of the first and of the second system."""
    systems = [nw.col(column) for column in prepared.systems.values()]
    return [
        folded(and_, [column == value for column, value in zip(systems, values, strict=True)])
        for values in pair
    ]


def _contributions(
    prepared: Prepared, metric: Metric, sides: Sequence[Side], keep: Any, sums: Columns
) -> Places:
    """Where the sums of both systems are, and the second moments of those of each sample."""
    kept = {
        f"{side}_{name}": nw.when(keep).then(value)
        for side, given in zip(SIDES, sides, strict=True)
        for name, value in given.sums.items()
    }
    rows = sums.sum(keep.cast(nw.Float64))
    plain = [sums.sum(value) for value in kept.values()]
    weighted: list[Any] = list(kept.values())
    names = (rows, *plain)
    offset = 1
    if prepared.weight is not None:
        weight = nw.col("__fe_a_weight")
        weighted = [nw.when(keep).then(weight), *(weight * value for value in kept.values())]
        names, offset = tuple(sums.sum(value) for value in weighted), 0
    moments = {}
    for members in metric.sampled(("n", *sides[0].sums)).values():
        own = [i for i, name in enumerate(("n", *sides[0].sums)) if name in members]
        width = len(sides[0].sums)
        at = sorted({*own, *(i + width for i in own if i)}.difference(range(offset)))
        for i, j in combinations_with_replacement(at, 2):
            left, right = weighted[j - offset], weighted[i - offset]
            moments[j, i] = sums((left if i == j else left - right).var(ddof=0))
    matched = nw.when(nw.col("__fe_a_rows") == nw.col("__fe_b_rows"))
    lost = matched.then(sides[0].lost + sides[1].lost).otherwise(0.0)
    return Places(("n", *kept), rows, names, (rows, *plain), moments, sums.sum(lost))


def _sizes(metric: Metric, side: Side) -> list[Any]:
    """How many rows of an example are behind the denominator of each sample of a metric."""
    if metric.proportion is not None:
        return [metric.proportion.trials(side.plain)]
    denominators = metric.samples or ("n",)
    return [getattr(side.plain, name) if metric.counts else nw.lit(1.0) for name in denominators]


def _magnitudes(metric: Metric, sides: Sequence[Side]) -> list[Any]:
    """How large the denominators of an example are that are no numbers of rows, on a log scale."""
    sums = [side.sums[name] for name in metric.samples or () if name != "n" for side in sides]
    return [nw.when(x != 0).then((x.abs().log() * _PER_E).floor()).otherwise(0.0) for x in sums]


def _counts(
    metric: Metric, sides: Sequence[Side], sizes: Sequence[Sequence[Any]], keep: Any
) -> Mapping[str, Any]:
    """Examples that count for either system, by sample; and that differ in what they add to any
    sum, differ in how they count, are higher, lower, equal.
    """
    a, b = sides
    both = list(zip(*sizes, strict=True))
    counts = {f"either {k}": keep & ((x > 0) | (y > 0)) for k, (x, y) in enumerate(both)}
    there = counts["either 0"]
    differ = [a.sums[name] != b.sums[name] for name in a.sums]
    counts["apart"] = keep & folded(or_, differ, keep & ~keep)
    counts["differ"] = keep & folded(or_, [x != y for x, y in both])
    never = keep & ~keep
    higher, lower, ties = never, never, never
    if metric.proportion is not None:
        first, second = (metric.proportion.hits(side.plain) for side in sides)
        higher, lower, ties = (there & x for x in (first > second, first < second, first == second))
    elif is_mean(metric):
        first, second = a.sums["x"], b.sums["x"]
        higher, lower, ties = (there & x for x in (first > second, first < second, first == second))
    return {**counts, "higher": higher, "lower": lower, "ties": ties}


def _check(
    prepared: Prepared,
    metrics: Sequence[Metric],
    missing: str,
    unmatched: str,
    pair: Pair,
    frame: pl.DataFrame,
    found: Mapping[str, str],
    source: tuple[nw.LazyFrame[Any], Mapping[str, Any]],
) -> None:
    """Raise for rows and examples that make the question unanswerable."""
    if frame[found["bad"]].sum():
        explain(prepared, dict(enumerate(metrics)), missing)
    for name in ("repeated", "uneven", "lonely"):
        count = int(frame[found[name]].sum()) if name in found else 0
        if not count or (name == "lonely" and unmatched == "drop"):
            continue
        examples, problems = source
        such = collect(examples.filter(problems[name] > 0).head(3))
        such = such.select(list(prepared.examples.values()))
        if name == "repeated":
            raise EvalError(repeats_message(count, such, ["system"], some=True))
        shown = listing(unwrapped(such.rows()))
        if name == "uneven":
            raise EvalError(
                f"{count} examples have different weights for the two systems (such as {shown}); a "
                "weight belongs to the example"
            )
        raise EvalError(
            f"{count} examples or more were answered by only one of {_between(pair)}, or in "
            f"different slices, clusters or strata (such as {shown}); say unmatched='drop' to "
            "compare the common ones, or paired=False to compare them unpaired"
        )


def _between(pair: Pair) -> str:
    return " and ".join(map(repr, unwrapped([tuple(values) for values in pair])))
