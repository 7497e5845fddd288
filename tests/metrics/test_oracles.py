"""Every metric of the catalogue against scikit-learn, numpy or a formula written here."""

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from scipy import optimize, special, stats
from sklearn import metrics as sk

import frame_eval as fe

NAN = np.nan
EXACT = 1e-12  # relative and absolute; sums of a few hundred floats


def _table(kind, y, p, **columns):
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
    "random": _table("01", *_random(211, [0, 1], 0.5, 1)),
    "weighted": _table(
        "01",
        *_random(160, [0, 1], 0.4, 2),
        w=pl.Series(np.arange(160) % 7 + 1.0),
        s=_scores(3, 160, True),
        q=pl.Series((np.arange(160) * 7 % 11 / 10).clip(0.05, 0.95)),
    ),
    "tied": _table(
        "01",
        *_random(90, [0, 1], 0.6, 4),
        s=_scores(5, 90, True),
        x=_scores(6, 90, True),
        z=pl.Series(np.arange(90) % 3 + 1.0),
    ),
    "bools": _table("01", *_random(75, [True, False], 0.6, 7)),
    "words": _table("words", *_random(180, WORDS, 0.5, 8)),
    "weighted words": _table(
        "words", *_random(140, WORDS, 0.3, 9), w=pl.Series(np.arange(140) % 5 + 0.5)
    ),
    "integers": _table("many", *_random(120, [3, 10, 25], 0.6, 10)),
    "unpredicted class": _table("words", ["ant", "bee", "cat"] * 4, ["ant", "ant", "bee"] * 4),
    "alien prediction": _table("words", ["ant", "bee", "cat"] * 4, ["ant", "dog", "bee"] * 4),
    "disjoint": _table("words", ["ant"] * 6, ["bee"] * 6),
    "one class": _table("01", [1] * 9, [1] * 9),
    "no positives": _table("01", [0] * 9, [0, 1, 0] * 3),
    "no predicted positives": _table("01", [0, 1, 1] * 3, [0] * 9),
    "all negative": _table("01", [0] * 9, [0] * 9),
    "all wrong": _table("01", [0, 1] * 6, [1, 0] * 6),
    "one class in a slice": _table("01", [1, 0, 0] * 5, [1, 0, 1] * 5),
    "single row": _table("01", [1], [1]),
}


@dataclass(frozen=True)
class Case:
    """A metric, how to get its value otherwise (None: undefined), and on which tables."""

    make: Callable[[str], Any]
    oracle: Callable[[Any], Any]
    kinds: tuple[str, ...] = ("01", "words", "many")
    weights: bool = True


def _positive(t):
    return {"01": 1, "words": "ant", "many": 3}[t.kind]


def _ones(t):
    return np.asarray(t.y) == _positive(t), np.asarray(t.p) == _positive(t)


def _binary(score, **options):
    def oracle(t):
        y, p = _ones(t)
        return score(y, p, sample_weight=t.w, zero_division=NAN, **options)

    return oracle


def _average(score, average, **options):
    def oracle(t):
        y, p = np.asarray(t.y), np.asarray(t.p)
        chosen = options.pop("labels", None) or sorted({*y, *p})
        return score(
            y, p, labels=chosen, average=average, sample_weight=t.w, zero_division=NAN, **options
        )

    return oracle


def _weighted_f(score, **options):
    """Weighted by support; undefined where the classes that are defined have no support."""

    def oracle(t):
        y, p = np.asarray(t.y), np.asarray(t.p)
        each = score(
            y,
            p,
            average=None,
            labels=sorted({*y, *p}),
            sample_weight=t.w,
            zero_division=NAN,
            **options,
        )
        support = np.array([t.w[y == c].sum() for c in sorted({*y, *p})])
        seen = np.isfinite(each)
        return (
            (each[seen] * support[seen]).sum() / support[seen].sum()
            if support[seen].any()
            else None
        )

    return oracle


def _class_counts(t):
    """tn, fp, fn, tp of every class that occurs."""
    y, p = np.asarray(t.y), np.asarray(t.p)
    found = sk.multilabel_confusion_matrix(
        y, p, sample_weight=t.w, labels=sorted({*y, *p})
    ).reshape(-1, 4)
    return found.T


