"""Clustered errors against statsmodels, scipy and matrix forms written here."""

import re

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from scipy import stats

import frame_eval as fe

SIZES = {
    "unequal": [1, 2, 3, 5, 8, 13, 21, 2, 1],
    "equal": [6] * 10,
    "one giant": [60, 1, 1, 2, 3],
    "many": list(range(1, 31)),
}
each_sizes = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def clustered_frame(sizes, seed=0, icc=0.3):
    """Scores, 0/1 outcomes, denominators and weights, with an effect per cluster."""
    rng = np.random.default_rng(seed)
    c = np.repeat(np.arange(len(sizes)), sizes)
    effect = rng.normal(0, icc, len(sizes))[c]
    n = len(c)
    x = effect + rng.normal(size=n)
    return pl.DataFrame(
        {
            "c": c,
            "x": x,
            "ok": (x > -0.4).astype(int),
            "d": rng.integers(1, 9, n),
            "w": rng.integers(1, 5, n) / 2,
        }
    )


def one(frame, metric, **options):
    return frame.eval.summary(metric, **options).row(0, named=True)


def df_of(row):
    return float(re.search(r"df=([0-9.e+]+)", row["method"])[1])


def statsmodels_error(frame, column, weights=None, correct=True, over=1.0):
    """Of the constant in a (weighted) regression on a constant, clustered."""
    y = frame[column].to_numpy() / over
    n, groups = len(y), frame["c"].n_unique()
    w = np.ones(n) if weights is None else weights
    kwds = {"groups": frame["c"].to_numpy(), "use_correction": False}
    fit = sm.WLS(y, np.ones(n), weights=w).fit(cov_type="cluster", cov_kwds=kwds)
    return fit.bse[0] * np.sqrt(groups / (groups - 1) if correct else 1)


@each_sizes
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("interval", ["cr0", "cr1"])
def test_cr1_and_cr0_are_those_of_statsmodels(sizes, weighted, interval):
    frame = clustered_frame(sizes)
    weight = "w" if weighted else None
    w = frame["w"].to_numpy() if weighted else np.ones(len(frame))
    options = {"cluster": "c", "weight": weight, "interval": interval}
    for metric, column in ((fe.mean("x"), "x"), (fe.rate("ok"), "ok")):
        found = one(frame, metric, **options)
        expected = statsmodels_error(frame, column, w, interval == "cr1")
        assert_allclose(found["std_error"], expected, rtol=1e-9)
        assert found["clusters"] == len(sizes)
    found = one(frame, fe.ratio("x", "d"), **options)
    d = frame["d"].to_numpy()
    expected = statsmodels_error(frame, "x", w * d, interval == "cr1", over=d)
    assert_allclose(found["std_error"], expected, rtol=1e-9)
    half = stats.t.ppf(0.975, len(sizes) - 1) * expected
    assert_allclose(
        [found["ci_low"], found["ci_high"]], found["estimate"] + half * np.array([-1, 1])
    )


def bell_mccaffrey(y, c):
    """CR2 of a mean and its Satterthwaite degrees of freedom, with n x n matrices.

    OLS on a constant. Working covariance: exchangeable in clusters with the ANOVA correlation of
    the residuals (Imbens and Kolesar 2016, with MSB and MSW in place of their moment estimator).
    """
    n, groups = len(y), np.unique(c)
    ones = np.ones((n, 1))
    hat = np.eye(n) - ones @ ones.T / n
    residual = hat @ y
    columns, value = [], 0.0
    for g in groups:
        inside = np.flatnonzero(c == g)
        block = hat[np.ix_(inside, inside)]
        roots, vectors = np.linalg.eigh(block)
        adjust = vectors @ np.diag(roots**-0.5) @ vectors.T
        a = adjust @ np.ones(len(inside)) / n
        columns.append(hat[:, inside] @ a)
        value += (a @ residual[inside]) ** 2
    design = np.stack(columns, 1)
    rho = anova(residual, c)
    working = np.where(c[:, None] == c[None, :], rho, 0.0)
    np.fill_diagonal(working, 1.0)
    inner = design.T @ working @ design
    return value, np.trace(inner) ** 2 / np.trace(inner @ inner)


