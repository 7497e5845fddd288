"""The metrics and options that verbs take, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from frame_eval.errors import EvalError
from frame_eval.inference.resample import Draws
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles

Missing = Literal["raise", "drop", "worst"]


def check_metrics(metrics: Sequence[Any]) -> Sequence[Metric]:
    """The metrics, if there are any and they have different names."""
    if not metrics:
        raise EvalError("name at least one metric, such as fe.rate('correct')")
    seen: set[str] = set()
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise EvalError(f"{metric!r} is not a metric{_instead(metric)}")
        if metric.name in seen:
            raise EvalError(f"two metrics are called {metric.name!r}; rename one with .alias()")
        seen.add(metric.name)
    return metrics


def _instead(given: object) -> str:
    """What may have been meant by something that is not a metric."""
    if isinstance(given, str):
        return f": did you mean fe.mean({given!r})?"
    if isinstance(given, (list, tuple)):
        return "; name metrics one after the other, or unpack them: *metrics"
    if callable(given):
        return "; call it with the columns that it is about"
    return ""


def check_ways(ways: Sequence[Roles]) -> None:
    """Raise for crossed clusters within strata."""
    if len(ways) > 1 and ways[0].strata:
        raise EvalError("crossed clusters go without strata")


def check_level(level: float) -> float:
    """The level, if it is a number strictly between 0 and 1."""
    given: object = level
    if not isinstance(given, (int, float)) or not 0 < given < 1:
        raise EvalError(f"level={level!r} is not between 0 and 1")
    return level


def check_draws(resamples: int, seed: int) -> Draws:
    """The draws, if there are enough of them and the seed is one."""
    if not isinstance(resamples, int) or resamples < 100:  # type: ignore[redundant-expr]
        raise EvalError(f"resamples={resamples!r} is not a whole number of at least 100")
    if not isinstance(seed, int) or seed < 0:  # type: ignore[redundant-expr]
        raise EvalError(f"seed={seed!r} is not a whole number of at least 0")
    return Draws(resamples, seed)


def check_names(keys: Sequence[str], columns: Sequence[str]) -> None:
    """Raise where key columns collide with each other or with the columns of the result."""
    for name in keys:
        if name in columns:
            raise EvalError(
                f"key column {name!r} has the name of a result column; rename it, for example "
                f"to {name + '_'!r}"
            )
        if list(keys).count(name) > 1:
            raise EvalError(f"column {name!r} is both a slice key and the system")