def _specificity(average):
    def oracle(t):
        if average == "binary":
            y, p = _ones(t)
            return sk.recall_score(~y, ~p, sample_weight=t.w, zero_division=NAN)
        tn, fp, fn, tp = _class_counts(t)
        if average == "micro":
            return tn.sum() / (tn + fp).sum() if (tn + fp).sum() else None
        seen = tn + fp > 0
        if not seen.any():
            return None
        weights = (tp + fn)[seen] if average == "weighted" else np.ones(seen.sum())
        if not weights.any():
            return None
        return (tn[seen] / (tn + fp)[seen]) @ weights / weights.sum()

    return oracle


def _mcc(t):
    constant = len(set(t.y)) == 1 or len(set(t.p)) == 1
    return None if constant else sk.matthews_corrcoef(t.y, t.p, sample_weight=t.w)


def _kappa(t):
    if len({*t.y, *t.p}) == 1:
        return None
    return sk.cohen_kappa_score(t.y, t.p, sample_weight=t.w)


def _auc(t):
    y, _ = _ones(t)
    return None if y.all() or not y.any() else sk.roc_auc_score(y, t.s, sample_weight=t.w)


def _ranking(score, needs_both=True, **options):
    """A score of a ranking, where both classes (or positives) are there."""

    def oracle(t):
        y, _ = _ones(t)
        if not y.any() or (needs_both and y.all()):
            return None
        return score(y, t.s, sample_weight=t.w, **options)

    return oracle


def _partial_area(y, s, sample_weight):
    """Without standardization: the trapezoids of scikit-learn's curve, cut by hand."""
    fpr, tpr, _ = sk.roc_curve(y, s, sample_weight=sample_weight, drop_intermediate=False)
    grid = np.union1d(fpr[fpr < 0.3], [0.3])
    upper = [tpr[fpr == x].max() if (fpr == x).any() else np.interp(x, fpr, tpr) for x in grid]
    lower = [tpr[fpr == x].min() if (fpr == x).any() else np.interp(x, fpr, tpr) for x in grid]
    return sum(
        (b - a) * (u + v) / 2 for a, b, u, v in zip(grid, grid[1:], upper, lower[1:], strict=False)
    )


def _kolmogorov(y, s, sample_weight):
    """By the definition, at every score."""
    sides = [[(sample_weight[y == side] * (s[y == side] <= x)).sum() for x in s] for side in (0, 1)]
    totals = [sample_weight[y == side].sum() for side in (0, 1)]
    return np.abs(np.array(sides[0]) / totals[0] - np.array(sides[1]) / totals[1]).max()


def _curve(y, s, sample_weight):
    """Recall and precision at every threshold, by counting."""
    found = []
    for x in sorted(set(s), reverse=True):
        hits = sample_weight[(s >= x) & y].sum()
        found.append((hits / sample_weight[y].sum(), hits / sample_weight[s >= x].sum()))
    return found


def _first_at_recall(least):
    def score(*given, **options):
        return next(p for r, p in _curve(*given, **options) if r >= least - 1e-12)

    return score


def _most_at_precision(least):
    def score(*given, **options):
        return max((r for r, p in _curve(*given, **options) if p >= least and r > 0), default=NAN)

    return score


def _restated(y, s, sample_weight, prevalence=0.01):
    shares = sample_weight / np.where(y, sample_weight[y].sum(), sample_weight[~y].sum())
    return sk.average_precision_score(
        y, s, sample_weight=shares * np.where(y, prevalence, 1 - prevalence)
    )


def _precision_elsewhere(t, prevalence=0.02):
    y, p = _ones(t)
    if not y.any() or y.all():
        return None
    shares = t.w / np.where(y, t.w[y].sum() / prevalence, t.w[~y].sum() / (1 - prevalence))
    return sk.precision_score(y, p, sample_weight=shares, zero_division=NAN)


def _capacity(k, of):
    """Every order of the tied rows is as likely: the rows above the cut, and the mean of ties."""

    def score(y, s, sample_weight):
        room = min(k, len(y)) / len(y) * sample_weight.sum()
        hits, size = 0.0, room
        for x in sorted(set(s), reverse=True):
            here = s == x
            share = min(1.0, room / sample_weight[here].sum())
            hits += share * sample_weight[here & y].sum()
            room -= share * sample_weight[here].sum()
        return hits / (size if of == "precision" else sample_weight[y].sum())

    return score


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


def _bins(t, bins, strategy="uniform"):
    """Weight, share of positives, mean probability and rows of the bins that have rows."""
    y, _ = _ones(t)
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
    y, _ = _ones(t)
    mean = np.average(y, weights=t.w)
    return sum(weight * (rate - mean) ** 2 for weight, rate, _, _ in _bins(t, 10))


