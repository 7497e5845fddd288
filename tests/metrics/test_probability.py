"""Probability scores and calibration beside scikit-learn, statsmodels and formulas by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from scipy import special
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

import frame_eval as fe
from frame_eval.metrics.core import Sums

COLUMNS = {"ant": "q_ant", "bee": "q_bee", "cat": "q_cat"}


def drawn(n=400, seed=0):
    """Labels with probabilities that say too much; rows of clusters are alike."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, n // 8, n)
    x = rng.normal(size=n) + rng.normal(size=n)[cluster]
    return pl.DataFrame(
        {
            "y": (rng.random(n) < special.expit(0.6 * x - 0.3)).astype(int),
            "q": special.expit(x).round(3).clip(0.001, 0.999),
            "c": cluster,
            "w": rng.integers(1, 4, n).astype(float),
            "g": rng.integers(0, 3, n),
        }
    )


def several(n=150, seed=1):
    """Three classes with a probability each."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1.0, 2.0, 0.5], n)
    classes = list(COLUMNS)
    return pl.DataFrame(
        {
            "y": [classes[rng.choice(3, p=row)] for row in p],
            **dict(zip(COLUMNS.values(), p.T, strict=True)),
            "w": rng.integers(1, 4, n).astype(float),
            "g": rng.integers(0, 3, n),
        }
    )


def one(frame, metric, **options):
    return frame.eval.summary(metric, **options).row(0, named=True)


FRAME, MANY = drawn(), several()


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("bins", [1, 2, 5, 16, 40])
def test_ece_is_the_area_of_the_calibration_curve(bins, strategy):
    """scikit-learn's curve; its quantile bins are ours where all have equally many rows."""
    frame = FRAME.with_columns(q=np.random.default_rng(9).random(FRAME.height))
    y, q = frame["y"].to_numpy(), frame["q"].to_numpy()
    rate, mean = calibration_curve(y, q, n_bins=bins, strategy=strategy)
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    if strategy == "quantile":
        edges = np.percentile(q, edges * 100)
    counts = np.bincount(np.searchsorted(edges, q))
    expected = np.abs(rate - mean) @ counts[counts > 0] / len(y)
    found = one(frame, fe.ece("y", "q", bins=bins, strategy=strategy))
    assert_allclose(found["estimate"], expected, rtol=1e-12)
    assert found["ci_low"] is None
    assert "biased upwards" in found["note"]


@pytest.mark.parametrize("bins", [3, 5, 7, 10, 15, 49, 100, 1000])
def test_bins_are_closed_above(bins):
    """Every edge k / bins falls in the bin below it, and what is above in the one above."""
    edges = np.arange(1, bins + 1) / bins
    above = edges[:-1] + 1e-6
    frame = pl.DataFrame({"q": np.concatenate([[0.0], edges, above]), "y": 1})
    # With one bin per edge, the mean gap tells which rows share a bin.
    code = np.concatenate([[0], np.arange(bins), np.arange(1, bins)])
    q = frame["q"].to_numpy()
    sizes, sums = np.bincount(code), np.bincount(code, 1 - q)
    assert_allclose(
        one(frame, fe.mce("y", "q", bins=bins))["estimate"], (sums / sizes).max(), rtol=1e-13
    )
    assert_allclose(
        one(frame, fe.brier_reliability("y", "q", bins=bins))["estimate"],
        (sums**2 / sizes).sum() / len(q),
        rtol=1e-12,
    )


