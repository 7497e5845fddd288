"""Guardrails: verdicts by hand, Holm and margins against independent computations, and errors."""

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

import frame_eval as fe

OK = fe.rate("ok")


def rows_of(counts: dict[str, tuple[int, int]]) -> pl.DataFrame:
    """A row per trial, from successes and trials by language."""
    return pl.concat(
        pl.DataFrame({"lang": lang, "ok": [1] * hits + [0] * (trials - hits)})
        for lang, (hits, trials) in counts.items()
    )


def pairs(seed: int = 0, n: int = 120, drop: float = 0.0) -> pl.DataFrame:
    """Two systems on the same examples in two languages."""
    rng = np.random.default_rng(seed)
    base = rng.gamma(4.0, 1.0, n)
    new = base * (1 - drop) + rng.normal(0, 0.3, n)
    shared = {"id": np.arange(n), "lang": np.where(np.arange(n) % 3 > 0, "de", "sw")}
    return pl.concat(
        pl.DataFrame({"model": name, **shared, "x": x, "ok": (x > 2).astype(int)})
        for name, x in (("old", base), ("new", new))
    )


def of_pairs(frame: Any) -> fe.Evaluation[Any]:
    return fe.of(frame).roles(system="model", example="id")


def verdicts(result: Any, key: str = "lang") -> dict[Any, str]:
    return dict(zip(result[key], result["verdict"], strict=True))


# Verdicts by hand


@pytest.mark.parametrize(
    ("bound", "verdict"),
    [
        ({"min": 0.70}, "pass"),  # Wilson's 90 % of 80 in 100: .7267 to .8575
        ({"min": 0.726}, "pass"),
        ({"min": 0.728}, "inconclusive"),
        ({"min": 0.857}, "inconclusive"),
        ({"min": 0.859}, "fail"),
        ({"max": 0.90}, "pass"),
        ({"max": 0.80}, "inconclusive"),
        ({"max": 0.70}, "fail"),
        ({"min": 0.7, "max": 0.9}, "pass"),
        ({"min": 0.1, "max": 0.8}, "inconclusive"),
        ({"min": 0.1, "max": 0.7}, "fail"),
    ],
)
def test_bounds_meet_the_one_sided_wilson_interval(bound, verdict):
    low, high = proportion_confint(80, 100, alpha=0.1, method="wilson")
    assert (round(low, 4), round(high, 4)) == (0.7267, 0.8575)
    result = rows_of({"de": (80, 100)}).eval.guard(fe.rule(OK, **bound), by="lang")
    assert result["verdict"].item() == verdict
    np.testing.assert_allclose(result.select("ci_low", "ci_high").row(0), (low, high), rtol=1e-12)
    assert result["level"].item() == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("bound", "side"), [("min", "ci_low"), ("max", "ci_high"), ("min", "ci_high")]
)
def test_an_interval_that_touches_the_bound(bound, side):
    """A limit on the bound satisfies the rule; only an interval beyond it fails."""
    result = rows_of({"de": (7, 10)}).eval.summary(OK)
    verdict = result.eval.guard(fe.rule(OK, **{bound: result[side].item()}))["verdict"].item()
    assert verdict == ("inconclusive" if (bound, side) == ("min", "ci_high") else "pass")


@pytest.mark.parametrize(("word", "drop"), [("max_drop", 0.3), ("max_rise", -0.3)])
def test_margins_meet_the_two_sided_interval_of_compare(word, drop):
    frame = pairs(drop=drop)
    found = of_pairs(frame).compare(fe.mean("x"), baseline="old", level=0.9)
    limits = found.select("ci_low", "ci_high").row(0)
    near, far = sorted(map(abs, limits))
    wanted = {far * 1.001: "pass", far * 0.999: "inconclusive", near * 0.999: "fail"}
    for margin, verdict in wanted.items():
        rule = fe.rule(fe.mean("x"), **{word: margin})
        result = of_pairs(frame).guard(rule, baseline="old")
        assert result["verdict"].item() == verdict
        assert result.select("ci_low", "ci_high").row(0) == limits


