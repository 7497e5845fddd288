"""Curves over thresholds: what each flags, thinned where rows are many, with pointwise bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference.intervals import intervals
from frame_eval.inference.linear import Linear, crossed, group_codes, linear
from frame_eval.inference.proportion import wilson
from frame_eval.metrics.core import Sums
from frame_eval.metrics.means import rate
from frame_eval.table import Floats, Ints, Table, bisected

_ENTRIES = 2_000_000  # units times thresholds that are worked on at once
_SHARE = rate("share")


class Counts(NamedTuple):
    """What thresholds flag: positives and negatives, and how many there are of both in all."""

    tp: Floats
    fp: Floats
    pos: Floats
    neg: Floats


Part: TypeAlias = "Callable[[Counts], Floats]"
# From the parts of some rows and of all: hits and trials, by point and unit.
Parts: TypeAlias = "Callable[[Floats, Floats], tuple[Floats, Floats]]"


@dataclass(frozen=True)
class Way:
    """The rows behind the cells of a curve by unit, for bands of dependent or weighted rows.

    ``parts`` has what is added up (positives, negatives) of every row of a table: first the weights
    of all, then their numbers, then the squares of the weights. ``single`` units are rows with the
    same weight; ``strata`` has the stratum of every unit.
    """

    cell: Ints
    unit: Ints
    parts: Floats
    single: bool
    weighted: bool
    strata: Ints | None = None

    @property
    def size(self) -> int:
        """The number of units."""
        return int(self.unit.max(initial=0)) + 1

    def added(self, place: Ints, points: int) -> Floats:
        """The parts by point of the curve (-1: at none) and unit."""
        there, size = place >= 0, points * self.size
        key = place[there] * self.size + self.unit[there]
        sums = [np.bincount(key, part[there], size) for part in self.parts]
        return np.array(sums, float).reshape(len(self.parts), points, self.size)

    def total(self) -> Floats:
        """The parts of all rows by unit, at one point."""
        return self.added(np.zeros_like(self.unit), 1)

    def flagged(self, at: Ints, step: int) -> Iterator[Floats]:
        """The parts that each of some thresholds flags, which are the first ``at`` cells from the
        top, for so many of them at once.
        """
        first = np.searchsorted(at, self.cell.max(initial=0) + 1 - self.cell)
        before: Any = np.zeros((len(self.parts), 1, self.size))
        for start in range(0, len(at), step):
            points = min(step, len(at) - start)
            inside = (first >= start) & (first < start + points)
            block = self.added(np.where(inside, first - start, -1), points)
            block[:, :1] += before
            block = np.cumsum(block, axis=1)
            before = block[:, -1:]
            yield block

    def linear(self, hits: Floats, trials: Floats) -> Linear:
        """The share of hits of every point, linearised, from both by point and unit.

        Both have the weights, the numbers and the squares of the weights.
        """
        points = trials.shape[1]
        point, unit = np.nonzero(trials[1] > 0)
        (h, plain_h, square_h), (t, plain_t, square_t) = (
            hits[:, point, unit],
            trials[:, point, unit],
        )
        moments = None
        if self.weighted and not self.single:
            moments = np.empty((len(t), 2, 2))
            moments[:, 0, 0] = square_t - t**2 / plain_t
            moments[:, 1, 1] = square_h - h**2 / plain_t
            moments[:, 0, 1] = moments[:, 1, 0] = square_h - t * h / plain_t
        nothing = np.zeros(len(t), np.int64)
        table = Table(
            names=("n", "hits"),
            slice=point,
            system=nothing,
            unit=unit,
            cells=(),
            classes=(),
            rows=plain_t,
            sums=np.stack([t, h], -1),
            plain=np.stack([plain_t, plain_h], -1),
            moments=moments,
            missing=nothing.astype(float),
            singles=self.single,
            weighted=self.weighted,
            strata=self.strata,
        )
        return linear(_SHARE, table, points, 1)


@dataclass(frozen=True)
class Units:
    """The rows behind a curve by unit; with crossed clusters one way, another, and by both."""

    ways: tuple[Way, ...]

    def at_thresholds(self, at: Ints, parts: Parts, level: float) -> tuple[Floats, Floats]:
        """The limits of a share at thresholds, which flag the first ``at`` cells from the top."""
        low, high = np.full((2, len(at)), np.nan)
        step = max(1, _ENTRIES // max(way.size for way in self.ways))
        totals = [way.total() for way in self.ways]
        blocks = zip(*(way.flagged(at, step) for way in self.ways), strict=True)
        for number, flagged in enumerate(blocks):
            points = slice(number * step, (number + 1) * step)
            both = zip(flagged, totals, strict=True)
            low[points], high[points] = self._limits([parts(*of) for of in both], level)
        return low, high

    def in_bins(self, bin_of: Ints, bins: int, parts: Parts, level: float) -> tuple[Floats, Floats]:
        """The limits of a share in bins of cells."""
        sums = [(way.added(bin_of[way.cell], bins), way.total()) for way in self.ways]
        return self._limits([parts(*of) for of in sums], level)

    def _limits(
        self, shares: Sequence[tuple[Floats, Floats]], level: float
    ) -> tuple[Floats, Floats]:
        """The interval that a summary has for the share of hits, from hits and trials each way."""
        found = crossed(*(way.linear(*of) for way, of in zip(self.ways, shares, strict=True)))
        made = intervals(_SHARE, found, "auto", level, clustered=not self.ways[0].single)
        return made.low, made.high


def by_group(
    table: Table, systems: int, of_units: Sequence[str]
) -> Iterator[tuple[int, Sums, Way]]:
    """The sums of every group (slice and system) by cell, and some of them by unit."""
    table = table.take(table.rows > 0)
    code = group_codes(table, systems)
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    for start, stop in pairwise([*starts, len(code)]):
        part = table.take(np.arange(start, stop))
        cells, cell = np.unique(part.cells[0], return_inverse=True)
        named = dict(zip(part.names, part.sums.T, strict=True))
        sums = {name: np.bincount(cell, column) for name, column in named.items()}
        sums["rows"] = np.bincount(cell, part.rows)
        columns = [part.names.index(name) for name in of_units]
        squares = part.plain
        if part.moments is not None:
            centred = np.diagonal(part.moments, axis1=1, axis2=2)
            squares = centred + part.sums**2 / part.rows[:, None]
        parts = [part.sums[:, columns], part.plain[:, columns], squares[:, columns]]
        unit, of_row = np.unique(part.unit, return_inverse=True)
        way = Way(
            cell,
            of_row,
            np.concatenate(parts, axis=1).T,
            part.singles,
            part.weighted,
            None if part.strata is None else part.strata[unit],
        )
        yield int(code[start]), Sums(sums, (part.classes[0][cells],)), way


def _entered(values: Floats, measure: Callable[[Any], Any], parts: int) -> Ints:
    """Where values that never fall enter each next of so many equal parts of their range."""
    scale = parts / (float(measure(values[-1])) or 1.0)
    part = np.arange(1, parts + 1)
    starts = bisected(lambda at: np.floor(measure(values[at]) * scale) < part, len(values), parts)
    return starts[(starts > 0) & (starts < len(values))]


@dataclass(frozen=True)
class Flagged:
    """What thresholds flag, from an infinite one that flags nothing to the lowest score.

    ``tp`` and ``fp`` are the positives and negatives at or above each threshold, ``n`` the rows,
    ``at`` the number of distinct scores. With ``counted`` they are counts of independent rows,
    which have bands; others have them by their ``units``.
    """

    threshold: Floats
    tp: Floats
    fp: Floats
    n: Floats
    at: Ints
    counted: bool
    units: Units | None = None

    @classmethod
    def of(cls, sums: Sums, *, counted: bool, units: Units | None = None) -> Flagged:
        """From the positives, negatives and rows of each distinct score, in ascending order."""

        def flagged(values: Floats) -> Floats:
            return np.concatenate([[0.0], np.cumsum(values[::-1])])

        threshold = np.concatenate([[np.inf], sums.classes[0][::-1]])
        tp, fp, n = (flagged(values) for values in (sums.pos, sums.neg, sums.rows))
        return cls(threshold, tp, fp, n, np.arange(len(threshold)), counted, units)

    def at_prevalence(self, prevalence: float) -> Flagged:
        """As if positives were that share of the rows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return replace(
                self,
                tp=self.tp / self.tp[-1] * prevalence,
                fp=self.fp / self.fp[-1] * (1 - prevalence),
                counted=False,
                units=None,
            )

    def take(self, index: Any) -> Flagged:
        """The chosen thresholds."""
        return replace(
            self,
            threshold=self.threshold[index],
            tp=self.tp[index],
            fp=self.fp[index],
            n=self.n[index],
            at=self.at[index],
        )

    def last_at_least(self, threshold: float) -> int:
        """The place of the lowest score that reaches a threshold; 0, which flags none, without."""
        return int(np.searchsorted(-self.threshold, -threshold, side="right")) - 1

    def thinned(self, points: int | None) -> Flagged:
        """At most so many thresholds, among them the first and the last.

        Of those that are left out, the rate of true positives, that of false positives and the
        logarithm of the flagged rows are all within a sixth of ``points``-th of the whole range of
        the ones beside them that are kept. Steps of tied scores stay as they are.
        """
        if points is None or len(self.n) <= points:
            return self
        parts = (points - 2) // 6
        keep = np.zeros(len(self.n), bool)
        keep[[0, -1]] = True
        for values, measure in ((self.tp, np.asarray), (self.fp, np.asarray), (self.n, np.log1p)):
            starts = _entered(values, measure, parts)
            keep[starts] = keep[starts - 1] = True
        return self.take(keep)

    def rate(self, name: str, hits: Part, trials: Part, level: float) -> dict[str, Floats]:
        """A share and its interval; NaN where there is nothing to be a share of."""
        counts = Counts(self.tp, self.fp, self.tp[-1], self.fp[-1])
        part, whole = hits(counts), np.broadcast_to(trials(counts), self.tp.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(whole > 0, np.minimum(part / whole, 1.0), np.nan)
        low, high = self._limits(hits, trials, share, whole, level)
        return {name: share, f"{name}_low": low, f"{name}_high": high}

    def _limits(
        self, hits: Part, trials: Part, share: Floats, whole: Floats, level: float
    ) -> tuple[Floats, Floats]:
        if self.units is None:
            low, high = np.full((2, len(share)), np.nan)
            there = (whole > 0) & self.counted
            low[there], high[there] = wilson(share[there], whole[there], level)
            return low, high

        def parts(flagged: Floats, total: Floats) -> tuple[Floats, Floats]:
            counts = Counts(flagged[0::2], flagged[1::2], total[0::2], total[1::2])
            return hits(counts), np.broadcast_to(trials(counts), flagged[0::2].shape)

        return self.units.at_thresholds(self.at, parts, level)


def _tp(c: Counts) -> Floats:
    return c.tp


def _fp(c: Counts) -> Floats:
    return c.fp


def _fn(c: Counts) -> Floats:
    return c.pos - c.tp


def _pos(c: Counts) -> Floats:
    return c.pos


def _neg(c: Counts) -> Floats:
    return c.neg


def _flagged(c: Counts) -> Floats:
    return c.tp + c.fp


def _unflagged(c: Counts) -> Floats:
    return c.pos + c.neg - c.tp - c.fp


def _right(c: Counts) -> Floats:
    return c.tp + c.neg - c.fp


def _all(c: Counts) -> Floats:
    return c.pos + c.neg


def _roc(f: Flagged, level: float) -> dict[str, Floats]:
    return {**f.rate("fpr", _fp, _neg, level), **f.rate("tpr", _tp, _pos, level)}


def _det(f: Flagged, level: float) -> dict[str, Floats]:
    return {**f.rate("fpr", _fp, _neg, level), **f.rate("fnr", _fn, _pos, level)}


def _pr(f: Flagged, level: float) -> dict[str, Floats]:
    with np.errstate(invalid="ignore"):
        prevalence = f.tp[-1] / (f.tp[-1] + f.fp[-1])
    return {
        **f.rate("recall", _tp, _pos, level),
        **f.rate("precision", _tp, _flagged, level),
        "prevalence": np.full(len(f.tp), prevalence),
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
        **f.rate("fpr", _fp, _neg, level),
        **f.rate("accuracy", _right, _all, level),
        "f1": f1,
    }


def _share_flagged(f: Flagged) -> Floats:
    flagged = f.tp + f.fp
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Floats = flagged / flagged[-1]
    return share


def _gain(f: Flagged, level: float) -> dict[str, Floats]:
    gain, share = f.rate("gain", _tp, _pos, level), _share_flagged(f)
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = gain["gain"] / share
    return {"share": share, **gain, "lift": lift}


def _risk_coverage(f: Flagged, level: float) -> dict[str, Floats]:
    return {"coverage": _share_flagged(f), **f.rate("risk", _fp, _flagged, level)}


def _abstention(f: Flagged, level: float) -> dict[str, Floats]:
    return {
        "coverage": _share_flagged(f),
        **f.rate("correct", _tp, _all, level),
        **f.rate("wrong", _fp, _all, level),
        **f.rate("abstained", _unflagged, _all, level),
        **f.rate("accuracy", _tp, _flagged, level),
    }


CURVES: dict[str, Callable[[Flagged, float], dict[str, Floats]]] = {
    "roc": _roc,
    "pr": _pr,
    "det": _det,
    "threshold": _threshold,
    "gain": _gain,
    "risk_coverage": _risk_coverage,
    "abstention": _abstention,
}
# Where flagging nothing is no point of the curve: a precision or risk of no rows.
WITHOUT_NOTHING = ("pr", "risk_coverage")


def points_of(kind: str, flagged: Flagged, points: int | None, level: float) -> dict[str, Floats]:
    """The columns of a curve."""
    thinned = flagged.thinned(points)
    if kind in WITHOUT_NOTHING:
        thinned = thinned.take(slice(1, None))
    return {"threshold": thinned.threshold, **CURVES[kind](thinned, level), "n": thinned.n}


def point_of(flagged: Flagged, at: int, level: float) -> dict[str, float]:
    """What one of the thresholds does, as a row of the threshold curve; ``n`` are all rows."""
    # The last point is that of all rows, which rates are taken of.
    columns = points_of("threshold", flagged.take([at, -1]), None, level)
    point = {name: float(values[0]) for name, values in columns.items()}
    return {**point, "n": float(flagged.n[-1])}


def routed(
    sums: Sums,
    fixed: Mapping[str, float],
    points: int | None,
    level: float,
    *,
    counted: bool,
    units: Units | None,
) -> dict[str, Floats]:
    """Accuracy and mean cost where the rows under a threshold go to a fallback.

    ``other`` are the rows that the fallback has right, ``cost`` is paid for every row and ``extra``
    for those that are handed on: sums by cell, or ``fixed`` for every row. The units have the
    positives, the negatives and ``other``.
    """
    f = Flagged.of(sums, counted=counted).thinned(points)
    kept, whole = f.tp + f.fp, f.tp[-1] + f.fp[-1]

    def paid(name: str) -> Any:
        return fixed[name] * whole if name in fixed else getattr(sums, name).sum()

    def handed_on(name: str) -> Any:
        if name in fixed:
            return fixed[name] * (whole - kept)
        return np.concatenate([[0.0], np.cumsum(getattr(sums, name))])[::-1][f.at]

    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy, among_kept = (f.tp + handed_on("other")) / whole, f.tp / kept
        share, cost = 1.0 - kept / whole, (paid("cost") + handed_on("extra")) / whole
    low, high = np.full((2, len(kept)), np.nan)
    if units is not None:

        def parts(flagged: Floats, total: Floats) -> tuple[Floats, Floats]:
            right = flagged[0::3] + total[2::3] - flagged[2::3]
            return right, np.broadcast_to(total[0::3] + total[1::3], right.shape)

        low, high = units.at_thresholds(f.at, parts, level)
    elif counted:
        low, high = wilson(accuracy, whole, level)
    return {
        "threshold": f.threshold,
        "handed_on": share,
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "accuracy_kept": among_kept,
        "cost": cost,
        "n": f.n,
    }


def _positives(own: Floats, _: Floats) -> tuple[Floats, Floats]:
    return own[0::2], own[0::2] + own[1::2]


def reliability(
    sums: Sums, bins: int, strategy: str, level: float, *, counted: bool, units: Units | None
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
    with np.errstate(divide="ignore", invalid="ignore"):
        predicted, share = mass / (pos + neg), pos / (pos + neg)
    lower, upper = np.full((2, len(share)), np.nan)
    if units is not None:
        bin_of = np.cumsum(np.diff(code, prepend=code[0]) > 0)
        lower, upper = units.in_bins(bin_of, len(share), _positives, level)
    elif counted:
        lower, upper = wilson(share, pos + neg, level)
    observed = {"observed": share, "observed_low": lower, "observed_high": upper}
    return {"bin_low": low, "bin_high": high, "predicted": predicted, **observed, "n": rows}
