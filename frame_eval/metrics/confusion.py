"""The confusion matrix: its functions, their derivatives, and averages over its classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frame_eval.errors import listing

Array: TypeAlias = npt.NDArray[Any]


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


def confusion_of(s: Any) -> Confusion:
    matrix = np.asarray(s.n)
    return Confusion(
        np.diagonal(matrix, axis1=-2, axis2=-1),
        matrix.sum(-1),
        matrix.sum(-2),
        matrix.sum((-2, -1))[..., None],
    )


def precision_score(c: Confusion) -> Score:
    zero = np.zeros_like(c.diagonal)
    value = c.diagonal / c.predicted
    return Score(value, 1 / c.predicted, zero, -value / c.predicted, zero)


def recall_score(c: Confusion) -> Score:
    zero = np.zeros_like(c.diagonal)
    value = c.diagonal / c.truth
    return Score(value, 1 / c.truth, -value / c.truth, zero, zero)


def fbeta_score(beta: float, c: Confusion) -> Score:
    b = beta * beta
    total = b * c.truth + c.predicted
    value = (1 + b) * c.diagonal / total
    zero = np.zeros_like(value)
    return Score(value, (1 + b) / total, -b * value / total, -value / total, zero)


def specificity_score(c: Confusion) -> Score:
    negatives = c.n - c.truth
    value = (negatives - c.predicted + c.diagonal) / negatives
    one = 1 / negatives
    return Score(value, one, (value - 1) * one, -one, (1 - value) * one)


def jaccard_score(c: Confusion) -> Score:
    total = c.truth + c.predicted - c.diagonal
    value = c.diagonal / total
    by_margin = -value / total
    return Score(value, (1 + value) / total, by_margin, by_margin, np.zeros_like(value))


def kappa_score(c: Confusion) -> Score:
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


def mcc_score(c: Confusion) -> Score:
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


def whole(score: Callable[[Confusion], Score], s: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        value: Array = score(confusion_of(s)).value
    return value


def whole_gradient(score: Callable[[Confusion], Score], s: Any) -> dict[str, Array]:
    with np.errstate(divide="ignore", invalid="ignore"):
        result = score(confusion_of(s))
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


class Averaging(NamedTuple):
    """Which classes are averaged, and how: ``zero`` counts for a class that is undefined."""

    kind: str
    labels: Sequence[Any] | None = None
    zero: float | None = None
    least: int = 0


def _averaged(score: Any, average: Averaging, s: Any) -> Averaged:
    confusion = _margins(average, s)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = score(confusion)
    occurs = _occurring(average, s) & ~_rare(average, s)
    undefined = occurs & ~np.isfinite(each.value)
    if average.zero is not None:
        each = each._replace(value=np.where(undefined, average.zero, each.value))
    defined = occurs & np.isfinite(each.value)
    truth = np.where(defined, confusion.truth, 0.0)
    weights = truth if average.kind == "weighted" else defined.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Averaged(each, defined, occurs, weights / weights.sum(-1, keepdims=True), truth)


def _margins(average: Averaging, s: Any) -> Confusion:
    return _padded(confusion_of(s), len(_chosen(average.labels, s.classes[0])))


def _occurring(average: Averaging, s: Any) -> Array:
    """The classes asked for, or else those that occur as label or prediction."""
    c = _margins(average, s)
    chosen = _chosen(average.labels, s.classes[0])
    return chosen & ((c.truth + c.predicted > 0) | (average.labels is not None))


def _rare(average: Averaging, s: Any) -> Array:
    """The classes with fewer rows of that label than asked for."""
    size = len(_chosen(average.labels, s.classes[0]))
    if not average.least:
        return np.zeros(size, bool)
    support = s.rows.sum(-1)
    width = [(0, 0)] * (support.ndim - 1) + [(0, size - support.shape[-1])]
    rare: Array = np.pad(support, width) < average.least
    return rare


def class_average(score: Any, average: Averaging, s: Any) -> Array:
    found = _averaged(score, average, s)
    value: Array = (np.where(found.defined, found.score.value, 0.0) * found.weights).sum(-1)
    return np.where(found.defined.any(-1), value, np.nan)


def class_average_gradient(score: Any, average: Averaging, s: Any) -> Any:
    found = _averaged(score, average, s)
    weights = found.weights
    parts = [_weighted(part, weights) for part in found.score[1:]]
    if average.kind == "weighted":
        values = np.where(found.defined, found.score.value, 0.0)
        mean = (values * weights).sum(-1, keepdims=True)
        total = found.truth.sum(-1, keepdims=True)
        parts[1] = parts[1] + np.where(found.defined, (values - mean) / total, 0.0)
    by_n = parts[3].sum(-1)
    value, *inside = (part[..., : len(s.classes[0])] for part in (found.score.value, *parts))
    return {"n": _spread(Score(value, inside[0], inside[1], inside[2], inside[3]), by_n)}


def _weighted(part: Array, weights: Array) -> Array:
    return np.where(np.isfinite(part), part, 0.0) * weights


def left_out(score: Any, average: Averaging, s: Any) -> Array:
    """What to remark on each slice: the classes that are not in its average."""
    found = _averaged(score, average, s)
    missing = np.asarray((found.occurs & ~found.defined).sum(-1))
    rare = np.broadcast_to(_rare(average, s), found.occurs.shape)
    absent = [value for value in average.labels or () if value not in s.classes[0]]
    names = [*s.classes[0], *absent]
    seen = _occurring(average, s)
    notes = np.full(missing.shape, "", object)
    for i in np.ndindex(missing.shape):
        few = [name for name, out in zip(names, rare[i] & seen[i], strict=True) if out]
        texts = [_undefined_classes(int(missing[i])), _rare_classes(few, average.least)]
        notes[i] = "; ".join(text for text in texts if text)
    return notes


def _undefined_classes(k: int) -> str:
    if k == 0:
        return ""
    return f"{k} class{'es' if k > 1 else ''} undefined, left out"


def _rare_classes(names: Sequence[Any], least: int) -> str:
    return f"fewer than {least} rows, left out: {listing(names)}" if names else ""


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


def micro(score: Any, labels: Any, s: Any) -> Score:
    c = confusion_of(s)
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


def _of_one(value: Any, s: Any) -> Confusion:
    """The margins of one class, which may be one that occurs nowhere."""
    c = confusion_of(s)
    if value not in s.classes[0]:
        nothing = np.zeros_like(c.n)
        return Confusion(nothing, nothing, nothing, c.n)
    only = [list(s.classes[0]).index(value)]
    return Confusion(c.diagonal[..., only], c.truth[..., only], c.predicted[..., only], c.n)


def class_hits(value: Any, s: Any) -> Array:
    return _of_one(value, s).diagonal[..., 0]


def class_trials(kind: str, value: Any, s: Any) -> Array:
    c = _of_one(value, s)
    if kind == "precision":
        return c.predicted[..., 0]
    if kind == "recall":
        return c.truth[..., 0]
    if kind == "specificity":
        return c.n[..., 0] - c.truth[..., 0]
    return c.truth[..., 0] + c.predicted[..., 0] - c.diagonal[..., 0]


def class_rejections(value: Any, s: Any) -> Array:
    c = _of_one(value, s)
    return c.n[..., 0] - c.truth[..., 0] - c.predicted[..., 0] + c.diagonal[..., 0]


def class_value(score: Any, value: Any, s: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = score(_of_one(value, s)).value[..., 0]
    return found


def class_gradient(score: Any, value: Any, s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Score = score(_of_one(value, s))
    only = np.array([name == value for name in s.classes[0]])
    by = [np.where(only, part, 0.0) for part in result[1:4]]
    return {
        "n": _spread(Score(result.value, by[0], by[1], by[2], result.by_n), result.by_n[..., 0])
    }


def class_empty(kind: str, value: Any, s: Any) -> Any:
    return class_trials(kind, value, s) == 0


def value_of(pooled: Any, s: Any) -> Array:
    value: Array = pooled(s).value
    return value


def gradient_of(pooled: Any, s: Any) -> Any:
    result: Score = pooled(s)
    return {"n": _spread(result, result.by_n)}


def _no_class(s: Any) -> Array:
    return np.ones(np.asarray(s.n).shape[:-2], bool)


NO_LABELS = {"no class is defined": _no_class}


def one_margin(s: Any) -> Any:
    c = confusion_of(s)
    n = c.n[..., 0]
    return (c.truth.max(-1) == n) | (c.predicted.max(-1) == n)


def certain_chance(s: Any) -> Any:
    c = confusion_of(s)
    return ((c.truth == c.n) & (c.predicted == c.n)).any(-1)
