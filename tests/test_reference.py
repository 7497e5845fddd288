"""The published and recomputed numbers of ../shared that ``summary`` can say."""

import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from shared_data import DATA, entries, here, seeds

import frame_eval as fe

FAMILIES = {"interval", "cluster", "classification", "contamination", "agreement", "roc_pr"}
SEEDS, ENTRIES = seeds(FAMILIES), entries()


def one(frame, metric, **options):
    return frame.eval.summary(metric, **options).row(0, named=True)


def values(frame, *metrics, **options):
    return frame.eval.summary(*metrics, **options)["estimate"].to_list()


def hits(k, n):
    return pl.DataFrame({"ok": np.arange(n) < k})


def limits(method, k, n, level=0.95):
    found = one(hits(k, n), fe.rate("ok"), interval=method, level=level)
    return [found["ci_low"], found["ci_high"]]


def rate_error(k, n):
    return one(hits(round(k), n), fe.rate("ok"))["std_error"]


def table(both_pos, judge_only, human_only, both_neg=0):
    """Two raters, a row per item; the judge is the prediction."""
    cells = [(1, 1, both_pos), (0, 1, judge_only), (1, 0, human_only), (0, 0, both_neg)]
    rows = [(y, p) for y, p, count in cells for _ in range(count)]
    return pl.DataFrame(rows, schema=["y", "p"], orient="row")


def agreement(frame):
    """Observed, chance and kappa; chance as the agreement of all pairs of rows."""
    crossed = frame.select("y").join(frame.select("p"), how="cross")
    observed, kappa = values(frame, fe.accuracy("y", "p"), fe.cohen_kappa("y", "p"))
    return [observed, values(crossed, fe.accuracy("y", "p"))[0], kappa]


def kappa_of(i):
    return values(table(**i), fe.cohen_kappa("y", "p"))[0]


def scored(i):
    return pl.DataFrame({"y": i["y"], "s": i["score"]})


def auc(frame):
    return values(frame, fe.roc_auc("y", "s"))[0]


def duplicated_auc(i):
    frame = scored(i)
    copies = [frame.filter(pl.col("y") == 0)] * (i["copies"] - 1)
    return values(
        pl.concat([frame, *copies]),
        fe.roc_auc("y", "s"),
        fe.average_precision("y", "s"),
        fe.precision_at_k("y", "s", 3),
    )


def ap(frame):
    return values(frame, fe.average_precision("y", "s"))[0]


def precision_at_hits(i):
    points = scored(i).eval.curve("pr", "y", "s")
    return points.filter(pl.col("recall").diff().fill_null(1) > 0)["precision"].to_list()


def every_ranking(i):
    """All arrangements of the positives, each a slice."""
    n = i["n"]
    found = list(itertools.combinations(range(n), i["pos"]))
    frame = pl.DataFrame(
        {
            "ranking": np.repeat(np.arange(len(found)), n),
            "y": np.concatenate([np.isin(np.arange(n), places) for places in found]),
            "s": np.tile(np.arange(n), len(found)),
        }
    )
    return float(np.mean(values(frame, fe.average_precision("y", "s"), by="ranking")))


def precision_at_an_auc(i):
    """All rankings of that AUC, by how many negatives each positive is below."""
    positives, negatives = i["n_pos"], i["n_neg"]
    wrong = round((1 - i["auc"]) * positives * negatives)
    below = [
        parts
        for parts in itertools.combinations_with_replacement(range(wrong + 1), positives)
        if sum(parts) == wrong
    ]
    frame = pl.DataFrame(
        {
            "ranking": np.repeat(np.arange(len(below)), positives + negatives),
            "y": np.tile(np.arange(positives + negatives) < positives, len(below)),
            "s": np.concatenate([[*(0.5 - np.array(b)), *-np.arange(negatives)] for b in below]),
        }
    )
    for_all = frame.eval.summary(
        fe.roc_auc("y", "s"), fe.precision_at_recall("y", "s", 0.8), by="ranking"
    )
    assert_allclose(for_all.filter(metric="roc_auc")["estimate"], i["auc"])
    precision = for_all.filter(pl.col("metric") != "roc_auc")["estimate"]
    return [precision.min(), precision.max()]


