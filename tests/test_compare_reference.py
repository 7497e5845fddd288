"""The published and recomputed numbers of ../shared that ``compare`` can say."""

import re
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from shared_data import DATA, entries, here, seeds

import frame_eval as fe

FAMILIES = {"paired", "unpaired", "pipeline", "contamination"}
SEEDS, ENTRIES = seeds(FAMILIES), entries()


# Seed values: long frames from counts


def answers(both=0, a_only=0, b_only=0, neither=0):
    """Systems A and B on the same questions, with these counts of agreement."""
    counts = [both, a_only, b_only, neither]
    right = {"A": [1, 1, 0, 0], "B": [1, 0, 1, 0]}
    return pl.concat(
        pl.DataFrame({"question": np.arange(sum(counts)), "ok": np.repeat(ok, counts)}).select(
            pl.lit(system).alias("system"), "question", "ok"
        )
        for system, ok in right.items()
    )


def b_minus_a(counts, metric=None, **options):
    """Counts as ``answers`` takes them, or a frame of its shape."""
    frame = counts if isinstance(counts, pl.DataFrame) else answers(**counts)
    roles = {"system": "system", "example": "question", "baseline": "A"}
    return frame.eval.compare(metric or fe.rate("ok"), **roles, **options).row(0, named=True)


def discordant(i):
    a, b = ("a_only", "b_only") if "a_only" in i else ("b", "c")
    n = i.get("n", i[a] + i[b] + 10)
    return {"a_only": i[a], "b_only": i[b], "neither": n - i[a] - i[b]}


def p_of(method):
    return lambda i: b_minus_a(discordant(i), method=method)["p_value"]


def apart(i, method):
    """Two rates of different questions, second minus first."""
    k1, n1, k2, n2 = (i[name] for name in ("k1", "n1", "k2", "n2"))
    frame = pl.DataFrame(
        {
            "system": ["A"] * n1 + ["B"] * n2,
            "ok": np.concatenate([np.arange(n1) < k1, np.arange(n2) < k2]),
        }
    )
    return frame.eval.compare(
        fe.rate("ok"), system="system", baseline="A", paired=False, method=method
    ).row(0, named=True)


def totals(i):
    row = b_minus_a(i)
    right = [round(row[k] * row["n"]) for k in ("baseline_estimate", "estimate")]
    return [*right, row["n"], row["wins"] + row["losses"]]


def paired_errors(i):
    """By n and by n - 1; the error without a mean term is no method of ours."""
    row = b_minus_a(discordant(i), method="cr0")
    return [row["std_error"], b_minus_a(discordant(i))["std_error"]]


def normal_interval(i):
    row = b_minus_a(discordant(i))
    half = stats.norm.ppf(0.975) * row["std_error"]
    return [row["difference"] - half, row["difference"] + half]


def paired_t(i):
    row = b_minus_a(discordant(i), method="t")
    return [row["difference"] / row["std_error"], row["p_value"]]


def difference_variance(i):
    """Only the variance of the differences; those of one system are ``summary``'s."""
    row = b_minus_a(i, method="cr0")
    return [None, None, None, row["std_error"] ** 2 * row["n"]]


def exercise_5(i):
    """Sign flips of 0/1 differences are the exact test; the bootstrap is not here."""
    rng = np.random.default_rng(i["seed"])
    a = (rng.random(i["n"]) < i["p"]).astype(int)
    b = np.clip(a + (rng.random(i["n"]) < i["lift"] * (1 - a)), 0, 1)
    frame = pl.DataFrame(
        {
            "system": np.repeat(["A", "B"], i["n"]),
            "question": np.tile(np.arange(i["n"]), 2),
            "ok": np.concatenate([a, b]),
        }
    )
    row = b_minus_a(frame, method="exact")
    return [row["difference"], row["wins"], row["losses"], row["p_value"]]


def against_itself(i):
    frame = pl.DataFrame(
        {
            "system": np.repeat(["A", "B"], len(i["d"])),
            "question": np.tile(np.arange(len(i["d"])), 2),
            "ok": np.concatenate([np.zeros(len(i["d"])), i["d"]]),
        }
    )
    row = b_minus_a(frame, fe.mean("ok"))
    return [row["difference"], None, None, row["p_value"]]


def fresh_look_alike(i):
    counts = {"k1": round(i["p2"] * i["n2"]), "n1": i["n2"], "k2": round(i["p1"] * i["n1"])}
    row = apart({**counts, "n2": i["n1"]}, "unpooled")
    z = row["difference"] / row["std_error"]
    return [row["std_error"], z, np.log10(row["p_value"])]


def after_the_change(i):
    lost, won = i["right_to_wrong"], i["wrong_to_right"]
    row = b_minus_a({"both": i["before"] - lost, "a_only": lost, "b_only": won})
    return row["estimate"] * row["n"]


def chi2(method):
    def both(i):
        p = p_of(method)(i)
        return [stats.chi2.isf(p, 1), p]

    return both