def test_a_drop_and_a_rise_that_break_the_margin():
    rules = fe.rule(fe.mean("x"), max_drop=0.2), fe.rule(fe.mean("x"), max_rise=0.2)
    fell = of_pairs(pairs(drop=0.5)).guard(*rules, baseline="old")
    assert fell.select("rule", "verdict").rows() == [
        ("mean(x) drop <= 0.2", "fail"),
        ("mean(x) rise <= 0.2", "pass"),
    ]
    rose = of_pairs(pairs(drop=-0.5)).guard(*rules, baseline="old")
    assert rose["rule"].to_list() == ["mean(x) rise <= 0.2", "mean(x) drop <= 0.2"]
    assert rose["verdict"].to_list() == ["fail", "pass"]


def test_level_is_one_sided():
    frame = rows_of({"de": (80, 100)})
    result = frame.eval.guard(fe.rule(OK, min=0.5), level=0.99)
    expected = proportion_confint(80, 100, alpha=0.02, method="wilson")
    np.testing.assert_allclose(result.select("ci_low", "ci_high").row(0), expected, rtol=1e-12)


def test_clusters_widen_what_a_rule_sees():
    frame = rows_of({"de": (90, 100)}).with_columns(doc=pl.int_range(100) // 10)
    rule = fe.rule(OK, min=0.8)
    assert frame.eval.guard(rule)["verdict"].item() == "pass"
    assert frame.eval.guard(rule, cluster="doc")["verdict"].item() == "inconclusive"


# Many slices


@cache
def p_value(hits: int, trials: int, bound: float) -> float:
    """One-sided p-value of rate >= bound: the level at which the interval's end meets the bound."""
    frame = pl.DataFrame({"ok": [1] * hits + [0] * (trials - hits)})
    if hits / trials >= bound:
        return 1.0
    low, high = 1e-12, 1 - 1e-12
    for _ in range(30):
        level = (low + high) / 2
        above = frame.eval.summary(OK, level=level)["ci_high"].item() >= bound
        low, high = (low, level) if above else (level, high)
    return (1 - low) / 2


def test_naming_the_failing_slices_is_holms_procedure():
    """fr fails at the second step only, where Bonferroni would not name it; sw not at all."""
    counts = {"de": (39, 60), "en": (48, 60), "fr": (41, 60), "sw": (42, 60), "yo": (47, 60)}
    p = np.array([p_value(*count, 0.8) for count in counts.values()])
    z = [(hits / n - 0.8) / np.sqrt(0.8 * 0.2 / n) for hits, n in counts.values()]
    np.testing.assert_allclose(p[p < 1], stats.norm.cdf(z)[p < 1], rtol=1e-5)
    rejected = multipletests(p, alpha=0.05, method="holm")[0]
    assert [int((p < level).sum()) for level in (0.05 / 5, 0.05)] == [1, 3]
    assert rejected.sum() == 2
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang").sort("lang")
    np.testing.assert_array_equal(result["verdict"] == "fail", rejected)


@pytest.mark.parametrize("seed", range(5))
def test_holm_on_random_slices(seed):
    rng = np.random.default_rng(seed)
    hits = rng.binomial(50, rng.choice([0.8, 0.65, 0.6], 6))
    counts = {f"l{i}": (int(h), 50) for i, h in enumerate(hits)}
    p = np.array([p_value(*count, 0.8) for count in counts.values()])
    rejected = multipletests(p, alpha=0.05, method="holm")[0]
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang").sort("lang")
    np.testing.assert_array_equal(result["verdict"] == "fail", rejected)
    after_holm = result["reason"].str.contains("not after Holm")
    np.testing.assert_array_equal(after_holm, (p < 0.05) & ~rejected)


def test_a_slice_that_breaks_its_rule_only_without_holm_is_inconclusive():
    counts = {"de": (55, 60), "en": (55, 60), "fr": (55, 60), "sw": (42, 60)}
    assert 0.05 / 4 < p_value(*counts["sw"], 0.8) < 0.05
    alone = rows_of({"sw": counts["sw"]}).eval.guard(fe.rule(OK, min=0.8), by="lang")
    assert verdicts(alone) == {"sw": "fail"}
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang")
    assert result["lang"].item(0) == "sw"
    assert result["verdict"].item(0) == "inconclusive"
    assert result["reason"].item(0).endswith("breaks the rule, but not after Holm's adjustment")


def test_that_all_slices_pass_is_not_adjusted():
    """Each lower limit at 95 % one-sided is above the bound, at 95 % of twenty slices it is not."""
    counts = {f"l{i:02}": (88, 100) for i in range(20)}
    low = proportion_confint(88, 100, alpha=0.1, method="wilson")[0]
    adjusted = proportion_confint(88, 100, alpha=0.1 / 20, method="wilson")[0]
    assert adjusted < 0.8 < low
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang")
    assert set(result["verdict"]) == {"pass"}


def test_the_whole_is_a_family_of_its_own():
    """With the whole in their family the slices would not fail, p being between .05 / 2 and .05."""
    counts = {"de": (42, 60)}
    assert 0.05 / 2 < p_value(*counts["de"], 0.8) < 0.05
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang", overall=True)
    assert verdicts(result, "slice") == {"overall": "fail", "lang": "fail"}
    fine = rows_of({**counts, "en": (590, 600)})
    result = fe.guard(fine, fe.rule(OK, min=0.8), by="lang", overall=True)
    assert verdicts(result, "value") == {"de": "inconclusive", "all": "pass", "en": "pass"}


def test_slices_too_small_for_the_rule_leave_the_family():
    frame = rows_of({"de": (42, 60), "en": (5, 6)})
    rules = fe.rule(OK, min=0.8), fe.rule(OK, min=0.79999, min_n=20)
    result = frame.eval.guard(*rules, by="lang").filter(pl.col("lang") == "de")
    assert verdicts(result, "rule") == {str(rules[0]): "inconclusive", str(rules[1]): "fail"}


def test_worst_first():
    counts = {"de": (30, 60), "en": (20, 60), "fr": (48, 60), "sw": (59, 60)}
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang")
    assert result.select("lang", "verdict").rows() == [
        ("en", "fail"),
        ("de", "fail"),
        ("fr", "inconclusive"),
        ("sw", "pass"),
    ]
    result = rows_of(counts).eval.guard(fe.rule(OK, max=0.2), by="lang")
    assert result["lang"].to_list() == ["sw", "fr", "de", "en"]


# Relative margins


@pytest.mark.parametrize(
    ("word", "factor"), [("max_drop", 0.9), ("max_rise", 1.1)], ids=["drop", "rise"]
)
def test_relative_margins_use_the_joint_law(word, factor):
    """Against a paired t-interval of estimate - factor x baseline, example by example."""
    frame = pairs(drop=0.05)
    wide = frame.pivot("model", index=["id", "lang"], values="x")
    result = of_pairs(frame).guard(
        fe.rule(fe.mean("x"), **{word: 0.1}, relative=True), baseline="old", by="lang"
    )
    for row in result.iter_rows(named=True):
        part = wide.filter(pl.col("lang") == row["lang"])
        shifted = (part["new"] - factor * part["old"]).to_numpy()
        low, high = stats.t.interval(0.9, len(shifted) - 1, shifted.mean(), stats.sem(shifted))
        inside, outside = (low >= 0, high < 0) if word == "max_drop" else (high <= 0, low > 0)
        wanted = "pass" if inside else "fail" if outside else "inconclusive"
        assert row["verdict"] == wanted
        base = part["old"].mean()
        limits = [f"{at / base + factor - 1:.3g}" for at in (low, high)]
        assert f"({limits[0]} to {limits[1]})" in row["reason"]


def test_a_relative_margin_is_wider_than_with_the_baseline_taken_as_fixed():
    """Independent noise in the baseline: its own error counts."""
    rng = np.random.default_rng(1)
    n = 400
    old, new = rng.exponential(1, n), rng.exponential(1, n) * 0.98
    frame = pl.concat(
        pl.DataFrame({"model": name, "id": np.arange(n), "x": x})
        for name, x in (("old", old), ("new", new))
    )
    z = new - 0.5 * old
    low, _ = stats.t.interval(0.9, n - 1, z.mean(), stats.sem(z))
    result = of_pairs(frame).guard(
        fe.rule(fe.mean("x"), max_drop=0.5, relative=True), baseline="old"
    )
    assert f"({low / old.mean() - 0.5:.3g} to" in result["reason"].item()


def test_no_margin_relative_to_a_baseline_of_zero():
    frame = pairs().with_columns(x=pl.when(pl.col("model") == "new").then("x").otherwise(0.0))
    result = of_pairs(frame).guard(
        fe.rule(fe.mean("x"), max_rise=0.1, relative=True), baseline="old"
    )
    assert result["verdict"].item() == "inconclusive"
    assert "not positive" in result["reason"].item()


# Which rows, which slices


def test_where_restricts_a_rule():
    frame = rows_of({"de": (95, 100), "sw": (40, 100)})
    rule = fe.rule(OK, min=0.8)
    native = fe.rule(OK, min=0.8, where=pl.col("lang") == "de")
    neutral = fe.rule(OK, min=0.8, where=fe.col("lang") == "sw")
    result = frame.eval.guard(rule, native, neutral)
    found = verdicts(result, "rule")
    assert found.pop("rate(ok) >= 0.8") == "fail"
    assert [key.partition(" where ")[0] for key in found] == ["rate(ok) >= 0.8"] * 2
    assert list(found.values()) == ["fail", "pass"]
    marked = frame.with_columns(german=pl.col("lang") == "de")
    result = marked.eval.guard(fe.rule(OK, min=0.8, where="german"), by="lang")
    assert verdicts(result) == {"de": "pass"}
    assert result["rule"].item() == "rate(ok) >= 0.8 where german"


def test_a_condition_that_a_system_never_meets():
    """Its rule could not be broken, and no row of the result would say so."""
    frame = pairs().with_columns(refused=(pl.col("model") == "old") & (pl.col("id") < 9))
    for rule in (fe.rule(OK, min=0.5, where="refused"), fe.rule(OK, max=0.5, where="refused")):
        with pytest.raises(fe.EvalError, match=r"where refused' has no rows for 'new'"):
            of_pairs(frame).guard(rule)


def test_rules_share_a_pass_without_a_trace():
    """Many rules at once give what each gives alone, two metrics of one name included."""
    frame = pairs(drop=0.2).with_columns(german=pl.col("lang") == "de", y=pl.col("x") * 2)
    rules = [
        fe.rule(OK, min=0.6),
        fe.rule(fe.rate("ok"), min=0.9),
        fe.rule(fe.mean("x"), max=4),
        fe.rule(fe.mean("y").alias("mean(x)"), max=8),
        fe.rule(OK, min=0.6, where="german"),
        fe.rule(fe.mean("x"), max=4.5, where="german"),
        fe.rule(OK, max_drop=0.1),
        fe.rule(fe.mean("x"), max_drop=0.1, relative=True),
        fe.rule(fe.mean("x"), max_drop=0.7),
    ]
    options: Any = {"baseline": "old", "by": "lang"}
    together = of_pairs(frame).guard(*rules, **options).sort("rule", "lang")
    alone = [of_pairs(frame).guard(rule, **options) for rule in rules]
    expected = pl.concat(alone, how="diagonal_relaxed").sort("rule", "lang")
    assert_frame_equal(together, expected.select(together.columns), check_exact=True)


def test_min_n():
    frame = rows_of({"de": (95, 100), "sw": (1, 10)})
    assert verdicts(frame.eval.guard(fe.rule(OK, min=0.8), by="lang"))["sw"] == "fail"
    result = frame.eval.guard(fe.rule(OK, min=0.8, min_n=20), by="lang")
    assert verdicts(result) == {"sw": "inconclusive", "de": "pass"}
    assert result["reason"].item(0) == "n=10 is under min_n=20"


def test_a_slice_that_disappeared_is_a_finding():
    frame = pairs().filter((pl.col("model") == "old") | (pl.col("lang") == "de"))
    rules = fe.rule(OK, min=0.01), fe.rule(OK, max_drop=0.9)
    result = of_pairs(frame).guard(*rules, baseline="old", by="lang", unmatched="drop")
    gone = result.filter(pl.col("lang") == "sw")
    assert set(gone["rule"]) == {str(rule) for rule in rules}
    assert set(gone["verdict"]) == {"inconclusive"}
    assert gone["reason"].str.starts_with("no rows").all()
    assert set(result.filter(pl.col("lang") == "de")["verdict"]) == {"pass"}
    with pytest.raises(fe.GuardFailed, match=r"lang=sw, system=new\] no rows"):
        result.eval.assert_passed()
    with pytest.raises(fe.EvalError, match="unmatched='drop'"):
        of_pairs(frame).guard(rules[1], baseline="old", by="lang")


def test_a_condition_without_rows_is_a_finding():
    frame = rows_of({"de": (95, 100)}).with_columns(model=pl.lit("a"), refused=False)
    result = frame.eval.guard(
        fe.rule(OK, min=0.5), by=fe.where(refused="refused", any=fe.col("ok") >= 0), system="model"
    )
    assert verdicts(result, "slice") == {"refused": "inconclusive", "any": "pass"}


def test_undefined_says_why():
    frame = pl.DataFrame({"y": [0, 0, 0], "p": [0, 1, 0]})
    result = frame.eval.guard(fe.rule(fe.recall("y", "p"), min=0.5))
    assert result["verdict"].item() == "inconclusive"
    assert "no positives" in result["reason"].item()


def test_absolute_rules_are_not_about_the_baseline():
    result = of_pairs(pairs()).guard(fe.rule(OK, min=0.5), baseline="old")
    assert result["system"].to_list() == ["new"]
    both = of_pairs(pairs()).guard(fe.rule(OK, min=0.5))
    assert sorted(both["system"]) == ["new", "old"]


def test_systems_of_two_columns():
    frame = pairs().with_columns(size=pl.lit("7b"))
    result = frame.eval.guard(
        fe.rule(OK, min=0.1),
        fe.rule(OK, max_drop=0.9),
        system=["model", "size"],
        example="id",
        baseline=("old", "7b"),
    )
    assert result.columns[0] == "rule"
    assert result["system"].to_list() == ["new, 7b", "new, 7b"]


def test_classes_are_checked_each():
    frame = pl.DataFrame({"y": ["a"] * 50 + ["b"] * 50, "p": ["a"] * 50 + ["a", "b"] * 25})
    rule = fe.rule(fe.recall("y", "p", average=None), min=0.9)
    result = frame.eval.guard(rule)
    assert verdicts(result, "class") == {"b": "fail", "a": "pass"}
    with pytest.raises(fe.GuardFailed, match=r"\[class=b\]"):
        result.eval.assert_passed()


def test_systems_that_answered_different_examples():
    """The interval of Miettinen and Nurminen, as compare gives it."""
    frame = pairs().with_columns(id=pl.int_range(240))
    options: Any = {"system": "model", "baseline": "old", "paired": False, "by": "lang"}
    result = frame.eval.guard(fe.rule(OK, max_drop=0.3), **options)
    found = frame.eval.compare(OK, level=0.9, **options)
    limits = ["lang", "ci_low", "ci_high"]
    assert_frame_equal(result.select(limits).sort("lang"), found.select(limits))
    assert set(result["verdict"]) == {"pass"}


def test_bounds_of_any_number_type():
    rules = [fe.rule(OK, min=kind(1)) for kind in (int, float, np.int64, np.float32)]
    assert {str(rule) for rule in rules} == {"rate(ok) >= 1"}


# Result frames


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_result_frames_are_guarded_by_the_intervals_they_have(library):
    frame = rows_of({"de": (95, 100), "sw": (42, 60)})
    native = frame.to_pandas() if library == "pandas" else frame
    summary = fe.of(native).summary(OK, by="lang")
    result = fe.guard(summary, fe.rule("rate(ok)", min=0.8))
    assert type(result) is type(native)
    assert verdicts(result) == {"sw": "inconclusive", "de": "pass"}
    assert list(result["level"]) == [0.95, 0.95]
    one_sided = fe.of(native).summary(OK, by="lang", level=0.9)
    assert verdicts(fe.guard(one_sided, fe.rule(OK, min=0.8))) == {"sw": "fail", "de": "pass"}


def test_a_comparison_is_guarded():
    found = of_pairs(pairs(drop=0.5)).compare(fe.mean("x"), baseline="old", by="lang")
    result = found.eval.guard(
        fe.rule("mean(x)", max_drop=0.1), fe.rule("mean(x)", max_rise=0.1, where=fe.col("n") > 50)
    )
    assert result.select("lang", "verdict").rows() == [
        ("de", "fail"),
        ("sw", "fail"),
        ("de", "pass"),
    ]


def test_pandas_in_pandas_out():
    result = of_pairs(pairs().to_pandas()).guard(
        fe.rule(OK, min=0.5), fe.rule(OK, max_drop=0.2), baseline="old", by="lang"
    )
    assert isinstance(result, pd.DataFrame)
    assert isinstance(result.index, pd.RangeIndex)
    assert result.eval.assert_passed() is None


@pytest.mark.parametrize("engine", ["lazy", "arrow", "duckdb", "pandas", "evaluation"])
def test_engines_agree(engine):
    frame = pairs(drop=0.2)
    rules = fe.rule(OK, min=0.6, where=fe.col("lang") == "de"), fe.rule(fe.mean("x"), max_drop=0.1)
    rows = frame.to_arrow()
    native: Any = {
        "lazy": frame.lazy(),
        "arrow": rows,
        "duckdb": duckdb.sql("from rows"),
        "pandas": frame.to_pandas(),
        "evaluation": frame.eval,
    }[engine]
    assert isinstance(rows, pa.Table)
    expected = of_pairs(frame).guard(*rules, baseline="old", by="lang")
    result = fe.guard(native, *rules, system="model", example="id", baseline="old", by="lang")
    result = pl.from_pandas(result) if engine == "pandas" else result
    assert_frame_equal(result, expected, check_dtypes=False, rel_tol=1e-12)


# assert_passed


def test_assert_passed_lists_the_slices_worst_first():
    counts = {"de": (30, 60), "en": (20, 60), "fr": (48, 60), "sw": (59, 60)}
    result = rows_of(counts).eval.guard(fe.rule(OK, min=0.8), by="lang")
    with pytest.raises(fe.GuardFailed) as caught:
        result.eval.assert_passed()
    head, *lines = str(caught.value).splitlines()
    assert head == "3 of 4 checks did not pass"
    assert [line.partition("]")[0] for line in lines] == [
        "fail: rate(ok) >= 0.8 [lang=en",
        "fail: rate(ok) >= 0.8 [lang=de",
        "inconclusive: rate(ok) >= 0.8 [lang=fr",
    ]
    with pytest.raises(fe.GuardFailed, match="2 of 4"):
        fe.assert_passed(result, inconclusive="pass")


def test_assert_passed_is_silent_when_all_passed():
    result = rows_of({"de": (59, 60), "fr": (48, 60)}).eval.guard(fe.rule(OK, min=0.8), by="lang")
    assert fe.assert_passed(result, inconclusive="pass") is None
    assert fe.assert_passed(result.filter(pl.col("verdict") == "pass")) is None


def test_a_slice_with_a_null_key_is_named():
    frame = rows_of({"de": (10, 60)}).with_columns(lang=pl.lit(None, pl.String))
    with pytest.raises(fe.GuardFailed, match="lang=None"):
        frame.eval.guard(fe.rule(OK, min=0.8), by="lang").eval.assert_passed()


def test_assert_passed_refuses_other_frames():
    frame = rows_of({"de": (59, 60)})
    with pytest.raises(fe.EvalError, match="result of guard"):
        frame.eval.assert_passed()
    with pytest.raises(fe.EvalError, match="result of guard"):
        fe.assert_passed(frame.eval.summary(OK))
    with pytest.raises(fe.EvalError, match="inconclusive='maybe' is unknown"):
        fe.assert_passed(frame, inconclusive="maybe")


# Errors


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({}, "has no bound"),
        ({"min": 0.9, "max": 0.1}, "min=0.9 above max=0.1"),
        ({"min": 0.9, "max_drop": 0.1}, "make it two rules"),
        ({"min": 0.9, "relative": True}, "goes with max_drop"),
        ({"max_drop": -0.1}, "max_drop=-0.1 is negative"),
        ({"max_rise": -0.1}, "max_rise=-0.1 is negative"),
        ({"max_drop": 0.1, "max_rise": 0.1, "relative": True}, "two rules"),
        ({"min": float("nan")}, "min=nan is not a number"),
        ({"max": "0.9"}, "max='0.9' is not a number"),
        ({"min": 90}, r"min=90 is outside of what 'rate\(ok\)' can be, 0 to 1"),
    ],
)
def test_rules_that_make_no_sense(bounds, message):
    with pytest.raises(fe.EvalError, match=message):
        fe.rule(OK, **bounds)