def _gaps(frame, bins, strategy, hit, column):
    """Share and gap of every bin that has rows, by hand."""
    p, w = frame[column].to_numpy(), frame["w"].to_numpy()
    inner = np.arange(1, bins) / bins
    if strategy == "quantile":
        inner = np.quantile(p, inner, method="inverted_cdf", weights=w)
    code = np.searchsorted(inner, p)
    for b in np.unique(code):
        here = w * (code == b)
        yield here.sum() / w.sum(), abs(here @ hit - here @ p) / here.sum()


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("bins", [1, 4, 15])
def test_calibration_of_several_classes(strategy, bins):
    options = {"bins": bins, "strategy": strategy}
    frame = MANY.with_columns(top=pl.max_horizontal(COLUMNS.values()))
    gaps = [
        list(_gaps(frame, bins, strategy, (frame["y"] == name).to_numpy(), column))
        for name, column in COLUMNS.items()
    ]
    whole = [sum(share * gap for share, gap in one) for one in gaps]
    largest = max(gap for one in gaps for _, gap in one)
    found = one(MANY, fe.ece("y", COLUMNS, **options), weight="w")
    assert_allclose(found["estimate"], np.mean(whole), rtol=1e-12)
    assert found["metric"] == "classwise_ece"
    assert_allclose(
        one(MANY, fe.mce("y", COLUMNS, **options), weight="w")["estimate"], largest, rtol=1e-12
    )
    rows = frame.select(COLUMNS.values()).to_numpy()
    right = np.array(list(COLUMNS))[rows.argmax(1)] == frame["y"].to_numpy()
    gaps = list(_gaps(frame, bins, strategy, right, "top"))
    options["multi_class"] = "confidence"
    found = one(MANY, fe.ece("y", COLUMNS, **options), weight="w")
    assert_allclose(found["estimate"], sum(share * gap for share, gap in gaps), rtol=1e-12)
    found = one(MANY, fe.mce("y", COLUMNS, **options), weight="w")
    assert_allclose(found["estimate"], max(gap for _, gap in gaps), rtol=1e-12)


@pytest.mark.parametrize("build", [fe.ece, fe.ece_debiased])
@pytest.mark.parametrize("weight", [None, "w"])
def test_the_classwise_error_is_the_mean_of_those_of_the_classes(build, weight):
    each = [
        one(MANY, build("y", column, positive=name), weight=weight)["estimate"]
        for name, column in COLUMNS.items()
    ]
    found = one(MANY, build("y", COLUMNS), weight=weight)
    assert_allclose(found["estimate"], np.mean(each), rtol=1e-12)
    assert found["ci_low"] is None
    assert found["note"]
    sliced = MANY.eval.summary(build("y", COLUMNS), by="g", weight=weight)["estimate"]
    parts = [one(MANY.filter(g=g), build("y", COLUMNS), weight=weight) for g in range(3)]
    assert_allclose(sliced, [part["estimate"] for part in parts], rtol=1e-12)


def test_a_tie_at_the_top_is_no_right_answer():
    frame = pl.DataFrame({"y": ["ant", "bee"], "q_ant": 0.5, "q_bee": 0.5, "q_cat": 0.0})
    found = one(frame, fe.ece("y", COLUMNS, multi_class="confidence"))
    accuracy = one(frame, fe.top_k_accuracy("y", COLUMNS, k=1))
    assert (found["estimate"], accuracy["estimate"]) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fe.ece("y", "q", multi_class="confidence"), "column for each class"),
        (lambda: fe.ece("y", COLUMNS, positive="ant"), "one column of probabilities"),
        (lambda: fe.mce("y", COLUMNS, multi_class="top"), "'classwise'"),
        (lambda: fe.ece("y", {"ant": "q_ant"}), "two or more"),
    ],
)
def test_calibration_of_several_classes_in_vain(make, words):
    with pytest.raises(fe.EvalError, match=words):
        make()


@pytest.mark.parametrize("multi_class", ["classwise", "confidence"])
def test_probabilities_of_several_classes_are_checked(multi_class):
    metric = fe.ece("y", COLUMNS, multi_class=multi_class)
    with pytest.raises(fe.EvalError, match=r"must sum to 1, but in 150 rows"):
        MANY.with_columns(q_ant=pl.col("q_ant") * 0.2, q_cat=0.0).eval.summary(metric)
    with pytest.raises(fe.EvalError, match=r"outside \[0, 1\]"):
        MANY.with_columns(q_ant=-1.0, q_bee=2.0, q_cat=0.0).eval.summary(metric)
    with pytest.raises(fe.EvalError, match="none of the classes"):
        MANY.with_columns(y=pl.lit("dog")).eval.summary(metric)


