"""Metrics of scores beside scikit-learn and the definitions, by counting."""

import numpy as np
from oracles.cases import NAN, Case, ones, positive_of
from sklearn import metrics as sk

import frame_eval as fe


def _auc(t):
    y, _ = ones(t)
    return None if y.all() or not y.any() else sk.roc_auc_score(y, t.s, sample_weight=t.w)


def _ranking(score, needs_both=True, **options):
    """A score of a ranking, where both classes (or positives) are there."""

    def oracle(t):
        y, _ = ones(t)
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


CASES = {
    "roc_auc": Case(lambda kind: fe.roc_auc("y", "s", positive=positive_of(kind)), _auc),
    "gini": Case(
        lambda kind: fe.gini("y", "s", positive=positive_of(kind)),
        _ranking(lambda *a, **k: 2 * sk.roc_auc_score(*a, **k) - 1),
    ),
    "average_precision": Case(
        lambda kind: fe.average_precision("y", "s", positive=positive_of(kind)),
        _ranking(sk.average_precision_score, needs_both=False),
    ),
    "average_precision at a prevalence": Case(
        lambda kind: fe.average_precision("y", "s", positive=positive_of(kind), at_prevalence=0.01),
        _ranking(_restated),
    ),
    "partial_auc": Case(
        lambda kind: fe.partial_auc("y", "s", 0.3, positive=positive_of(kind)),
        _ranking(sk.roc_auc_score, max_fpr=0.3),
    ),
    "partial_auc as an area": Case(
        lambda kind: fe.partial_auc("y", "s", 0.3, standardized=False, positive=positive_of(kind)),
        _ranking(_partial_area),
    ),
    "ks": Case(lambda kind: fe.ks("y", "s", positive=positive_of(kind)), _ranking(_kolmogorov)),
    "precision_at_recall": Case(
        lambda kind: fe.precision_at_recall("y", "s", 0.6, positive=positive_of(kind)),
        _ranking(_first_at_recall(0.6), needs_both=False),
    ),
    "recall_at_precision": Case(
        lambda kind: fe.recall_at_precision("y", "s", 0.4, positive=positive_of(kind)),
        _ranking(_most_at_precision(0.4), needs_both=False),
    ),
    "precision_at_k": Case(
        lambda kind: fe.precision_at_k("y", "s", 7, positive=positive_of(kind)),
        lambda t: _capacity(7, "precision")(ones(t)[0], t.s, t.w),
    ),
    "recall_at_k": Case(
        lambda kind: fe.recall_at_k("y", "s", 7, positive=positive_of(kind)),
        _ranking(_capacity(7, "recall"), needs_both=False),
    ),
}