def coverage(i):
    """Exact: the binomial weights of the outcomes whose interval holds p."""
    n, p = i["n"], i["p"]
    weights = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    outcomes = pl.DataFrame(
        {
            "k": np.repeat(np.arange(n + 1), n),
            "ok": np.concatenate([np.arange(n) < k for k in range(n + 1)]),
        }
    )
    result = []
    for method in i["methods"]:
        found = outcomes.eval.summary(
            fe.rate("ok"), by="k", interval=method.replace("_", "-")
        ).sort("k")
        inside = (found["ci_low"] <= p) & (found["ci_high"] >= p)
        result.append(float(np.dot(weights, inside.to_numpy())))
    return result


def clustered_error(i):
    frame = pl.DataFrame({"x": i["values"], "c": i["clusters"]})
    return one(frame, fe.mean("x"), cluster="c", interval="cr1")["std_error"]


def xorshift_positives(i):
    """The labels of the generator that the seed names; how it makes scores is not in the vector."""
    state, drawn = i["seed"], []
    for _ in range(i["n"]):
        for shift in (13, -7, 17):
            moved = state << shift if shift > 0 else state >> -shift
            state = (state ^ moved) & (2**64 - 1)
        drawn.append((state >> 11) / 2**53)
    share = values(pl.DataFrame({"u": drawn}), fe.rate(pl.col("u") < 0.1))[0]
    return [share * i["n"]]


def repeated_normals(i):
    rng = np.random.default_rng(i["seed"])
    positive, negative = rng.normal(1.5, 1, 200), rng.normal(0, 1, 200)
    frames = [
        pl.DataFrame(
            {
                "y": [1] * 200 + [0] * 200 * times,
                "s": np.concatenate([positive, np.tile(negative, times)]),
            }
        )
        for times in i["reps"]
    ]
    return [[auc(frame) for frame in frames], [ap(frame) for frame in frames]]


def matrix_averages(i):
    rows = [
        (y, p)
        for y, row in enumerate(i["matrix"])
        for p, count in enumerate(row)
        for _ in range(count)
    ]
    frame = pl.DataFrame(rows, schema=["y", "p"], orient="row")
    return values(
        frame,
        *(fe.f1("y", "p", average=a) for a in ("micro", "macro", "weighted")),
        fe.precision("y", "p", average="macro"),
        fe.recall("y", "p", average="macro"),
    )


def absent_class(i):
    frame = pl.DataFrame({"y": i["y"], "p": i["pred"]})
    everything = fe.f1(
        "y", "p", average="macro", labels=list(range(i["n_classes"])), zero_division=0
    )
    return [values(frame, everything)[0], values(frame, fe.f1("y", "p", average="macro"))[0]]


def sample_f1(i):
    """F1 per row of labels, then the mean: rows as slices."""
    frame = pl.DataFrame(
        [
            (row, y, p)
            for row, (truth, found) in enumerate(zip(i["y"], i["pred"], strict=True))
            for y, p in zip(truth, found, strict=True)
        ],
        schema=["row", "y", "p"],
        orient="row",
    )
    return float(np.mean(values(frame, fe.f1("y", "p"), by="row")))


def two_rates(i):
    """The unpooled error of a difference of two slices."""
    frame = pl.concat(
        hits(round(i[f"p{j}"] * i[f"n{j}"]), i[f"n{j}"]).with_columns(set=pl.lit(j)) for j in (1, 2)
    )
    found = frame.eval.summary(fe.rate("ok"), by="set").sort("set")
    p, error = found["estimate"].to_numpy(), found["std_error"].to_numpy()
    whole = np.hypot(*error)
    return [whole, abs(p[0] - p[1]) / whole]