@pytest.mark.parametrize("n", [30, 100, 500])
def test_bias_and_debiasing(n):
    """Calibrated by construction: the plug-in has the bias that simulation finds (.21 at 30)."""
    rng = np.random.default_rng(n)
    runs = 400
    q = rng.random(runs * n)
    frame = pl.DataFrame(
        {"run": np.repeat(np.arange(runs), n), "q": q, "y": rng.random(runs * n) < q}
    )
    squared = fe.brier_reliability("y", "q", debiased=True, bins=5)
    found = frame.eval.summary(fe.ece("y", "q"), fe.ece_debiased("y", "q"), squared, by="run")
    values = found.filter(metric=squared.name)["estimate"].to_numpy()
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(runs)
    means = dict(found.group_by("metric").agg(pl.col("estimate").mean()).rows())
    expected = {30: 0.21, 100: 0.12, 500: 0.06}[n]
    assert_allclose(means["ece"], expected, atol=0.02)
    assert 0 < means["ece_debiased"] < 0.8 * means["ece"]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_the_parts_make_up_the_brier_score(strategy, weight):
    """Exactly, where the probabilities of a bin are equal."""
    frame = FRAME.with_columns(q=(pl.col("q") * 5).ceil() / 5 - 0.1)
    options = {"bins": 5 if strategy == "uniform" else 400, "strategy": strategy}
    parts = (
        fe.brier_reliability("y", "q", **options),
        fe.brier_resolution("y", "q", **options),
        fe.brier_uncertainty("y"),
        fe.brier("y", "q"),
    )
    reliability, resolution, uncertainty, brier = frame.eval.summary(*parts, weight=weight)[
        "estimate"
    ]
    assert_allclose(reliability - resolution + uncertainty, brier, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_debiased_squares_by_hand(strategy):
    y, q = FRAME["y"].to_numpy(), FRAME["q"].to_numpy()
    edges = np.arange(1, 32) / 32
    if strategy == "quantile":
        edges = np.quantile(q, edges, method="inverted_cdf")
    code = np.searchsorted(edges, q)
    parts = [(y[code == k], q[code == k]) for k in np.unique(code) if (code == k).sum() > 1]
    gaps = [(a.mean() - b.mean()) ** 2 - a.var(ddof=1) / len(a) for a, b in parts]
    metric = fe.brier_reliability("y", "q", bins=32, strategy=strategy, debiased=True)
    expected = np.average(gaps, weights=[len(a) for a, _ in parts])
    assert_allclose(one(FRAME, metric)["estimate"], expected, rtol=1e-10)
    alone = one(FRAME[:1], metric)
    assert (alone["estimate"], alone["note"]) == (None, "no bin has two rows")


def test_several_bins_in_one_call():
    metrics = [fe.ece("y", "q", bins=bins).alias(f"ece{bins}") for bins in (5, 10, 15)]
    together = FRAME.eval.summary(*metrics, by="g", overall=True)
    for metric in metrics:
        alone = FRAME.eval.summary(metric, by="g", overall=True)
        assert_frame_equal(together.filter(metric=metric.name), alone, rel_tol=1e-13)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Boolean, pl.Float32, pl.Decimal(4, 2), pl.UInt8])
def test_probabilities_of_any_numeric_type(dtype):
    metrics = [*SCORES.values(), *BINNED.values()]
    whole = FRAME.with_columns(q=pl.col("q").round())
    expected = whole.eval.summary(*metrics, by="g")
    typed = whole.with_columns(pl.col("q").cast(dtype))
    assert_frame_equal(typed.eval.summary(*metrics, by="g"), expected, rel_tol=1e-13)


@pytest.mark.parametrize(
    "metric",
    [
        fe.log_loss("y", COLUMNS),
        fe.brier_multiclass("y", COLUMNS),
        *(
            build("y", COLUMNS, strategy=strategy, multi_class=several, bins=7)
            for build in (fe.ece, fe.mce)
            for strategy in ("uniform", "quantile")
            for several in ("classwise", "confidence")
        ),
    ],
    ids=lambda metric: metric.name,
)
def test_multiclass_scores_as_expressions(metric):
    found = MANY.group_by("g").agg(metric.expr()).sort("g")[metric.name]
    expected = MANY.eval.summary(metric, by="g", interval=None)["estimate"]
    assert_allclose(found, expected, rtol=1e-12)


