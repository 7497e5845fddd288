"""``compare`` against wide tables, other libraries, and its own symmetries."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef, roc_auc_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

import frame_eval as fe

SHARED = Path(__file__).parent.parent.parent / "shared"
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


def test_f1_difference_agrees_with_a_cluster_bootstrap() -> None:
    row = FRAME.eval.compare(fe.f1("label", "pred"), cluster="doc", **ROLES)
    sums = (
        FRAME.group_by("doc", "model")
        .agg(
            tp=(pl.col("label") * pl.col("pred")).sum(),
            both=(pl.col("label") + pl.col("pred")).sum(),
        )
        .pivot("model", index="doc", values=["tp", "both"])
    )
    rng = np.random.default_rng(5)
    counts = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), 40_000)
    total = {name: counts @ sums[name].to_numpy() for name in sums.columns[1:]}
    draws = 2 * total["tp_new"] / total["both_new"] - 2 * total["tp_old"] / total["both_old"]
    assert row["std_error"].item() == pytest.approx(draws.std(), rel=0.12)


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


BAD = {
    "unknown baseline": (lambda: compare(baseline="odl"), "'odl'.*Did you mean 'old'"),
    "one system": (lambda: compare(FRAME.filter(model="old")), "only one system, 'old'"),
    "no system": (lambda: compare(system=None), "system="),
    "no example": (lambda: compare(example=None), "example=.*paired=False"),
    "repeats": (lambda: compare(pl.concat([FRAME, FRAME])), "600 examples.*trial="),
    "uneven weights": (
        lambda: compare(
            FRAME.with_columns(w=pl.when(pl.col("model") == "new").then(2.0).otherwise(1.0)),
            weight="w",
        ),
        "300 examples have different weights",
    ),
    "torn example": (
        lambda: compare(
            FRAME.with_columns(doc=pl.col("doc") + (pl.col("model") == "new")), cluster="doc"
        ),
        "more than one cluster",
    ),
    "exact with clusters": (lambda: compare(cluster="doc", method="exact"), "'exact'.*clusters"),
    "exact for means": (
        lambda: FRAME.eval.compare(fe.mean("cost"), method="exact", **ROLES),
        "'exact'.*mean",
    ),
    "unknown method": (lambda: compare(method="exakt"), "Did you mean 'exact'"),
    "unknown adjustment": (lambda: compare(adjust="hulm"), "Did you mean 'holm'"),
    "unknown family": (lambda: compare(family="metrik"), "Did you mean 'metric'"),
    "mixed ids": (
        lambda: compare(
            FRAME.to_pandas().assign(id=lambda d: [1, "a"] * (len(d) // 2)),
        ),
        "'id'.*mixed",
    ),
    "slices of the answers": (lambda: compare(by="pred"), "answered by only one"),
    "key called like a result": (
        lambda: compare(FRAME.rename({"lang": "system"}), by="system"),
        "'system'.*rename",
    ),
}


def compare(frame=FRAME, **options):
    return fe.compare(frame, fe.rate("correct"), **{**ROLES, **options})


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_reason(case) -> None:
    ask, pattern = BAD[case]
    with pytest.raises(fe.EvalError) as caught:
        ask()
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)


@pytest.fixture(scope="module")
def swebench() -> pl.DataFrame:
    path = SHARED / "data" / "swebench_verified_bash_only.parquet"
    if not path.exists():
        pytest.skip("the published results are not beside the project")
    return pl.read_parquet(path)


def published(file: str, metric: str) -> list[dict]:
    path = SHARED / "data" / "reference_values.json"
    if not path.exists():
        pytest.skip("the published results are not beside the project")
    return [
        value
        for value in json.loads(path.read_text())
        if value["file"] == file and value["metric"].startswith(metric)
    ]


def test_all_pairs_of_swebench(swebench) -> None:
    roles = {"system": "system", "example": "instance_id"}
    exact = swebench.eval.compare(fe.rate("resolved"), method="exact", **roles)
    assert (exact.height, (exact["p_value"] < 0.05).sum()) == (276, 231)
    cr1 = swebench.eval.compare(fe.rate("resolved"), method="cr1", cluster="repo", **roles)
    assert (cr1["p_value"] < 0.05).sum() == 233


@pytest.mark.parametrize(
    ("metric", "options", "column"),
    [
        ("mean paired difference", {}, "difference"),
        ("McNemar exact p", {"method": "exact"}, "p_value"),
        ("SE of the paired difference", {"method": "cr1", "cluster": "repo"}, "std_error"),
        ("two-sided t p-value", {"method": "cr1", "cluster": "repo"}, "p_value"),
    ],
)
@pytest.mark.parametrize("file", ["swebench_verified_bash_only.parquet", "swebench_pro.parquet"])
def test_published_pairs(file, metric, options, column) -> None:
    values = published(file, metric)
    if "pro" in file and metric == "two-sided t p-value":
        values = published(file, "two-sided t p, clustered")
    frame = pl.read_parquet(SHARED / "data" / file)
    checked = 0
    for value in values:
        found = re.match(r"'(.+)' minus '(.+?)'", value["filter"])
        if found is None:
            continue
        a, b = found.groups()
        row = frame.filter(pl.col("system").is_in([a, b])).eval.compare(
            fe.rate("resolved"),
            system="system",
            example="instance_id",
            baseline=b,
            unmatched="drop",
            **options,
        )
        assert row[column].item() == pytest.approx(value["value"], abs=value["tolerance"])
        checked += 1
    assert checked >= 3 or "pro" in file


SIZES = np.array([231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1])


@pytest.mark.parametrize(
    ("sizes", "spread"), [(np.ones(80, int), 0.0), (SIZES, 0.35), (SIZES, 0.0)]
)
def test_size_under_true_nulls(sizes, spread) -> None:
    """The default rejects at most 5.5 % (its 99.9 % lower bound); CR1 several times that."""
    rng = np.random.default_rng(11)
    replicates, examples = 1500, int(sizes.sum())
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    lean = rng.choice([-1, 1], (replicates, len(sizes)))[:, cluster] * spread
    a = rng.random((replicates, examples)) < 0.5 + lean / 2
    b = rng.random((replicates, examples)) < 0.5 - lean / 2
    frame = pl.DataFrame(
        {
            "replicate": np.tile(np.repeat(np.arange(replicates), examples), 2),
            "id": np.tile(np.arange(replicates * examples), 2),
            "doc": np.tile(cluster, 2 * replicates),
            "model": np.repeat(["a", "b"], replicates * examples),
            "ok": np.concatenate([a.ravel(), b.ravel()]),
        }
    ).with_columns(doc=pl.col("doc") + 1000 * pl.col("replicate"))
    roles = {"system": "model", "example": "id", "baseline": "a", "by": "replicate"}
    result = frame.eval.compare(fe.rate("ok"), cluster="doc", **roles)
    rejected = int((result["p_value"] < 0.05).sum())
    lowest = stats.binomtest(rejected, replicates).proportion_ci(0.998, "exact").low
    assert lowest <= 0.055, rejected / replicates
    if spread:
        cr1 = frame.eval.compare(fe.rate("ok"), cluster="doc", method="cr1", **roles)
        assert (cr1["p_value"] < 0.05).mean() > 3 * max(rejected / replicates, 0.02)
