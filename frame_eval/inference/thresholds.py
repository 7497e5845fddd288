"""The best threshold of a score under a criterion, flagging nothing included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from frame_eval.inference.curves import Flagged
from frame_eval.metrics.core import Array
from frame_eval.table import Floats


@dataclass(frozen=True)
class Criterion:
    """What to make as large as possible, or as small; NaN where a threshold is not allowed.

    Of equally good thresholds the lowest is taken, or with ``highest`` the highest.
    """

    name: str
    value: Callable[[Flagged], Floats]
    unreachable: str
    smallest: bool = False
    highest: bool = False

    def best(self, flagged: Flagged) -> tuple[int | None, float]:
        """Where the best threshold is (None: there is none), and its value."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.value(flagged)
        if np.isnan(value).all():
            return None, np.nan
        best = float(np.nanmin(value) if self.smallest else np.nanmax(value))
        equal = np.flatnonzero(np.abs(value - best) <= 1e-12 * abs(best))
        return int(equal[0] if self.highest else equal[-1]), best


def by_cost(c_fp: float, c_fn: float) -> Criterion:
    """The least mean cost of a row."""
    return Criterion("cost", partial(_cost, c_fp, c_fn), "no rows", smallest=True)


def by_fbeta(beta: float) -> Criterion:
    """The largest F measure."""
    return Criterion(f"f{beta:g}", partial(_fbeta, beta), "no positives")


def by_recall(least: float) -> Criterion:
    """The largest precision of the thresholds that reach a recall."""
    name = f"recall >= {least:g}"
    return Criterion(name, partial(_precision_with_recall, least), "no positives")


def by_precision(least: float) -> Criterion:
    """The largest recall of the thresholds that reach a precision."""
    return Criterion(
        f"precision >= {least:g}",
        partial(_recall_with_precision, least),
        f"no threshold reaches precision {least:g}",
        highest=True,
    )


def _cost(c_fp: float, c_fn: float, f: Flagged) -> Floats:
    cost: Floats = (c_fp * f.fp + c_fn * (f.tp[-1] - f.tp)) / (f.tp[-1] + f.fp[-1])
    return cost


def _fbeta(beta: float, f: Flagged) -> Floats:
    value: Floats = (1 + beta**2) * f.tp / (f.tp + f.fp + beta**2 * f.tp[-1])
    return np.where(f.tp[-1] > 0, value, np.nan)


def _precision_with_recall(least: float, f: Flagged) -> Floats:
    return np.where(_reaches(f.tp / f.tp[-1], least), f.tp / (f.tp + f.fp), np.nan)


def _recall_with_precision(least: float, f: Flagged) -> Floats:
    reached = _reaches(f.tp / (f.tp + f.fp), least) & (f.tp > 0)
    return np.where(reached, f.tp / f.tp[-1], np.nan)


def _reaches(values: Floats, least: float) -> Array:
    # Sums of weights may miss a bound in their last digit.
    return values >= least - 1e-12