def test_tokenizers_that_differ_are_noted():
    """Perplexities per different tokens do not compare, bits per byte of the same text do."""
    rng = np.random.default_rng(2)
    rows = pl.DataFrame({"m": ["a"] * 30 + ["b"] * 30, "id": [*range(30)] * 2}).with_columns(
        nll=pl.Series(rng.gamma(5.0, 3.0, 60)), bytes=40 + pl.col("id"), tokens=10 + pl.col("id")
    )
    roles = {"system": "m", "example": "id", "baseline": "a"}
    metrics = fe.perplexity("nll", "tokens"), fe.bits_per_byte("nll", "bytes")
    alike = rows.eval.compare(*metrics, **roles)
    assert alike["note"].is_null().all()
    other = rows.with_columns(pl.col("tokens") + (pl.col("m") == "b"))
    found = other.eval.compare(*metrics, fe.mean("tokens"), **roles)
    noted = dict(found.select("metric", "note").rows())
    assert noted["perplexity"].endswith("tokens per row 25.5 against 24.5")
    assert noted["bits_per_byte"] is None
    assert "tokens per row" not in noted["mean(tokens)"]
    fewer = rows.with_columns(pl.col("bytes") - (pl.col("m") == "b"))
    note = fewer.eval.compare(metrics[1], **roles)["note"].item()
    assert note == "other texts: bytes per row 53.5 against 54.5"


def test_debiased_reliability_as_an_expression():
    metric = fe.brier_reliability("y", "q", bins=40, debiased=True)
    found = FRAME.group_by("g").agg(metric.expr()).sort("g")[metric.name]
    assert_allclose(found, FRAME.eval.summary(metric, by="g")["estimate"], rtol=1e-11)
    with pytest.raises(fe.EvalError, match="summary"):
        fe.ece_debiased("y", "q").expr()


def test_binary_scores_against_scikit_learn():
    y, q, w = (FRAME[name].to_numpy() for name in ("y", "q", "w"))
    assert_allclose(
        one(FRAME, fe.brier("y", "q"), weight="w")["estimate"],
        sk.brier_score_loss(y, q, sample_weight=w),
        rtol=1e-12,
    )
    found = one(FRAME, fe.brier("y", "q"))
    each = (y - q) ** 2
    assert_allclose(found["std_error"], each.std(ddof=1) / np.sqrt(len(y)), rtol=1e-12)


@pytest.mark.parametrize("weight", [None, "w"])
def test_multiclass_scores_against_scikit_learn(weight):
    y, w = MANY["y"].to_numpy(), MANY["w"].to_numpy()
    p = MANY.select(COLUMNS.values()).to_numpy()
    options = {"sample_weight": None if weight is None else w, "labels": list(COLUMNS)}
    found = MANY.eval.summary(
        fe.log_loss("y", COLUMNS), fe.brier_multiclass("y", COLUMNS), weight=weight
    )["estimate"]
    assert_allclose(found[0], sk.log_loss(y, p, **options), rtol=1e-12)
    squared = ((p - (y[:, None] == np.array(list(COLUMNS)))) ** 2).sum(1)
    assert_allclose(found[1], np.average(squared, weights=options["sample_weight"]), rtol=1e-12)


@pytest.mark.parametrize("order", [["cat", "ant", "bee"], ["bee", "cat", "ant"]])
def test_the_order_of_classes_does_not_matter(order):
    metric = fe.log_loss("y", {name: COLUMNS[name] for name in order})
    expected = MANY.eval.summary(fe.log_loss("y", COLUMNS), by="g")
    assert_frame_equal(MANY.eval.summary(metric, by="g"), expected, rel_tol=1e-13)


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [0.0, 1.0]])
def test_two_classes_are_the_binary_score(labels):
    frame = FRAME.with_columns(y=pl.Series([labels[k] for k in FRAME["y"]]), r=1 - pl.col("q"))
    columns = {0: "r", 1: "q"}
    both = frame.eval.summary(
        fe.log_loss("y", columns), fe.log_loss("y", "q").alias("binary"), cluster="c"
    )
    assert_frame_equal(*(both[[k]].drop("metric") for k in (0, 1)), rel_tol=1e-12)
    doubled = one(frame, fe.brier_multiclass("y", columns))["estimate"]
    assert_allclose(doubled, 2 * one(frame, fe.brier("y", "q"))["estimate"], rtol=1e-12)


