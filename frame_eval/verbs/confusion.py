"""``confusion``: which labels are taken for which, as a long frame of counts and shares?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source, category
from frame_eval.errors import EvalError, check_option, listing
from frame_eval.evaluation import verb
from frame_eval.inference.intervals import INTERVALS, Interval, choose, intervals
from frame_eval.inference.linear import Linear, added, crossed, group_codes, linear, scattered
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import rate
from frame_eval.reduce import Reduced, Roles, Table, reduce
from frame_eval.slices import By, Crossed, cluster_ways, slices
from frame_eval.table import packed
from frame_eval.verbs.options import check_level, check_names, check_ways
from frame_eval.verbs.results import with_keys

Normalize: TypeAlias = Literal["truth", "pred", "all"] | None
COLUMNS = (
    "truth",
    "predicted",
    "n",
    "total",
    "share",
    "std_error",
    "ci_low",
    "ci_high",
    "clusters",
    "missing",
    "level",
    "method",
    "note",
)
EMPTY = {
    "truth": "no rows with this label",
    "pred": "no rows with this prediction",
    "all": "no rows",
}
SHARE = rate("share")


@verb
def confusion(
    frame: Any,
    target: Source,
    pred: Source,
    *,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    labels: Sequence[Any] | None = None,
    normalize: Normalize = None,
    interval: Interval = "auto",
    level: float = 0.95,
    missing: Literal["raise", "drop"] = "raise",
) -> pl.DataFrame:
    """The confusion matrix in every slice, for every system, a row per label and prediction.

    Parameters
    ----------
    frame
        A long table, as in :func:`summary`.
    target, pred
        Label columns of one type.
    by, system, example, trial, cluster, weight, strata, overall
        As in :func:`summary`.
    labels
        All classes, in the order of the result; by default those that occur anywhere, sorted.
    normalize
        Of what ``share`` is the share: ``"truth"``: the rows with the label (recall, on the
        diagonal); ``"pred"``: those with the prediction (precision); ``"all"``: all rows of the
        slice. None: counts only.
    interval
        Of the shares, a method for proportions as in :func:`summary`: Wilson by default, on the
        effective size when there are clusters.
    level
        Nominal coverage, between 0 and 1.
    missing
        Null labels or predictions: ``"raise"`` or ``"drop"`` (and count).

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        The slice keys, the system columns, ``truth``, ``predicted``, ``n`` (the rows with both);
        with ``normalize`` then ``total`` (the rows that the share is of), ``share``, ``std_error``,
        ``ci_low``, ``ci_high`` and ``clusters``; ``missing`` (rows of the slice left out); and with
        ``normalize`` again ``level``, ``method``, ``note``. Pairs that do not occur are there, with
        ``n`` 0. A share of no rows is null, with the reason in ``note``.

    Raises
    ------
    EvalError
        For classes that are not among ``labels``, and as :func:`summary`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": ["a", "a", "b", "b"], "pred": ["a", "b", "b", "b"]})
    >>> df.eval.confusion("gold", "pred")["n"].to_list()
    [1, 1, 0, 2]
    >>> result = fe.confusion(df, "gold", "pred", normalize="truth")
    >>> result.select("truth", "predicted", "share").rows()
    [('a', 'a', 0.5), ('a', 'b', 0.5), ('b', 'a', 0.0), ('b', 'b', 1.0)]
    """
    check_option("normalize", normalize, ("truth", "pred", "all", None))
    check_option("missing", missing, ("raise", "drop"))
    check_option("interval", interval, INTERVALS)
    choose(SHARE, interval)
    check_level(level)
    chosen = slices(by, overall)
    ways = [Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)]
    check_ways(ways)
    roles = ways[0]
    check_names((*chosen.shown, *roles.system), COLUMNS)
    inputs = {"y": category(target, pred), "p": category(pred, target)}
    matrix = Metric("confusion", inputs, _no_sums, _cells, cells=("y", "p"), counts=True)
    shares = normalize is not None and interval is not None
    found, *others = (
        reduce(frame, [matrix], chosen, way, missing=missing, moments=shares) for way in ways
    )
    classes = _classes(found.tables[0], labels)
    columns = _counts(found, classes)
    if normalize is not None:
        tables = [one.tables[0] for one in (found, *others)]
        clustered = bool(roles.unit)
        columns.update(_shares(found, tables, classes, normalize, interval, level, clustered))
    return _result(found, classes, columns, keep_empty=bool(chosen.conditions))


def _no_sums(_: Any) -> Any:
    return {}


def _cells(s: Any) -> Any:
    return s.n


def _classes(table: Table, labels: Sequence[Any] | None) -> list[Any]:
    """The classes asked for, if no other one occurs."""
    there = list(table.classes[0])
    if there == [None]:
        raise EvalError("no row has a label or a prediction")
    if labels is None:
        return there
    unknown = [value for value in there if value not in labels]
    if unknown:
        raise EvalError(f"classes {listing(unknown)} are not among labels={list(labels)!r}")
    return list(labels)


def _positions(table: Table, classes: Sequence[Any]) -> list[Any]:
    """Of every row of the table, where its label and its prediction are among the classes."""
    place = np.array([classes.index(value) for value in table.classes[0]], int)
    return [place[cell] for cell in table.cells]


def _counts(found: Reduced, classes: Sequence[Any]) -> dict[str, Any]:
    """The rows of every group (slice x system), label and prediction; the rows left out."""
    table, size = found.tables[0], len(classes)
    groups = found.shape[0] * found.shape[1]
    group = group_codes(table, found.shape[1])
    truth, predicted = _positions(table, classes)
    place = (group * size + truth) * size + predicted
    cells = scattered(place, table.rows, groups * size * size)
    missing = np.repeat(added(group, table.missing, groups), size * size)
    shape = (groups, size, size)
    return {"n": cells.reshape(shape), "missing": missing.reshape(shape)}


def _shares(
    found: Reduced,
    ways: Sequence[Table],
    classes: Sequence[Any],
    normalize: str,
    interval: Interval,
    level: float,
    clustered: bool,
) -> dict[str, Any]:
    """The share of every group, label and prediction, with its interval."""
    size = len(classes)
    shape = (found.shape[0] * found.shape[1], size, size)
    numbers = ("total", "share", "std_error", "ci_low", "ci_high", "clusters")
    columns = {name: np.full(shape, np.nan) for name in numbers}
    columns["level"] = np.full(shape, level if interval is not None else np.nan)
    texts = {name: np.full(shape, None, object) for name in ("method", "note")}
    linearised = (_linearised(table, found.shape, classes, normalize) for table in ways)
    for (i, j, first), *others in zip(*linearised, strict=True):
        one = crossed(first, *(other for *_, other in others))
        made = intervals(SHARE, one, interval, level, clustered)
        values = (one.n, one.estimate, made.std_error, made.low, made.high, one.clusters)
        for name, value in zip(numbers, values, strict=True):
            columns[name][:, i, j] = value
        texts["method"][:, i, j] = [text or None for text in made.method]
        texts["note"][:, i, j] = [text or None for text in made.note]
    for name in ("total", "clusters"):
        columns[name] = np.nan_to_num(columns[name])
    texts["note"][np.isnan(columns["share"])] = EMPTY[normalize]
    return {**columns, **texts}


def _linearised(
    table: Table, shape: tuple[int, int], classes: Sequence[Any], normalize: str
) -> Iterator[tuple[int, int, Linear]]:
    """The share of every pair of a label and a prediction that rows are in, linearised."""
    for part, pairs in _parts(table, classes, normalize):
        truth, predicted = _positions(part, classes)
        units, place = _units(part)
        for i, j in pairs:
            hits = _with_hits(part, units, place, (truth == i) & (predicted == j))
            yield i, j, linear(SHARE, hits, *shape)


def _parts(
    table: Table, classes: Sequence[Any], normalize: str
) -> Iterator[tuple[Table, list[tuple[int, int]]]]:
    """The rows that shares are of, with the pairs of label and prediction among them."""
    every = range(len(classes))
    if normalize == "all":
        yield table, [(i, j) for i in every for j in every]
        return
    truth, predicted = _positions(table, classes)
    for k in every:
        kept = (truth if normalize == "truth" else predicted) == k
        if kept.any():
            yield table.take(kept), [(k, j) if normalize == "truth" else (j, k) for j in every]


def _units(table: Table) -> tuple[Table, Any]:
    """The units without their cells, and where each row of the (sorted) table is among them."""
    key = packed(table.keys[:3])
    return replace(table, cells=(), classes=()).merged(), np.cumsum(
        np.diff(key, prepend=key[:1]) > 0
    )


def _with_hits(table: Table, units: Table, places: Any, hit: Any) -> Table:
    """The units, with the sum of their rows in one cell."""
    chosen, place = table.take(hit), places[hit]
    size = len(units.rows)

    def beside(sums: Any, of_hits: Any) -> Any:
        return np.stack([sums[:, 0], added(place, of_hits, size)], -1)

    sums = beside(units.sums, chosen.sums[:, 0])
    plain = sums if units.plain is units.sums else beside(units.plain, chosen.plain[:, 0])
    moments = None
    if units.moments is not None and chosen.moments is not None:
        raw = chosen.moments[:, 0, 0] + chosen.sums[:, 0] ** 2 / np.maximum(chosen.rows, 1.0)
        mean = sums[:, 1] / np.maximum(units.rows, 1.0)
        moments = np.empty((size, 2, 2))
        moments[:, 0, 0] = units.moments[:, 0, 0]
        moments[:, 1, 1] = added(place, raw, size) - sums[:, 1] * mean
        moments[:, 0, 1] = moments[:, 1, 0] = added(place, raw, size) - sums[:, 0] * mean
    return replace(units, names=("n", "hits"), sums=sums, plain=plain, moments=moments)


def _result(
    found: Reduced, classes: Sequence[Any], columns: dict[str, Any], *, keep_empty: bool
) -> pl.DataFrame:
    """The arrays as columns, for the groups that have rows, with the keys in front."""
    shape = columns["n"].shape
    there = (columns["n"].sum((1, 2)) + columns["missing"][:, 0, 0] > 0) | keep_empty
    group, truth, predicted = (index[there].ravel() for index in np.indices(shape))
    names = pl.Series(classes)
    rows = pl.DataFrame(
        {
            "truth": names.gather(truth),
            "predicted": names.gather(predicted),
            **{name: _column(values[there].ravel()) for name, values in columns.items()},
        }
    )
    whole = [name for name in ("n", "total", "clusters", "missing") if name in rows.columns]
    rows = rows.with_columns(pl.col(whole).round().cast(pl.Int64)).select(
        name for name in COLUMNS if name in rows.columns
    )
    systems = found.shape[1]
    return with_keys(rows, (found.slices, group // systems), (found.systems, group % systems))


def _column(values: Any) -> pl.Series:
    if values.dtype == object:
        return pl.Series(values.tolist(), dtype=pl.String)
    return pl.Series(values).fill_nan(None)
