"""``compare`` against wide tables, other libraries, and its own symmetries."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal, assert_series_equal
from scipy import stats
from scipy.optimize import brentq, minimize_scalar
from scipy.special import comb
from sklearn.metrics import f1_score, matthews_corrcoef, roc_auc_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

import frame_eval as fe

N = 300


def long_frame(seed: int = 0, examples: int = N, clusters: int = 25) -> pl.DataFrame:
    """Two systems on the same examples in unequal documents."""
    rng = np.random.default_rng(seed)
    weights = rng.pareto(1.5, clusters) + 0.2
    doc = rng.choice(clusters, examples, p=weights / weights.sum())
    effect = rng.normal(0, 0.8, clusters)[doc]
    label = (rng.random(examples) < 0.4).astype(int)
    frames = []
    for name, shift in (("old", 0.0), ("new", 0.3)):
        score = np.round(label * 1.2 + effect + shift + rng.normal(size=examples), 2)
        frames.append(
            pl.DataFrame(
                {
                    "model": name,
                    "id": np.arange(examples),
                    "doc": doc,
                    "lang": np.array(["de", "fr", "sw"])[np.arange(examples) % 3],
                    "label": label,
                    "score": score,
                    "pred": (score > 0.7).astype(int),
                    "correct": ((score > 0.7) == label).astype(int),
                    "cost": np.exp(score),
                    "w": 1.0 + np.arange(examples) % 3,
                }
            )
        )
    return pl.concat(frames).sample(fraction=1, shuffle=True, seed=seed)


FRAME = long_frame()
ROLES = {"system": "model", "example": "id", "baseline": "old"}


def wide(column: str, frame: pl.DataFrame = FRAME) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A column of both systems, and the document, by example."""
    new, old = (frame.filter(model=name).sort("id") for name in ("new", "old"))
    return new[column].to_numpy(), old[column].to_numpy(), new["doc"].to_numpy()


def test_mcnemar_against_statsmodels() -> None:
    new, old, _ = wide("correct")
    b, c = int((new > old).sum()), int((new < old).sum())
    table = [[0, b], [c, 0]]
    row = FRAME.eval.compare(fe.rate("correct"), **ROLES).row(0, named=True)
    assert row["difference"] == pytest.approx((new - old).mean(), abs=1e-14)
    assert (row["wins"], row["losses"], row["ties"]) == (b, c, N - b - c)
    score = mcnemar(table, exact=False, correction=False).pvalue
    assert row["p_value"] == pytest.approx(score, rel=1e-10)
    assert row["std_error"] == pytest.approx(stats.sem(new - old), rel=1e-10)
    for method, expected in (
        ("exact", mcnemar(table, exact=True).pvalue),
        ("corrected", mcnemar(table, exact=False, correction=True).pvalue),
    ):
        named = FRAME.eval.compare(fe.rate("correct"), method=method, **ROLES)
        assert named["p_value"].item() == pytest.approx(expected, rel=1e-10)
        assert named["ci_low"].item() is None


def test_means_without_clusters_are_paired_t_tests() -> None:
    new, old, _ = wide("cost")
    row = FRAME.eval.compare(fe.mean("cost", better="lower"), **ROLES).row(0, named=True)
    expected = stats.ttest_rel(new, old)
    low, high = expected.confidence_interval(0.95)
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-9)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), rel=1e-9)
    assert (row["wins"], row["losses"]) == ((new < old).sum(), (new > old).sum())


@pytest.mark.parametrize("column", ["correct", "cost"])
def test_cr1_against_statsmodels(column) -> None:
    new, old, doc = wide(column)
    model = sm.OLS(new - old, np.ones(N)).fit(
        cov_type="cluster", cov_kwds={"groups": doc}, use_t=True
    )
    row = FRAME.eval.compare(fe.mean(column), cluster="doc", method="cr1", **ROLES)
    assert row["std_error"].item() == pytest.approx(model.bse[0], rel=1e-9)
    assert row["p_value"].item() == pytest.approx(model.pvalues[0], rel=1e-8)
    assert row["clusters"].item() == len(np.unique(doc))


def matrix_cr2(step: np.ndarray, doc: np.ndarray) -> tuple[float, float]:
    """CR2 and Satterthwaite's degrees of freedom of a mean, by explicit matrices."""
    n, groups = len(step), [np.flatnonzero(doc == d) for d in np.unique(doc)]
    residual = step - step.mean()
    between = sum(residual[g].sum() ** 2 / len(g) for g in groups)
    sizes = np.array([len(g) for g in groups])
    msb = between / (len(groups) - 1)
    msw = ((residual**2).sum() - between) / (n - len(groups))
    m0 = (n - (sizes**2).sum() / n) / (len(groups) - 1)
    rho = np.clip((msb - msw) / (msb + (m0 - 1) * msw), 0, 1)
    hat = np.full((n, n), 1 / n)
    omega = np.eye(n)
    for g in groups:
        omega[np.ix_(g, g)] += rho * (1 - np.eye(len(g)))
    columns, variance = [], 0.0
    for g in groups:
        values, vectors = np.linalg.eigh(np.eye(len(g)) - hat[np.ix_(g, g)])
        adjusted = vectors @ np.diag(values**-0.5) @ vectors.T @ np.ones(len(g)) / n
        variance += (adjusted @ residual[g]) ** 2
        columns.append((np.eye(n) - hat)[:, g] @ adjusted)
    gram = np.array(columns) @ omega @ np.array(columns).T
    return variance, np.trace(gram) ** 2 / (gram**2).sum()


