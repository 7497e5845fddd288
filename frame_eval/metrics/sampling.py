"""Metrics of repeated attempts: one value per problem first, then the mean over problems."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from frame_eval.columns import Source, flag
from frame_eval.errors import check_option, check_whole
from frame_eval.metrics.core import Metric, Unit
from frame_eval.metrics.means import NO_ROWS, mean_gradient, mean_of


def _attempts(c: Any) -> Any:
    return {"tries": c.x * 0.0 + 1.0, "passes": c.x}


def _pass_at_k(k: int, u: Any, when: Any) -> Any:
    """1 - C(n - c, k) / C(n, k) as a product, 1 where fewer than k attempts failed."""
    none = 1.0
    for i in range(k):
        none = none * ((u.tries - u.passes - i) / (u.tries - i))
    return 1.0 - when(u.tries - u.passes < k).then(0.0).otherwise(none)


def _short(k: int, u: Any) -> Any:
    return u.tries < k


def _value(c: Any) -> Any:
    return {"x": c.value}


def pass_at_k(correct: Source, k: int, *, short: Literal["raise", "drop"] = "raise") -> Metric:
    """The chance that one of k attempts passes, per problem (the ``example``), then the mean.

    Each problem has the unbiased estimate 1 - C(n - c, k) / C(n, k) from its n attempts of which
    c pass (Chen and others 2021).

    Parameters
    ----------
    correct
        A 0/1 or boolean column, a row per attempt.
    k
        The number of attempts, at least 1.
    short
        What to do with problems that have fewer than k attempts: ``"raise"`` or ``"drop"``.

    Returns
    -------
    Metric
        Called ``pass@k``, between 0 and 1; ``n`` counts problems. Null without problems.

    Raises
    ------
    EvalError
        When k is not a positive integer; in a verb, without ``example``, or when problems have
        fewer than k attempts.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"task": [1, 1, 1, 2, 2, 2], "ok": [1, 0, 0, 0, 0, 0]})
    >>> result = df.eval.summary(fe.pass_at_k("ok", 2), example="task")
    >>> round(result["estimate"].item(), 4)
    0.3333
    """
    check_whole("k", k, 1)
    check_option("short", short, ("raise", "drop"))
    return Metric(
        f"pass@{k}",
        {"x": flag(correct)},
        _value,
        mean_of,
        gradient=mean_gradient,
        better="higher",
        bounds=(0, 1),
        undefined=NO_ROWS,
        worst={"x": 0},
        unit=Unit(
            sums=_attempts,
            value=partial(_pass_at_k, k),
            invalid=partial(_short, k),
            message=f"fewer than k={k} attempts; lower k or say short='drop'",
            drop=short == "drop",
        ),
    )