def anova(r, c):
    groups = [r[c == g] for g in np.unique(c)]
    n, k = len(r), len(groups)
    if n == k:
        return 0.0
    between = sum(len(g) * (g.mean() - r.mean()) ** 2 for g in groups) / (k - 1)
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (n - k)
    size = (n - sum(len(g) ** 2 for g in groups) / n) / (k - 1)
    return min(1.0, max(0.0, (between - within) / (between + (size - 1) * within)))


@each_sizes
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("column", ["x", "ok"])
def test_cr2_is_the_matrix_form(sizes, seed, column):
    frame = clustered_frame(sizes, seed, icc=0.4 * seed)
    y, c = frame[column].to_numpy().astype(float), frame["c"].to_numpy()
    value, df = bell_mccaffrey(y, c)
    found = one(frame, fe.mean(column), cluster="c")
    assert_allclose(found["std_error"], np.sqrt(value), rtol=1e-9)
    assert df_of(found) == pytest.approx(df, rel=6e-3)  # as printed, to three digits
    half = (found["ci_high"] - found["ci_low"]) / 2
    assert_allclose(half, stats.t.ppf(0.975, df) * np.sqrt(value), rtol=1e-9)
    if column == "ok":
        rate = one(frame, fe.rate(column), cluster="c")
        assert_allclose(rate["std_error"], np.sqrt(value), rtol=1e-9)
        low, high = wilson_on(y, c, value, df)
        assert_allclose([rate["ci_low"], rate["ci_high"]], [low, high], rtol=1e-9)


def wilson_on(y, c, variance, df, level=0.95):
    """Wilson on the size that the CR2 variance leaves, and at most one correlation of all rows."""
    p, n = y.mean(), len(y)
    t = stats.t(n - 1).ppf(0.5 + level / 2) / stats.t(df).ppf(0.5 + level / 2)
    size = min(n, n / max(1, variance * (n - 1) / (p * (1 - p))) * t**2)
    alike = np.where(c[:, None] == c[None, :], anova(y - p, c), 0.0)
    np.fill_diagonal(alike, 1.0)
    size = min(size, n**2 / alike.sum())
    z = stats.norm.ppf(0.5 + level / 2)
    centre, half = p + z**2 / 2 / size, z * np.sqrt(p * (1 - p) / size + z**2 / 4 / size**2)
    return (centre - half) / (1 + z**2 / size), (centre + half) / (1 + z**2 / size)


@pytest.mark.parametrize("weight", [None, "same"])
def test_failures_that_miss_the_large_clusters_say_little_of_them(weight):
    """The CR2 variance is then small by chance; the correlation of all rows is not."""
    sizes = np.r_[np.full(30, 2), np.full(10, 40)]
    c = np.repeat(np.arange(40), sizes)
    y = 1.0 - (c < 5)
    frame = pl.DataFrame({"c": c, "ok": y.astype(int), "same": np.full(len(y), 3.0)})
    value, df = bell_mccaffrey(y, c)
    p, n, icc = y.mean(), len(y), anova(y - y.mean(), c)
    assert icc == 1
    robust, implied = value * (n - 1) / (p * (1 - p)), (sizes**2).sum() / n
    assert 1 < robust < implied / 5
    found = one(frame, fe.rate("ok"), cluster="c", weight=weight)
    assert f"n_eff={n / implied:.4g}," in found["method"]
    assert_allclose([found["ci_low"], found["ci_high"]], wilson_on(y, c, value, df), rtol=1e-9)


def test_equal_clusters_give_cr1_and_one_less_degree():
    frame = clustered_frame([6] * 10)
    first = one(frame, fe.mean("x"), cluster="c")
    second = one(frame, fe.mean("x"), cluster="c", interval="cr1")
    assert df_of(first) == 9
    for name in ("std_error", "ci_low", "ci_high"):
        assert_allclose(first[name], second[name], rtol=1e-11)


