"""Intervals for the estimates of one metric: which method, on which scale, with which note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import scipy

from frame_eval.errors import EvalError
from frame_eval.inference import bootstrap, proportion
from frame_eval.inference.bootstrap import Bootstrap
from frame_eval.inference.linear import Linear, group_codes
from frame_eval.inference.resample import DRAWS, Draws
from frame_eval.inference.urns import kinds_of, urn
from frame_eval.inference.variance import Variance, cr0, cr1, cr2
from frame_eval.metrics.core import Metric
from frame_eval.table import Floats

Texts: TypeAlias = npt.NDArray[np.object_]
Kind: TypeAlias = Literal[
    "auto",
    "wilson",
    "wald",
    "clopper-pearson",
    "jeffreys",
    "korn-graubard",
    "t",
    "cr0",
    "cr1",
    "cr2",
    "order",
]
Interval: TypeAlias = Kind | Bootstrap | None
INTERVALS = (*get_args(Kind), *bootstrap.KINDS, None)
SANDWICH = {"cr0": cr0, "cr1": cr1, "cr2": cr2, "t": cr2}
FEW_FAILURES = 5


@dataclass(frozen=True)
class Intervals:
    """Standard errors, limits, method and note by group."""

    std_error: Floats
    low: Floats
    high: Floats
    method: Texts
    note: Texts


def shown(value: float, digits: int) -> str:
    """A number for a method's name; one last bit more or less never changes its text."""
    return f"{round(float(value), 9):.{digits}g}"


def choose(metric: Metric, interval: Interval) -> str | None:
    """The method for a metric: what ``"auto"`` means, and a clear no to what can not be."""
    name = metric.name
    if interval is None:
        return None
    if interval == "auto":
        if metric.proportion is not None:
            return "wilson"
        if metric.quantile is not None:
            return "order"
        return "cr2" if metric.smooth else None
    if interval in proportion.INTERVALS and metric.proportion is None:
        raise EvalError(
            f"interval={interval!r} is for proportions, and {name!r} is none; use 'auto' or 'cr2'"
        )
    if interval == "order" and metric.quantile is None:
        raise EvalError(f"interval='order' is for quantiles, and {name!r} is none")
    if interval in SANDWICH and not metric.smooth:
        raise EvalError(f"interval={interval!r} is not valid for {name!r}; use 'auto'")
    if interval in bootstrap.KINDS:
        bootstrap.check_bootstrap(metric, interval)
    return interval


def intervals(
    metric: Metric,
    found: Linear,
    interval: Interval,
    level: float,
    clustered: bool,
    draws: Draws = DRAWS,
) -> Intervals:
    """The interval of every group; ``draws`` are those of the bootstrap, if it is asked for."""
    method = choose(metric, interval)
    groups = len(found.estimate)
    if method is None:
        empty = np.full(groups, np.nan)
        return Intervals(empty, empty, empty, _texts(groups, ""), _texts(groups, ""))
    clustered = clustered and bool((found.clusters < found.n).any())
    if method in bootstrap.KINDS:
        return _bootstrapped(metric, found, method, level, draws)
    if method == "t" and clustered:
        raise EvalError("interval='t' takes rows as independent; with clusters use 'cr2' or 'cr1'")
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = SANDWICH.get(method, cr2)(found)
        grouped = clustered & (found.clusters < found.n)
        if method in proportion.INTERVALS:
            made = _proportion(metric, found, method, level, variance, grouped)
        elif method == "order":
            made = _order(metric, found, level, variance)
        else:
            made = _linearised(metric, found, method, level, variance, grouped)
    return made if found.strata is None else _of_strata(made, variance)


def _of_strata(made: Intervals, variance: Variance) -> Intervals:
    """Named as what they are, and null where a stratum has one unit."""
    lone = ~np.isfinite(variance.value)
    said = "a stratum with one unit: no error can be estimated"
    names = [text and f"stratified, {text}" for text in made.method]
    return Intervals(
        np.where(lone, np.nan, made.std_error),
        np.where(lone, np.nan, made.low),
        np.where(lone, np.nan, made.high),
        np.where(lone, "", np.array(names, object)),
        np.where(lone, said, made.note),
    )


