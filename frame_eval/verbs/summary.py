"""``summary``: what is each metric, per slice, with an interval?"""

from __future__ import annotations

from typing import Any

import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, check_option
from frame_eval.evaluation import verb
from frame_eval.inference import bootstrap
from frame_eval.inference.intervals import INTERVALS, Interval, choose
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles
from frame_eval.slices import By, Crossed, cluster_ways, slices
from frame_eval.verbs.measured import measure_ways
from frame_eval.verbs.options import Missing, check_draws, check_level, check_metrics


@verb
def summary(
    frame: Any,
    *metrics: Metric,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | Crossed | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    interval: Interval = "auto",
    level: float = 0.95,
    missing: Missing = "raise",
    simultaneous: bool = False,
    details: bool = False,
    resamples: int = 9999,
    seed: int = 0,
) -> pl.DataFrame:
    """Every metric in every slice, for every system, with an interval that respects clusters.

    Parameters
    ----------
    frame
        A long table: a row per (system, example), or per trial of it. pandas, Polars (eager or
        lazy), Arrow, DuckDB, Spark, Dask, or an :class:`Evaluation`.
    metrics
        Metrics of the catalogue or your own.
    by
        Slice keys: a column, a list (intersections), :func:`each`, :func:`cube` or :func:`where`.
    system
        The column(s) that say which system produced the row.
    example
        The column(s) that identify what was asked; each is one independent unit.
    trial
        The column(s) that tell repeated rows of one example apart; every example then counts the
        same, however many trials it has.
    cluster
        The column(s) that identify what was sampled independently, such as documents or users;
        default the example if given, else the row. :func:`crossed` for two ways at once, with
        analytic intervals.
    weight
        A column of probability weights: scale-free, ``n`` stays the number of rows.
    strata
        The column(s) within which clusters (or examples, or rows) were sampled, so many from each:
        errors are taken within strata (Cochran 1977), and the bootstrap draws within them.
    overall
        Whether to add the whole frame as slice ``"overall"`` (in columns ``slice`` and ``value``).
    interval
        ``"auto"``: Wilson for proportions (on the effective size when there are clusters), order
        statistics for quantiles, linearised errors (CR2) with Satterthwaite's degrees of freedom
        for the rest. By name: ``"wilson"``, ``"wald"``, ``"clopper-pearson"``, ``"jeffreys"``,
        ``"korn-graubard"`` for proportions; ``"t"``, ``"cr0"``, ``"cr1"``, ``"cr2"``; of clusters,
        examples or rows resampled, ``"bootstrap"`` (the same as ``"percentile"``), ``"basic"``,
        ``"bca"``, ``"studentized"``. None: none.
    level
        Nominal coverage, between 0 and 1.
    missing
        Null or NaN among a metric's inputs: ``"raise"``, ``"drop"`` (and count), or ``"worst"``
        (counts as the metric's worst value).
    simultaneous
        Whether the intervals of a metric hold for all its slices and systems at once: by signs on
        clusters, or, of more clusters than memory holds, by normal draws with the covariance of
        slices (Sidak above 200), which agree but for the error of the draws. ``method`` says which.
    details
        Whether to lay clusters open, in columns ``design_effect``, ``icc``, ``n_effective``,
        ``df`` and ``cluster_mean`` (the mean over clusters of each cluster's own value, beside the
        estimate over rows).
    resamples, seed
        How often a bootstrap draws (at least 100), and the seed of its generator: the same frame
        in any order, on any engine, has the same draws. Of more units than the memory holds it
        takes sums that are whole numbers, such as counts, or prices in cents.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        pandas for pandas, Polars for the rest. Columns: the slice keys, the system columns,
        ``class`` (with ``average=None``), ``metric``, ``estimate``, ``std_error``, ``ci_low``,
        ``ci_high``, ``n`` (the rows behind the estimate), ``clusters`` (the independent units),
        ``missing``, ``level``, ``method``, ``note``. Sorted by its keys. Undefined is null, with
        the reason in ``note``.

    Raises
    ------
    EvalError
        For a missing column, an empty frame, an unknown option, nulls, invalid weights, repeated
        rows without ``trial``, names that collide, or a metric that does not fit its column.

    Notes
    -----
    Clustered errors: Bell and McCaffrey (2002), Imbens and Kolesar (2016). Wilson (1927); on an
    effective size Korn and Graubard (1998), with the design effect at least what weights (Kish
    1965) and one correlation in all clusters imply (Franco, Little, Louis and Slud 2019). Bootstrap
    intervals: Efron (1987), Davison and Hinkley (1997); limits are order statistics of the
    replicates. Measured coverage of the defaults is in ``benchmarks/coverage.md``: 93.5 % and more
    with ten effective failures.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "lang": ["de", "de", "de", "sw", "sw"],
    ...     "correct": [1, 1, 0, 1, 0],
    ... })
    >>> result = fe.summary(df, fe.rate("correct"), by="lang")
    >>> result.select("lang", "estimate", "n").rows()
    [('de', 0.6666666666666666, 3), ('sw', 0.5, 2)]
    """
    check_option("interval", interval, INTERVALS)
    for metric in check_metrics(metrics):
        choose(metric, interval)
    chosen = slices(by, overall)
    roles = [Roles.of(system, example, trial, way, weight, strata) for way in cluster_ways(cluster)]
    drawn = interval in bootstrap.KINDS
    if simultaneous and (drawn or interval is None):
        raise EvalError(f"simultaneous=True goes with analytic intervals, not {interval!r}")
    if details and drawn:
        raise EvalError(f"details=True goes with analytic intervals, not {interval!r}")
    if len(roles) > 1 and (drawn or details):
        raise EvalError("crossed clusters go with analytic intervals, and without details")
    moments = details or (interval is not None and not drawn)
    apart = not (details or len(roles) > 1 or (simultaneous and strata is not None))
    how = {"moments": moments, "alike": drawn, "tabled": details, "apart": apart}
    how["joint"] = simultaneous
    found = measure_ways(frame, metrics, chosen, roles, missing, **how)
    draws = check_draws(resamples, seed)
    check_level(level)
    families = found.families(draws) if simultaneous else None
    return found.table(interval, level, draws=draws, families=families, laid_open=details)
