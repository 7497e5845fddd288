"""``guard``: does any slice break its rule? Pass, fail, or inconclusive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from frame_eval.columns import By, Columns, Slices, Source, names, slices
from frame_eval.errors import EvalError, GuardFailed, check_option, did_you_mean, listing
from frame_eval.evaluation import Bound, verb
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles, filtered, result_frame
from frame_eval.verbs.compare import Contrasts, Unmatched, contrast
from frame_eval.verbs.summary import Missing, check_level, check_metrics, measure

NUMBERS = (
    "metric",
    "system",
    "baseline",
    "estimate",
    "baseline_estimate",
    "difference",
    "ci_low",
    "ci_high",
    "n",
    "clusters",
    "level",
    "method",
    "note",
)
VERDICTS = ("fail", "inconclusive", "pass")


@dataclass(frozen=True, eq=False)
class Rule:
    """What a metric has to satisfy in every slice; made by :func:`rule`."""

    metric: Metric | str
    min: float | None
    max: float | None
    max_drop: float | None
    max_rise: float | None
    relative: bool
    where: Source | None
    min_n: int | None

    @property
    def compares(self) -> bool:
        """Whether the rule is about a difference to the baseline."""
        return self.max_drop is not None or self.max_rise is not None

    @property
    def bound(self) -> float:
        """The one margin of a relative rule, with its sign."""
        return -self.max_drop if self.max_drop is not None else self.max_rise or 0.0

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric if isinstance(self.metric, str) else self.metric.name

    @property
    def limits(self) -> tuple[float, float]:
        """What the guarded number has to lie between."""
        if not self.compares:
            low, high = self.min, self.max
        else:
            low = None if self.max_drop is None else -self.max_drop
            high = self.max_rise
        return -np.inf if low is None else low, np.inf if high is None else high

    def __str__(self) -> str:
        unit = " of the baseline" if self.relative else ""
        bounds = {
            "min": (">=", self.min, ""),
            "max": ("<=", self.max, ""),
            "drop": ("drop <=", self.max_drop, unit),
            "rise": ("rise <=", self.max_rise, unit),
        }
        parts = [f"{sign} {at:g}{of}" for sign, at, of in bounds.values() if at is not None]
        return f"{self.name} {' and '.join(parts)}"


def rule(
    metric: Metric | str,
    *,
    min: float | None = None,  # noqa: A002 - the plain words
    max: float | None = None,  # noqa: A002
    max_drop: float | None = None,
    max_rise: float | None = None,
    relative: bool = False,
    where: Source | None = None,
    min_n: int | None = None,
) -> Rule:
    """A rule that a metric has to satisfy in every slice, for :func:`guard`.

    Parameters
    ----------
    metric
        The metric; for guarding a result frame its name will do.
    min, max
        Bounds of the metric itself, in its unit.
    max_drop, max_rise
        How much lower or higher than the baseline it may be (non-inferiority margins).
    relative
        Whether ``max_drop`` and ``max_rise`` are shares of the baseline's value.
    where
        A condition (boolean column or expression): the rule is about these rows only.
    min_n
        Slices with fewer rows than this are inconclusive, whatever their interval.

    Returns
    -------
    Rule
        For :func:`guard`.

    Raises
    ------
    EvalError
        Without a bound, with bounds that contradict each other, or with bounds on the metric and
        on its difference in one rule.

    Examples
    --------
    >>> import frame_eval as fe
    >>> str(fe.rule(fe.rate("correct"), max_drop=0.02))
    'rate(correct) drop <= 0.02'
    """
    made = Rule(metric, min, max, max_drop, max_rise, relative, where, min_n)
    if not isinstance(metric, (Metric, str)):
        raise EvalError(f"{metric!r} is neither a metric nor the name of one")
    absolute = min is not None or max is not None
    if not absolute and not made.compares:
        raise EvalError(
            f"the rule about {made.name!r} has no bound; give min=, max=, max_drop= or max_rise="
        )
    if absolute and made.compares:
        raise EvalError(
            f"the rule about {made.name!r} bounds both the metric and its difference to the "
            "baseline; make it two rules"
        )
    if min is not None and max is not None and min > max:
        raise EvalError(f"the rule about {made.name!r} has min={min:g} above max={max:g}")
    if relative and absolute:
        raise EvalError("relative=True goes with max_drop= and max_rise=")
    if relative and max_drop is not None and max_rise is not None:
        raise EvalError("a relative rule has one margin; make max_drop= and max_rise= two rules")
    for word, margin in (("max_drop", max_drop), ("max_rise", max_rise)):
        if margin is not None and margin < 0:
            raise EvalError(f"{word}={margin:g} is negative; a margin is at least 0")
    return made


@verb
def guard(
    frame: Any,
    *rules: Rule,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    baseline: Any = None,
    trial: Columns | None = None,
    cluster: Columns | None = None,
    weight: Source | None = None,
    overall: bool = False,
    paired: bool = True,
    unmatched: Unmatched = "raise",
    level: float = 0.95,
    missing: Missing = "raise",
) -> pl.DataFrame:
    """Whether any slice breaks its rule, from numbers and intervals.

    A slice passes when its whole interval satisfies the rule, fails when none of it does, and is
    inconclusive otherwise. Intervals are one-sided at ``level`` (shown as the two-sided interval
    of 2 ``level`` - 1). That *all* slices pass needs no adjustment, it is an
    intersection-union test; naming the slices that fail uses Holm's over the slices of a rule.

    Parameters
    ----------
    frame
        A long table of results, or a result frame of :func:`summary` or :func:`compare`: that is
        guarded by the intervals it has, without adjustment.
    rules
        Made by :func:`rule`.
    baseline
        The system that the others are compared with; needed for ``max_drop`` and ``max_rise``,
        and not itself guarded.
    by, system, example, trial, cluster, weight, overall, missing
        As in :func:`summary`.
    paired, unmatched
        As in :func:`compare`.
    level
        Of the one-sided intervals; margins are one-sided at 5 % by default.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        A row per slice, system and rule, worst first: the slice keys, ``rule``, ``verdict``
        (``"fail"``, ``"inconclusive"``, ``"pass"``), ``reason``, and the numbers behind it. A
        slice that a system has no rows in, or fewer than ``min_n``, is inconclusive.

    Raises
    ------
    EvalError
        Without rules, for a rule about a metric that is not in a result frame, for a margin
        without ``baseline``, and as :func:`summary` and :func:`compare`.

    Notes
    -----
    Berger (1982) for intersection-union tests; Holm (1979).

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"lang": ["de"] * 50 + ["sw"] * 50, "ok": [1] * 80 + [0] * 20})
    >>> result = df.eval.guard(fe.rule(fe.rate("ok"), min=0.8), by="lang")
    >>> result.select("lang", "verdict").rows()
    [('sw', 'fail'), ('de', 'pass')]
    """
    _check_rules(rules)
    check_level(level)
    found = result_frame(frame, ("metric", "ci_low", "ci_high", "n"))
    if found is not None:
        return _worst_first([_of_result(found, one) for one in rules])
    chosen = slices(by, overall)
    roles = Roles(*(tuple(names(r)) for r in (system, example, trial, cluster)), weight)
    if level <= 0.5:
        raise EvalError(f"level={level!r} of a one-sided interval is above 0.5")
    tables = []
    for one in rules:
        if isinstance(one.metric, str):
            raise EvalError(f"the rule about {one.metric!r} needs a metric, such as fe.rate(...)")
        rows = frame if one.where is None else filtered(frame, one.where)
        if one.compares:
            if baseline is None:
                raise EvalError(f"the rule {str(one)!r} needs baseline=<the system to compare to>")
            pairs = contrast(
                rows, [one.metric], chosen, roles, baseline, paired, unmatched, missing
            )
            at = _relative(pairs, one.bound) if one.relative else _margins(pairs)
        else:
            at = _estimates(rows, one.metric, chosen, roles, missing, baseline)
        tables.append(_judged(at, one, level))
    return _worst_first(tables)


def _check_rules(rules: Sequence[Any]) -> None:
    if not rules:
        raise EvalError("name at least one rule, such as fe.rule(fe.rate('correct'), min=0.9)")
    for one in rules:
        if not isinstance(one, Rule):
            raise EvalError(f"{one!r} is not a rule; make one with fe.rule(...)")
    texts = [f"{one}{id(one.where) if one.where is not None else ''}" for one in rules]
    for text in texts:
        if texts.count(text) > 1:
            raise EvalError(f"the rule {text!r} is there twice")


# A table at a level, with the guarded number and its limits in columns of their own.
At = Callable[[float], pl.DataFrame]
VALUE, LOW, HIGH = "__fe_value", "__fe_low", "__fe_high"


def _limited(table: pl.DataFrame, value: str) -> pl.DataFrame:
    return table.with_columns(
        pl.col(value).alias(VALUE), pl.col("ci_low").alias(LOW), pl.col("ci_high").alias(HIGH)
    )


def _estimates(
    rows: Any, metric: Metric, chosen: Slices, roles: Roles, missing: Missing, baseline: Any
) -> At:
    """The metric itself, of every system but the baseline."""
    found = measure(rows, check_metrics([metric]), chosen, roles, missing)

    def at(level: float) -> pl.DataFrame:
        table = found.table("auto", level, keep_empty=True)
        if len(roles.system) == 1:
            table = table.rename({roles.system[0]: "system"})
            if baseline is not None:
                table = table.filter(pl.col("system").ne_missing(pl.lit(baseline)))
        return _limited(table, "estimate")

    return at


def _margins(pairs: Contrasts) -> At:
    """The difference to the baseline."""
    return lambda level: _limited(pairs.table("auto", level), "difference")


def _relative(pairs: Contrasts, bound: float) -> At:
    """The difference to the baseline as a share of it.

    estimate - (1 + bound) baseline has an error of its own from the joint law of both systems;
    taking the baseline as fixed would understate it.
    """

    def at(level: float) -> pl.DataFrame:
        plain = pairs.table("auto", level)
        shifted = pairs.table("auto", level, 1.0 + bound)
        base = plain["baseline_estimate"].abs()
        size = base.set(base == 0, None)
        return plain.with_columns(
            (plain["difference"] / size).alias(VALUE),
            (shifted["ci_low"] / size + bound).alias(LOW),
            (shifted["ci_high"] / size + bound).alias(HIGH),
        )

    return at


def _judged(at: At, one: Rule, level: float) -> pl.DataFrame:
    """The verdict of every slice on one rule."""
    table = at(2 * level - 1)
    low, high = one.limits
    passes, fails = _sides(table, low, high)
    named = _holm(at, one, level, int(fails.sum()), table.height)
    return _with_verdicts(table, one, passes, fails, named)


def _sides(table: pl.DataFrame, low: float, high: float) -> tuple[pl.Series, pl.Series]:
    """Whether all of the interval, and whether none of it, satisfies the rule."""
    below, above = table[LOW], table[HIGH]
    inside = pl.Series([True] * table.height)
    outside = pl.Series([False] * table.height)
    if np.isfinite(low):
        inside &= (below >= low).fill_null(False)
        outside |= (above < low).fill_null(False)
    if np.isfinite(high):
        inside &= (above <= high).fill_null(False)
        outside |= (below > high).fill_null(False)
    return inside, outside


def _holm(at: At, one: Rule, level: float, candidates: int, family: int) -> pl.Series:
    """The slices that fail when Holm's levels are used: alpha / m, then alpha / (m - 1), ..."""
    named = pl.Series([False] * family)
    rejected = 0
    while candidates and rejected < family:
        alpha = (1 - level) / (family - rejected)
        named = _sides(at(1 - 2 * alpha), *one.limits)[1]
        if int(named.sum()) <= rejected:
            break
        rejected = int(named.sum())
    return named


