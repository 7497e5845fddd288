"""Precision and recall over thresholds: average precision, and points of the curve."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from frame_eval.columns import Source
from frame_eval.errors import EvalError, check_share, is_share, is_whole
from frame_eval.metrics.core import Metric, Sums
from frame_eval.metrics.expressions import from_top, rank_above, rank_from_top, ties
from frame_eval.metrics.multiclass import Average, Ranking, averaged_ranking
from frame_eval.metrics.scores import (
    NO_POSITIVES,
    ONE_CLASS,
    ROUGH,
    SIDES,
    check_several,
    check_single,
    no_negatives,
    of_scores,
    over,
    prevalence_of,
    rough,
    rows_of,
)


def _rough_share(s: Any) -> Any:
    return "; ".join(filter(None, (prevalence_of(s), rough(s))))


ROUGH_SHARE = {**ROUGH, "note": _rough_share}


def _hits(c: Any) -> Any:
    """The positives with a score as high: what a threshold there flags."""
    return c.from_top("pos")


def _flagged(c: Any) -> Any:
    return c.by_cell(_hits) + c.from_top("neg")


def _precision(c: Any) -> Any:
    return over(c.by_cell(_hits), c.by_cell(_flagged))


def _ap(s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return s.dot("pos", _precision) / s.total("pos")


def _moves(c: Any) -> Any:
    """How the precisions of the positives in a cell move with a positive above, and a negative."""
    each, precision = over(c.pos, c.by_cell(_flagged)), c.by_cell(_precision)
    return np.stack([each * (1 - precision), -each * precision])


def _ap_gradient(s: Any) -> Any:
    """A row changes its own precision and that of all positives at or below its score."""
    positives, ap = s.total("pos")[..., None], _ap(s)[..., None]

    def below(c: Any) -> Any:
        return c.from_bottom(_moves)

    return {
        "pos": lambda c: (c.by_cell(_precision) - ap + c.by_cell(below)[0]) / positives,
        "neg": lambda c: c.by_cell(below)[1] / positives,
    }


def _restated(prevalence: float, s: Any) -> Any:
    """The sums as if positives were that share of the rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pos = s.pos * (prevalence / s.total("pos")[..., None])
        neg = s.neg * ((1 - prevalence) / s.total("neg")[..., None])
    return Sums({"pos": pos, "neg": neg})


def _ap_at(prevalence: float, s: Any) -> Any:
    return np.where(no_negatives(s), np.nan, _ap(_restated(prevalence, s)))


def _ap_at_gradient(prevalence: float, s: Any) -> Any:
    """The chain rule through shares of the classes, which sum to constants."""
    restated = _restated(prevalence, s)
    share = {"pos": prevalence, "neg": 1 - prevalence}
    found = {}
    for name, term in _ap_gradient(restated).items():
        slope, count = restated.by_cell(term), s.total(name)[..., None]
        mean = restated.dot(slope, name)[..., None] / share[name]
        found[name] = (slope - mean) * share[name] / count
    return found


def _weighted_expression(c: Any) -> Any:
    """The mean over positives, of rows with weights."""
    weight = c.y * c.w
    return (weight * from_top(weight, c.s) / from_top(c.w, c.s)).sum() / weight.sum()


def _ap_at_expression(prevalence: float, c: Any) -> Any:
    of_positives, of_negatives = prevalence / c.y.sum(), (1 - prevalence) / (1 - c.y).sum()
    weight = c.y * of_positives + (1 - c.y) * of_negatives
    return _weighted_expression(Sums({"y": c.y, "s": c.s, "w": weight}))


def _ap_note(s: Any) -> Any:
    prevalence, positives = prevalence_of(s), rows_of(s.total("pos"), s)
    few = f"{positives} positives: biased, and optimistic"
    return f"{prevalence}; {few}" if prevalence and positives < 50 else prevalence