# Values in the order of `expected`; None, or a shorter list, where another verb is needed.
COMPARE: dict[str, Callable] = {
    "paired-table-totals": totals,
    "unpaired-se-360-375": lambda i: apart(i, "unpooled")["std_error"],
    "unpaired-p-360-375": lambda i: [apart(i, m)["p_value"] for m in ("unpooled", "pooled")],
    "unpaired-z-360-375": lambda i: (
        apart(i, "unpooled")["difference"] / apart(i, "unpooled")["std_error"]
    ),
    "mcnemar-exact-40-55": p_of("exact"),
    "mcnemar-chi2cc-40-55": chi2("corrected"),
    "mcnemar-chi2-40-55": chi2("score"),
    "mcnemar-midp-40-55": p_of("mid-p"),
    "mcnemar-edge-no-discordant": p_of("exact"),
    "paired-se-40-55": paired_errors,
    "paired-ci-40-55": normal_interval,
    "paired-t-40-55": paired_t,
    "paired-variance-identity": difference_variance,
    "mcnemar-exact-160-220": p_of("exact"),
    "permutation-exercise5": exercise_5,
    "permutation-equals-mcnemar": p_of("exact"),
    "self-comparison": against_itself,
    "contamination-x": fresh_look_alike,
    "contamination-y": fresh_look_alike,
    "reference-model-counts": after_the_change,
    "mcnemar-exact-25-10": p_of("exact"),
    "mcnemar-chi2cc-25-10": chi2("corrected"),
    "unpaired-360-345": lambda i: apart(i, "pooled")["p_value"],
    # A benchmark that fell is a pair that only the old system wins.
    "broad-drop-sign": lambda i: p_of("exact")({"b": i["k"], "c": i["n"] - i["k"]}),
    "score-gap-704-720": lambda i: [
        apart(i, "pooled")["difference"],
        apart(i, "pooled")["p_value"],
    ],
}
NOT_COMPARE = {
    "a formula of simulated permutations, of no data": {"permutation-mc-plus-one"},
    "n-gram overlap of texts": {"ngram-clean", "ngram-leaked", "ngram-count", "ngram-short"},
    "rates times a count, of no data": {"truncation-counts"},
}


def check(found, expected, tolerance):
    if not isinstance(expected, list):
        found, expected = [found], [expected]
    assert 0 < len(found) <= len(expected)
    for value, wanted in zip(found, expected, strict=False):
        if value is not None:
            assert_allclose(value, wanted, rtol=0, atol=max(tolerance, 1e-12))


@here
def test_every_seed_value_is_sorted():
    """Each is tested, or listed with the reason why it can not be."""
    others = set().union(*NOT_COMPARE.values())
    assert not others & set(COMPARE)
    assert others | set(COMPARE) == set(SEEDS)


@here
@pytest.mark.parametrize("name", COMPARE)
def test_seed_value(name):
    row = SEEDS[name]
    check(COMPARE[name](row["input"]), row["expected"], row["tolerance"])


# Published results

METRICS = {
    "swebench_verified_bash_only": (fe.rate("resolved"), "system", "instance_id", "repo"),
    "swebench_verified_16_models": (fe.rate("resolved"), "system", "instance_id", "repo"),
    "swebench_pro": (fe.rate("resolved"), "system", "instance_id", "repo"),
    "gsm8k_four_models": (fe.rate("correct"), "model", "problem_id", None),
    "alpaca_eval2_preferences": (fe.mean("win"), "model", "item_id", None),
    "wmt23_ende_mqm_three_ratings": (fe.mean("score"), "system", "seg_id", "doc"),
    "robust03_per_topic": (fe.mean("map"), "system", "topic", None),
    "earnings21_eval10_asr": (
        fe.ratio(
            fe.col("substitutions") + fe.col("deletions") + fe.col("insertions"), "ref_words"
        ).alias("wer"),
        "system",
        ["call_id", "segment"],
        "call_id",
    ),
    "ocrd_quiver_pages": (fe.mean("cer"), "workflow", ["document", "page_id"], "document"),
    "loan_approval_scores": (fe.roc_auc("label", "score"), "model", "example_id", None),
}


def read(stem):
    return pl.read_parquet(DATA / f"{stem}.parquet")


def one_pair(entry, **options):
    """The row of the pair that the entry names: system minus (or versus) baseline."""
    stem = entry["file"].removesuffix(".parquet")
    metric, system, example, cluster = METRICS[stem]
    quoted = re.findall(r"'(.+?)'", entry["filter"])
    a, b = quoted or re.match(r"(\S+) vs (\S+)", entry["filter"]).groups()
    frame = read(stem)
    # The file of 16 models has names with their vendor in front.
    known = frame[system].unique().to_list()
    a, b = (next(k for k in known if name == k or ("/" in k and name in k)) for name in (a, b))
    if "ndcg_cut_10" in entry["metric"]:
        metric = fe.mean("ndcg_cut_10")
    if stem.startswith("wmt23"):
        options["trial"] = "rater"
    if options.pop("clustered", False):
        options["cluster"] = cluster
    result = frame.filter(pl.col(system).is_in([a, b])).eval.compare(
        metric,
        system=system,
        example=example,
        baseline=b,
        unmatched="drop",
        missing="drop",
        **options,
    )
    row = result.row(0, named=True)
    common = re.search(r"\(n=(\d+)\)", entry["filter"])
    assert common is None or row["n"] == int(common[1])
    return row