def test_a_rule_is_about_a_metric():
    with pytest.raises(fe.EvalError, match="neither a metric nor the name of one"):
        fe.rule(0.9, min=0.5)


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        ((), {}, "name at least one rule"),
        ((OK,), {}, "is not a rule; make one with fe.rule"),
        ((fe.rule(OK, min=0.5), fe.rule(fe.rate("ok"), min=0.5)), {}, "is there twice"),
        ((fe.rule("rate(ok)", min=0.5),), {}, "needs a metric"),
        ((fe.rule(OK, max_drop=0.5),), {}, "needs baseline="),
        ((fe.rule(OK, max_drop=0.5),), {"baseline": "od"}, "Did you mean 'old'"),
        ((fe.rule(OK, min=0.5),), {"baseline": "od"}, "Did you mean 'old'"),
        ((fe.rule(OK, min=0.5),), {"level": 0.5}, "above 0.5"),
        ((fe.rule(OK, min=0.5),), {"level": 1.5}, "not between 0 and 1"),
        ((fe.rule(OK, min=0.5),), {"by": "lan"}, "Did you mean 'lang'"),
        ((fe.rule(OK, min=0.5, where="ok"),), {}, "not boolean"),
        ((fe.rule(OK, min=0.5, where="okay"),), {}, "Did you mean 'ok'"),
        ((fe.rule(OK, min=0.5),), {"missing": "keep"}, "missing='keep' is unknown"),
    ],
)
def test_questions_that_have_no_answer(rules, options, message):
    with pytest.raises(fe.EvalError, match=message):
        of_pairs(pairs()).guard(*rules, **options)


