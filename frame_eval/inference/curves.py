"""Curves over thresholds: what each flags, thinned where rows are many, with pointwise bands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference.proportion import wilson
from frame_eval.metrics.core import Sums
from frame_eval.table import Floats


@dataclass(frozen=True)
class Flagged:
    """What thresholds flag, from an infinite one that flags nothing to the lowest score.

    ``tp`` and ``fp`` are the positives and negatives at or above each threshold, ``n`` the rows.
    With ``counted`` they are counts, which have bands.
    """

    threshold: Floats
    tp: Floats
    fp: Floats
    n: Floats
    counted: bool

    @classmethod
    def of(cls, sums: Sums, *, counted: bool) -> Flagged:
        """From the positives, negatives and rows of each distinct score, in ascending order."""

        def flagged(values: Floats) -> Floats:
            return np.concatenate([[0.0], np.cumsum(values[::-1])])

        threshold = np.concatenate([[np.inf], sums.classes[0][::-1]])
        return cls(threshold, flagged(sums.pos), flagged(sums.neg), flagged(sums.rows), counted)

    def at_prevalence(self, prevalence: float) -> Flagged:
        """As if positives were that share of the rows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return replace(
                self,
                tp=self.tp / self.tp[-1] * prevalence,
                fp=self.fp / self.fp[-1] * (1 - prevalence),
                counted=False,
            )

    def take(self, index: Any) -> Flagged:
        """The chosen thresholds."""
        return replace(
            self,
            threshold=self.threshold[index],
            tp=self.tp[index],
            fp=self.fp[index],
            n=self.n[index],
        )

    def thinned(self, points: int | None) -> Flagged:
        """At most so many thresholds, among them the first and the last.

        Of those that are left out, the rate of true positives, that of false positives and the
        logarithm of the flagged rows are all within a sixth of ``points``-th of the whole range of
        the ones beside them that are kept. Steps of tied scores stay as they are.
        """
        if points is None or len(self.n) <= points:
            return self
        parts = (points - 2) // 6
        changed = np.zeros(len(self.n), bool)
        for values in (self.tp, self.fp, np.log1p(self.n)):
            part = np.floor(values * (parts / max(values[-1], np.finfo(float).tiny)))
            changed[1:] |= part[1:] != part[:-1]
        keep = changed.copy()
        keep[:-1] |= changed[1:]
        keep[[0, -1]] = True
        return self.take(keep)

    def rate(self, name: str, part: Floats, whole: Any, level: float) -> dict[str, Floats]:
        """A share of a count, and Wilson's interval for it; NaN without a count."""
        whole = np.broadcast_to(np.asarray(whole, float), part.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(whole > 0, np.minimum(part / whole, 1.0), np.nan)
            low, high = np.full((2, len(share)), np.nan)
            there = (whole > 0) & self.counted
            low[there], high[there] = wilson(share[there], whole[there], level)
        return {name: share, f"{name}_low": low, f"{name}_high": high}


def _roc(f: Flagged, level: float) -> dict[str, Floats]:
    return {**f.rate("fpr", f.fp, f.fp[-1], level), **f.rate("tpr", f.tp, f.tp[-1], level)}


def _det(f: Flagged, level: float) -> dict[str, Floats]:
    missed = f.tp[-1] - f.tp
    return {**f.rate("fpr", f.fp, f.fp[-1], level), **f.rate("fnr", missed, f.tp[-1], level)}


def _pr(f: Flagged, level: float) -> dict[str, Floats]:
    return {
        **f.rate("recall", f.tp, f.tp[-1], level),
        **f.rate("precision", f.tp, f.tp + f.fp, level),
    }


def _threshold(f: Flagged, level: float) -> dict[str, Floats]:
    fn, tn = f.tp[-1] - f.tp, f.fp[-1] - f.fp
    with np.errstate(divide="ignore", invalid="ignore"):
        f1 = 2 * f.tp / (2 * f.tp + f.fp + fn)
    return {
        "tp": f.tp,
        "fp": f.fp,
        "fn": fn,
        "tn": tn,
        **_pr(f, level),
        **f.rate("fpr", f.fp, f.fp[-1], level),
        **f.rate("accuracy", f.tp + tn, f.tp[-1] + f.fp[-1], level),
        "f1": f1,
    }


def _gain(f: Flagged, level: float) -> dict[str, Floats]:
    flagged = f.tp + f.fp
    gain = f.rate("gain", f.tp, f.tp[-1], level)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = flagged / flagged[-1]
        lift = gain["gain"] / share
    return {"share": share, **gain, "lift": lift}


def _risk_coverage(f: Flagged, level: float) -> dict[str, Floats]:
    kept = f.tp + f.fp
    with np.errstate(divide="ignore", invalid="ignore"):
        coverage = kept / kept[-1]
    return {"coverage": coverage, **f.rate("risk", f.fp, kept, level)}


CURVES: dict[str, Callable[[Flagged, float], dict[str, Floats]]] = {
    "roc": _roc,
    "pr": _pr,
    "det": _det,
    "threshold": _threshold,
    "gain": _gain,
    "risk_coverage": _risk_coverage,
}
# Where flagging nothing is no point of the curve: a precision or risk of no rows.
WITHOUT_NOTHING = ("pr", "risk_coverage")


def points_of(kind: str, flagged: Flagged, points: int | None, level: float) -> dict[str, Floats]:
    """The columns of a curve."""
    thinned = flagged.thinned(points)
    if kind in WITHOUT_NOTHING:
        thinned = thinned.take(slice(1, None))
    return {"threshold": thinned.threshold, **CURVES[kind](thinned, level), "n": thinned.n}


def reliability(
    sums: Sums, bins: int, strategy: str, level: float, *, counted: bool
) -> dict[str, Floats]:
    """Mean probability and share of positives by bin, of the bins that have rows.

    Bins are those of the expected calibration error: of equal width, (lo, hi] with 0 in the first,
    or of equal weight.
    """
    p, n = sums.classes[0], sums.pos + sums.neg
    if p.min() < 0 or p.max() > 1:
        raise EvalError(
            f"reliability needs probabilities, but the scores are {p.min():g} to {p.max():g}; "
            "calibrate them first, or divide percentages by 100"
        )
    if strategy == "uniform":
        code = np.clip(np.ceil(p * bins - 1e-9), 1, bins).astype(int) - 1
    else:
        below = (np.cumsum(n) - n) / n.sum()
        code = np.minimum((bins * below + 1e-9).astype(int), bins - 1)
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    pos, neg, mass, rows = (
        np.add.reduceat(values, starts) for values in (sums.pos, sums.neg, n * p, sums.rows)
    )
    if strategy == "uniform":
        low, high = code[starts] / bins, (code[starts] + 1) / bins
    else:
        low, high = p[starts], p[np.append(starts[1:], len(p)) - 1]
    flagged = Flagged(high, pos, neg, rows, counted)
    with np.errstate(divide="ignore", invalid="ignore"):
        predicted = mass / (pos + neg)
    observed = flagged.rate("observed", pos, pos + neg, level)
    return {"bin_low": low, "bin_high": high, "predicted": predicted, **observed, "n": rows}