def test_log_loss_counts_what_it_clips():
    """Only rows in which less than ``clip`` was given to what happened."""
    frame = pl.DataFrame({"y": [1, 0, 1, 0, 1], "q": [0.0, 1.0, 1.0, 0.0, 0.5]})
    found = one(frame, fe.log_loss("y", "q"))
    assert_allclose(found["estimate"], (2 * -np.log(1e-15) + np.log(2)) / 5, rtol=1e-14)
    assert found["note"] == "2 rows clipped at 1e-15"
    found = one(frame, fe.log_loss("y", "q", clip=0.01))
    assert_allclose(found["estimate"], (2 * -np.log(0.01) + np.log(2)) / 5, rtol=1e-14)
    assert found["note"] == "2 rows clipped at 0.01"
    found = frame.with_row_index("i").eval.summary(fe.log_loss("y", "q"), by="i")
    assert found["note"][0].startswith("1 row clipped")
    assert "clipped" not in found["note"][2]


class TestRecalibration:
    """Cox's model beside statsmodels."""

    @staticmethod
    def model(frame, *, slope):
        x = special.logit(frame["q"].to_numpy())
        family = sm.families.Binomial()
        design = sm.add_constant(x) if slope else np.ones_like(x)
        offset = None if slope else x
        return sm.GLM(frame["y"].to_numpy(), design, family, offset=offset)

    @pytest.mark.parametrize("slope", [True, False], ids=["slope", "intercept"])
    def test_estimate_and_error(self, slope):
        metric = (fe.calibration_slope if slope else fe.calibration_intercept)("y", "q")
        n = FRAME.height
        fit = self.model(FRAME, slope=slope).fit(cov_type="HC0", tol=1e-14)
        found = one(FRAME, metric)
        assert_allclose(found["estimate"], fit.params[-1], rtol=1e-10)
        assert_allclose(found["std_error"], fit.bse[-1] * np.sqrt(n / (n - 1)), rtol=1e-8)
        groups = {"groups": FRAME["c"].to_numpy(), "use_correction": False}
        fit = self.model(FRAME, slope=slope).fit(cov_type="cluster", cov_kwds=groups, tol=1e-14)
        found = one(FRAME, metric, cluster="c", interval="cr0")
        assert_allclose(found["std_error"], fit.bse[-1], rtol=1e-8)

    @pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
    def test_extreme_probabilities_converge(self, scale):
        rng = np.random.default_rng(4)
        x = rng.normal(size=300) * scale
        y = rng.random(300) < special.expit(x / scale)
        q = special.expit(x).clip(1e-12, 1 - 1e-12)
        frame = pl.DataFrame({"y": y.astype(int), "q": q})
        fit = self.model(frame, slope=True).fit(tol=1e-14)
        assert_allclose(
            one(frame, fe.calibration_slope("y", "q"))["estimate"], fit.params[1], rtol=1e-8
        )

    @pytest.mark.parametrize(
        ("y", "q", "reason"),
        [
            ([1, 1], [0.4, 0.6], "no negatives"),
            ([0, 0], [0.4, 0.6], "no positives"),
            ([1, 0, 1], [0.4, 1.0, 0.6], "no logit"),
            ([0, 0, 1, 1], [0.1, 0.2, 0.2, 0.9], "separate"),
            ([1, 0], [0.2, 0.9], "separate"),
            ([1, 0], [0.5, 0.5], "separate"),
        ],
    )
    def test_undefined(self, y, q, reason):
        found = one(pl.DataFrame({"y": y, "q": q}), fe.calibration_slope("y", "q"))
        assert found["estimate"] is None
        assert reason in found["note"]

    def test_a_certain_probability_without_weight(self):
        frame = pl.DataFrame({"y": [1, 0, 1, 0], "q": [0.5, 0.5, 0.3, 1.0], "w": [2, 1, 1, 0]})
        for metric in (fe.calibration_slope("y", "q"), fe.calibration_intercept("y", "q")):
            found = one(frame, metric, weight="w")["estimate"]
            assert found is None or np.isfinite(found)
        fit = self.model(
            pl.DataFrame({"y": [1, 1, 0, 1], "q": [0.5, 0.5, 0.5, 0.3]}), slope=False
        ).fit(tol=1e-14)
        assert_allclose(found, fit.params[0], rtol=1e-10)


