"""Probability scores and calibration beside scikit-learn, scipy and formulas by hand."""

import numpy as np
from oracles.cases import Case, ones, positive_of, weighted_mean
from scipy import optimize, special, stats
from sklearn import metrics as sk

import frame_eval as fe


def _bins(t, bins, strategy="uniform"):
    """Weight, share of positives, mean probability and rows of the bins that have rows."""
    y, _ = ones(t)
    inner = np.arange(1, bins) / bins
    if strategy == "quantile":
        inner = np.quantile(t.q, inner, method="inverted_cdf", weights=t.w)
    code = np.searchsorted(inner, t.q, side="left")
    for b in np.unique(code):
        in_bin = code == b
        w = t.w[in_bin]
        yield w.sum() / t.w.sum(), w @ y[in_bin] / w.sum(), w @ t.q[in_bin] / w.sum(), len(w)


def _of_bins(value, reduce, *args):
    return lambda t: reduce([value(*found) for found in _bins(t, *args)])


def _debiased(weight, y, q, rows):
    """With the mean of the folded normal law, as scipy has it."""
    error = np.sqrt(y * (1 - y) / rows)
    gap = abs(y - q)
    expected = stats.foldnorm.mean(gap / error, scale=error) if error else gap
    return weight * (2 * gap - expected)


def _resolution(t):
    y, _ = ones(t)
    mean = np.average(y, weights=t.w)
    return sum(weight * (rate - mean) ** 2 for weight, rate, _, _ in _bins(t, 10))


def _uncertainty(t):
    mean = np.average(ones(t)[0], weights=t.w)
    return mean * (1 - mean)


def _log_loss(t):
    return sk.log_loss(ones(t)[0], t.q, labels=[False, True], sample_weight=t.w)


def _recalibrated(slope):
    """The root of the likelihood equations, by another solver."""

    def oracle(t):
        y, x = ones(t)[0], special.logit(t.q)
        if y.all() or not y.any():
            return None
        if slope and (x[y].min() >= x[~y].max() or x[~y].min() >= x[y].max()):
            return None
        design = np.stack([np.ones_like(x), x] if slope else [np.ones_like(x)])
        offset = 0 if slope else x

        def score(b):
            return design @ (t.w * (y - special.expit(offset + b @ design))) / t.w.sum()

        start = np.array([0.0, 0.1]) if slope else np.zeros(1)
        return optimize.root(score, start, tol=1e-15).x[-1]

    return oracle


CASES = {
    "brier": Case(
        lambda kind: fe.brier("y", "q", positive=positive_of(kind)),
        weighted_mean(lambda t: (ones(t)[0] - t.q) ** 2),
    ),
    "log_loss": Case(lambda kind: fe.log_loss("y", "q", positive=positive_of(kind)), _log_loss),
    "perplexity": Case(
        lambda _: fe.perplexity("x", "z"), lambda t: np.exp((t.w @ t.x) / (t.w @ t.z))
    ),
    "bits_per_byte": Case(
        lambda _: fe.bits_per_byte("x", "z"), lambda t: (t.w @ t.x) / (t.w @ t.z) / np.log(2)
    ),
    "ece": Case(
        lambda kind: fe.ece("y", "q", bins=10, positive=positive_of(kind)),
        _of_bins(lambda w, y, q, _: w * abs(y - q), sum, 10),
    ),
    "ece quantile": Case(
        lambda kind: fe.ece("y", "q", bins=7, strategy="quantile", positive=positive_of(kind)),
        _of_bins(lambda w, y, q, _: w * abs(y - q), sum, 7, "quantile"),
    ),
    "ece_debiased": Case(
        lambda kind: fe.ece_debiased("y", "q", bins=10, positive=positive_of(kind)),
        _of_bins(_debiased, sum, 10),
    ),
    "mce": Case(
        lambda kind: fe.mce("y", "q", bins=4, positive=positive_of(kind)),
        _of_bins(lambda *found: abs(found[1] - found[2]), max, 4),
    ),
    "brier_reliability": Case(
        lambda kind: fe.brier_reliability("y", "q", bins=10, positive=positive_of(kind)),
        _of_bins(lambda w, y, q, _: w * (y - q) ** 2, sum, 10),
    ),
    "brier_resolution": Case(
        lambda kind: fe.brier_resolution("y", "q", bins=10, positive=positive_of(kind)), _resolution
    ),
    "brier_uncertainty": Case(
        lambda kind: fe.brier_uncertainty("y", positive=positive_of(kind)), _uncertainty
    ),
    "calibration_slope": Case(
        lambda kind: fe.calibration_slope("y", "q", positive=positive_of(kind)), _recalibrated(True)
    ),
    "calibration_intercept": Case(
        lambda kind: fe.calibration_intercept("y", "q", positive=positive_of(kind)),
        _recalibrated(False),
    ),
}
