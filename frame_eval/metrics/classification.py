"""Classification: shares of rows, F scores, and metrics of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frame_eval.columns import Source, category, equal, label
from frame_eval.errors import EvalError, check_option
from frame_eval.metrics.core import Metric, Proportion
from frame_eval.metrics.means import NO_ROWS

Array: TypeAlias = npt.NDArray[Any]
Average: TypeAlias = "Literal['binary', 'macro', 'micro', 'weighted'] | None"
AVERAGES = ("binary", "macro", "micro", "weighted", None)


def _hit(c: Any) -> Any:
    return {"hits": c.hit}


def _hits(s: Any) -> Any:
    return s.hits


def _n(s: Any) -> Any:
    return s.n


def _share(s: Any) -> Any:
    return s.hits / s.n


def _accuracy_like(name: str, target: Source, pred: Source) -> Metric:
    return Metric(
        name,
        {"hit": equal(target, pred)},
        _hit,
        _share,
        proportion=Proportion(_hits, _n),
        better="higher",
        bounds=(0, 1),
        undefined=NO_ROWS,
        worst={"hit": 0},
    )


def accuracy(target: Source, pred: Source) -> Metric:
    """The share of rows whose prediction equals the label.

    Parameters
    ----------
    target, pred
        Label columns of any one type (boolean, integer, text, categorical).

    Returns
    -------
    Metric
        Called ``accuracy``, between 0 and 1, with proportion intervals. Null without rows.

    Raises
    ------
    ColumnError
        In a verb, when the two columns can not be compared.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": ["a", "b", "b"], "pred": ["a", "b", "a"]})
    >>> round(df.eval.summary(fe.accuracy("gold", "pred"))["estimate"].item(), 4)
    0.6667
    """
    return _accuracy_like("accuracy", target, pred)


class Score(NamedTuple):
    """A function of the confusion matrix and its derivatives.

    ``value`` and the derivatives by the diagonal, the label totals and the prediction totals have
    a trailing axis of classes where they are per class; ``by_n`` is the one by all rows.
    """

    value: Array
    by_diagonal: Array
    by_truth: Array
    by_predicted: Array
    by_n: Array


class Confusion(NamedTuple):
    """The margins of a confusion matrix (rows truth, columns prediction), over any axes."""

    diagonal: Array
    truth: Array
    predicted: Array
    n: Array


def _confusion(s: Any) -> Confusion:
    matrix = np.asarray(s.n)
    return Confusion(
        np.diagonal(matrix, axis1=-2, axis2=-1),
        matrix.sum(-1),
        matrix.sum(-2),
        matrix.sum((-2, -1))[..., None],
    )


def _precision(c: Confusion) -> Score:
    zero = np.zeros_like(c.diagonal)
    value = c.diagonal / c.predicted
    return Score(value, 1 / c.predicted, zero, -value / c.predicted, zero)


def _recall(c: Confusion) -> Score:
    zero = np.zeros_like(c.diagonal)
    value = c.diagonal / c.truth
    return Score(value, 1 / c.truth, -value / c.truth, zero, zero)


def _fbeta(beta: float, c: Confusion) -> Score:
    b = beta * beta
    total = b * c.truth + c.predicted
    value = (1 + b) * c.diagonal / total
    zero = np.zeros_like(value)
    return Score(value, (1 + b) / total, -b * value / total, -value / total, zero)


def _specificity(c: Confusion) -> Score:
    negatives = c.n - c.truth
    value = (negatives - c.predicted + c.diagonal) / negatives
    one = 1 / negatives
    return Score(value, one, (value - 1) * one, -one, (1 - value) * one)


def _kappa(c: Confusion) -> Score:
    n = c.n[..., 0]
    chance = (c.truth * c.predicted).sum(-1) / n**2
    value = (c.diagonal.sum(-1) / n - chance) / (1 - chance)
    by_observed = 1 / (1 - chance)
    by_chance = (value - 1) / (1 - chance)
    observed = c.diagonal.sum(-1) / n
    over_n2 = (by_chance / n**2)[..., None]
    return Score(
        value,
        np.broadcast_to((by_observed / n)[..., None], c.truth.shape),
        over_n2 * c.predicted,
        over_n2 * c.truth,
        (-by_observed * observed - 2 * by_chance * chance) / n,
    )


def _mcc(c: Confusion) -> Score:
    n, correct = c.n[..., 0], c.diagonal.sum(-1)
    truth = n**2 - (c.truth**2).sum(-1)
    predicted = n**2 - (c.predicted**2).sum(-1)
    root = np.sqrt(truth * predicted)
    value = (correct * n - (c.truth * c.predicted).sum(-1)) / root
    ratio, over = value[..., None], 1 / root[..., None]
    return Score(
        value,
        np.broadcast_to((n / root)[..., None], c.truth.shape),
        -c.predicted * over + ratio * c.truth / truth[..., None],
        -c.truth * over + ratio * c.predicted / predicted[..., None],
        correct / root - value * n * (1 / truth + 1 / predicted),
    )


def _whole(score: Callable[[Confusion], Score], s: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        value: Array = score(_confusion(s)).value
    return value


def _whole_gradient(score: Callable[[Confusion], Score], s: Any) -> dict[str, Array]:
    with np.errstate(divide="ignore", invalid="ignore"):
        result = score(_confusion(s))
    return {"n": _spread(result, np.asarray(result.by_n))}


def _spread(score: Score, by_n: Array) -> Array:
    """Derivatives by the cells, from those by the diagonal and the margins."""
    cells = score.by_truth[..., :, None] + score.by_predicted[..., None, :]
    cells = cells + np.asarray(by_n)[..., None, None]
    whole: Array = cells + np.eye(cells.shape[-1]) * score.by_diagonal[..., None, :]
    return whole


class Averaged(NamedTuple):
    """Class scores, which of them count, and their weights."""

    score: Score
    defined: Array
    occurs: Array
    weights: Array
    truth: Array


def _averaged(score: Any, average: str, labels: Any, zero: float | None, s: Any) -> Averaged:
    chosen = _chosen(labels, s.classes[0])
    confusion = _padded(_confusion(s), len(chosen))
    with np.errstate(divide="ignore", invalid="ignore"):
        each = score(confusion)
    occurs = chosen & ((confusion.truth + confusion.predicted > 0) | (labels is not None))
    undefined = occurs & ~np.isfinite(each.value)
    if zero is not None:
        each = each._replace(value=np.where(undefined, zero, each.value))
    defined = occurs & np.isfinite(each.value)
    truth = np.where(defined, confusion.truth, 0.0)
    weights = truth if average == "weighted" else defined.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Averaged(each, defined, occurs, weights / weights.sum(-1, keepdims=True), truth)


def _average(score: Any, average: str, labels: Any, zero: float | None, s: Any) -> Array:
    found = _averaged(score, average, labels, zero, s)
    value: Array = (np.where(found.defined, found.score.value, 0.0) * found.weights).sum(-1)
    return np.where(found.defined.any(-1), value, np.nan)


def _average_gradient(score: Any, average: str, labels: Any, zero: float | None, s: Any) -> Any:
    found = _averaged(score, average, labels, zero, s)
    weights = found.weights
    parts = [_weighted(part, weights) for part in found.score[1:]]
    if average == "weighted":
        values = np.where(found.defined, found.score.value, 0.0)
        mean = (values * weights).sum(-1, keepdims=True)
        total = found.truth.sum(-1, keepdims=True)
        parts[1] = parts[1] + np.where(found.defined, (values - mean) / total, 0.0)
    by_n = parts[3].sum(-1)
    value, *inside = (part[..., : len(s.classes[0])] for part in (found.score.value, *parts))
    return {"n": _spread(Score(value, inside[0], inside[1], inside[2], inside[3]), by_n)}


def _weighted(part: Array, weights: Array) -> Array:
    return np.where(np.isfinite(part), part, 0.0) * weights


def _left_out(score: Any, average: str, labels: Any, zero: float | None, s: Any) -> Array:
    found = _averaged(score, average, labels, zero, s)
    missing = np.asarray((found.occurs & ~found.defined).sum(-1))
    texts = [_undefined_classes(int(k)) for k in missing.flat]
    return np.array(texts, dtype=object).reshape(missing.shape)


def _undefined_classes(k: int) -> str:
    if k == 0:
        return ""
    return f"{k} class{'es' if k > 1 else ''} undefined, left out"


def _chosen(labels: Sequence[Any] | None, classes: Sequence[Any]) -> Array:
    """Which classes are asked for; labels that occur nowhere stand behind them, as chosen."""
    if labels is None:
        return np.ones(len(classes), bool)
    absent = [value for value in labels if value not in classes]
    return np.array([value in labels for value in classes] + [True] * len(absent))


def _padded(c: Confusion, size: int) -> Confusion:
    """The margins with empty classes behind the others, up to ``size`` classes."""
    more = size - c.truth.shape[-1]
    if not more:
        return c
    width = [(0, 0)] * (c.truth.ndim - 1) + [(0, more)]
    diagonal, truth, predicted = (np.pad(part, width) for part in c[:3])
    return Confusion(diagonal, truth, predicted, c.n)


def _micro(score: Any, labels: Any, s: Any) -> Score:
    c = _confusion(s)
    chosen = _chosen(labels, s.classes[0])
    size = np.asarray(chosen.sum(-1, keepdims=True))
    chosen = chosen[: c.truth.shape[-1]]
    if labels is None:
        chosen = chosen & (c.truth + c.predicted > 0)
        size = chosen.sum(-1, keepdims=True)
    diagonal, truth, predicted = ((part * chosen).sum(-1, keepdims=True) for part in c[:3])
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Score = score(Confusion(diagonal, truth, predicted, c.n * size))
    by = [np.where(chosen, part, 0.0) for part in result[1:4]]
    return Score(result.value[..., 0], by[0], by[1], by[2], (result.by_n * size)[..., 0])


def _no_sums(_: Any) -> Any:
    return {}


def _matrix_metric(name: str, target: Source, pred: Source, finish: Any, **options: Any) -> Metric:
    """A metric over label x prediction cells."""
    inputs = {"y": category(target, pred), "p": category(pred, target)}
    return Metric(name, inputs, _no_sums, finish, cells=("y", "p"), counts=True, **options)


def _class_hits(k: int, s: Any) -> Array:
    return _confusion(s).diagonal[..., k]


def _class_trials(kind: str, k: int, s: Any) -> Array:
    c = _confusion(s)
    if kind == "precision":
        return c.predicted[..., k]
    if kind == "recall":
        return c.truth[..., k]
    if kind == "specificity":
        return c.n[..., 0] - c.truth[..., k]
    return c.truth[..., k] + c.predicted[..., k] - c.diagonal[..., k]


def _class_rejections(k: int, s: Any) -> Array:
    c = _confusion(s)
    return c.n[..., 0] - c.truth[..., k] - c.predicted[..., k] + c.diagonal[..., k]


def _f1_of_jaccard(j: Any) -> Any:
    return 2 * j / (1 + j)


def _f1_slope(j: Any) -> Any:
    return 2 / (1 + j) ** 2


def _class_value(score: Any, k: int, s: Any) -> Array:
    return _whole(score, s)[..., k]


def _class_gradient(score: Any, k: int, s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Score = score(_confusion(s))
    only = np.arange(result.value.shape[-1]) == k
    by = [np.where(only, part, 0.0) for part in result[1:4]]
    score_k = Score(result.value, by[0], by[1], by[2], result.by_n)
    return {"n": _spread(score_k, result.by_n[..., k])}


class Family(NamedTuple):
    """What precision, recall, specificity and the F scores share, and where they differ."""

    name: str
    kind: str
    score: Callable[[Confusion], Score]
    sums: Callable[[Any], Any]
    hits: Callable[[Any], Any]
    trials: Callable[[Any], Any]
    reason: str
    beta: float | None = None


def _of_class(family: Family, target: Source, pred: Source, zero: float | None, k: int) -> Metric:
    proportion = None
    if family.beta in (None, 1.0):
        hits = _class_rejections if family.kind == "specificity" else _class_hits
        proportion = Proportion(
            partial(hits, k), partial(_class_trials, family.kind, k), *_map_of(family)
        )
    return _matrix_metric(
        family.name,
        target,
        pred,
        partial(_class_value, family.score, k),
        gradient=partial(_class_gradient, family.score, k),
        proportion=proportion,
        zero_division=zero,
        better="higher",
        bounds=(0, 1),
        undefined={family.reason: partial(_class_empty, family.kind, k)},
    )


def _class_empty(kind: str, k: int, s: Any) -> Any:
    return _class_trials(kind, k, s) == 0


def _map_of(family: Family) -> tuple[Any, Any]:
    return (_f1_of_jaccard, _f1_slope) if family.beta == 1.0 else (None, None)


def _sums_tp_fp(c: Any) -> Any:
    return {"tp": c.y * c.p, "fp": (1 - c.y) * c.p}


def _sums_tp_fn(c: Any) -> Any:
    return {"tp": c.y * c.p, "fn": c.y * (1 - c.p)}


def _sums_tn_fp(c: Any) -> Any:
    return {"tn": (1 - c.y) * (1 - c.p), "fp": (1 - c.y) * c.p}


def _sums_tp_fp_fn(c: Any) -> Any:
    return {"tp": c.y * c.p, "fp": (1 - c.y) * c.p, "fn": c.y * (1 - c.p)}


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


def _quotient(hits: Any, trials: Any, s: Any) -> Any:
    return hits(s) / trials(s)


def _binary_fbeta(beta: float, s: Any) -> Any:
    b = beta * beta
    return (1 + b) * s.tp / ((1 + b) * s.tp + b * s.fn + s.fp)


def _binary_fbeta_gradient(beta: float, s: Any) -> Any:
    b = beta * beta
    total = (1 + b) * s.tp + b * s.fn + s.fp
    value = (1 + b) * s.tp / total
    return {"tp": (1 + b) * (1 - value) / total, "fn": -b * value / total, "fp": -value / total}


def _empty(trials: Any, s: Any) -> Any:
    return trials(s) == 0


def _opposite(c: Any) -> Any:
    return 1 - c.y


def _binary(
    family: Family, target: Source, pred: Source, positive: Any, zero: float | None
) -> Metric:
    if family.beta is None:
        finish: Any = partial(_quotient, family.hits, family.trials)
        gradient = None
    else:
        finish = partial(_binary_fbeta, family.beta)
        gradient = partial(_binary_fbeta_gradient, family.beta)
    linear = family.beta not in (None, 1.0)
    return Metric(
        family.name,
        {"y": label(target, positive), "p": label(pred, positive)},
        family.sums,
        finish,
        gradient=gradient,
        proportion=None if linear else Proportion(family.hits, family.trials, *_map_of(family)),
        counts=True,
        zero_division=zero,
        better="higher",
        bounds=(0, 1),
        undefined={family.reason: partial(_empty, family.trials)},
        worst={"p": _opposite},
    )


def _build(
    family: Family,
    target: Source,
    pred: Source,
    average: Average,
    positive: Any,
    labels: Sequence[Any] | None,
    zero: float | None,
) -> Metric:
    """A member of the family under one of the averages."""
    check_option("average", average, AVERAGES)
    check_option("zero_division", zero, (None, 0, 1))
    if average != "binary" and positive is not None:
        raise EvalError(f"positive={positive!r} goes with average='binary', not {average!r}")
    if average == "binary":
        if labels is not None:
            raise EvalError("labels= goes with average='macro', 'micro', 'weighted' or None")
        return _binary(family, target, pred, positive, zero)
    common = {"better": "higher", "bounds": (0, 1)}
    if average is None:
        return _matrix_metric(
            family.name,
            target,
            pred,
            partial(_whole, family.score),
            per_class=ClassMetrics(partial(_of_class, family, target, pred, zero), labels),
            **common,
        )
    name = f"{average}_{family.name}"
    if average == "micro":
        if labels is None and family.kind != "specificity":
            return _accuracy_like(name, target, pred)
        pooled = partial(_micro, family.score, labels)
        return _matrix_metric(
            name,
            target,
            pred,
            partial(_value_of, pooled),
            gradient=partial(_gradient_of, pooled),
            zero_division=zero,
            undefined=NO_LABELS,
            **common,
        )
    arguments = (family.score, average, labels, zero)
    return _matrix_metric(
        name,
        target,
        pred,
        partial(_average, *arguments),
        gradient=partial(_average_gradient, *arguments),
        note=partial(_left_out, *arguments),
        undefined=NO_LABELS,
        **common,
    )


class ClassMetrics(NamedTuple):
    """The metric of each class, and the classes asked for (None: all)."""

    of: Callable[[int], Metric]
    labels: Sequence[Any] | None

    def __call__(self, k: int) -> Metric:
        return self.of(k)


def _value_of(pooled: Any, s: Any) -> Array:
    value: Array = pooled(s).value
    return value


def _gradient_of(pooled: Any, s: Any) -> Any:
    result: Score = pooled(s)
    return {"n": _spread(result, result.by_n)}


def _no_class(s: Any) -> Array:
    return np.ones(np.asarray(s.n).shape[:-2], bool)


NO_LABELS = {"no class is defined": _no_class}


def precision(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
) -> Metric:
    """The share of positive predictions that are right: tp / (tp + fp).

    Parameters
    ----------
    target, pred
        Label columns of one type.
    average
        ``"binary"``: one class against the rest. ``"macro"``: the mean over the classes that
        occur in the slice as label or prediction. ``"weighted"``: the same, weighted by support.
        ``"micro"``: counts pooled over classes. None: a row per class, in a column ``class``.
    positive
        The positive class of ``"binary"``; True or 1 by default.
    labels
        The classes to average over, instead of those that occur.
    zero_division
        The value (0 or 1) where nothing is predicted positive, instead of null.

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
    """
    family = Family(
        "precision", "precision", _precision, _sums_tp_fp, _tp, _tp_fp, "no predicted positives"
    )
    return _build(family, target, pred, average, positive, labels, zero_division)


def recall(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
) -> Metric:
    """The share of positives that are found: tp / (tp + fn). Also called sensitivity.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division
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
    family = Family("recall", "recall", _recall, _sums_tp_fn, _tp, _tp_fn, "no positives")
    return _build(family, target, pred, average, positive, labels, zero_division)


