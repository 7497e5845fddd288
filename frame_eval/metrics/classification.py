"""Classification: shares of rows, F scores, and metrics of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frame_eval.columns import Source, category, equal, label
from frame_eval.errors import EvalError, check_option
from frame_eval.metrics.confusion import (
    MATRIX,
    NO_LABELS,
    Averaging,
    Confusion,
    Score,
    certain_chance,
    class_average,
    class_average_gradient,
    class_empty,
    class_gradient,
    class_hits,
    class_rejections,
    class_trials,
    class_value,
    fbeta_score,
    jaccard_score,
    kappa_score,
    left_out,
    mcc_score,
    micro,
    micro_gradient,
    one_margin,
    precision_score,
    recall_score,
    specificity_score,
    whole,
    whole_gradient,
)
from frame_eval.metrics.core import Metric, PerClass, Proportion, Unit
from frame_eval.metrics.costs import (
    no_chance_disagreement,
    weighted_kappa,
    weighted_kappa_gradient,
)
from frame_eval.metrics.means import NO_ROWS, no_denominator, ratio_gradient, ratio_of
from frame_eval.metrics.multilabel import (
    SETS,
    cells_of_label,
    known_labels,
    mean_of_rows,
    score_of_rows,
    set_metric,
    the_same,
)

Array: TypeAlias = npt.NDArray[Any]
Average: TypeAlias = "Literal['binary', 'macro', 'micro', 'weighted', 'samples'] | None"
AVERAGES = ("binary", "macro", "micro", "weighted", "samples", None)


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


def accuracy(target: Source, pred: Source, *, multilabel: bool = False) -> Metric:
    """The share of rows whose prediction equals the label.

    Parameters
    ----------
    target, pred
        Label columns of any one type (boolean, integer, text, categorical).
    multilabel
        Whether both columns are lists of labels, which are equal if they have the same labels.

    Returns
    -------
    Metric
        Called ``accuracy``, between 0 and 1, with proportion intervals (of lists linearised ones).
        Null without rows.

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
    if multilabel:
        options: dict[str, Any] = {"better": "higher", "bounds": (0, 1)}
        return mean_of_rows("accuracy", target, pred, the_same, None, **options)
    return _accuracy_like("accuracy", target, pred)


def _no_sums(_: Any) -> Any:
    return {}


def matrix_metric(name: str, target: Source, pred: Source, finish: Any, **options: Any) -> Metric:
    """A metric over label x prediction cells."""
    inputs = {"y": category(target, pred), "p": category(pred, target)}
    return Metric(name, inputs, _no_sums, finish, cells=("y", "p"), counts=True, **options)


def _f1_of_jaccard(j: Any) -> Any:
    return 2 * j / (1 + j)


def _f1_slope(j: Any) -> Any:
    return 2 / (1 + j) ** 2


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


def _of_class(
    family: Family, target: Source, pred: Source, zero: float | None, value: Any
) -> Metric:
    proportion = None
    if family.beta in (None, 1.0):
        hits = class_rejections if family.kind == "specificity" else class_hits
        proportion = Proportion(
            partial(hits, value), partial(class_trials, family.kind, value), *_map_of(family)
        )
    return matrix_metric(
        family.name,
        target,
        pred,
        partial(class_value, family.score, value),
        gradient=partial(class_gradient, family.score, value),
        proportion=proportion,
        zero_division=zero,
        better="higher",
        bounds=(0, 1),
        undefined={family.reason: partial(class_empty, family.kind, value)},
    )


def _of_label(family: Family, target: Source, pred: Source, zero: float | None, _: Any) -> Metric:
    """The metric of one of several labels: the cells are whether it is there."""
    return _of_class(family, target, pred, zero, value=True)


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


def opposite(c: Any) -> Any:
    return 1 - c.y


def _finish_of(family: Family) -> tuple[Any, Any]:
    """The score from the sums of two classes, and its gradient where it is given."""
    if family.beta is None:
        return partial(_quotient, family.hits, family.trials), None
    return partial(_binary_fbeta, family.beta), partial(_binary_fbeta_gradient, family.beta)


def _binary(
    family: Family, target: Source, pred: Source, positive: Any, zero: float | None
) -> Metric:
    finish, gradient = _finish_of(family)
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


def _samples(
    family: Family, target: Source, pred: Source, positive: Any, zero: float | None
) -> Metric:
    """The mean over examples of their score, a row per label of each example."""
    return Metric(
        f"samples_{family.name}",
        {"y": label(target, positive), "p": label(pred, positive)},
        _defined,
        ratio_of,
        gradient=ratio_gradient,
        samples={"y": ("x", "y")},
        better="higher",
        bounds=(0, 1),
        undefined={"no example is defined": no_denominator},
        worst={"p": opposite},
        unit=Unit(sums=family.sums, value=partial(_of_example, family, zero)),
        note=_examples_left_out,
    )


