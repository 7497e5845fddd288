"""Calibration of probabilities over bins of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import (
    Input,
    Source,
    bin_of,
    binned,
    label,
    member,
    probability,
    rank_of_truth,
    score,
    top,
)
from frame_eval.errors import EvalError, check_option, check_whole
from frame_eval.metrics.core import Metric, Sums
from frame_eval.metrics.expressions import mean_within
from frame_eval.metrics.multiclass import Order, rows_of_classes
from frame_eval.metrics.probability import inputs_of_classes

Array: TypeAlias = npt.NDArray[Any]
Strategy: TypeAlias = Literal["uniform", "quantile"]
MultiClass: TypeAlias = Literal["classwise", "confidence"]


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
    return _by_bin(np.minimum((bins * below + 1e-9).astype(int), bins - 1), bins, s)


def _by_bin(code: Array, bins: int, s: Any) -> Bins:
    """The sums of the cells (the trailing axis) added up by their bins."""
    shape = np.shape(s.n)
    of_groups = np.broadcast_to(code, shape).reshape(-1, shape[-1])
    place = (of_groups + bins * np.arange(len(of_groups))[:, None]).ravel()

    def added(values: Array) -> Array:
        sums = np.bincount(place, np.broadcast_to(values, shape).ravel(), bins * len(of_groups))
        return sums.reshape(*shape[:-1], bins)

    return Bins(added(s.n), added(s.y), added(s.p), added(s.rows))


class OfBins(NamedTuple):
    """A function of bins, the same of the labels, probabilities and bins of rows as an expression
    (None where no expression says it), and how those of several classes are joined.
    """

    value: Callable[[Bins], Array]
    expression: Callable[[pl.Expr, pl.Expr, pl.Expr], pl.Expr] | None = None
    join: Literal["mean", "max"] = "mean"

    def joined(self, values: Sequence[Array]) -> Array:
        """One value of those of all classes."""
        found: Array = getattr(np.stack(values, -1), self.join)(-1)
        return found


def _mean_gap(b: Bins) -> Array:
    value: Array = (b.weight * b.gap).sum(-1)
    return value


def _mean_gap_expression(y: pl.Expr, p: pl.Expr, code: pl.Expr) -> pl.Expr:
    return mean_within(y - p, code).abs().mean()


def _largest_gap(b: Bins) -> Array:
    value: Array = b.gap.max(-1) + 0.0 * b.weight.sum(-1)
    return value


def _largest_gap_expression(y: pl.Expr, p: pl.Expr, code: pl.Expr) -> pl.Expr:
    return mean_within(y - p, code).abs().max()


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


ECE = OfBins(_mean_gap, _mean_gap_expression)
MCE = OfBins(_largest_gap, _largest_gap_expression, "max")
ECE_DEBIASED = OfBins(_debiased_gap)


def _value_of_bins(of: OfBins, bins_of: Callable[[Any], Bins], s: Any) -> Array:
    return of.value(bins_of(s))


def _code_expression(bins: int, strategy: Strategy, p: pl.Expr) -> pl.Expr:
    if strategy == "uniform":
        code: pl.Expr = bin_of(p, bins)
        return code
    below = (p.rank("min").cast(pl.Float64) - 1.0) / p.len()
    return (bins * below + 1e-9).floor().clip(upper_bound=bins - 1.0)


def _expression(of: OfBins, asked: Asked, sums: Any, c: Any) -> Any:
    assert of.expression is not None
    row = sums(c)
    return of.expression(row["y"], row["p"], _code_expression(asked.bins, asked.strategy, c.p))


def _expression_of_classes(of: OfBins, asked: Asked, size: int, c: Any) -> Any:
    assert of.expression is not None
    values = []
    for k, y in enumerate(rows_of_classes(size, c).values()):
        p = getattr(c, f"s{k}")
        values.append(of.expression(y, p, _code_expression(asked.bins, asked.strategy, p)))
    return pl.max_horizontal(values) if of.join == "max" else pl.mean_horizontal(values)


def _of_each_class(of: OfBins, bins: int, strategy: Strategy, size: int, s: Any) -> Array:
    """The values of all classes, each by its own probabilities, as one."""
    values = []
    for k in range(size):
        order = Order(s, [k])
        n, y, rows = (order.by_score([part]) for part in (s.n, getattr(s, f"y{k}"), s.rows))
        sums = Sums({"n": n, "y": y, "p": n * order.scores, "rows": rows})
        if strategy == "uniform":
            code = np.clip(np.ceil(order.scores * bins - 1e-9), 1, bins).astype(int) - 1
            values.append(of.value(_by_bin(code, bins, sums)))
        else:
            values.append(of.value(_equal_mass(bins, sums)))
    return of.joined(values)


def _y_and_p(c: Any) -> Any:
    return {"y": c.y, "p": c.p}


def _top_and_p(c: Any) -> Any:
    """Whether the most probable class is that of the row, alone; and its probability."""
    return {"y": (2.0 - c.rank).clip(0.0, 1.0), "p": c.p}


def no_slopes(_: Any) -> Any:
    """No derivatives: the absolute gaps have none where a bin is calibrated."""
    return {}


def empty(s: Any) -> Any:
    """Whether there are no rows in any bin."""
    return s.n.sum(-1) == 0


def otherwise(_: Any) -> bool:
    """The reason that is left where no other one holds."""
    return True


PLUG_IN = "biased upwards: no interval by default"
DEBIASED = "not smooth near perfect calibration: no interval by default"


def remark(text: str, _: Any) -> str:
    """A note that is always the same."""
    return text


class Asked(NamedTuple):
    """What metrics over bins are asked about."""

    target: Source
    prob: Source | Mapping[Any, Source]
    bins: int
    strategy: Strategy
    positive: Any
    multi_class: MultiClass = "classwise"


def of_bins(name: str, of: OfBins, asked: Asked, **options: Any) -> Metric:
    """A function of bins: of equal width as cells, or made of the distinct probabilities.

    Of several classes it is that of the most probable one, or all of them joined.
    """
    bins = asked.bins
    check_whole("bins", bins, 1)
    check_option("strategy", asked.strategy, get_args(Strategy))
    check_option("multi_class", asked.multi_class, get_args(MultiClass))
    chosen = {
        "note": partial(remark, PLUG_IN),
        "better": "lower",
        "bounds": (0, 1),
        "undefined": {"no rows": empty},
        **options,
    }
    uniform = asked.strategy == "uniform"
    if not isinstance(asked.prob, Mapping):
        if asked.multi_class != "classwise":
            raise EvalError("multi_class= goes with a column for each class: {class: column}")
        inputs: dict[str, Input | Source] = {
            "y": label(asked.target, asked.positive),
            "p": probability(asked.prob),
            "bin": binned(asked.prob, bins) if uniform else score(asked.prob),
        }
        sums = _y_and_p
    else:
        if asked.positive is not None:
            raise EvalError(f"positive={asked.positive!r} goes with one column of probabilities")
        inputs = inputs_of_classes(asked.target, asked.prob)
        if asked.multi_class == "classwise":
            return _of_classes(name, of, asked, inputs, **chosen)
        name, sums = f"confidence_{name}", _top_and_p
        inputs["rank"] = rank_of_truth(asked.target, asked.prob)
        inputs["p"] = top(asked.prob.values())
        inputs["bin"] = top(asked.prob.values(), bins if uniform else None)
    return Metric(
        name,
        inputs,
        sums,
        partial(_value_of_bins, of, _equal_width if uniform else partial(_equal_mass, bins)),
        cells=("bin",),
        ordered=not uniform,
        gradient=no_slopes,
        smooth=False,
        expression=of.expression and partial(_expression, of, asked, sums),
        **chosen,
    )


def _of_classes(
    name: str,
    of: OfBins,
    asked: Asked,
    inputs: Mapping[str, Input | Source],
    **options: Any,
) -> Metric:
    assert isinstance(asked.prob, Mapping)
    size = len(asked.prob)
    scores = {f"s{k}": score(column) for k, column in enumerate(asked.prob.values())}
    return Metric(
        f"classwise_{name}",
        {**inputs, **scores, "y": member(asked.target, asked.prob)},
        partial(rows_of_classes, size),
        partial(_of_each_class, of, asked.bins, asked.strategy, size),
        cells=tuple(scores),
        ordered=True,
        gradient=no_slopes,
        smooth=False,
        expression=of.expression and partial(_expression_of_classes, of, asked, size),
        **options,
    )


def ece(
    target: Source,
    prob: Source | Mapping[Any, Source],
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
    multi_class: MultiClass = "classwise",
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
        The probability of the positive class, a numeric column in [0, 1]; or of several classes, a
        mapping from each class to the column with its probability.
    bins
        The number of bins.
    strategy
        ``"uniform"``: bins of equal width, (lo, hi] with 0 in the first. ``"quantile"``: of equal
        weight in each slice; equal probabilities share a bin, by the rows strictly below them.
    positive
        The positive class of a single column; True or 1 by default.
    multi_class
        Of several classes: ``"classwise"``, the mean over classes of the error of each (Kull and
        others 2019); ``"confidence"``, that of the largest probability as the one that the class
        is right, also called top-label (Guo and others 2017); ties at the top are wrong.

    Returns
    -------
    Metric
        Called ``ece``, ``classwise_ece`` or ``confidence_ece``, between 0 and 1, lower is better.
        Biased upwards, and the more so the smaller the slice (perfect calibration gives about 0.12
        at 100 rows and 0.05 at 500): there is no interval, and :func:`ece_debiased` takes some of
        the bias off. Null for a slice without rows.

    Raises
    ------
    EvalError
        For an unknown option or when ``bins`` is not a positive integer; in a verb as
        :func:`brier` and :func:`brier_multiclass`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 0, 1, 0], "confidence": [0.9, 0.8, 0.8, 0.1]})
    >>> round(df.eval.summary(fe.ece("ok", "confidence", bins=5))["estimate"].item(), 4)
    0.2
    >>> df = pl.DataFrame({"gold": ["a", "b", "b"], "p_a": [0.9, 0.3, 0.3], "p_b": [0.1, 0.7, 0.7]})
    >>> several = fe.ece("gold", {"a": "p_a", "b": "p_b"}, multi_class="confidence")
    >>> round(df.eval.summary(several)["estimate"].item(), 4)
    0.2333
    """
    return of_bins("ece", ECE, Asked(target, prob, bins, strategy, positive, multi_class))


