"""Differences of two systems by drawing, exchanging, signing or ranking their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference import bootstrap
from frame_eval.inference.bootstrap import bootstrapped
from frame_eval.inference.difference import (
    Difference,
    Pairs,
    Sides,
    example_values,
    has_values,
)
from frame_eval.inference.linear import Linear
from frame_eval.inference.permutation import paired_permutation, unpaired_permutation
from frame_eval.inference.resample import Draws
from frame_eval.inference.urns import Kinds, by_unit, interleaved, kinds_of, urn
from frame_eval.inference.wilcoxon import signed_rank
from frame_eval.inference.wild import wild
from frame_eval.metrics.core import Metric
from frame_eval.table import Ints
from frame_eval.threads import concurrently


@dataclass(frozen=True)
class Resampling:
    """What is drawn for a difference: the unit of every row of both tables, the strata of units.

    ``grouped`` says in which slices units are clusters.
    """

    units: Sequence[Ints]
    strata: Ints | None
    grouped: Any
    level: float
    draws: Draws
    scale: float
    paired: bool = True

    def kinds(self, metric: Metric, sides: Sides) -> Kinds:
        """The units of both systems, as what can be drawn; a slice has groups 2 i and 2 i + 1."""

        def kinds(side: Linear, unit: Ints) -> Kinds:
            table = side.table
            found = kinds_of(metric, table, side.totals, table.slice, unit, self.strata)
            return found if metric.ordered else by_unit(found)

        tasks = [partial(kinds, *of) for of in zip(sides, self.units, strict=True)]
        return interleaved(*concurrently(tasks, len(self.units[0])))


def by_draws(
    result: Difference, metric: Metric, sides: Sides, method: Any, resampling: Resampling
) -> Difference:
    """The difference by the method that draws: a permutation test, or a kind of bootstrap."""
    if method == "permutation":
        return _by_permutation(result, metric, sides, resampling)
    return _by_bootstrap(result, metric, sides, method, resampling)


def _by_bootstrap(
    result: Difference, metric: Metric, sides: Sides, kind: Any, resampling: Resampling
) -> Difference:
    """The difference by resampling the units of both systems: the same ones if they are paired."""
    kinds = resampling.kinds(metric, sides)
    low, high, error, p = (np.full(len(result.value), np.nan) for _ in range(4))
    texts, notes = (np.full(len(result.value), "", object) for _ in range(2))
    coefficients = np.array([1.0, -resampling.scale])
    for i in np.flatnonzero(np.isfinite(result.value)):
        drawn = urn(kinds, [2 * int(i), 2 * int(i) + 1], merged=False)
        limits = bootstrapped(drawn, coefficients, kind, resampling.level, resampling.draws)
        low[i], high[i], p[i] = limits.low, limits.high, limits.p_value
        error[i], notes[i] = limits.std_error, limits.note
        texts[i] = bootstrap.named(kind, resampling.draws, grouped=bool(resampling.grouped[i]))
    return replace(
        result,
        low=low,
        high=high,
        std_error=error,
        p_value=p,
        method=texts,
        note=notes,
        limits=None,
    )


def _by_permutation(
    result: Difference, metric: Metric, sides: Sides, resampling: Resampling
) -> Difference:
    """The p-value by exchanging systems within units; or, unpaired, units between systems."""
    kinds = resampling.kinds(metric, sides)
    if not resampling.paired:
        if sides[0].strata is not None:
            raise EvalError("method='permutation' deals units to systems, not within strata")
        if resampling.grouped.any():
            _check_nested(sides)
    p = np.full(len(result.value), np.nan)
    texts = np.full(len(result.value), "", object)
    for i in np.flatnonzero(np.isfinite(result.value)):
        groups = [2 * int(i), 2 * int(i) + 1]
        if resampling.paired:
            p[i], exact = paired_permutation(urn(kinds, groups), resampling.draws)
        else:
            drawn = urn(kinds, groups, together=True)
            first = np.where(drawn.strata == 0, drawn.counts, 0)
            p[i], exact = unpaired_permutation(drawn, first, resampling.draws)
        kind = "cluster permutation" if resampling.grouped[i] else "permutation"
        texts[i] = f"{kind}, {'exact' if exact else f'B={resampling.draws.resamples}'}"
    none = np.full(len(p), np.nan)
    blank = np.full(len(p), "", object)
    return replace(result, low=none, high=none, p_value=p, method=texts, note=blank, limits=None)


def by_wild(result: Difference, joint: Linear, grouped: Any, draws: Draws) -> Difference:
    """The p-value of the null-imposed wild cluster bootstrap."""
    influence = np.sum([sample.influence for sample in joint.samples], axis=0)
    share = np.mean([sample.share for sample in joint.samples], axis=0)
    p = wild(influence, share, joint.group, joint.estimate, draws.resamples, draws.seed)
    clusters = np.bincount(joint.group, (share != 0) | (influence != 0), len(p))
    texts = np.full(len(p), "", object)
    for i in np.flatnonzero(np.isfinite(p)):
        how = "exact" if 2 ** clusters[i] <= draws.resamples else f"B={draws.resamples}"
        texts[i] = f"wild {'cluster ' if grouped[i] else ''}bootstrap, {how}"
    none = np.full(len(p), np.nan)
    return replace(result, low=none, high=none, p_value=p, method=texts, limits=None)


def by_wilcoxon(
    result: Difference, metric: Metric, both: Pairs, grouped: Any, level: float
) -> Difference:
    """Wilcoxon's signed ranks of the differences of examples, with an estimate of its own."""
    if grouped.any() or both.a.weighted:
        raise EvalError("method='wilcoxon' takes examples as independent and alike; use 'auto'")
    if not has_values(metric):
        raise EvalError(f"method='wilcoxon' needs a value per example, which {metric.name!r} lacks")
    values = example_values(metric, both.a) - example_values(metric, both.b)
    there = np.isfinite(values)
    # Averages of trials come with rounding, which must not break ties; single values without.
    averaged = float(max(both.a.samples[0].size.max(initial=0), both.b.samples[0].size.max()) > 1)
    rounding = averaged * 1e-12 * (np.abs(both.a.estimate) + np.abs(both.b.estimate))
    found = signed_rank(
        values[there], both.slice[there], len(result.value), level, np.nan_to_num(rounding)
    )
    texts = np.where(np.isfinite(found.p_value), "Wilcoxon signed rank, Hodges-Lehmann", "")
    notes = np.full(len(result.value), "no example differs", object)
    notes[found.n > 0] = "difference is the Hodges-Lehmann estimate"
    notes[(found.n > 0) & np.isnan(found.low)] += "; too few examples for its limits"
    notes[np.isnan(found.p_value)] = ""
    return replace(
        result,
        value=found.estimate,
        std_error=np.full(len(result.value), np.nan),
        low=found.low,
        high=found.high,
        p_value=found.p_value,
        method=texts.astype(object),
        note=notes,
        limits=None,
    )


def _check_nested(sides: Sides) -> None:
    both = np.intersect1d(sides[0].table.unit, sides[1].table.unit)
    if len(both):
        raise EvalError(
            f"{len(both)} clusters have rows of both systems, so that they can not be dealt to one "
            "of them; pair by example=, or use method='auto'"
        )
