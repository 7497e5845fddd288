"""Intervals and p-values from the replicates of a bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy

from frame_eval.errors import EvalError
from frame_eval.inference.resample import Draws
from frame_eval.inference.urns import Additive, Kinds, Urn, urn
from frame_eval.metrics.core import Array, Metric
from frame_eval.table import Floats, Ints

Bootstrap: TypeAlias = Literal["bootstrap", "percentile", "basic", "bca", "studentized"]
KINDS = get_args(Bootstrap)

UNDEFINED = 0.01  # share of undefined resamples above which there is no interval
FEW = 50  # units under which percentile intervals are too short
_WIDEST = 32  # sums per unit for which studentising is worth its squares
_ROUNDING = 1e-13  # of a squared value: variances of units under it are rounding
_FLAT = "units are alike, or differ too little beside their size for t-statistics; try 'bca'"


@dataclass(frozen=True)
class Limits:
    """An interval, its p-value against 0 and a remark."""

    std_error: float
    low: float
    high: float
    p_value: float
    note: str


NOTHING = Limits(np.nan, np.nan, np.nan, np.nan, "")


def check_bootstrap(metric: Metric, kind: str) -> None:
    """Raise where a kind of bootstrap is not valid for a metric."""
    if kind == "studentized" and metric.ordered:
        raise EvalError(f"interval='studentized' is not for {metric.name!r}; use 'bca'")
    if kind in ("bca", "studentized") and not metric.smooth:
        raise EvalError(
            f"interval={kind!r} takes smooth metrics, which {metric.name!r} is not; "
            "use 'percentile'"
        )


def named(kind: str, draws: Draws, *, grouped: bool) -> str:
    """How results call a kind of bootstrap."""
    kind = "percentile" if kind == "bootstrap" else kind
    return f"{'cluster ' if grouped else ''}bootstrap {kind}, B={draws.resamples}"


def bootstrapped(drawn: Urn, coefficients: Floats, kind: str, level: float, draws: Draws) -> Limits:
    """The interval of a linear combination of the values of an urn's groups.

    ``coefficients`` is (1,) for one group and (1, -1) for a difference of two.
    """
    own = drawn.value(drawn.counts[None].astype(float))[0]
    # What rounding is measured by: the difference of two large values may be 0.
    size = float(np.abs(own) @ np.abs(coefficients))
    drawn, coefficients = drawn.combined(coefficients)
    estimate = float((drawn.value(drawn.counts[None].astype(float)) @ coefficients)[0])
    units = int(drawn.counts.sum())
    if not np.isfinite(estimate):
        return NOTHING
    if units < 2:
        return replace(NOTHING, note="one unit: no error can be estimated")
    if kind == "studentized":
        values, error = _studentized(drawn, coefficients, estimate, draws)
        if not error:
            return replace(NOTHING, note=_FLAT)
        found = _limits(values, size, level, draws, _Pivot(estimate, error))
        return replace(found, std_error=error)
    values = drawn.replicates(draws) @ coefficients
    scale = _Plain()
    if kind == "basic":
        scale = _Pivot(estimate, None)
    elif kind == "bca":
        scale = _accelerated(drawn, coefficients, estimate, size, values)
    found = _limits(values, size, level, draws, scale)
    if kind in ("bootstrap", "percentile") and units < FEW and not found.note:
        return replace(found, note=f"percentile intervals are too short with {units} units")
    return found


def joint_replicates(kinds: Sequence[Kinds], groups: Sequence[Ints], draws: Draws) -> list[Floats]:
    """Replicates (resamples x groups) of several metrics from one set of drawn units.

    Units are single rows where they have no names; every group then has draws of its own.
    """
    if kinds[0].unit is None:
        alone = [
            [urn(one, [int(g)]) for g in wanted] for one, wanted in zip(kinds, groups, strict=True)
        ]
        return [np.hstack([drawn.replicates(draws) for drawn in urns]) for urns in alone]
    units = 1 + max(int(one.unit.max(initial=0)) for one in kinds if one.unit is not None)
    strata = None if kinds[0].stratum is None else np.zeros(units, np.int64)
    urns, members = [], []
    for one, wanted in zip(kinds, groups, strict=True):
        assert one.unit is not None
        if strata is not None and one.stratum is not None:
            strata[one.unit] = one.stratum
        urns.append([urn(one, [int(g)], merged=False) for g in wanted])
        members.append([np.unique(one.unit[one.group == g]) for g in wanted])

    def values(weights: Array) -> list[Floats]:
        return [
            np.hstack([drawn.value(weights[:, m]) for drawn, m in zip(ours, chosen, strict=True)])
            for ours, chosen in zip(urns, members, strict=True)
        ]

    blocks = draws.each(values, np.ones(units, np.int64), strata)
    return [np.concatenate(block) for block in zip(*blocks, strict=True)]


class _Plain:
    """Percentiles of the replicates as they are."""

    def tails(self, tail: float) -> tuple[float, float]:
        """The shares of replicates below the lower and above the upper limit."""
        return tail, tail

    def inverse(self, below: float, above: float) -> tuple[float, float]:
        """The tails at which the limits would be where these shares of replicates lie."""
        return below, above

    def back(self, values: Floats) -> Floats:
        """The replicates on the scale of the limits."""
        return values


@dataclass(frozen=True)
class _Pivot(_Plain):
    """Replicates reflected at the estimate; or t-statistics, for an error that is not None."""

    estimate: float
    error: float | None

    def back(self, values: Floats) -> Floats:
        if self.error is None:
            return 2 * self.estimate - values
        return self.estimate - values * self.error


@dataclass(frozen=True)
class _Accelerated(_Plain):
    """BCa (Efron 1987): tails moved by the bias z0 and the acceleration a."""

    bias: float
    acceleration: float

    def _moved(self, tail: float) -> float:
        z = self.bias + float(scipy.special.ndtri(tail))
        stretch = 1 - self.acceleration * z
        if stretch <= 0:
            return float(z > 0)
        return float(scipy.special.ndtr(self.bias + z / stretch))

    def _unmoved(self, tail: float) -> float:
        if tail in (0.0, 1.0):
            return tail
        w = float(scipy.special.ndtri(tail)) - self.bias
        stretch = 1 + self.acceleration * w
        if stretch <= 0:
            return float(w > 0)
        return float(scipy.special.ndtr(w / stretch - self.bias))

    def tails(self, tail: float) -> tuple[float, float]:
        return self._moved(tail), 1 - self._moved(1 - tail)

    def inverse(self, below: float, above: float) -> tuple[float, float]:
        return self._unmoved(below), 1 - self._unmoved(1 - above)


def _accelerated(
    drawn: Urn, coefficients: Floats, estimate: float, size: float, values: Floats
) -> _Accelerated:
    there = values[np.isfinite(values)]
    width = float(np.ptp(there)) if len(there) else 0.0
    same = 1e-12 * max(size, width)
    below = (there < estimate - same).mean() + (np.abs(there - estimate) <= same).mean() / 2
    left_out = drawn.jackknife() @ coefficients
    usable = np.isfinite(left_out)
    counts = drawn.counts[usable]
    step = (
        np.average(left_out[usable], weights=counts) - left_out[usable]
        if usable.any()
        else np.zeros(0)
    )
    spread = float(counts @ step**2)
    skew = float(counts @ step**3) / (6 * spread**1.5) if spread > 0 and width > same else 0.0
    return _Accelerated(float(scipy.special.ndtri(below)), skew)


def _studentized(
    drawn: Urn, coefficients: Floats, estimate: float, draws: Draws
) -> tuple[Floats, float]:
    """The t-statistics of the replicates, and the error of the estimate."""
    assert isinstance(drawn, Additive)
    matrix = drawn.matrix
    if matrix.shape[1] > _WIDEST:
        raise EvalError(
            f"the metric has {matrix.shape[1]} sums, too many to studentize (at most {_WIDEST}); "
            "use 'bca'"
        )
    squares = (matrix[:, :, None] * matrix[:, None, :]).reshape(len(matrix), -1)

    def value_and_error(weights: Array, totals: Floats) -> tuple[Floats, Floats]:
        groups = drawn.of_totals(totals)
        slope = _gradient(lambda t: drawn.of_totals(t) @ coefficients, totals)
        moments = (weights @ squares).reshape(len(weights), *slope.shape[1:], -1)
        variance = np.einsum("rd,rde,re->r", slope, moments, slope)
        lost = variance * units <= _ROUNDING * (np.abs(groups) @ np.abs(coefficients)) ** 2
        return groups @ coefficients, np.sqrt(np.where(lost, 0.0, variance))

    units = drawn.counts.sum()
    every = drawn.counts[None].astype(float)
    own = float(value_and_error(every, every @ matrix)[1][0])

    def statistics(weights: Array) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            values, error = value_and_error(weights, weights @ matrix)
            studentized: Floats = (values - estimate) / error
        return studentized

    return np.concatenate(draws.each(statistics, drawn.counts, drawn.strata)), own


def _gradient(function: Any, at: Floats) -> Floats:
    slopes = []
    for j in range(at.shape[1]):
        step = np.cbrt(np.finfo(float).eps) * np.maximum(np.abs(at[:, j]), 1.0)
        up, down = at.copy(), at.copy()
        up[:, j] += step
        down[:, j] -= step
        slopes.append((function(up) - function(down)) / (2 * step))
    gradient: Floats = np.nan_to_num(np.stack(slopes, -1))
    return gradient


def _limits(values: Floats, size: float, level: float, draws: Draws, scale: _Plain) -> Limits:
    """Order statistics of the replicates, and the p-value that belongs to them.

    A limit is the order statistic whose rank is just under tail x (B + 1): the interval then
    excludes 0 exactly when the p-value, counted as (1 + count) / (B + 1), is under 1 - level.
    ``size`` is that of the values that rounding comes from.
    """
    undefined = np.isnan(values)
    lost = np.count_nonzero(undefined)
    there = values[~undefined] if lost else values
    note = f"{lost} of {len(values)} resamples undefined" if lost else ""
    if lost > UNDEFINED * len(values):
        return replace(NOTHING, note=note)
    limits = scale.back(there)
    spread = float(np.std(limits, ddof=1)) if np.isfinite(limits).all() else np.nan
    limits = np.where(np.abs(limits) <= 1e-12 * size, 0.0, limits)
    total = len(limits) + 1
    tail = round(1 - level, 12) / 2
    if not np.isfinite(scale.tails(tail)).all():
        return replace(NOTHING, note="all resamples are on one side of the estimate")
    lower, upper = (int(np.ceil(share * total - 1e-9)) - 1 for share in scale.tails(tail))
    # Their ranks and the ends are all that is needed in order.
    ranks = [rank for rank in {0, lower - 1, total - 1 - upper, total - 2} if 0 <= rank < total - 1]
    limits = np.partition(limits, sorted(ranks))
    low = float(limits[lower - 1]) if 0 < lower < total else np.nan
    high = float(limits[-upper]) if 0 < upper < total else np.nan
    if not note and np.isinf([low, high]).any():
        note = "too many resamples are without spread, and so without a t-statistic"
    elif not note and np.isnan([low, high]).any():
        note = f"{draws.resamples} resamples are too few for these limits"
    low, high = (limit if np.isfinite(limit) else np.nan for limit in (low, high))
    below, above = np.count_nonzero(limits <= 0), np.count_nonzero(limits >= 0)
    p = min(1.0, 2 * min(scale.inverse((1 + below) / total, (1 + above) / total)))
    if limits[0] == limits[-1]:
        note = "; ".join(filter(None, [note, "all resamples are alike"]))
    return Limits(spread, low, high, p, note)
