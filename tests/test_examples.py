"""The small examples: what they print, and that they find what was put into their data."""

from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from example_scripts import loaded


@pytest.fixture(scope="module")
def warehouse() -> ModuleType:
    pytest.importorskip("duckdb", reason="needs the extra 'duckdb'")
    return loaded("warehouse")


@pytest.fixture(scope="module")
def folder(warehouse, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("warehouse") / "tickets"
    warehouse.write_results(path)
    return path


def test_a_release_that_is_better_but_not_at_refunds(warehouse, folder):
    whole = warehouse.compare(folder).filter(pl.col("slice") == "overall", metric="rate(solved)")
    assert whole["ci_low"].item() > 0
    found = warehouse.worst(folder)
    assert found["intent"][0] == "refund"
    assert (found["p_adjusted"] < 0.001).to_list() == [True, False, False, False]
    broken = warehouse.check(folder).filter(pl.col("verdict") != "pass")
    assert broken.select("intent", "rule").rows() == [("refund", "rate(solved) drop <= 0.02")]


def test_duckdb_adds_up_what_polars_reads(warehouse, folder):
    rows = pl.read_parquet(folder, hive_partitioning=True).filter(release="new")
    rates = rows.group_by("intent").agg(pl.col("solved").mean())
    found = warehouse.worst(folder).select("intent", solved="estimate")
    assert dict(found.rows()) == pytest.approx(dict(rates.rows()))


def test_the_warehouse_prints(warehouse, folder, capsys):
    warehouse.review(folder)
    printed = capsys.readouterr().out
    assert "GuardFailed: 1 of 8 checks did not pass" in printed
    assert "[intent=refund, system=new]" in printed


@pytest.fixture(scope="module")
def judges() -> ModuleType:
    return loaded("judges")


def test_the_better_model_is_found_and_the_other_is_not(judges):
    verdicts, _ = judges.draw()
    found = judges.compare(verdicts)
    low, high = found["ci_low"] > 0, found["ci_high"] < 0
    pairs = zip(found["system"], found["baseline"], low.to_list(), high.to_list(), strict=True)
    assert list(pairs) == [
        ("large", "base", True, False),
        ("tuned", "base", False, False),
        ("tuned", "large", False, True),
    ]


def test_agreement_counts_people(judges):
    _, labels = judges.draw()
    found = judges.agreement(labels)
    assert found["estimate"][0] == pytest.approx((labels["label"] == labels["judge"]).mean())
    assert found["clusters"].to_list() == [3, 3]


def test_more_trials_need_fewer_questions(judges):
    once, often = judges.plan(judges.draw()[0]).iter_rows(named=True)
    share, effect = once["trial_share"], once["design_effect"]
    assert 0 < share < 1 < effect
    # Trials divide their own part of the variance, clusters multiply the rest; and fewer clusters
    # leave fewer degrees of freedom.
    ratio = ((1 - share) * effect + share / 4) / ((1 - share) * effect + share)
    assert often["n"] / once["n"] == pytest.approx(ratio, rel=0.003)


def test_the_judges_print(judges, capsys):
    judges.main()
    printed = capsys.readouterr().out
    assert printed.count("shape:") == 4
    assert "How many questions would show 3 points" in printed