@pytest.mark.parametrize("column", ["correct", "cost"])
def test_cr2_against_matrices(column) -> None:
    new, old, doc = wide(column)
    variance, df = matrix_cr2((new - old).astype(float), doc)
    row = FRAME.eval.compare(fe.mean(column), cluster="doc", **ROLES).row(0, named=True)
    assert row["std_error"] == pytest.approx(np.sqrt(variance), rel=1e-9)
    p = 2 * stats.t.sf(abs(row["difference"]) / np.sqrt(variance), df)
    assert row["p_value"] == pytest.approx(p, rel=1e-7)


def test_differences_of_any_metric_by_slice() -> None:
    metrics = [
        fe.f1("label", "pred"),
        fe.mcc("label", "pred"),
        fe.roc_auc("label", "score"),
        fe.median("cost"),
        fe.ratio("cost", "label"),
    ]
    result = FRAME.eval.compare(*metrics, by="lang", **ROLES)
    for lang in ("de", "fr", "sw"):
        part = FRAME.filter(lang=lang)
        values = {}
        for name in ("new", "old"):
            one = part.filter(model=name)
            y, p, s, c = (one[k].to_numpy() for k in ("label", "pred", "score", "cost"))
            values[name] = np.array(
                [
                    f1_score(y, p),
                    matthews_corrcoef(y, p),
                    roc_auc_score(y, s),
                    np.median(c),
                    c.sum() / y.sum(),
                ]
            )
        mine = result.filter(lang=lang)["difference"].to_numpy()
        np.testing.assert_allclose(mine, values["new"] - values["old"], rtol=1e-9, atol=1e-12)


def test_auc_difference_has_delong_errors() -> None:
    label = wide("label")[0]
    parts = []
    for score in wide("score")[:2]:
        pos, neg = score[label == 1], score[label == 0]
        over = (pos[:, None] > neg) + 0.5 * (pos[:, None] == neg)
        parts.append((over.mean(1), over.mean(0)))
    of_pos, of_neg = (parts[0][i] - parts[1][i] for i in (0, 1))
    expected = np.sqrt(of_pos.var(ddof=1) / len(of_pos) + of_neg.var(ddof=1) / len(of_neg))
    row = FRAME.eval.compare(fe.roc_auc("label", "score"), **ROLES)
    assert row["std_error"].item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("cluster", "clusters"), [(None, 80), ("id", 80), ("doc", 20)])
def test_examples_with_a_label_for_each_system_count_once(cluster, clusters) -> None:
    """An example may be among the positives of one system and the negatives of the other."""
    rng, ids = np.random.default_rng(3), np.arange(80)
    answers = [
        {"m": name, "id": ids, "doc": ids // 4, "y": rng.random(80) < 0.5, "s": rng.random(80)}
        for name in "ab"
    ]
    assert (answers[0]["y"] != answers[1]["y"]).any()
    rows = pl.concat([pl.DataFrame(one) for one in answers])
    roles = {"system": "m", "example": "id", "baseline": "a", "cluster": cluster}
    found = rows.eval.compare(fe.roc_auc("y", "s"), **roles)
    assert found.select("n", "clusters").row(0) == (80, clusters)


def test_f1_difference_has_the_errors_of_its_linearisation() -> None:
    """F1 = 2 tp / (labels + predictions): the influence of a cluster on a ratio, by hand."""
    row = FRAME.eval.compare(fe.f1("label", "pred"), cluster="doc", method="cr0", **ROLES)
    sums = (
        FRAME.group_by("doc", "model")
        .agg(
            tp=(pl.col("label") * pl.col("pred")).sum().cast(float),
            both=(pl.col("label") + pl.col("pred")).sum().cast(float),
        )
        .pivot("model", index="doc", values=["tp", "both"])
    )
    influence = 0.0
    for name, sign in (("new", 1), ("old", -1)):
        tp, both = sums[f"tp_{name}"].to_numpy(), sums[f"both_{name}"].to_numpy()
        f1 = 2 * tp.sum() / both.sum()
        influence = influence + sign * (2 * tp - f1 * both) / both.sum()
    expected = np.sqrt(np.sum(np.square(influence)))
    assert row["std_error"].item() == pytest.approx(expected, rel=1e-9)


def test_unpaired_against_scipy() -> None:
    new, old, _ = wide("cost")
    options = {"system": "model", "baseline": "old", "paired": False}
    row = FRAME.eval.compare(fe.mean("cost"), **options).row(0, named=True)
    expected = stats.ttest_ind(new, old, equal_var=False)
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-9)
    low, high = expected.confidence_interval(0.95)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), rel=1e-9)
    new, old, _ = wide("correct")
    rates = new.mean(), old.mean()
    row = FRAME.eval.compare(fe.rate("correct"), method="unpooled", **options).row(0, named=True)
    error = np.sqrt(sum(p * (1 - p) / N for p in rates))
    assert row["std_error"] == pytest.approx(error, rel=1e-12)
    z = (rates[0] - rates[1]) / error
    assert row["p_value"] == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-9)
    assert row["wins"] is None


def test_prevalence_that_differs_is_named() -> None:
    part = FRAME.filter((pl.col("model") == "old") | (pl.col("label") == 1) | (pl.col("id") < 99))
    result = part.eval.compare(
        fe.precision("label", "pred"), system="model", baseline="old", paired=False
    )
    assert "prevalence" in result["note"].item()


