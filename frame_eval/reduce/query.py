"""One lazy group-by per layout: which sums are asked for, and where they are in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Literal

import narwhals as nw
import polars as pl

from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric, Sums
from frame_eval.reduce.checks import explain, flags
from frame_eval.reduce.engines import collect, collect_groups
from frame_eval.reduce.groups import Total
from frame_eval.reduce.inputs import inputs_of
from frame_eval.reduce.prepare import Prepared
from frame_eval.reduce.units import one_row_per_unit
from frame_eval.running import most_groups


@dataclass(frozen=True)
class Query:
    """A collected group-by, where each metric's sums are in it, and the weight, if there is one.

    ``values`` are the inputs by which single rows are told apart.
    """

    frame: pl.DataFrame
    cells: tuple[str, ...]
    places: dict[int, Places]
    weight: str | None
    values: tuple[str, ...]


@dataclass(frozen=True)
class Places:
    """The columns of one metric in a query."""

    names: tuple[str, ...]
    rows: str
    sums: tuple[str, ...]
    plain: tuple[str, ...]
    moments: dict[tuple[int, int], str] | None
    replaced: str | None = None


def layouts(metrics: Sequence[Metric], alike: bool) -> list[list[int]]:
    """Positions of the metrics, grouped by what they can share a pass with."""
    groups: dict[object, list[int]] = {}
    for position, metric in enumerate(metrics):
        cells = tuple(metric.made[name].key for name in metric.cells)
        rows: object = tuple(sorted(map(repr, _values_of(metric)))) if alike else None
        if metric.ordered and not alike:
            # Cells that are reduced by a sort are of the rows that have all inputs.
            inputs = frozenset(given.key for given in metric.made.values())
            rows = (inputs, metric.worst and id(metric))
        groups.setdefault((cells, rows, metric.unit and id(metric)), []).append(position)
    return list(groups.values())


def _values_of(metric: Metric) -> list[tuple[object, ...]]:
    """The inputs that make single rows alike, where the sums of many do not say what they were."""
    if metric.counts or metric.proportion is not None or metric.unit is not None:
        return []
    return [given.key for given in metric.made.values()]


def values_of(prepared: Prepared, metric: Metric) -> tuple[str, ...]:
    """The private columns of the inputs by which single rows are told apart."""
    return tuple(prepared.inputs[key] for key in _values_of(metric))


def cells_of(prepared: Prepared, metric: Metric) -> tuple[str, ...]:
    """The private columns of the cell keys of a metric."""
    return tuple(prepared.inputs[metric.made[name].key] for name in metric.cells)


class Ask:
    """The aggregates of one group-by, in some words; equal ones are computed once for all metrics.

    Where each row is a group of its own (``alone``) it is its own sum, and has no variance.
    """

    def __init__(self, alone: bool, words: Any) -> None:
        self.alone, self.words = alone, words
        self.asked: dict[tuple[str, str | bytes], Total] = {}

    def sum(self, expression: Any, prefix: str) -> str:
        """The name of the column that will hold the sum."""
        return self._total("sum", expression, prefix)

    def variance(self, expression: Any, prefix: str) -> str:
        """The name of the column that will hold the variance, the mean square around the mean."""
        return self._total("variance", expression, prefix)

    def _total(self, kind: Literal["sum", "variance"], expression: Any, prefix: str) -> str:
        native = isinstance(expression, pl.Expr)
        key = kind, expression.meta.serialize() if native else repr(expression)
        if key not in self.asked:
            self.asked[key] = Total(f"__fe_{prefix}{len(self.asked)}", kind, expression)
        return self.asked[key].name


def query(
    prepared: Prepared,
    metrics: Mapping[int, Metric],
    missing: str,
    moments: bool,
    by_example: bool,
    alike: bool,
    rows: nw.LazyFrame[Any] | None = None,
    bounded: bool = False,
) -> Query:
    """Run the group-by of one layout; with ``alike``, single rows only with rows like them.

    Of some of the rows alone, where they are given. With ``bounded`` more groups than the memory
    holds raise ``TooManyGroups``, but for ordered cells.
    """
    first = next(iter(metrics.values()))
    seen = prepared if rows is None else replace(prepared, native=nw.to_native(rows))
    words = _words(prepared, metrics)
    frame = seen.native if words is pl else one_row_per_unit(seen, first, missing)
    keys, (_, weight) = keys_of(prepared, first, by_example, alike), _keys(prepared, by_example)
    values = values_of(prepared, first) if alike else ()
    cells = cells_of(prepared, first)
    # Of several rows on an example only trials and units make sense: those are added up.
    alone = by_example and (not prepared.roles.trial or first.unit is not None)
    # The second moments of counts follow from them, unless rows of other weights are to join them.
    follow = rows is None or bool(prepared.units)
    of_weight = None if weight is None else words.col(weight)
    ask, places, filled = Ask(alone, words), {}, []
    for position, metric in metrics.items():
        columns, valid, extra = inputs_of(prepared, metric, missing, position, words)
        filled += extra
        place = _ask_for(metric, columns, valid, of_weight, moments, follow, ask)
        if missing == "worst" and metric.unit is None:
            place = replace(place, replaced=ask.sum(any_null(prepared, metric, words), "r"))
        places[position] = place
    if filled:
        frame = frame.with_columns(*filled)
    totals = list(ask.asked.values())
    if first.unit is not None:
        totals.append(Total("__fe_len", "sum", words.col("__fe_lost")))
    elif not alone:
        totals.append(Total("__fe_len", "rows"))
    bad = flags(prepared, metrics, missing, words) if first.unit is None else None
    if bad is not None:
        totals.append(Total("__fe_bad", "sum", bad if words is pl else bad.cast(words.Float64)))
    most = most_groups(keys, len(totals)) if bounded and not first.ordered else None
    result = _run(frame, keys, totals, alone, prepared.rows, most, words)
    if rows is None and (not result.height or (not keys and not result["__fe_len"].item())):
        raise EvalError("the frame is empty: there is no row to evaluate")
    if bad is not None and (result.drop_in_place("__fe_bad").sum() or 0) > 0:
        explain(prepared, metrics, missing)
    return Query(result, cells, places, prepared.weight, values)


def keys_of(prepared: Prepared, metric: Metric, by_example: bool, alike: bool) -> list[str]:
    """What the rows of a metric are grouped by."""
    values = values_of(prepared, metric) if alike else ()
    keys = [*_keys(prepared, by_example)[0], *values, *cells_of(prepared, metric)]
    return list(dict.fromkeys(keys))


def _words(prepared: Prepared, metrics: Mapping[int, Metric]) -> Any:
    """The module whose expressions the sums are said in; Polars' own need no translation."""
    native = prepared.is_polars and all(metric.native for metric in metrics.values())
    return pl if native else nw


