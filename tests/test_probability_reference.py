"""The numbers of ../shared about probabilities, calibration, language models and edge cases."""

import re
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from shared_data import DATA, entries, here, seeds

import frame_eval as fe

FAMILIES = {"calibration", "language_model", "edge", "classification"}
SEEDS, ENTRIES = seeds(FAMILIES), entries()


def value(frame, metric, **options):
    return frame.eval.summary(metric, **options)["estimate"].item()


def probabilities(i):
    return pl.DataFrame({"y": i["y"], "p": i["p"]})


def documents(i):
    """One document with all of the loss."""
    frame = pl.DataFrame({"nll": [i["nll_nats"]], "tokens": [i["tokens"]], "bytes": [i["bytes"]]})
    return [
        value(frame, fe.perplexity("nll", "tokens")),
        value(frame, fe.bits_per_byte("nll", "bytes")),
    ]


def counts(i):
    """Rows for true and false positives and false negatives."""
    rows = [(1, 1)] * i["tp"] + [(0, 1)] * i["fp"] + [(1, 0)] * i["fn"]
    frame = pl.DataFrame(rows, schema=["y", "p"], orient="row")
    return [value(frame, m("y", "p", zero_division=0)) for m in (fe.precision, fe.recall, fe.f1)]


def swept(i):
    """The total cost of flagging at every score, and of flagging nothing, by threshold."""
    frame = pl.DataFrame({"y": i["y"], "score": i["score"]})
    costs = {(0, 1): i["c_fp"], (1, 0): i["c_fn"]}
    return {
        cut: frame.height * value(frame, fe.expected_cost("y", pl.col("score") >= cut, costs))
        for cut in [*sorted(i["score"]), np.inf]
    }


def cheapest(i):
    costs = swept(i)
    return list(min(costs.items(), key=lambda pair: pair[1]))


def with_and_without_an_alert(i):
    costs = swept(i)
    return [min(cost for cut, cost in costs.items() if np.isfinite(cut)), min(costs.values())]


def break_even(i):
    """The probability at which flagging costs as much as not flagging: from two expected costs."""
    costs = {(0, 1): i["c_fp"], (1, 0): i["c_fn"]}
    both = pl.DataFrame({"y": [0, 1], "flag": 1, "pass": 0})

    def cost(pred, share):
        weighted = both.with_columns(w=pl.Series([1 - share, share]))
        return value(weighted, fe.expected_cost("y", pred, costs), weight="w")

    gaps = [cost("flag", share) - cost("pass", share) for share in (0.25, 0.75)]
    return 0.25 + 0.5 * gaps[0] / (gaps[0] - gaps[1])


COMPUTED: dict[str, Callable] = {
    "log-loss-clip": lambda i: value(probabilities(i), fe.log_loss("y", "p", clip=i["eps"])),
    "brier": lambda i: value(probabilities(i), fe.brier("y", "p")),
    "ece-small": lambda i: value(probabilities(i), fe.ece("y", "p", bins=i["n_bins"])),
    "bits-per-byte": documents,
    "auc-single-class": lambda i: value(
        pl.DataFrame({"y": i["y"], "s": i["score"]}), fe.roc_auc("y", "s")
    ),
    "prf-zero-division": counts,
    "cost-sweep": cheapest,
    "cost-sweep-predict-none": with_and_without_an_alert,
    "bayes-threshold": break_even,
}
ELSEWHERE = {
    "in test_reference.py": {"f1-1-001", "averages-3class", "macro-absent-class", "samples-f1"},
    "scores whose formula is not in the vector": {"xorshift-prf", "xorshift-logloss"},
    "bins closed below, where ours are closed above (conventions.md)": {"calibration-bins"},
    "average precision": {"ap-no-positives"},
    "detection": {"detection-no-gt"},
    "p-values of a bootstrap": {"bootstrap-p-floor"},
}


@here
def test_every_seed_value_is_sorted():
    """Each is tested, or listed with the reason why it is not."""
    others = set().union(*ELSEWHERE.values())
    assert not others & set(COMPUTED)
    assert others | set(COMPUTED) == set(SEEDS)


@here
@pytest.mark.parametrize("name", COMPUTED)
def test_seed_value(name):
    row = SEEDS[name]
    found = COMPUTED[name](row["input"])
    if row["expected"] is None:
        assert found is None
    else:
        assert_allclose(found, row["expected"], rtol=0, atol=row["tolerance"])


def loan(entry, metric):
    name = re.match(r"model == '(\w+)'", entry["filter"])[1]
    frame = pl.read_parquet(DATA / entry["file"]).filter(pl.col("model") == name)
    return value(frame, metric)


def judges(entry):
    """Both judges on the same answers, a column each."""
    frame = pl.read_parquet(DATA / entry["file"]).drop_nulls("score")
    parts = frame.partition_by("judge", maintain_order=True)
    both = parts[0].join(parts[1], on=["model", "task_id"])
    assert both.height == 6133
    return value(both, fe.cohen_kappa("score", "score_right", weights="quadratic"))


MATCHERS = [
    ("loan", "Brier score", lambda entry: loan(entry, fe.brier("label", "score"))),
    ("loan", "log loss", lambda entry: loan(entry, fe.log_loss("label", "score"))),
    ("wildbench", "Cohen kappa, quadratic weights, between the two judges", judges),
]


def matched():
    """The entries about these metrics, each with what computes it."""
    for k, entry in enumerate(ENTRIES):
        for file, metric, function in MATCHERS:
            if entry["file"].startswith(file) and entry["metric"] == metric:
                yield pytest.param(function, entry, id=f"{k}")


@here
def test_every_entry_is_matched():
    """Two models by two scores, and the pair of judges."""
    assert len(list(matched())) == 5


@here
@pytest.mark.parametrize(("function", "entry"), list(matched()))
def test_reference_value(function, entry):
    assert_allclose(function(entry), entry["value"], rtol=0, atol=entry["tolerance"])
