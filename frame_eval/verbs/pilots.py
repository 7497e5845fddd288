"""The pilots of a plan: results in a frame, measured by slice and pair of systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from frame_eval.inference import simulate as simulation
from frame_eval.inference.paired import joint
from frame_eval.inference.pilot import Pilot, pilot_of_pairs, pilot_of_rows, pilot_of_two
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles
from frame_eval.slices import Slices
from frame_eval.verbs.contrast import contrast, names_of
from frame_eval.verbs.matching import Unmatched
from frame_eval.verbs.measured import measure
from frame_eval.verbs.options import Missing
from frame_eval.verbs.results import with_keys


@dataclass(frozen=True)
class Pilots:
    """One metric of a pilot by group, with the key columns of the groups that have rows."""

    keys: Mapping[str, Any]
    pilot: Pilot
    there: Any
    simulation: Callable[..., float] | None


@dataclass(frozen=True)
class Found:
    """All pilots of a frame; ``keyed`` puts the keys of their groups before rows about them."""

    blocks: Sequence[Pilots]
    order: Sequence[str]
    keyed: Callable[[pl.DataFrame], pl.DataFrame]


def pilots_of_pairs(
    frame: Any,
    metrics: Sequence[Metric],
    chosen: Slices,
    roles: Roles,
    baseline: Any,
    paired: bool,
    unmatched: Unmatched,
    missing: Missing,
) -> Found:
    """The pilots of pairs of systems."""
    compared = contrast(frame, metrics, chosen, [roles], baseline, paired, unmatched, missing)
    found = compared.found
    blocks = []
    for one in compared.contrasts:
        resampled = None
        if paired:
            assert found.cluster_of is not None
            pilot = pilot_of_pairs(one.metric, one.sides, found.cluster_of)
            resampled = partial(
                simulation.power_of_clusters, joint(one.metric, one.sides, found.cluster_of)
            )
        else:
            pilot = pilot_of_two(one.metric, one.sides)
        groups = len(pilot.n)
        per_pair = groups // len(one.pairs)
        of_a, of_b = np.repeat(np.array(one.pairs), per_pair, axis=0).T
        keys = {
            "__fe_slice": np.arange(groups) % per_pair,
            "__fe_metric": np.full(groups, one.position),
            "class": np.full(groups, one.label, object),
            "metric": np.full(groups, one.metric.name, object),
            "__fe_a": of_a,
            "__fe_b": of_b,
        }
        blocks.append(Pilots(keys, pilot, one.present, resampled))

    def keyed(rows: pl.DataFrame) -> pl.DataFrame:
        names = names_of(found.systems)
        rows = rows.with_columns(
            names[rows["__fe_a"].to_numpy()].alias("system"),
            names[rows["__fe_b"].to_numpy()].alias("baseline"),
        )
        return with_keys(rows, (found.slices, rows["__fe_slice"].to_numpy()))

    return Found(blocks, ("__fe_slice", "__fe_metric", "class", "__fe_b", "__fe_a"), keyed)


def pilots_of_rows(
    frame: Any, metrics: Sequence[Metric], chosen: Slices, roles: Roles, missing: Missing
) -> Found:
    """The pilots of single systems."""
    measured = measure(frame, metrics, chosen, roles, missing)
    blocks = []
    for one in measured.metrics:
        groups = len(one.linear.estimate)
        keys = {
            "__fe_group": np.arange(groups),
            "__fe_metric": np.full(groups, one.position),
            "class": np.full(groups, one.label, object),
            "metric": np.full(groups, one.metric.name, object),
        }
        pilot = pilot_of_rows(one.metric, one.linear)
        resampled = partial(simulation.power_of_clusters, one.linear)
        blocks.append(Pilots(keys, pilot, one.there, None if one.linear.singles else resampled))

    def keyed(rows: pl.DataFrame) -> pl.DataFrame:
        found, group = measured.found, rows["__fe_group"].to_numpy()
        per_slice = found.shape[1]
        return with_keys(
            rows, (found.slices, group // per_slice), (found.systems, group % per_slice)
        )

    return Found(blocks, ("__fe_group", "__fe_metric", "class"), keyed)