def _build(
    family: Family,
    target: Source,
    pred: Source,
    average: Average,
    positive: Any,
    labels: Sequence[Any] | None,
    zero: float | None,
    min_support: int,
    *,
    multilabel: bool,
) -> Metric:
    """A member of the family under one of the averages."""
    check_option("average", average, AVERAGES)
    check_option("zero_division", zero, (None, 0, 1))
    if multilabel:
        _check_lists(average, positive)
    if min_support and average not in ("macro", "weighted"):
        raise EvalError("min_support= goes with average='macro' or 'weighted'")
    if average in ("binary", "samples") and not multilabel:
        if labels is not None:
            raise EvalError("labels= goes with average='macro', 'micro', 'weighted' or None")
        build = _binary if average == "binary" else _samples
        return build(family, target, pred, positive, zero)
    if positive is not None:
        raise EvalError(
            f"positive={positive!r} goes with average='binary' or 'samples', not {average!r}"
        )
    return _averaged(family, target, pred, average, labels, zero, min_support, lists=multilabel)


def _check_lists(average: Average, positive: Any) -> None:
    if average == "binary":
        raise EvalError(
            "multilabel=True goes with average='micro', 'macro', 'weighted', 'samples' or None"
        )
    if positive is not None:
        raise EvalError(f"positive={positive!r} goes with one label per row; see labels=")


