"""Decisions: error rates of two classes, disagreement, the top k, and what mistakes cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

from frame_eval.columns import Source, equal, label, rank_of_truth
from frame_eval.errors import EvalError, check_whole, listing
from frame_eval.metrics.classification import matrix_metric
from frame_eval.metrics.core import Better, Metric
from frame_eval.metrics.costs import (
    mean_cost,
    mean_cost_expression,
    mean_cost_gradient,
    no_cells,
)
from frame_eval.metrics.means import NO_ROWS
from frame_eval.metrics.multilabel import differing, mean_of_rows
from frame_eval.metrics.shares import (
    SHARE,
    SHARE_OF_TRIALS,
    no_trials,
    opposite,
    share,
    share_of_trials,
)


def _tn_of_negative_predictions(c: Any) -> Any:
    return {"hits": (1 - c.y) * (1 - c.p), "rest": c.y * (1 - c.p)}


def _fp_of_negatives(c: Any) -> Any:
    return {"hits": (1 - c.y) * c.p, "rest": (1 - c.y) * (1 - c.p)}


def _fn_of_positives(c: Any) -> Any:
    return {"hits": c.y * (1 - c.p), "rest": c.y * c.p}


def _rate(
    name: str,
    sums: Any,
    reason: str,
    better: Better,
    target: Source,
    pred: Source,
    positive: Any,
    zero: float | None,
) -> Metric:
    if zero not in (None, 0, 1):
        raise EvalError(f"zero_division={zero!r} is not None, 0 or 1")
    return Metric(
        name,
        {"y": label(target, positive), "p": label(pred, positive)},
        sums,
        share_of_trials,
        proportion=SHARE_OF_TRIALS,
        counts=True,
        zero_division=zero,
        better=better,
        bounds=(0, 1),
        undefined={reason: no_trials},
        worst={"p": opposite},
    )


def npv(
    target: Source, pred: Source, *, positive: Any = None, zero_division: float | None = None
) -> Metric:
    """The negative predictive value, the share of negative predictions that are right.

    tn / (tn + fn)

    Parameters
    ----------
    target, pred
        Label columns of one type.
    positive
        The positive class; True or 1 by default.
    zero_division
        The value (0 or 1) where nothing is predicted negative, instead of null.

    Returns
    -------
    Metric
        Called ``npv``, between 0 and 1, higher is better; its interval and its ``n`` are those of
        the negative predictions. Null without any.

    Raises
    ------
    EvalError
        In a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 0, 0, 0]})
    >>> round(df.eval.summary(fe.npv("gold", "pred"))["estimate"].item(), 4)
    0.6667
    """
    return _rate(
        "npv",
        _tn_of_negative_predictions,
        "no negative predictions",
        "higher",
        target,
        pred,
        positive,
        zero_division,
    )


def fpr(
    target: Source, pred: Source, *, positive: Any = None, zero_division: float | None = None
) -> Metric:
    """The false positive rate, the share of negatives predicted positive: fp / (fp + tn).

    Parameters
    ----------
    target, pred, positive, zero_division
        As for :func:`npv`.

    Returns
    -------
    Metric
        Called ``fpr``, between 0 and 1, lower is better; its interval and its ``n`` are those of
        the negatives. Null without any.

    Raises
    ------
    EvalError
        As :func:`npv`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 1, 0, 0]})
    >>> df.eval.summary(fe.fpr("gold", "pred"))["estimate"].item()
    0.5
    """
    return _rate(
        "fpr", _fp_of_negatives, "no negatives", "lower", target, pred, positive, zero_division
    )


def fnr(
    target: Source, pred: Source, *, positive: Any = None, zero_division: float | None = None
) -> Metric:
    """The false negative rate, the share of positives that are missed: fn / (fn + tp).

    Parameters
    ----------
    target, pred, positive, zero_division
        As for :func:`npv`.

    Returns
    -------
    Metric
        Called ``fnr``, between 0 and 1, lower is better; its interval and its ``n`` are those of
        the positives. Null without any.

    Raises
    ------
    EvalError
        As :func:`npv`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 1, 0, 0]})
    >>> df.eval.summary(fe.fnr("gold", "pred"))["estimate"].item()
    0.5
    """
    return _rate(
        "fnr", _fn_of_positives, "no positives", "lower", target, pred, positive, zero_division
    )


def _four(c: Any) -> Any:
    return {
        "tp": c.y * c.p,
        "fn": c.y * (1 - c.p),
        "fp": (1 - c.y) * c.p,
        "tn": (1 - c.y) * (1 - c.p),
    }


def _informedness(s: Any) -> Any:
    return s.tp / (s.tp + s.fn) - s.fp / (s.fp + s.tn)


def _informedness_gradient(s: Any) -> Any:
    positives, negatives = (s.tp + s.fn) ** 2, (s.fp + s.tn) ** 2
    return {
        "tp": s.fn / positives,
        "fn": -s.tp / positives,
        "fp": -s.tn / negatives,
        "tn": s.fp / negatives,
    }


def _no_positives(s: Any) -> Any:
    return s.tp + s.fn == 0


def _no_negatives(s: Any) -> Any:
    return s.fp + s.tn == 0


def _markedness(s: Any) -> Any:
    return s.tp / (s.tp + s.fp) - s.fn / (s.fn + s.tn)


def _markedness_gradient(s: Any) -> Any:
    positives, negatives = (s.tp + s.fp) ** 2, (s.fn + s.tn) ** 2
    return {
        "tp": s.fp / positives,
        "fp": -s.tp / positives,
        "fn": -s.tn / negatives,
        "tn": s.fn / negatives,
    }


def _no_positive_predictions(s: Any) -> Any:
    return s.tp + s.fp == 0


def _no_negative_predictions(s: Any) -> Any:
    return s.fn + s.tn == 0


def informedness(target: Source, pred: Source, *, positive: Any = None) -> Metric:
    """Youden's J: recall + specificity - 1, the gap of true and false positive rate (Youden 1950).

    Parameters
    ----------
    target, pred
        Label columns of one type.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``informedness``, between -1 and 1, 0 for guessing. Null with one class only.

    Raises
    ------
    EvalError
        As :func:`npv`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 1, 0, 0], "pred": [1, 1, 1, 0]})
    >>> df.eval.summary(fe.informedness("gold", "pred"))["estimate"].item()
    0.5
    """
    return Metric(
        "informedness",
        {"y": label(target, positive), "p": label(pred, positive)},
        _four,
        _informedness,
        gradient=_informedness_gradient,
        counts=True,
        better="higher",
        bounds=(-1, 1),
        undefined={"no positives": _no_positives, "no negatives": _no_negatives},
        worst={"p": opposite},
    )


def markedness(target: Source, pred: Source, *, positive: Any = None) -> Metric:
    """Precision + negative predictive value - 1 (Powers 2011).

    Parameters
    ----------
    target, pred, positive
        As for :func:`informedness`.

    Returns
    -------
    Metric
        Called ``markedness``, between -1 and 1, 0 for guessing. Null where one class only is
        predicted.

    Raises
    ------
    EvalError
        As :func:`npv`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 1, 0, 0], "pred": [1, 0, 0, 0]})
    >>> round(df.eval.summary(fe.markedness("gold", "pred"))["estimate"].item(), 4)
    0.6667
    """
    return Metric(
        "markedness",
        {"y": label(target, positive), "p": label(pred, positive)},
        _four,
        _markedness,
        gradient=_markedness_gradient,
        counts=True,
        better="higher",
        bounds=(-1, 1),
        undefined={
            "no predicted positives": _no_positive_predictions,
            "no negative predictions": _no_negative_predictions,
        },
    )


def _misses(c: Any) -> Any:
    return {"hits": 1 - c.hit}


def hamming_loss(
    target: Source,
    pred: Source,
    *,
    multilabel: bool = False,
    labels: Sequence[Any] | None = None,
) -> Metric:
    """The share of rows whose prediction is not the label (Hamming 1950).

    Of several labels, in a row each or as lists, it is the share of (example, label) pairs in which
    the label is there and not predicted, or the other way around.

    Parameters
    ----------
    target, pred
        Label columns of any one type.
    multilabel
        Whether both columns are lists of labels.
    labels
        With lists, all labels that there are; by default those that occur in the slice.

    Returns
    -------
    Metric
        Called ``hamming_loss``, between 0 and 1, lower is better, with proportion intervals (of
        lists linearised ones). Null without rows.

    Raises
    ------
    EvalError
        When ``labels`` come without ``multilabel``; in a verb, when the columns can not be
        compared.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": ["a", "b", "b", "c"], "pred": ["a", "b", "a", "c"]})
    >>> df.eval.summary(fe.hamming_loss("gold", "pred"))["estimate"].item()
    0.25
    """
    if multilabel:
        options: dict[str, Any] = {"better": "lower", "bounds": (0, 1)}
        return mean_of_rows("hamming_loss", target, pred, differing, labels, **options)
    if labels is not None:
        raise EvalError("labels= goes with multilabel=True")
    return Metric(
        "hamming_loss",
        {"hit": equal(target, pred)},
        _misses,
        share,
        proportion=SHARE,
        better="lower",
        bounds=(0, 1),
        undefined=NO_ROWS,
        worst={"hit": 0},
    )


def _in_the_top(k: int, c: Any) -> Any:
    # A rank is whole and at least 1.
    return {"hits": (k + 1.0 - c.rank).clip(0.0, 1.0)}


def top_k_accuracy(target: Source, scores: Mapping[Any, Source], k: int) -> Metric:
    """The share of rows whose class is among the k with the highest scores.

    Parameters
    ----------
    target
        A label column.
    scores
        From each class to the column with its score, larger for more likely.
    k
        How many classes count, at least 1.

    Returns
    -------
    Metric
        Called ``top_<k>_accuracy``, between 0 and 1, with proportion intervals. Another class with
        the same score counts as ahead, so that a constant score has no hits. Null without rows. The
        work grows with the square of the classes: beyond some dozens, ``rate(fe.col("rank") <= k)``
        of a column of ranks is faster.

    Raises
    ------
    EvalError
        When k is not between 1 and the number of classes less one; in a verb for labels that are
        none of the classes.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": ["a", "c"], "a": [0.2, 0.6], "b": [0.7, 0.3], "c": [0.1, 0.1]})
    >>> metric = fe.top_k_accuracy("y", {"a": "a", "b": "b", "c": "c"}, k=2)
    >>> df.eval.summary(metric)["estimate"].item()
    0.5
    """
    check_whole("k", k, 1)
    if k >= len(scores):
        raise EvalError(
            f"k={k!r} is not between 1 and {len(scores) - 1}, one less than the classes"
        )
    return Metric(
        f"top_{k}_accuracy",
        {"rank": rank_of_truth(target, scores)},
        partial(_in_the_top, k),
        share,
        proportion=SHARE,
        better="higher",
        bounds=(0, 1),
        undefined=NO_ROWS,
        worst={"rank": len(scores)},
    )


def _check_costs(costs: object) -> None:
    """Raise unless they map pairs to finite numbers."""
    if not isinstance(costs, Mapping):
        raise EvalError(
            f"costs is a {type(costs).__name__}, not a mapping from (label, prediction) to the "
            "cost: {('ham', 'spam'): 5.0, ('spam', 'ham'): 1.0}"
        )
    for pair, cost in costs.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise EvalError(f"costs has {pair!r} where a pair (label, prediction) is meant")
        if not isinstance(cost, Real) or not math.isfinite(cost):
            raise EvalError(f"the cost of {pair!r} is {cost!r}, not a finite number")


def expected_cost(target: Source, pred: Source, costs: Mapping[tuple[Any, Any], float]) -> Metric:
    """The mean cost of a row: sum over (label, prediction) of its cost times its share of rows.

    Parameters
    ----------
    target, pred
        Label columns of one type.
    costs
        From (label, prediction) to the cost of a row, for every two different classes; right
        predictions cost 0 unless named. A gain is a negative cost.

    Returns
    -------
    Metric
        Called ``expected_cost``, in the unit of the costs; lower is better. Null without rows.

    Raises
    ------
    EvalError
        When costs are no mapping from pairs, or that of a pair of classes is missing or not finite;
        in a verb for classes that have no costs.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": ["ham", "spam", "ham"], "pred": ["spam", "ham", "ham"]})
    >>> costs = {("ham", "spam"): 5, ("spam", "ham"): 1}
    >>> df.eval.summary(fe.expected_cost("gold", "pred", costs))["estimate"].item()
    2.0
    """
    _check_costs(costs)
    classes = list(dict.fromkeys(value for pair in costs for value in pair))
    lost = [(y, p) for y in classes for p in classes if y != p and (y, p) not in costs]
    if lost or not costs:
        raise EvalError(f"costs of (label, prediction) are missing: {listing(lost)}")
    priced = dict(costs)
    least, most = min(0.0, *priced.values()), max(priced.values())
    return matrix_metric(
        "expected_cost",
        target,
        pred,
        partial(mean_cost, priced),
        gradient=partial(mean_cost_gradient, priced),
        expression=partial(mean_cost_expression, priced),
        better="lower",
        bounds=(least, most) if least < most else (None, None),
        undefined={"no rows": no_cells},
    )