def expected_counts(positives, negatives, tpr, fpr):
    """Rows with weights for expected counts."""
    return pl.DataFrame(
        {
            "y": [1, 1, 0, 0],
            "p": [1, 0, 1, 0],
            "w": [positives * tpr, positives * (1 - tpr), negatives * fpr, negatives * (1 - fpr)],
        }
    )


def precision_of(positives, negatives, i):
    frame = expected_counts(positives, negatives, i["tpr"], i["fpr"])
    return one(frame, fe.precision("y", "p"), weight="w")["estimate"]


def f1_at(i):
    """Precision 1 and recall r."""
    frame = expected_counts(1.0, 1.0, i["r"], 0.0).filter(pl.col("w") > 0)
    return one(frame, fe.f1("y", "p"), weight="w")["estimate"]


# Values in the order of `expected`; a list may be shorter, where its end needs another verb.
SUMMARY: dict[str, Callable] = {
    "prop-variance-072": lambda i: 500 * rate_error(500 * i["p"], 500) ** 2,
    "prop-se-360-500": lambda i: rate_error(i["k"], i["n"]),
    "prop-se-072-2000": lambda i: rate_error(i["p"] * i["n"], i["n"]),
    "prop-se-07-500": lambda i: [
        rate_error(i["p"] * i["n"], i["n"]),
        np.ptp(limits("wald", round(i["p"] * i["n"]), i["n"])) / 2,
    ],
    "wald-360-500": lambda i: limits("wald", i["k"], i["n"], i["conf"]),
    "wald-contains-704": lambda i: float(
        limits("wald", i["k"], i["n"])[0] <= i["value"] <= limits("wald", i["k"], i["n"])[1]
    ),
    "wald-1-30": lambda i: [*limits("wald", i["k"], i["n"]), rate_error(i["k"], i["n"])],
    "wilson-1-30": lambda i: limits("auto", i["k"], i["n"]),
    "wilson-360-500": lambda i: limits("auto", i["k"], i["n"]),
    "wilson-0-100": lambda i: limits("auto", i["k"], i["n"]),
    "wilson-33-40": lambda i: limits("wilson", i["k"], i["n"]),
    "rule-of-three-0-100": lambda i: [
        None,
        # one-sided 95 % is the upper limit of a two-sided 90 %
        limits("clopper-pearson", 0, i["n"], 0.9)[1],
    ],
    "clopper-pearson-1-30": lambda i: limits("clopper-pearson", i["k"], i["n"]),
    "clopper-pearson-0-100": lambda i: [
        *limits("clopper-pearson", i["k"], i["n"]),
        limits("wilson", i["k"], i["n"])[1],
    ],
    "clopper-pearson-360-500": lambda i: limits("clopper-pearson", i["k"], i["n"]),
    "coverage-30": coverage,
    "clustered-se-formula": clustered_error,
    "clustered-se-iid-reference": lambda i: one(
        pl.DataFrame({"ok": i["values"]}), fe.rate("ok"), interval="wald"
    )["std_error"],
    "clustered-se-one-cluster": clustered_error,
    "kappa-judge-harm": lambda i: agreement(table(**i)),
    "judge-harm-recall": lambda i: values(table(**i), fe.recall("y", "p"), fe.precision("y", "p")),
    "do-nothing-judge": lambda i: values(
        table(**i), fe.accuracy("y", "p"), fe.cohen_kappa("y", "p")
    ),
    "kappa-helpfulness": lambda i: agreement(table(**i)),
    "kappa-2-4-4-90": lambda i: agreement(table(**i)),
    "kappa-90-90": lambda i: [
        values(table(*cells), fe.cohen_kappa("y", "p"))[0] for cells in i["tables"]
    ],
    "kappa-degenerate": kappa_of,
    "agreement-notebook": lambda i: values(
        pl.DataFrame(i), fe.accuracy("human", "judge"), fe.cohen_kappa("human", "judge")
    ),
    "contamination-x": two_rates,
    "contamination-y": two_rates,
    "fraud-auc": lambda i: auc(scored(i)),
    "fraud-auc-mwu": lambda i: auc(scored(i)),
    "fraud-duplicated-negatives": duplicated_auc,
    "f1-1-001": f1_at,
    "auc-tie": lambda i: auc(scored(i)),
    "fraud-ap": lambda i: ap(scored(i)),
    "fraud-ap-terms": precision_at_hits,
    "ap-tie": lambda i: [ap(scored(i))],
    "ap-random-small": every_ranking,
    "auc-precision-bound": precision_at_an_auc,
    "precision-1e4": lambda i: [precision_of(1.0, i["neg_per_pos"], i)],
    "precision-1e3": lambda i: [precision_of(i["prevalence"], 1 - i["prevalence"], i)],
    "auc-duplication-exercise2": repeated_normals,
    "xorshift-auc-ap": xorshift_positives,
    "averages-3class": matrix_averages,
    "macro-absent-class": absent_class,
    "samples-f1": sample_f1,
}
# Where ../shared/conventions.md decides otherwise than the vector.
DECIDED = {"kappa-degenerate": None}  # chance agreement 1: null, the seed says 1.0

