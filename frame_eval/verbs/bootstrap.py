"""``bootstrap``: the replicates behind a bootstrap, for a statistic of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError
from frame_eval.evaluation import verb
from frame_eval.inference.bootstrap import joint_replicates
from frame_eval.inference.linear import group_codes
from frame_eval.inference.urns import kinds_of
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles
from frame_eval.slices import By, slices
from frame_eval.verbs.measured import measure
from frame_eval.verbs.options import Missing, check_draws, check_metrics, check_names
from frame_eval.verbs.results import joined, with_keys

COLUMNS = ("class", "metric", "replicate", "resampled", "estimate")


@verb
def bootstrap(
    frame: Any,
    *metrics: Metric,
    by: By = None,
    system: Columns | None = None,
    example: Columns | None = None,
    trial: Columns | None = None,
    cluster: Columns | None = None,
    weight: Source | None = None,
    strata: Columns | None = None,
    overall: bool = False,
    missing: Missing = "raise",
    resamples: int = 9999,
    seed: int = 0,
) -> pl.DataFrame:
    """The replicates of every metric, for every slice and system, from one set of drawn units.

    All slices, systems and metrics of a replicate are of the same drawn clusters (or examples), so
    that any function of them has its bootstrap distribution: the difference or ratio of two
    metrics, an average over benchmarks, a rank.

    Parameters
    ----------
    frame, metrics, by, system, example, trial, cluster, weight, strata, overall, missing
        As in :func:`summary`. Clusters are drawn, else examples, else rows; within each of the
        strata as many as there are.
    resamples, seed
        How often to draw (at least 100), and the seed of the generator.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        Columns: the slice keys, the system columns, ``class`` (with ``average=None``), ``metric``,
        ``replicate`` (from 1), ``resampled`` (the metric of the drawn units; null where undefined)
        and ``estimate`` (of the frame as it is, the same in every replicate). Sorted by slice,
        system, metric and replicate.

    Raises
    ------
    EvalError
        As :func:`summary`; and for several metrics without ``example`` or ``cluster``, whose
        replicates could not be of the same rows.

    Notes
    -----
    Efron (1979); with clusters Davison and Hinkley (1997), section 3.8.

    Examples
    --------
    An average over two benchmarks, weighing them alike, with its interval:

    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "bench": ["qa"] * 6 + ["code"] * 4,
    ...     "id": range(10),
    ...     "correct": [1, 1, 0, 1, 1, 0, 1, 0, 0, 1],
    ... })
    >>> draws = df.eval.bootstrap(fe.rate("correct"), by="bench", example="id", resamples=999)
    >>> average = draws.group_by("replicate").agg(pl.col("resampled", "estimate").mean())
    >>> round(average["estimate"][0], 3)
    0.583
    >>> average["resampled"].quantile(0.025) < 0.583 < average["resampled"].quantile(0.975)
    True
    """
    chosen = slices(by, overall)
    roles = Roles.of(system, example, trial, cluster, weight, strata)
    if len(check_metrics(metrics)) > 1 and not roles.unit:
        raise EvalError(
            "say example= or cluster=: replicates of several metrics have to be of the same units"
        )
    draws = check_draws(resamples, seed)
    check_names((*chosen.shown, *roles.system), COLUMNS)
    found = measure(frame, metrics, chosen, roles, missing, moments=False, alike=True)
    groups = [np.flatnonzero(one.there) for one in found.metrics]
    if not any(map(len, groups)):
        raise EvalError("no slice has rows: there is nothing to draw")
    kinds = [
        kinds_of(
            one.metric,
            one.linear.table,
            one.linear.totals,
            group_codes(one.linear.table, one.linear.systems),
            one.linear.table.unit,
            one.linear.table.strata,
        )
        for one in found.metrics
    ]
    values = joint_replicates(kinds, groups, draws)
    blocks = []
    for one, wanted, drawn in zip(found.metrics, groups, values, strict=True):
        size = drawn.size
        blocks.append(
            {
                "__fe_group": np.repeat(wanted, resamples),
                "__fe_metric": np.full(size, one.position),
                "class": np.full(size, one.label, object),
                "metric": np.full(size, one.metric.name, object),
                "replicate": np.tile(np.arange(1, resamples + 1), len(wanted)),
                "resampled": drawn.T.ravel(),
                "estimate": np.repeat(one.linear.estimate[wanted], resamples),
            }
        )
    rows = joined(blocks, (), order=("__fe_group", "__fe_metric"))
    group, systems = rows["__fe_group"].to_numpy(), found.found.shape[1]
    return with_keys(
        rows.select(name for name in COLUMNS if name in rows.columns),
        (found.found.slices, group // systems),
        (found.found.systems, group % systems),
    )
