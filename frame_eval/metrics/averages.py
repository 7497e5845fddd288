"""Precision, recall and what is made of them: binary, per class, and under each average."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from frame_eval.columns import Input, Source, category, label
from frame_eval.errors import EvalError, check_option, check_whole
from frame_eval.metrics.classification import accuracy_like, matrix_metric
from frame_eval.metrics.confusion import (
    MATRIX,
    NO_LABELS,
    ROWS,
    Averaging,
    Confusion,
    Layout,
    Score,
    class_average,
    class_average_gradient,
    class_empty,
    class_gradient,
    class_hits,
    class_rejections,
    class_trials,
    class_value,
    left_out,
    micro,
    micro_gradient,
)
from frame_eval.metrics.core import Metric, PerClass, Proportion, Unit
from frame_eval.metrics.expressions import is_value, sum_within, ties
from frame_eval.metrics.means import no_denominator, ratio_gradient, ratio_of
from frame_eval.metrics.multilabel import (
    SETS,
    cells_of_label,
    known_labels,
    mean_of_rows,
    score_of_rows,
    set_metric,
)
from frame_eval.metrics.shares import f1_of_jaccard, f1_slope, opposite

Average: TypeAlias = "Literal['binary', 'macro', 'micro', 'weighted', 'samples'] | None"
AVERAGES = ("binary", "macro", "micro", "weighted", "samples", None)


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


class Asked(NamedTuple):
    """What a member of the family is asked about, in the words of :func:`precision`."""

    target: Source
    pred: Source
    average: Average
    positive: Any
    labels: Sequence[Any] | None
    zero_division: float | None
    min_support: int
    multilabel: bool
    label_of: Source | None


def _of_class(family: Family, asked: Asked, value: Any) -> Metric:
    proportion = None
    if family.beta in (None, 1.0):
        hits = class_rejections if family.kind == "specificity" else class_hits
        proportion = Proportion(
            partial(hits, value), partial(class_trials, family.kind, value), *_map_of(family)
        )
    return matrix_metric(
        family.name,
        asked.target,
        asked.pred,
        partial(class_value, family.score, value),
        gradient=partial(class_gradient, family.score, value),
        proportion=proportion,
        zero_division=asked.zero_division,
        better="higher",
        bounds=(0, 1),
        undefined={family.reason: partial(class_empty, family.kind, value)},
    )


def _of_label(family: Family, asked: Asked, _: Any) -> Metric:
    """The metric of one of several labels: the cells are whether it is there."""
    return _of_class(family, asked, value=True)


def _map_of(family: Family) -> tuple[Any, Any]:
    return (f1_of_jaccard, f1_slope) if family.beta == 1.0 else (None, None)


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


def _finish_of(family: Family) -> tuple[Any, Any]:
    """The score from the sums of two classes, and its gradient where it is given."""
    if family.beta is None:
        return partial(_quotient, family.hits, family.trials), None
    return partial(_binary_fbeta, family.beta), partial(_binary_fbeta_gradient, family.beta)


def _flags(asked: Asked) -> dict[str, Input]:
    """Labels and predictions, positive or not."""
    return {
        "y": label(asked.target, asked.positive),
        "p": label(asked.pred, asked.positive),
    }


def _binary(family: Family, asked: Asked) -> Metric:
    finish, gradient = _finish_of(family)
    linear = family.beta not in (None, 1.0)
    return Metric(
        family.name,
        _flags(asked),
        family.sums,
        finish,
        gradient=gradient,
        proportion=None if linear else Proportion(family.hits, family.trials, *_map_of(family)),
        counts=True,
        zero_division=asked.zero_division,
        better="higher",
        bounds=(0, 1),
        undefined={family.reason: partial(_empty, family.trials)},
        worst={"p": opposite},
    )


def _of_example(family: Family, zero: float | None, u: Any, when: Any) -> Any:
    """The score of one example, -1 where it is undefined."""
    finish = _finish_of(family)[0]
    undefined = -1.0 if zero is None else float(zero)
    return when(family.trials(u) > 0).then(finish(u)).otherwise(undefined)


def _defined(c: Any) -> Any:
    return {"x": c.value.clip(0.0, 1.0), "y": (c.value + 1.0).clip(0.0, 1.0)}


def _examples_left_out(s: Any) -> Any:
    # Weights have no scale: the share that is undefined, in examples.
    with np.errstate(invalid="ignore"):
        count = np.round((1.0 - s.y / s.n) * s.rows)
    texts = [f"{k:g} examples undefined, left out" if k > 0 else "" for k in count.flat]
    return np.array(texts, object).reshape(count.shape)


def _samples(family: Family, asked: Asked) -> Metric:
    """The mean over examples of their score, a row per label of each example."""
    return Metric(
        f"samples_{family.name}",
        _flags(asked),
        _defined,
        ratio_of,
        gradient=ratio_gradient,
        samples={"y": ("x", "y")},
        better="higher",
        bounds=(0, 1),
        undefined={"no example is defined": no_denominator},
        worst={"p": opposite},
        unit=Unit(sums=family.sums, value=partial(_of_example, family, asked.zero_division)),
        note=_examples_left_out,
    )


def _names(labels: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """The classes that labels= names, each once."""
    if labels is None:
        return None
    names = () if isinstance(labels, str) else tuple(labels)
    if not names:
        raise EvalError(f"labels={labels!r} is not a list of classes")
    if len(set(names)) < len(names):
        raise EvalError(f"labels={list(names)!r} names a class twice")
    return names


def of_family(family: Family, asked: Asked) -> Metric:
    """A member of the family under one of the averages."""
    average = asked.average
    check_option("average", average, AVERAGES)
    check_option("zero_division", asked.zero_division, (None, 0, 1))
    check_whole("min_support", asked.min_support, 0)
    asked = asked._replace(labels=_names(asked.labels))
    if asked.min_support and average not in ("macro", "weighted"):
        raise EvalError("min_support= goes with average='macro' or 'weighted'")
    if asked.label_of is not None:
        if average not in ("macro", "weighted") or asked.multilabel:
            raise EvalError(
                "label_of= goes with average='macro' or 'weighted', and a row per label"
            )
        return _of_label_rows(family, asked, asked.label_of)
    if asked.multilabel:
        _check_lists(average, asked.positive)
    elif average in ("binary", "samples"):
        if asked.labels is not None:
            raise EvalError("labels= goes with average='macro', 'micro', 'weighted' or None")
        return (_binary if average == "binary" else _samples)(family, asked)
    elif asked.positive is not None:
        raise EvalError(
            f"positive={asked.positive!r} goes with average='binary' or 'samples', not {average!r}"
        )
    return _averaged(family, asked)


def _four(c: Any) -> Any:
    return {
        "tp": c.y * c.p,
        "fp": (1 - c.y) * c.p,
        "fn": c.y * (1 - c.p),
        "tn": (1 - c.y) * (1 - c.p),
    }


def _averaging(asked: Asked, layout: Layout) -> Averaging:
    kind = "macro" if asked.average is None else asked.average
    return Averaging(kind, asked.labels, asked.zero_division, asked.min_support, layout)


def _of_label_rows(family: Family, asked: Asked, column: Source) -> Metric:
    """An average over labels that have a row each for every example."""
    arguments = (family.score, _averaging(asked, ROWS))
    return Metric(
        f"{asked.average}_{family.name}",
        {"label": category(column, column), **_flags(asked)},
        _four,
        partial(class_average, *arguments),
        gradient=partial(class_average_gradient, *arguments),
        cells=("label",),
        counts=True,
        note=partial(left_out, *arguments),
        undefined=NO_LABELS,
        better="higher",
        bounds=(0, 1),
    )


def _check_lists(average: Average, positive: Any) -> None:
    if average == "binary":
        raise EvalError(
            "multilabel=True goes with average='micro', 'macro', 'weighted', 'samples' or None"
        )
    if positive is not None:
        raise EvalError(f"positive={positive!r} goes with one label per row; see labels=")


def _plain_expression(family: Family, kind: str, c: Any) -> Any:
    """Over the classes that occur: a right row adds its share of the trials of its class."""
    right, every = c.y == c.p, c.y.append(c.p)
    truth, predicted = ties(c.y).filter(right), ties(c.p).filter(right)
    hits, b = ties(c.y.filter(right)), (family.beta or 1.0) ** 2
    trials, classes = {
        "precision": (predicted, c.p),
        "recall": (truth, c.y),
        "fbeta": ((b * truth + predicted) / (1 + b), every),
        "jaccard": (truth + predicted - hits, every),
    }[family.kind]
    if kind == "macro":
        return (1 / trials).sum() / classes.n_unique()
    # The labels of classes without trials are left out.
    return (truth / trials).sum() / c.y.is_in(classes.implode()).sum()


def _by_class(labels: Sequence[Any] | None, c: Any) -> tuple[Any, Any, Any, Any]:
    """Hits, labels and predictions of classes, and how often each class is there.

    Those asked for once, else as often as they occur as label or prediction.
    """
    columns = [c.y == c.p, c.y.is_not_null(), c.p.is_not_null()]
    if labels is not None:
        keys = (c.y, c.y, c.p)
        sums = [
            [x.filter(is_value(key, value)).sum().cast(pl.Float64) for value in labels]
            for x, key in zip(columns, keys, strict=True)
        ]
        hits, truth, predicted = (reduce(pl.Expr.append, parts) for parts in sums)
        return hits, truth, predicted, 1.0
    every, none = c.y.append(c.p), c.y.is_null()
    ones = [columns[0].append(none), columns[1].append(none), none.append(columns[2])]
    hits, truth, predicted = (sum_within(x.cast(pl.Float64), every) for x in ones)
    return hits, truth, predicted, ties(every)


def _share_of(family: Family, *counts: Any) -> Any:
    """The score of a class as an expression."""
    hits, truth, predicted, n = counts
    b = (family.beta or 1.0) ** 2
    part, whole = {
        "precision": (hits, predicted),
        "recall": (hits, truth),
        "specificity": (n - truth - predicted + hits, n - truth),
        "fbeta": ((1 + b) * hits, b * truth + predicted),
        "jaccard": (hits, truth + predicted - hits),
    }[family.kind]
    return part / whole


def _average_expression(family: Family, average: Averaging, c: Any) -> Any:
    """The average over classes, each with a share of the times that it is there."""
    hits, truth, predicted, times = _by_class(average.labels, c)
    n = c.y.len().cast(pl.Float64)
    if average.kind == "micro":
        parts = (hits, truth, predicted, n * hits.is_not_null())
        return _share_of(family, *((part / times).sum().round() for part in parts))
    score = _share_of(family, hits, truth, predicted, n)
    if average.zero is not None:
        score = pl.when(score.is_finite()).then(score).otherwise(average.zero)
    counted = score.is_finite() & (truth >= average.least)
    weight = (truth if average.kind == "weighted" else counted.cast(pl.Float64)) / times
    return (score * weight).filter(counted).sum() / weight.filter(counted).sum()


def _averaged(family: Family, asked: Asked) -> Metric:
    """An average over the classes of cells: pairs of label and prediction, or of lists of them."""
    target, pred, average, lists = asked.target, asked.pred, asked.average, asked.multilabel
    metric_of, layout = (set_metric, SETS) if lists else (matrix_metric, MATRIX)
    common = {"better": "higher", "bounds": (0, 1)}
    name = family.name if average is None else f"{average}_{family.name}"
    if average == "samples":
        row = partial(score_of_rows, family.score, asked.zero_division)
        return mean_of_rows(name, target, pred, row, asked.labels, **common)
    if average == "micro":
        if asked.labels is None and family.kind not in ("specificity", "jaccard") and not lists:
            return accuracy_like(name, target, pred)
        pooled = (family.score, layout, asked.labels)
        averaging = Averaging("micro", asked.labels)
        return metric_of(
            name,
            target,
            pred,
            partial(micro, *pooled),
            gradient=partial(micro_gradient, *pooled),
            zero_division=asked.zero_division,
            undefined=NO_LABELS,
            expression=None if lists else partial(_average_expression, family, averaging),
            **common,
        )
    averaging = _averaging(asked, layout)
    arguments = (family.score, averaging)
    per_class = expression = None
    if average is not None and not lists:
        plain = averaging == Averaging(average) and family.kind != "specificity"
        expression = (
            partial(_plain_expression, family, average)
            if plain
            else partial(_average_expression, family, averaging)
        )
    if average is None and lists:
        of = partial(_of_label, family, asked)
        per_class = PerClass(of, asked.labels, known_labels, cells_of_label)
    elif average is None:
        per_class = PerClass(partial(_of_class, family, asked), asked.labels)
    return metric_of(
        name,
        target,
        pred,
        partial(class_average, *arguments),
        gradient=partial(class_average_gradient, *arguments),
        note=partial(left_out, *arguments),
        undefined=NO_LABELS,
        per_class=per_class,
        expression=expression,
        **common,
    )