def test_adjusted_p_values_against_statsmodels() -> None:
    options = {**ROLES, "by": fe.each("lang"), "overall": True}
    result = FRAME.eval.compare(fe.mean("cost"), fe.rate("correct"), **options)
    for metric in ("mean(cost)", "rate(correct)"):
        rows = result.filter(metric=metric)
        slices, whole = rows.filter(slice="lang"), rows.filter(slice="overall")
        expected = multipletests(slices["p_value"].to_numpy(), method="holm")[1]
        np.testing.assert_allclose(slices["p_adjusted"], expected, rtol=1e-12)
        assert whole["p_adjusted"].item() == whole["p_value"].item()
    together = FRAME.eval.compare(
        fe.mean("cost"), fe.rate("correct"), adjust="bh", family=[], **options
    )
    expected = multipletests(together["p_value"].to_numpy(), method="fdr_bh")[1]
    np.testing.assert_allclose(together["p_adjusted"], expected, rtol=1e-12)


def test_trials_are_averaged_within_the_example() -> None:
    rng = np.random.default_rng(3)
    trials = FRAME.join(pl.DataFrame({"trial": [0, 1, 2]}), how="cross").with_columns(
        x=pl.Series(rng.normal(size=3 * FRAME.height))
    )
    uneven = trials.filter((pl.col("trial") < 2) | (pl.col("id") % 2 == 0))
    row = uneven.eval.compare(fe.mean("x"), trial="trial", **ROLES).row(0, named=True)
    means = uneven.group_by("model", "id").agg(pl.col("x").mean())
    new, old = (means.filter(model=m).sort("id")["x"].to_numpy() for m in ("new", "old"))
    expected = stats.ttest_rel(new, old)
    assert row["difference"] == pytest.approx((new - old).mean(), rel=1e-10)
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-9)
    assert row["n"] == N


def test_missing_drops_the_example_for_both() -> None:
    holes = FRAME.with_columns(
        cost=pl.when((pl.col("id") < 20) & (pl.col("model") == "new")).then(None).otherwise("cost")
    )
    row = holes.eval.compare(fe.mean("cost"), missing="drop", **ROLES).row(0, named=True)
    kept = FRAME.filter(pl.col("id") >= 20).eval.compare(fe.mean("cost"), **ROLES)
    same = ["estimate", "baseline_estimate", "difference", "std_error", "p_value", "n"]
    assert [row[name] for name in same] == pytest.approx(
        [kept[name].item() for name in same], rel=1e-10
    )
    assert row["missing"] == 20


def test_unmatched_examples() -> None:
    part = FRAME.filter((pl.col("model") == "old") | (pl.col("id") >= 30))
    with pytest.raises(fe.EvalError, match=r"30 examples .*such as 0, 1, 2.*unmatched='drop'"):
        part.eval.compare(fe.rate("correct"), **ROLES)
    row = part.eval.compare(fe.rate("correct"), unmatched="drop", **ROLES)
    assert row["n"].item() == N - 30
    assert row["note"].item() == "270 of 300 examples in common"
    apart = FRAME.with_columns(id=pl.col("id") + 1000 * (pl.col("model") == "new"))
    with pytest.raises(fe.EvalError, match=r"no example in common.*paired=False"):
        apart.eval.compare(fe.rate("correct"), unmatched="drop", **ROLES)


METRICS = [
    fe.rate("correct"),
    fe.mean("cost"),
    fe.f1("label", "pred"),
    fe.roc_auc("label", "score"),
    fe.median("cost"),
]


@pytest.mark.parametrize("options", [{}, {"cluster": "doc"}, {"by": "lang"}, {"weight": "w"}])
def test_a_system_against_itself(options) -> None:
    twin = pl.concat([FRAME.filter(model="old").with_columns(model=pl.lit(m)) for m in "ab"])
    result = twin.eval.compare(*METRICS, system="model", example="id", baseline="a", **options)
    assert result["difference"].to_list() == [0.0] * result.height
    assert result["p_value"].to_list() == [1.0] * result.height


@pytest.mark.parametrize("method", ["percentile", "basic", "bca", "permutation"])
def test_a_system_against_itself_but_for_rounding(method) -> None:
    """Both have the same values in other digits, and no resample is on one side of 0."""
    loss = (np.random.default_rng(0).random((60, 12)) * 30).ravel()
    twin = pl.DataFrame(
        {
            "slice_of": np.repeat(np.arange(60), 12),
            "id": np.arange(720),
            "nll": loss,
            "tokens": np.random.default_rng(1).integers(1, 50, 720),
        }
    )
    twin = pl.concat([twin.with_columns(model=pl.lit(name)) for name in "ab"])
    roles = {"system": "model", "example": "id", "baseline": "a", "by": "slice_of"}
    metric = fe.perplexity("nll", "tokens")
    result = twin.eval.compare(metric, method=method, resamples=199, **roles)
    assert result["p_value"].to_list() == [1.0] * 60
    if method != "permutation":
        assert result.select("ci_low", "ci_high").unique().rows() == [(0.0, 0.0)]


