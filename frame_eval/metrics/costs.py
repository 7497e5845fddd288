"""Matrices of costs or distances between classes: weighted kappa and expected cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.errors import EvalError, did_you_mean, listing
from frame_eval.metrics.confusion import confusion_of
from frame_eval.metrics.expressions import distances, place_among

Array: TypeAlias = npt.NDArray[Any]


def _distances(classes: Sequence[Any], labels: Sequence[Any] | None, power: int) -> Array:
    """How far classes are from each other: in their order if given, else as numbers."""
    if labels is not None:
        unknown = [value for value in classes if value not in labels]
        if unknown:
            raise EvalError(
                f"classes {listing(unknown)} are not among labels={list(labels)!r}; name all, in "
                "their order"
            )
        grades = [float(list(labels).index(value)) for value in classes]
    elif any(isinstance(value, str) for value in classes):
        raise EvalError(
            f"classes {listing(classes)} have no order as text; give it with labels=[...], or say "
            "weights=None"
        )
    else:
        grades = [float(value) for value in classes]
    distances: Array = np.abs(np.subtract.outer(grades, grades)) ** power
    return distances


def _disagreement(labels: Any, power: int, s: Any) -> tuple[Array, Array, Array]:
    """Mean distance of the two columns as observed and by chance; and all distances."""
    distances = _distances(s.classes[0], labels, power)
    c = confusion_of(s)
    n = c.n[..., 0]
    observed = (s.n * distances).sum((-2, -1)) / n
    chance = np.einsum("...i,ij,...j->...", c.truth, distances, c.predicted) / n**2
    return observed, chance, distances


def weighted_kappa(labels: Any, power: int, s: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        observed, chance, _ = _disagreement(labels, power, s)
        value: Array = 1 - observed / chance
    return value


def weighted_kappa_gradient(labels: Any, power: int, s: Any) -> dict[str, Array]:
    with np.errstate(divide="ignore", invalid="ignore"):
        observed, chance, distances = _disagreement(labels, power, s)
        c = confusion_of(s)
        n = c.n[..., None]
        by_truth = (c.predicted @ distances.T)[..., :, None] / n**2
        by_predicted = (c.truth @ distances)[..., None, :] / n**2
        observed, chance = observed[..., None, None], chance[..., None, None]
        of_observed = (distances - observed) / n
        of_chance = by_truth + by_predicted - 2 * chance / n
        return {"n": (of_chance * observed / chance - of_observed) / chance}


def no_chance_disagreement(labels: Any, power: int, s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return _disagreement(labels, power, s)[1] == 0


def weighted_kappa_expression(labels: Any, power: int, c: Any) -> Any:
    """Grades as numbers; the distances by chance are those of all pairs of label and prediction."""
    if labels is None:
        y, p = (column.cast(pl.Float64) for column in (c.y, c.p))
    else:
        y, p = (place_among(column, labels) for column in (c.y, c.p))
    if power == 1:
        n = c.y.len().cast(pl.Float64)
        chance = (distances(y.append(p)) - distances(y) - distances(p)) / (2 * n**2)
    else:
        chance = y.var(ddof=0) + p.var(ddof=0) + (y.mean() - p.mean()) ** 2
    return 1 - ((y - p).abs() ** power).mean() / chance


def cost_matrix(costs: Mapping[tuple[Any, Any], float], classes: Sequence[Any]) -> Array:
    """The costs of the classes of the data, label by prediction; 0 where they agree."""
    known = {value for pair in costs for value in pair}
    for value in classes:
        if value not in known:
            hint = did_you_mean(value, known)
            raise EvalError(f"class {value!r} has no costs.{hint} Classes: {listing(known)}.")
    return np.array([[costs.get((y, p), 0.0) for p in classes] for y in classes], float)


def mean_cost(costs: Any, s: Any) -> Array:
    value: Array = (s.n * cost_matrix(costs, s.classes[0])).sum((-2, -1)) / s.n.sum((-2, -1))
    return value


def mean_cost_expression(costs: Mapping[tuple[Any, Any], float], c: Any) -> Any:
    """The cost of every row, from the positions of its classes."""
    classes = list(dict.fromkeys(value for pair in costs for value in pair))
    pairs = place_among(c.y, classes) * len(classes) + place_among(c.p, classes)
    prices = cost_matrix(costs, classes).ravel()
    return pairs.replace_strict(range(len(prices)), prices, return_dtype=pl.Float64).mean()


def mean_cost_gradient(costs: Any, s: Any) -> dict[str, Array]:
    n = s.n.sum((-2, -1))[..., None, None]
    return {"n": (cost_matrix(costs, s.classes[0]) - mean_cost(costs, s)[..., None, None]) / n}


def no_cells(s: Any) -> Any:
    return s.n.sum((-2, -1)) == 0