def test_perplexity_is_of_all_tokens():
    """Its interval is the exponential of that of the loss per token."""
    rng = np.random.default_rng(5)
    tokens = rng.integers(5, 50, 60)
    frame = pl.DataFrame({"nll": tokens * rng.gamma(4.0, 0.5, 60), "tokens": tokens})
    loss = one(frame, fe.ratio("nll", "tokens"))
    found = one(frame, fe.perplexity("nll", "tokens"))
    assert_allclose(
        [found[k] for k in ("estimate", "ci_low", "ci_high")],
        np.exp([loss[k] for k in ("estimate", "ci_low", "ci_high")]),
        rtol=1e-10,
    )
    assert_allclose(found["std_error"], found["estimate"] * loss["std_error"], rtol=1e-10)
    bits = one(frame, fe.bits_per_byte("nll", 4 * fe.col("tokens")))
    assert_allclose(bits["estimate"], loss["estimate"] / np.log(2) / 4, rtol=1e-12)
    upside_down = one(frame, fe.perplexity(-fe.col("nll"), "tokens"))
    assert "minus the log probability" in upside_down["note"]
    nothing = one(frame.with_columns(tokens=0), fe.perplexity("nll", "tokens"))
    assert (nothing["estimate"], nothing["note"]) == (None, "no tokens")


SCORES = {
    "brier": fe.brier("y", "q"),
    "log_loss": fe.log_loss("y", "q"),
    "calibration_slope": fe.calibration_slope("y", "q"),
}
BINNED = {
    "brier_uncertainty": fe.brier_uncertainty("y"),
    "ece": fe.ece("y", "q"),
    "ece_quantile": fe.ece("y", "q", strategy="quantile").alias("ece_quantile"),
    "mce": fe.mce("y", "q"),
    "ece_debiased": fe.ece_debiased("y", "q"),
}


ORDERED = [
    fe.ece("y", "q", bins=4, strategy="quantile"),
    *(metric("y", "q") for metric in (fe.calibration_slope, fe.calibration_intercept)),
]


@pytest.mark.parametrize("metric", ORDERED, ids=lambda metric: metric.name)
def test_many_draws_at_once(metric):
    """Sums with leading axes, as resampling has them, give what each row of them gives."""
    rng = np.random.default_rng(8)
    q = np.array([0.0, 0.05, 0.2, 0.4, 0.5, 0.7, 0.9])
    pos = rng.poisson(q * 2, (5, 40, len(q))).astype(float)
    neg = rng.poisson((1 - q) * 2, pos.shape).astype(float)
    pos[0, :3], neg[0, 3:5], neg[1, :, 0] = 0, 0, 0
    n = pos + neg

    def sums(at):
        named = {"pos": pos[at], "neg": neg[at], "n": n[at], "rows": n[at], "y": pos[at]}
        return Sums({**named, "p": n[at] * q}, (q,))

    with np.errstate(divide="ignore", invalid="ignore"):
        together = metric.finish(sums(...))
        alone = [[metric.finish(sums((i, j))) for j in range(40)] for i in range(5)]
        slopes = metric.gradient(sums(...))
        each = metric.gradient(sums((2, 5)))
    assert_allclose(together, alone, rtol=1e-9, atol=1e-12)
    assert np.isfinite(together).any()
    for name, values in each.items():
        assert_allclose(slopes[name][2, 5], values, rtol=1e-7)


@pytest.mark.parametrize("cluster", [None, "c"])
@pytest.mark.parametrize("name", ["brier", "log_loss", "calibration_slope"])
def test_resampling_agrees_with_linearised_errors(name, cluster):
    options = {"cluster": cluster}
    exact = one(FRAME, SCORES[name], **options)
    drawn = one(FRAME, SCORES[name], interval="percentile", **options)
    assert_allclose(drawn["estimate"], exact["estimate"], rtol=1e-10)
    assert_allclose(drawn["std_error"], exact["std_error"], rtol=0.1)


def test_binned_scores_can_be_resampled():
    found = FRAME.eval.summary(*BINNED.values(), interval="percentile", cluster="c")
    assert found["ci_low"].null_count() == 0
    assert (found["ci_low"] < found["ci_high"]).all()


