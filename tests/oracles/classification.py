"""Metrics of labels and predictions beside scikit-learn and counting."""

import numpy as np
from numpy.testing import assert_allclose
from oracles.cases import EXACT, NAN, WORDS, Case, ones, positive_of
from sklearn import metrics as sk

import frame_eval as fe


def _binary(score, **options):
    def oracle(t):
        y, p = ones(t)
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
            y, p = ones(t)
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


def _precision_elsewhere(t, prevalence=0.02):
    y, p = ones(t)
    if not y.any() or y.all():
        return None
    shares = t.w / np.where(y, t.w[y].sum() / prevalence, t.w[~y].sum() / (1 - prevalence))
    return sk.precision_score(y, p, sample_weight=shares, zero_division=NAN)


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
        y, p = ones(t)
        score = {"fpr": sk.recall_score, "fnr": sk.recall_score, "npv": sk.precision_score}[kind]
        if kind == "fnr":
            return 1 - score(y, p, sample_weight=t.w, zero_division=NAN)
        value = score(~y, ~p, sample_weight=t.w, zero_division=NAN)
        return 1 - value if kind == "fpr" else value

    return oracle


def _informedness(t):
    y, _ = ones(t)
    if y.all() or not y.any():
        return None
    return sk.balanced_accuracy_score(*ones(t), sample_weight=t.w, adjusted=True)


def _markedness(t):
    y, p = ones(t)
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
            Case(
                lambda kind, m=metric: m("y", "p", positive=positive_of(kind)),
                _binary(score, **options),
            ),
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
        Case(
            lambda kind: fe.specificity("y", "p", positive=positive_of(kind)),
            _specificity("binary"),
        ),
    )
    for average in ("macro", "micro", "weighted"):
        yield (
            f"specificity {average}",
            Case(lambda _, a=average: fe.specificity("y", "p", average=a), _specificity(average)),
        )


CASES = {
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
    "precision_at_prevalence": Case(
        lambda kind: fe.precision_at_prevalence("y", "p", 0.02, positive=positive_of(kind)),
        _precision_elsewhere,
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
    "npv": Case(lambda kind: fe.npv("y", "p", positive=positive_of(kind)), _error_rate("npv")),
    "fpr": Case(lambda kind: fe.fpr("y", "p", positive=positive_of(kind)), _error_rate("fpr")),
    "fnr": Case(lambda kind: fe.fnr("y", "p", positive=positive_of(kind)), _error_rate("fnr")),
    "informedness": Case(
        lambda kind: fe.informedness("y", "p", positive=positive_of(kind)), _informedness
    ),
    "markedness": Case(
        lambda kind: fe.markedness("y", "p", positive=positive_of(kind)), _markedness
    ),
    "hamming_loss": Case(
        lambda _: fe.hamming_loss("y", "p"), lambda t: sk.zero_one_loss(t.y, t.p, sample_weight=t.w)
    ),
    "expected_cost": Case(lambda kind: fe.expected_cost("y", "p", _costs(kind)), _expected_cost),
}