def test_a_baseline_needs_systems():
    with pytest.raises(fe.EvalError, match="baseline= needs system="):
        pairs().eval.guard(fe.rule(OK, min=0.5), baseline="old")
    alone = of_pairs(pairs().filter(pl.col("model") == "old"))
    with pytest.raises(fe.EvalError, match="only one system"):
        alone.guard(fe.rule(OK, min=0.5), baseline="old")


def test_keys_that_collide_with_the_verdicts():
    frame = rows_of({"de": (5, 10)}).rename({"lang": "verdict"})
    with pytest.raises(fe.EvalError, match="'verdict' has the name of a result column"):
        frame.eval.guard(fe.rule(OK, min=0.5), by="verdict")


def test_result_frames_that_do_not_fit():
    summary = pairs().eval.summary(OK, by="lang")
    compared = of_pairs(pairs()).compare(OK, baseline="old")
    with pytest.raises(fe.EvalError, match=r"Did you mean 'rate\(ok\)'"):
        summary.eval.guard(fe.rule("rate(okk)", min=0.5))
    with pytest.raises(fe.EvalError, match="needs a result of compare"):
        summary.eval.guard(fe.rule(OK, max_drop=0.5))
    with pytest.raises(fe.EvalError, match="needs a result of summary"):
        compared.eval.guard(fe.rule(OK, min=0.5))
    with pytest.raises(fe.EvalError, match="relative margins need the rows"):
        compared.eval.guard(fe.rule(OK, max_drop=0.5, relative=True))
    with pytest.raises(fe.EvalError, match="by= and baseline= are of rows"):
        summary.eval.guard(fe.rule(OK, min=0.5), by="lang")
