"""Rank metrics of scores: sums over the distinct scores as ordered cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from frame_eval.columns import Source, label, score
from frame_eval.metrics.core import Metric


def _sides(c: Any) -> Any:
    return {"pos": c.y, "neg": 1 - c.y}


def _auc(s: Any) -> Any:
    pos, neg = s.pos, s.neg
    pairs = pos.sum(-1) * neg.sum(-1)
    wins = np.einsum("...k,...k->...", pos, np.cumsum(neg, axis=-1))
    ties = np.einsum("...k,...k->...", pos, neg)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (wins - ties / 2) / pairs


def _auc_gradient(s: Any) -> Any:
    """Placement values (DeLong, DeLong and Clarke-Pearson 1988), centred at the AUC."""
    positives, negatives = (x.sum(-1, keepdims=True) for x in (s.pos, s.neg))
    auc = _auc(s)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        below = _below(s.neg)
        below /= negatives * positives
        below -= auc / positives
        above = _below(s.pos)
        above /= -negatives * positives
        above += (1 - auc) / negatives
    return {"pos": below, "neg": above}


def _below(counts: Any) -> Any:
    """How many are in lower cells, and half of those in the same."""
    below = np.cumsum(counts, axis=-1)
    below -= counts / 2
    return below


def _no_positives(s: Any) -> Any:
    return s.pos.sum(-1) == 0


def _no_negatives(s: Any) -> Any:
    return s.neg.sum(-1) == 0


def _few(s: Any) -> Any:
    # Weights have no scale: the share of the rarer class, in rows.
    pos, neg = s.pos.sum(), s.neg.sum()
    total = pos + neg
    rarer = round(min(pos, neg) / total * float(np.sum(s.rows))) if total else 0
    return f"{rarer} row{'' if rarer == 1 else 's'} of the rarer class" if rarer < 20 else ""


def _auc_expression(c: Any) -> Any:
    positives = c.y.sum()
    negatives = c.y.count() - positives
    ranks = (c.s.rank("average") * c.y).sum()
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def roc_auc(target: Source, scores: Source, *, positive: Any = None) -> Metric:
    """The probability that a positive scores above a negative, ties counting half.

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    scores
        A numeric column, larger for more positive; infinities are legal.
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``roc_auc``, between 0 and 1. Errors are linearised by placement values (DeLong,
        DeLong and Clarke-Pearson 1988; Obuchowski 1997 for clusters), the interval is made on the
        logit scale; at exactly 0 or 1 it is null. Null with one class only.

    Raises
    ------
    EvalError
        In a verb, for labels other than 0 and 1 without ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "score": [0.5, 0.5, 0.9, 0.1]})
    >>> df.eval.summary(fe.roc_auc("y", "score"))["estimate"].item()
    0.875
    """
    return Metric(
        "roc_auc",
        {"y": label(target, positive), "s": score(scores)},
        _sides,
        _auc,
        cells=("s",),
        ordered=True,
        gradient=_auc_gradient,
        samples={"pos": ("pos",), "neg": ("neg",)},
        counts=True,
        better="higher",
        bounds=(0, 1),
        undefined={"no positives": _no_positives, "no negatives": _no_negatives},
        note=_few,
        expression=_auc_expression,
    )