def _uncertainty(t):
    mean = np.average(_ones(t)[0], weights=t.w)
    return mean * (1 - mean)


def _log_loss(t):
    return sk.log_loss(_ones(t)[0], t.q, labels=[False, True], sample_weight=t.w)


def _recalibrated(slope):
    """The root of the likelihood equations, by another solver."""

    def oracle(t):
        y, x = _ones(t)[0], special.logit(t.q)
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


def _labels(kind):
    return {"01": None, "words": ["ant", "cat"], "many": [3, 25]}[kind]


def _jaccard(y, p, *, average="binary", labels=None, sample_weight=None, zero_division=NAN):
    """scikit-learn's, whose zero_division can not be NaN: by hand where there is nothing."""
    y, p = np.asarray(y), np.asarray(p)
    labels = [True] if average == "binary" else labels
    parts = [(y == k, p == k) for k in labels]
    both = np.array([sample_weight @ (a & b) for a, b in parts])
    either = np.array([sample_weight @ (a | b) for a, b in parts])
    with np.errstate(invalid="ignore"):
        each = both / either
    if average == "micro":
        return both.sum() / either.sum()
    if average in (None, "binary"):
        return each if average is None else each[0]
    seen = ~np.isnan(each)
    mean = each[seen].mean()
    if seen.any():
        found = sk.jaccard_score(
            y,
            p,
            average="macro",
            labels=np.array(labels)[seen].tolist(),
            sample_weight=sample_weight,
        )
        assert_allclose(mean, found, rtol=EXACT)
    return mean


def _grades(t):
    """The classes as numbers: words by their place in the alphabet."""
    order = {word: k for k, word in enumerate(WORDS)}
    if t.kind != "words":
        return np.asarray(t.y, float), np.asarray(t.p, float)
    return np.array([order[v] for v in t.y]), np.array([order[v] for v in t.p])


def _weighted_kappa(power):
    """From every pair of a row with a row, as agreement of all pairs is agreement by chance."""

    def oracle(t):
        y, p = _grades(t)
        observed = np.average(np.abs(y - p) ** power, weights=t.w)
        chance = np.abs(np.subtract.outer(y, p)) ** power * np.outer(t.w, t.w)
        return 1 - observed / (chance.sum() / t.w.sum() ** 2) if chance.any() else None

    return oracle


def _error_rate(kind):
    def oracle(t):
        y, p = _ones(t)
        score = {"fpr": sk.recall_score, "fnr": sk.recall_score, "npv": sk.precision_score}[kind]
        if kind == "fnr":
            return 1 - score(y, p, sample_weight=t.w, zero_division=NAN)
        value = score(~y, ~p, sample_weight=t.w, zero_division=NAN)
        return 1 - value if kind == "fpr" else value

    return oracle


def _informedness(t):
    y, _ = _ones(t)
    if y.all() or not y.any():
        return None
    return sk.balanced_accuracy_score(*_ones(t), sample_weight=t.w, adjusted=True)


def _markedness(t):
    y, p = _ones(t)
    return (
        None
        if p.all() or not p.any()
        else (
            sk.precision_score(y, p, sample_weight=t.w)
            + sk.precision_score(~y, ~p, sample_weight=t.w)
            - 1
        )
    )


def _costs(kind):
    """A cost for each pair of classes, none like its mirror image."""
    classes = {"01": [0, 1], "words": WORDS, "many": [3, 10, 25]}[kind]
    return {
        (a, b): 1.5 * i + 0.25 * j * j
        for i, a in enumerate(classes, 1)
        for j, b in enumerate(classes)
        if a != b
    }


def _expected_cost(t):
    costs = _costs(t.kind)
    each = [costs.get(pair, 0.0) for pair in zip(t.y, t.p, strict=True)]
    return np.average(each, weights=t.w)