def _ap_at_note(prevalence: float, s: Any) -> Any:
    """A negative stands for many where positives are rarer than in the sample: few decide."""
    worth = rows_of(s.total("neg"), s) * prevalence / (1 - prevalence)
    text = _ap_note(s)
    if worth >= 100 or not text:
        return text
    return f"{text}; negatives as for {worth:.3g} positives: biased upwards, errors too short"


def _ap_expression(c: Any) -> Any:
    """The mean over positives of the precision at their scores, by ranks."""
    flagged = c.s.rank("max", descending=True).filter(c.y == 1)
    return (c.s.filter(c.y == 1).rank("max", descending=True) / flagged).mean()


AP = Ranking(
    "average_precision",
    _ap,
    _ap_gradient,
    NO_POSITIVES,
    _ap_note,
    _ap_expression,
    apart=False,
    restated=(_ap_at_note, _weighted_expression),
)


def average_precision(
    target: Source,
    scores: Source | Mapping[Any, Source],
    *,
    positive: Any = None,
    average: Average = "macro",
    at_prevalence: float | Mapping[Any, float] | None = None,
) -> Metric:
    """The step-wise area under the precision-recall curve, sum of (R_k - R_k-1) P_k.

    The sum is over the distinct scores from the highest down; tied rows cross together, and there
    is no interpolation between points.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal. Of several classes, a
        mapping from each class to the column with its score: each is taken against the rest.
    positive
        The positive class of a single column; True or 1 by default.
    average
        Of several classes: ``"macro"``, the mean; ``"weighted"``, by the rows of each class;
        ``"micro"``, all classes in one ranking; None, a row per class in a column ``class``.
    at_prevalence
        Restate it for a population in which this share is positive: the classes are weighted
        accordingly, with precision pi TPR / (pi TPR + (1 - pi) FPR). Random scores have the
        prevalence for their average precision, so values at different ones do not compare. Of
        several classes, a mapping from each to its share of that population; they sum to 1.

    Returns
    -------
    Metric
        Called ``average_precision``, or like ``macro_average_precision``, between 0 and 1. Errors
        are linearised by the influence of each row, the interval is made on the logit scale (Boyd,
        Eng and Page 2013). ``note`` has the prevalence, and warns under 50 positives, where the
        estimate is biased and optimistic; and with ``at_prevalence`` where the negatives would come
        with fewer than 100 positives, as few of the highest scores then decide: the estimate is
        biased upwards and errors are too short, those of the bootstrap as well. Of an average the
        note is about its rarest class. Null without positives, and with ``at_prevalence`` without
        negatives or without rows of one of several classes; else classes that no row is of are left
        out of an average and named in ``note``.

    Raises
    ------
    EvalError
        When ``at_prevalence`` is not between 0 and 1, or not shares of all classes that sum to 1,
        and as :func:`roc_auc`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]})
    >>> df.eval.summary(fe.average_precision("y", "score"))["estimate"].item()
    0.8333333333333333
    """
    if isinstance(scores, Mapping):
        check_single(positive)
        return averaged_ranking(AP, target, scores, average, shares=at_prevalence)
    check_several(average)
    if at_prevalence is None:
        return of_scores(
            "average_precision",
            target,
            scores,
            positive,
            _ap,
            gradient=_ap_gradient,
            undefined=NO_POSITIVES,
            note=_ap_note,
            expression=_ap_expression,
        )
    check_share("at_prevalence", at_prevalence)
    assert not isinstance(at_prevalence, Mapping)
    return of_scores(
        f"average_precision(prevalence={at_prevalence:g})",
        target,
        scores,
        positive,
        partial(_ap_at, at_prevalence),
        gradient=partial(_ap_at_gradient, at_prevalence),
        samples=SIDES,
        undefined=ONE_CLASS,
        note=partial(_ap_at_note, at_prevalence),
        expression=partial(_ap_at_expression, at_prevalence),
    )


