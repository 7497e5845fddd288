"""Means, ratios and quantiles beside numpy and counting out."""

import math

import numpy as np
from oracles.cases import Case, weighted_mean
from sklearn import metrics as sk

import frame_eval as fe


def _quantile(q):
    """The order statistics of the rows, a weight being a share of them: by counting out."""

    def oracle(t):
        x, n = np.asarray(t.x), len(t.x)
        if len(set(t.w)) == 1:
            return np.quantile(x, q)
        units = np.round(2 * t.w).astype(int)  # weights here are multiples of one half
        sample = np.repeat(np.sort(x), units[np.argsort(x, kind="stable")] * n)
        size, at = units.sum(), q * (n - 1)
        low, high = (sample[(min(int(i), n - 1) + 1) * size - 1] for i in (at, math.ceil(at)))
        return low + (at - int(at)) * (high - low)

    return oracle


CASES = {
    "mean": Case(lambda _: fe.mean("x"), weighted_mean(lambda t: t.x)),
    "bounded mean": Case(
        lambda _: fe.mean("x", better="lower", bounds=(0, 1000)), weighted_mean(lambda t: t.x)
    ),
    "rate": Case(lambda _: fe.rate("ok"), weighted_mean(lambda t: t.ok)),
    "ratio": Case(lambda _: fe.ratio("x", "z"), lambda t: (t.w @ t.x) / (t.w @ t.z)),
    "quantile": Case(lambda _: fe.quantile("x", 0.9), _quantile(0.9)),
    "median": Case(lambda _: fe.median("x"), _quantile(0.5)),
    "minimum": Case(lambda _: fe.quantile("x", 0), lambda t: t.x.min()),
    "maximum": Case(lambda _: fe.quantile("x", 1), lambda t: t.x.max()),
    "mae": Case(
        lambda _: fe.mae("x", "z"), lambda t: sk.mean_absolute_error(t.x, t.z, sample_weight=t.w)
    ),
    "rmse": Case(
        lambda _: fe.rmse("x", "z"),
        lambda t: sk.root_mean_squared_error(t.x, t.z, sample_weight=t.w),
    ),
    "bias": Case(lambda _: fe.bias("x", "z"), weighted_mean(lambda t: t.z - t.x)),
}
