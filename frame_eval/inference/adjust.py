"""p-values adjusted for how many were looked at."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from frame_eval.errors import check_option

Array = NDArray[np.float64]
Method = Literal["holm", "bh", "by", "bonferroni"]

METHODS: Final[tuple[Method, ...]] = ("holm", "bh", "by", "bonferroni")


def adjust(p: ArrayLike, method: Method | None, counts_as_one: ArrayLike | None = None) -> Array:
    """The adjusted p-values of one family, in the order given.

    "holm" (1979) and "bonferroni" hold the chance of any false alarm; "bh" (Benjamini and Hochberg
    1995) and "by" (Benjamini and Yekutieli 2001, under any dependence) the expected share of false
    alarms among the alarms. ``None`` leaves the values as they are.

    NaN stays NaN. It is no member of the family, unless the boolean array ``counts_as_one`` marks
    it: a p-value that the data could not give enters as 1, so that losing it is no advantage.

    >>> adjust([0.01, 0.04, 0.03, float("nan")], "holm")
    array([0.03, 0.06, 0.06,  nan])
    >>> adjust([0.01, 0.04, 0.03, float("nan")], "holm", [False, False, False, True])
    array([0.04, 0.09, 0.09,  nan])
    """
    p = np.asarray(p, np.float64)
    return adjust_families(p, np.zeros(p.shape, np.int64), method, counts_as_one)


def adjust_families(
    p: ArrayLike,
    family: ArrayLike,
    method: Method | None,
    counts_as_one: ArrayLike | None = None,
) -> Array:
    """:func:`adjust` within each family; ``family`` holds one code per p-value.

    >>> adjust_families([0.01, 0.04, 0.03], [0, 0, 1], "bonferroni")
    array([0.02, 0.08, 0.03])
    """
    check_option("method", method, [*METHODS, None])
    p = np.array(p, np.float64)
    if method is None:
        return p
    marked = np.zeros(p.shape, bool) if counts_as_one is None else np.asarray(counts_as_one, bool)
    missing = np.isnan(p)
    member = ~missing | marked
    codes = np.unique(np.asarray(family)[member], return_inverse=True)[1]
    adjusted = np.full(p.shape, np.nan)
    adjusted[member] = _within(np.where(missing, 1.0, p)[member], codes, method)
    adjusted[missing] = np.nan
    return adjusted


def _within(p: Array, code: NDArray[np.intp], method: Method) -> Array:
    """Adjust complete p-values; ``code`` counts the families from 0 without gaps."""
    order = np.lexsort((p, code))
    code, ascending = code[order], p[order]
    sizes = np.bincount(code)
    m = sizes[code]
    rank = np.arange(1, len(p) + 1) - (np.cumsum(sizes) - sizes)[code]

    if method == "bonferroni":
        values = m * ascending
    elif method == "holm":
        values = _running_max((m - rank + 1) * ascending, code)
    else:
        # m / rank first: at rank m the factor is exactly 1 and no p-value shrinks by rounding.
        factor = m / rank
        if method == "by":
            factor = factor * np.cumsum(1 / np.arange(1, sizes.max(initial=0) + 1))[m - 1]
        values = -_running_max(-(factor * ascending)[::-1], -code[::-1])[::-1]

    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(values, 1)
    return adjusted


def _running_max(values: Array, code: NDArray[np.intp]) -> Array:
    """The running maximum of ``values``, starting afresh whenever the ascending ``code`` steps up.

    Ranks stand for the values: with a step of their number per family one pass serves all families,
    and integers lose no digits.
    """
    order = np.argsort(values, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(values))
    step = max(len(values), 1)
    top = np.maximum.accumulate(code * step + rank)
    return values[order[top - code * step]]