def _points(s: Any) -> tuple[Any, Any]:
    """Recall and precision of every threshold, from the highest down."""
    recall = over(s.by_cell(_hits), s.total("pos")[..., None])
    return recall[..., ::-1], s.by_cell(_precision)[..., ::-1]


def _precision_at_recall(least: float, s: Any) -> Any:
    recall, precision = _points(s)
    # Sums of weights may miss a bound in their last digit.
    reached = recall >= least - 1e-12
    first = np.take_along_axis(precision, np.argmax(reached, -1)[..., None], -1)[..., 0]
    return np.where(reached.any(-1), first, np.nan)


def _recall_at_precision(least: float, s: Any) -> Any:
    recall, precision = _points(s)
    reached = (precision >= least - 1e-12) & (recall > 0)
    return np.where(reached.any(-1), np.where(reached, recall, 0.0).max(-1), np.nan)


def _points_expression(c: Any) -> tuple[Any, Any]:
    """Recall (null without positives) and precision of a threshold at the score of each row."""
    hits = from_top(c.y, c.s)
    return (hits / c.y.sum()).fill_nan(None), hits / rank_from_top(c.s)


def _precision_at_recall_expression(least: float, c: Any) -> Any:
    recall, precision = _points_expression(c)
    first = c.s.filter(recall >= least - 1e-12).max()
    return precision.filter(c.s == first).first()


def _recall_at_precision_expression(least: float, c: Any) -> Any:
    recall, precision = _points_expression(c)
    return recall.filter((precision >= least - 1e-12) & (recall > 0)).max()


def _unreachable(least: float, s: Any) -> Any:
    return np.isnan(_recall_at_precision(least, s))


def precision_at_recall(
    target: Source, scores: Source, recall: float, *, positive: Any = None
) -> Metric:
    """The precision at the highest threshold whose recall reaches a bound.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    recall
        The least recall, above 0 and at most 1.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``precision_at_recall(0.8)``, between 0 and 1. Without an interval: it is not
        smooth. ``note`` has the prevalence. Null without positives.

    Raises
    ------
    EvalError
        When ``recall`` is not above 0 and at most 1; in a verb, for labels other than 0 and 1
        without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.9, 0.8, 0.7, 0.1]})
    >>> df.eval.summary(fe.precision_at_recall("y", "score", 0.8))["estimate"].item()
    0.6666666666666666
    """
    check_share("recall", recall, whole=True)
    return of_scores(
        f"precision_at_recall({recall:g})",
        target,
        scores,
        positive,
        partial(_precision_at_recall, recall),
        **ROUGH_SHARE,
        undefined=NO_POSITIVES,
        expression=partial(_precision_at_recall_expression, recall),
    )


def recall_at_precision(
    target: Source, scores: Source, precision: float, *, positive: Any = None
) -> Metric:
    """The largest recall of a threshold whose precision reaches a bound.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    precision
        The least precision, above 0 and at most 1.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``recall_at_precision(0.9)``, between 0 and 1. Without an interval: it is not
        smooth. ``note`` has the prevalence. Null without positives, and where no threshold reaches
        the precision.

    Raises
    ------
    EvalError
        When ``precision`` is not above 0 and at most 1; in a verb, for labels other than 0 and 1
        without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.9, 0.8, 0.7, 0.1]})
    >>> df.eval.summary(fe.recall_at_precision("y", "score", 0.9))["estimate"].item()
    0.5
    """
    check_share("precision", precision, whole=True)
    return of_scores(
        f"recall_at_precision({precision:g})",
        target,
        scores,
        positive,
        partial(_recall_at_precision, precision),
        **ROUGH_SHARE,
        undefined={
            **NO_POSITIVES,
            f"no threshold reaches precision {precision:g}": partial(_unreachable, precision),
        },
        expression=partial(_recall_at_precision_expression, precision),
    )


def _top(k: float, s: Any) -> tuple[Any, Any]:
    """Expected positives among the rows that fit, and how many fit."""
    rows = np.sum(s.rows, axis=-1)
    return top_share(k if k < 1 else np.minimum(k / np.maximum(rows, 1.0), 1.0), s)


