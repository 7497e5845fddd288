"""``routing``: what does it bring, and cost, to hand uncertain rows on?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import polars as pl

from frame_eval.columns import Columns, Input, Source, flag, number, score
from frame_eval.errors import EvalError, check_option
from frame_eval.evaluation import verb
from frame_eval.inference.curves import routed
from frame_eval.metrics.core import Metric
from frame_eval.slices import By, Crossed, slices
from frame_eval.verbs.curve import (
    NAMES,
    assembled,
    check_points,
    groups_of,
    in_ways,
    note_of,
    roles_of_rows,
)
from frame_eval.verbs.options import check_level, check_names

COLUMNS = ("handed_on", "accuracy_kept", "cost")


@verb
def routing(
    frame: Any,
    correct: Source,
    confidence: Source,
    *,
    fallback: Source | float = 1.0,
    cost: Source | float = 0.0,
    fallback_cost: Source | float = 1.0,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    points: int | None = 1000,
    level: float = 0.95,
    missing: Literal["raise", "drop"] = "raise",
) -> pl.DataFrame:
    """A cascade at every threshold: the share of rows handed on, the accuracy and the mean cost.

    A row keeps its answer where its confidence is at least the threshold, and else gets that of the
    fallback: a larger model, or people. Rows of equal confidence go together.

    Parameters
    ----------
    frame
        A long table, as in :func:`summary`.
    correct
        A 0/1 or boolean column: whether the answer of the system is right.
    confidence
        A numeric column, larger for more certain.
    fallback
        A 0/1 or boolean column: whether the answer of the fallback would be right; or its accuracy,
        a number between 0 and 1, the same for all rows.
    cost, fallback_cost
        What a row costs at the system, which answers all of them, and what it costs more where it
        is handed on: numeric columns or numbers.
    by, system, example, trial, cluster, weight, strata, overall, points
        As in :func:`curve`.
    level
        Of the pointwise band of ``accuracy``: the interval that :func:`summary` has for it at that
        threshold, Wilson's, with clusters or weights on the effective size. Null where ``fallback``
        is a number.
    missing
        Null or NaN in a column: ``"raise"`` or ``"drop"``.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        The slice keys, the system columns, ``curve`` (``"routing"``), ``threshold`` in descending
        order (at infinity all rows are handed on, at the lowest confidence none), ``handed_on``
        (their share), ``accuracy`` of the whole with ``accuracy_low`` and ``accuracy_high``,
        ``accuracy_kept`` (null where no row is kept), ``cost`` (the mean of a row), ``n`` (the rows
        kept) and ``note``.

    Raises
    ------
    EvalError
        For a fallback accuracy outside [0, 1], costs that are not finite, flags other than 0 and 1,
        and as :func:`curve`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 1, 0], "large_ok": [1, 1, 1], "confidence": [0.9, 0.7, 0.2]})
    >>> table = df.eval.routing("ok", "confidence", fallback="large_ok", cost=1, fallback_cost=10)
    >>> table.select("threshold", "accuracy", "cost").rows()[-2:]
    [(0.7, 1.0, 4.333333333333333), (0.2, 0.6666666666666666, 1.0)]
    """
    check_option("missing", missing, ("raise", "drop"))
    check_points(points)
    check_level(level)
    if isinstance(fallback, (int, float)) and not 0 <= fallback <= 1:
        raise EvalError(f"fallback={fallback!r} is neither a column nor an accuracy in [0, 1]")
    chosen = slices(by, overall)
    ways = roles_of_rows(system, example, trial, cluster, weight, strata)
    check_names((*chosen.shown, *ways[0].system), (*NAMES, *COLUMNS))
    inputs: dict[str, Input] = {"y": flag(correct), "s": score(confidence)}
    fixed: dict[str, float] = {}
    for name, given, build in (
        ("other", fallback, flag),
        ("cost", cost, number),
        ("extra", fallback_cost, number),
    ):
        if isinstance(given, (int, float)):
            fixed[name] = _finite(float(given))
        else:
            inputs[name] = build(given)
    sums = partial(_sums, [name for name in inputs if name not in ("y", "s")])
    metric = Metric("routing", inputs, sums, sums, cells=("s",), ordered=True)
    banded = "other" not in fixed
    grouped = banded and (bool(ways[0].cluster or ways[0].strata) or weight is not None)
    how = {"missing": missing, "moments": grouped, "tabled": grouped}
    found = in_ways(frame, metric, chosen, ways if grouped else ways[:1], **how)
    blocks = [
        (
            group,
            routed(cells, fixed, points, level, counted=banded, units=units),
            note_of("routing", cells),
        )
        for group, cells, units in groups_of(found, ("pos", "neg", "other") if grouped else ())
    ]
    return assembled(found[0], blocks, "routing")


def _sums(columns: Sequence[str], c: Any) -> Any:
    return {"pos": c.y, "neg": 1 - c.y, **{name: getattr(c, name) for name in columns}}


def _finite(cost: float) -> float:
    if not math.isfinite(cost):
        raise EvalError(f"a cost of {cost!r} is not a finite number")
    return cost
