"""``guard``: does any slice break its rule? Pass, fail, or inconclusive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, GuardFailed, check_option, did_you_mean, listing
from frame_eval.evaluation import Bound, verb
from frame_eval.inference.details import DETAILS
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles, distinct, filtered, result_frame
from frame_eval.slices import By, Crossed, Slices, cluster_ways, slices, unwrapped
from frame_eval.verbs.contrast import Contrasts, contrast, position_of
from frame_eval.verbs.matching import Unmatched
from frame_eval.verbs.measured import Measured, measure_ways
from frame_eval.verbs.options import Missing, check_level, check_names
from frame_eval.verbs.rules import Rule, text_of

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
FRONT = ("rule", "verdict", "reason")
VERDICTS = ("fail", "inconclusive", "pass")


@verb
def guard(
    frame: Any,
    *rules: Rule,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    baseline: Any = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
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
        guarded by the (two-sided) intervals it has, without adjustment.
    rules
        Made by :func:`rule`.
    baseline
        The system that the others are compared with; needed for ``max_drop`` and ``max_rise``,
        and not itself guarded.
    by, system, example, trial, cluster, weight, strata, overall, missing
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
    result = result_frame(frame, ("metric", "ci_low", "ci_high", "n"))
    if result is not None:
        if by is not None or baseline is not None:
            raise EvalError(
                "a result frame has its slices and baseline; by= and baseline= are of rows"
            )
        return _worst_first([_of_result(result, one) for one in rules])
    ways = tuple(
        Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)
    )
    asked = Asked(slices(by, overall), ways, baseline, paired, unmatched, missing)
    for one in rules:
        _check_answerable(one, asked, level)
    found = _measured(frame, rules, asked)
    return _worst_first(
        [_judged(at, one, level, asked.slices) for one, at in zip(rules, found, strict=True)]
    )


@dataclass(frozen=True)
class Asked:
    """What ``guard`` was asked besides the rules."""

    slices: Slices
    ways: tuple[Roles, ...]
    baseline: Any
    paired: bool
    unmatched: Unmatched
    missing: Missing

    @property
    def roles(self) -> Roles:
        """The roles, clusters in the first way that they have."""
        return self.ways[0]


def _check_rules(rules: Sequence[Any]) -> None:
    if not rules:
        raise EvalError("name at least one rule, such as fe.rule(fe.rate('correct'), min=0.9)")
    for one in rules:
        if not isinstance(one, Rule):
            raise EvalError(f"{one!r} is not a rule; make one with fe.rule(...)")
    texts = [str(one) for one in rules]
    for text in texts:
        if texts.count(text) > 1:
            raise EvalError(f"the rule {text!r} is there twice")


def _check_answerable(one: Rule, asked: Asked, level: float) -> None:
    """Raise where rows and roles can not answer a rule."""
    if level <= 0.5:
        raise EvalError(f"level={level!r} of a one-sided interval is above 0.5")
    _metric_of(one)
    if one.compares and asked.baseline is None:
        raise EvalError(f"the rule {str(one)!r} needs baseline=<the system to compare to>")
    if asked.baseline is not None and not asked.roles.system:
        raise EvalError("baseline= needs system=<the column that names the systems>")
    check_names(asked.slices.shown, (*NUMBERS, *FRONT))


# A table at a level, with the guarded number and its limits in columns of their own.
At: TypeAlias = Callable[[float], pl.DataFrame]
Flags: TypeAlias = "npt.NDArray[np.bool_]"
VALUE, LOW, HIGH = "__fe_value", "__fe_low", "__fe_high"


def _measured(frame: Any, rules: Sequence[Rule], asked: Asked) -> list[At]:
    """What each rule is about; rules about the same rows share a pass over them."""
    passes: dict[tuple[object, ...], dict[str, Metric]] = {}
    keys = []
    for one in rules:
        metric = _metric_of(one)
        key: tuple[object, ...] = (one.compares, one.where)
        if isinstance(one.where, (nw.Expr, pl.Expr)):
            key = (one.compares, id(one.where))
        while passes.setdefault(key, {}).setdefault(metric.name, metric) is not metric:
            key = (*key, "another metric of this name")
        keys.append(key)
    found: dict[tuple[object, ...], Measured | Contrasts] = {}
    for key, one in zip(keys, rules, strict=True):
        if key not in found:
            found[key] = _pass(frame, one, list(passes[key].values()), asked)
    return [_about(found[key], one, asked) for key, one in zip(keys, rules, strict=True)]


def _metric_of(one: Rule) -> Metric:
    if isinstance(one.metric, str):
        raise EvalError(
            f"the rule about {one.metric!r} needs a metric, such as fe.rate(...); a name is for a "
            "result frame in memory"
        )
    return one.metric


def _pass(frame: Any, one: Rule, metrics: Sequence[Metric], asked: Asked) -> Measured | Contrasts:
    """The metrics of all rules that are about the rows and systems of this one."""
    rows = frame if one.where is None else filtered(frame, one.where)
    found: Measured | Contrasts
    if one.compares:
        found = contrast(
            rows,
            metrics,
            asked.slices,
            asked.ways,
            baseline=asked.baseline,
            paired=asked.paired,
            unmatched=asked.unmatched,
            missing=asked.missing,
            whole=False,
        )
    else:
        found = measure_ways(
            rows,
            metrics,
            asked.slices,
            asked.ways,
            asked.missing,
            apart=len(asked.ways) == 1,
        )
    if one.where is not None:
        _check_systems(frame, one, found.found.systems, asked.roles.system)
    return found


def _check_systems(frame: Any, one: Rule, systems: pl.DataFrame, names: Sequence[str]) -> None:
    """Raise where a system has no row that the condition of a rule is true for."""
    if not names:
        return
    whole = distinct(frame, names)
    lost = sorted(set(whole.rows()) - set(systems.rows()), key=str)
    if lost:
        shown = listing(unwrapped(lost))
        raise EvalError(f"the rule {str(one)!r} has no rows for {shown}")


def _about(found: Measured | Contrasts, one: Rule, asked: Asked) -> At:
    """The part of a pass that a rule is about."""
    if isinstance(found, Contrasts):
        parts = tuple(part for part in found.contrasts if part.metric.name == one.name)
        pairs = replace(found, contrasts=parts)
        return _relative(pairs, one.bound) if one.relative else _margins(pairs)
    entries = tuple(part for part in found.metrics if part.metric.name == one.name)
    return _estimates(replace(found, metrics=entries), asked)


def _limited(table: pl.DataFrame, value: str) -> pl.DataFrame:
    return table.with_columns(
        pl.col(value).alias(VALUE), pl.col("ci_low").alias(LOW), pl.col("ci_high").alias(HIGH)
    )


def _estimates(found: Measured, asked: Asked) -> At:
    """The metric itself, of every system but the baseline."""
    systems = unwrapped(found.found.systems.rows())
    baseline = asked.baseline
    if baseline is not None:
        baseline = systems[position_of(baseline, systems)]
    if systems == [baseline]:
        raise EvalError(f"there is only one system, {baseline!r}, and the baseline is not guarded")

    def at(level: float) -> pl.DataFrame:
        table = found.table("auto", level, keep_empty=True)
        return _limited(_without(baseline, table, asked.roles.system), "estimate")

    return at


def _without(baseline: Any, table: pl.DataFrame, system: Sequence[str]) -> pl.DataFrame:
    """The rows of the other systems, named in one column as ``compare`` names them."""
    if not system:
        return table
    wanted = baseline if isinstance(baseline, tuple) else (baseline,)
    kept = [row != wanted for row in table.select(system).rows()]
    if len(system) == 1:
        return table.filter(kept).rename({system[0]: "system"})
    joined = pl.concat_str(pl.col(system).cast(pl.String), separator=", ").alias("system")
    return table.filter(kept).with_columns(joined).drop(set(system) - {"system"})


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
        base = pl.when(pl.col("baseline_estimate") > 0).then("baseline_estimate")
        return plain.with_columns(
            (pl.col("difference") / base).alias(VALUE),
            (shifted["ci_low"] / base + bound).alias(LOW),
            (shifted["ci_high"] / base + bound).alias(HIGH),
            pl.when(pl.col("baseline_estimate") <= 0)
            .then(pl.lit("no margin relative to a baseline that is not positive"))
            .otherwise("note")
            .alias("note"),
        )

    return at


def _judged(at: At, one: Rule, level: float, asked: Slices) -> pl.DataFrame:
    """The verdict of every slice on one rule."""
    table = at(round(2 * level - 1, 12))
    passes, fails = _sides(table, one)
    named = np.zeros_like(fails)
    for family in _families(table, one, asked.is_whole(table)):
        if (fails & family).any():
            named |= _holm(at, one, level, family)
    return _with_verdicts(table, one, passes, fails, named)


def _sides(table: pl.DataFrame, one: Rule) -> tuple[Flags, Flags]:
    """Whether all of the interval, and whether none of it, satisfies the rule."""
    low, high = one.limits
    below, above = (table[name].cast(pl.Float64).to_numpy() for name in (LOW, HIGH))
    inside = ((low == -np.inf) | (below >= low)) & ((high == np.inf) | (above <= high))
    return inside, (above < low) | (below > high)


def _families(table: pl.DataFrame, one: Rule, whole: Flags) -> list[Flags]:
    """The rows whose failures are named together: the slices, and the whole on its own."""
    tested = (table["n"] >= (one.min_n or 0)).to_numpy()
    return [tested & ~whole, tested & whole]


def _holm(at: At, one: Rule, level: float, family: Flags) -> Flags:
    """The slices that fail at Holm's levels: alpha / m, then alpha / (m - 1), and so on."""
    size, rejected = int(family.sum()), 0
    while True:
        alpha = (1 - level) / (size - rejected)
        named = family & _sides(at(1 - 2 * alpha), one)[1]
        if int(named.sum()) in {rejected, size}:
            return named
        rejected = int(named.sum())