def _bootstrapped(
    metric: Metric, found: Linear, method: str, level: float, draws: Draws
) -> Intervals:
    table, groups = found.table, len(found.estimate)
    group = group_codes(table, found.systems)
    kinds = kinds_of(metric, table, found.totals, group, table.unit, table.strata)
    low, high, error = (np.full(groups, np.nan) for _ in range(3))
    texts, notes = _texts(groups, ""), _texts(groups, "")
    for i in np.flatnonzero(np.isfinite(found.estimate)):
        drawn = urn(kinds, [int(i)], merged=False)
        limits = bootstrap.bootstrapped(drawn, np.ones(1), method, level, draws)
        error[i], notes[i] = limits.std_error, limits.note
        low[i], high[i] = np.clip([limits.low, limits.high], *metric.bounds)
        grouped = found.clusters[i] < found.n[i]
        texts[i] = bootstrap.named(method, draws, grouped=bool(grouped))
    return Intervals(error, low, high, texts, notes)


def _texts(groups: int, text: str) -> Texts:
    return np.full(groups, text, dtype=object)


def _proportion(
    metric: Metric,
    found: Linear,
    method: str,
    level: float,
    variance: Variance,
    grouped: npt.NDArray[np.bool_],
) -> Intervals:
    p, n, clusters = found.share, found.n, found.clusters
    weighted = found.weighted or found.strata is not None
    plain = np.sqrt(p * (1 - p) / n)
    adjusted = (grouped | weighted) & (n > 0)
    effective, star = proportion.effective_size(
        p, n, variance.value, variance.df, level, clusters, variance.effect
    )
    effective = np.where(adjusted, effective, n)
    size = np.where(adjusted, star, n)
    low, high = proportion.INTERVALS[method](p, size, level)
    error = np.where(adjusted & np.isfinite(p), np.sqrt(variance.value), plain)
    one = adjusted & (clusters < 2)
    low, high, error = (np.where(one, np.nan, value) for value in (low, high, error))
    proportion_map: Any = metric.proportion
    if proportion_map.map is not None and proportion_map.slope is not None:
        error = error * proportion_map.slope(p)
        low, high = proportion_map.map(low), proportion_map.map(high)
    extreme = adjusted & ~one & ((p == 0) | (p == 1))
    texts = _texts(len(p), "")
    notes = _texts(len(p), "")
    for i in np.flatnonzero(np.isfinite(p)):
        texts[i] = method
        kind = "cluster CR2" if grouped[i] else "CR2"
        if extreme[i]:
            texts[i] = f"{method}, {kind} (n_eff={shown(size[i], 4)})"
            notes[i] = "all alike: the data can not show how clusters correlate"
        elif adjusted[i]:
            texts[i] = (
                f"{method}, {kind} (n_eff={shown(effective[i], 4)}, df={shown(variance.df[i], 3)})"
            )
        if one[i]:
            texts[i], notes[i] = "", "one cluster: no error can be estimated"
        elif effective[i] * min(p[i], 1 - p[i]) < FEW_FAILURES and not extreme[i]:
            notes[i] = "few effective failures"
    return Intervals(error, low, high, texts, notes)


def _linearised(
    metric: Metric,
    found: Linear,
    method: str,
    level: float,
    variance: Variance,
    grouped: npt.NDArray[np.bool_],
) -> Intervals:
    estimate = found.estimate
    error = np.sqrt(variance.value)
    flat = ~(error > 1e-12 * _size(metric.bounds, estimate))
    quantile = scipy.special.stdtrit(variance.df, 0.5 + level / 2)
    low, high, scale = _on_scale(metric.bounds, estimate, error, np.asarray(quantile, float))
    usable = np.isfinite(low) & np.isfinite(high) & ~flat
    low, high = np.where(usable, low, np.nan), np.where(usable, high, np.nan)
    texts, notes = _texts(len(estimate), ""), _texts(len(estimate), "")
    for i in np.flatnonzero(np.isfinite(estimate)):
        if usable[i]:
            texts[i] = _name(method, variance.df[i], bool(grouped[i])) + scale
            continue
        unit = "cluster" if found.clusters[i] < found.n[i] else "row"
        if found.clusters[i] < 2:
            notes[i] = f"one {unit}: no error can be estimated"
        elif not np.isfinite(error[i]):
            notes[i] = f"one {unit} holds a whole sample: no error can be estimated"
        else:
            notes[i] = "all alike: a linearised error would be zero"
    return Intervals(np.where(flat, np.nan, error), low, high, texts, notes)