def test_the_leverage_of_a_ratio_is_its_share_of_the_denominator():
    frame = clustered_frame(SIZES["unequal"], 3)
    per = frame.group_by("c", maintain_order=True).agg(pl.sum("x", "d"))
    x, d = per["x"].to_numpy(), per["d"].to_numpy()
    influence = x - x.sum() / d.sum() * d
    expected = np.sqrt((influence**2 / (1 - d / d.sum())).sum()) / d.sum()
    assert_allclose(one(frame, fe.ratio("x", "d"), cluster="c")["std_error"], expected, rtol=1e-10)


def test_unclustered_means_are_scipy():
    x = clustered_frame([1] * 50)["x"].to_numpy()
    found = one(pl.DataFrame({"x": x}), fe.mean("x"))
    t = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
    assert_allclose([found["ci_low"], found["ci_high"]], t, rtol=1e-11)
    assert_allclose(found["std_error"], stats.sem(x), rtol=1e-11)
    assert df_of(found) == 49


def test_unclustered_ratio_is_the_delta_method():
    """With the leverage of each row, which for equal denominators is n / (n - 1)."""
    frame = clustered_frame([1] * 40)
    found = one(frame, fe.ratio("x", "d"))["std_error"]
    x, d = frame["x"].to_numpy(), frame["d"].to_numpy()
    each = (x - x.sum() / d.sum() * d) / d.sum()
    cr0 = one(frame, fe.ratio("x", "d"), interval="cr0")["std_error"]
    assert_allclose(cr0, np.sqrt((each**2).sum()), rtol=1e-10)
    # Without clusters, rows are counted, not listed: their average leverage stands for each.
    assert_allclose(found, np.sqrt((each**2).sum() * 40 / 39), rtol=1e-10)


METRICS = {
    "mean": fe.mean("x"),
    "rate": fe.rate("ok"),
    "ratio": fe.ratio("x", "d"),
    "rmse": fe.rmse("x", "d"),
    "accuracy": fe.accuracy("ok", "guess"),
    "f1": fe.f1("ok", "guess"),
    "f2": fe.fbeta("ok", "guess", 2),
    "recall": fe.recall("ok", "guess"),
    "mcc": fe.mcc("ok", "guess"),
    "macro": fe.f1("ok", "guess", average="macro"),
    "roc_auc": fe.roc_auc("ok", "d"),
    "median": fe.median("x"),
}


@pytest.mark.parametrize("name", [name for name in METRICS if name != "ratio"])
def test_clusters_of_one_row_give_the_unclustered_numbers(name):
    frame = clustered_frame([1] * 60).with_columns(guess=(pl.col("d") > 3).cast(pl.Int64))
    first = frame.eval.summary(METRICS[name])
    second = frame.eval.summary(METRICS[name], cluster="c")
    assert_frame_equal(first, second, rel_tol=1e-11)


@pytest.mark.parametrize("name", METRICS)
def test_one_cluster_has_no_error(name):
    frame = clustered_frame([30]).with_columns(guess=(pl.col("d") > 3).cast(pl.Int64))
    found = one(frame, METRICS[name], cluster="c")
    assert found["estimate"] is not None
    assert found["std_error"] is None
    assert found["ci_low"] is None
    assert found["ci_high"] is None
    assert found["note"]


def delong(y, s):
    """The variance of the AUC from placement values (DeLong and others 1988)."""
    x, z = s[y == 1], s[y == 0]
    wins = (x[:, None] > z[None, :]) + 0.5 * (x[:, None] == z[None, :])
    v10, v01 = wins.mean(1), wins.mean(0)
    return wins.mean(), v10.var(ddof=1) / len(x) + v01.var(ddof=1) / len(z)


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_auc_is_delong(digits):
    rng = np.random.default_rng(digits)
    y = (rng.random(150) < 0.3).astype(int)
    s = np.round(rng.normal(size=150) + y, digits)
    auc, variance = delong(y, s)
    found = one(pl.DataFrame({"y": y, "s": s}), fe.roc_auc("y", "s"))
    assert_allclose([found["estimate"], found["std_error"]], [auc, np.sqrt(variance)], rtol=1e-10)