def specificity(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
) -> Metric:
    """The share of negatives that are left alone: tn / (tn + fp).

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division
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
    family = Family(
        "specificity", "specificity", _specificity, _sums_tn_fp, _tn, _tn_fp, "no negatives"
    )
    return _build(family, target, pred, average, positive, labels, zero_division)


def fbeta(
    target: Source,
    pred: Source,
    beta: float,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
) -> Metric:
    """The F score: (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) (van Rijsbergen 1979).

    Parameters
    ----------
    beta
        How much more recall counts than precision; positive.
    target, pred, average, positive, labels, zero_division
        As for :func:`precision`.

    Returns
    -------
    Metric
        Called ``f<beta>``, between 0 and 1. Null without positives and predicted positives; 0 as
        soon as there is an error and no true positive.

    Raises
    ------
    EvalError
        When beta is not positive; otherwise as :func:`precision`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 0, 1, 1], "pred": [1, 1, 0, 1]})
    >>> round(df.eval.summary(fe.fbeta("gold", "pred", 2))["estimate"].item(), 4)
    0.6667
    """
    if not beta > 0:
        raise EvalError(f"beta={beta!r} is not positive")
    family = Family(
        f"f{beta:g}",
        "fbeta",
        partial(_fbeta, float(beta)),
        _sums_tp_fp_fn,
        _tp,
        _tp_fp_fn,
        "no positives and no predicted positives",
        float(beta),
    )
    return _build(family, target, pred, average, positive, labels, zero_division)


def f1(
    target: Source,
    pred: Source,
    *,
    average: Average = "binary",
    positive: Any = None,
    labels: Sequence[Any] | None = None,
    zero_division: float | None = None,
) -> Metric:
    """The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

    F1 is 2J / (1 + J) of the share J = tp / (tp + fp + fn), and so has the interval of that
    share, mapped.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division
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
    return fbeta(
        target,
        pred,
        1,
        average=average,
        positive=positive,
        labels=labels,
        zero_division=zero_division,
    )