@pytest.mark.parametrize("options", [{}, {"cluster": "doc"}, {"by": "lang"}, {"weight": "w"}])
def test_swapping_the_systems_flips_signs(options) -> None:
    one = FRAME.eval.compare(*METRICS, **{**ROLES, **options})
    other = FRAME.eval.compare(*METRICS, **{**ROLES, "baseline": "new", **options})
    assert (one["difference"] == -other["difference"]).all()
    assert one["wins"].to_list() == other["losses"].to_list()
    np.testing.assert_allclose(one["ci_low"], -other["ci_high"], rtol=1e-10)
    np.testing.assert_allclose(one["p_value"], other["p_value"], rtol=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("options", [{}, {"cluster": "doc"}, {"paired": False}])
def test_intervals_exclude_zero_exactly_when_p_is_small(level, options) -> None:
    frames = [
        long_frame(seed, 60, 9).with_columns(
            seed=pl.lit(seed), id=pl.col("id") + 100 * seed, doc=pl.col("doc") + 100 * seed
        )
        for seed in range(25)
    ]
    roles = {"system": "model", "baseline": "old", "by": "seed", "level": level, **options}
    if options.get("paired", True):
        roles["example"] = "id"
    result = pl.concat(frames).eval.compare(*METRICS[:4], **roles).drop_nulls("ci_low")
    assert result.height > 80
    outside = (result["ci_low"] > 0) | (result["ci_high"] < 0)
    assert (outside == (result["p_value"] < 1 - level)).all()
    assert level > 0.95 or 0 < outside.sum() < result.height


def test_single_row_clusters_are_no_clusters() -> None:
    plain = FRAME.eval.compare(*METRICS, **ROLES)
    single = FRAME.with_columns(own=pl.col("id") * 7).eval.compare(*METRICS, cluster="own", **ROLES)
    assert plain.equals(single)


def test_adding_a_metric_changes_no_other_row() -> None:
    whole = FRAME.eval.compare(*METRICS, by="lang", **ROLES)
    for metric in METRICS:
        alone = FRAME.eval.compare(metric, by="lang", **ROLES)
        assert alone.equals(whole.filter(metric=metric.name))


def test_slices_of_a_partition_combine() -> None:
    whole = FRAME.eval.compare(fe.rate("correct"), **ROLES).row(0, named=True)
    parts = FRAME.eval.compare(fe.rate("correct"), by="lang", **ROLES)
    for name in ("wins", "losses", "ties", "n"):
        assert parts[name].sum() == whole[name]
    total = (parts["difference"] * parts["n"]).sum() / whole["n"]
    assert total == pytest.approx(whole["difference"], rel=1e-12)


def test_all_pairs_and_systems_of_several_columns() -> None:
    three = pl.concat([FRAME, FRAME.filter(model="new").with_columns(model=pl.lit("third"))])
    result = three.eval.compare(fe.rate("correct"), system="model", example="id")
    assert result.select("system", "baseline").rows() == [
        (b, a) for a, b in combinations(["new", "old", "third"], 2)
    ]
    two = FRAME.with_columns(size=pl.lit("7b"))
    result = two.eval.compare(
        fe.rate("correct"), system=["model", "size"], example="id", baseline=["old", "7b"]
    )
    assert result["system"].to_list() == ["new, 7b"]


def score_interval(estimate, variance, level=0.95) -> tuple[float, float]:
    """The differences that a score test with this variance does not reject, by bracketing."""
    z = stats.norm.ppf((1 + level) / 2)
    return tuple(
        brentq(lambda d, s=s: s * (d - estimate) - z * variance(d) ** 0.5, estimate, s, xtol=1e-13)
        for s in (-1 + 1e-12, 1 - 1e-12)
    )


def test_tango_by_inversion() -> None:
    new, old, _ = wide("correct")
    b, c = int((new > old).sum()), int((new < old).sum())

    def variance(d: float) -> float:
        """Tango's closed form of the likelier discordant share, at a difference d."""
        p, q = 2 * N, -b - c + (2 * N - b + c) * d
        share = (np.sqrt(q**2 - 4 * p * (-c * d * (1 - d))) - q) / (2 * p)
        return (2 * share + d * (1 - d)) / N

    row = FRAME.eval.compare(fe.rate("correct"), **ROLES).row(0, named=True)
    low, high = score_interval((b - c) / N, variance)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), abs=1e-9)


def test_miettinen_nurminen_by_inversion() -> None:
    part = FRAME.filter((pl.col("model") == "old") | (pl.col("id") < 120))
    options = {"system": "model", "baseline": "old", "paired": False}
    row = part.eval.compare(fe.rate("correct"), **options).row(0, named=True)
    groups = part.group_by("model").agg(pl.col("correct").sum(), n=pl.len()).sort("model")
    (x1, n1), (x2, n2) = groups.select("correct", "n").rows()

    def variance(d: float) -> float:
        """At the rates that are likeliest among those that differ by d."""

        def surprise(q: float) -> float:
            one, two = (stats.binom.logpmf(x, n, p) for x, n, p in ((x1, n1, q + d), (x2, n2, q)))
            return -one - two

        limits = max(0.0, -d), min(1.0, 1 - d)
        q = minimize_scalar(surprise, bounds=limits, method="bounded", options={"xatol": 1e-12}).x
        p, total = q + d, n1 + n2
        return (p * (1 - p) / n1 + q * (1 - q) / n2) * total / (total - 1)

    low, high = score_interval(x1 / n1 - x2 / n2, variance)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), abs=1e-6)
    z2 = (x1 / n1 - x2 / n2) ** 2 / variance(0.0)
    assert row["p_value"] == pytest.approx(stats.chi2.sf(z2, 1), rel=1e-6)


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_weighted_means(cluster) -> None:
    new, old, doc = wide("cost")
    w = wide("w")[0]
    step, share = new - old, w / w.sum()
    estimate = (share * step).sum()
    place = np.unique(doc, return_inverse=True)[1] if cluster else np.arange(N)
    residual = np.bincount(place, share * (step - estimate))
    expected = np.sqrt((residual**2 / (1 - np.bincount(place, share))).sum())
    row = FRAME.eval.compare(fe.mean("cost"), weight="w", cluster=cluster, **ROLES)
    assert row["difference"].item() == pytest.approx(estimate, rel=1e-12)
    assert row["std_error"].item() == pytest.approx(expected, rel=1e-10)
    scaled = FRAME.with_columns(w=7 * pl.col("w"))
    again = scaled.eval.compare(fe.mean("cost"), weight="w", cluster=cluster, **ROLES)
    assert again["std_error"].item() == pytest.approx(expected, rel=1e-10)
    assert row["n"].item() == N


