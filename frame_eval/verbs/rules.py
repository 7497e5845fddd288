"""Rules for :func:`guard`: what a metric has to satisfy in every slice."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from frame_eval.columns import Source, source_name
from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric


@dataclass(frozen=True, eq=False)
class Rule:
    """What a metric has to satisfy in every slice; made by :func:`rule`.

    >>> import frame_eval as fe
    >>> print(fe.rule(fe.rate("correct"), min=0.5, max=0.9))
    rate(correct) >= 0.5 and <= 0.9
    """

    metric: Metric | str
    min: float | None
    max: float | None
    max_drop: float | None
    max_rise: float | None
    relative: bool
    where: Source | None
    min_n: int | None

    @property
    def compares(self) -> bool:
        """Whether the rule is about a difference to the baseline."""
        return self.max_drop is not None or self.max_rise is not None

    @property
    def bound(self) -> float:
        """The one margin of a relative rule, with its sign."""
        return -self.max_drop if self.max_drop is not None else self.max_rise or 0.0

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric if isinstance(self.metric, str) else self.metric.name

    @property
    def limits(self) -> tuple[float, float]:
        """What the guarded number has to lie between."""
        if not self.compares:
            low, high = self.min, self.max
        else:
            low = None if self.max_drop is None else -self.max_drop
            high = self.max_rise
        return -np.inf if low is None else low, np.inf if high is None else high

    def __str__(self) -> str:
        unit = " of the baseline" if self.relative else ""
        bounds = {
            "min": (">=", self.min, ""),
            "max": ("<=", self.max, ""),
            "drop": ("drop <=", self.max_drop, unit),
            "rise": ("rise <=", self.max_rise, unit),
        }
        parts = [f"{sign} {at:g}{of}" for sign, at, of in bounds.values() if at is not None]
        rows = "" if self.where is None else f" where {source_name(self.where)}"
        return f"{self.name} {' and '.join(parts)}{rows}"


def rule(
    metric: Metric | str,
    *,
    min: float | None = None,  # noqa: A002 - the plain words
    max: float | None = None,  # noqa: A002
    max_drop: float | None = None,
    max_rise: float | None = None,
    relative: bool = False,
    where: Source | None = None,
    min_n: int | None = None,
) -> Rule:
    """A rule that a metric has to satisfy in every slice, for :func:`guard`.

    Parameters
    ----------
    metric
        The metric; for guarding a result frame its name will do.
    min, max
        Bounds of the metric itself, in its unit.
    max_drop, max_rise
        How much lower or higher than the baseline it may be (non-inferiority margins).
    relative
        Whether ``max_drop`` and ``max_rise`` are shares of the baseline's value, which has to be
        positive.
    where
        A condition (boolean column or expression): the rule is about these rows only, of which
        every system needs some.
    min_n
        Slices with fewer rows than this are inconclusive, whatever their interval.

    Returns
    -------
    Rule
        For :func:`guard`.

    Raises
    ------
    EvalError
        Without a bound, with bounds that contradict each other, or with bounds on the metric and
        on its difference in one rule.

    Examples
    --------
    >>> import frame_eval as fe
    >>> str(fe.rule(fe.rate("correct"), max_drop=0.02))
    'rate(correct) drop <= 0.02'
    """
    made = Rule(metric, min, max, max_drop, max_rise, relative, where, min_n)
    if not isinstance(metric, (Metric, str)):
        raise EvalError(f"{metric!r} is neither a metric nor the name of one")
    bounds = {"min": min, "max": max, "max_drop": max_drop, "max_rise": max_rise}
    given = {word: bound for word, bound in bounds.items() if bound is not None}
    if not given:
        raise EvalError(
            f"the rule about {made.name!r} has no bound; give min=, max=, max_drop= or max_rise="
        )
    for word, bound in given.items():
        number: object = bound
        if not isinstance(number, Real) or not np.isfinite(float(number)):
            raise EvalError(f"{word}={bound!r} is not a number")
    _check_values(made)
    _check_margins(made)
    return made


def _check_values(made: Rule) -> None:
    """Raise for bounds of the metric itself that contradict each other or its range."""
    if made.min is None and made.max is None:
        return
    if made.compares:
        raise EvalError(
            f"the rule about {made.name!r} bounds both the metric and its difference to the "
            "baseline; make it two rules"
        )
    if made.relative:
        raise EvalError("relative=True goes with max_drop= and max_rise=")
    if made.min is not None and made.max is not None and made.min > made.max:
        raise EvalError(f"the rule about {made.name!r} has min={made.min:g} above max={made.max:g}")
    least, most = (None, None) if isinstance(made.metric, str) else made.metric.bounds
    for word, bound in (("min", made.min), ("max", made.max)):
        below = bound is not None and least is not None and bound < least
        above = bound is not None and most is not None and bound > most
        if below or above:
            raise EvalError(
                f"{word}={bound:g} is outside of what {made.name!r} can be, "
                f"{text_of(least)} to {text_of(most)}"
            )


def _check_margins(made: Rule) -> None:
    """Raise for margins that are negative or ambiguous."""
    if made.relative and made.max_drop is not None and made.max_rise is not None:
        raise EvalError("a relative rule has one margin; make max_drop= and max_rise= two rules")
    for word, margin in (("max_drop", made.max_drop), ("max_rise", made.max_rise)):
        if margin is not None and margin < 0:
            raise EvalError(f"{word}={margin:g} is negative; a margin is at least 0")


def text_of(limit: float | None) -> str:
    """A bound as text, also where there is none."""
    return "?" if limit is None else f"{limit:.3g}"
