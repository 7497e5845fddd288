"""The exceptions of the library, and the hints that their messages carry."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EvalError(ValueError):
    """A question that has no trustworthy answer: bad input, named with what to do about it.

    >>> import frame_eval as fe
    >>> issubclass(fe.EvalError, ValueError)
    True
    """


class ColumnError(EvalError):
    """A column that is missing, or of a kind that the metric or role can not use.

    >>> import frame_eval as fe
    >>> issubclass(fe.ColumnError, fe.EvalError)
    True
    """


class GuardFailed(AssertionError):
    """A guardrail was broken; the message lists the slices, worst first.

    >>> import frame_eval as fe
    >>> issubclass(fe.GuardFailed, AssertionError)
    True
    """


def did_you_mean(word: object, options: Iterable[object]) -> str:
    """A sentence naming the closest of ``options`` to ``word``, or nothing.

    >>> did_you_mean("lable", ["label", "pred"])
    " Did you mean 'label'?"
    >>> did_you_mean("zzz", ["label", "pred"])
    ''
    """
    by_text = {str(option): option for option in options}
    close = difflib.get_close_matches(str(word), list(by_text), n=1, cutoff=0.6)
    return f" Did you mean {by_text[close[0]]!r}?" if close else ""


def listing(items: Iterable[object], most: int = 10) -> str:
    """The items as text, cut after ``most``.

    >>> listing(["a", "b", "c"], most=2)
    "'a', 'b', ... (3 in all)"
    """
    items = list(items)
    text = ", ".join(repr(item) for item in items[:most])
    return text if len(items) <= most else f"{text}, ... ({len(items)} in all)"


def check_option(name: str, value: object, options: Iterable[object]) -> None:
    """Raise unless ``value`` is one of ``options``.

    >>> check_option("by", "rwo", ["row", "all"])
    Traceback (most recent call last):
    frame_eval.errors.EvalError: by='rwo' is unknown. Did you mean 'row'? Options: 'row', 'all'.
    """
    options = list(options)
    if value not in options:
        hint = did_you_mean(value, options)
        raise EvalError(f"{name}={value!r} is unknown.{hint} Options: {listing(options, 30)}.")