def test_clustered_ratios() -> None:
    """The linearised difference of two ratios of sums, with the factor C / (C - 1)."""
    influence, ratios = np.zeros(N), []
    for (cost, label), sign in zip(
        zip(wide("cost")[:2], wide("label")[:2], strict=True), (1, -1), strict=True
    ):
        ratios.append(cost.sum() / label.sum())
        influence += sign * (cost - ratios[-1] * label) / label.sum()
    doc = np.unique(wide("cost")[2], return_inverse=True)[1]
    clusters = doc.max() + 1
    expected = (np.bincount(doc, influence) ** 2).sum() * clusters / (clusters - 1)
    row = FRAME.eval.compare(fe.ratio("cost", "label"), cluster="doc", method="cr1", **ROLES)
    assert row["difference"].item() == pytest.approx(ratios[0] - ratios[1], rel=1e-12)
    assert row["std_error"].item() == pytest.approx(np.sqrt(expected), rel=1e-10)
    p = 2 * stats.t.sf(abs(row["difference"].item()) / np.sqrt(expected), clusters - 1)
    assert row["p_value"].item() == pytest.approx(p, rel=1e-8)


def test_median_difference_agrees_with_a_bootstrap() -> None:
    frame = long_frame(4, 2000, 2000)
    row = frame.eval.compare(fe.median("score"), **ROLES)
    new, old, _ = wide("score", frame)
    rng = np.random.default_rng(6)
    chosen = rng.integers(0, 2000, (4000, 2000))
    draws = np.median(new[chosen], axis=1) - np.median(old[chosen], axis=1)
    assert row["std_error"].item() == pytest.approx(draws.std(), rel=0.15)


def test_pass_at_k_is_paired_by_problem() -> None:
    rng = np.random.default_rng(2)
    right = rng.binomial(5, rng.beta(1, 1, (2, 80)))
    frame = pl.DataFrame(
        {
            "model": np.repeat(["old", "new"], 400),
            "id": np.tile(np.repeat(np.arange(80), 5), 2),
            "sample": np.tile(np.arange(5), 160),
            "ok": (np.arange(5) < right[..., None]).ravel(),
        }
    )
    old, new = 1 - comb(5 - right, 2) / comb(5, 2)
    expected = stats.ttest_rel(new, old)
    row = frame.eval.compare(fe.pass_at_k("ok", 2), trial="sample", **ROLES).row(0, named=True)
    assert row["difference"] == pytest.approx((new - old).mean(), rel=1e-12)
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-9)
    assert (row["wins"], row["losses"]) == ((new > old).sum(), (new < old).sum())


def test_unpaired_clusters_add_their_variances() -> None:
    row = FRAME.eval.compare(
        fe.mean("cost"), system="model", baseline="old", cluster="doc", paired=False
    ).row(0, named=True)
    alone = FRAME.eval.summary(fe.mean("cost"), system="model", cluster="doc", interval="cr2")
    assert row["std_error"] == pytest.approx(np.sqrt((alone["std_error"] ** 2).sum()), rel=1e-12)
    assert row["clusters"] == alone["clusters"].sum()


def test_wins_losses_and_ties_follow_the_direction_of_the_metric() -> None:
    new, old, _ = wide("score")
    expected = [(new > old).sum(), (new < old).sum(), (new == old).sum()]
    assert min(expected) > 0
    row = FRAME.eval.compare(fe.mean("score"), **ROLES).select("wins", "losses", "ties").row(0)
    assert list(row) == expected
    low = fe.mean("score", better="lower")
    row = FRAME.eval.compare(low, **ROLES).select("losses", "wins", "ties").row(0)
    assert list(row) == expected
    none = FRAME.eval.compare(fe.f1("label", "pred"), **ROLES)
    assert none.select("wins", "losses", "ties").row(0) == (None, None, None)


def counts(frame: pl.DataFrame, metric: fe.Metric, **options) -> list[int]:
    rows = frame.eval.compare(metric, **ROLES, **options)
    return list(rows.select("wins", "losses", "ties").row(0))


@pytest.mark.parametrize("metric", [fe.mean, fe.rate])
def test_wins_do_not_depend_on_weights(metric) -> None:
    uneven = FRAME.with_columns(w=0.05 + (pl.col("id") % 7) ** 2)
    expected = counts(FRAME, fe.rate("correct"))
    assert counts(uneven, metric("correct"), weight="w") == expected


