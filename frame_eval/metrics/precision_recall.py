"""Precision, recall, specificity, the F scores and the Jaccard index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any

from frame_eval.columns import Source, label
from frame_eval.errors import EvalError, check_share
from frame_eval.metrics.averages import Asked, Average, Family, of_family
from frame_eval.metrics.confusion import (
    fbeta_score,
    jaccard_score,
    precision_score,
    recall_score,
    specificity_score,
)
from frame_eval.metrics.core import Metric


def _sums_tp_fp(c: Any) -> Any:
    return {"tp": c.y * c.p, "fp": (1 - c.y) * c.p}


def _sums_tp_fp_fn(c: Any) -> Any:
    return {"tp": c.y * c.p, "fp": (1 - c.y) * c.p, "fn": c.y * (1 - c.p)}


def _sums_tp_fn(c: Any) -> Any:
    return {"tp": c.y * c.p, "fn": c.y * (1 - c.p)}


def _sums_tn_fp(c: Any) -> Any:
    return {"tn": (1 - c.y) * (1 - c.p), "fp": (1 - c.y) * c.p}


def _tp(s: Any) -> Any:
    return s.tp


def _tn(s: Any) -> Any:
    return s.tn


def _tp_fp(s: Any) -> Any:
    return s.tp + s.fp


def _tp_fn(s: Any) -> Any:
    return s.tp + s.fn


def _tn_fp(s: Any) -> Any:
    return s.tn + s.fp


def _tp_fp_fn(s: Any) -> Any:
    return s.tp + s.fp + s.fn


PRECISION = Family(
    "precision", "precision", precision_score, _sums_tp_fp, _tp, _tp_fp, "no predicted positives"
)
RECALL = Family("recall", "recall", recall_score, _sums_tp_fn, _tp, _tp_fn, "no positives")
SPECIFICITY = Family(
    "specificity", "specificity", specificity_score, _sums_tn_fp, _tn, _tn_fp, "no negatives"
)
NEITHER = "no positives and no predicted positives"
JACCARD = Family("jaccard", "jaccard", jaccard_score, _sums_tp_fp_fn, _tp, _tp_fp_fn, NEITHER)


def _fscore(beta: float) -> Family:
    score = partial(fbeta_score, beta)
    return Family(f"f{beta:g}", "fbeta", score, _sums_tp_fp_fn, _tp, _tp_fp_fn, NEITHER, beta)


def precision(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
    min_support: int = 0,
    multilabel: bool = False,
    label_of: Source | None = None,
) -> Metric:
    """The share of positive predictions that are right: tp / (tp + fp).

    Parameters
    ----------
    target, pred
        Label columns of one type.
    average
        ``"binary"``: one class against the rest. ``"macro"``: the mean over the classes that
        occur in the slice as label or prediction. ``"weighted"``: the same, weighted by support.
        ``"micro"``: counts pooled over classes, which of one label per row and all classes is the
        accuracy. None: a row per class, in a column ``class``.
        ``"samples"``: of multi-label rows, one per label of each ``example`` with 0/1 columns,
        the mean over examples (``"binary"`` on the same rows is the micro average over labels).
    positive
        The positive class of ``"binary"`` and ``"samples"``; True or 1 by default.
    labels
        The classes to average over, instead of those that occur.
    zero_division
        The value (0 or 1) where nothing is predicted positive, instead of null.
    min_support
        The fewest rows of a label with which its class is in a ``"macro"`` or ``"weighted"``
        average; ``note`` names those left out.
    multilabel
        Whether both columns are lists of labels (repeats do not count; an empty list has none).
        ``"samples"`` is then the mean over rows, None has a row per label, ``labels`` are those
        that count, by default the ones that occur in the slice.
    label_of
        Of rows per (example, label) with 0/1 columns, the column that says which label a row is
        about: ``"macro"`` and ``"weighted"`` are then averages over these labels.

    Returns
    -------
    Metric
        Between 0 and 1; binary and per-class ones have proportion intervals on their own
        denominator. Null without predicted positives; averages leave undefined classes out and
        say how many in ``note`` (scikit-learn's ``zero_division=np.nan``).

    Raises
    ------
    EvalError
        For an unknown average, and in a verb for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 1, 1, 0]})
    >>> round(df.eval.summary(fe.precision("gold", "pred"))["estimate"].item(), 4)
    0.6667
    >>> df = pl.DataFrame({"gold": [["a", "b"], ["b"]], "pred": [["a"], ["a", "b"]]})
    >>> metric = fe.precision("gold", "pred", average="samples", multilabel=True)
    >>> df.eval.summary(metric)["estimate"].item()
    0.75
    """
    asked = Asked(
        target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
    )
    return of_family(PRECISION, asked)


def recall(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
    min_support: int = 0,
    multilabel: bool = False,
    label_of: Source | None = None,
) -> Metric:
    """The share of positives that are found: tp / (tp + fn). Also called sensitivity.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
        As for :func:`precision`.

    Returns
    -------
    Metric
        Between 0 and 1; its interval and its ``n`` are those of the positives. Null without any.

    Raises
    ------
    EvalError
        As :func:`precision`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 1, 0, 0]})
    >>> df.eval.summary(fe.recall("gold", "pred")).select("estimate", "n").row(0)
    (0.5, 2)
    """
    asked = Asked(
        target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
    )
    return of_family(RECALL, asked)


def specificity(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
    min_support: int = 0,
    multilabel: bool = False,
    label_of: Source | None = None,
) -> Metric:
    """The share of negatives that are left alone: tn / (tn + fp).

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
        As for :func:`precision`.

    Returns
    -------
    Metric
        Between 0 and 1; its interval and its ``n`` are those of the negatives. Null without any.

    Raises
    ------
    EvalError
        As :func:`precision`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 0, 0], "pred": [1, 1, 0, 0]})
    >>> round(df.eval.summary(fe.specificity("gold", "pred"))["estimate"].item(), 4)
    0.6667
    """
    asked = Asked(
        target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
    )
    return of_family(SPECIFICITY, asked)


def fbeta(
    target: Source,
    pred: Source,
    beta: float,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
    min_support: int = 0,
    multilabel: bool = False,
    label_of: Source | None = None,
) -> Metric:
    """The F score: (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) (van Rijsbergen 1979).

    Parameters
    ----------
    beta
        How much more recall counts than precision; positive.
    target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
        As for :func:`precision`.

    Returns
    -------
    Metric
        Called ``f<beta>``, between 0 and 1. Null without positives and predicted positives; 0 as
        soon as there is an error and no true positive.

    Raises
    ------
    EvalError
        When beta is not a positive number; otherwise as :func:`precision`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 1], "pred": [1, 1, 0, 1]})
    >>> round(df.eval.summary(fe.fbeta("gold", "pred", 2))["estimate"].item(), 4)
    0.6667
    """
    given: object = beta
    if not isinstance(given, Real) or not 0 < float(given) < math.inf:
        raise EvalError(f"beta={beta!r} is not a positive number")
    asked = Asked(
        target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
    )
    return of_family(_fscore(float(beta)), asked)


def f1(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
    min_support: int = 0,
    multilabel: bool = False,
    label_of: Source | None = None,
) -> Metric:
    """The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

    F1 is 2J / (1 + J) of the share J = tp / (tp + fp + fn), and so has the interval of that
    share, mapped.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
        As for :func:`precision`.

    Returns
    -------
    Metric
        Called ``f1``, between 0 and 1. Null without positives and predicted positives.

    Raises
    ------
    EvalError
        As :func:`precision`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 1, 1, 0]})
    >>> df.eval.summary(fe.f1("gold", "pred"))["estimate"].item()
    0.8
    """
    asked = Asked(
        target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
    )
    return of_family(_fscore(1.0), asked)


def jaccard(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
    min_support: int = 0,
    multilabel: bool = False,
    label_of: Source | None = None,
) -> Metric:
    """Intersection over union of labels and predictions: tp / (tp + fp + fn) (Jaccard 1912).

    The macro average over pixels as rows is the mean intersection over union of a segmentation.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
        As for :func:`precision`.

    Returns
    -------
    Metric
        Between 0 and 1, with proportion intervals when binary or per class. Null without positives
        and predicted positives.

    Raises
    ------
    EvalError
        As :func:`precision`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 0], "pred": [1, 1, 0, 0]})
    >>> round(df.eval.summary(fe.jaccard("gold", "pred"))["estimate"].item(), 4)
    0.3333
    """
    asked = Asked(
        target, pred, average, positive, labels, zero_division, min_support, multilabel, label_of
    )
    return of_family(JACCARD, asked)


def _rates(c: Any) -> Any:
    return {"pos": c.y, "tp": c.y * c.p, "neg": 1 - c.y, "fp": (1 - c.y) * c.p}


def _precision_at(prevalence: float, s: Any) -> Any:
    hits, alarms = prevalence * s.tp / s.pos, (1 - prevalence) * s.fp / s.neg
    return hits / (hits + alarms)


def _precision_at_gradient(prevalence: float, s: Any) -> Any:
    hits, alarms = prevalence * s.tp / s.pos, (1 - prevalence) * s.fp / s.neg
    of_hits, of_alarms = alarms / (hits + alarms) ** 2, -hits / (hits + alarms) ** 2
    return {
        "tp": of_hits * prevalence / s.pos,
        "pos": -of_hits * hits / s.pos,
        "fp": of_alarms * (1 - prevalence) / s.neg,
        "neg": -of_alarms * alarms / s.neg,
    }


def _without_positives(s: Any) -> Any:
    return s.pos == 0


def _without_negatives(s: Any) -> Any:
    return s.neg == 0


def _without_flagged(s: Any) -> Any:
    return s.tp + s.fp == 0


def precision_at_prevalence(
    target: Source, pred: Source, prevalence: float, *, positive: Any = None
) -> Metric:
    """The precision in a population where another share is positive.

    pi TPR / (pi TPR + (1 - pi) FPR): both rates are taken over, which holds where the classes
    themselves look alike in both populations.

    Parameters
    ----------
    target, pred
        Columns of labels and predictions: boolean, 0/1, or any with ``positive``; a prediction may
        be a condition such as ``fe.col("score") >= 0.6``.
    prevalence
        The share of positives in that population, between 0 and 1.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``precision(prevalence=0.001)``, between 0 and 1. Errors are linearised, the
        interval is made on the logit scale. Null with one class only or without predicted
        positives.

    Raises
    ------
    EvalError
        When ``prevalence`` is not between 0 and 1; in a verb, for labels other than 0 and 1
        without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 1, 0, 0, 0, 0], "p": [1, 0, 1, 0, 0, 0]})
    >>> df.eval.summary(fe.precision_at_prevalence("y", "p", 0.01))["estimate"].item()
    0.0198019801980198
    """
    check_share("prevalence", prevalence)
    return Metric(
        f"precision(prevalence={prevalence:g})",
        {"y": label(target, positive), "p": label(pred, positive)},
        _rates,
        partial(_precision_at, prevalence),
        gradient=partial(_precision_at_gradient, prevalence),
        better="higher",
        bounds=(0, 1),
        undefined={
            "no positives": _without_positives,
            "no negatives": _without_negatives,
            "no predicted positives": _without_flagged,
        },
    )
