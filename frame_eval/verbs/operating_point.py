"""``operating_point``: what a threshold that was chosen elsewhere does on these rows."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, Literal

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, listing
from frame_eval.evaluation import verb
from frame_eval.inference.curves import Flagged, point_of
from frame_eval.reduce import result_frame
from frame_eval.slices import By, Crossed
from frame_eval.verbs.curve import at_thresholds, groups_of, roles_of_rows
from frame_eval.verbs.options import check_level
from frame_eval.verbs.results import from_rows, with_keys

COUNTS = ("tp", "fp", "fn", "tn")
SAME = "the same counts as where the threshold was chosen: on the same rows they are optimistic"


@verb
def operating_point(
    frame: Any,
    label: Source,
    score: Source,
    threshold: float | Any,
    *,
    positive: Any = None,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    level: float = 0.95,
    missing: Literal["raise", "drop"] = "raise",
) -> pl.DataFrame:
    """What happens at the threshold that will ship, per slice and system, with intervals.

    A row is flagged where its score is at least the threshold.

    Parameters
    ----------
    frame
        A long table, as in :func:`summary`: rows that the threshold was not chosen on.
    label
        A label column: boolean, 0/1, or any with ``positive``.
    score
        A numeric column, larger for more positive.
    threshold
        A number; or a pandas or Polars frame with a column ``threshold``, such as
        :func:`best_threshold` gives: slices and systems get the one of the row that has their keys,
        of as many key columns as it has (none: the same threshold for all).
    positive
        The positive class; True or 1 by default.
    by, system, example, trial, cluster, weight, strata, overall, level, missing
        As in :func:`curve`.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        A row per slice and system: the keys, ``threshold``, the counts (with weights, their sums)
        ``tp``, ``fp``, ``fn`` and ``tn``, the rates ``recall``, ``precision``, ``fpr`` and
        ``accuracy``, each with ``<rate>_low`` and ``<rate>_high``, ``prevalence`` (the share of
        positives, with which precision moves), ``f1``, ``n`` (all rows) and ``note``. Undefined
        is null: precision where nothing is flagged, recall without positives, everything where
        there is no threshold.

    Raises
    ------
    EvalError
        When ``threshold`` is NaN or no number, when its frame has keys that ``by`` and ``system``
        do not make or several rows with the same, and as :func:`curve`.

    Warns
    -----
    UserWarning
        When all counts are those of the frame that ``threshold`` came with: those of the rows that
        it was chosen on are optimistic.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> val = pl.DataFrame({"y": [0, 0, 1, 0, 1], "p": [0.1, 0.2, 0.3, 0.6, 0.9]})
    >>> test = pl.DataFrame({"y": [1, 0, 1, 1], "p": [0.4, 0.3, 0.2, 0.8]})
    >>> fit = val.eval.best_threshold("y", "p", c_fp=1, c_fn=3)
    >>> shipped = test.eval.operating_point("y", "p", fit)
    >>> shipped.select("threshold", "tp", "fp", "fn", "tn").row(0)
    (0.3, 2, 1, 1, 0)
    >>> shipped.select(pl.col("recall", "recall_low", "recall_high").round(3)).row(0)
    (0.667, 0.208, 0.939)
    """
    check_level(level)
    ways = roles_of_rows(system, example, trial, cluster, weight, strata)
    grouped = bool(ways[0].cluster or ways[0].strata) or weight is not None
    found = at_thresholds(
        frame, label, score, positive, by, ways, overall=overall, missing=missing, tabled=grouped
    )
    groups, points = [], []
    of_units = ("pos", "neg") if grouped else ()
    for group, sums, units in groups_of(found, of_units):
        groups.append(group)
        points.append(Flagged.of(sums, counted=not grouped, units=units))
    if not groups:
        raise EvalError("no row of any slice has a label and a score: nothing is flagged or not")
    code, systems = np.array(groups), found[0].shape[1]
    of_groups = (found[0].slices, code // systems), (found[0].systems, code % systems)
    chosen = _thresholds(threshold, with_keys(pl.DataFrame({"__fe_group": code}), *of_groups))
    rows = [_row(at, point, level) for at, point in zip(chosen["threshold"], points, strict=True)]
    whole = (*COUNTS, "n") if weight is None else ("n",)
    result = from_rows(rows, whole)
    if _same_counts(chosen, result):
        warnings.warn(SAME, stacklevel=3)
        result = result.with_columns(note=pl.lit(SAME))
    return with_keys(result, *of_groups)


def _thresholds(given: Any, keys: pl.DataFrame) -> pl.DataFrame:
    """The threshold of every slice and system, with what else the given frame says of it."""
    if isinstance(given, Real) and not isinstance(given, bool):
        if math.isnan(given):
            raise EvalError("threshold=nan flags nothing and leaves nothing out; give a number")
        return keys.with_columns(threshold=pl.lit(float(given)))
    chosen = result_frame(given, ["threshold"])
    if chosen is None or chosen.is_empty():
        what = "a frame without rows" if chosen is not None else repr(given)
        raise EvalError(
            f"threshold={what} is neither a number nor a frame with a column 'threshold'"
        )
    theirs = [name for name in chosen.columns if name in keys.columns]
    if chosen.height > 1 and (not theirs or chosen.select(theirs).is_duplicated().any()):
        by = f" and the same {listing(theirs)}" if theirs else ""
        raise EvalError(
            f"{chosen.height} rows have a threshold{by}: say by= and system= as where they were "
            "chosen, and keep one rule"
        )
    values = chosen.select(
        *theirs,
        pl.col("threshold").cast(pl.Float64).fill_nan(None),
        *(name for name in COUNTS if name in chosen.columns),
    )
    if not theirs:
        return keys.join(values, how="cross")
    try:
        values = values.cast({name: keys.schema[name] for name in theirs})
    except pl.exceptions.PolarsError as error:
        raise EvalError(
            f"the thresholds are by {listing(theirs)}, which are of another type in the frame"
        ) from error
    return keys.join(values, on=theirs, how="left", nulls_equal=True, maintain_order="left")


def _row(threshold: float | None, flagged: Flagged, level: float) -> dict[str, Any]:
    """The counts and rates of one slice and system; NaN where there is no threshold."""
    at = 0 if threshold is None else flagged.last_at_least(threshold)
    point = point_of(flagged, at, level)
    if threshold is None:
        of_rows = {name: point[name] for name in ("prevalence", "n")}
        return {**dict.fromkeys(point, math.nan), **of_rows, "note": "no threshold"}
    note = None if point["tp"] + point["fp"] else "nothing is flagged"
    return {**point, "threshold": threshold, "note": note}


def _same_counts(chosen: pl.DataFrame, result: pl.DataFrame) -> bool:
    """Whether the thresholds came with counts, and these are all the same here."""
    if not set(COUNTS) <= set(chosen.columns):
        return False
    return bool(
        chosen.select(COUNTS).cast(pl.Float64).equals(result.select(COUNTS).cast(pl.Float64))
    )
