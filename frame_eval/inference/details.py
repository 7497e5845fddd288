"""What clusters do to a number: design effect, correlation, effective size, degrees of freedom."""

from __future__ import annotations

import numpy as np

from frame_eval.inference.linear import Linear, added, group_codes
from frame_eval.inference.urns import Additive, kinds_of, urn
from frame_eval.inference.variance import cr2, intraclass
from frame_eval.metrics.core import Metric
from frame_eval.table import Floats

DETAILS = ("design_effect", "icc", "n_effective", "df", "cluster_mean")


def details(metric: Metric, found: Linear) -> dict[str, Floats]:
    """The details of every group; NaN where the data do not say.

    ``design_effect`` is the (CR2) variance over that of as many independent rows; ``icc`` the ANOVA
    intra-cluster correlation of the linearised rows, clipped to [0, 1]; ``n_effective`` is n over
    the design effect, at most n (the interval of a rate goes by fewer where that correlation asks
    for it, and its ``method`` names them); ``df`` Satterthwaite's degrees of freedom;
    ``cluster_mean`` the mean over clusters of each cluster's own value, which every cluster weighs
    alike: where it is far from the estimate, the size of a cluster says something about it.
    """
    groups = len(found.estimate)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = cr2(found)
        rows = np.zeros(groups)
        for sample in found.samples:
            if found.singles:
                rows += added(found.group, sample.squares, groups)
            else:
                between = np.where(sample.size > 0, sample.influence**2 / sample.size, 0.0)
                rows += added(found.group, between, groups) + sample.within
        effect = variance.value / (rows * found.n / (found.n - 1))
        # Without any variation there is nothing that clusters could do.
        effect = np.where(rows > 0, effect, np.nan)
        icc = intraclass(found.samples[0], found.group, groups)
    return {
        "design_effect": effect,
        "icc": np.where(np.isfinite(effect), icc, np.nan),
        "n_effective": found.n / np.maximum(effect, 1.0),
        "df": variance.df,
        "cluster_mean": _cluster_means(metric, found),
    }


def _cluster_means(metric: Metric, found: Linear) -> Floats:
    """The mean over units of the metric of each unit alone, as far as it is defined."""
    means = np.full(len(found.estimate), np.nan)
    if found.source is None or metric.ordered or found.singles:
        return means
    table = found.source
    group = group_codes(table, found.systems)
    kinds = kinds_of(metric, table, found.totals, group, table.unit, None)
    for i in np.flatnonzero(np.isfinite(found.estimate)):
        units = urn(kinds, [int(i)], merged=False)
        assert isinstance(units, Additive)
        values = units.of_totals(units.matrix)[:, 0]
        if np.isfinite(values).any():
            means[i] = np.nanmean(values)
    return means