def _families():
    scores = {
        "precision": (fe.precision, sk.precision_score, {}),
        "recall": (fe.recall, sk.recall_score, {}),
        "f1": (fe.f1, sk.f1_score, {}),
        "f0.5": (lambda *a, **k: fe.fbeta(*a, 0.5, **k), sk.fbeta_score, {"beta": 0.5}),
        "f2": (lambda *a, **k: fe.fbeta(*a, 2, **k), sk.fbeta_score, {"beta": 2}),
        "jaccard": (fe.jaccard, _jaccard, {}),
    }
    for name, (metric, score, options) in scores.items():
        yield (
            f"{name} binary",
            Case(lambda kind, m=metric: m("y", "p", positive=_of(kind)), _binary(score, **options)),
        )
        for average in ("macro", "micro", "weighted"):
            oracle = (
                _weighted_f(score, **options)
                if average == "weighted"
                else _average(score, average, **options)
            )
            yield (
                f"{name} {average}",
                Case(lambda _, m=metric, a=average: m("y", "p", average=a), oracle),
            )
    yield (
        "specificity binary",
        Case(lambda kind: fe.specificity("y", "p", positive=_of(kind)), _specificity("binary")),
    )
    for average in ("macro", "micro", "weighted"):
        yield (
            f"specificity {average}",
            Case(lambda _, a=average: fe.specificity("y", "p", average=a), _specificity(average)),
        )


def _of(kind):
    return {"01": None, "words": "ant", "many": 3}[kind]


def _weighted_mean(value):
    return lambda t: np.average(value(t), weights=t.w)


