"""The ROC curve: areas under it, and how far apart it gets from the diagonal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import ceil, floor, log10
from typing import Any

import numpy as np

from frame_eval.columns import Source
from frame_eval.errors import check_share
from frame_eval.metrics.core import Metric
from frame_eval.metrics.expressions import above, from_top
from frame_eval.metrics.multiclass import Average, MultiClass, Ranking, averaged_ranking
from frame_eval.metrics.scores import (
    ONE_CLASS,
    ROUGH,
    SIDES,
    check_several,
    check_single,
    few,
    no_negatives,
    no_positives,
    of_scores,
    over,
)


def _negatives_below(c: Any) -> Any:
    """How many negatives have a lower score, and half of those with the same."""
    return c.from_bottom("neg") - c.neg / 2


def _positives_below(c: Any) -> Any:
    return c.from_bottom("pos") - c.pos / 2


def _auc(s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return s.dot("pos", _negatives_below) / (s.total("pos") * s.total("neg"))


def _auc_gradient(s: Any) -> Any:
    """Placement values (DeLong, DeLong and Clarke-Pearson 1988), centred at the AUC."""
    positives, negatives, auc = (x[..., None] for x in (s.total("pos"), s.total("neg"), _auc(s)))
    pairs = negatives * positives
    with np.errstate(divide="ignore", invalid="ignore"):
        of_positives, of_negatives = auc / positives, (1 - auc) / negatives
    return {
        "pos": lambda c: c.by_cell(_negatives_below) / pairs - of_positives,
        "neg": lambda c: of_negatives - c.by_cell(_positives_below) / pairs,
    }


def _auc_expression(c: Any) -> Any:
    positives = c.y.sum()
    negatives = c.y.count() - positives
    ranks = (c.s.rank("average") * c.y).sum()
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


AUC = Ranking("roc_auc", _auc, _auc_gradient, ONE_CLASS, few, _auc_expression, apart=True)


def roc_auc(
    target: Source,
    scores: Source | Mapping[Any, Source],
    *,
    positive: Any = None,
    average: Average = "macro",
    multi_class: MultiClass = "ovr",
) -> Metric:
    """The probability that a positive scores above a negative, ties counting half.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal. Of several classes, a
        mapping from each class to the column with its score.
    positive
        The positive class of a single column; True or 1 by default.
    average
        Of several classes: ``"macro"``, the mean; ``"weighted"``, by the rows of each class;
        ``"micro"``, all classes in one ranking; None, a row per class in a column ``class``.
    multi_class
        ``"ovr"``: each class against the rest (Fawcett 2006). ``"ovo"``: each against each other,
        by the score of the first (Hand and Till 2001); weighted by the rows of both classes.

    Returns
    -------
    Metric
        Called ``roc_auc``, or like ``macro_roc_auc`` and ``macro_roc_auc_ovo``, between 0 and 1.
        Errors are linearised by placement values (DeLong, DeLong and Clarke-Pearson 1988;
        Obuchowski 1997 for clusters; of an average, averaged), the interval is made on the logit
        scale; at exactly 0 or 1 it is null. Null with one class only; classes that no row is of
        are left out of an average and named in ``note``.

    Raises
    ------
    EvalError
        For options that go with several classes and one column, or the other way around; in a verb,
        for labels other than 0 and 1 without ``positive``, or that are none of several classes.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]})
    >>> df.eval.summary(fe.roc_auc("y", "score"))["estimate"].item()
    0.875
    >>> df = pl.DataFrame({"y": ["a", "b", "c"], "a": [3, 1, 2], "b": [2, 3, 1], "c": [1, 2, 2]})
    >>> df.eval.summary(fe.roc_auc("y", {k: k for k in "abc"}))["estimate"].item()
    0.9166666666666666
    """
    if isinstance(scores, Mapping):
        check_single(positive)
        return averaged_ranking(AUC, target, scores, average, multi_class)
    check_several(average, multi_class)
    return of_scores(
        "roc_auc",
        target,
        scores,
        positive,
        _auc,
        runs=True,
        gradient=_auc_gradient,
        samples=SIDES,
        undefined=ONE_CLASS,
        note=few,
        expression=_auc_expression,
    )


def _gini(s: Any) -> Any:
    return 2 * _auc(s) - 1


_PAIRWISE: dict[Any, float] = {_auc: 0.5, _gini: 1.0}  # by how much a pair in one bin may err


def in_bins(metric: Metric, bins: int | None) -> Metric:
    """The metric with a note that its scores are in so many bins, and by how much that may err."""
    if bins is None or not metric.ordered:
        return metric
    return replace(metric, note=partial(_binned_note, metric, bins))


def _binned_note(metric: Metric, bins: int, s: Any) -> str:
    text = f"scores in {bins} bins"
    if metric.finish in _PAIRWISE:
        # Pairs in the same bin count half, which is off by a half at most.
        shared = s.dot("pos", lambda c: c.neg) / (s.total("pos") * s.total("neg"))
        text += f": off by at most {_upwards(float(_PAIRWISE[metric.finish] * shared)):g}"
    own = "" if metric.note is None else str(metric.note(s))
    return f"{own}; {text}" if own else text


def _upwards(value: float) -> float:
    """The next number of two digits that is not less."""
    if not 0 < value < np.inf:
        return value
    digits = 1 - floor(log10(value))
    return float(ceil(value * 10.0**digits) / 10.0**digits)


def _gini_gradient(s: Any) -> Any:
    return {name: _doubled(slope) for name, slope in _auc_gradient(s).items()}


def _doubled(term: Any) -> Any:
    return lambda c: 2 * term(c)


def _gini_expression(c: Any) -> Any:
    return 2 * _auc_expression(c) - 1


def gini(target: Source, scores: Source, *, positive: Any = None) -> Metric:
    """The Gini coefficient of a score, 2 AUC - 1, also Somers' D of the score given the label.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``gini``, between -1 and 1; 0 for scores without information. Errors as those of
        :func:`roc_auc`. Null with one class only.

    Raises
    ------
    EvalError
        In a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]})
    >>> df.eval.summary(fe.gini("y", "score"))["estimate"].item()
    0.75
    """
    return of_scores(
        "gini",
        target,
        scores,
        positive,
        _gini,
        runs=True,
        bounds=(-1, 1),
        gradient=_gini_gradient,
        samples=SIDES,
        undefined=ONE_CLASS,
        note=few,
        expression=_gini_expression,
    )


def _area(most: float, s: Any) -> Any:
    """The area under the ROC curve up to a false positive rate, with what its gradient needs.

    Cells are in order from the top: the heights before each (TPR), the share of the cell's
    negatives that is inside, and the height at the limit.
    """
    pos, neg = s.pos[..., ::-1], s.neg[..., ::-1]
    up, right = over(pos, pos.sum(-1, keepdims=True)), over(neg, neg.sum(-1, keepdims=True))
    before, start = np.cumsum(up, axis=-1) - up, np.cumsum(right, axis=-1) - right
    # Cells without negatives are a step upwards, of no width.
    inside = np.clip(over(most - start, right), 0, 1)
    area = np.sum(right * inside * (before + up * inside / 2), axis=-1)
    at = np.minimum((start + right < most).sum(-1), up.shape[-1] - 1)[..., None]
    height = np.take_along_axis(before + up * inside, at, -1)[..., 0]
    return area, before, up, inside, height


def _partial(most: float, standardized: bool, s: Any) -> Any:
    area, low = _area(most, s)[0], most**2 / 2
    value = (1 + (area - low) / (most - low)) / 2 if standardized else area
    return np.where(no_positives(s) | no_negatives(s), np.nan, value)


def _partial_gradient(most: float, standardized: bool, s: Any) -> Any:
    positives, negatives = s.pos.sum(), s.neg.sum()
    area, before, up, inside, height = _area(most, s)
    right = s.neg[::-1] / negatives
    width = np.cumsum(right * inside)
    # What a positive adds: the width beyond its cell, and half of the cell's own.
    reach = most - width + right * inside**2 / 2
    pos = (reach - area) / positives
    # A negative inside adds its height, and pushes the last ones over the limit.
    own = np.where(inside >= 1, before + up / 2 - height, -up * inside**2 / 2)
    neg = (own + most * height - area) / negatives
    scale = 1 / (2 * (most - most**2 / 2)) if standardized else 1.0
    return {"pos": scale * pos[::-1], "neg": scale * neg[::-1]}


def _partial_expression(most: float, standardized: bool, c: Any) -> Any:
    """The mean over negatives of the height at each, as far as it is inside."""
    before, up = (part(c.y, c.s) / c.y.sum() for part in (above, from_top))
    start, right = (part(1 - c.y, c.s) / (1 - c.y).sum() for part in (above, from_top))
    inside = ((most - start) / (right - start)).clip(0.0, 1.0)
    area = (inside * (before + (up - before) * inside / 2)).filter(c.y == 0).mean()
    low = most**2 / 2
    return (1 + (area - low) / (most - low)) / 2 if standardized else area


def partial_auc(
    target: Source,
    scores: Source,
    max_fpr: float,
    *,
    standardized: bool = True,
    positive: Any = None,
) -> Metric:
    """The area under the ROC curve up to a false positive rate, standardized by McClish (1989).

    Between points of the curve (within tied scores and at the limit) it is linear. Standardized it
    is (1 + (A - m^2 / 2) / (m - m^2 / 2)) / 2 with m the limit: 1/2 for random scores, 1 at best.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    max_fpr
        The largest false positive rate, between 0 and 1.
    standardized
        False gives the area itself, at most ``max_fpr``.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``partial_auc(fpr<=0.1)``. Errors are linearised. Null with one class only.

    Raises
    ------
    EvalError
        When ``max_fpr`` is not between 0 and 1; in a verb, for labels other than 0 and 1 without
        ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.9, 0.5, 0.4, 0.1]})
    >>> df.eval.summary(fe.partial_auc("y", "score", 0.5))["estimate"].item()
    0.6666666666666666
    """
    check_share("max_fpr", max_fpr)
    return of_scores(
        f"partial_auc(fpr<={max_fpr:g})",
        target,
        scores,
        positive,
        partial(_partial, max_fpr, standardized),
        runs=True,
        gradient=partial(_partial_gradient, max_fpr, standardized),
        samples=SIDES,
        undefined=ONE_CLASS,
        bounds=(0, 1 if standardized else max_fpr),
        note=few,
        expression=partial(_partial_expression, max_fpr, standardized),
    )


def _ks(s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        pos, neg = (np.cumsum(x, -1) / x.sum(-1, keepdims=True) for x in (s.pos, s.neg))
    return np.abs(pos - neg).max(-1)


def _ks_expression(c: Any) -> Any:
    pos, neg = (from_top(x, c.s) / x.sum() for x in (c.y, 1 - c.y))
    return (pos - neg).abs().max()


def ks(target: Source, scores: Source, *, positive: Any = None) -> Metric:
    """The two-sample Kolmogorov-Smirnov statistic: how far apart both classes' scores get.

    The largest absolute difference of the distribution functions of the scores of positives and
    negatives, which is also the largest difference of TPR and FPR over all thresholds.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``ks``, between 0 and 1. Without an interval: it is not smooth. Null with one class
        only.

    Raises
    ------
    EvalError
        In a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]})
    >>> df.eval.summary(fe.ks("y", "score"))["estimate"].item()
    0.5
    """
    return of_scores(
        "ks",
        target,
        scores,
        positive,
        _ks,
        runs=True,
        undefined=ONE_CLASS,
        **ROUGH,
        expression=_ks_expression,
    )