def _with_verdicts(
    table: pl.DataFrame, one: Rule, passes: pl.Series, fails: pl.Series, named: pl.Series
) -> pl.DataFrame:
    low, high = one.limits
    verdicts, reasons, distances = [], [], []
    for i, row in enumerate(table.iter_rows(named=True)):
        verdict, reason = _verdict(row, one, passes[i], fails[i], named[i])
        verdicts.append(verdict)
        reasons.append(reason)
        value = row[VALUE]
        gap = np.nan if value is None else min(value - low, high - value)
        distances.append(gap if np.isfinite(gap) else 0.0)
    numbers = [name for name in NUMBERS if name in table.columns]
    keys = [
        name
        for name in table.columns
        if name not in (*NUMBERS, *HIDDEN) and not name.startswith("__fe_")
    ]
    return table.select(*keys, *numbers).with_columns(
        rule=pl.lit(str(one)),
        verdict=pl.Series(verdicts, dtype=pl.String),
        reason=pl.Series(reasons, dtype=pl.String),
        __fe_gap=pl.Series(distances, dtype=pl.Float64),
    )


def _verdict(
    row: dict[str, Any], one: Rule, passes: bool, fails: bool, named: bool
) -> tuple[str, str]:
    value = row[VALUE]
    if row["n"] == 0:
        return "inconclusive", "no rows: the slice is not there"
    if one.min_n is not None and row["n"] < one.min_n:
        return "inconclusive", f"{row['n']} rows are under min_n={one.min_n}"
    if value is None:
        return "inconclusive", row.get("note") or "undefined"
    if row[LOW] is None and row[HIGH] is None:
        return "inconclusive", f"no interval: {row.get('note') or 'none was made'}"
    span = f"{_text(row[LOW])} to {_text(row[HIGH])}"
    if named:
        return "fail", f"{value:.4g}, all of {span} breaks the rule"
    if fails:
        return "inconclusive", f"{value:.4g} ({span}) breaks the rule, but not after Holm"
    if passes:
        return "pass", f"{value:.4g}, all of {span} satisfies the rule"
    return "inconclusive", f"{value:.4g}: {span} has values on both sides"