CATALOGUE = {
    "mean": Case(lambda _: fe.mean("x"), _weighted_mean(lambda t: t.x)),
    "bounded mean": Case(
        lambda _: fe.mean("x", better="lower", bounds=(0, 1000)), _weighted_mean(lambda t: t.x)
    ),
    "rate": Case(lambda _: fe.rate("ok"), _weighted_mean(lambda t: t.ok)),
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
    "bias": Case(lambda _: fe.bias("x", "z"), _weighted_mean(lambda t: t.z - t.x)),
    "accuracy": Case(
        lambda _: fe.accuracy("y", "p"), lambda t: sk.accuracy_score(t.y, t.p, sample_weight=t.w)
    ),
    "mcc": Case(lambda _: fe.mcc("y", "p"), _mcc),
    "cohen_kappa": Case(lambda _: fe.cohen_kappa("y", "p"), _kappa),
    "balanced_accuracy": Case(
        lambda _: fe.balanced_accuracy("y", "p"),
        lambda t: sk.recall_score(
            t.y, t.p, labels=sorted(set(t.y)), average="macro", sample_weight=t.w
        ),
    ),
    "roc_auc": Case(lambda kind: fe.roc_auc("y", "s", positive=_of(kind)), _auc),
    "gini": Case(
        lambda kind: fe.gini("y", "s", positive=_of(kind)),
        _ranking(lambda *a, **k: 2 * sk.roc_auc_score(*a, **k) - 1),
    ),
    "average_precision": Case(
        lambda kind: fe.average_precision("y", "s", positive=_of(kind)),
        _ranking(sk.average_precision_score, needs_both=False),
    ),
    "average_precision at a prevalence": Case(
        lambda kind: fe.average_precision("y", "s", positive=_of(kind), at_prevalence=0.01),
        _ranking(_restated),
    ),
    "partial_auc": Case(
        lambda kind: fe.partial_auc("y", "s", 0.3, positive=_of(kind)),
        _ranking(sk.roc_auc_score, max_fpr=0.3),
    ),
    "partial_auc as an area": Case(
        lambda kind: fe.partial_auc("y", "s", 0.3, standardized=False, positive=_of(kind)),
        _ranking(_partial_area),
    ),
    "precision_at_prevalence": Case(
        lambda kind: fe.precision_at_prevalence("y", "p", 0.02, positive=_of(kind)),
        _precision_elsewhere,
    ),
    "ks": Case(lambda kind: fe.ks("y", "s", positive=_of(kind)), _ranking(_kolmogorov)),
    "precision_at_recall": Case(
        lambda kind: fe.precision_at_recall("y", "s", 0.6, positive=_of(kind)),
        _ranking(_first_at_recall(0.6), needs_both=False),
    ),
    "recall_at_precision": Case(
        lambda kind: fe.recall_at_precision("y", "s", 0.4, positive=_of(kind)),
        _ranking(_most_at_precision(0.4), needs_both=False),
    ),
    "precision_at_k": Case(
        lambda kind: fe.precision_at_k("y", "s", 7, positive=_of(kind)),
        lambda t: _capacity(7, "precision")(_ones(t)[0], t.s, t.w),
    ),
    "recall_at_k": Case(
        lambda kind: fe.recall_at_k("y", "s", 7, positive=_of(kind)),
        _ranking(_capacity(7, "recall"), needs_both=False),
    ),
    **dict(_families()),
    **{
        f"{weights} cohen_kappa": Case(
            lambda kind, w=weights: fe.cohen_kappa(
                "y", "p", weights=w, labels=WORDS if kind == "words" else None
            ),
            _weighted_kappa(power),
        )
        for weights, power in (("linear", 1), ("quadratic", 2))
    },
    "npv": Case(lambda kind: fe.npv("y", "p", positive=_of(kind)), _error_rate("npv")),
    "fpr": Case(lambda kind: fe.fpr("y", "p", positive=_of(kind)), _error_rate("fpr")),
    "fnr": Case(lambda kind: fe.fnr("y", "p", positive=_of(kind)), _error_rate("fnr")),
    "informedness": Case(lambda kind: fe.informedness("y", "p", positive=_of(kind)), _informedness),
    "markedness": Case(lambda kind: fe.markedness("y", "p", positive=_of(kind)), _markedness),
    "hamming_loss": Case(
        lambda _: fe.hamming_loss("y", "p"), lambda t: sk.zero_one_loss(t.y, t.p, sample_weight=t.w)
    ),
    "expected_cost": Case(lambda kind: fe.expected_cost("y", "p", _costs(kind)), _expected_cost),
    "brier": Case(
        lambda kind: fe.brier("y", "q", positive=_of(kind)),
        _weighted_mean(lambda t: (_ones(t)[0] - t.q) ** 2),
    ),
    "log_loss": Case(lambda kind: fe.log_loss("y", "q", positive=_of(kind)), _log_loss),
    "perplexity": Case(
        lambda _: fe.perplexity("x", "z"), lambda t: np.exp((t.w @ t.x) / (t.w @ t.z))
    ),
    "bits_per_byte": Case(
        lambda _: fe.bits_per_byte("x", "z"), lambda t: (t.w @ t.x) / (t.w @ t.z) / np.log(2)
    ),
    "ece": Case(
        lambda kind: fe.ece("y", "q", bins=10, positive=_of(kind)),
        _of_bins(lambda w, y, q, _: w * abs(y - q), sum, 10),
    ),
    "ece quantile": Case(
        lambda kind: fe.ece("y", "q", bins=7, strategy="quantile", positive=_of(kind)),
        _of_bins(lambda w, y, q, _: w * abs(y - q), sum, 7, "quantile"),
    ),
    "ece_debiased": Case(
        lambda kind: fe.ece_debiased("y", "q", bins=10, positive=_of(kind)),
        _of_bins(_debiased, sum, 10),
    ),
    "mce": Case(
        lambda kind: fe.mce("y", "q", bins=4, positive=_of(kind)),
        _of_bins(lambda *found: abs(found[1] - found[2]), max, 4),
    ),
    "brier_reliability": Case(
        lambda kind: fe.brier_reliability("y", "q", bins=10, positive=_of(kind)),
        _of_bins(lambda w, y, q, _: w * (y - q) ** 2, sum, 10),
    ),
    "brier_resolution": Case(
        lambda kind: fe.brier_resolution("y", "q", bins=10, positive=_of(kind)), _resolution
    ),
    "brier_uncertainty": Case(
        lambda kind: fe.brier_uncertainty("y", positive=_of(kind)), _uncertainty
    ),
    "calibration_slope": Case(
        lambda kind: fe.calibration_slope("y", "q", positive=_of(kind)), _recalibrated(True)
    ),
    "calibration_intercept": Case(
        lambda kind: fe.calibration_intercept("y", "q", positive=_of(kind)), _recalibrated(False)
    ),
}

each_table = pytest.mark.parametrize("table", TABLES)
each_metric = pytest.mark.parametrize("name", CATALOGUE)


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


@each_table
@each_metric
def test_against_the_oracle(name, table):
    case, (kind, frame) = CATALOGUE[name], TABLES[table]
    metric = case.make(kind)
    result = frame.eval.summary(metric, weight="w")
    assert result["metric"].to_list() == [metric.name]
    compare(result.row(0, named=True), case.oracle(oracle_view(kind, frame)))
    if (frame["w"] == 1).all():
        plain = frame.eval.summary(metric)
        assert_allclose(
            plain["estimate"].to_numpy(), result["estimate"].to_numpy(), rtol=EXACT, equal_nan=True
        )