def test_clustered_auc_is_near_a_cluster_bootstrap():
    rng = np.random.default_rng(5)
    sizes = rng.integers(5, 12, 120)
    c = np.repeat(np.arange(120), sizes)
    y = (rng.random(len(c)) < 0.4).astype(int)
    s = 0.8 * y + rng.normal(size=len(c)) + rng.normal(0, 0.7, 120)[c]
    frame = pl.DataFrame({"y": y, "s": s, "c": c})
    rows = [np.flatnonzero(c == g) for g in range(120)]
    drawn = []
    for _ in range(2000):
        chosen = np.concatenate([rows[g] for g in rng.integers(0, 120, 120)])
        ranks, labels = stats.rankdata(s[chosen]), y[chosen]
        k = labels.sum()
        drawn.append((ranks[labels == 1].sum() - k * (k + 1) / 2) / (k * (len(chosen) - k)))
    found = one(frame, fe.roc_auc("y", "s"), cluster="c")
    # 2,000 draws know the error to 1.6 %
    assert_allclose(found["std_error"], np.std(drawn), rtol=0.05)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_auc_at_the_end_has_no_interval(share):
    frame = pl.DataFrame(
        {"y": [0, 0, 1, 1] * 6, "s": np.array([0.0, 0, 1, 1] * 6) * (2 * share - 1)}
    )
    found = one(frame, fe.roc_auc("y", "s"))
    assert found["estimate"] == share
    assert found["ci_low"] is None
    assert found["ci_high"] is None
    assert found["note"]


def test_f1_is_a_mapped_wilson():
    frame = clustered_frame([1] * 80).with_columns(guess=(pl.col("d") > 4).cast(pl.Int64))
    y, p = frame["ok"].to_numpy(), frame["guess"].to_numpy()
    hits, union = (y & p).sum(), (y | p).sum()
    wilson = stats.binomtest(int(hits), int(union)).proportion_ci(method="wilson")
    found = one(frame, fe.f1("ok", "guess"))
    assert_allclose(
        [found["ci_low"], found["ci_high"]], [2 * j / (1 + j) for j in wilson], rtol=1e-10
    )
    j = hits / union
    slope = 2 / (1 + j) ** 2
    assert_allclose(found["std_error"], slope * np.sqrt(j * (1 - j) / union), rtol=1e-10)


CLASSES = {
    "f1 weighted": fe.f1("kind", "guessed", average="weighted"),
    "f1 of two": fe.f1("kind", "guessed", average="macro", labels=["a", "c", "none such"]),
    "f1 with zeros": fe.f1(
        "kind", "guessed", average="macro", labels=["a", "none such"], zero_division=0
    ),
    "f2 of one": fe.fbeta("kind", "guessed", 2, average=None, labels=["b"]),
    "f1 pooled over two": fe.f1("kind", "guessed", average="micro", labels=["a", "c"]),
    "precision weighted": fe.precision("kind", "guessed", average="weighted"),
    "recall weighted": fe.recall("kind", "guessed", average="weighted", labels=["a", "b"]),
    "specificity macro": fe.specificity("kind", "guessed", average="macro"),
    "specificity pooled": fe.specificity("kind", "guessed", average="micro"),
    "specificity weighted": fe.specificity("kind", "guessed", average="weighted"),
    "specificity of one": fe.specificity("kind", "guessed", average=None, labels=["c"]),
    "mcc of three": fe.mcc("kind", "guessed"),
    "kappa of three": fe.cohen_kappa("kind", "guessed"),
    "balanced accuracy": fe.balanced_accuracy("kind", "guessed"),
    **{name: METRICS[name] for name in ("f2", "macro", "mcc", "rmse", "ratio", "roc_auc")},
}


