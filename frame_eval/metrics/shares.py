"""Shares of rows: hits among all of them, or among the hits and the rest; and F1 as a share."""

from __future__ import annotations

from typing import Any

from frame_eval.metrics.core import Proportion


def _hits(s: Any) -> Any:
    return s.hits


def _rows(s: Any) -> Any:
    return s.n


def _trials(s: Any) -> Any:
    return s.hits + s.rest


def share(s: Any) -> Any:
    return s.hits / s.n


def share_of_trials(s: Any) -> Any:
    return s.hits / (s.hits + s.rest)


def no_trials(s: Any) -> Any:
    return s.hits + s.rest == 0


def f1_of_jaccard(j: Any) -> Any:
    """2 tp / (2 tp + fp + fn) from tp / (tp + fp + fn)."""
    return 2 * j / (1 + j)


def f1_slope(j: Any) -> Any:
    return 2 / (1 + j) ** 2


SHARE = Proportion(_hits, _rows)
SHARE_OF_TRIALS = Proportion(_hits, _trials)
F1_OF_TRIALS = Proportion(_hits, _trials, f1_of_jaccard, f1_slope)


def opposite(c: Any) -> Any:
    """The worst that can be predicted: the other label."""
    return 1 - c.y