@each_table
@each_metric
def test_per_slice(name, table):
    case, (kind, frame) = CATALOGUE[name], TABLES[table]
    result = frame.eval.summary(case.make(kind), by="g", weight="w", cluster="c")
    assert result["g"].to_list() == sorted(frame["g"].unique())
    for row in result.iter_rows(named=True):
        part = frame.filter(pl.col("g") == row["g"])
        compare(row, case.oracle(oracle_view(kind, part)))
        assert row["n"] <= part.height
        assert row["clusters"] <= part["c"].n_unique()


@each_metric
def test_slices_of_a_partition_are_the_parts(name):
    """A slice knows nothing of the other rows of the frame: the whole row is equal."""
    for table in ("weighted", "words"):
        case, (kind, frame) = CATALOGUE[name], TABLES[table]
        metric = case.make(kind)
        together = frame.eval.summary(metric, by="g", weight="w", cluster="c")
        alone = pl.concat(
            part.eval.summary(metric, by="g", weight="w", cluster="c")
            for part in frame.partition_by("g", maintain_order=True)
        ).sort("g")
        assert_frame_equal(together, alone, rel_tol=1e-11, abs_tol=1e-12)


@each_metric
def test_row_order_does_not_matter(name):
    case, (kind, frame) = CATALOGUE[name], TABLES["weighted"]
    shuffled = frame.sample(fraction=1, shuffle=True, seed=11)
    for roles in ({}, {"weight": "w"}, {"cluster": "c"}, {"weight": "w", "cluster": "c"}):
        first = frame.eval.summary(case.make(kind), by="g", **roles)
        second = shuffled.eval.summary(case.make(kind), by="g", **roles)
        assert_frame_equal(first, second, rel_tol=EXACT, abs_tol=1e-13)


# Interpolation between order statistics and a bias of 1/n see the number of rows: copies are no
# weights there.
OF_ROWS = {
    name
    for name, case in CATALOGUE.items()
    if case.make(TABLES["weighted"][0]).quantile not in (None, 0, 1)
} | {"ece_debiased"}


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in OF_ROWS])
def test_duplicated_rows_of_a_cluster_weigh_twice(name):
    """Each row twice, or with weight 2: the same estimate and the same clustered error."""
    case, (kind, frame) = CATALOGUE[name], TABLES["weighted"]
    metric = case.make(kind)
    twice = pl.col("c") % 2 == 0
    doubled = pl.concat([frame, frame.filter(twice)])
    weighted = frame.with_columns(v=pl.when(twice).then(2.0).otherwise(1.0))
    first = doubled.eval.summary(metric, cluster="c").row(0, named=True)
    second = weighted.eval.summary(metric, cluster="c", weight="v").row(0, named=True)
    if not name.endswith("_at_k"):  # k counts rows, which weights are not
        assert_allclose(first["estimate"], second["estimate"], rtol=1e-12)
    assert first["clusters"] == second["clusters"]
    if metric.smooth:
        assert_allclose(first["std_error"], second["std_error"], rtol=1e-10)


@each_metric
def test_weights_are_free_of_scale(name):
    case, (kind, frame) = CATALOGUE[name], TABLES["weighted"]
    scaled = frame.with_columns(w=1e-3 * pl.col("w"))
    for cluster in (None, "c"):
        first = frame.eval.summary(case.make(kind), weight="w", cluster=cluster)
        second = scaled.eval.summary(case.make(kind), weight="w", cluster=cluster)
        assert_frame_equal(first, second, rel_tol=1e-10, abs_tol=1e-12)


@each_metric
def test_a_metric_travels(name):
    """Pickled, printed, renamed."""
    case, (kind, frame) = CATALOGUE[name], TABLES["words"]
    metric = case.make(kind)
    again = pickle.loads(pickle.dumps(metric))
    assert_frame_equal(frame.eval.summary(again), frame.eval.summary(metric))
    assert metric.name in repr(metric)
    assert all(repr(c) in repr(metric) for i in metric.inputs.values() for c in i.sources)
    renamed = frame.eval.summary(metric.alias("mine"))
    assert renamed["metric"].to_list() == ["mine"]
    assert metric.name != "mine"
    assert_frame_equal(renamed.drop("metric"), frame.eval.summary(metric).drop("metric"))