def _with_verdicts(
    table: pl.DataFrame, one: Rule, passes: Flags, fails: Flags, named: Flags
) -> pl.DataFrame:
    judged = [
        _verdict(row, one, *flags)
        for row, *flags in zip(table.iter_rows(named=True), passes, fails, named, strict=True)
    ]
    low, high = one.limits
    value = table[VALUE].cast(pl.Float64)
    gaps = [0.0 if at is None else min(at - low, high - at) for at in value]
    numbers = [name for name in NUMBERS if name in table.columns]
    return table.select(*_keys(table, HIDDEN), *numbers).with_columns(
        rule=pl.lit(str(one)),
        verdict=pl.Series([verdict for verdict, _ in judged], dtype=pl.String),
        reason=pl.Series([reason for _, reason in judged], dtype=pl.String),
        __fe_gap=pl.Series(gaps, dtype=pl.Float64),
    )


def _verdict(
    row: dict[str, Any], one: Rule, passes: bool, fails: bool, named: bool
) -> tuple[str, str]:
    undecided = _undecided(row, one)
    if undecided is not None:
        return "inconclusive", undecided
    kind = "" if not one.compares else "relative difference " if one.relative else "difference "
    found = f"{kind}{row[VALUE]:.3g} ({text_of(row[LOW])} to {text_of(row[HIGH])})"
    if named:
        return "fail", f"{found} breaks the rule"
    if fails:
        return "inconclusive", f"{found} breaks the rule, but not after Holm's adjustment"
    if passes:
        return "pass", f"{found} satisfies the rule"
    return "inconclusive", f"{found} spans the bound"


