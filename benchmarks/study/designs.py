"""Cells of two designs of a sample: within strata, and of items that several raters saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy import special

import frame_eval as fe
from benchmarks.study import usual
from benchmarks.study.cells import (
    FULL,
    OURS,
    Cell,
    Effort,
    Score,
    at_once,
    covered,
    limits_of,
    oracle_of,
    promised,
)
from benchmarks.study.laws import rated, ratings, rows_of, values
from benchmarks.study.usual import Limits

LEAST = 0.935
SLICES = 10
WAYS = fe.crossed("cluster", "rater")


def stratified(
    kind: str,
    strata: int,
    sizes: tuple[int, ...],
    p: float = 0.5,
    icc: float = 0.0,
    effort: Effort = FULL,
) -> Cell:
    """Coverage for a rate or mean of as many clusters (or rows) from each of the strata.

    Strata are one standard deviation of a row apart from the middle one at most; ``p`` is the rate
    in the middle.
    """
    rows, clustered = sum(sizes), max(sizes) > 1
    name = f"{kind}, {strata} strata of {len(sizes) // strata} {_units(clustered)}"
    name += f", p = {p:g} in the middle" * (kind == "rate") + f", ICC {icc:g}" * clustered
    rng = np.random.default_rng([*b"strata", *name.encode()])
    stratum = np.arange(len(sizes)) % strata
    x, truth = _of_kind(kind, values(rng, effort.of(rows, 2), sizes, icc), stratum, sizes, p)
    frame = rows_of(x, sizes).with_columns(stratum=pl.col("cluster") % strata)
    metric = fe.rate("x") if kind == "rate" else fe.mean("x")
    roles: Any = {"by": "replicate", "cluster": "cluster"} if clustered else {"by": "replicate"}
    found = x.mean(1)
    made: dict[str, Limits] = {
        OURS: limits_of(frame.eval.summary(metric, strata="stratum", **roles)),
        "without strata (ours)": limits_of(frame.eval.summary(metric, **roles)),
        "normal": usual.normal(found, x.std(1, ddof=1) / np.sqrt(rows)),
    }
    if clustered:
        sums = np.add.reduceat(x - found[:, None], np.cumsum(sizes) - sizes, axis=1)
        errors = usual.cr1_error(sums, np.array(rows))
        made["CR1, t"] = usual.cr1(found, errors, len(sizes))[1]
    return _cell(kind, name, truth, found, made)


def crossed(
    kind: str,
    shape: tuple[int, int, int],
    p: float = 0.5,
    iccs: tuple[float, float] = (0.2, 0.1),
    effort: Effort = FULL,
) -> Cell:
    """Coverage for a rate or mean of items that raters saw, both with an effect of their own.

    The ``shape`` says how many items and raters there are, and how many raters see an item; the
    ICCs are those of rows of an item and of a rater (of the latent normal).
    """
    name = _crossed_name(kind, shape, p, iccs)
    rng = np.random.default_rng([*b"crossed", *name.encode()])
    item, rater = ratings(*shape)
    x, truth = _rated(kind, rng, effort.of(len(item), 4), (item, rater), p, iccs)
    frame = _rows(x, item, rater)
    metric = fe.rate("x") if kind == "rate" else fe.mean("x")
    made: dict[str, Limits] = {
        OURS: limits_of(frame.eval.summary(metric, by="replicate", cluster=WAYS))
    }
    for way, of in (("items", "cluster"), ("raters", "rater")):
        one = frame.eval.summary(metric, by="replicate", cluster=of)
        made[f"{way} alone (ours)"] = limits_of(one)
    found = x.mean(1)
    error = usual.two_way_error(x, item, rater)
    made["two-way CR1, normal"] = usual.normal(found, error)
    made["normal"] = usual.normal(found, x.std(1, ddof=1) / np.sqrt(len(item)))
    return _cell(kind, name, truth, found, made)


def worst_stratified(strata: int, documents: int, icc: float, effort: Effort = FULL) -> Cell:
    """The worst slice of documents that were sampled within strata, with a row in every slice."""
    name = f"{strata} strata of {documents // strata} documents across slices, ICC {icc:g}"
    rng = np.random.default_rng([*b"worst strata", *name.encode()])
    sizes = (SLICES,) * documents
    stratum = np.arange(documents) % strata
    z = values(rng, effort.slow // 2, sizes, icc)
    x, truth = _of_kind("rate", z, stratum, sizes, 0.8)
    frame = rows_of(x, sizes).with_columns(
        slice=np.tile(np.arange(SLICES), documents * len(x)), stratum=pl.col("cluster") % strata
    )
    return _worst(name, frame, truth, {"cluster": "cluster", "strata": "stratum"}, "without strata")


def worst_crossed(
    kind: str,
    shape: tuple[int, int, int],
    of_items: bool,
    iccs: tuple[float, float] = (0.2, 0.1),
    effort: Effort = FULL,
) -> Cell:
    """The worst slice of items that raters saw: of some of the items, or of some rows of all."""
    name = _crossed_name(kind, shape, 0.8, iccs)
    name += f", {SLICES} slices of {'items' if of_items else 'rows'}"
    rng = np.random.default_rng([*b"worst crossed", *name.encode()])
    item, rater = ratings(*shape)
    x, truth = _rated(kind, rng, effort.slow // 2, (item, rater), 0.8, iccs)
    of_row = (item if of_items else rng.permutation(len(item))) % SLICES
    frame = _rows(x, item, rater).with_columns(slice=np.tile(of_row, len(x)))
    return _worst(name, frame, truth, {"cluster": WAYS}, "items alone", kind)


def _units(clustered: bool) -> str:
    return "clusters of ten" if clustered else "rows"


def _of_kind(
    kind: str, z: np.ndarray, stratum: np.ndarray, sizes: tuple[int, ...], p: float
) -> tuple[np.ndarray, float]:
    """Values of strata that differ, from those of one normal law, and the truth about them."""
    apart = np.linspace(-1, 1, stratum.max() + 1)
    if kind == "mean":
        return z + apart[stratum].repeat(sizes), 0.0
    middle = special.ndtri(p)
    return z < middle + apart[stratum].repeat(sizes), float(special.ndtr(middle + apart).mean())


def _rated(
    kind: str,
    rng: np.random.Generator,
    replicates: int,
    of_rows: tuple[np.ndarray, np.ndarray],
    p: float,
    iccs: tuple[float, float],
) -> tuple[np.ndarray, float]:
    """Values of rated items, replicates x rows, and the truth about them."""
    z = rated(rng, replicates, *of_rows, *iccs)
    return (z, 0.0) if kind == "mean" else (z < special.ndtri(p), p)


def _rows(x: np.ndarray, item: np.ndarray, rater: np.ndarray) -> pl.DataFrame:
    frame = rows_of(x, (len(item),))
    return frame.with_columns(cluster=np.tile(item, len(x)), rater=np.tile(rater, len(x)))


def _crossed_name(
    kind: str, shape: tuple[int, int, int], p: float, iccs: tuple[float, float]
) -> str:
    items, raters, each = shape
    name = f"{kind}, {items} items of {raters} raters, {each} each"
    return name + f", p = {p:g}" * (kind == "rate") + f", ICCs {iccs[0]:g} and {iccs[1]:g}"


def _cell(kind: str, name: str, truth: float, found: np.ndarray, made: dict[str, Limits]) -> Cell:
    """What covers the truth, with E from the true variance."""
    oracle = oracle_of(found)
    scores = {title: covered(limits, truth, oracle) for title, limits in made.items()}
    if kind == "mean":
        return Cell(name, least=LEAST, scores=scores)
    effective = float(min(truth, 1 - truth) * truth * (1 - truth) / found.var(ddof=1))
    return Cell(name, effective, promised(effective), scores=scores)


def _worst(
    name: str, frame: pl.DataFrame, truth: float, roles: Any, otherwise: str, kind: str = "rate"
) -> Cell:
    """Coverage of the slice that looks worst, by all of its ``roles`` and by the cluster alone."""
    metric = fe.rate("x") if kind == "rate" else fe.mean("x")
    found, limits = at_once(frame, metric, roles)
    _, plainer = at_once(frame, metric, {"cluster": "cluster"})
    single = frame.eval.summary(metric, by=["replicate", "slice"], **roles)
    picked = np.arange(len(found)), found.argmin(1)
    pointwise = tuple(limit.reshape(found.shape) for limit in limits_of(single))
    made = {OURS: limits, "pointwise (ours)": pointwise, f"{otherwise} (ours)": plainer}
    oracle = float(np.mean([oracle_of(of_slice) for of_slice in found.T]))
    scores = {
        title: covered((low[picked], high[picked]), truth, oracle)
        for title, (low, high) in made.items()
    }
    inside = ((limits[0] <= truth) & (truth <= limits[1])).all(1)
    scores["all slices at once (ours)"] = Score(int(inside.sum()), len(inside))
    return Cell(name, least=0.94, scores=scores)
