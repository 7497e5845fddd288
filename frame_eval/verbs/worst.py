"""``worst``: which slices are really bad, once picking the worst is accounted for?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError
from frame_eval.evaluation import verb
from frame_eval.inference import bootstrap
from frame_eval.inference.adjust import adjust
from frame_eval.inference.intervals import Interval, Intervals, choose, intervals
from frame_eval.inference.linear import group_codes, ways_of
from frame_eval.inference.ranks import rank_intervals
from frame_eval.inference.resample import Draws
from frame_eval.inference.selection import (
    against_rest,
    all_differences,
    chosen_groups,
    partially_pooled,
    usual_variance,
)
from frame_eval.inference.simultaneous import Family, family_of
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles
from frame_eval.slices import By, Crossed, cluster_ways, slices
from frame_eval.table import Floats, Ints, Table
from frame_eval.verbs.measured import Measured, measure_ways, notes_of
from frame_eval.verbs.options import Missing, check_draws, check_level, check_metrics, check_names
from frame_eval.verbs.results import at_level, joined, with_keys

COLUMNS = (
    "metric",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "pooled",
    "pooled_low",
    "pooled_high",
    "rest",
    "difference",
    "p_value",
    "p_adjusted",
    "rank",
    "rank_low",
    "rank_high",
    "n",
    "clusters",
    "missing",
    "level",
    "method",
    "note",
)
JUDGED = (
    *("pooled", "pooled_low", "pooled_high", "rest", "difference", "p_value", "p_adjusted"),
    *("rank", "rank_low", "rank_high"),
)
WHOLE = ("rank", "rank_low", "rank_high", "n", "clusters", "missing")
MOST_RANKED = 200


@verb
def worst(
    frame: Any,
    metric: Metric,
    *,
    by: By,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    min_n: int = 10,
    interval: Interval = "auto",
    level: float = 0.95,
    missing: Missing = "raise",
    resamples: int = 9999,
    seed: int = 0,
) -> pl.DataFrame:
    """The slices of a metric, worst first, with numbers that hold although the worst were picked.

    The lowest of forty slices is low by luck as well. Its interval here holds together with those
    of all other slices; its p-value, against the rest of the rows, is adjusted for all of them;
    and its rank comes with the ranks that it may truly have.

    Parameters
    ----------
    frame, by, system, example, trial, cluster, weight, strata, missing
        As in :func:`summary`. Each system has slices and ranks of its own.
    metric
        One metric that says which direction is better.
    min_n
        Slices with fewer rows behind their estimate are listed last, without test and rank.
    interval
        As in :func:`summary`, without the bootstrap.
    level
        Of the simultaneous intervals and ranks, between 0 and 1.
    resamples, seed
        How many draws the simultaneous intervals and ranks are made from, and their seed.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        The slice keys, the system columns, and the columns of :func:`summary`, with intervals that
        hold for all slices at once; ``pooled``, the estimate drawn towards the mean of all slices
        by how unsure it is (empirical Bayes), with limits that hold for a share ``level`` of the
        slices (null under three); ``rest``, the metric of all other rows; ``difference`` from
        it; ``p_value``, one-sided, of the slice being no worse than the rest; ``p_adjusted``
        (Holm); ``rank`` (1 is the worst), and ``rank_low`` to ``rank_high``, the ranks that the
        differences of all pairs of slices leave open (null above 200 slices). Sorted by system,
        worst first.

    Raises
    ------
    EvalError
        For a metric without direction (say ``better=``) or without errors (such as a plug-in
        calibration error, which is worst where a slice is small), and as :func:`summary`.

    Notes
    -----
    Simultaneous intervals: signs on the joint cluster influences, studentised anew in each draw
    (Cameron, Gelbach and Miller 2008; Romano and Wolf 2005); without clusters Sidak (1967). The
    test takes both variances under the hypothesis of one rate, and the covariance of clusters that
    are in the slice and in the rest; strata do not make the variance of independent rows under one
    rate smaller, which is cautious. Ranks: Mogstad, Romano, Shaikh and Wilhelm (2024). Pooling:
    Armstrong, Kolesar and Plagborg-Moller (2022), for shares with variances from the rate of all
    slices.

    Slices of :func:`crossed` clusters have the covariance by one way plus that by the other less
    that by both, whose negative eigenvalues are set to 0 (Cameron, Gelbach and Miller 2011); the
    variance of a slice, or of a difference, is never under that of either way alone. No signs on
    units have that covariance: the largest t is drawn from the normal law with it, studentised by
    Wishart's law with the fewest degrees of freedom of all slices (of more than 200 slices: Sidak).
    This is cautious: of ten slices, nominal 95 % intervals of the one that looks worst hold in 98
    to 100 % of the studied samples (``benchmarks/coverage.md``), all at once in 96 to 100 %. The
    limits of pooled estimates take variances as known, and hold for fewer slices than they say
    where few clusters, such as six raters, differ much.

    More clusters than memory holds have to be in one slice each (of a system), and slices to be of
    columns. The largest t is then drawn from the normal law too, which for very many clusters is
    that of signs: limits and ranks agree with theirs but for the error of the draws, and ``method``
    says so.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "lang": ["de"] * 50 + ["fr"] * 50 + ["sw"] * 50 + ["yo"] * 2,
    ...     "correct": [1, 1, 1, 1, 0] * 20 + [1, 0] * 25 + [0, 0],
    ... })
    >>> found = df.eval.worst(fe.rate("correct"), by="lang")
    >>> found.select("lang", "estimate", "rest", "rank", "rank_high").row(0)
    ('sw', 0.5, 0.7843137254901961, 1, 1)
    >>> found["note"][-1]
    'fewer than min_n=10 rows; few effective failures'
    """
    check_metrics([metric])
    if metric.better is None:
        raise EvalError(
            f"{metric.name!r} does not say which direction is worse; give it better='higher' or "
            "'lower'"
        )
    if metric.per_class is not None:
        raise EvalError("average=None makes a metric per class; choose one average for worst")
    if choose(metric, interval) is None or not metric.smooth:
        raise EvalError(f"{metric.name!r} has no errors, without which small slices look worst")
    if interval in bootstrap.KINDS:
        raise EvalError(f"worst makes analytic intervals, not {interval!r}")
    chosen = slices(by, overall=False)
    if not chosen.shown:
        raise EvalError("say by=<the columns that make the slices>")
    draws = check_draws(resamples, seed)
    ways = [Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)]
    check_names((*chosen.shown, *ways[0].system), COLUMNS)
    if chosen.stacked:
        chosen = slices(by, overall=True)
    once = len(ways) == 1 and not chosen.stacked
    found = measure_ways(frame, [metric], chosen, ways, missing, tabled=True, once=once)
    whole = None
    if chosen.stacked:
        whole = int(chosen.is_whole(found.found.slices).argmax())
    return _Worst(found, whole, min_n, interval, check_level(level), draws).table()


class _Worst:
    """The slices of each system, measured, and what is asked of them."""

    def __init__(
        self,
        found: Measured,
        whole: int | None,
        min_n: int,
        interval: Interval,
        level: float,
        draws: Draws,
    ) -> None:
        self.found, self.min_n = found, min_n
        self.interval: Interval = interval
        # The slice that is all rows, where slices are stacked.
        self.overall = whole
        self.level, self.draws = level, draws
        (self.entry,) = found.metrics
        self.metric = self.entry.metric
        self.sign = 1.0 if self.metric.better == "higher" else -1.0

    def table(self) -> pl.DataFrame:
        """The result frame."""
        count, systems = self.found.found.shape
        blocks = []
        for system in range(systems):
            groups = np.arange(count) * systems + system
            groups = groups[self.entry.there[groups]]
            if self.overall is not None:
                groups = groups[groups // systems != self.overall]
            blocks += self._of_system(groups, system)
        if not blocks:
            raise EvalError("no slice has rows: none is the worst")
        rows = joined(
            [{**block, "class": np.full(len(block["n"]), None)} for block in blocks], WHOLE
        )
        group = rows["__fe_group"].to_numpy()
        return with_keys(
            rows.select(COLUMNS),
            (self.found.found.slices, group // systems),
            (self.found.found.systems, group % systems),
        )

    def _of_system(self, groups: Ints, system: int) -> list[dict[str, Any]]:
        found = self.entry.linear
        large = (found.n[groups] >= self.min_n) & np.isfinite(found.estimate[groups])
        blocks = [self._judged(groups[large], system)] if large.any() else []
        if not large.all():
            blocks.append(self._apart(groups[~large]))
        return blocks

    def _judged(self, groups: Ints, system: int) -> dict[str, Any]:
        """The slices that are large enough, worst first."""
        one = chosen_groups(self.entry.linear, groups)
        clustered = self.found.clustered and bool((one.clusters < one.n).any())
        family = family_of([one], self.draws, clustered=clustered)
        block = self._shown(groups, family)
        against = against_rest(
            self.metric, self._tables(groups, system), clustered=clustered, sign=self.sign
        )
        low, high = self._ranks(clustered, groups)
        shrunk = partially_pooled(self.metric, one, self.level, clustered=clustered)
        block |= {
            "pooled": shrunk.estimate,
            "pooled_low": shrunk.low,
            "pooled_high": shrunk.high,
            "rest": against.rest,
            "difference": against.difference,
            "p_value": against.p_value,
            "p_adjusted": adjust(against.p_value, "holm", np.isnan(against.p_value)),
            "rank_low": low,
            "rank_high": high,
        }
        badness = self.sign * block["estimate"]
        order = np.argsort(badness, kind="stable")
        ranked = {name: values[order] for name, values in block.items()}
        # Equal slices share their rank.
        return {**ranked, "rank": 1 + np.searchsorted(badness[order], badness[order])}

    def _apart(self, groups: Ints) -> dict[str, Any]:
        """The slices that are too small to be judged, or have no estimate."""
        block = self._shown(groups)
        few = self.entry.linear.n[groups] < self.min_n
        said = np.where(few, f"fewer than min_n={self.min_n} rows", "")
        block["note"] = _joined_notes(said, block["note"])
        nothing = np.full(len(groups), np.nan)
        return {**block, **dict.fromkeys(JUDGED, nothing)}

    def _shown(self, groups: Ints, family: Family | None = None) -> dict[str, Any]:
        """The columns of ``summary`` for some groups, which are a family if they are judged."""
        found = chosen_groups(self.entry.linear, groups)

        def make(level: float) -> Intervals:
            how = self.interval, level, self.found.clustered, self.draws
            return intervals(self.metric, found, *how)

        made = at_level(make, self.level, family)
        return {
            "__fe_group": groups,
            "metric": np.full(len(groups), self.metric.name, object),
            "estimate": found.estimate,
            "std_error": made.std_error,
            "ci_low": made.low,
            "ci_high": made.high,
            "n": found.n.round(),
            "clusters": found.clusters.round(),
            "missing": found.missing.round(),
            "level": np.full(len(groups), self.level),
            "method": np.array([text or None for text in made.method], object),
            "note": _joined_notes(notes_of(self.metric, found), made.note),
        }

    def _tables(self, groups: Ints, system: int) -> list[tuple[Table, list[Table]]]:
        """The table of all rows of a system and those of its slices, for each way of clustering."""
        ways = []
        for way in ways_of(self.entry.linear):
            code = group_codes(way.table, way.systems)
            parts = [way.table.take(code == group) for group in groups]
            rows = way.table.system == system
            if self.overall is not None:
                rows &= way.table.slice == self.overall
            ways.append((way.table.take(rows), parts))
        return ways

    def _ranks(self, clustered: bool, groups: Ints) -> tuple[Floats, Floats]:
        if len(groups) > MOST_RANKED:
            nothing = np.full(len(groups), np.nan)
            return nothing, nothing
        found = chosen_groups(self.entry.linear, groups)
        variance = usual_variance(self.metric, found, clustered=clustered)
        if self.metric.proportion is not None:
            found = replace(found, estimate=found.share)
        pairs = all_differences(found, variance, self.draws, self.level, clustered=clustered)
        # Rank 1 is the worst.
        ranks = rank_intervals(found.estimate, *pairs, higher_is_better=self.sign < 0)
        return ranks.low.astype(float), ranks.high.astype(float)


def _joined_notes(first: Any, second: Any) -> Any:
    notes = [
        "; ".join(text for text in (a, b) if text) or None
        for a, b in zip(first, second, strict=True)
    ]
    return np.array(notes, object)