def _text(limit: float | None) -> str:
    return "?" if limit is None else f"{limit:.4g}"


HIDDEN = ("std_error", "p_value", "p_adjusted", "wins", "losses", "ties", "missing")


def _of_result(found: pl.DataFrame, one: Rule) -> pl.DataFrame:
    """The verdicts from a result frame, by the intervals that it has."""
    if one.where is not None:
        found = filtered(found, one.where).collect()
    if one.name not in found["metric"]:
        there = found["metric"].unique(maintain_order=True).to_list()
        hint = did_you_mean(one.name, there)
        raise EvalError(
            f"the rule is about {one.name!r}, which is not in the result.{hint} "
            f"Metrics: {listing(there)}."
        )
    if one.compares and "difference" not in found.columns:
        raise EvalError(f"the rule {str(one)!r} needs a result of compare, not of summary")
    if one.compares and one.relative:
        raise EvalError("relative margins need the rows: guard the frame itself")
    if not one.compares and "difference" in found.columns:
        raise EvalError(f"the rule {str(one)!r} needs a result of summary, not of compare")
    rows = found.filter(pl.col("metric") == one.name)
    value = "difference" if one.compares else "estimate"
    table = _limited(rows, value)
    passes, fails = _sides(table, *one.limits)
    return _with_verdicts(table, one, passes, fails, fails)