@pytest.mark.parametrize("name", SCORES)
def test_clusters_of_one_row_are_rows(name):
    numbered = FRAME.with_row_index("i")
    expected = numbered.eval.summary(SCORES[name], by="g")
    found = numbered.eval.summary(SCORES[name], by="g", cluster="i")
    assert_frame_equal(found, expected, rel_tol=1e-11)


@pytest.mark.parametrize("weight", [None, "w"])
def test_engines_agree(engine, weight):
    metrics = [*SCORES.values(), *BINNED.values(), fe.log_loss("y", {1: "q", 0: "r"}).alias("two")]
    frame = FRAME.with_columns(r=1 - pl.col("q"))
    options = {"by": "g", "cluster": "c", "weight": weight}
    expected = frame.eval.summary(*metrics, **options)
    found = fe.of(engine(frame)).summary(*metrics, **options)
    if not isinstance(found, pl.DataFrame):
        found = pl.from_pandas(found)
    assert_frame_equal(found, expected, rel_tol=1e-11, abs_tol=1e-13, check_dtypes=False)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_order_and_copies_do_not_matter(strategy):
    metric = fe.ece("y", "q", strategy=strategy)
    expected = FRAME.eval.summary(metric, by="g")
    shuffled = FRAME.sample(fraction=1, shuffle=True, seed=1).eval.summary(metric, by="g")
    assert_frame_equal(shuffled, expected, rel_tol=1e-12)
    twice = pl.concat([FRAME, FRAME]).eval.summary(metric, by="g")
    assert_frame_equal(twice.select("estimate"), expected.select("estimate"), rel_tol=1e-12)


def systems():
    """Two systems on the same examples."""
    rows = FRAME.with_row_index("id")
    other = rows.with_columns(q=(0.5 * pl.col("q") + 0.25), m=pl.lit("b"))
    return pl.concat([rows.with_columns(m=pl.lit("a")), other])


@pytest.mark.parametrize("paired", [True, False])
def test_differences_of_binned_scores_have_no_test(paired):
    options = {"system": "m", "example": "id", "baseline": "a", "paired": paired}
    found = systems().eval.compare(*BINNED.values(), fe.brier("y", "q"), **options)
    assert found["difference"].null_count() == 0
    for row in found.iter_rows(named=True):
        assert (row["p_value"] is None) == (row["metric"] != "brier")
        assert (row["ci_low"] is None) == (row["metric"] != "brier")
        assert (row["note"] is None) == (row["metric"] == "brier")
    with pytest.raises(fe.EvalError, match="method='cr2' is not valid for 'ece'"):
        systems().eval.compare(fe.ece("y", "q"), method="cr2", **options)


@pytest.mark.parametrize("metric", [fe.roc_auc("y", "q"), fe.calibration_slope("y", "q")])
def test_unpaired_differences_over_ordered_cells(metric):
    """The difference of the values of each system, with the errors of both."""
    found = systems().eval.compare(metric, system="m", baseline="a", paired=False)
    each = systems().eval.summary(metric, system="m")
    assert_allclose(found["difference"], np.diff(each["estimate"]), atol=1e-12)
    assert_allclose(found["std_error"], np.hypot(*each["std_error"]), rtol=1e-10)


def test_differences_of_scores():
    """A Brier score is a mean: the paired t-test, with wins and losses."""
    found = (
        systems()
        .eval.compare(fe.brier("y", "q"), system="m", example="id", baseline="a")
        .row(0, named=True)
    )
    y, a = FRAME["y"].to_numpy(), FRAME["q"].to_numpy()
    d = (y - (0.5 * a + 0.25)) ** 2 - (y - a) ** 2
    assert_allclose(found["difference"], d.mean(), rtol=1e-10)
    assert_allclose(found["std_error"], d.std(ddof=1) / np.sqrt(len(d)), rtol=1e-10)
    assert (found["wins"], found["losses"]) == ((d < 0).sum(), (d > 0).sum())