@pytest.mark.parametrize("name", CLASSES)
def test_linearised_metrics_are_near_the_jackknife(name):
    """Gradients: the delete-a-cluster jackknife agrees to the second order."""
    frame = clustered_frame([5] * 200, 7).with_columns(
        pl.col("d") + pl.col("ok"), guess=(pl.col("d") > 3).cast(pl.Int64)
    )
    kind = (pl.col("x") * 1.5).round().clip(-1, 1).cast(pl.Int64) + 1
    names = pl.Series(["a", "b", "c"])
    frame = frame.with_columns(
        kind=kind.replace_strict([0, 1, 2], names),
        guessed=(pl.col("d") % 3).replace_strict([0, 1, 2], names),
    )
    copies = pl.concat(
        frame.filter(pl.col("c") != g).with_columns(left_out=pl.lit(g)) for g in range(200)
    )
    drawn = copies.eval.summary(CLASSES[name], by="left_out", interval=None)["estimate"].to_numpy()
    expected = np.sqrt(199 / 200 * ((drawn - drawn.mean()) ** 2).sum())
    found = one(frame, CLASSES[name], cluster="c")
    assert_allclose(found["std_error"], expected, rtol=0.015)


def test_recall_lives_on_the_positives():
    """Its rows, its clusters and its leverages are those of the positives."""
    frame = clustered_frame(SIZES["many"], 2).with_columns(guess=(pl.col("d") > 3).cast(pl.Int64))
    positives = frame.filter(pl.col("ok") == 1)
    found = one(frame, fe.recall("ok", "guess"), cluster="c")
    alone = one(positives, fe.rate("guess"), cluster="c")
    for name in ("estimate", "std_error", "ci_low", "ci_high", "n", "clusters"):
        assert_allclose(found[name], alone[name], rtol=1e-10)
    assert found["n"] == positives.height


