"""``curve``: how do rates move with the threshold, or outcomes with the probability?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source, score
from frame_eval.columns import label as label_of
from frame_eval.errors import EvalError, check_option, check_whole
from frame_eval.evaluation import verb
from frame_eval.inference.curves import Flagged, Units, by_group, points_of, reliability
from frame_eval.inference.ranked import sums_of
from frame_eval.metrics.core import Metric, Sums
from frame_eval.metrics.scores import sides
from frame_eval.reduce import Reduced, Roles, Table, reduce
from frame_eval.slices import By, Crossed, Slices, cluster_ways, slices
from frame_eval.verbs.options import check_level, check_names, check_ways
from frame_eval.verbs.results import with_keys

Kind: TypeAlias = Literal[
    "roc", "pr", "det", "threshold", "gain", "risk_coverage", "abstention", "reliability"
]
Strategy: TypeAlias = Literal["uniform", "quantile"]
RATES = (
    *("fpr", "tpr", "fnr", "recall", "precision", "accuracy", "gain", "risk", "observed"),
    *("correct", "wrong", "abstained"),
)
NAMES = (
    *("curve", "threshold", "tp", "fp", "fn", "tn", "f1", "share", "lift", "coverage"),
    *("bin_low", "bin_high", "predicted", "prevalence", "n", "note", "rule", "objective"),
    *(f"{name}{end}" for name in RATES for end in ("", "_low", "_high")),
)
# Kinds that need positives, and negatives.
NEEDS_POSITIVES = ("roc", "pr", "det", "gain")
NEEDS_NEGATIVES = ("roc", "det")


@verb
def curve(
    frame: Any,
    kind: Kind,
    label: Source,
    score: Source,
    *,
    positive: Any = None,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    points: int | None = 1000,
    at_prevalence: float | None = None,
    bins: int = 15,
    strategy: Strategy = "uniform",
    level: float = 0.95,
    missing: Literal["raise", "drop"] = "raise",
) -> pl.DataFrame:
    """A curve over all thresholds of a score, per slice and system, as a long frame.

    A row is flagged where its score is at least the threshold; rows of equal score cross together.

    Parameters
    ----------
    frame
        A long table, as in :func:`summary`.
    kind
        ``"roc"``: ``fpr`` and ``tpr``, linear between points. ``"det"``: ``fpr`` and ``fnr``.
        ``"pr"``: ``recall`` and ``precision``, a step function without an anchor at recall 0, and
        ``prevalence``, the share of positives. ``"threshold"``: the counts ``tp``, ``fp``, ``fn``,
        ``tn``, and ``recall``, ``precision``, ``prevalence``, ``fpr``, ``accuracy``, ``f1``.
        ``"gain"``: ``share`` flagged, ``gain`` (the share of positives among them) and ``lift``.
        ``"risk_coverage"``: ``coverage``, the share kept, and
        ``risk``, the share of errors among it, for a label that says what is correct and a
        confidence as score. ``"abstention"``: the same with the shares of all rows that are
        ``correct``, ``wrong`` and ``abstained``, and ``accuracy`` among those kept.
        ``"reliability"``: ``predicted``, the mean probability in a bin, and
        ``observed``, its share of positives, with ``bin_low`` and ``bin_high``.
    label
        A label column: boolean, 0/1, or any with ``positive``.
    score
        A numeric column, larger for more positive; a probability for ``"reliability"``.
    positive
        The positive class; True or 1 by default.
    by, system, cluster, weight, strata, overall
        As in :func:`summary`; every row counts alike.
    example, trial
        With ``trial`` the rows of an example are a cluster, where ``cluster`` names none.
    points
        The most thresholds of a curve, at least 50; None for all. Between those that are kept,
        recall, false positive rate and the logarithm of the number of flagged rows each move by
        less than 6 / (points - 2) of their range, unless rows are tied; so the area between the
        kept and the whole ROC curve is at most 3 / (points - 2). First and last stay.
    at_prevalence
        Restate the curve for a population in which this share is positive.
    bins, strategy
        For ``"reliability"``: bins of equal width, (lo, hi] with 0 in the first, or with
        ``"quantile"`` of equal weight, whose ends are then the scores in them.
    level
        Of the pointwise bands, ``<rate>_low`` and ``<rate>_high``: the interval that
        :func:`summary` has for the rate at that threshold, Wilson's on the count behind it, or with
        clusters (also :func:`crossed` ones) or weights on the effective size. Null at another
        prevalence. Bands over many clusters (or different weights) take time in proportion to
        ``points``.
    missing
        Null or NaN in label or score: ``"raise"`` or ``"drop"``.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        The slice keys, the system columns, ``curve`` (its kind), ``threshold`` in descending order
        (the bin for ``"reliability"``), the rates with their bands, ``n`` (the rows flagged, kept
        or in the bin) and ``note``. A threshold of infinity flags nothing. Undefined is null, with
        the reason in ``note``.

    Raises
    ------
    EvalError
        For an unknown kind, scores outside [0, 1] with ``"reliability"``, and as :func:`summary`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "p": [0.9, 0.8, 0.8, 0.1]})
    >>> df.eval.curve("roc", "y", "p").select("threshold", "fpr", "tpr").rows()
    [(inf, 0.0, 0.0), (0.9, 0.0, 0.5), (0.8, 0.5, 1.0), (0.1, 1.0, 1.0)]
    """
    check_option("kind", kind, get_args(Kind))
    check_option("strategy", strategy, get_args(Strategy))
    check_option("missing", missing, ("raise", "drop"))
    check_points(points)
    check_whole("bins", bins, 1)
    _check_prevalence(kind, at_prevalence)
    check_level(level)
    ways = roles_of_rows(system, example, trial, cluster, weight, strata)
    grouped = bool(ways[0].cluster or ways[0].strata) or weight is not None
    found = at_thresholds(
        frame, label, score, positive, by, ways, overall=overall, missing=missing, tabled=grouped
    )
    blocks = []
    for group, sums, units in groups_of(found, ("pos", "neg") if grouped else ()):
        if kind == "reliability":
            columns = reliability(sums, bins, strategy, level, counted=not grouped, units=units)
        else:
            flagged = Flagged.of(sums, counted=not grouped, units=units)
            if at_prevalence is not None:
                flagged = flagged.at_prevalence(at_prevalence)
            columns = points_of(kind, flagged, points, level)
        blocks.append((group, columns, note_of(kind, sums)))
    return assembled(found[0], blocks, kind)


def roles_of_rows(
    system: Columns | None,
    example: Columns | None,
    trial: Columns | None,
    cluster: Columns | Crossed | None,
    weight: Source | None,
    strata: Columns | None,
) -> list[Roles]:
    """Roles of which every row counts alike, the trials of an example being a cluster.

    Of crossed clusters the roles of each way, and of both together.
    """
    repeated = Roles.of(system, example, trial, None, weight).trial
    units = example if cluster is None and repeated else cluster
    ways = [Roles.of(system, None, None, way, weight, strata) for way in cluster_ways(units)]
    check_ways(ways)
    return ways


def at_thresholds(
    frame: Any,
    label: Source,
    scores: Source,
    positive: Any,
    by: By,
    ways: Sequence[Roles],
    *,
    overall: bool,
    missing: str,
    tabled: bool = False,
) -> list[Reduced]:
    """Positives and negatives at every distinct score of every slice and system.

    With ``tabled`` also of every unit, in each of the ``ways``.
    """
    chosen = slices(by, overall)
    check_names((*chosen.shown, *ways[0].system), NAMES)
    counts = Metric(
        "counts",
        {"y": label_of(label, positive), "s": score(scores)},
        sides,
        sides,
        cells=("s",),
        ordered=True,
        counts=True,
    )
    how = {"missing": missing, "moments": tabled, "tabled": tabled}
    return in_ways(frame, counts, chosen, ways, **how)


def in_ways(
    frame: Any, metric: Metric, chosen: Slices, ways: Sequence[Roles], **how: Any
) -> list[Reduced]:
    """One metric of a frame by the units of each way."""
    return [reduce(frame, [metric], chosen, roles, **how) for roles in ways]


def groups_of(
    found: Sequence[Reduced], of_units: Sequence[str] = ()
) -> Iterator[tuple[int, Sums, Units | None]]:
    """The sums of every slice and system that has rows; and those ``of_units``, if any."""
    first, systems = found[0].tables[0], found[0].shape[1]
    if isinstance(first, Table):
        ways = [by_group(one.tables[0], systems, of_units) for one in found]
        for same in zip(*ways, strict=True):
            group, sums, _ = same[0]
            yield group, sums, Units(tuple(way for *_, way in same)) if of_units else None
    else:
        for group, sums in sums_of(first):
            yield group, sums, None


def assembled(
    found: Reduced, blocks: Sequence[tuple[int, Mapping[str, Any], str | None]], kind: str
) -> pl.DataFrame:
    """The columns of all groups below one another, with the keys in front."""
    lengths = [len(columns["n"]) for _, columns, _ in blocks]
    if not blocks:
        raise EvalError("no row of any slice has a label and a score: there is no curve")
    names = blocks[0][1]
    rows = pl.DataFrame(
        {
            "curve": pl.Series([kind], dtype=pl.String).new_from_index(0, sum(lengths)),
            **{name: np.concatenate([columns[name] for _, columns, _ in blocks]) for name in names},
            "note": pl.Series(
                np.repeat(np.array([note for *_, note in blocks], object), lengths).tolist(),
                dtype=pl.String,
            ),
        }
    ).with_columns(pl.col(pl.Float64).fill_nan(None))
    rows = rows.with_columns(pl.col("n").round().cast(pl.Int64))
    group = np.repeat([group for group, *_ in blocks], lengths)
    systems = found.shape[1]
    return with_keys(rows, (found.slices, group // systems), (found.systems, group % systems))


def note_of(kind: str, sums: Any) -> str | None:
    """Why a curve has no rates."""
    if not (sums.pos.sum() or sums.neg.sum()):
        return "no rows"
    if kind in NEEDS_POSITIVES and not sums.pos.sum():
        return "no positives"
    if kind in NEEDS_NEGATIVES and not sums.neg.sum():
        return "no negatives"
    return None


def _check_prevalence(kind: str, given: object) -> None:
    if given is None:
        return
    if kind == "reliability" or not isinstance(given, Real) or not 0 < float(given) < 1:
        raise EvalError(f"at_prevalence={given!r} is for thresholds, and between 0 and 1")


def check_points(points: object) -> None:
    """Raise unless it is a number of points that a curve can be thinned to, or None."""
    if points is not None and (not isinstance(points, int) or points < 50):
        raise EvalError(f"points={points!r} is neither None nor a whole number of at least 50")