NOT_SUMMARY = {
    "a probability of the binomial law, of no data": {"rerun-within-2pts", "binom-pmf-30"},
    "whether a printed percentage can be a count": {"attainable-704", "attainable-701"},
    "planning: design effects from assumed correlations": {
        "implied-icc-40x5",
        "design-effect-5-02",
        "effective-n-500-50",
    },
    "agreement of more than two raters": {"fleiss-small", "krippendorff-small"},
    "n-gram overlap of texts": {"ngram-clean", "ngram-leaked", "ngram-count", "ngram-short"},
    "pairs behind the AUC, or what other tie rules would give": {
        "fraud-auc-pairs",
        "auc-tie-input-order",
    },
    "bounds that are algebra, of no data": {"precision-half-bound", "ap-lift"},
    "scores whose formula is not in the vector": {"xorshift-prf"},
    "thresholds, in the tests of best_threshold": {
        "bayes-threshold",
        "cost-sweep",
        "cost-sweep-predict-none",
    },
}


@here
def test_every_seed_value_is_sorted():
    """Each is tested, or listed with the reason why it can not be."""
    others = set().union(*NOT_SUMMARY.values())
    assert not others & set(SUMMARY)
    assert others | set(SUMMARY) == set(SEEDS)


@here
@pytest.mark.parametrize("name", SUMMARY)
def test_seed_value(name):
    row = SEEDS[name]
    expected = DECIDED.get(name, row["expected"])
    found = SUMMARY[name](row["input"])
    if expected is None:
        assert found is None
    elif isinstance(expected, list):
        assert 0 < len(found) <= len(expected)
        for value, wanted in zip(found, expected, strict=False):
            if value is not None:
                assert_allclose(value, wanted, rtol=0, atol=row["tolerance"])
    else:
        assert_allclose(found, expected, rtol=0, atol=row["tolerance"])


CLUSTERS = {
    "repo": "repo",
    "doc": "doc",
    "question_id": "question_id",
    "task": "task_id",
}
COLUMN = {
    "swebench_verified_bash_only": "resolved",
    "swebench_pro": "resolved",
    "tau_bench_airline": "success",
    "livecodebench_pass1": "pass_at_1",
    "wmt23_ende_mqm_three_ratings": "score",
}


def read(name):
    return pl.read_parquet(DATA / name)


def where(frame, text):
    """The rows that a filter such as ``a == 'x' and b == 'y' (n=5)`` names."""
    for column, value in re.findall(r"(\w+) == '((?:[^'])*)'", text):
        frame = frame.filter(pl.col(column) == value)
    assert frame.height
    return frame


def numeric(frame, column):
    """Float32 data summed as the reference did, in double precision."""
    return frame.with_columns(pl.col(column).cast(pl.Float64))


def mean_like(entry):
    column = re.match(r"mean\((\w+)\)", entry["metric"])[1]
    frame = where(read(entry["file"]), entry["filter"])
    metric = fe.rate if frame[column].dtype == pl.Boolean else fe.mean
    return one(frame, metric(column), cluster=None)["estimate"]