def _undecided(row: dict[str, Any], one: Rule) -> str | None:
    """Why there is nothing to judge, if so."""
    if row[VALUE] is None:
        return row.get("note") or "undefined"
    if one.min_n is not None and row["n"] < one.min_n:
        return f"n={row['n']} is under min_n={one.min_n}"
    if row[LOW] is None and row[HIGH] is None:
        return f"no interval: {row.get('note') or 'none was made'}"
    return None


HIDDEN = (
    *("std_error", "p_value", "p_adjusted", "wins", "losses", "ties", "missing", "mde"),
    *DETAILS,
)


def _keys(table: pl.DataFrame, others: Sequence[str]) -> list[str]:
    """The columns that say which slice a row is."""
    known = {*NUMBERS, *others}
    return [name for name in table.columns if name not in known and not name.startswith("__fe_")]


def _of_result(result: pl.DataFrame, one: Rule) -> pl.DataFrame:
    """The verdicts from a result frame, by the intervals that it has."""
    rows = result if one.where is None else filtered(result, one.where).collect()
    if one.name not in rows["metric"]:
        there = rows["metric"].unique(maintain_order=True).to_list()
        hint = did_you_mean(one.name, there)
        raise EvalError(
            f"the rule is about {one.name!r}, which is not in the result.{hint} "
            f"Metrics: {listing(there)}."
        )
    differences = "difference" in rows.columns
    if one.compares != differences:
        wanted, got = ("compare", "summary") if one.compares else ("summary", "compare")
        raise EvalError(f"the rule {str(one)!r} needs a result of {wanted}, not of {got}")
    if one.relative:
        raise EvalError("relative margins need the rows: guard the frame itself")
    rows = rows.filter(pl.col("metric") == one.name)
    table = _limited(rows, "difference" if differences else "estimate")
    passes, fails = _sides(table, one)
    return _with_verdicts(table, one, passes, fails, fails)


def _worst_first(tables: list[pl.DataFrame]) -> pl.DataFrame:
    """All verdicts, the failures on top and the furthest from their bound first."""
    rows = pl.concat(tables, how="diagonal_relaxed")
    order = pl.col("verdict").replace_strict(dict(zip(VERDICTS, range(3), strict=True)))
    rows = rows.with_row_index("__fe_row").sort(order, "__fe_gap", "__fe_row")
    numbers = [name for name in NUMBERS if name in rows.columns]
    return rows.select(*_keys(rows, FRONT), *FRONT, *numbers)


def assert_passed(frame: Any, /, *, inconclusive: Literal["fail", "pass"] = "fail") -> None:
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
    found = result_frame(native, FRONT)
    if found is None:
        raise EvalError("assert_passed is for the result of guard")
    broken = ("fail", "inconclusive") if inconclusive == "fail" else ("fail",)
    rows = found.filter(pl.col("verdict").is_in(broken))
    if not rows.height:
        return
    keys = _keys(rows, FRONT)
    lines = [_line(row, keys) for row in rows.iter_rows(named=True)]
    raise GuardFailed(f"{rows.height} of {found.height} checks did not pass\n" + "\n".join(lines))


def _line(row: dict[str, Any], keys: Sequence[str]) -> str:
    """A broken check in one line; keys that not all rules have are left out where they are null."""
    parts = [f"{name}={row[name]}" for name in keys if name != "class" or row[name] is not None]
    if row.get("system") is not None:
        parts.append(f"system={row['system']}")
    return f"{row['verdict']}: {row['rule']} [{', '.join(parts) or 'overall'}] {row['reason']}"