@each_metric
@pytest.mark.parametrize("table", ["random", "tied", "bools", "one class", "no positives", "words"])
def test_the_expression_is_the_estimate(name, table):
    case, (kind, frame) = CATALOGUE[name], TABLES[table]
    metric = case.make(kind)
    expected = frame.eval.summary(metric, by="g")["estimate"].to_list()
    if metric.cells and metric.expression is None:
        with pytest.raises(fe.EvalError, match="summary"):
            metric.expr()
        return
    found = frame.group_by("g").agg(metric.expr()).sort("g")[metric.name].to_list()
    for value, estimate in zip(found, expected, strict=True):
        assert (value is None) == (estimate is None)
        assert value is None or math.isclose(value, estimate, rel_tol=1e-12, abs_tol=1e-15)


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (fe.precision, sk.precision_score),
        (fe.recall, sk.recall_score),
        (fe.f1, sk.f1_score),
        (lambda *a, **k: fe.fbeta(*a, 2, **k), lambda *a, **k: sk.fbeta_score(*a, beta=2, **k)),
    ],
    ids=["precision", "recall", "f1", "f2"],
)
class TestScoresPerClass:
    """Averages over chosen classes, a row per class, and values for 0/0."""

    @pytest.mark.parametrize("table", ["words", "weighted words", "alien prediction", "random"])
    def test_a_row_per_class(self, metric, score, table):
        _, frame = TABLES[table]
        result = frame.eval.summary(metric("y", "p", average=None), weight="w")
        classes = sorted({*frame["y"], *frame["p"]})
        assert result["class"].to_list() == classes
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=classes,
            average=None,
            sample_weight=frame["w"].to_numpy(),
            zero_division=NAN,
        )
        for row, value in zip(result.iter_rows(named=True), expected, strict=True):
            compare(row, value)

    @pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
    @pytest.mark.parametrize("labels", [["ant"], ["ant", "cat"], ["dog", "bee"]])
    @pytest.mark.parametrize("table", ["words", "weighted words"])
    def test_chosen_labels(self, metric, score, average, labels, table):
        _, frame = TABLES[table]
        result = frame.eval.summary(metric("y", "p", average=average, labels=labels), weight="w")
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=labels,
            average=average,
            sample_weight=frame["w"].to_numpy(),
            zero_division=NAN,
        )
        compare(result.row(0, named=True), expected)

    @pytest.mark.parametrize("average", ["macro", "micro"])
    @pytest.mark.parametrize("zero", [0, 1, None])
    @pytest.mark.parametrize("table", ["words", "unpredicted class", "alien prediction"])
    def test_a_label_that_never_occurs(self, metric, score, average, zero, table):
        _, frame = TABLES[table]
        labels = ["ant", "cat", "eel"]
        result = frame.eval.summary(
            metric("y", "p", average=average, labels=labels, zero_division=zero)
        )
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=labels,
            average=average,
            zero_division=NAN if zero is None else zero,
        )
        compare(result.row(0, named=True), expected)

    @pytest.mark.parametrize("zero", [0, 1, None])
    @pytest.mark.parametrize("table", ["words", "weighted words"])
    def test_a_label_that_never_occurs_has_a_row(self, metric, score, zero, table):
        _, frame = TABLES[table]
        labels = ["eel", "cat", "ant"]
        result = frame.eval.summary(
            metric("y", "p", average=None, labels=labels, zero_division=zero), weight="w"
        )
        assert result["class"].to_list() == labels
        expected = score(
            frame["y"].to_numpy(),
            frame["p"].to_numpy(),
            labels=labels,
            average=None,
            sample_weight=frame["w"].to_numpy(),
            zero_division=NAN if zero is None else zero,
        )
        assert result["n"][0] == (frame.height if result["metric"][0] == "f2" else 0)
        for row, value in zip(result.iter_rows(named=True), expected, strict=True):
            if zero is None or row["class"] != "eel":
                compare(row, value)
            else:
                assert row["estimate"] == value

    @pytest.mark.parametrize("zero", [0, 1])
    @pytest.mark.parametrize("table", ["all negative", "no positives", "no predicted positives"])
    def test_zero_division(self, metric, score, zero, table):
        _, frame = TABLES[table]
        result = frame.eval.summary(metric("y", "p", zero_division=zero))
        y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
        assert result["estimate"].item() == score(y, p, zero_division=zero)