def missing_mean(entry):
    frame = where(read(entry["file"]), entry["filter"])
    option = "drop" if "non-null" in entry["metric"] else "worst"
    return one(frame, fe.rate("resolved"), missing=option)["estimate"]


def null_rows(entry):
    frame = where(read(entry["file"]), entry["filter"])
    return one(frame, fe.rate("resolved"), missing="drop")["missing"]


def standard_error(entry):
    text, stem = entry["metric"], entry["file"].removesuffix(".parquet")
    frame = where(read(entry["file"]), entry["filter"])
    metric = fe.mean(COLUMN[stem])
    found = re.search(r"clustered by (\w+)", text)
    if found is None:
        return one(frame, metric)["std_error"]
    kind = "cr0" if "no small-sample" in text else "cr1"
    cluster = CLUSTERS[found[1]]
    if frame[cluster].n_unique() == frame.height:  # each row its own: both are the i.i.d. error
        assert_allclose(one(frame, metric)["std_error"], entry["value"], atol=entry["tolerance"])
    return one(frame, metric, cluster=cluster, interval=kind)["std_error"]


def dollars(entry):
    frame = where(read(entry["file"]), entry["filter"])
    return one(frame, fe.ratio("cost_usd", "resolved"))["estimate"]


def pass_at(entry):
    k = int(re.match(r"pass@(\d+)", entry["metric"])[1])
    frame = where(read(entry["file"]), entry["filter"])
    column = "success" if "success" in frame.columns else "correct"
    scale = 100 if "percent" in entry["metric"] else 1
    return scale * one(frame, fe.pass_at_k(column, k), example="task_id")["estimate"]


def pass_one(entry):
    return one(read(entry["file"]), fe.rate("success"), example="task_id", trial="trial")[
        "estimate"
    ]


def accuracy(entry):
    frame = where(read(entry["file"]), entry["filter"])
    return one(frame, fe.rate("correct"))["estimate"]


def wilson_limit(entry):
    frame = where(read(entry["file"]), entry["filter"])
    return one(frame, fe.rate("correct"))["ci_" + entry["metric"].rsplit(" ", 1)[1]]


def win_rate(entry):
    frame = numeric(where(read(entry["file"]), entry["filter"]), "win")
    found = one(frame, fe.mean("win", bounds=(0, 1)))
    if entry["metric"].startswith("win rate"):
        return 100 * found["estimate"]
    # A baseline compared with itself is constant: null, where the leaderboard prints 0.
    return 0.0 if found["note"] and "all alike" in found["note"] else 100 * found["std_error"]


def rater_kappa(entry):
    first, second = re.match(r"(\S+) vs (\S+)", entry["filter"]).groups()
    frame = read(entry["file"])
    parts = [frame.filter(pl.col("rater") == rater) for rater in (first, second)]
    both = parts[0].join(parts[1], on="item_id")
    return one(both, fe.cohen_kappa("label", "label_right"), missing="drop")["estimate"]


def majority_accuracy(entry):
    frame = read(entry["file"])
    human = frame.filter(pl.col("rater_kind") == "human")
    votes = human.group_by("item_id", "label").len().filter(pl.col("len") >= 2)
    judge = where(frame, entry["filter"]).join(votes.select("item_id", gold="label"), on="item_id")
    wrong = judge.with_columns(pl.col("label").fill_null("none"))
    return one(wrong, fe.accuracy("gold", "label"))["estimate"]


def left_share(entry):
    frame = where(read(entry["file"]), entry["filter"])
    decided = frame.filter(pl.col("winner").is_in(["left", "right"]))
    return one(decided, fe.rate(pl.col("winner") == "left"))["estimate"]


