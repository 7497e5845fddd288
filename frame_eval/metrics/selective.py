"""Selective prediction: what is right among what is answered, and what refusals are worth."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from frame_eval.columns import Input, Source, flag
from frame_eval.errors import check_share
from frame_eval.metrics.core import Better, Metric
from frame_eval.metrics.expressions import from_top, rank_from_top
from frame_eval.metrics.pr_curve import precision_of_top, top_share
from frame_eval.metrics.scores import ROUGH, of_scores, over
from frame_eval.metrics.shares import (
    F1_OF_TRIALS,
    SHARE_OF_TRIALS,
    f1_of_jaccard,
    no_trials,
    share_of_trials,
)


def _both(c: Any) -> Any:
    return c.pos + c.neg


def _kept(c: Any) -> Any:
    """The rows with a confidence as high."""
    return c.from_top(_both)


def _risk(c: Any) -> Any:
    """The share of errors among them."""
    return over(c.from_top("neg"), c.by_cell(_kept))


def _aurc(s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return s.dot(_both, _risk) / s.total(_both)


def _risk_moves(c: Any) -> Any:
    """How the risks of the rows in a cell move with a right row above, and with a wrong one."""
    each, risk = over(c.by_cell(_both), c.by_cell(_kept)), c.by_cell(_risk)
    return np.stack([-each * risk, each * (1 - risk)])


def _aurc_gradient(s: Any) -> Any:
    """A row has a risk of its own, and changes that of all rows at or below its confidence."""
    whole, value = s.total(_both)[..., None], _aurc(s)[..., None]

    def below(c: Any) -> Any:
        return c.from_bottom(_risk_moves)

    return {
        "pos": lambda c: (c.by_cell(_risk) - value + c.by_cell(below)[0]) / whole,
        "neg": lambda c: (c.by_cell(_risk) - value + c.by_cell(below)[1]) / whole,
    }


def _aurc_expression(c: Any) -> Any:
    return (from_top(1 - c.y, c.s) / rank_from_top(c.s)).mean()


def _no_rows(s: Any) -> Any:
    return s.total("n") == 0


def aurc(correct: Source, confidence: Source) -> Metric:
    """The area under the risk-coverage curve: the mean over rows of the risk at their confidence.

    The risk is the share of errors among the rows of at least that confidence; tied rows are kept
    or left out together (Geifman and El-Yaniv 2017).

    Parameters
    ----------
    correct
        A 0/1 or boolean column: whether the answer is right.
    confidence
        A numeric column, larger for more certain.

    Returns
    -------
    Metric
        Called ``aurc``, between 0 and 1, lower is better; the error rate where confidences say
        nothing, and so not comparable between systems of different accuracy. Errors are linearised,
        the interval is made on the logit scale. Null for a slice without rows.

    Raises
    ------
    EvalError
        In a verb, for values of ``correct`` other than 0 and 1.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 1, 0, 1], "confidence": [0.9, 0.8, 0.7, 0.2]})
    >>> round(df.eval.summary(fe.aurc("ok", "confidence"))["estimate"].item(), 4)
    0.1458
    """
    return of_scores(
        "aurc",
        correct,
        confidence,
        None,
        _aurc,
        gradient=_aurc_gradient,
        better="lower",
        undefined={"no rows": _no_rows},
        expression=_aurc_expression,
    )


def _accuracy_of_share(coverage: float, s: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(*top_share(coverage, s))


def _accuracy_of_share_expression(coverage: float, c: Any) -> Any:
    return precision_of_top(coverage * c.y.len(), c)


def accuracy_at_coverage(correct: Source, confidence: Source, coverage: float) -> Metric:
    """The accuracy of the most confident share of the rows.

    Of rows that tie at the cut each is kept with the same probability, and the expected accuracy
    counts; row order never does.

    Parameters
    ----------
    correct
        A 0/1 or boolean column: whether the answer is right.
    confidence
        A numeric column, larger for more certain.
    coverage
        The share of the rows of a slice that is kept, above 0 and at most 1.

    Returns
    -------
    Metric
        Called ``accuracy@80%``, between 0 and 1. Without an interval: the cut is not smooth. Null
        for a slice without rows.

    Raises
    ------
    EvalError
        When ``coverage`` is not above 0 and at most 1; in a verb, for values of ``correct`` other
        than 0 and 1.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"ok": [1, 1, 0, 1], "confidence": [0.9, 0.8, 0.7, 0.2]})
    >>> df.eval.summary(fe.accuracy_at_coverage("ok", "confidence", 0.5))["estimate"].item()
    1.0
    """
    check_share("coverage", coverage, whole=True)
    finish = partial(_accuracy_of_share, coverage)
    return of_scores(
        f"accuracy@{coverage:.6g}",
        correct,
        confidence,
        None,
        finish,
        **ROUGH,
        undefined={"no rows": _no_rows},
        expression=partial(_accuracy_of_share_expression, coverage),
    )


def _f1_of(s: Any) -> Any:
    return f1_of_jaccard(share_of_trials(s))


# Each makes the flags answered (a), answerable (u) and correct (k, 0 where it does not matter) the
# rows that count and the others that they are a share of.


def _right(c: Any) -> Any:
    return {"hits": c.k, "rest": 1 - c.k}


def _wrong(c: Any) -> Any:
    return {"hits": c.a - c.k, "rest": 1 - c.a + c.k}


def _refused(c: Any) -> Any:
    return {"hits": 1 - c.a, "rest": c.a}


def _answered(c: Any) -> Any:
    return {"hits": c.a, "rest": 1 - c.a}


def _right_of_answered(c: Any) -> Any:
    return {"hits": c.k, "rest": c.a - c.k}


def _wrong_though_answerable(c: Any) -> Any:
    return {"hits": c.a * c.u - c.k, "rest": 1 - c.a * c.u + c.k}


def _refused_though_answerable(c: Any) -> Any:
    return {"hits": c.u * (1 - c.a), "rest": 1 - c.u * (1 - c.a)}


def _answered_though_unanswerable(c: Any) -> Any:
    return {"hits": c.a * (1 - c.u), "rest": 1 - c.a * (1 - c.u)}


def _rightly_refused(c: Any) -> Any:
    return {"hits": (1 - c.u) * (1 - c.a), "rest": c.u + c.a - c.u * c.a}


def _refused_of_answerable(c: Any) -> Any:
    return {"hits": c.u * (1 - c.a), "rest": c.u * c.a}


def _answered_of_unanswerable(c: Any) -> Any:
    return {"hits": (1 - c.u) * c.a, "rest": (1 - c.u) * (1 - c.a)}


def _unanswerable_of_refused(c: Any) -> Any:
    return {"hits": (1 - c.u) * (1 - c.a), "rest": c.u * (1 - c.a)}


def _refused_of_unanswerable(c: Any) -> Any:
    return {"hits": (1 - c.u) * (1 - c.a), "rest": (1 - c.u) * c.a}


def _both_of_either(c: Any) -> Any:
    """The rows that are unanswerable and refused, of those that are one of them."""
    return {"hits": (1 - c.u) * (1 - c.a), "rest": c.u + c.a - 2 * c.u * c.a}


class Outcome(NamedTuple):
    """A share of rows: what counts, the direction, and why there may be none."""

    name: str
    sums: Any
    better: Better
    reason: str = "no rows"


ALWAYS = (
    Outcome("coverage", _answered, None),
    Outcome("selective_accuracy", _right_of_answered, "higher", "nothing is answered"),
    Outcome("correct", _right, "higher"),
)
ANSWERABLE = (
    Outcome("wrong", _wrong, "lower"),
    Outcome("refused", _refused, None),
)
SOMETIMES = (
    Outcome("wrong", _wrong_though_answerable, "lower"),
    Outcome("false_refusal", _refused_though_answerable, "lower"),
    Outcome("false_answer", _answered_though_unanswerable, "lower"),
    Outcome("right_refusal", _rightly_refused, None),
    Outcome("false_refusal_rate", _refused_of_answerable, "lower", "nothing is answerable"),
    Outcome("false_answer_rate", _answered_of_unanswerable, "lower", "nothing is unanswerable"),
    Outcome("refusal_precision", _unanswerable_of_refused, "higher", "nothing is refused"),
    Outcome("refusal_recall", _refused_of_unanswerable, "higher", "nothing is unanswerable"),
    Outcome("refusal_f1", _both_of_either, "higher", "nothing is unanswerable or refused"),
)


def abstention(
    correct: Source, answered: Source, *, answerable: Source | None = None
) -> tuple[Metric, ...]:
    """What becomes of questions where a system may refuse: a metric for each outcome and rate.

    Parameters
    ----------
    correct
        A 0/1 or boolean column: whether the answer is right; where none is given, or none can be
        right, it does not matter and may be missing.
    answered
        A 0/1 or boolean column, or a condition such as ``fe.col("confidence") >= 0.7``.
    answerable
        A 0/1 or boolean column that says which questions have an answer; by default all have.

    Returns
    -------
    tuple of Metric
        For ``summary(*metrics)`` and every other verb, with proportion intervals. ``coverage`` is
        the share of rows answered, ``selective_accuracy`` the share of these that are right.

        Of all rows, summing to 1: ``correct``, ``wrong`` and ``refused``; with ``answerable``,
        ``correct`` and ``wrong`` of answerable questions, ``false_refusal`` (answerable, refused),
        ``false_answer`` (unanswerable, answered) and ``right_refusal``.

        With ``answerable`` moreover ``false_refusal_rate`` (of the answerable),
        ``false_answer_rate`` (of the unanswerable: over-confidence), and the refusals as a
        classification of what is unanswerable: ``refusal_precision``, ``refusal_recall`` and
        ``refusal_f1`` (Rajpurkar, Jia and Liang 2018 on unanswerable questions). Null where there
        is nothing to be a share of.

    Raises
    ------
    EvalError
        In a verb, for flags other than 0 and 1, and for answers without ``correct``.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({
    ...     "correct": [True, False, None, None],
    ...     "answered": [True, True, False, True],
    ...     "answerable": [True, True, True, False],
    ... })
    >>> metrics = fe.abstention("correct", "answered", answerable="answerable")
    >>> df.eval.summary(*metrics).select("metric", "estimate").rows()[:3]
    [('coverage', 0.75), ('selective_accuracy', 0.3333333333333333), ('correct', 0.25)]
    """
    inputs = {"a": flag(answered), "k": flag(correct, where=[answered])}
    outcomes: tuple[Outcome, ...] = (*ALWAYS, *ANSWERABLE)
    if answerable is not None:
        where = [answered, answerable]
        inputs = {"a": flag(answered), "u": flag(answerable), "k": flag(correct, where=where)}
        outcomes = (*ALWAYS, *SOMETIMES)
    return tuple(_metric(outcome, inputs) for outcome in outcomes)


def _metric(outcome: Outcome, inputs: Mapping[str, Input]) -> Metric:
    is_f1 = outcome.name == "refusal_f1"
    return Metric(
        outcome.name,
        inputs,
        outcome.sums,
        _f1_of if is_f1 else share_of_trials,
        proportion=F1_OF_TRIALS if is_f1 else SHARE_OF_TRIALS,
        counts=True,
        better=outcome.better,
        bounds=(0, 1),
        undefined={outcome.reason: no_trials},
    )