def _worst_first(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """All verdicts, the failures on top and the furthest from their bound first."""
    rows = pl.concat(tables, how="diagonal_relaxed")
    order = pl.col("verdict").replace_strict(dict(zip(VERDICTS, range(3), strict=True)))
    rows = rows.with_row_index("__fe_row").sort(order, "__fe_gap", "__fe_row")
    numbers = [name for name in NUMBERS if name in rows.columns]
    front = ["rule", "verdict", "reason"]
    keys = [
        name
        for name in rows.columns
        if name not in (*numbers, *front) and not name.startswith("__fe_")
    ]
    return rows.select(*keys, *front, *numbers)


def assert_passed(
    frame: Any, /, *, inconclusive: Literal["fail", "pass"] = "fail"
) -> None:
    """Raise where a guardrail was broken, listing the slices, worst first.

    Parameters
    ----------
    frame
        The result of :func:`guard`.
    inconclusive
        Whether a rule that the data can not decide counts as broken.

    Raises
    ------
    GuardFailed
        With a line per broken slice.
    EvalError
        When the frame is no result of ``guard``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1] * 99 + [0]})
    >>> df.eval.guard(fe.rule(fe.rate("ok"), min=0.9)).eval.assert_passed()
    """
    check_option("inconclusive", inconclusive, ("fail", "pass"))
    native = frame._frame if isinstance(frame, Bound) else frame
    found = result_frame(native, ("rule", "verdict", "reason"))
    if found is None:
        raise EvalError("assert_passed is for the result of guard")
    broken = ("fail", "inconclusive") if inconclusive == "fail" else ("fail",)
    rows = found.filter(pl.col("verdict").is_in(broken))
    if not rows.height:
        return
    keys = [name for name in rows.columns if name not in (*NUMBERS, "rule", "verdict", "reason")]
    keys += ["system"] if "system" in rows.columns else []
    lines = []
    for row in rows.iter_rows(named=True):
        where = ", ".join(f"{name}={row[name]}" for name in keys if row[name] is not None)
        lines.append(f"{row['verdict']}: {row['rule']} [{where or 'overall'}] {row['reason']}")
    raise GuardFailed(f"{rows.height} of {found.height} checks did not pass\n" + "\n".join(lines))