def crowd_agreement(entry):
    """GPT-4 against the label that most of the crowd gave, where one label has most votes."""
    frame = read(entry["file"])
    crowd = frame.filter(pl.col("judge") == "crowd").group_by("pair_id", "winner").len()
    best = crowd.filter(pl.col("len") == pl.col("len").max().over("pair_id"))
    strict = best.filter(pl.len().over("pair_id") == 1).select("pair_id", gold="winner")
    both = frame.filter(pl.col("judge") == "gpt-4").join(strict, on="pair_id")
    metric = fe.cohen_kappa if entry["metric"].startswith("Cohen") else fe.accuracy
    found = one(both, metric("gold", "winner"))
    assert f"(n={found['n']})" in entry["filter"]
    return found["estimate"]


def judged(entry):
    return where(read(entry["file"]), entry["filter"])


def judge_accuracy(entry):
    metric = fe.accuracy("label", "winner")
    return 100 * one(judged(entry), metric, missing="drop")["estimate"]


def two_orders(entry):
    frame = judged(entry)
    parts = [frame.filter(pl.col("swapped") == swapped) for swapped in (False, True)]
    both = parts[0].join(parts[1], on="item_id")
    if entry["metric"].startswith("Cohen"):
        return one(both, fe.cohen_kappa("winner", "winner_right"), missing="drop")["estimate"]
    return 100 * one(both, fe.accuracy("winner", "winner_right"), missing="drop")["estimate"]


def errors_of(entry):
    frame = where(read(entry["file"]), entry["filter"])
    wrong = pl.col("substitutions") + pl.col("deletions") + pl.col("insertions")
    columns = {name: pl.col(name).cast(pl.Int64) for name in ("substitutions", "deletions")}
    return frame.with_columns(pl.col("insertions").cast(pl.Int64), **columns).with_columns(
        wrong=wrong
    )


def pooled_wer(entry):
    return one(errors_of(entry), fe.ratio("wrong", "ref_words"))["estimate"]


def wer_error(entry):
    frame, metric = errors_of(entry), fe.ratio("wrong", "ref_words")
    if "call_id" in entry["metric"]:
        return one(frame, metric, cluster="call_id", interval="cr1")["std_error"]
    return one(frame, metric, interval="cr1")["std_error"]  # a segment is a row


def mean_wer(entry):
    per_call = values(errors_of(entry), fe.ratio("wrong", "ref_words"), by="call_id")
    return float(np.mean(per_call))


def pooled_cer(entry):
    frame = where(read(entry["file"]), entry["filter"])
    return one(frame, fe.ratio("char_distance", "ref_chars"))["estimate"]


def loan(entry):
    return where(read(entry["file"]), entry["filter"])


def loan_auc(entry):
    return one(loan(entry), fe.roc_auc("label", "score"))["estimate"]


def at_threshold(metric):
    flagged = (pl.col("score") >= 0.9).cast(pl.Int8)
    return lambda entry: one(loan(entry), metric("label", flagged))["estimate"]


def parity(entry):
    """Demographic parity from the rates of the slices."""
    frame = loan(entry).filter(pl.col("race").is_not_null())
    shares = values(frame, fe.rate(pl.col("score") >= 0.9), by="race")
    if "ratio" in entry["metric"]:
        return min(shares) / max(shares)
    return max(shares) - min(shares)


def odds(entry):
    """Equalized odds: the wider of the two gaps between slices."""
    flagged = (pl.col("score") >= 0.9).cast(pl.Int8)
    frame = loan(entry).filter(pl.col("race").is_not_null())
    gaps = [
        np.ptp(values(frame, metric("label", flagged), by="race"))
        for metric in (fe.recall, fe.specificity)
    ]
    return float(max(gaps))