@pytest.mark.parametrize("metric", [fe.mean, fe.rate])
def test_wins_with_trials_are_of_the_means_of_examples(metric) -> None:
    rng = np.random.default_rng(4)
    trials = FRAME.join(pl.DataFrame({"trial": [0, 1, 2]}), how="cross").with_columns(
        x=pl.Series(rng.integers(0, 2, 3 * FRAME.height))
    )
    for frame in (trials, trials.filter((pl.col("trial") < 2) | (pl.col("id") % 2 == 0))):
        sums = frame.group_by("model", "id").agg(pl.col("x").sum()).sort("id")
        new, old = (sums.filter(model=name)["x"].to_numpy() for name in ("new", "old"))
        expected = [(new > old).sum(), (new < old).sum(), (new == old).sum()]
        assert counts(frame, metric("x"), trial="trial") == expected


def test_wins_of_values_around_zero_and_of_complete_examples() -> None:
    """Equal values are ties however small their mean, and dropped examples are none."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=N) * 1000
    frame = FRAME.sort("model", "id").with_columns(x=pl.Series(np.tile(x - x.mean(), 2)))
    assert counts(frame, fe.mean("x")) == [0, 0, N]
    holes = frame.with_columns(x=pl.when((pl.col("id") > 9) | (pl.col("model") == "old")).then("x"))
    assert counts(holes, fe.mean("x"), missing="drop") == [0, 0, N - 10]


def test_a_row_per_class() -> None:
    metric = fe.f1("label", "pred", average=None)
    result = FRAME.eval.compare(metric, **ROLES)
    label = wide("label")[0]
    new, old = (f1_score(label, pred, average=None) for pred in wide("pred")[:2])
    assert result["class"].to_list() == [0, 1]
    np.testing.assert_allclose(result["difference"], new - old, rtol=1e-12)


def test_any_layout_of_slices_is_the_filtered_frame() -> None:
    """Each, cube, named conditions and the whole: every row as if its slice were the frame."""
    frame = FRAME.with_columns(part=pl.col("id") % 2)
    alone = {}
    for lang in ("de", "fr", "sw"):
        alone["lang", lang] = frame.filter(lang=lang)
        for part in (0, 1):
            alone["lang, part", f"{lang}, {part}"] = frame.filter(lang=lang, part=part)
    for part in (0, 1):
        alone["part", str(part)] = frame.filter(part=part)
    alone["long", "true"] = frame.filter(pl.col("id") > 100)
    alone["overall", "all"] = frame
    metrics = [fe.rate("correct"), fe.mean("cost")]
    layouts = [fe.cube("lang", "part", depth=2), fe.where(long=fe.col("id") > 100)]
    layouts.append(fe.each("lang", "part"))
    seen = set()
    for layout in layouts:
        result = frame.eval.compare(*metrics, by=layout, overall=True, cluster="doc", **ROLES)
        for key, rows in result.group_by("slice", "value"):
            seen.add(key)
            expected = alone[key].eval.compare(*metrics, cluster="doc", **ROLES)
            numbers = [c for c in expected.columns if c != "p_adjusted"]
            assert_frame_equal(rows.select(numbers), expected.select(numbers), abs_tol=1e-12)
    assert seen == set(alone)


def test_examples_and_trials_of_several_columns() -> None:
    apart = FRAME.with_columns(local=pl.col("id") // 3)
    expected = FRAME.eval.compare(*METRICS, **ROLES)
    found = apart.eval.compare(*METRICS, **{**ROLES, "example": ["lang", "local"]})
    assert_frame_equal(found, expected, abs_tol=1e-12)


def test_trials_within_clusters() -> None:
    """Unequal trials: the means of the examples, in their clusters."""
    rng = np.random.default_rng(3)
    trials = FRAME.join(pl.DataFrame({"trial": [0, 1, 2]}), how="cross").with_columns(
        x=pl.Series(rng.normal(size=3 * FRAME.height)) + pl.col("score")
    )
    uneven = trials.filter((pl.col("trial") < 2) | (pl.col("id") % 2 == 0))
    row = uneven.eval.compare(fe.mean("x"), trial="trial", cluster="doc", method="cr1", **ROLES)
    means = uneven.group_by("model", "id", "doc").agg(pl.col("x").mean())
    expected = means.eval.compare(fe.mean("x"), cluster="doc", method="cr1", **ROLES)
    for name in ("difference", "std_error", "p_value", "clusters", "n"):
        assert row[name].item() == pytest.approx(expected[name].item(), rel=1e-10)
    # Without clusters the example is the unit, not the trial.
    row = uneven.eval.compare(fe.mean("x"), trial="trial", method="cr1", **ROLES)
    assert row["clusters"].item() == N


def many_systems() -> pl.DataFrame:
    """Four systems, two of which miss rows and two of which miss values."""
    rng = np.random.default_rng(12)
    frames = []
    for k, name in enumerate("abcd"):
        kept = rng.random(N) < (0.8 if k % 2 else 1.0)
        one = FRAME.filter(model="old").sort("id").filter(pl.Series(kept))
        frames.append(
            one.with_columns(
                model=pl.lit(name),
                pred=pl.Series(rng.integers(0, 2, one.height)),
                score=pl.col("score") + pl.Series(rng.normal(size=one.height)),
                correct=pl.when(pl.Series(rng.random(one.height)) > 0.1 * (k > 1)).then("correct"),
            )
        )
    return pl.concat(frames).sample(fraction=1, shuffle=True, seed=2)


@pytest.mark.parametrize("batch", [1, 10**6])
@pytest.mark.parametrize("options", [{}, {"cluster": "doc"}, {"by": fe.each("lang")}])
def test_all_pairs_are_the_pairs_one_by_one(batch, options, monkeypatch) -> None:
    monkeypatch.setattr("frame_eval.verbs.contrast._BATCH", batch)
    frame = many_systems()
    roles = {"system": "model", "example": "id", "unmatched": "drop", "missing": "drop"}
    together = frame.eval.compare(*METRICS[:4], **roles, **options)
    for b, a in combinations("abcd", 2):
        pair = frame.filter(pl.col("model").is_in([a, b]))
        alone = pair.eval.compare(*METRICS[:4], baseline=b, **roles, **options)
        found = together.filter(system=a, baseline=b)
        assert_frame_equal(
            found.drop("p_adjusted"), alone.drop("p_adjusted"), rel_tol=1e-10, abs_tol=1e-12
        )


def test_pairs_with_nothing_in_common_among_others() -> None:
    """One pair without a common example is refused, even where the others have some."""
    frame = many_systems()
    apart = frame.filter(pl.col("model").is_in(["a", "b"]) == (pl.col("id") < 150))
    with pytest.raises(fe.EvalError, match=r"'c' and 'a' have no example in common"):
        apart.eval.compare(
            fe.mean("cost"), system="model", example="id", unmatched="drop", baseline="a"
        )


def test_unmatched_examples_are_noted_in_their_slice() -> None:
    part = FRAME.filter((pl.col("model") == "old") | (pl.col("lang") != "de") | (pl.col("id") > 30))
    rows = part.eval.compare(fe.rate("correct"), by="lang", unmatched="drop", **ROLES)
    assert rows["note"].to_list() == ["89 of 100 examples in common", None, None]
    assert rows["n"].to_list() == [89, 100, 100]


def test_missing_counts_as_the_worst_value() -> None:
    holes = (pl.col("id") < 20) & (pl.col("model") == "new")
    frame = FRAME.with_columns(correct=pl.when(~holes).then("correct"))
    row = frame.eval.compare(fe.rate("correct"), missing="worst", **ROLES).row(0, named=True)
    filled = frame.with_columns(pl.col("correct").fill_null(0))
    expected = filled.eval.compare(fe.rate("correct"), **ROLES).row(0, named=True)
    assert row == {**expected, "missing": 20}


def test_families() -> None:
    """A p-value that the data could not give counts as 1; ``family`` says what is one family."""
    lonely = FRAME.with_columns(
        doc=pl.when(pl.col("lang") == "sw")
        .then(-1)
        .otherwise(pl.col("doc") + 100 * (pl.col("id") % 3))
    )
    frame = pl.concat(
        [
            lonely,
            lonely.filter(model="new").with_columns(
                model=pl.lit("third"), cost=pl.col("cost") * 1.3
            ),
        ]
    )
    options = {**ROLES, "by": "lang", "cluster": "doc"}
    rows = frame.eval.compare(fe.mean("cost"), **options)
    assert rows.filter(lang="sw")["p_value"].null_count() == 2
    expected = multipletests(rows["p_value"].fill_null(1.0), method="holm")[1]
    expected = np.where(rows["p_value"].is_null(), np.nan, expected)
    found = rows["p_adjusted"].fill_null(np.nan)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows = frame.eval.compare(fe.mean("cost"), family="lang", adjust="bonferroni", **options)
    doubled = (2 * rows["p_value"]).clip(upper_bound=1.0)
    assert_series_equal(rows["p_adjusted"], doubled, check_names=False)
    plain = frame.eval.compare(fe.mean("cost"), adjust=None, **options)
    assert_series_equal(plain["p_adjusted"], plain["p_value"], check_names=False)


INTERVALS = [
    ({}, ["auto", "t", "cr0", "cr1", "cr2"]),
    ({"cluster": "doc"}, ["auto", "cr0", "cr1", "cr2"]),
    ({"paired": False, "example": None}, ["auto", "unpooled", "t", "cr1"]),
]


@pytest.mark.parametrize(("options", "methods"), INTERVALS)
@pytest.mark.parametrize("level", [0.5, 0.8])
def test_every_method_agrees_with_its_interval(options, methods, level) -> None:
    frame = pl.concat(
        long_frame(seed, 40, 8).with_columns(pl.col("id", "doc") + 100 * seed, seed=pl.lit(seed))
        for seed in range(40)
    )
    for method in methods:
        rows = frame.eval.compare(
            fe.rate("correct"), method=method, level=level, by="seed", **{**ROLES, **options}
        ).drop_nulls("ci_low")
        outside = (rows["ci_low"] > 0) | (rows["ci_high"] < 0)
        assert (outside == (rows["p_value"] < 1 - level)).all()
        assert 0 < outside.sum() < rows.height


@pytest.mark.parametrize("options", [{}, {"cluster": "doc"}, {"weight": "w", "by": "lang"}])
def test_row_order_does_not_matter(options) -> None:
    expected = FRAME.eval.compare(*METRICS, **ROLES, **options)
    for seed in (1, 2):
        shuffled = FRAME.sample(fraction=1, shuffle=True, seed=seed)
        found = shuffled.eval.compare(*METRICS, **ROLES, **options)
        assert_frame_equal(found, expected, rel_tol=1e-12, abs_tol=1e-14)


@pytest.mark.parametrize("options", [{"by": "lang"}, {"cluster": "doc"}, {"weight": "w"}])
def test_every_engine_gives_the_same(engine, options) -> None:
    expected = FRAME.eval.compare(*METRICS, **ROLES, **options)
    found = fe.compare(engine(FRAME), *METRICS, **ROLES, **options)
    if isinstance(found, pd.DataFrame):
        assert list(found.index) == list(range(len(found)))
        found = pl.from_pandas(found).cast(expected.schema)
    assert_frame_equal(found, expected, rel_tol=1e-12, abs_tol=1e-14)


@settings(deadline=None, max_examples=60)
@given(
    table=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=25
    ),
    level=st.floats(0.5, 0.999),
    clustered=st.booleans(),
)
def test_symmetries_of_small_tables(table, level, clustered) -> None:
    a, b, doc = (np.array(column) for column in zip(*table, strict=True))
    n = len(a)
    frame = pl.DataFrame(
        {
            "model": ["a"] * n + ["b"] * n,
            "id": [*range(n)] * 2,
            "doc": np.tile(doc, 2),
            "x": np.concatenate([a, b]),
        }
    )
    options = {"system": "model", "example": "id", "level": level}
    options |= {"cluster": "doc"} if clustered else {}
    one, other = (
        frame.eval.compare(fe.rate("x"), baseline=base, **options).row(0, named=True)
        for base in ("a", "b")
    )
    assert one["difference"] == pytest.approx((b - a).mean(), abs=1e-15)
    assert one["difference"] == -other["difference"]
    assert (one["wins"], one["losses"]) == (other["losses"], other["wins"])
    assert one["wins"] + one["losses"] + one["ties"] == n == one["n"]
    assert one["p_value"] == other["p_value"]
    if one["ci_low"] is None:
        assert one["note"]
        return
    assert (one["ci_low"], one["ci_high"]) == (-other["ci_high"], -other["ci_low"])
    assert one["ci_low"] < one["ci_high"]
    outside = one["ci_low"] > 0 or one["ci_high"] < 0
    assert outside == (one["p_value"] < 1 - level)


def test_clusters_that_both_systems_share_are_named_when_unpaired() -> None:
    options = {"system": "model", "baseline": "old", "paired": False, "cluster": "doc"}
    shared = FRAME.eval.compare(fe.mean("cost"), **options)
    assert "clusters of both systems taken as independent" in shared["note"].item()
    apart = FRAME.with_columns(doc=pl.col("doc") + 1000 * (pl.col("model") == "new"))
    alone = apart.eval.compare(fe.mean("cost"), **options)
    assert alone["note"].item() is None
    assert alone["std_error"].item() == pytest.approx(shared["std_error"].item(), rel=1e-12)


@pytest.mark.parametrize("cluster", [None, "doc"])
@pytest.mark.parametrize("by", [None, "lang"])
def test_threads_change_nothing(monkeypatch, cluster, by) -> None:
    metrics = (fe.rate("correct"), fe.mean("cost"), fe.f1("label", "pred"))
    alone = FRAME.eval.compare(*metrics, cluster=cluster, by=by, **ROLES)
    monkeypatch.setattr("frame_eval.threads._LARGE", 0)
    assert_frame_equal(FRAME.eval.compare(*metrics, cluster=cluster, by=by, **ROLES), alone)


@pytest.mark.parametrize(("rows", "message"), [(1, "more than one row"), (2, "more than one clus")])
def test_threads_find_what_can_not_be(monkeypatch, rows, message) -> None:
    monkeypatch.setattr("frame_eval.threads._LARGE", 0)
    bad = pl.concat([FRAME, FRAME.head(1)])
    if rows == 2:
        bad = FRAME.with_columns(
            pl.when(pl.int_range(pl.len()) == 7).then(99).otherwise("doc").alias("doc")
        )
    with pytest.raises(fe.EvalError, match=message):
        bad.eval.compare(fe.rate("correct"), cluster="doc", **ROLES)


@pytest.mark.parametrize(
    "options",
    [{}, {"method": "bootstrap"}, {"method": "wild", "cluster": "doc"}, {"simultaneous": True}],
    ids=str,
)
@pytest.mark.parametrize("metric", [fe.rate("correct"), fe.f1("label", "pred")], ids=str)
def test_named_slices_without_rows_are_said_to_be_empty(metric, options) -> None:
    by = fe.where(dear=fe.col("cost") > 1e9, all=fe.col("cost") >= 0)
    found = FRAME.eval.compare(metric, by=by, **ROLES, **options)
    none, every = found.rows(named=True)
    assert (none["slice"], none["difference"], none["n"], none["note"]) == (
        "dear",
        None,
        0,
        "no rows",
    )
    whole = FRAME.eval.compare(metric, **ROLES, **options).row(0, named=True)
    for name in ("difference", "p_value"):
        assert every[name] == pytest.approx(whole[name], rel=1e-12)


def test_conditions_on_answers_are_named_as_what_may_tear_pairs() -> None:
    by = fe.where(sure=fe.col("score") > 0.7)
    with pytest.raises(fe.EvalError, match="a condition is about the answer"):
        FRAME.eval.compare(fe.rate("correct"), by=by, **ROLES)
    found = FRAME.eval.compare(fe.rate("correct"), by=by, unmatched="drop", **ROLES)
    sure = FRAME.filter(pl.col("score") > 0.7)
    both = set(sure.filter(model="old")["id"]) & set(sure.filter(model="new")["id"])
    assert found["n"].item() == len(both)
