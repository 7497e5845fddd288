"""``compare``: does a system differ from the baseline on the same examples, per slice?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, check_option, did_you_mean
from frame_eval.evaluation import verb
from frame_eval.inference import adjust as adjusting
from frame_eval.inference import bootstrap
from frame_eval.inference import paired as differences
from frame_eval.inference.paired import METHODS, Method
from frame_eval.inference.simultaneous import Family
from frame_eval.inference.summed import METHODS as SUMMABLE
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles, codes
from frame_eval.slices import By, Crossed, cluster_ways, names, slices
from frame_eval.verbs.contrast import COLUMNS, contrast
from frame_eval.verbs.matching import Unmatched
from frame_eval.verbs.options import Missing, check_draws, check_level, check_metrics


@verb
def compare(
    frame: Any,
    *metrics: Metric,
    system: Columns | None = None,
    example: Columns | None = None,
    baseline: Any = None,
    by: By = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    paired: bool = True,
    unmatched: Unmatched = "raise",
    method: Method = "auto",
    level: float = 0.95,
    missing: Missing = "raise",
    adjust: adjusting.Method | None = "holm",
    family: Columns | None = None,
    simultaneous: bool = False,
    margin: float | None = None,
    mde: bool = False,
    resamples: int = 9999,
    seed: int = 0,
) -> pl.DataFrame:
    """The difference of every system to the baseline, in every slice, on the same examples.

    Parameters
    ----------
    frame
        A long table with a row per (system, example), or per trial of it.
    metrics
        Metrics of the catalogue or your own.
    system
        The column(s) that say which system produced the row; required.
    example
        The column(s) on which systems are paired; required unless ``paired=False``.
    baseline
        The value of ``system`` that the others are compared with; None compares all pairs.
    by, trial, cluster, weight, strata, overall, missing
        As in :func:`summary`. ``missing="drop"`` drops an example for both systems.
    paired
        False compares systems that answered different examples.
    unmatched
        Examples that only one of two systems answered: ``"raise"``, or ``"drop"`` (and say so in
        ``note``).
    method
        ``"auto"``: for 0/1 pairs without clusters or weights McNemar's score test with Tango's
        interval, else the difference of influences with CR2 errors on Satterthwaite's degrees of
        freedom (a paired t-test without clusters). ``"exact"``, ``"mid-p"`` and ``"corrected"``
        give p-values only. ``"t"``, ``"cr0"``, ``"cr1"``, ``"cr2"``. None: differences only. With
        ``paired=False`` the score test with the interval of Miettinen and Nurminen, else Welch;
        ``"unpooled"`` and ``"pooled"`` (p only) are the textbook z-tests of two rates.
        ``"bootstrap"`` (the same as ``"percentile"``), ``"basic"``, ``"bca"`` and
        ``"studentized"`` resample examples or clusters, the same ones for both systems.
        ``"permutation"`` (p only) exchanges the systems within examples or clusters, or, unpaired,
        examples or clusters between systems; exactly, where there are few ways. ``"wild"`` (p
        only) is the null-imposed wild cluster bootstrap, for few clusters (five or fewer can not
        reject at 5 %, nor can permutations of them). ``"wilcoxon"`` tests the signed ranks of
        single examples, with the Hodges-Lehmann estimate as ``difference``.
    level
        Nominal coverage, between 0 and 1.
    adjust
        For ``p_adjusted``: ``"holm"``, ``"bh"``, ``"by"``, ``"bonferroni"`` or None.
    family
        Result columns whose equal values make a family of tests; by default each metric's slices
        x systems are one, and overall rows one of their own.
    simultaneous
        Whether the intervals of a metric hold for all its slices and pairs at once;
        ``p_adjusted`` then belongs to them, instead of to ``adjust`` and ``family``.
    margin
        The difference (positive, in the unit of the metric) that would still do: adds the one-sided
        ``p_noninferior`` of being worse by the margin, and ``p_equivalent`` of being beyond it in
        either direction.
    mde
        Whether to add the achieved minimum detectable effect: the true difference that this test
        on as many examples finds with a power of 80 %.
    resamples, seed
        As in :func:`summary`.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        Columns: the slice keys, ``class`` (with ``average=None``), ``metric``, ``system``,
        ``baseline``, ``estimate``, ``baseline_estimate``, ``difference``, ``std_error``,
        ``ci_low``, ``ci_high``, ``p_value``, ``p_adjusted``, ``wins``, ``losses``, ``ties`` (of
        single examples, where they have a meaning), ``n`` (the examples behind the difference),
        ``clusters``, ``missing``, ``level``, ``method``, ``note``. The interval excludes 0
        exactly when ``p_value`` < 1 - ``level``. Undefined is null with the reason in ``note``.

    Raises
    ------
    EvalError
        When the baseline is not there or there is one system only, for examples that are not
        matched or not common, repeated rows without ``trial``, weights that differ within a pair,
        an example in two clusters, and as :func:`summary`.

    Notes
    -----
    McNemar (1947), Tango (1998), Miettinen and Nurminen (1985), Bell and McCaffrey (2002), Holm
    (1979).

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "model": ["old"] * 4 + ["new"] * 4,
    ...     "id": [1, 2, 3, 4] * 2,
    ...     "correct": [1, 0, 0, 0, 1, 1, 1, 0],
    ... })
    >>> result = fe.compare(df, fe.rate("correct"), system="model", example="id", baseline="old")
    >>> result.select("system", "difference", "wins", "losses").row(0)
    ('new', 0.5, 2, 0)
    """
    check_option("method", method, METHODS)
    check_option("adjust", adjust, (*adjusting.METHODS, None))
    chosen = slices(by, overall)
    if isinstance(cluster, Crossed):
        _check_crossed(method)
    ways = [Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)]
    drawn = method in differences.RESAMPLING
    for metric in check_metrics(metrics):
        if method in bootstrap.KINDS:
            bootstrap.check_bootstrap(metric, str(method))
    _check_margin(metrics, method, margin)
    draws = check_draws(resamples, seed)
    found = contrast(
        frame,
        metrics,
        chosen,
        ways,
        baseline,
        paired,
        unmatched,
        missing,
        alike=drawn,
        whole=simultaneous or method == "wilcoxon",
        large=method in SUMMABLE,
    )
    if simultaneous:
        if drawn or method is None or family is not None:
            raise EvalError("simultaneous=True goes with analytic methods, and without family=")
        families = found.families(draws)
        check_level(level)
        rows = found.table(method, level, draws=draws, families=families, margin=margin)
        adjusted = _simultaneous(rows, families, [metric.name for metric in metrics])
    else:
        rows = found.table(method, check_level(level), draws=draws, margin=margin)
        adjusted = _adjusted(rows, adjust, family, method, chosen.is_whole(rows))
    rows = rows.hstack([adjusted])
    there = rows.columns
    order = [name for name in there if name not in COLUMNS]
    order += [name for name in COLUMNS if name in there and (mde or name != "mde")]
    return rows[order]


def _check_crossed(method: Method) -> None:
    if method not in ("auto", "cr0", "cr1", "cr2", None):
        raise EvalError(f"crossed clusters go with method='auto', 'cr1' or 'cr2', not {method!r}")


def _check_margin(metrics: Sequence[Metric], method: Method, margin: float | None) -> None:
    if margin is None:
        return
    given: object = margin
    if not isinstance(given, (int, float)) or not given > 0:
        raise EvalError(f"margin={margin!r} is not a positive number")
    if method not in differences.WITH_LIMITS:
        raise EvalError(f"margin= goes with analytic intervals, which method={method!r} has not")
    for metric in metrics:
        if metric.better is None:
            raise EvalError(
                f"{metric.name!r} does not say which direction is worse; give it better='higher' "
                "or 'lower'"
            )


def _simultaneous(
    rows: pl.DataFrame, families: Mapping[int, Family], metrics: Sequence[str]
) -> pl.Series:
    """p-values adjusted within the family of each metric's intervals."""
    p = rows["p_value"].to_numpy()
    adjusted = np.full(len(p), np.nan)
    for position, family in families.items():
        own = (rows["metric"] == metrics[position]).to_numpy()
        adjusted[own] = family.adjusted(p[own])
    return pl.Series("p_adjusted", adjusted, nan_to_null=True)


def _adjusted(
    rows: pl.DataFrame,
    adjust: adjusting.Method | None,
    family: Columns | None,
    method: Method,
    whole: npt.NDArray[np.bool_],
) -> pl.Series:
    """p-values adjusted within their families; one that the data could not give counts as 1."""
    if family is None:
        keys = list(zip(rows["metric"], whole.tolist(), strict=True))
        number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        code = np.array([number[key] for key in keys], np.int64)
    else:
        wanted = names(family)
        for name in wanted:
            if name not in rows.columns:
                hint = did_you_mean(name, rows.columns)
                raise EvalError(f"family {name!r} is not a column of the result.{hint}")
        code = codes(rows, wanted)[0]
    p = rows["p_value"].to_numpy()
    undefined = np.isnan(p) & (method is not None)
    adjusted = adjusting.adjust_families(p, code, adjust, undefined)
    return pl.Series("p_adjusted", adjusted, nan_to_null=True)