def test_missing_counts_as_the_opposite():
    frame = pl.DataFrame({"y": [1, 0, 1, 0], "q": [0.8, None, None, 0.1]})
    found = one(frame, fe.brier("y", "q"), missing="worst")
    assert_allclose(found["estimate"], (0.04 + 1 + 1 + 0.01) / 4, rtol=1e-14)
    dropped = frame.eval.summary(
        fe.ece("y", "q"), fe.log_loss("y", "q"), fe.calibration_intercept("y", "q"), missing="drop"
    )
    assert dropped["missing"].to_list() == [2, 2, 2]
    with pytest.raises(
        fe.EvalError, match="2 rows are missing in 'q', and the metric has no worst"
    ):
        frame.eval.summary(fe.log_loss("y", "q"), missing="worst")


WIDE = pl.DataFrame({"y": ["ant", "bee", "eel"], "a": [0.5, 0.2, 0.4], "b": [0.5, 0.8, 0.6]})


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (fe.brier("y", 100 * pl.col("a"), positive="ant"), ["3 rows", "[0, 1]", "20 to 50"]),
        (fe.ece("y", pl.col("a") - 0.3, positive="ant"), ["1 rows are outside", "(-0.1)"]),
        (fe.brier("y", "y", positive="ant"), ["'y' is String", "numbers"]),
        (fe.brier("y", "a"), ["'ant', 'bee', 'eel'", "positive="]),
        (fe.log_loss("y", {"ant": "a", "bee": "b"}), ["1 rows", "'y'", "'ant', 'bee'"]),
        (fe.log_loss("y", {1: "a", 2: "b"}), ["class 1", "'y'", "String"]),
        (
            fe.log_loss("y", {"ant": "a", "bee": "a"}),
            ["'a', 'a'", "sum to 1", "2 rows", "0.4 to 0.8"],
        ),
        (fe.brier_multiclass("y", {"ant": "a", "bee": "y"}), ["'y' is String", "numbers"]),
    ],
    ids=lambda value: None if isinstance(value, list) else value.name,
)
def test_errors_in_a_verb(metric, words):
    with pytest.raises(fe.EvalError) as caught:
        WIDE.eval.summary(metric)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fe.log_loss("y", "a", clip=0), ["clip=0"]),
        (lambda: fe.log_loss("y", {1: "a", 0: "b"}, positive=1), ["positive=1"]),
        (lambda: fe.brier_multiclass("y", {"ant": "a"}), ["two or more"]),
        (lambda: fe.ece("y", "a", bins=0), ["bins=0"]),
        (lambda: fe.ece("y", "a", bins=2.5), ["bins=2.5"]),
        (lambda: fe.mce("y", "a", strategy="quantil"), ["Did you mean 'quantile'?"]),
    ],
)
def test_errors_at_once(make, words):
    with pytest.raises(fe.EvalError) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(list(COLUMNS))])
def test_classes_may_be_categories(dtype):
    typed = MANY.with_columns(pl.col("y").cast(dtype))
    metrics = fe.log_loss("y", COLUMNS), fe.brier_multiclass("y", COLUMNS)
    assert_frame_equal(typed.eval.summary(*metrics), MANY.eval.summary(*metrics), rel_tol=1e-13)


def test_rows_that_miss_one_of_the_probabilities():
    gap = MANY.with_row_index("i").with_columns(
        q_bee=pl.when(pl.col("i") % 5 > 0).then("q_bee"), y=pl.when(pl.col("i") % 7 > 0).then("y")
    )
    metric = fe.log_loss("y", COLUMNS)
    with pytest.raises(fe.EvalError, match="rows are missing"):
        gap.eval.summary(metric)
    found, kept = one(gap, metric, missing="drop"), one(gap.drop_nulls(), metric)
    assert_allclose(found["estimate"], kept["estimate"], rtol=1e-13)
    assert found["missing"] == gap.height - gap.drop_nulls().height


def test_hundreds_of_classes():
    """Their expressions do not nest as deep as there are classes."""
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(400), 30)
    y = rng.integers(0, 400, 30)
    frame = pl.DataFrame({"y": y, **{f"p{k}": p[:, k] for k in range(400)}})
    columns = {k: f"p{k}" for k in range(400)}
    found = frame.eval.summary(fe.log_loss("y", columns), fe.brier_multiclass("y", columns))
    assert_allclose(found["estimate"][0], -np.log(p[np.arange(30), y]).mean(), rtol=1e-12)
    squared = (p**2).sum(1) - 2 * p[np.arange(30), y] + 1
    assert_allclose(found["estimate"][1], squared.mean(), rtol=1e-12)
