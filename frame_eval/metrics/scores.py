"""Rank metrics of scores: sums over the distinct scores as ordered cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import ceil, floor, log10
from typing import Any

import numpy as np

from frame_eval.columns import Source, label, score
from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric, Sums
from frame_eval.metrics.multiclass import Average, MultiClass, Ranking, averaged_ranking


def sides(c: Any) -> Any:
    """Positives and negatives."""
    return {"pos": c.y, "neg": 1 - c.y}


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


def _no_positives(s: Any) -> Any:
    return s.total("pos") == 0


def _no_negatives(s: Any) -> Any:
    return s.total("neg") == 0


NO_POSITIVES = {"no positives": _no_positives}
ONE_CLASS = {**NO_POSITIVES, "no negatives": _no_negatives}
SIDES: dict[str, tuple[str, ...]] = {"pos": ("pos",), "neg": ("neg",)}


def _rows_of(counts: Any, s: Any) -> int:
    """Rows of a class from its sum: as weights have no scale, its share of all rows."""
    total = float(s.total("n"))
    return round(float(counts) / total * float(s.total("rows"))) if total else 0


def _few(s: Any) -> Any:
    rarer = min(_rows_of(s.total(side), s) for side in SIDES)
    return f"{rarer} row{'' if rarer == 1 else 's'} of the rarer class" if rarer < 20 else ""


def _prevalence(s: Any) -> str:
    total = float(s.total("n"))
    return f"prevalence {float(s.total('pos')) / total:.3g}" if total else ""


def _rough(_: Any) -> Any:
    return "not smooth: intervals by bootstrap only"


def _rough_share(s: Any) -> Any:
    return "; ".join(filter(None, (_prevalence(s), _rough(s))))


def _flat(_: Any) -> Any:
    return {}


ROUGH: dict[str, Any] = {"smooth": False, "note": _rough, "gradient": _flat}
ROUGH_SHARE = {**ROUGH, "note": _rough_share}


def _auc_expression(c: Any) -> Any:
    positives = c.y.sum()
    negatives = c.y.count() - positives
    ranks = (c.s.rank("average") * c.y).sum()
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


AUC = Ranking("roc_auc", _auc, _auc_gradient, ONE_CLASS, _few, apart=True)


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
        _check_single(positive)
        return averaged_ranking(AUC, target, scores, average, multi_class)
    _check_several(average, multi_class)
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
        note=_few,
        expression=_auc_expression,
    )


def _check_single(positive: Any) -> None:
    if positive is not None:
        raise EvalError(f"positive={positive!r} goes with one column of scores")


def _check_several(average: object, multi_class: object = "ovr") -> None:
    if average != "macro" or multi_class != "ovr":
        raise EvalError(
            "average= and multi_class= go with a column of scores for each class: {class: column}"
        )


def of_scores(
    name: str, target: Source, scores: Source, positive: Any, finish: Any, **options: Any
) -> Metric:
    """A metric of the positives and negatives at each distinct score."""
    given = {"better": "higher", "bounds": (0, 1), **options}
    return Metric(
        name,
        {"y": label(target, positive), "s": score(scores)},
        sides,
        finish,
        cells=("s",),
        ordered=True,
        counts=True,
        **given,
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
        note=_few,
        expression=_gini_expression,
    )


def over(part: Any, whole: Any) -> Any:
    """A quotient that is 0 where nothing is counted yet."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0)


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
    return np.where(_no_negatives(s), np.nan, _ap(_restated(prevalence, s)))


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


def _ap_note(s: Any) -> Any:
    prevalence, positives = _prevalence(s), _rows_of(s.total("pos"), s)
    few = f"{positives} positives: biased, and optimistic"
    return f"{prevalence}; {few}" if prevalence and positives < 50 else prevalence


def _ap_expression(c: Any) -> Any:
    """The mean over positives of the precision at their scores, by ranks."""
    flagged = c.s.rank("max", descending=True).filter(c.y == 1)
    return (c.s.filter(c.y == 1).rank("max", descending=True) / flagged).mean()


AP = Ranking("average_precision", _ap, _ap_gradient, NO_POSITIVES, _ap_note, apart=False)


def average_precision(
    target: Source,
    scores: Source | Mapping[Any, Source],
    *,
    positive: Any = None,
    average: Average = "macro",
    at_prevalence: float | None = None,
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
        prevalence for their average precision, so values at different ones do not compare.

    Returns
    -------
    Metric
        Called ``average_precision``, or like ``macro_average_precision``, between 0 and 1. Errors
        are linearised by the influence of each row, the interval is made on the logit scale (Boyd,
        Eng and Page 2013); ``note`` has the prevalence, and warns under 50 positives, where the
        estimate is biased and optimistic. Null without positives, and with ``at_prevalence``
        without negatives; classes that no row is of are left out of an average and named in
        ``note``.

    Raises
    ------
    EvalError
        When ``at_prevalence`` is not between 0 and 1 or goes with several classes, and as
        :func:`roc_auc`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]})
    >>> df.eval.summary(fe.average_precision("y", "score"))["estimate"].item()
    0.8333333333333333
    """
    if isinstance(scores, Mapping):
        _check_single(positive)
        if at_prevalence is not None:
            raise EvalError(f"at_prevalence={at_prevalence!r} goes with one column of scores")
        return averaged_ranking(AP, target, scores, average)
    _check_several(average)
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
    _check_share("at_prevalence", at_prevalence)
    return of_scores(
        f"average_precision(prevalence={at_prevalence:g})",
        target,
        scores,
        positive,
        partial(_ap_at, at_prevalence),
        gradient=partial(_ap_at_gradient, at_prevalence),
        samples=SIDES,
        undefined=ONE_CLASS,
        note=_ap_note,
    )


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise EvalError(f"{name}={value!r} is not between 0 and 1")


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
    return np.where(_no_positives(s) | _no_negatives(s), np.nan, value)


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
    _check_share("max_fpr", max_fpr)
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
        note=_few,
    )


def _ks(s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        pos, neg = (np.cumsum(x, -1) / x.sum(-1, keepdims=True) for x in (s.pos, s.neg))
    return np.abs(pos - neg).max(-1)


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
    return of_scores("ks", target, scores, positive, _ks, runs=True, undefined=ONE_CLASS, **ROUGH)


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
    _check_bound("recall", recall)
    return of_scores(
        f"precision_at_recall({recall:g})",
        target,
        scores,
        positive,
        partial(_precision_at_recall, recall),
        **ROUGH_SHARE,
        undefined=NO_POSITIVES,
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
    _check_bound("precision", precision)
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
    )


def _check_bound(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise EvalError(f"{name}={value!r} is not above 0 and at most 1")


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


def _check_k(k: float) -> float:
    given: object = k
    whole = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    if not (whole or (isinstance(given, float) and 0 < given < 1)):
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
    finish = partial(_precision_at_k, _check_k(k))
    return of_scores(f"precision@{k}", target, scores, positive, finish, **ROUGH_SHARE)


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
    )


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
    _check_share("prevalence", prevalence)
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
