"""Tables of rows to try metrics on, and how a result is held against an oracle."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from numpy.testing import assert_allclose

NAN = np.nan
EXACT = 1e-12  # relative and absolute; sums of a few hundred floats


def table(kind, y, p, **columns):
    n = len(y)
    rng = np.random.default_rng(n)
    frame = pl.DataFrame(
        {
            "y": y,
            "p": p,
            "s": rng.normal(size=n),
            "x": rng.gamma(2.0, 3.0, n),
            "z": rng.gamma(2.0, 3.0, n) + 0.1,
            "ok": rng.random(n) < 0.7,
            "q": np.round(rng.beta(0.8, 1.2, n), 3).clip(0.001, 0.999),
            "w": np.ones(n),
            "g": np.arange(n) % 3,
            "c": np.arange(n) // 4,
            "e": np.arange(n),
        }
    ).with_columns(**columns)
    return kind, frame


def _random(n, classes, agree, seed):
    """Labels and predictions that agree now and then."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=np.arange(len(classes), 0, -1) / math.comb(len(classes) + 1, 2))
    p = np.where(rng.random(n) < agree, y, rng.choice(classes, n))
    return y.tolist(), p.tolist()


def _scores(seed, n, tied):
    values = np.random.default_rng(seed).normal(size=n)
    return pl.Series(np.round(values) if tied else values)


WORDS = ["ant", "bee", "cat", "dog"]
TABLES = {
    "random": table("01", *_random(211, [0, 1], 0.5, 1)),
    "weighted": table(
        "01",
        *_random(160, [0, 1], 0.4, 2),
        w=pl.Series(np.arange(160) % 7 + 1.0),
        s=_scores(3, 160, True),
        q=pl.Series((np.arange(160) * 7 % 11 / 10).clip(0.05, 0.95)),
    ),
    "tied": table(
        "01",
        *_random(90, [0, 1], 0.6, 4),
        s=_scores(5, 90, True),
        x=_scores(6, 90, True),
        z=pl.Series(np.arange(90) % 3 + 1.0),
    ),
    "bools": table("01", *_random(75, [True, False], 0.6, 7)),
    "words": table("words", *_random(180, WORDS, 0.5, 8)),
    "weighted words": table(
        "words", *_random(140, WORDS, 0.3, 9), w=pl.Series(np.arange(140) % 5 + 0.5)
    ),
    "integers": table("many", *_random(120, [3, 10, 25], 0.6, 10)),
    "unpredicted class": table("words", ["ant", "bee", "cat"] * 4, ["ant", "ant", "bee"] * 4),
    "alien prediction": table("words", ["ant", "bee", "cat"] * 4, ["ant", "dog", "bee"] * 4),
    "disjoint": table("words", ["ant"] * 6, ["bee"] * 6),
    "one class": table("01", [1] * 9, [1] * 9),
    "no positives": table("01", [0] * 9, [0, 1, 0] * 3),
    "no predicted positives": table("01", [0, 1, 1] * 3, [0] * 9),
    "all negative": table("01", [0] * 9, [0] * 9),
    "all wrong": table("01", [0, 1] * 6, [1, 0] * 6),
    "one class in a slice": table("01", [1, 0, 0] * 5, [1, 0, 1] * 5),
    "single row": table("01", [1], [1]),
}


@dataclass(frozen=True)
class Case:
    """A metric, and how to get its value otherwise (None: undefined)."""

    make: Callable[[str], Any]
    oracle: Callable[[Any], Any]


def positive_class(t):
    return {"01": 1, "words": "ant", "many": 3}[t.kind]


def ones(t):
    return np.asarray(t.y) == positive_class(t), np.asarray(t.p) == positive_class(t)


def positive_of(kind):
    return {"01": None, "words": "ant", "many": 3}[kind]


def weighted_mean(value):
    return lambda t: np.average(value(t), weights=t.w)


def oracle_view(kind, rows):
    columns = {name: rows[name].to_numpy() for name in rows.columns}
    return SimpleNamespace(kind=kind, **columns)


def compare(result, expected):
    """A value equals, or is null with a reason where there is none."""
    if expected is None or not np.isfinite(expected):
        assert result["estimate"] is None
        assert result["note"]
        assert result["std_error"] is None
        assert result["ci_low"] is None
        assert result["ci_high"] is None
        return
    assert_allclose(result["estimate"], expected, rtol=EXACT, atol=EXACT)
    low, high = result["ci_low"], result["ci_high"]
    assert low is None or low <= result["estimate"] + EXACT
    assert high is None or high >= result["estimate"] - EXACT
    if low is None or high is None:
        assert result["note"]
    elif result["method"].startswith("order"):
        assert low <= high  # order statistics may be tied
    else:
        assert low < high
