"""The confusion matrix: its functions, their derivatives, and averages over its classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frame_eval.errors import EvalError, listing

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


class Margins(NamedTuple):
    """The confusion of the classes (its trailing axis), which are asked for, and their rows."""

    confusion: Confusion
    classes: Sequence[Any]
    chosen: Array
    support: Array

    def occurring(self, labels: Sequence[Any] | None) -> Array:
        """The classes asked for, or else those that occur as label or prediction."""
        if labels is not None:
            return np.broadcast_to(self.chosen, self.confusion.truth.shape)
        seen: Array = self.chosen & (self.confusion.truth + self.confusion.predicted > 0)
        return seen


class Layout(NamedTuple):
    """How cells tell what is label and prediction: ``margins`` of the classes, from their labels
    asked for and the sums; and ``spread``, from derivatives by the margins (that by all rows for
    each class) to those by the sums.
    """

    margins: Callable[[Sequence[Any] | None, Any], Margins]
    spread: Callable[[Sequence[Any] | None, Score, Any], dict[str, Array]]


def absent_from(classes: Sequence[Any], labels: Sequence[Any] | None) -> list[Any]:
    """The classes asked for that do not occur; raises for one that never could."""
    texts = [isinstance(value, str) for value in classes]
    for value in labels or ():
        if texts and isinstance(value, str) not in texts:
            raise EvalError(
                f"{value!r} in labels= is not of the type of the classes {listing(classes)}"
            )
    return [value for value in labels or () if value not in classes]


def _matrix_margins(labels: Sequence[Any] | None, s: Any) -> Margins:
    """Classes that are asked for and occur nowhere stand behind the others, empty."""
    c, rows = confusion_of(s), np.asarray(s.rows).sum(-1)
    absent = absent_from(s.classes[0], labels)
    classes = [*s.classes[0], *absent]
    chosen = np.array([labels is None or value in labels for value in classes])

    def padded(values: Array) -> Array:
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, len(absent))])

    margins = Confusion(padded(c.diagonal), padded(c.truth), padded(c.predicted), c.n)
    return Margins(margins, classes, chosen, padded(rows))


def _matrix_spread(_: Sequence[Any] | None, score: Score, s: Any) -> dict[str, Array]:
    size, by_n = len(s.classes[0]), score.by_n.sum(-1)
    value, diagonal, truth, predicted = (part[..., :size] for part in score[:4])
    return {"n": _spread(Score(value, diagonal, truth, predicted, by_n), by_n)}


MATRIX = Layout(_matrix_margins, _matrix_spread)


def _row_margins(labels: Sequence[Any] | None, s: Any) -> Margins:
    """Of a cell for each label, with what its rows are."""
    absent = absent_from(s.classes[0], labels)
    classes = [*s.classes[0], *absent]
    chosen = np.array([labels is None or value in labels for value in classes])
    tp, fn, fp, tn, n = (
        np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, len(absent))])
        for values in (s.tp, s.fn, s.fp, s.tn, s.n)
    )
    rows = np.pad(s.rows, [(0, 0)] * (s.rows.ndim - 1) + [(0, len(absent))])
    with np.errstate(divide="ignore", invalid="ignore"):
        # Weights have no scale: the share of the label, in rows.
        support = np.where(n > 0, np.round((tp + fn) / n * rows), 0.0)
    return Margins(Confusion(tp, tp + fn, tp + fp, tp + fn + fp + tn), classes, chosen, support)


def _row_spread(_: Sequence[Any] | None, score: Score, s: Any) -> dict[str, Array]:
    size = len(s.classes[0])
    diagonal, truth, predicted, by_n = (part[..., :size] for part in score[1:])
    return {
        "tp": diagonal + truth + predicted + by_n,
        "fn": truth + by_n,
        "fp": predicted + by_n,
        "tn": by_n,
    }


ROWS = Layout(_row_margins, _row_spread)


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
    layout: Layout = MATRIX


def _averaged(score: Any, average: Averaging, margins: Margins) -> Averaged:
    confusion = margins.confusion
    with np.errstate(divide="ignore", invalid="ignore"):
        each = score(confusion)
    occurs = margins.occurring(average.labels) & (margins.support >= average.least)
    undefined = occurs & ~np.isfinite(each.value)
    if average.zero is not None:
        each = each._replace(value=np.where(undefined, average.zero, each.value))
    defined = occurs & np.isfinite(each.value)
    truth = np.where(defined, confusion.truth, 0.0)
    weights = truth if average.kind == "weighted" else defined.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Averaged(each, defined, occurs, weights / weights.sum(-1, keepdims=True), truth)


def class_average(score: Any, average: Averaging, s: Any) -> Array:
    found = _averaged(score, average, average.layout.margins(average.labels, s))
    value: Array = (np.where(found.defined, found.score.value, 0.0) * found.weights).sum(-1)
    return np.where(found.defined.any(-1), value, np.nan)


def class_average_gradient(score: Any, average: Averaging, s: Any) -> Any:
    found = _averaged(score, average, average.layout.margins(average.labels, s))
    weights = found.weights
    parts = [_weighted(part, weights) for part in found.score[1:]]
    if average.kind == "weighted":
        values = np.where(found.defined, found.score.value, 0.0)
        mean = (values * weights).sum(-1, keepdims=True)
        total = found.truth.sum(-1, keepdims=True)
        parts[1] = parts[1] + np.where(found.defined, (values - mean) / total, 0.0)
    by_margins = Score(found.score.value, *parts)
    return average.layout.spread(average.labels, by_margins, s)


def _weighted(part: Array, weights: Array) -> Array:
    return np.where(np.isfinite(part), part, 0.0) * weights


def left_out(score: Any, average: Averaging, s: Any) -> Array:
    """What to remark on each slice: the classes that are not in its average."""
    margins = average.layout.margins(average.labels, s)
    found = _averaged(score, average, margins)
    missing = np.asarray((found.occurs & ~found.defined).sum(-1))
    rare = margins.occurring(average.labels) & (margins.support < average.least)
    notes = np.full(missing.shape, "", object)
    for i in np.ndindex(missing.shape):
        few = [name for name, out in zip(margins.classes, rare[i], strict=True) if out]
        texts = [_undefined_classes(int(missing[i])), _rare_classes(few, average.least)]
        notes[i] = "; ".join(text for text in texts if text)
    return notes


def _undefined_classes(k: int) -> str:
    if k == 0:
        return ""
    return f"{k} class{'es' if k > 1 else ''} undefined, left out"


def _rare_classes(names: Sequence[Any], least: int) -> str:
    return f"fewer than {least} rows, left out: {listing(names)}" if names else ""


def _pooled(score: Any, layout: Layout, labels: Any, s: Any) -> tuple[Score, Array]:
    """The score of the classes' counts added up, and which of them are."""
    margins = layout.margins(labels, s)
    c, chosen = margins.confusion, margins.occurring(labels)
    diagonal, truth, predicted = ((part * chosen).sum(-1, keepdims=True) for part in c[:3])
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled: Score = score(
            Confusion(diagonal, truth, predicted, c.n * chosen.sum(-1, keepdims=True))
        )
    return pooled, chosen


def micro(score: Any, layout: Layout, labels: Any, s: Any) -> Array:
    value: Array = _pooled(score, layout, labels, s)[0].value[..., 0]
    return value


def micro_gradient(score: Any, layout: Layout, labels: Any, s: Any) -> Any:
    pooled, chosen = _pooled(score, layout, labels, s)
    by = [np.where(chosen, part, 0.0) for part in pooled[1:]]
    return layout.spread(labels, Score(by[0], *by), s)


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


def _no_class(_: Any) -> bool:
    return True


NO_LABELS = {"no class is defined": _no_class}


def one_margin(s: Any) -> Any:
    c = confusion_of(s)
    n = c.n[..., 0]
    return (c.truth.max(-1) == n) | (c.predicted.max(-1) == n)


def certain_chance(s: Any) -> Any:
    c = confusion_of(s)
    return ((c.truth == c.n) & (c.predicted == c.n)).any(-1)
