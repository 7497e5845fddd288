"""Classification: accuracy, and metrics of the whole confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import polars as pl

from frame_eval.columns import Source, category, equal
from frame_eval.errors import EvalError, check_option, check_whole
from frame_eval.metrics.confusion import (
    NO_LABELS,
    Averaging,
    certain_chance,
    class_average,
    class_average_gradient,
    kappa_score,
    left_out,
    mcc_score,
    one_margin,
    recall_score,
    whole,
    whole_gradient,
)
from frame_eval.metrics.core import Metric
from frame_eval.metrics.costs import (
    no_chance_disagreement,
    weighted_kappa,
    weighted_kappa_expression,
    weighted_kappa_gradient,
)
from frame_eval.metrics.expressions import ties
from frame_eval.metrics.means import NO_ROWS
from frame_eval.metrics.multilabel import mean_of_rows, the_same
from frame_eval.metrics.shares import SHARE, share


def _hit(c: Any) -> Any:
    return {"hits": c.hit}


def accuracy_like(name: str, target: Source, pred: Source) -> Metric:
    return Metric(
        name,
        {"hit": equal(target, pred)},
        _hit,
        share,
        proportion=SHARE,
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
    return accuracy_like("accuracy", target, pred)


def _no_sums(_: Any) -> Any:
    return {}


def matrix_metric(name: str, target: Source, pred: Source, finish: Any, **options: Any) -> Metric:
    """A metric over label x prediction cells."""
    inputs = {"y": category(target, pred), "p": category(pred, target)}
    return Metric(name, inputs, _no_sums, finish, cells=("y", "p"), counts=True, **options)


def _chance_expression(c: Any) -> tuple[Any, Any, Any]:
    """How many pairs of rows agree: a label and a prediction, two labels, two predictions."""
    truth, predicted = ties(c.y).sum(), ties(c.p).sum()
    return (ties(c.y.append(c.p)).sum() - truth - predicted) / 2, truth, predicted


def _mcc_expression(c: Any) -> Any:
    n, correct = c.y.len().cast(pl.Float64), (c.y == c.p).sum()
    both, truth, predicted = _chance_expression(c)
    return (correct * n - both) / ((n**2 - truth) * (n**2 - predicted)).sqrt()


def _kappa_expression(c: Any) -> Any:
    chance = _chance_expression(c)[0] / c.y.len().cast(pl.Float64) ** 2
    return ((c.y == c.p).mean() - chance) / (1 - chance)


def _balanced_expression(c: Any) -> Any:
    """A right row adds its share of the rows of its class."""
    return (1 / ties(c.y)).filter(c.y == c.p).sum() / c.y.n_unique()


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
        expression=_mcc_expression,
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
            expression=_kappa_expression,
            **common,
        )
    arguments = (labels, 1 if weights == "linear" else 2)
    return matrix_metric(
        f"{weights}_cohen_kappa",
        target,
        pred,
        partial(weighted_kappa, *arguments),
        gradient=partial(weighted_kappa_gradient, *arguments),
        expression=partial(weighted_kappa_expression, *arguments),
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
    check_whole("min_support", min_support, 0)
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
        expression=None if min_support else _balanced_expression,
    )