def _averaged(
    family: Family,
    target: Source,
    pred: Source,
    average: str | None,
    labels: Sequence[Any] | None,
    zero: float | None,
    min_support: int,
    *,
    lists: bool,
) -> Metric:
    """An average over the classes of cells: pairs of label and prediction, or of lists of them."""
    metric_of = set_metric if lists else matrix_metric
    layout = SETS if lists else MATRIX
    common = {"better": "higher", "bounds": (0, 1)}
    name = family.name if average is None else f"{average}_{family.name}"
    if average == "samples":
        row = partial(score_of_rows, family.score, zero)
        return mean_of_rows(name, target, pred, row, labels, **common)
    if average == "micro":
        if labels is None and family.kind not in ("specificity", "jaccard") and not lists:
            return _accuracy_like(name, target, pred)
        pooled = (family.score, layout, labels)
        return metric_of(
            name,
            target,
            pred,
            partial(micro, *pooled),
            gradient=partial(micro_gradient, *pooled),
            zero_division=zero,
            undefined=NO_LABELS,
            **common,
        )
    kind = "macro" if average is None else average
    arguments = (family.score, Averaging(kind, labels, zero, min_support, layout))
    per_class = None
    if average is None and lists:
        of = partial(_of_label, family, target, pred, zero)
        per_class = PerClass(of, labels, known_labels, cells_of_label)
    elif average is None:
        per_class = PerClass(partial(_of_class, family, target, pred, zero), labels)
    return metric_of(
        name,
        target,
        pred,
        partial(class_average, *arguments),
        gradient=partial(class_average_gradient, *arguments),
        note=partial(left_out, *arguments),
        undefined=NO_LABELS,
        per_class=per_class,
        **common,
    )


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
    family = Family(
        "precision",
        "precision",
        precision_score,
        _sums_tp_fp,
        _tp,
        _tp_fp,
        "no predicted positives",
    )
    return _build(
        family,
        target,
        pred,
        average,
        positive,
        labels,
        zero_division,
        min_support,
        multilabel=multilabel,
    )


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
) -> Metric:
    """The share of positives that are found: tp / (tp + fn). Also called sensitivity.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel
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
    family = Family("recall", "recall", recall_score, _sums_tp_fn, _tp, _tp_fn, "no positives")
    return _build(
        family,
        target,
        pred,
        average,
        positive,
        labels,
        zero_division,
        min_support,
        multilabel=multilabel,
    )


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
) -> Metric:
    """The share of negatives that are left alone: tn / (tn + fp).

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel
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
        "specificity", "specificity", specificity_score, _sums_tn_fp, _tn, _tn_fp, "no negatives"
    )
    return _build(
        family,
        target,
        pred,
        average,
        positive,
        labels,
        zero_division,
        min_support,
        multilabel=multilabel,
    )


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
) -> Metric:
    """The F score: (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) (van Rijsbergen 1979).

    Parameters
    ----------
    beta
        How much more recall counts than precision; positive.
    target, pred, average, positive, labels, zero_division, min_support, multilabel
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
        partial(fbeta_score, float(beta)),
        _sums_tp_fp_fn,
        _tp,
        _tp_fp_fn,
        "no positives and no predicted positives",
        float(beta),
    )
    return _build(
        family,
        target,
        pred,
        average,
        positive,
        labels,
        zero_division,
        min_support,
        multilabel=multilabel,
    )


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
) -> Metric:
    """The harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

    F1 is 2J / (1 + J) of the share J = tp / (tp + fp + fn), and so has the interval of that
    share, mapped.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel
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
        min_support=min_support,
        multilabel=multilabel,
    )


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
) -> Metric:
    """Intersection over union of labels and predictions: tp / (tp + fp + fn) (Jaccard 1912).

    The macro average over pixels as rows is the mean intersection over union of a segmentation.

    Parameters
    ----------
    target, pred, average, positive, labels, zero_division, min_support, multilabel
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
    family = Family(
        "jaccard",
        "jaccard",
        jaccard_score,
        _sums_tp_fp_fn,
        _tp,
        _tp_fp_fn,
        "no positives and no predicted positives",
    )
    return _build(
        family,
        target,
        pred,
        average,
        positive,
        labels,
        zero_division,
        min_support,
        multilabel=multilabel,
    )


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
    return matrix_metric(
        "mcc",
        target,
        pred,
        partial(whole, mcc_score),
        gradient=partial(whole_gradient, mcc_score),
        better="higher",
        bounds=(-1, 1),
        undefined={"one class only": one_margin},
    )


def cohen_kappa(
    target: Source,
    pred: Source,
    *,
    weights: Literal["linear", "quadratic"] | None = None,
    labels: Sequence[Any] | None = None,
) -> Metric:
    """Cohen's kappa: agreement beyond chance, (po - pe) / (1 - pe) (Cohen 1960, 1968).

    Parameters
    ----------
    target, pred
        Label columns of one type: two raters, or labels and predictions.
    weights
        For grades: how much a disagreement counts, by the distance of the two grades
        (``"linear"``) or its square (``"quadratic"``). None: all disagreements count the same.
    labels
        All classes in their order, one step apart; by default the distance is that of the numbers
        in the columns. Text needs it.

    Returns
    -------
    Metric
        Called ``cohen_kappa``, ``linear_cohen_kappa`` or ``quadratic_cohen_kappa``; at most 1. Null
        when chance agreement is 1 (both columns constant with the same class).

    Raises
    ------
    EvalError
        For unknown weights, or labels without weights; in a verb for columns that can not be
        compared, and with weights for text without ``labels`` or classes that are not among them.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"judge": ["A", "B", "A", "B"], "human": ["A", "B", "B", "B"]})
    >>> df.eval.summary(fe.cohen_kappa("judge", "human"))["estimate"].item()
    0.5
    >>> df = pl.DataFrame({"judge": [1, 2, 3, 3], "human": [1, 2, 2, 3]})
    >>> kappa = fe.cohen_kappa("judge", "human", weights="quadratic")
    >>> round(df.eval.summary(kappa)["estimate"].item(), 4)
    0.8
    """
    check_option("weights", weights, (None, "linear", "quadratic"))
    common: dict[str, Any] = {"better": "higher", "bounds": (-1, 1)}
    if weights is None:
        if labels is not None:
            raise EvalError("labels= orders grades: say weights='linear' or 'quadratic'")
        return matrix_metric(
            "cohen_kappa",
            target,
            pred,
            partial(whole, kappa_score),
            gradient=partial(whole_gradient, kappa_score),
            undefined={"chance agreement is 1": certain_chance},
            **common,
        )
    arguments = (labels, 1 if weights == "linear" else 2)
    return matrix_metric(
        f"{weights}_cohen_kappa",
        target,
        pred,
        partial(weighted_kappa, *arguments),
        gradient=partial(weighted_kappa_gradient, *arguments),
        undefined={"chance agreement is 1": partial(no_chance_disagreement, *arguments)},
        **common,
    )


def balanced_accuracy(target: Source, pred: Source, *, min_support: int = 0) -> Metric:
    """The mean over classes of their recall (Brodersen and others 2010).

    Parameters
    ----------
    target, pred
        Label columns of one type.
    min_support
        The fewest rows of a label with which its class counts; ``note`` names those left out.

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
    arguments = (recall_score, Averaging("macro", least=min_support))
    return matrix_metric(
        "balanced_accuracy",
        target,
        pred,
        partial(class_average, *arguments),
        gradient=partial(class_average_gradient, *arguments),
        note=partial(left_out, *arguments) if min_support else None,
        better="higher",
        bounds=(0, 1),
        undefined=NO_LABELS,
    )
