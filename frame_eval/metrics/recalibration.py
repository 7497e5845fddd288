"""Logistic recalibration: slope and intercept of the labels on the logit of probabilities."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frame_eval.columns import Source, label, probability, score
from frame_eval.metrics.calibration import otherwise
from frame_eval.metrics.core import Metric, Sums

Array: TypeAlias = npt.NDArray[Any]


def _sides(c: Any) -> Any:
    return {"pos": c.y, "neg": 1 - c.y}


def _logit(s: Any) -> Array:
    p = np.asarray(s.classes[0])
    with np.errstate(divide="ignore"):
        logit: Array = np.log(p) - np.log1p(-p)
    return logit


class Model(NamedTuple):
    """A logistic model of the distinct probabilities: its columns, and what is added to them."""

    design: Array
    offset: Array


def _slope_model(s: Any) -> Model:
    x = _logit(s)
    return Model(np.stack([np.ones_like(x), x], -1), np.zeros_like(x))


def _shift_model(s: Any) -> Model:
    x = _logit(s)
    return Model(np.ones((len(x), 1)), x)


def _likelihood(model: Model, s: Any, coefficients: Array) -> tuple[Array, Array]:
    """The log-likelihood of the labels, and the probabilities of the model."""
    eta = model.offset + coefficients @ model.design.T
    small = np.exp(-np.abs(eta))
    value = s.pos * eta - (s.pos + s.neg) * (np.maximum(eta, 0.0) + np.log1p(small))
    return value.sum(-1), np.where(eta < 0, small, 1.0) / (1.0 + small)


def _fitted(model: Model, s: Any) -> tuple[Array, Array, Array]:
    """Coefficients, probabilities and inverse information at the largest likelihood, by Newton.

    NaN where the likelihood is too flat to find it.
    """
    design, n = model.design, s.pos + s.neg
    size = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(-1, size * size)
    found = np.zeros((*n.shape[:-1], size))
    value, p = _likelihood(model, s, found)
    for _ in range(100):
        information = ((n * p * (1.0 - p)) @ products).reshape(*found.shape, size)
        flat = ~(np.linalg.det(information) > 0)[..., None]
        inverse = np.linalg.inv(np.where(flat[..., None], np.eye(size), information))
        step = (((s.pos - n * p) @ design)[..., None, :] @ inverse)[..., 0, :]
        step = np.where(flat, 0.0, step)
        if (np.abs(step) <= 1e-12 * (1.0 + np.abs(found).max(-1, keepdims=True))).all():
            return np.where(flat, np.nan, found), p, np.where(flat[..., None], np.nan, inverse)
        moved, q = _likelihood(model, s, found + step)
        while (worse := moved < value - 1e-12 * n.sum(-1)).any():
            step = np.where(worse[..., None], step / 2.0, step)
            moved, q = _likelihood(model, s, found + step)
        found, value, p = found + step, moved, q
    return np.full_like(found, np.nan), p, np.full((*found.shape, size), np.nan)


def _certain(s: Any) -> Any:
    return (~np.isfinite(_logit(s)) & (s.pos + s.neg > 0)).any(-1)


def _no_positives(s: Any) -> Any:
    return s.pos.sum(-1) == 0


def _no_negatives(s: Any) -> Any:
    return s.neg.sum(-1) == 0


def _separated(s: Any) -> Any:
    """Whether one probability tells all positives from all negatives: the slope is infinite."""
    first_pos, last_pos = _ends(s.pos)
    first_neg, last_neg = _ends(s.neg)
    return (first_pos >= last_neg) | (first_neg >= last_pos)


def _ends(counts: Array) -> tuple[Array, Array]:
    """The positions of the first and the last cell that is not empty."""
    there = np.asarray(counts) > 0
    return there.argmax(-1), there.shape[-1] - 1 - there[..., ::-1].argmax(-1)


UNDEFINED = {
    "no positives": _no_positives,
    "no negatives": _no_negatives,
    "a probability of 0 or 1 has no logit": _certain,
}
SEPARATED = {"the probabilities separate the labels": _separated}


def _estimated(model_of: Any, undefined: Any, s: Any) -> tuple[Model, Array, Array, Array]:
    """The model and its fit, NaN where it is undefined."""
    bad = np.any([holds(s) for holds in undefined.values()], axis=0)[..., None]
    finite = np.isfinite(_logit(s))
    design, offset = model_of(s)
    model = Model(np.where(finite[:, None], design, 0.0), np.where(finite, offset, 0.0))
    kept = {name: np.where(bad, 0.0, getattr(s, name)) for name in ("pos", "neg")}
    return model, *_fitted(model, Sums(kept))


def _coefficient(model_of: Any, undefined: Any, s: Any) -> Any:
    return _estimated(model_of, undefined, s)[1][..., -1]


def _coefficient_gradient(model_of: Any, undefined: Any, s: Any) -> Any:
    """How the solution of the likelihood equations moves with each count (implicit function)."""
    model, _, p, inverse = _estimated(model_of, undefined, s)
    influence = inverse[..., -1, :] @ model.design.T
    return {"pos": influence * (1.0 - p), "neg": -influence * p}


def _recalibration(
    name: str, model_of: Any, undefined: Any, target: Source, prob: Source, positive: Any
) -> Metric:
    return Metric(
        name,
        {"y": label(target, positive), "p": probability(prob), "cell": score(prob)},
        _sides,
        partial(_coefficient, model_of, undefined),
        cells=("cell",),
        ordered=True,
        gradient=partial(_coefficient_gradient, model_of, undefined),
        counts=True,
        undefined={**undefined, "the likelihood is too flat": otherwise},
    )


def calibration_slope(target: Source, prob: Source, *, positive: Any = None) -> Metric:
    """The slope b of the logistic model logit P(y) = a + b logit(p) (Cox 1958).

    Below 1 the probabilities are too extreme (overconfident), above 1 too timid.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    prob
        The probability of the positive class, a numeric column in [0, 1].
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``calibration_slope``; 1 is best. The maximum likelihood estimate, with sandwich
        errors, that respect clusters. Null with one class only, where the probabilities separate
        the labels (the slope is infinite), or where one is 0 or 1 and so has no logit.

    Raises
    ------
    EvalError
        In a verb as :func:`brier`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 1, 1, 0, 1, 0, 0, 0], "p": [0.9] * 4 + [0.1] * 4})
    >>> round(df.eval.summary(fe.calibration_slope("y", "p"))["estimate"].item(), 4)
    0.5
    """
    undefined = {**UNDEFINED, **SEPARATED}
    return _recalibration("calibration_slope", _slope_model, undefined, target, prob, positive)


def calibration_intercept(target: Source, prob: Source, *, positive: Any = None) -> Metric:
    """The intercept a of logit P(y) = a + logit(p): calibration in the large (Cox 1958).

    Below 0 the probabilities are too high on the whole, above 0 too low.

    Parameters
    ----------
    target, prob, positive
        As for :func:`calibration_slope`.

    Returns
    -------
    Metric
        Called ``calibration_intercept``, in log-odds; 0 is best. The maximum likelihood estimate
        with the slope fixed at 1, with sandwich errors. Null with one class only, or where a
        probability of 0 or 1 has no logit.

    Raises
    ------
    EvalError
        In a verb as :func:`brier`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 0, 0], "p": [0.5] * 4})
    >>> round(df.eval.summary(fe.calibration_intercept("y", "p"))["estimate"].item(), 4)
    -1.0986
    """
    return _recalibration("calibration_intercept", _shift_model, UNDEFINED, target, prob, positive)