def mce(
    target: Source,
    prob: Source | Mapping[Any, Source],
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
    multi_class: MultiClass = "classwise",
) -> Metric:
    """Maximum calibration error: the largest gap of mean probability and share of positives.

    Parameters
    ----------
    target, prob, bins, strategy, positive, multi_class
        As for :func:`ece`, but ``"classwise"`` is the largest gap of any class.

    Returns
    -------
    Metric
        Called ``mce``, ``classwise_mce`` or ``confidence_mce``, between 0 and 1, lower is better;
        ruled by the smallest bin, with no interval. Null for a slice without rows.

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
    asked = Asked(target, prob, bins, strategy, positive, multi_class)
    return of_bins("mce", MCE, asked)


def ece_debiased(
    target: Source,
    prob: Source | Mapping[Any, Source],
    *,
    bins: int = 15,
    strategy: Strategy = "uniform",
    positive: Any = None,
    multi_class: MultiClass = "classwise",
) -> Metric:
    """Expected calibration error less its bias (Kumar, Liang and Ma 2019, for absolute gaps).

    The bias is what :func:`ece` would gain were the share of positives of each bin drawn again
    from a normal law around the one seen, with variance rate (1 - rate) / rows. Its expectation is
    that of a folded normal law, so that nothing is drawn.

    Parameters
    ----------
    target, prob, bins, strategy, positive, multi_class
        As for :func:`ece`.

    Returns
    -------
    Metric
        Called ``ece_debiased``, or like ``classwise_ece_debiased``, lower is better. Of the bias a
        third goes where the calibration is perfect, and the more the farther it is from that. Rows
        count as independent. It has no interval. Null for a slice without rows.

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
    asked = Asked(target, prob, bins, strategy, positive, multi_class)
    note = partial(remark, DEBIASED)
    return of_bins("ece_debiased", ECE_DEBIASED, asked, bounds=(None, None), note=note)
