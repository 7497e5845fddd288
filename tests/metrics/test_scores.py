"""Rank metrics: hard scores, gradients by steps, and errors against explicit influences."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics as sk

import frame_eval as fe
from frame_eval.inference.linear import central_differences
from frame_eval.metrics.core import Sums

RNG = np.random.default_rng(12)
SMOOTH = {
    "roc_auc": fe.roc_auc("y", "s"),
    "gini": fe.gini("y", "s"),
    "average_precision": fe.average_precision("y", "s"),
    "at a prevalence": fe.average_precision("y", "s", at_prevalence=0.03),
    "partial": fe.partial_auc("y", "s", 0.35),
    "partial area": fe.partial_auc("y", "s", 0.35, standardized=False),
}
each_smooth = pytest.mark.parametrize("metric", SMOOTH.values(), ids=SMOOTH)


def value(frame, metric, **options):
    return frame.eval.summary(metric, **options)["estimate"].item()


@each_smooth
@pytest.mark.parametrize("seed", range(6))
def test_gradients_are_those_of_small_steps(metric, seed):
    rng = np.random.default_rng(seed)
    pos, neg = rng.integers(0, 4, (2, 25)).astype(float)
    named = {"n": pos + neg, "pos": pos, "neg": neg, "rows": pos + neg}
    sums = Sums(named, (np.arange(25),))
    steps = central_differences(metric.finish, ("n", "pos", "neg"), sums, ("s",))
    found = metric.slopes(sums)
    assert_allclose(found["pos"][pos > 0], steps[pos > 0, 1], rtol=1e-6, atol=1e-8)
    assert_allclose(found["neg"][neg > 0], steps[neg > 0, 2], rtol=1e-6, atol=1e-8)


def test_the_gradient_of_a_restated_precision():
    metric = fe.precision_at_prevalence("y", "p", 0.07)
    names = ("n", "pos", "tp", "neg", "fp")
    values = dict(zip(names, np.array([[30.0], [12.0], [7.0], [18.0], [4.0]]), strict=True))
    sums = Sums({**values, "rows": values["n"]})
    steps = central_differences(metric.finish, names, sums, ())
    found = metric.gradient(Sums(values))
    assert_allclose([found[name][0] for name in names[1:]], steps[0, 1:], rtol=1e-8)


@pytest.mark.parametrize(("negatives", "warned"), [(900, False), (890, True)])
def test_few_negatives_for_a_rare_class(negatives, warned):
    """At one positive in ten, 900 negatives come with 100 positives."""
    frame = pl.DataFrame({"y": [1] * 100 + [0] * negatives}).with_columns(
        s=pl.int_range(pl.len()).cast(float).sin()
    )
    note = frame.eval.summary(fe.average_precision("y", "s", at_prevalence=0.1))["note"].item()
    assert ("; negatives as for 98.9 positives: biased upwards, errors too short" in note) == warned
    assert note.startswith(f"prevalence {100 / (100 + negatives):.3g}")


ROUGH = {
    "ks": fe.ks("y", "s"),
    "precision at recall": fe.precision_at_recall("y", "s", 0.6),
    "recall at precision": fe.recall_at_precision("y", "s", 0.6),
    "precision at k": fe.precision_at_k("y", "s", 30),
    "recall of a share": fe.recall_at_k("y", "s", 0.2),
}


@pytest.mark.parametrize("metric", (SMOOTH | ROUGH).values(), ids=SMOOTH | ROUGH)
def test_many_samples_at_once_are_each_of_them(metric):
    """As the bootstrap asks: replicates on a leading axis, some without a class."""
    pos, neg = np.random.default_rng(8).integers(0, 4, (2, 40, 25)).astype(float)
    pos[0], neg[1] = 0, 0

    def sums(*index):
        columns = {"n": pos + neg, "pos": pos, "neg": neg, "rows": pos + neg}
        return Sums({name: value[index] for name, value in columns.items()}, (np.arange(25),))

    with np.errstate(divide="ignore", invalid="ignore"):
        each = [float(metric.finish(sums(i))) for i in range(40)]
        assert_allclose(metric.finish(sums(slice(None))), each, rtol=1e-13)


@pytest.mark.parametrize("metric", (SMOOTH | ROUGH).values(), ids=SMOOTH | ROUGH)
def test_a_bootstrap_interval_is_around_the_estimate(metric):
    rng = np.random.default_rng(23)
    y = rng.random(20_000) < 0.4
    frame = pl.DataFrame({"y": y, "s": np.round(rng.normal(size=20_000) + y, 1)})
    row = frame.eval.summary(metric, interval="percentile", resamples=999).row(0, named=True)
    assert row["ci_low"] < row["estimate"] < row["ci_high"]
    if metric.smooth:
        linear = frame.eval.summary(metric)["std_error"].item()
        assert_allclose(row["std_error"], linear, rtol=0.1)


HARD = {
    "huge and tiny": 10.0 ** RNG.integers(-300, 300, 200) * RNG.choice([-1, 1], 200),
    "subnormal": RNG.integers(-5, 5, 200) * np.finfo(float).smallest_subnormal,
    "single precision": RNG.normal(size=200).astype(np.float32),
    "one step apart": 1 + np.finfo(float).eps * RNG.integers(0, 40, 200),
    "integers": RNG.integers(0, 9, 200),
    "large integers": RNG.integers(-(2**53), 2**53, 200),
    "bytes": RNG.integers(0, 255, 200).astype(np.uint8),
    "zeros of both signs": RNG.choice([-0.0, 0.0, 1.0], 200),
    "all tied": np.full(200, -3.5),
}


@pytest.mark.parametrize("scores", HARD.values(), ids=HARD)
def test_hard_scores(scores):
    y = RNG.random(200) < 0.4
    w = RNG.integers(1, 5, 200) / 4
    frame = pl.DataFrame({"y": y, "s": scores, "w": w})
    ranks = np.unique(scores, return_inverse=True)[1]
    for metric, oracle in {
        fe.roc_auc("y", "s"): sk.roc_auc_score,
        fe.average_precision("y", "s"): sk.average_precision_score,
    }.items():
        assert_allclose(value(frame, metric), oracle(y, ranks), rtol=1e-13)
        weighted = oracle(y, ranks, sample_weight=w)
        assert_allclose(value(frame, metric, weight="w"), weighted, rtol=1e-13)
        assert_allclose(frame.select(metric.expr()).item(), oracle(y, ranks), rtol=1e-13)


def test_infinite_scores_are_the_first_and_the_last():
    s = np.array([np.inf, 3, -np.inf, np.inf, 0, -np.inf])
    y = np.array([1, 0, 0, 1, 1, 1])
    frame = pl.DataFrame({"y": y, "s": s})
    ranks = np.unique(s, return_inverse=True)[1]
    assert_allclose(value(frame, fe.roc_auc("y", "s")), sk.roc_auc_score(y, ranks))
    assert_allclose(
        value(frame, fe.average_precision("y", "s")), sk.average_precision_score(y, ranks)
    )


def test_one_class_is_null_with_a_reason():
    for y, reasons in ((1, {"no negatives"}), (0, {"no positives"})):
        frame = pl.DataFrame({"y": [y] * 5, "s": [0.1, 0.2, 0.2, 0.4, 0.5]})
        for metric in SMOOTH.values():
            row = frame.eval.summary(metric).row(0, named=True)
            if metric.name == "average_precision" and y:
                assert row["estimate"] == 1
                continue
            assert row["estimate"] is None
            assert row["note"] in reasons


def test_what_is_out_of_reach_is_null_with_a_reason():
    frame = pl.DataFrame({"y": [0, 1, 0], "s": [0.9, 0.5, 0.1]})
    row = frame.eval.summary(fe.recall_at_precision("y", "s", 0.9)).row(0, named=True)
    assert row["estimate"] is None
    assert row["note"] == "no threshold reaches precision 0.9"


def test_few_positives_are_noted():
    frame = pl.DataFrame({"y": np.arange(200) < 49, "s": RNG.random(200)})
    note = frame.eval.summary(fe.average_precision("y", "s"))["note"].item()
    assert note == "prevalence 0.245; 49 positives: biased, and optimistic"
    frame = pl.DataFrame({"y": np.arange(200) < 50, "s": RNG.random(200)})
    note = frame.eval.summary(fe.average_precision("y", "s"))["note"].item()
    assert note == "prevalence 0.25"


def influences(y, s):
    """Of average precision, row by row, from its definition: each row by a loop over the others."""
    n, positives = len(y), y.sum()
    at = [(y[s >= x].sum(), (s >= x).sum()) for x in s]
    precision = np.array([tp / k for tp, k in at])
    ap = precision[y].mean()
    found = np.zeros(n)
    for j in range(n):
        for i in np.flatnonzero(y):
            # Row j weighs a little more: it moves the precision at every positive it is above.
            if s[j] >= s[i]:
                tp, k = at[i]
                found[j] += (float(y[j]) - tp / k) / k / positives
        if y[j]:
            found[j] += (precision[j] - ap) / positives
    return ap, found


@pytest.mark.parametrize("digits", [1, 8])
def test_errors_of_average_precision_are_those_of_its_influences(digits):
    rng = np.random.default_rng(digits)
    c = np.repeat(np.arange(30), 7)
    y = rng.random(210) < 0.4
    s = np.round(rng.normal(size=210) + y + rng.normal(0, 0.5, 30)[c], digits)
    frame = pl.DataFrame({"y": y, "s": s, "c": c})
    ap, rows = influences(y, s)
    assert_allclose(rows.sum(), 0, atol=1e-12)
    metric = fe.average_precision("y", "s")
    single = frame.eval.summary(metric).row(0, named=True)
    assert_allclose(single["estimate"], ap, rtol=1e-13)
    assert_allclose(single["std_error"], np.sqrt((rows**2).sum() * 210 / 209), rtol=1e-12)
    sums = np.bincount(c, rows)
    clustered = frame.eval.summary(metric, cluster="c").row(0, named=True)
    assert_allclose(clustered["std_error"], np.sqrt((sums**2).sum() * 30 / 29), rtol=1e-12)
    left = [sk.average_precision_score(y[c != gone], s[c != gone]) for gone in range(30)]
    jackknife = np.sqrt(np.square(np.array(left) - np.mean(left)).sum() * 29 / 30)
    assert_allclose(clustered["std_error"], jackknife, rtol=0.1)


def placements(y, s):
    """The components of DeLong, DeLong and Clarke-Pearson (1988) by counting pairs."""
    wins = (s[y][:, None] > s[~y][None, :]) + 0.5 * (s[y][:, None] == s[~y][None, :])
    return wins.mean(1), wins.mean(0)


@pytest.mark.parametrize("digits", [1, 8])
def test_paired_auc_has_the_covariance_of_delong(digits):
    rng = np.random.default_rng(digits)
    y = rng.random(160) < 0.35
    shared = rng.normal(size=160) + y
    scores = [np.round(shared + rng.normal(0, 0.6, 160), digits) for _ in range(2)]
    frame = pl.DataFrame(
        {
            "m": ["a"] * 160 + ["b"] * 160,
            "e": np.tile(np.arange(160), 2),
            "y": np.tile(y, 2),
            "s": np.concatenate(scores),
        }
    )
    row = frame.eval.compare(fe.roc_auc("y", "s"), system="m", example="e", baseline="a").row(
        0, named=True
    )
    (a1, a0), (b1, b0) = (placements(y, s) for s in scores)
    variance = np.var(b1 - a1, ddof=1) / y.sum() + np.var(b0 - a0, ddof=1) / (~y).sum()
    assert_allclose(row["difference"], b1.mean() - a1.mean(), rtol=1e-12)
    assert_allclose(row["std_error"], np.sqrt(variance), rtol=1e-10)


@each_smooth
def test_comparing_and_summing_up_agree(metric):
    """Differences come from a group-by, estimates from a sort."""
    rows = 240
    frame = pl.DataFrame(
        {
            "m": RNG.choice(["a", "b"], rows),
            "y": RNG.random(rows) < 0.4,
            "s": np.round(RNG.normal(size=rows), 1),
        }
    )
    alone = frame.eval.summary(metric, system="m")
    both = frame.eval.compare(metric, system="m", baseline="a", paired=False).row(0, named=True)
    assert_allclose(both["estimate"], alone["estimate"][1], rtol=1e-13)
    assert_allclose(both["baseline_estimate"], alone["estimate"][0], rtol=1e-13)
    together = np.sqrt(np.square(alone["std_error"].to_numpy()).sum())
    assert_allclose(both["std_error"], together, rtol=1e-11)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fe.partial_auc("y", "s", 1.0), "max_fpr=1.0 is not between 0 and 1"),
        (lambda: fe.average_precision("y", "s", at_prevalence=2), "at_prevalence=2 is not"),
        (lambda: fe.precision_at_recall("y", "s", 0), "recall=0 is not above 0 and at most 1"),
        (lambda: fe.recall_at_precision("y", "s", 1.1), "precision=1.1 is not above 0"),
        (lambda: fe.precision_at_k("y", "s", 0), "k=0 is neither a number of rows"),
        (lambda: fe.recall_at_k("y", "s", 1.5), "k=1.5 is neither a number of rows"),
        (lambda: fe.recall_at_k("y", "s", True), "k=True is neither a number of rows"),
    ],
)
def test_options_are_checked(make, message):
    with pytest.raises(fe.EvalError, match=message):
        make()
