"""The exceptions of the library, and the hints that their messages carry."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real


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


class BeyondMemory(EvalError):
    """What a question needs at once is larger than the memory; a verb says it in its name."""


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


def is_whole(value: object, least: int) -> bool:
    """Whether ``value`` is a whole number and at least so much.

    >>> is_whole(3, 1), is_whole(3.0, 1), is_whole(True, 1)
    (True, False, False)
    """
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def is_share(value: object) -> bool:
    """Whether ``value`` is a number between 0 and 1.

    >>> is_share(0.5), is_share(1), is_share("0.5")
    (True, False, False)
    """
    return isinstance(value, Real) and 0 < float(value) < 1


def check_whole(name: str, value: object, least: int) -> None:
    """Raise unless ``value`` is a whole number and at least so much.

    >>> check_whole("bins", 2.5, 1)
    Traceback (most recent call last):
    frame_eval.errors.EvalError: bins=2.5 is not a whole number of at least 1
    """
    if not is_whole(value, least):
        raise EvalError(f"{name}={value!r} is not a whole number of at least {least}")


def check_share(name: str, value: object, *, whole: bool = False) -> None:
    """Raise unless ``value`` is a number between 0 and 1; with ``whole`` 1 is one too.

    >>> check_share("coverage", 80, whole=True)
    Traceback (most recent call last):
    frame_eval.errors.EvalError: coverage=80 is not above 0 and at most 1
    """
    if not (is_share(value) or (whole and value == 1)):
        allowed = "above 0 and at most 1" if whole else "between 0 and 1"
        raise EvalError(f"{name}={value!r} is not {allowed}")
