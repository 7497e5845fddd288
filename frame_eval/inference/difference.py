"""What a comparison of two systems finds, and the rows that are compared."""

from __future__ import annotations

from dataclasses import dataclass

from frame_eval.inference.intervals import Texts
from frame_eval.inference.linear import Linear
from frame_eval.inference.margins import Limits
from frame_eval.table import Floats, Ints


@dataclass(frozen=True)
class Difference:
    """The difference of two systems by slice, with its error, test and counts.

    ``limits`` gives the interval of the same test at other levels, where it has one.
    """

    value: Floats
    std_error: Floats
    low: Floats
    high: Floats
    p_value: Floats
    wins: Floats
    losses: Floats
    ties: Floats
    n: Floats
    clusters: Floats
    method: Texts
    note: Texts
    df: Floats
    limits: Limits | None


@dataclass(frozen=True)
class Pairs:
    """Both systems example by example: rows that belong to the same (slice, example)."""

    a: Linear
    b: Linear
    slice: Ints
    cluster: Ints