def _keys(prepared: Prepared, by_example: bool) -> tuple[list[str], str | None]:
    """What to group by; and the weight, unless it is one of the keys."""
    keys = [*prepared.groups, *prepared.units.values(), *prepared.strata.values()]
    if by_example and prepared.roles.cluster:
        keys += prepared.examples.values()
    if prepared.weight is None:
        return keys, None
    if not prepared.units:
        # Rows of equal weight are exchangeable: their sums say all that single rows would.
        return [*keys, prepared.weight], None
    return keys, prepared.weight


def any_null(prepared: Prepared, metric: Metric, words: Any = nw) -> Any:
    """1 for rows that miss an input of the metric, else 0."""
    columns = [words.col(prepared.inputs[given.key]) for given in metric.made.values()]
    return reduce(or_, (column.is_null() for column in columns)).cast(words.Float64)


def _run(
    frame: Any,
    keys: list[str],
    totals: list[Total],
    alone: bool,
    rows: int | None,
    most: int | None,
    words: Any,
) -> pl.DataFrame:
    if alone:
        own = [total.of.alias(total.name) for total in totals]
        return collect(frame.select(*keys, *own), long=True, rows=rows)
    if not keys:
        return collect(frame.select(*(total.aggregate(words) for total in totals)), rows=rows)
    return collect_groups(frame, keys, totals, words, rows, most)


def _ask_for(
    metric: Metric,
    columns: Mapping[str, Any],
    valid: Any,
    weight: Any,
    moments: bool,
    follow: bool,
    ask: Ask,
) -> Places:
    contributions = dict(metric.sums(Sums(columns)))
    if "n" in contributions:
        raise EvalError(f"metric {metric.name!r}: the sum 'n' is the number of rows; rename it")
    rows = "__fe_len" if valid is None else ask.sum(valid.cast(ask.words.Float64), "n")
    plain = tuple(ask.sum(value, "s") for value in contributions.values())
    names = ("n", *contributions)
    weighted = list(contributions.values())
    sums = plain
    if weight is not None:
        of_n = weight if valid is None else ask.words.when(valid).then(weight)
        weighted = [of_n, *(weight * value for value in contributions.values())]
        sums = tuple(ask.sum(value, "s") for value in weighted[1:])
        n = ask.sum(of_n, "s")
    else:
        n = rows
    known = metric.follows and weight is None and follow
    wanted = moments and metric.linear and not ask.alone and not known
    second = None
    if wanted:
        offset = 0 if weight is not None else 1
        second = {}
        for a in range(len(weighted)):
            for b in range(a + 1):
                value = weighted[a] if a == b else weighted[a] - weighted[b]
                second[a + offset, b + offset] = ask.variance(value, "v")
    return Places(names, rows, (n, *sums), (rows, *plain), second)
