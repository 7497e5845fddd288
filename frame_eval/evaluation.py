"""A frame with its roles bound, and what makes a function a verb of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import pandas as pd
import polars as pl

from frame_eval.errors import BeyondMemory, EvalError, did_you_mean, listing
from frame_eval.reduce import asked, give_back
from frame_eval.running import Run, current, running
from frame_eval.slices import names, slices

R = TypeVar("R")
P = ParamSpec("P")
# What may follow the keys in a result.
AFTER_KEYS = ("class", "metric", "rule", "truth", "curve")
ROLES = ("system", "example", "trial", "cluster", "weight", "strata")


class Bound(Generic[R]):
    """A native frame, the roles bound to it and how it is run.

    ``R`` is the type of frame that results have.
    """

    def __init__(
        self, frame: Any, roles: dict[str, Any] | None = None, run: Run | None = None
    ) -> None:
        self._frame = frame
        self._roles = roles or {}
        self._run = run


class Verb(Protocol[P]):
    """A verb as a function of a frame and as a method of an evaluation, typed both ways."""

    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload] - the rest is Polars
        self, frame: pd.DataFrame | Bound[pd.DataFrame], /, *args: P.args, **kwargs: P.kwargs
    ) -> pd.DataFrame: ...
    @overload
    def __call__(self, frame: Any, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame: ...
    @overload
    def __get__(self, instance: None, owner: Any, /) -> Verb[P]: ...
    @overload
    def __get__(self, instance: Bound[R], owner: Any, /) -> Callable[P, R]: ...


class FreeVerb(Verb[P], Protocol[P]):
    """A verb that answers without a frame as well."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, frame: pd.DataFrame | Bound[pd.DataFrame], /, *args: P.args, **kwargs: P.kwargs
    ) -> pd.DataFrame: ...
    @overload
    def __call__(self, frame: Any, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame: ...
    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame: ...


def verb(function: Callable[Concatenate[Any, P], pl.DataFrame]) -> Verb[P]:
    """Let a function of a native frame take bound roles, and give back the caller's frame type."""
    takes = [name for name in ROLES if name in inspect.signature(function).parameters]

    @functools.wraps(function)
    def wrapper(frame: Any, /, *args: Any, **kwargs: Any) -> Any:
        native, run = frame, current()
        if isinstance(frame, Bound):
            native, run = frame._frame, frame._run or run
            bound = {name: frame._roles[name] for name in takes if name in frame._roles}
            kwargs = {**bound, **kwargs}
        try:
            with running(run), asked(native):
                result = function(native, *args, **kwargs)
        except BeyondMemory as error:
            raise EvalError(f"{function.__name__}: {error}") from None
        if not isinstance(native, pd.DataFrame):
            return result
        return give_back(result, native, _key_columns(result, kwargs))

    return cast("Verb[P]", wrapper)


def free_verb(function: Callable[Concatenate[Any, P], pl.DataFrame]) -> FreeVerb[P]:
    """Like :func:`verb`, for a function that answers without a frame (None) as well."""
    of_frame = verb(function)

    @functools.wraps(function)
    def wrapper(frame: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        return of_frame(frame, *args, **kwargs)

    return cast("FreeVerb[P]", wrapper)


def _key_columns(result: pl.DataFrame, asked: dict[str, Any]) -> dict[str, str]:
    """The key columns of a result, with the column of the frame that each has its values from.

    Keys stand in front; stacked slices are text, whatever the columns called so hold.
    """
    sliced = slices(asked.get("by"), overall=bool(asked.get("overall")))
    # A key may have the name of a column that follows the keys in another verb.
    ends = set(AFTER_KEYS).difference(sliced.columns, names(asked.get("system")))
    front = list(takewhile(lambda name: name not in ends, result.columns))
    if sliced.stacked:
        front = [name for name in front if name not in ("slice", "value")]
    keys = dict(zip(front, front, strict=True))
    system = names(asked.get("system"))
    if "baseline" in result.columns and len(system) == 1:
        keys.update(dict.fromkeys(("system", "baseline"), system[0]))
    return keys


def with_roles(frame: Bound[R], roles: dict[str, Any]) -> dict[str, Any]:
    """The roles of an evaluation with others bound on top."""
    for name in roles:
        if name not in ROLES:
            hint = did_you_mean(name, ROLES)
            raise EvalError(f"{name!r} is not a role.{hint} Roles: {listing(ROLES)}.")
    return {**frame._roles, **roles}
