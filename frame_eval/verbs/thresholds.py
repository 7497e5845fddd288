"""``best_threshold``: where to cut a score, chosen on one frame for use on another."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, check_option
from frame_eval.evaluation import verb
from frame_eval.inference.curves import Flagged, point_of
from frame_eval.inference.thresholds import (
    Criterion,
    by_cost,
    by_fbeta,
    by_precision,
    by_recall,
)
from frame_eval.reduce import Roles
from frame_eval.slices import By
from frame_eval.verbs.curve import at_thresholds, groups_of
from frame_eval.verbs.results import from_rows, with_keys

POINT = ("threshold", "objective", "tp", "fp", "fn", "tn", "precision", "recall", "fpr")
WHOLE = ("tp", "fp", "fn", "tn", "n")


@verb
def best_threshold(
    frame: Any,
    label: Source,
    score: Source,
    *,
    c_fp: float | None = None,
    c_fn: float | None = None,
    fbeta: float | None = None,
    min_recall: float | None = None,
    min_precision: float | None = None,
    positive: Any = None,
    by: By = None,
    system: Columns | None = None,
    weight: Source | None = None,
    overall: bool = False,
    missing: Literal["raise", "drop"] = "raise",
) -> pl.DataFrame:
    """The best threshold of a score by one criterion, per slice and system.

    Every distinct score is considered, and flagging nothing (a threshold of infinity). A row is
    flagged where its score is at least the threshold.

    Parameters
    ----------
    frame
        A long table, as in :func:`summary`: the rows to choose on, not those to report on.
    label
        A label column: boolean, 0/1, or any with ``positive``.
    score
        A numeric column, larger for more positive.
    c_fp, c_fn
        What a false positive and a false negative cost, at least 0: the least mean cost of a row
        is best. Of equally cheap thresholds the lowest is taken.
    fbeta
        The largest F measure with this beta (1 for F1); of equal ones the lowest threshold.
    min_recall
        The largest precision of the thresholds that reach this recall; of equal ones the lowest.
    min_precision
        The largest recall of the thresholds that reach this precision; of equal ones the highest.
    positive
        The positive class; True or 1 by default.
    by, system, weight, overall
        As in :func:`summary`; every slice and system gets a threshold of its own.
    missing
        Null or NaN in label or score: ``"raise"`` or ``"drop"``.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        A row per slice and system: the keys, ``rule``, ``threshold``, ``objective`` (what the rule
        is about), the operating point there (``tp``, ``fp``, ``fn``, ``tn``, ``precision``,
        ``recall``, ``fpr``), ``prevalence``, ``n`` (all rows) and ``note``. Chosen as the best,
        ``objective`` is optimistic: see :func:`operating_point` for other rows. Null where no
        threshold will do, with the reason in ``note``.

    Raises
    ------
    EvalError
        Unless exactly one rule is given, for costs or bounds that can not be, and as
        :func:`summary`.

    Examples
    --------
    Chosen on validation rows, and applied to test rows:

    >>> import frame_eval as fe, polars as pl
    >>> val = pl.DataFrame({"y": [0, 0, 1, 0, 1], "p": [0.1, 0.2, 0.3, 0.6, 0.9]})
    >>> fit = val.eval.best_threshold("y", "p", c_fp=1, c_fn=3)
    >>> fit.select("threshold", "objective", "fp", "fn").row(0)
    (0.3, 0.2, 1, 0)
    >>> test = pl.DataFrame({"y": [1, 0, 1], "p": [0.4, 0.3, 0.2]})
    >>> flagged = fe.col("p") >= fit["threshold"].item()
    >>> test.eval.summary(fe.recall("y", flagged))["estimate"].item()
    0.5
    """
    check_option("missing", missing, ("raise", "drop"))
    rule = _criterion(c_fp, c_fn, fbeta, min_recall, min_precision)
    roles = Roles.of(system, None, None, None, weight)
    (found,) = at_thresholds(
        frame, label, score, positive, by, [roles], overall=overall, missing=missing
    )
    groups, rows = [], []
    for group, sums, _ in groups_of([found]):
        groups.append(group)
        rows.append(_row(rule, Flagged.of(sums, counted=weight is None)))
    if not rows:
        raise EvalError("no row of any slice has a label and a score: there is no threshold")
    systems = found.shape[1]
    code = np.array(groups)
    whole = [name for name in WHOLE if weight is None or name == "n"]
    result = from_rows(rows, whole)
    return with_keys(result, (found.slices, code // systems), (found.systems, code % systems))


def _criterion(
    c_fp: float | None,
    c_fn: float | None,
    fbeta: float | None,
    min_recall: float | None,
    min_precision: float | None,
) -> Criterion:
    costs = None if c_fp is None and c_fn is None else (c_fp, c_fn)
    if sum(given is not None for given in (costs, fbeta, min_recall, min_precision)) != 1:
        raise EvalError("say one rule: c_fp= and c_fn=, fbeta=, min_recall= or min_precision=")
    if costs is not None:
        return by_cost(*_costs(*costs))
    if fbeta is not None:
        if not 0 < fbeta < np.inf:
            raise EvalError(f"fbeta={fbeta!r} is not above 0")
        return by_fbeta(fbeta)
    if min_recall is not None:
        return by_recall(_bound("min_recall", min_recall))
    assert min_precision is not None
    return by_precision(_bound("min_precision", min_precision))


def _costs(c_fp: float | None, c_fn: float | None) -> tuple[float, float]:
    if c_fp is None or c_fn is None:
        raise EvalError("say both c_fp= and c_fn=: only their ratio matters")
    given: tuple[object, object] = (c_fp, c_fn)
    numbers = all(isinstance(cost, Real) for cost in given)
    if not (numbers and c_fp >= 0 and c_fn >= 0 and 0 < c_fp + c_fn < np.inf):
        raise EvalError(f"costs are at least 0 and not both 0, not c_fp={c_fp!r}, c_fn={c_fn!r}")
    return c_fp, c_fn


def _bound(name: str, value: float) -> float:
    if not 0 < value <= 1:
        raise EvalError(f"{name}={value!r} is not above 0 and at most 1")
    return value


def _row(rule: Criterion, flagged: Flagged) -> dict[str, Any]:
    at, value = rule.best(flagged)
    # Bands of the best of many points would be too short: they are left out.
    point = point_of(flagged, at or 0, 0.95)
    values: dict[str, Any] = dict.fromkeys(POINT)
    note: str | None = rule.unreachable
    if at is not None:
        values = {name: value if name == "objective" else point[name] for name in POINT}
        note = None if at else "flagging nothing is best"
    return {
        "rule": rule.name,
        **values,
        "prevalence": point["prevalence"],
        "n": point["n"],
        "note": note,
    }


def bayes_threshold(c_fp: float, c_fn: float) -> float:
    """The threshold of least expected cost for calibrated probabilities, c_fp / (c_fp + c_fn).

    Flag where the probability of the positive class is at least this (Elkan 2001). For scores that
    are not calibrated use :func:`best_threshold`.

    Parameters
    ----------
    c_fp, c_fn
        What a false positive and a false negative cost, at least 0 and not both 0.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    EvalError
        For negative costs, or when both are 0.

    Examples
    --------
    >>> import frame_eval as fe
    >>> fe.bayes_threshold(c_fp=1, c_fn=9)
    0.1
    """
    c_fp, c_fn = _costs(c_fp, c_fn)
    return c_fp / (c_fp + c_fn)