def normal_p(entry):
    """Of z, where ours takes t; the error is CR1 with segments as clusters, the closed form."""
    row = one_pair(entry, method="cr1")
    return 2 * stats.norm.sf(abs(row["difference"] / row["std_error"]))


def delong_p(entry):
    """DeLong's test is of z with the very error that ours has, which takes t for it."""
    row = one_pair(entry)
    return 2 * stats.norm.sf(abs(row["difference"] / row["std_error"]))


def correction(entry):
    return stats.chi2.isf(one_pair(entry, method="corrected")["p_value"], 1)


def wins_and_losses(entry):
    row = one_pair(entry)
    return f"{row['wins']},{row['losses']}"


def significant(column="p_value", **options):
    def count(entry):
        metric, system, example, cluster = METRICS[entry["file"].removesuffix(".parquet")]
        if options.get("method") in ("cr1", "wild"):
            options["cluster"] = cluster
        result = read(entry["file"].removesuffix(".parquet")).eval.compare(
            metric, system=system, example=example, **options
        )
        assert result.height == int(re.search(r"\d+", result_pairs(entry))[0])
        return (result[column] < 0.05).sum()

    return count


def result_pairs(entry):
    """The number of pairs, as the file has it: "of 276", "of 136"."""
    texts = [e["metric"] for e in ENTRIES if e["file"] == entry["file"]]
    return next(found[0] for text in texts if (found := re.search(r"\(of \d+\)", text)))


def value(column, **options):
    return lambda entry: one_pair(entry, **options)[column]


# File and metric patterns to what computes the value; the first that fits is taken.
MATCHERS: list[tuple[str, str, Callable | None]] = [
    ("", r"wild cluster bootstrap-t p .* share of \|t\*\| > ", None),  # ties not counted
    ("swebench", r"number of system pairs .* wild", significant(method="wild")),
    ("swebench", r"the same with \|t\*\| >= ", value("p_value", method="wild", clustered=True)),
    ("", r"Wilcoxon signed-rank p", value("p_value", method="wilcoxon")),
    ("swebench", r"number of system pairs .* McNemar exact", significant(method="exact")),
    ("swebench", r"number of system pairs .* repo-clustered", significant(method="cr1")),
    ("robust03", r"number of system pairs", significant()),
    ("robust03", r"the same after Holm", significant("p_adjusted")),
    ("robust03", r"the same after Benj", significant("p_adjusted", adjust="bh")),
    ("", r"McNemar exact p", value("p_value", method="exact")),
    ("", r"McNemar discordant counts", wins_and_losses),
    ("", r"McNemar chi2 with continuity", correction),
    ("", r"mean paired difference|difference of (pooled WER|ROC AUC)", value("difference")),
    ("", r"SE of the paired difference", value("std_error", method="cr1", clustered=True)),
    ("", r"(two-sided )?t p.*clustered", value("p_value", method="cr1", clustered=True)),
    ("", r"paired t p", value("p_value", method="t")),
    ("earnings21", r"normal p", normal_p),
    ("loan", r"DeLong SE", value("std_error")),
    ("loan", r"DeLong two-sided p", delong_p),
]


def of_pairs(entry):
    return entry["file"].removesuffix(".parquet") in METRICS and (
        re.search(r" (minus|vs) ", entry["filter"]) or entry["filter"] == "all pairs"
    )


def matched(entry):
    for file, metric, function in MATCHERS:
        if entry["file"].startswith(file) and re.match(metric, entry["metric"]):
            return function
    return None


PAIRS = [(k, entry) for k, entry in enumerate(ENTRIES) if of_pairs(entry)]
MATCHED = [(k, entry) for k, entry in PAIRS if matched(entry)]


@here
def test_all_entries_of_pairs_are_matched():
    """Except p-values that leave ties out, and one that is no test of two systems."""
    others = [entry["metric"] for _, entry in PAIRS if not matched(entry)]
    assert all(re.search(r"share of \|t\*\| > |Kendall", text) for text in others)
    assert (len(MATCHED), len(others)) == (84, 4)


@here
@pytest.mark.parametrize("entry", [entry for _, entry in MATCHED], ids=[f"{k}" for k, _ in MATCHED])
def test_reference_value(entry):
    found = matched(entry)(entry)
    if isinstance(entry["value"], str):
        assert found == entry["value"]
    else:
        check(found, entry["value"], entry["tolerance"])
