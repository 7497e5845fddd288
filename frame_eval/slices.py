"""Slices: which rows are asked about together, and the columns that say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from frame_eval.columns import Columns, Source, check_source
from frame_eval.errors import EvalError, listing


def names(columns: Columns | None) -> list[str]:
    """A column or a list of columns, as a list.

    >>> names("lang"), names(["lang", "domain"]), names(None)
    (['lang'], ['lang', 'domain'], [])
    """
    if columns is None:
        return []
    given: object = columns
    if isinstance(given, Crossed):
        raise EvalError(
            "fe.crossed is for cluster=, though not in bootstrap and plan; name columns here"
        )
    if isinstance(given, Slices):
        raise EvalError("name the column(s) here, without fe.each, fe.cube or fe.where")
    if isinstance(given, (pd.Series, pl.Series)):
        check_source(given)
    one = isinstance(columns, (str, nw.Expr, pl.Expr)) or not isinstance(columns, Iterable)
    listed: list[Any] = [columns] if one else list(columns)
    for name in listed:
        if not isinstance(name, str):
            raise EvalError(f"a column name is text, not {name!r}; for conditions use fe.where")
    if len(set(listed)) < len(listed):
        raise EvalError(f"a column is named twice in {listing(listed)}")
    return listed


@dataclass(frozen=True)
class Crossed:
    """Two ways in which rows are clustered at once, neither within the other."""

    first: tuple[str, ...]
    second: tuple[str, ...]


def cluster_ways(cluster: Columns | Crossed | None) -> list[Columns | None]:
    """The clusterings that errors need: the one, or of crossed ones each and both together."""
    if not isinstance(cluster, Crossed):
        return [cluster]
    return [cluster.first, cluster.second, (*cluster.first, *cluster.second)]


def crossed(first: Columns, second: Columns) -> Crossed:
    """Two-way clusters, such as items and raters, for ``cluster=`` of all verbs that make errors,
    but for :func:`bootstrap` and :func:`plan`.

    Rows depend on each other that share the first or the second: the variance is that clustered by
    the first, plus by the second, minus by both together (Cameron, Gelbach and Miller 2011), and
    never under that of either way alone; degrees of freedom are the fewer of both. Where one way
    does nothing, what it has few of still makes intervals wide (``benchmarks/coverage.md``).

    Parameters
    ----------
    first, second
        The column(s) of each way.

    Returns
    -------
    Crossed
        For ``cluster=``.

    Raises
    ------
    EvalError
        When both name the same columns, or none.

    Examples
    --------
    >>> import frame_eval as fe
    >>> fe.crossed("item", "rater").second
    ('rater',)
    """
    one, other = tuple(names(first)), tuple(names(second))
    if not one or not other or set(one) == set(other):
        raise EvalError(
            f"crossed clusters are two different sets of columns, not {one} and {other}"
        )
    return Crossed(one, other)


def unwrapped(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Rows of ids: the values themselves of a single column, tuples of several.

    >>> unwrapped([("a",), ("b",)]), unwrapped([("a", 1)])
    (['a', 'b'], [('a', 1)])
    """
    return [row[0] if len(row) == 1 else row for row in rows]


@dataclass(frozen=True)
class Slices:
    """Which slices to form: the key columns, and the subsets of them that are grouped by.

    ``stacked`` slices appear as two text columns, ``slice`` and ``value``; otherwise the key
    columns themselves appear. ``conditions`` are named and may overlap.
    """

    columns: tuple[str, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ((),)
    stacked: bool = False
    conditions: Mapping[str, Source] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[str, ...]:
        """The key columns of the result."""
        return ("slice", "value") if self.stacked else self.columns

    def is_whole(self, rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows of a result are about all rows of the frame, beside those of its slices."""
        if not self.stacked:
            return np.zeros(rows.height, bool)
        whole: npt.NDArray[np.bool_] = (rows["slice"] == "overall").to_numpy()
        return whole


By: TypeAlias = "Columns | Slices | None"


def each(*columns: str) -> Slices:
    """Slices of each column on its own, stacked below one another.

    Parameters
    ----------
    columns
        Column names. A row of the frame is in one slice of each of them.

    Returns
    -------
    Slices
        For ``by=``; results carry the text columns ``slice`` (the column) and ``value``.

    Raises
    ------
    EvalError
        Without columns, or with a column named twice.

    Examples
    --------
    >>> import frame_eval as fe
    >>> fe.each("lang", "domain").sets
    (('lang',), ('domain',))
    """
    listed = names(columns)
    if not listed:
        raise EvalError("fe.each needs at least one column")
    return Slices(tuple(listed), tuple((name,) for name in listed), stacked=True)


def cube(*columns: str, depth: int | None = None) -> Slices:
    """Slices of all combinations of the columns, up to ``depth`` columns at a time.

    Parameters
    ----------
    columns
        Column names.
    depth
        The most columns combined in one slice; all of them by default.

    Returns
    -------
    Slices
        For ``by=``; ``slice`` is the combination (``"lang, domain"``), ``value`` its values.

    Raises
    ------
    EvalError
        Without columns, or with ``depth`` outside 1 to the number of columns.

    Examples
    --------
    >>> import frame_eval as fe
    >>> fe.cube("lang", "domain").sets
    (('lang',), ('domain',), ('lang', 'domain'))
    """
    listed = names(columns)
    most = len(listed) if depth is None else depth
    if not listed or not 1 <= most <= len(listed):
        raise EvalError(f"fe.cube needs columns and a depth between 1 and {len(listed)}")
    sets = [chosen for size in range(1, most + 1) for chosen in combinations(listed, size)]
    return Slices(tuple(listed), tuple(sets), stacked=True)


def where(**conditions: Source) -> Slices:
    """Slices given by named conditions, which may overlap; a null condition is outside.

    Parameters
    ----------
    conditions
        Boolean columns or expressions of ``fe.col`` (on pandas and Polars frames also ``pl.col``).

    Returns
    -------
    Slices
        For ``by=``; ``slice`` is the name of the condition, ``value`` is ``"true"``.

    Raises
    ------
    EvalError
        Without conditions.

    Examples
    --------
    >>> import frame_eval as fe
    >>> list(fe.where(long=fe.col("tokens") > 1000, refused="refused").conditions)
    ['long', 'refused']
    """
    if not conditions:
        raise EvalError("fe.where needs at least one named condition")
    for condition in conditions.values():
        check_source(condition)
    return Slices(sets=(), stacked=True, conditions=conditions)


def slices(by: By, overall: bool) -> Slices:
    """``by`` in its one normal form; ``overall`` adds the whole frame as a slice."""
    if not isinstance(by, Slices):
        listed = tuple(names(by))
        by = Slices(listed, (listed,), stacked=overall and bool(listed))
    if overall and () not in by.sets:
        return Slices(by.columns, ((), *by.sets), True, by.conditions)
    return by
