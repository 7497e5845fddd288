"""Scores of probabilities: Brier, log loss, perplexity and bits per byte."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from frame_eval.columns import Input, Source, label, number, of_truth, probability, summed, total
from frame_eval.errors import EvalError, check_share
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import (
    NO_ROWS,
    mean_gradient,
    mean_of,
    no_denominator,
    ratio_gradient,
    ratio_of,
    xy,
)
from frame_eval.metrics.shares import opposite


def _squared(c: Any) -> Any:
    return {"x": (c.y - c.p) * (c.y - c.p)}


def brier(target: Source, prob: Source, *, positive: Any = None) -> Metric:
    """The mean squared error of a probability: mean((y - p)**2) (Brier 1950, his score halved).

    Parameters
    ----------
    target
        A label column: boolean, 0/1, or any with ``positive``.
    prob
        The probability of the positive class, a numeric column in [0, 1].
    positive
        The positive class; True or 1 by default.

    Returns
    -------
    Metric
        Called ``brier``, between 0 and 1, lower is better. Null for a slice without rows.

    Raises
    ------
    EvalError
        In a verb, for probabilities outside [0, 1], and for labels other than 0 and 1 without
        ``positive``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0, 1, 0], "p": [0.9, 0.2, 0.6, 0.4]})
    >>> df.eval.summary(fe.brier("y", "p"))["estimate"].item()
    0.0925
    """
    return Metric(
        "brier",
        {"y": label(target, positive), "p": probability(prob)},
        _squared,
        mean_of,
        gradient=mean_gradient,
        better="lower",
        bounds=(0, 1),
        undefined=NO_ROWS,
        worst={"p": opposite},
    )


def inputs_of_classes(target: Source, probs: Mapping[Any, Source]) -> dict[str, Input | Source]:
    """The inputs of a multiclass score: every probability, their total, and that of the label."""
    if len(probs) < 2:
        raise EvalError(f"probs names a column for each class, two or more, not {dict(probs)!r}")
    each = {f"p{k}": probability(column) for k, column in enumerate(probs.values())}
    return {**each, "total": total(probs.values()), "truth": of_truth(target, probs)}


def _squared_of_classes(classes: int, c: Any) -> Any:
    each = [getattr(c, f"p{k}") for k in range(classes)]
    return {"x": summed([p * p for p in each]) - 2.0 * c.truth + 1.0}


def brier_multiclass(target: Source, probs: Mapping[Any, Source]) -> Metric:
    """The squared error of the probabilities of all classes, summed: mean(sum_k (y_k - p_k)**2).

    Parameters
    ----------
    target
        A label column.
    probs
        From each class to the column with its probability.

    Returns
    -------
    Metric
        Called ``brier_multiclass``, between 0 and 2 (Brier 1950), lower is better; with two classes
        it is twice :func:`brier`. Null for a slice without rows.

    Raises
    ------
    EvalError
        With fewer than two classes; in a verb, for probabilities outside [0, 1] or that do not
        sum to 1 within 0.001, and for labels that are none of the classes.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"gold": ["a", "b"], "p_a": [0.8, 0.5], "p_b": [0.2, 0.5]})
    >>> metric = fe.brier_multiclass("gold", {"a": "p_a", "b": "p_b"})
    >>> df.eval.summary(metric)["estimate"].item()
    0.29
    """
    return Metric(
        "brier_multiclass",
        inputs_of_classes(target, probs),
        partial(_squared_of_classes, len(probs)),
        mean_of,
        gradient=mean_gradient,
        better="lower",
        bounds=(0, 2),
        undefined=NO_ROWS,
    )


def _loss(clip: float, truth: Any) -> Any:
    """The loss of the probability given to what happened, and whether it was clipped."""
    kept = truth.clip(clip, 1.0)
    # What is added by clipping lies in (0, 1): rounded up, it counts.
    return {"x": 0.0 - kept.log(), "clipped": (kept - truth).ceil()}


def _binary_loss(clip: float, c: Any) -> Any:
    return _loss(clip, c.y * c.p + (1.0 - c.y) * (1.0 - c.p))


def _loss_of_truth(clip: float, c: Any) -> Any:
    return _loss(clip, c.truth)


def _clipped(clip: float, s: Any) -> Any:
    # Weights have no scale: the share that is clipped, in rows.
    with np.errstate(invalid="ignore"):
        share = np.where(s.n > 0, s.clipped / s.n, 0.0)
    rows = np.maximum(np.round(share * s.rows), share > 0).astype(int)
    texts = [f"{k} row{'' if k == 1 else 's'} clipped at {clip:g}" if k else "" for k in rows.flat]
    return np.array(texts, object).reshape(rows.shape)


def log_loss(
    target: Source,
    prob: Source | Mapping[Any, Source],
    *,
    positive: Any = None,
    clip: float = 1e-15,
) -> Metric:
    """The mean negative log of the probability given to what happened, in nats.

    Parameters
    ----------
    target
        A label column.
    prob
        The probability of the positive class, a numeric column in [0, 1]; or, for any number of
        classes, a mapping from each class to the column with its probability.
    positive
        The positive class of the first form; True or 1 by default.
    clip
        The least probability of what happened: smaller ones count as this, as the log of 0 is
        infinite. ``note`` counts the rows that it changed (under weights, their share of the rows).

    Returns
    -------
    Metric
        Called ``log_loss``, at least 0, lower is better. Null for a slice without rows.

    Raises
    ------
    EvalError
        When ``clip`` is not between 0 and 1, or ``positive`` comes with a mapping; in a verb as
        :func:`brier` and :func:`brier_multiclass`.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"y": [1, 0], "p": [0.5, 0.5]})
    >>> round(df.eval.summary(fe.log_loss("y", "p"))["estimate"].item(), 6)
    0.693147
    >>> df.eval.summary(fe.log_loss("y", {1: "p", 0: 1 - pl.col("p")})).select("metric").item()
    'log_loss'
    """
    check_share("clip", clip)
    inputs: Mapping[str, Input | Source]
    if isinstance(prob, Mapping):
        if positive is not None:
            raise EvalError(f"positive={positive!r} goes with one column of probabilities")
        inputs, sums = inputs_of_classes(target, prob), partial(_loss_of_truth, clip)
    else:
        inputs = {"y": label(target, positive), "p": probability(prob)}
        sums = partial(_binary_loss, clip)
    return Metric(
        "log_loss",
        inputs,
        sums,
        mean_of,
        gradient=mean_gradient,
        better="lower",
        bounds=(0, None),
        undefined=NO_ROWS,
        note=partial(_clipped, clip),
    )


def _exp_ratio(s: Any) -> Any:
    loss = s.x / s.y
    if isinstance(loss, pl.Expr):
        return loss.exp()
    with np.errstate(over="ignore"):
        return np.exp(loss)


def _exp_ratio_gradient(s: Any) -> Any:
    value = _exp_ratio(s)
    return {name: value * part for name, part in ratio_gradient(s).items()}


def _negative_loss(s: Any) -> Any:
    return np.where(s.x < 0, "the loss is negative: give minus the log probability", "")


def perplexity(nll: Source, tokens: Source) -> Metric:
    """The exponential of the loss per token: exp(sum(nll) / sum(tokens)).

    Parameters
    ----------
    nll
        The negative log-likelihood of a row (a document, an answer), in nats, summed over its
        tokens. Of a column of log probabilities this is ``-fe.col("logprob")``.
    tokens
        The number of tokens of the row.

    Returns
    -------
    Metric
        Called ``perplexity``, lower is better: pooled over all tokens, not a mean over rows. It
        depends on the tokenizer, as :func:`bits_per_byte` does not; ``compare`` notes where two
        systems differ in tokens. Its interval is that of the loss per token, made on the log scale.
        Null without tokens.

    Raises
    ------
    ColumnError
        In a verb, when a column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"nll": [600.0, 400.0], "tokens": [300, 100]})
    >>> round(df.eval.summary(fe.perplexity("nll", "tokens"))["estimate"].item(), 4)
    12.1825
    """
    return Metric(
        "perplexity",
        {"x": number(nll), "y": number(tokens)},
        xy,
        _exp_ratio,
        gradient=_exp_ratio_gradient,
        samples={"y": ("x", "y")},
        better="lower",
        bounds=(0, None),
        undefined={"no tokens": no_denominator},
        matched={"y": "another tokenizer (see bits_per_byte): tokens per row"},
        note=_negative_loss,
    )


def _bits(c: Any) -> Any:
    return {"x": c.x / math.log(2.0), "y": c.y}


def bits_per_byte(nll: Source, size: Source) -> Metric:
    """The loss per byte of text, in bits: sum(nll) / (ln 2 * sum(size)).

    Parameters
    ----------
    nll
        The negative log-likelihood of a row, in nats.
    size
        The bytes of the row's text (UTF-8).

    Returns
    -------
    Metric
        Called ``bits_per_byte``, lower is better: comparable between tokenizers, as
        :func:`perplexity` is not. Null without bytes.

    Raises
    ------
    ColumnError
        In a verb, when a column is not numeric.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"nll": [600.0, 400.0], "bytes": [1000, 600]})
    >>> round(df.eval.summary(fe.bits_per_byte("nll", "bytes"))["estimate"].item(), 4)
    0.9017
    """
    return Metric(
        "bits_per_byte",
        {"x": number(nll), "y": number(size)},
        _bits,
        ratio_of,
        gradient=ratio_gradient,
        samples={"y": ("x", "y")},
        better="lower",
        bounds=(0, None),
        undefined={"no bytes": no_denominator},
        matched={"y": "other texts: bytes per row"},
        note=_negative_loss,
    )