def _size(bounds: Any, estimate: Floats) -> Floats:
    """What an error has to be compared with, to tell it from rounding."""
    low, high = bounds
    wide = 0.0 if low is None or high is None else float(high - low)
    return np.maximum(np.abs(estimate), wide)


def _name(method: str, df: float, grouped: bool) -> str:
    if method in ("cr0", "cr1") or grouped:
        return f"cluster {method.upper()} t(df={shown(df, 3)})"
    return f"t(df={shown(df, 4)})"


def _on_scale(bounds: Any, estimate: Floats, error: Floats, quantile: Floats) -> Any:
    """Limits that are symmetric on the scale that the bounds of the metric ask for."""
    low, high = bounds
    if low is not None and high is not None:
        width = high - low
        share = (estimate - low) / width
        centre = np.log(share) - np.log1p(-share)
        half = quantile * error / width / (share * (1 - share))
        limits = (low + width * scipy.special.expit(centre + sign * half) for sign in (-1, 1))
        return *limits, ", logit"
    if low == 0:
        half = quantile * error / estimate
        most = np.finfo(float).max
        with np.errstate(over="ignore"):
            limits = (np.clip(estimate * np.exp(sign * half), -most, most) for sign in (-1, 1))
            return *limits, ", log"
    return estimate - quantile * error, estimate + quantile * error, ""


def _order(metric: Metric, found: Linear, level: float, variance: Variance) -> Intervals:
    """Order statistics at the binomial limits of the level of the quantile.

    The ranks are those of the exact binomial interval on the effective number of rows (Woodruff
    1952 for clusters): that of the share of rows at or below the quantile, with its CR2 variance.
    """
    q = float(metric.quantile or 0.0)
    groups = len(found.estimate)
    low, high = np.full(groups, np.nan), np.full(groups, np.nan)
    texts, notes = _texts(groups, ""), _texts(groups, "")
    share = np.full(groups, q)
    for index, sums in found.totals.blocks:
        share[index] = np.sum(sums.n * (sums.classes[0] <= found.estimate[index])) / np.sum(sums.n)
    _, star = proportion.effective_size(
        share, found.n, variance.value, variance.df, level, found.clusters, variance.effect
    )
    for index, sums in found.totals.blocks:
        i = int(index[0])
        if not np.isfinite(found.estimate[i]):
            continue
        size = star[i] if found.weighted or found.clusters[i] < found.n[i] else found.n[i]
        size = np.floor(size + 1e-6) if np.isfinite(size) else 0.0
        lower, upper = _ranks(q, size, level)
        if lower >= 1:
            low[i] = _order_statistic(sums, lower / size)
        if upper <= size:
            high[i] = _order_statistic(sums, upper / size)
        texts[i] = (
            "order statistics"
            if size == found.n[i]
            else f"order statistics (n_eff={shown(size, 6)})"
        )
        if np.isnan(low[i]) or np.isnan(high[i]):
            notes[i] = "too few rows for both limits"
    # The spread that a symmetric interval of this width would have (Francisco and Fuller 1991).
    df = np.where(np.isfinite(variance.df), variance.df, np.inf)
    with np.errstate(invalid="ignore"):
        error = (high - low) / (2 * scipy.special.stdtrit(df, 0.5 + level / 2))
    return Intervals(np.where(np.isfinite(error), error, np.nan), low, high, texts, notes)


def _ranks(q: float, size: float, level: float) -> tuple[float, float]:
    """The order statistics whose interval covers the quantile with at least ``level``."""
    if size < 1 or q in (0.0, 1.0):
        return 0.0, np.inf
    tail = (1 - level) / 2
    ranks = np.arange(int(size) + 1)
    below = scipy.special.bdtr(ranks, int(size), q)
    lower = float(np.searchsorted(below, tail, side="right"))
    upper = float(np.searchsorted(below, 1 - tail)) + 1
    return lower, upper


def _order_statistic(sums: Any, share: float) -> float:
    """The smallest value with at least ``share`` of the (weighted) rows at or below it."""
    below = np.cumsum(sums.n) / np.sum(sums.n)
    at = int(np.searchsorted(below, share * (1 - 1e-12)))
    return float(sums.classes[0][min(at, len(below) - 1)])
