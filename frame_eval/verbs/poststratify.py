"""``poststratify``: what would a metric be, were the slices as common as somewhere else?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, did_you_mean, listing
from frame_eval.evaluation import verb
from frame_eval.inference.intervals import intervals
from frame_eval.inference.linear import Linear
from frame_eval.inference.mix import mixed
from frame_eval.inference.paired import by_t, in_units, joint
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles, distinct, result_frame
from frame_eval.slices import Crossed, Slices, cluster_ways, names, slices, unwrapped
from frame_eval.table import Floats, Ints
from frame_eval.verbs.contrast import Contrast, contrast
from frame_eval.verbs.matching import Unmatched
from frame_eval.verbs.measured import measure, measure_ways
from frame_eval.verbs.options import Missing, check_level, check_metrics
from frame_eval.verbs.results import joined, with_keys

COLUMNS = (
    "class",
    "metric",
    "system",
    "baseline",
    "estimate",
    "difference",
    "raw",
    "std_error",
    "ci_low",
    "ci_high",
    "p_value",
    "n",
    "clusters",
    "missing",
    "level",
    "method",
    "note",
)
WHOLE = ("n", "clusters", "missing")


@verb
def poststratify(
    frame: Any,
    *metrics: Metric,
    by: Columns,
    target: Mapping[Any, float] | Any,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    baseline: Any = None,
    unmatched: Unmatched = "raise",
    level: float = 0.95,
    missing: Missing = "raise",
) -> pl.DataFrame:
    """Every metric at a target mix of slices, beside what it is at the mix of the frame.

    The re-weighted number is the mean of the slices' own values, each with its share of the target:
    a set of half German, half Swahili questions says what a system would score where nine of ten
    are Swahili.

    Parameters
    ----------
    frame, metrics, system, example, trial, cluster, weight, strata, missing
        As in :func:`summary`.
    by
        The column(s) that make the slices.
    target
        The share of every slice: a mapping from its key (a tuple for several columns), or a frame
        with the ``by`` columns and a column ``share``. Shares are known, not estimated; they sum to
        1 and cover all slices that the frame has.
    baseline
        A system: the differences of the others from it are re-weighted then, on the same examples.
    unmatched
        As in :func:`compare`.
    level
        Nominal coverage, between 0 and 1.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        A row per system and metric: the system columns, ``class`` (with ``average=None``),
        ``metric``, ``estimate`` (re-weighted), ``raw`` (of all rows as they are), ``std_error``,
        ``ci_low``, ``ci_high``, ``n``, ``clusters``, ``missing``, ``level``, ``method``, ``note``.
        With a baseline, ``system``, ``baseline``, ``difference`` in place of ``estimate``, and
        ``p_value``. Null where a slice with a share has no value; without errors and limits where
        one is a single row or cluster.

    Raises
    ------
    EvalError
        For shares that do not sum to 1, are negative, leave out a slice of the frame or name one
        that it has not; for metrics without errors; and as :func:`summary` and :func:`compare`.

    Notes
    -----
    Post-stratification: Holt and Smith (1979). Errors are CR2 of the weighted influences, with the
    covariance of clusters that have rows in several slices; a slice that is all alike adds none,
    which ``note`` says. More clusters than memory holds have to be in one slice each (of a system).

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "lang": ["de"] * 6 + ["sw"] * 4,
    ...     "correct": [1, 1, 1, 1, 1, 0] + [1, 0, 0, 0],
    ... })
    >>> found = df.eval.poststratify(fe.rate("correct"), by="lang", target={"de": 0.1, "sw": 0.9})
    >>> found.select(pl.col("raw", "estimate").round(3)).row(0)
    (0.6, 0.308)
    """
    for metric in check_metrics(metrics):
        if not (metric.smooth or metric.quantile is not None):
            raise EvalError(f"{metric.name!r} has no errors, and no mean over slices")
    keys = names(by)
    if not keys:
        raise EvalError("say by=<the columns that make the slices>")
    check_level(level)
    ways = tuple(
        Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)
    )
    shares = _shares(frame, keys, target)
    chosen = slices(list(keys), overall=False)
    asked = _Question(frame, metrics, chosen, ways, shares, level, missing)
    return _summaries(asked) if baseline is None else _differences(asked, baseline, unmatched)


@dataclass(frozen=True)
class _Question:
    """What is asked of a frame, and the share of every slice."""

    frame: Any
    metrics: Sequence[Metric]
    chosen: Slices
    ways: tuple[Roles, ...]
    shares: dict[tuple[Any, ...], float]
    level: float
    missing: Missing

    def mix(self, values: pl.DataFrame) -> Floats:
        """The share of every slice, in the order that they have."""
        return np.array([self.shares[key] for key in values.rows()], float)


def _shares(frame: Any, keys: list[str], target: Any) -> dict[tuple[Any, ...], float]:
    """The share of every slice of the frame, checked."""
    given = result_frame(target, [*keys, "share"])
    if given is not None:
        rows = given.select(*keys, pl.col("share").cast(pl.Float64, strict=False)).rows()
        shares = {row[:-1]: row[-1] for row in rows}
        if len(shares) < len(rows):
            raise EvalError(f"the target has {len(rows) - len(shares)} slices more than once")
    elif isinstance(target, Mapping):
        shares = {key if isinstance(key, tuple) else (key,): v for key, v in target.items()}
    else:
        raise EvalError("target is neither a mapping nor a frame with the by columns and 'share'")
    there = distinct(frame, keys).rows()
    _check_shares(shares, there)
    return shares


def _check_shares(shares: dict[tuple[Any, ...], float], there: list[tuple[Any, ...]]) -> None:
    bad = [key for key, value in shares.items() if not _is_share(value)]
    if bad:
        shown = listing(unwrapped(bad[:3]))
        raise EvalError(f"{len(bad)} shares are not between 0 and 1 (such as that of {shown})")
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise EvalError(f"the target's shares sum to {total:.6g}, not to 1")
    left_out = [key for key in there if key not in shares]
    if left_out:
        shown = listing(unwrapped(left_out[:3]))
        raise EvalError(
            f"{len(left_out)} slices of the frame have no share in the target (such as {shown}); "
            "a share of 0 leaves one out"
        )
    unknown = [key for key, value in shares.items() if value > 0 and key not in there]
    if unknown:
        hint = did_you_mean(unwrapped(unknown[:1])[0], unwrapped(there))
        shown = listing(unwrapped(unknown[:3]))
        raise EvalError(
            f"{len(unknown)} slices of the target have no rows (such as {shown}).{hint}"
        )


def _is_share(given: object) -> bool:
    return isinstance(given, Real) and 0 <= float(given) <= 1


def _summaries(asked: _Question) -> pl.DataFrame:
    """Every metric of every system, re-weighted."""
    frame, metrics, level = asked.frame, asked.metrics, asked.level
    once = len(asked.ways) == 1
    found = measure_ways(frame, metrics, asked.chosen, asked.ways, asked.missing, once=once)
    how = {"moments": False, "apart": True}
    raw = measure(frame, metrics, Slices(), asked.ways[0], asked.missing, **how)
    count, systems = found.found.shape
    share = np.repeat(asked.mix(found.found.slices), systems)
    into = np.where(share > 0, np.tile(np.arange(systems), count), -1)
    blocks = []
    for one, plain in zip(found.metrics, raw.metrics, strict=True):
        linear = in_units(one.metric, one.linear)
        at = mixed(linear, into, share, systems)
        metric = _smooth(one.metric)
        made = intervals(metric, at, "cr2", level, found.clustered)
        there = np.flatnonzero(at.rows + at.missing > 0)
        values = {
            "__fe_group": np.arange(systems),
            "estimate": at.estimate,
            "raw": plain.linear.estimate,
            "std_error": made.std_error,
            "ci_low": made.low,
            "ci_high": made.high,
            "method": _texts(f"post-stratified, {text}" if text else "" for text in made.method),
            "note": _notes(made.note, linear, into, share, systems),
        }
        blocks.append(_block(one.metric, one.label, one.position, at, values, level, there))
    rows = _assembled(blocks)
    return with_keys(_shown(rows), (found.found.systems, rows["__fe_group"].to_numpy()))


def _differences(asked: _Question, baseline: Any, unmatched: Unmatched) -> pl.DataFrame:
    """The differences of every system from the baseline, re-weighted."""
    frame, metrics, ways, level = asked.frame, asked.metrics, asked.ways, asked.level
    found, raw = (
        contrast(frame, metrics, chosen, ways, baseline, True, unmatched, asked.missing)
        for chosen in (asked.chosen, Slices())
    )
    plain = {key: value for one in raw.contrasts for key, value in _plain(one, raw).items()}
    share_of = asked.mix(found.found.slices)
    blocks = []
    for one in found.contrasts:
        assert found.found.cluster_of is not None
        linear = joint(one.metric, one.sides, found.found.cluster_of, found.crossed)
        pairs = len(one.pairs)
        share = np.tile(share_of, pairs)
        into = np.where(share > 0, np.repeat(np.arange(pairs), len(share_of)), -1)
        at = mixed(linear, into, share, pairs)
        result = by_t(at, level)
        first, second = np.array(one.pairs).T
        values = {
            "__fe_group": np.arange(pairs),
            "__fe_a": first,
            "__fe_b": second,
            "difference": at.estimate,
            "raw": np.array([plain[one.position, one.label, pair] for pair in one.pairs]),
            "std_error": result.std_error,
            "ci_low": result.low,
            "ci_high": result.high,
            "p_value": result.p_value,
            "method": _texts(f"post-stratified, {text}" if text else "" for text in result.method),
            "note": _notes(result.note, linear, into, share, pairs),
        }
        blocks.append(
            _block(one.metric, one.label, one.position, at, values, level, np.arange(pairs))
        )
    rows = _assembled(blocks)
    system = found.found.systems.to_series()
    rows = rows.with_columns(
        system[rows["__fe_a"].to_numpy()].alias("system"),
        system[rows["__fe_b"].to_numpy()].alias("baseline"),
    )
    return _shown(rows)


def _plain(one: Contrast, raw: Any) -> dict[tuple[int, Any, tuple[int, int]], float]:
    """The differences of a metric at the mix of the frame, by pair."""
    value = joint(one.metric, one.sides, raw.found.cluster_of).estimate
    return {(one.position, one.label, pair): v for pair, v in zip(one.pairs, value, strict=True)}


def _smooth(metric: Metric) -> Metric:
    """The metric as one whose mean over slices is linearised."""
    return replace(metric, proportion=None, quantile=None, smooth=True)


def _texts(values: Any) -> Any:
    return np.array(list(values), object)


def _notes(notes: Any, found: Linear, into: Ints, share: Floats, mixes: int) -> Any:
    """The notes of the mixes, and how many of their slices have no spread of their own."""
    spread = np.zeros(len(share))
    for sample in found.samples:
        spread += np.bincount(found.group, sample.squares, len(share))
    there, alone = np.isfinite(found.estimate), found.clusters < 2
    flat = there & ~alone & (np.sqrt(spread) <= 1e-12 * np.abs(found.estimate))
    counts = (
        np.bincount(into[(share > 0) & slices], minlength=mixes)
        for slices in (flat, ~there, there & alone)
    )
    texts = []
    for note, alike, without, single in zip(notes, *counts, strict=True):
        parts = [note]
        if single:
            parts = [f"{single} slices have one row or cluster: no error can be estimated"]
        if without:
            parts = [f"{without} slices with a share have no value"]
        if alike:
            parts.append(f"{alike} slices are all alike and add no error")
        texts.append("; ".join(part for part in parts if part))
    return _texts(texts)


def _block(
    metric: Metric,
    label: Any,
    position: int,
    at: Linear,
    values: dict[str, Any],
    level: float,
    there: Ints,
) -> dict[str, Any]:
    size = len(at.estimate)
    columns = {
        **values,
        "__fe_metric": np.full(size, position),
        "class": np.full(size, label, object),
        "metric": np.full(size, metric.name, object),
        "n": at.n.round(),
        "clusters": at.clusters.round(),
        "missing": at.missing.round(),
        "level": np.full(size, level),
    }
    for name in ("method", "note"):
        columns[name] = _texts(text or None for text in columns[name])
    return {name: column[there] for name, column in columns.items()}


def _assembled(blocks: list[dict[str, Any]]) -> pl.DataFrame:
    return joined(blocks, WHOLE, order=("__fe_group", "__fe_metric"))


def _shown(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(name for name in COLUMNS if name in rows.columns)