def _one_margin(s: Any) -> Any:
    c = _confusion(s)
    n = c.n[..., 0]
    return (c.truth.max(-1) == n) | (c.predicted.max(-1) == n)


def _certain_chance(s: Any) -> Any:
    c = _confusion(s)
    return ((c.truth == c.n) & (c.predicted == c.n)).any(-1)


def mcc(target: Source, pred: Source) -> Metric:
    """Matthews correlation of labels and predictions, for two or more classes (Gorodkin 2004).

    Parameters
    ----------
    target, pred
        Label columns of one type.

    Returns
    -------
    Metric
        Between -1 and 1. Null when the slice has one class as label or as prediction.

    Raises
    ------
    ColumnError
        In a verb, when the two columns can not be compared.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 1, 0, 0], "pred": [1, 0, 0, 0]})
    >>> round(df.eval.summary(fe.mcc("gold", "pred"))["estimate"].item(), 4)
    0.5774
    """
    return _matrix_metric(
        "mcc",
        target,
        pred,
        partial(_whole, _mcc),
        gradient=partial(_whole_gradient, _mcc),
        better="higher",
        bounds=(-1, 1),
        undefined={"one class only": _one_margin},
    )


def cohen_kappa(target: Source, pred: Source) -> Metric:
    """Cohen's kappa: agreement beyond chance, (po - pe) / (1 - pe) (Cohen 1960).

    Parameters
    ----------
    target, pred
        Label columns of one type: two raters, or labels and predictions.

    Returns
    -------
    Metric
        At most 1. Null when chance agreement is 1 (both columns constant with the same class).

    Raises
    ------
    ColumnError
        In a verb, when the two columns can not be compared.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"judge": ["A", "B", "A", "B"], "human": ["A", "B", "B", "B"]})
    >>> df.eval.summary(fe.cohen_kappa("judge", "human"))["estimate"].item()
    0.5
    """
    return _matrix_metric(
        "cohen_kappa",
        target,
        pred,
        partial(_whole, _kappa),
        gradient=partial(_whole_gradient, _kappa),
        better="higher",
        bounds=(-1, 1),
        undefined={"chance agreement is 1": _certain_chance},
    )


def balanced_accuracy(target: Source, pred: Source) -> Metric:
    """The mean over classes of their recall (Brodersen and others 2010).

    Parameters
    ----------
    target, pred
        Label columns of one type.

    Returns
    -------
    Metric
        Between 0 and 1; the mean is over the classes that occur as label in the slice.

    Raises
    ------
    ColumnError
        In a verb, when the two columns can not be compared.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": [1, 1, 0, 0], "pred": [1, 0, 0, 0]})
    >>> df.eval.summary(fe.balanced_accuracy("gold", "pred"))["estimate"].item()
    0.75
    """
    return _matrix_metric(
        "balanced_accuracy",
        target,
        pred,
        partial(_average, _recall, "macro", None, None),
        gradient=partial(_average_gradient, _recall, "macro", None, None),
        better="higher",
        bounds=(0, 1),
        undefined=NO_LABELS,
    )
