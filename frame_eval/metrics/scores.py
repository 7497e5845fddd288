"""Metrics of scores: positives and negatives at each distinct score, as ordered cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from frame_eval.columns import Source, label, score
from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric


def sides(c: Any) -> Any:
    """Positives and negatives."""
    return {"pos": c.y, "neg": 1 - c.y}


def no_positives(s: Any) -> Any:
    return s.total("pos") == 0


def no_negatives(s: Any) -> Any:
    return s.total("neg") == 0


NO_POSITIVES = {"no positives": no_positives}
ONE_CLASS = {**NO_POSITIVES, "no negatives": no_negatives}
SIDES: dict[str, tuple[str, ...]] = {"pos": ("pos",), "neg": ("neg",)}


def rows_of(counts: Any, s: Any) -> int:
    """Rows of a class from its sum: as weights have no scale, its share of all rows."""
    total = float(s.total("n"))
    return round(float(counts) / total * float(s.total("rows"))) if total else 0


def few(s: Any) -> Any:
    """A note where one class has too few rows for the errors to be relied upon."""
    rarer = min(rows_of(s.total(side), s) for side in SIDES)
    return f"{rarer} row{'' if rarer == 1 else 's'} of the rarer class" if rarer < 20 else ""


def prevalence_of(s: Any) -> str:
    """A note of the share of positives."""
    total = float(s.total("n"))
    return f"prevalence {float(s.total('pos')) / total:.3g}" if total else ""


def rough(_: Any) -> Any:
    """The note of metrics that are not smooth."""
    return "not smooth: intervals by bootstrap only"


def _no_slopes(_: Any) -> Any:
    return {}


ROUGH: dict[str, Any] = {"smooth": False, "note": rough, "gradient": _no_slopes}


def check_single(positive: Any) -> None:
    if positive is not None:
        raise EvalError(f"positive={positive!r} goes with one column of scores")


def check_several(average: object, multi_class: object = "ovr") -> None:
    if average != "macro" or multi_class != "ovr":
        raise EvalError(
            "average= and multi_class= go with a column of scores for each class: {class: column}"
        )


def of_scores(
    name: str, target: Source, scores: Source, positive: Any, finish: Any, **options: Any
) -> Metric:
    """A metric of the positives and negatives at each distinct score."""
    given = {"better": "higher", "bounds": (0, 1), **options}
    return Metric(
        name,
        {"y": label(target, positive), "s": score(scores)},
        sides,
        finish,
        cells=("s",),
        ordered=True,
        counts=True,
        **given,
    )


def over(part: Any, whole: Any) -> Any:
    """A quotient that is 0 where nothing is counted yet."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0)