# File, metric and filter patterns to what computes the value; the first that fits is taken.
MATCHERS: list[tuple[str, str, str, Callable]] = [
    (r"swebench_verified_16", r"mean\(resolved\)", r"^system", missing_mean),
    (r"swebench_verified_16", r"number of null rows", r"^system", null_rows),
    (r"swebench|livecode|wmt23|tau", r"(standard error|SE) ", r"^(system|scenario|all)", None),
    (r"parquet", r"mean\(\w+\)", r"^(system|model|scenario|workflow)", None),
    (r"swebench", r"sum\(cost_usd\)", r"^system", dollars),
    (r"tau_bench|cruxeval", r"pass@\d", r"", pass_at),
    (r"tau_bench", r"pass\^1$", r"", pass_one),
    (r"gsm8k", r"accuracy", r"^model", accuracy),
    (r"gsm8k", r"Wilson", r"^model", wilson_limit),
    (r"alpaca", r"(win rate in percent|standard error in percent)", r"^model", win_rate),
    (r"pandalm", r"Cohen kappa", r" vs ", rater_kappa),
    (r"pandalm", r"accuracy against", r"^rater", majority_accuracy),
    (r"llmfao", r"share of decided votes", r"^judge", left_share),
    (r"llmfao", r"(Cohen kappa|raw agreement), GPT-4", r"", crowd_agreement),
    (r"llmbar", r"accuracy in percent", r"^judge", judge_accuracy),
    (r"llmbar", r"(position consistency|Cohen kappa)", r"^judge", two_orders),
    (r"earnings21", r"WER = ", r"^system", pooled_wer),
    (r"earnings21", r"linearised SE", r"^system", wer_error),
    (r"earnings21", r"mean of the per-call WERs", r"^system", mean_wer),
    (r"ocr_lines", r"CER pooled", r"^document", pooled_cer),
    (r"loan", r"ROC AUC", r"^model", loan_auc),
    (r"loan", r"F1 at", r"^model", at_threshold(fe.f1)),
    (r"loan", r"Matthews", r"^model", at_threshold(fe.mcc)),
    (r"loan", r"balanced accuracy", r"^model", at_threshold(fe.balanced_accuracy)),
    (r"loan", r"demographic parity", r"^model", parity),
    (r"loan", r"equalized odds", r"^model", odds),
]
ELSEWHERE = r"rankings|P-value|judged with"  # needs ranked lists, not columns


def matched(entry):
    for file, metric, rows, function in MATCHERS:
        fits = (
            re.match(file if file != r"parquet" else r".*parquet", entry["file"])
            and re.match(metric, entry["metric"])
            and re.search(rows, entry["filter"])
            and not re.search(ELSEWHERE, entry["file"] + entry["metric"])
        )
        if fits and function is not None:
            return function
        if fits:
            return mean_like if metric.startswith("mean") else standard_error
    return None


MATCHED = [(k, entry) for k, entry in enumerate(ENTRIES) if matched(entry)]


@here
def test_enough_entries_are_matched():
    """Of 351 entries; the others need pairs, ranks, ratings, boxes or probabilities."""
    assert len(MATCHED) >= 140


@here
@pytest.mark.parametrize("entry", [entry for _, entry in MATCHED], ids=[f"{k}" for k, _ in MATCHED])
def test_reference_value(entry):
    found = matched(entry)(entry)
    assert_allclose(found, entry["value"], rtol=0, atol=max(entry["tolerance"], 1e-12))


@here
def test_swebench_by_system_and_repo():
    """The rates of all 24 x 12 slices, clustered, are those of a pandas groupby."""
    frame = read("swebench_verified_bash_only.parquet").to_pandas()
    found = frame.eval.summary(
        fe.rate("resolved"), by="repo", system="system", example="instance_id", cluster="repo"
    )
    expected = frame.groupby(["repo", "system"])["resolved"].agg(["mean", "size"])
    indexed = found.set_index(["repo", "system"]).loc[expected.index]
    assert_allclose(indexed["estimate"], expected["mean"], rtol=1e-14)
    assert (indexed["n"] == expected["size"]).all()
    assert (indexed["clusters"] == 1).all()
    assert indexed["std_error"].isna().sum() == (expected["size"] > 1).sum()
    whole = frame.eval.summary(fe.rate("resolved"), system="system", cluster="repo")
    assert (whole["clusters"] == 12).all()
    assert_allclose(
        whole.set_index("system")["estimate"], frame.groupby("system")["resolved"].mean()
    )
    assert (whole["ci_low"] < whole["estimate"]).all()