@pytest.mark.parametrize("labels", [[1], [True], [1.0]])
@pytest.mark.parametrize("dtype", [pl.Int8, pl.Float64, pl.Boolean])
def test_numeric_labels_are_numbers(labels, dtype):
    """Labels name classes by value, whatever numeric type the column has."""
    _, frame = TABLES["random"]
    typed = frame.with_columns(pl.col("y", "p").cast(dtype))
    result = typed.eval.summary(fe.recall("y", "p", average="macro", labels=labels))
    expected = sk.recall_score(frame["y"].to_numpy(), frame["p"].to_numpy())
    assert_allclose(result["estimate"].item(), expected, rtol=EXACT)


def test_counts_behind_an_estimate():
    _, frame = TABLES["random"]
    y, p = frame["y"].to_numpy(), frame["p"].to_numpy()
    metrics = fe.recall, fe.precision, fe.specificity, fe.f1, fe.accuracy
    result = frame.eval.summary(*(metric("y", "p") for metric in metrics))
    union = int((y | p).sum())
    assert result["n"].to_list() == [y.sum(), p.sum(), (1 - y).sum(), union, len(y)]


def test_any_class_may_be_the_positive_one():
    _, frame = TABLES["words"]
    for word in WORDS:
        found = frame.eval.summary(fe.f1("y", "p", positive=word))["estimate"].item()
        y, p = frame["y"].to_numpy() == word, frame["p"].to_numpy() == word
        assert_allclose(found, sk.f1_score(y, p), rtol=EXACT)


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_pass_at_k(k):
    rng = np.random.default_rng(k)
    problem = np.repeat(np.arange(40), rng.integers(10, 14, 40))
    ok = rng.random(len(problem)) < (problem % 5) / 5
    frame = pl.DataFrame({"task": problem, "ok": ok, "lang": problem % 2})
    metric = fe.pass_at_k("ok", k)

    def value(task):
        n, c = int((problem == task).sum()), int(ok[problem == task].sum())
        return 1 - math.comb(n - c, k) / math.comb(n, k)

    values = np.array([value(task) for task in range(40)])
    whole = frame.eval.summary(metric, example="task").row(0, named=True)
    assert_allclose(whole["estimate"], values.mean(), rtol=1e-13)
    assert_allclose(whole["std_error"], values.std(ddof=1) / np.sqrt(40), rtol=1e-10)
    assert whole["n"] == whole["clusters"] == 40
    parts = frame.eval.summary(metric, example="task", by="lang")["estimate"].to_list()
    assert_allclose(parts, [values[::2].mean(), values[1::2].mean()], rtol=1e-13)
    with pytest.raises(fe.EvalError, match="summary"):
        metric.expr()
    again = pickle.loads(pickle.dumps(metric)).alias("mine")
    assert frame.eval.summary(again, example="task")["estimate"].item() == whole["estimate"]


def test_pass_at_k_short_of_attempts():
    frame = pl.DataFrame({"task": [1, 1, 1, 2], "ok": [1, 0, 1, 1]})
    with pytest.raises(fe.EvalError, match="1 problems have fewer than k=3"):
        frame.eval.summary(fe.pass_at_k("ok", 3), example="task")
    kept = frame.eval.summary(fe.pass_at_k("ok", 3, short="drop"), example="task")
    assert kept["estimate"].item() == 1.0
    assert kept["n"].item() == 1


def test_pandas_gives_the_same():
    _, frame = TABLES["weighted"]
    metrics = [CATALOGUE[name].make("01").alias(name) for name in CATALOGUE]
    first = frame.eval.summary(*metrics, by="g", weight="w", cluster="c")
    second = frame.to_pandas().eval.summary(*metrics, by="g", weight="w", cluster="c")
    assert_frame_equal(
        first.select(cs.numeric()),
        pl.from_pandas(second).select(cs.numeric()),
        rel_tol=1e-12,
        check_dtypes=False,
    )


@pytest.mark.parametrize("name", ["mean", "rate", "median", "accuracy", "roc_auc", "f1 macro"])
def test_a_slice_without_weight_is_undefined(name):
    frame = pl.DataFrame(
        {"g": [0, 0, 1, 1], "w": [0.0, 0.0, 1.0, 2.0], "x": [1.0, 2.0, 3.0, 4.0], "s": [1, 2, 3, 4]}
    ).with_columns(y=pl.col("s") % 2, p=pl.col("s") % 2, ok=pl.col("s") > 2)
    metric = CATALOGUE[name].make("01")
    first, second = frame.eval.summary(metric, by="g", weight="w").iter_rows(named=True)
    compare(first, None)
    assert second["estimate"] is not None