@pytest.mark.parametrize("n", [3, 10, 57, 200])
@pytest.mark.parametrize("q", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_quantile_limits_are_the_narrowest_covering_ranks(n, q, level):
    """By brute force: of the ranks each of which leaves out at most half the error."""
    x = np.random.default_rng(n).permutation(n).astype(float)  # the value is the rank
    found = one(pl.DataFrame({"x": x}), fe.quantile("x", q), level=level)
    tail = (1 - level) / 2
    binomial = stats.binom(n, q)
    # X_(l) > quantile happens when fewer than l rows are below it.
    lows = [rank for rank in range(1, n + 1) if binomial.cdf(rank - 1) <= tail + 1e-12]
    highs = [rank for rank in range(1, n + 1) if binomial.sf(rank - 1) <= tail + 1e-12]
    assert found["ci_low"] == (max(lows) - 1 if lows else None)
    assert found["ci_high"] == (min(highs) - 1 if highs else None)
    if lows and highs:
        assert binomial.cdf(min(highs) - 1) - binomial.cdf(max(lows) - 1) >= level
    else:
        assert found["note"]


@pytest.mark.parametrize("ones", [0, 1])
def test_all_alike_is_not_certain(ones):
    frame = pl.DataFrame({"ok": [ones] * 40, "c": np.arange(40) // 8})
    for options, size in (({}, 40), ({"cluster": "c"}, 5)):
        found = one(frame, fe.rate("ok"), **options)
        wilson = stats.binomtest(size * ones, size).proportion_ci(method="wilson")
        assert_allclose([found["ci_low"], found["ci_high"]], wilson, rtol=1e-10, atol=1e-15)
    assert found["note"].startswith("all alike")


@pytest.mark.parametrize("metric", [fe.brier("y", "p"), fe.mae("y", "p"), fe.roc_auc("y", "p")])
def test_limits_of_which_nothing_is_known_are_the_bounds(metric):
    """One degree of freedom and a level near 1: on the scale of the limits they are far away."""
    frame = pl.DataFrame(
        {"y": [0, 1, 1, 0, 1, 0], "p": [0.2, 0.7, 0.4, 0.6, 0.9, 0.1], "doc": [1, 1, 1, 2, 2, 2]}
    )
    found = frame.eval.summary(metric, cluster="doc", level=1 - 1e-7).row(0, named=True)
    most = 1.0 if metric.bounds[1] == 1 else 1e300
    assert found["ci_low"] < 1e-300
    assert found["ci_high"] >= most


@pytest.mark.parametrize("value", [0.0, 0.1, 3.7])
def test_a_constant_mean_has_no_error(value):
    frame = pl.DataFrame({"x": [value] * 30, "c": np.arange(30) // 7})
    for options in ({}, {"cluster": "c"}, {"cluster": "c", "interval": "cr1"}):
        found = one(frame, fe.mean("x"), **options)
        assert_allclose(found["estimate"], value, rtol=1e-15)
        assert found["std_error"] is None
        assert found["ci_low"] is None
        assert "all alike" in found["note"]


@pytest.mark.parametrize("positives", [1, 3])
def test_clustered_auc_against_placement_values(positives):
    """Also where every cluster has one positive, and only the negatives are repeated."""
    rng = np.random.default_rng(positives)
    doc = np.repeat(np.arange(9), rng.integers(positives + 1, 12, 9))
    first = np.concatenate([np.arange((doc == d).sum()) for d in range(9)])
    label = (first < positives).astype(int)
    score = label + rng.normal(size=len(doc)) + rng.normal(size=9)[doc]
    pos, neg = label == 1, label == 0
    over = (score[pos][:, None] > score[neg]) + 0.5 * (score[pos][:, None] == score[neg])
    auc = over.mean()
    of_pos = np.bincount(doc[pos], over.mean(1) - auc, 9) / pos.sum()
    of_neg = np.bincount(doc[neg], over.mean(0) - auc, 9) / neg.sum()
    p, n = (np.bincount(doc[side], minlength=9) / side.sum() for side in (pos, neg))
    frame = pl.DataFrame({"y": label, "s": score, "doc": doc})
    expected = {
        "cr1": 9 / 8 * ((of_pos + of_neg) ** 2).sum(),
        "cr2": ((of_pos / np.sqrt(1 - p) + of_neg / np.sqrt(1 - n)) ** 2).sum(),
    }
    for method, variance in expected.items():
        row = frame.eval.summary(fe.roc_auc("y", "s"), cluster="doc", interval=method)
        assert row["std_error"].item() == pytest.approx(np.sqrt(variance), rel=1e-10)


@pytest.mark.parametrize(
    "roles", [{}, {"cluster": "c"}, {"weight": "w"}, {"cluster": "c", "weight": "w"}], ids=str
)
@pytest.mark.parametrize("ordered", [False, True])
def test_counts_that_are_divided_by_all_rows_have_the_errors_of_a_mean(roles, ordered) -> None:
    """A row counts in n and in one of the sums: its square is of both slopes together."""
    rng = np.random.default_rng(11)
    frame = pl.DataFrame(
        {
            "y": rng.random(300) < 0.3,
            "s": np.round(rng.normal(size=300), 1),
            "c": rng.integers(0, 30, 300),
            "w": rng.integers(1, 4, 300).astype(float),
        }
    )
    cells = {"cells": ("s",), "ordered": True} if ordered else {}
    share = fe.Metric(
        "share",
        {"y": "y", **({"s": "s"} if ordered else {})},
        sums=lambda c: {"y": c.y},
        finish=(lambda s: s.y.sum(-1) / s.n.sum(-1)) if ordered else (lambda s: s.y / s.n),
        counts=True,
        **cells,
    )
    method = "cr2" if roles else "t"
    found, mean = (
        frame.eval.summary(metric, interval=method, **roles).row(0, named=True)
        for metric in (share, fe.mean("y"))
    )
    for name in ("estimate", "std_error"):
        assert found[name] == pytest.approx(mean[name], rel=1e-8)


def satterthwaite_of_weights(y, w, c):
    """CR2 of a weighted mean and its degrees of freedom, with n x n matrices.

    Weights are alike within clusters, and rows vary alike, whatever their weights.
    """
    share = w / w.sum()
    hat = np.eye(len(y)) - np.outer(np.ones(len(y)), share)
    units = (c[:, None] == np.unique(c)).astype(float)
    columns = share[:, None] * units / np.sqrt(1 - share @ units)
    rho = anova(w * (hat @ y), c)
    working = np.where(c[:, None] == c[None, :], rho, 0.0)
    np.fill_diagonal(working, 1.0)
    inner = (hat.T @ columns).T @ working @ (hat.T @ columns)
    value = np.sum((columns.T @ hat @ y) ** 2)
    return value, np.trace(inner) ** 2 / np.trace(inner @ inner)


@pytest.mark.parametrize("cluster", [None, "c"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_large_weight_leave_few_degrees_of_freedom(cluster, seed):
    sizes = [1] * 60 if cluster is None else list(range(1, 13))
    frame = clustered_frame(sizes, seed)
    of_cluster = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 40.0], len(sizes))
    frame = frame.with_columns(w=of_cluster[frame["c"].to_numpy()])
    y, w, c = (frame[name].to_numpy() for name in ("x", "w", "c"))
    value, df = satterthwaite_of_weights(y, w, c)
    found = one(frame, fe.mean("x"), cluster=cluster, weight="w", details=True)
    assert_allclose(found["std_error"], np.sqrt(value), rtol=1e-9)
    assert_allclose(found["df"], df, rtol=1e-9)
    half = (found["ci_high"] - found["ci_low"]) / 2
    assert_allclose(half, stats.t.ppf(0.975, df) * np.sqrt(value), rtol=1e-9)


@pytest.mark.parametrize("cluster", [None, "c"])
def test_rows_of_weight_zero_say_nothing_of_the_error(cluster):
    frame = clustered_frame([4] * 20).with_columns(
        pl.when(pl.col("c") < 12).then(1.0).otherwise(0.0).alias("w"),
        m=pl.lit("a"),
        id=pl.int_range(pl.len()),
    )
    other = frame.with_columns(m=pl.lit("b"), x=pl.col("x") + pl.col("d") / 4)
    both, some = pl.concat([frame, other]), pl.col("w") > 0
    limits = ["difference", "std_error", "ci_low", "ci_high", "p_value"]
    roles = {"cluster": cluster}
    weighted, plain = (
        f.eval.summary(fe.mean("x"), fe.ratio("x", "d"), weight="w", **roles)
        for f in (frame, frame.filter(some))
    )
    keep = ["estimate", "std_error", "ci_low", "ci_high", "method"]
    assert_frame_equal(weighted.select(keep), plain.select(keep), rel_tol=1e-9)
    paired = {**roles, "system": "m", "example": "id", "baseline": "a", "weight": "w"}
    weighted, plain = (
        f.eval.compare(fe.mean("x"), fe.ratio("x", "d"), **paired)
        for f in (both, both.filter(some))
    )
    assert_frame_equal(weighted.select(limits), plain.select(limits), rel_tol=1e-9)


def test_units_in_several_samples_count_once():
    """Recalls of five classes over eight clusters: no more is known than eight clusters say."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "y": rng.choice(list("abcde"), 400),
            "p": rng.choice(list("abcde"), 400),
            "doc": np.arange(400) % 8,
        }
    )
    found = one(frame, fe.balanced_accuracy("y", "p"), cluster="doc", details=True)
    assert found["df"] == pytest.approx(7)
    assert found["method"] == "cluster CR2 t(df=7), logit"


@pytest.mark.parametrize("right", ["all", "light"])
def test_a_rate_has_the_rows_that_weights_leave(right):
    """Heavy rows that are right by chance hide how unsure their share is (Kish 1965)."""
    frame = pl.DataFrame({"w": [20.0] * 5 + [1.0] * 95, "ok": [1] * 100})
    if right == "light":
        frame = frame.with_columns(ok=pl.Series([1] * 5 + [1, 0] * 47 + [1]))
    w, ok = (frame[name].to_numpy() for name in ("w", "ok"))
    kish, p, z = w.sum() ** 2 / (w**2).sum(), np.average(ok, weights=w), stats.norm.ppf(0.975)
    found = one(frame, fe.rate("ok"), weight="w")
    roots = np.roots([1 + z**2 / kish, -2 * p - z**2 / kish, p**2])
    assert_allclose(sorted(roots), [found["ci_low"], found["ci_high"]], rtol=1e-9)
