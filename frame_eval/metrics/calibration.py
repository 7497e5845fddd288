"""Calibration of probabilities: over bins of them, and by logistic recalibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from frame_eval.columns import Input, Source, binned, label, probability, score
from frame_eval.errors import EvalError, check_option
from frame_eval.metrics.core import Metric, Sums

Array: TypeAlias = npt.NDArray[Any]
Strategy: TypeAlias = Literal["uniform", "quantile"]


class Bins(NamedTuple):
    """Weight, positives, sum of probabilities and number of rows by bin (the trailing axis)."""

    n: Array
    y: Array
    p: Array
    rows: Array

    @property
    def weight(self) -> Array:
        """The share of each bin; NaN where there are no rows at all."""
        weight: Array = self.n / self.n.sum(-1, keepdims=True)
        return weight

    @property
    def rate(self) -> Array:
        """The share of positives in each bin; 0 in an empty one, which has no weight."""
        return self.y / np.where(self.n > 0, self.n, 1.0)

    @property
    def gap(self) -> Array:
        """How far the mean probability of each bin is from its share of positives."""
        gap: Array = np.abs(self.y - self.p) / np.where(self.n > 0, self.n, 1.0)
        return gap


def _equal_width(s: Any) -> Bins:
    return Bins(s.n, s.y, s.p, s.rows)


def _equal_mass(bins: int, s: Any) -> Bins:
    """Distinct probabilities in bins of equal weight: by the share of rows strictly below them."""
    n = np.asarray(s.n, float)
    total = n.sum(-1, keepdims=True)
    below = (np.cumsum(n, axis=-1) - n) / np.where(total > 0, total, 1.0)
    code = np.minimum((bins * below + 1e-9).astype(int), bins - 1).reshape(-1, n.shape[-1])
    place = (code + bins * np.arange(len(code))[:, None]).ravel()

    def by_bin(values: Array) -> Array:
        sums = np.bincount(place, np.ravel(values), bins * len(code))
        return sums.reshape(*n.shape[:-1], bins)

    return Bins(by_bin(n), by_bin(s.y), by_bin(s.p), by_bin(s.rows))


def _mean_gap(b: Bins) -> Array:
    value: Array = (b.weight * b.gap).sum(-1)
    return value


def _largest_gap(b: Bins) -> Array:
    value: Array = b.gap.max(-1) + 0.0 * b.weight.sum(-1)
    return value


def _debiased_gap(b: Bins) -> Array:
    """Twice the gap less its expectation, were the share of positives redrawn from a normal."""
    gap, rate = b.gap, b.rate
    error = np.sqrt(rate * (1.0 - rate) / np.where(b.rows > 0, b.rows, 1.0))
    ratio = gap / np.where(error > 0, error, 1.0)
    density = math.sqrt(2.0 / math.pi) * np.exp(-(ratio**2) / 2.0)
    erf = np.vectorize(math.erf, otypes=[float])
    folded = error * density + gap * erf(ratio / math.sqrt(2.0))
    expected = np.where(error > 0, folded, gap)
    value: Array = (b.weight * (2.0 * gap - expected)).sum(-1)
    return value


def _squared_gap(b: Bins) -> Array:
    value: Array = (b.weight * b.gap**2).sum(-1)
    return value


def _unbiased_squared_gap(b: Bins) -> Array:
    """Without what chance adds in each bin; bins of one row can not say how much that is."""
    several = b.rows > 1
    chance = b.rate * (1.0 - b.rate) / np.where(several, b.rows - 1.0, 1.0)
    weight = np.where(several, b.n, 0.0)
    value: Array = (weight * (b.gap**2 - chance)).sum(-1) / weight.sum(-1)
    return value


def _overall(b: Bins) -> Array:
    rate: Array = (b.weight * b.rate).sum(-1)
    return rate


def _spread(b: Bins) -> Array:
    value: Array = (b.weight * (b.rate - _overall(b)[..., None]) ** 2).sum(-1)
    return value


def _of_bins(value: Callable[[Bins], Array], bins_of: Callable[[Any], Bins], s: Any) -> Array:
    return value(bins_of(s))


def _y_and_p(c: Any) -> Any:
    return {"y": c.y, "p": c.p}


def _none(_: Any) -> Any:
    """No derivatives: the absolute gaps have none where a bin is calibrated."""
    return {}


def _empty(s: Any) -> Any:
    return s.n.sum(-1) == 0


def _otherwise(_: Any) -> bool:
    """The reason that is left where no other one holds."""
    return True


PLUG_IN = "biased upwards: no interval by default"
DEBIASED = "not smooth near perfect calibration: no interval by default"
FLAT = "flat where half of the rows are positive: no interval by default"


def _remark(text: str, _: Any) -> str:
    return text


def _binned(
    name: str,
    value: Callable[[Bins], Array],
    target: Source,
    prob: Source,
    bins: int,
    strategy: Strategy,
    positive: Any,
    **options: Any,
) -> Metric:
    """A function of bins: of equal width as cells, or made of the distinct probabilities."""
    if not isinstance(bins, int) or bins < 1:  # type: ignore[redundant-expr]  # users are not checked
        raise EvalError(f"bins={bins!r} is not a positive integer")
    check_option("strategy", strategy, ("uniform", "quantile"))
    uniform = strategy == "uniform"
    inputs: dict[str, Input | Source] = {
        "y": label(target, positive),
        "p": probability(prob),
        "bin": binned(prob, bins) if uniform else score(prob),
    }
    bins_of = _equal_width if uniform else partial(_equal_mass, bins)
    chosen = {
        "note": partial(_remark, PLUG_IN),
        "better": "lower",
        "bounds": (0, 1),
        "undefined": {"no rows": _empty},
        **options,
    }
    return Metric(
        name,
        inputs,
        _y_and_p,
        partial(_of_bins, value, bins_of),
        cells=("bin",),
        ordered=not uniform,
        gradient=_none,
        smooth=False,
        **chosen,
    )


def ece(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
) -> Metric:
    """Expected calibration error: the gap of mean probability and share of positives, by bin.

    sum_b n_b / n * abs(mean(p) - mean(y)) (Naeini, Cooper and Hauskrecht 2015). For the calibration
    of a confidence, the target is whether the answer is correct; for that of one class of several,
    name it as ``positive``.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    prob
        The probability of the positive class, a numeric column in [0, 1].
    bins
        The number of bins.
    strategy
        ``"uniform"``: bins of equal width, (lo, hi] with 0 in the first. ``"quantile"``: of equal
        weight in each slice; equal probabilities share a bin, by the rows strictly below them.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``ece``, between 0 and 1, lower is better. Biased upwards, and the more so the
        smaller the slice (perfect calibration gives about 0.12 at 100 rows and 0.05 at 500): there
        is no interval, and :func:`ece_debiased` takes some of the bias off. Null for a slice
        without rows.

    Raises
    ------
    EvalError
        For an unknown strategy or when ``bins`` is not a positive integer; in a verb as
        :func:`brier`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 0, 1, 0], "confidence": [0.9, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.ece("ok", "confidence", bins=5))["estimate"].item(), 4)
    0.2
    """
    return _binned("ece", _mean_gap, target, prob, bins, strategy, positive)


def mce(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
) -> Metric:
    """Maximum calibration error: the largest gap of mean probability and share of positives.

    Parameters
    ----------
    target, prob, bins, strategy, positive
        As for :func:`ece`.

    Returns
    -------
    Metric
        Called ``mce``, between 0 and 1, lower is better; ruled by the smallest bin, with no
        interval. Null for a slice without rows.

    Raises
    ------
    EvalError
        As :func:`ece`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 0, 1, 0], "confidence": [0.9, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.mce("ok", "confidence", bins=2))["estimate"].item(), 4)
    0.1667
    """
    return _binned("mce", _largest_gap, target, prob, bins, strategy, positive)


def ece_debiased(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
) -> Metric:
    """Expected calibration error less its bias (Kumar, Liang and Ma 2019, for absolute gaps).

    The bias is what :func:`ece` would gain were the share of positives of each bin drawn again
    from a normal law around the one seen, with variance rate (1 - rate) / rows. Its expectation is
    that of a folded normal law, so that nothing is drawn.

    Parameters
    ----------
    target, prob, bins, strategy, positive
        As for :func:`ece`.

    Returns
    -------
    Metric
        Called ``ece_debiased``, lower is better. Of the bias a third goes where the calibration is
        perfect, and the more the farther it is from that. Rows count as independent. It has no
        interval. Null for a slice without rows.

    Raises
    ------
    EvalError
        As :func:`ece`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 0, 1, 0], "confidence": [0.9, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.ece_debiased("ok", "confidence", bins=2))["estimate"].item(), 4)
    0.0825
    """
    options = {"bounds": (None, None), "note": partial(_remark, DEBIASED)}
    return _binned("ece_debiased", _debiased_gap, target, prob, bins, strategy, positive, **options)


def brier_reliability(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
    debiased: bool = False,
) -> Metric:
    """What miscalibration adds to the Brier score: sum_b n_b / n * (mean(p) - mean(y))**2.

    Reliability - resolution + uncertainty (Murphy 1973) is the Brier score of probabilities that
    are replaced by the mean of their bin. Its root is the RMS calibration error.

    Parameters
    ----------
    target, prob, bins, strategy, positive
        As for :func:`ece`.
    debiased
        Whether to take off what chance adds, rate (1 - rate) / (n_b - 1) in each bin (Ferro and
        Fricker 2012; Kumar, Liang and Ma 2019). Bins of one row are then left out.

    Returns
    -------
    Metric
        Called ``brier_reliability`` or ``brier_reliability_debiased``, lower is better. The first
        lies between 0 and 1 and is biased upwards; the second is unbiased for independent rows, and
        so is below 0 half of the time where calibration is perfect. There is no interval. Null for
        a slice without rows (or without a bin of two).

    Raises
    ------
    EvalError
        As :func:`ece`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "p": [0.8, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.brier_reliability("y", "p"))["estimate"].item(), 4)
    0.0158
    >>> unbiased = fe.brier_reliability("y", "p", debiased=True)
    >>> round(df.eval.summary(unbiased)["estimate"].item(), 4)
    -0.0933
    """
    if not debiased:
        return _binned("brier_reliability", _squared_gap, target, prob, bins, strategy, positive)
    return _binned(
        "brier_reliability_debiased",
        _unbiased_squared_gap,
        target,
        prob,
        bins,
        strategy,
        positive,
        bounds=(None, None),
        note=partial(_remark, DEBIASED),
        undefined={"no rows": _empty, "no bin has two rows": _otherwise},
    )


def brier_resolution(
    target: Source,
    prob: Source,
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
) -> Metric:
    """What telling rows apart takes off the Brier score: sum_b n_b / n * (mean_b(y) - mean(y))**2.

    Parameters
    ----------
    target, prob, bins, strategy, positive
        As for :func:`ece`.

    Returns
    -------
    Metric
        Called ``brier_resolution``, between 0 and 1, higher is better (Murphy 1973); biased
        upwards, with no interval. Null for a slice without rows.

    Raises
    ------
    EvalError
        As :func:`ece`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "p": [0.8, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.brier_resolution("y", "p"))["estimate"].item(), 4)
    0.0833
    """
    return _binned(
        "brier_resolution", _spread, target, prob, bins, strategy, positive, better="higher"
    )


def _y(c: Any) -> Any:
    return {"y": c.y}


def _variance(s: Any) -> Any:
    rate = s.y / s.n
    return rate * (1.0 - rate)


def _no_rows(s: Any) -> Any:
    return s.n == 0


def brier_uncertainty(target: Source, *, positive: Any = None) -> Metric:
    """The Brier score of always saying the share of positives: mean(y) * (1 - mean(y)).

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``brier_uncertainty``, between 0 and 0.25 (Murphy 1973): it is of the data, not of
        the probabilities, and has no interval. Null for a slice without rows.

    Raises
    ------
    EvalError
        In a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 0, 0]})
    >>> df.eval.summary(fe.brier_uncertainty("y"))["estimate"].item()
    0.1875
    """
    return Metric(
        "brier_uncertainty",
        {"y": label(target, positive)},
        _y,
        _variance,
        gradient=_none,
        bounds=(0, 0.25),
        smooth=False,
        undefined={"no rows": _no_rows},
        note=partial(_remark, FLAT),
    )


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
        undefined={**undefined, "the likelihood is too flat": _otherwise},
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