def top_share(share: Any, s: Any) -> tuple[Any, Any]:
    """Expected positives among a share of the rows, those with the highest scores; its size."""
    n = s.n[..., ::-1]
    fit = np.sum(n, axis=-1) * share
    flagged = np.clip(over(fit[..., None] - (np.cumsum(n, axis=-1) - n), n), 0, 1)
    return np.sum(s.pos[..., ::-1] * flagged, axis=-1), fit


def _precision_at_k(k: float, s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(*_top(k, s))


def _recall_at_k(k: float, s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return _top(k, s)[0] / np.sum(s.pos, axis=-1)


def _hits_expression(fit: Any, c: Any) -> Any:
    """Expected positives among so many rows with the highest scores."""
    return (c.y * ((fit - rank_above(c.s)) / ties(c.s)).clip(0.0, 1.0)).sum()


def precision_of_top(fit: Any, c: Any) -> Any:
    """The share of positives among so many rows with the highest scores, as an expression."""
    return _hits_expression(fit, c) / fit


def _fit_expression(k: float, c: Any) -> Any:
    rows = c.y.len().cast(pl.Float64)
    return k * rows if k < 1 else rows.clip(upper_bound=k)


def _precision_at_k_expression(k: float, c: Any) -> Any:
    return precision_of_top(_fit_expression(k, c), c)


def _recall_at_k_expression(k: float, c: Any) -> Any:
    return _hits_expression(_fit_expression(k, c), c) / c.y.sum()


def _check_k(k: float) -> float:
    if not is_whole(k, 1) and not is_share(k):
        raise EvalError(f"k={k!r} is neither a number of rows (3) nor a share of them (0.05)")
    return k


def precision_at_k(target: Source, scores: Source, k: float, *, positive: Any = None) -> Metric:
    """The share of positives among the k rows with the highest scores: precision of a capacity.

    Of rows that tie at the cut each is flagged with the same probability, and the expected number
    of positives counts; row order never does. A slice with fewer rows is flagged whole.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    k
        The capacity of a slice: a number of rows, or as a float under 1 a share of its rows. With
        weights, the share of weight that is this share of rows.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``precision@500``, between 0 and 1. Without an interval: the cut is not smooth.
        ``note`` has the prevalence.

    Raises
    ------
    EvalError
        When ``k`` is neither; in a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.9, 0.5, 0.5, 0.1]})
    >>> df.eval.summary(fe.precision_at_k("y", "score", 2))["estimate"].item()
    0.75
    """
    return of_scores(
        f"precision@{k}",
        target,
        scores,
        positive,
        partial(_precision_at_k, _check_k(k)),
        **ROUGH_SHARE,
        expression=partial(_precision_at_k_expression, k),
    )


def recall_at_k(target: Source, scores: Source, k: float, *, positive: Any = None) -> Metric:
    """The share of the positives that are among the k rows with the highest scores.

    Of rows that tie at the cut each is flagged with the same probability, and the expected number
    of positives counts. A slice with fewer rows is flagged whole.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    k
        The capacity of a slice: a number of rows, or as a float under 1 a share of its rows. With
        weights, the share of weight that is this share of rows.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``recall@500``, between 0 and 1. Without an interval: the cut is not smooth.
        ``note`` has the prevalence. Null without positives.

    Raises
    ------
    EvalError
        When ``k`` is neither; in a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.9, 0.5, 0.5, 0.1]})
    >>> df.eval.summary(fe.recall_at_k("y", "score", 0.5))["estimate"].item()
    0.75
    """
    return of_scores(
        f"recall@{k}",
        target,
        scores,
        positive,
        partial(_recall_at_k, _check_k(k)),
        **ROUGH_SHARE,
        undefined=NO_POSITIVES,
        expression=partial(_recall_at_k_expression, k),
    )
