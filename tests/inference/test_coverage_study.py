"""A short grid of the coverage study: promised cells keep what ../shared/statistics.md promises.

The paired tests have theirs in test_size.py.
"""

from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from sklearn.metrics import accuracy_score, average_precision_score

import frame_eval as fe
from benchmarks import coverage
from benchmarks.coverage import Section, part, report, written
from benchmarks.study import usual
from benchmarks.study.cells import (
    KIND,
    OURS,
    Cell,
    Effort,
    Score,
    covered,
    limits_of,
    mean,
    paired_ranks,
    promised,
    rank,
    share,
    true_ap,
    worst,
)
from benchmarks.study.designs import crossed, stratified, worst_crossed, worst_stratified
from benchmarks.study.laws import (
    REPOSITORIES,
    Counts,
    counts,
    design_effect,
    equal,
    rated,
    ratings,
    unequal,
)

EFFORT = Effort(1500, 600_000, 20)
CELLS = {
    "rate, 30 rows": partial(share, "rate", (30,), 0.8),
    "rate, 100 rows": partial(share, "rate", (100,), 0.95),
    "rate, 5 clusters": partial(share, "rate", equal(5), 0.7),
    "rate, 30 clusters": partial(share, "rate", unequal(30), 0.9, 0.1),
    "rate, 100 clusters": partial(share, "rate", unequal(100), 0.7, 0.5),
    "rate, repositories": partial(share, "rate", REPOSITORIES, 0.7, 0.1),
    "recall": partial(share, "recall", (200,), 0.6, 0.0, 0.2),
    "recall, clusters": partial(share, "recall", unequal(100), 0.6, 0.2, 0.1),
    "F1": partial(share, "F1", (100,), 0.5, 0.0, 0.4),
    "F1, clusters": partial(share, "F1", unequal(100), 0.5, 0.2, 0.4),
    "mean": partial(mean, "normal", (10,)),
    "mean, clusters": partial(mean, "normal", unequal(30), 0.5),
    "mean, repositories": partial(mean, "normal", REPOSITORIES, 0.1),
    "AUC": partial(rank, "AUC", (100,), 1.0, 0.5),
    "AUC, clusters": partial(rank, "AUC", equal(30), 1.0, 0.3, 0.2),
    "AP": partial(rank, "AP", (500,), 1.0, 0.2),
    "AUC, paired": partial(paired_ranks, (100,), 0.05),
    "AUC, paired, clusters": partial(paired_ranks, equal(30), 0.05, 0.2),
    "strata, rate": partial(stratified, "rate", 5, equal(30), 0.8, 0.1),
    "strata, mean": partial(stratified, "mean", 5, equal(15), icc=0.1),
    "crossed, rate": partial(crossed, "rate", (40, 15, 6), 0.7),
    "crossed, mean": partial(crossed, "mean", (100, 5, 5)),
    "AUC, size": partial(paired_ranks, equal(30), 0.0, 0.2),
}


@pytest.mark.parametrize("cell", CELLS)
def test_promised_cells_keep_their_promise(cell):
    found = CELLS[cell](effort=EFFORT)
    assert found.promise in {"kept", "open"}, found


@pytest.mark.parametrize("n", [30, 50, 100])
def test_single_rows_by_enumeration(n):
    hits = np.arange(n + 1)
    every = Counts(hits[:, None], n - hits[:, None], np.zeros((n + 1, 1), int))
    frame = every.rows().with_columns(ok=KIND == 0)
    low, high = limits_of(frame.eval.summary(fe.rate("ok"), by="replicate"))
    p = np.arange(0.5, 1 - 5 / n, 0.01)
    inside = (low <= p[:, None]) & (p[:, None] <= high)
    exact = (stats.binom.pmf(hits, n, p[:, None]) * inside).sum(1)
    least = np.array([promised(n * (1 - share)) for share in p])
    # Discrete data: at single points Wilson is a fifth of a point under.
    assert (exact >= least - 0.002).all()
    assert np.mean(exact >= least) > 0.9


@pytest.mark.parametrize("icc", [0.0, 0.2])
def test_the_worst_slice_is_covered(icc):
    found = worst([0.8] * 10, 40, icc, effort=Effort(slow=150))
    assert found.promise in {"kept", "open"}, found
    # Promised for one slice, not for the one that looks worst.
    assert found.scores[OURS].share > found.scores["pointwise (ours)"].share


@pytest.mark.parametrize(
    "cell",
    [
        partial(worst_stratified, 4, 40, 0.2),
        partial(worst_crossed, "rate", (100, 10, 5), True),
        partial(worst_crossed, "mean", (100, 10, 5), False),
    ],
    ids=["strata", "crossed, items", "crossed, rows"],
)
def test_the_worst_slice_of_a_design_is_covered(cell):
    found = cell(effort=Effort(slow=200))
    assert found.promise in {"kept", "open"}, found
    assert found.scores[OURS].share > found.scores["pointwise (ours)"].share


@pytest.mark.parametrize(
    ("sizes", "p", "icc"), [(unequal(100), 0.95, 0.2), (unequal(300), 0.99, 0.1)]
)
def test_rare_failures_that_come_together_are_covered(sizes, p, icc):
    found = share("rate", sizes, p, icc, effort=Effort(3000, 8_000_000, 20))
    assert found.effective > 10
    # 92 to 93 with the effective size from CR2 alone.
    assert found.scores[OURS].share >= 0.94
    assert found.scores[OURS].width < 1.15


def test_the_usual_cr1_undercovers_with_few_unequal_clusters():
    found = CELLS["rate, repositories"](effort=EFFORT)
    ours, usually = (found.scores[title].share for title in (OURS, "CR1, t"))
    assert 0.64 <= usually <= 0.87  # ../shared/statistics.md
    assert ours - usually > 0.05


def test_a_broken_promise_is_named():
    cells = [
        Cell(name, 20.0, 0.935, scores={OURS: Score(count, 1000)})
        for name, count in (("one", 940), ("two", 920), ("three", 905))
    ]
    cells.append(Cell("four", most=0.055, scores={OURS: Score(90, 1000)}))
    cells.append(Cell("five", 2.0, scores={OURS: Score(500, 1000)}))
    assert [cell.promise for cell in cells] == ["kept", "open", "fails", "fails", None]
    text = report([part(Section("A rate", "", []), cells)])
    assert "Of 5 cells 4 are under a promise" in text
    assert "fails:\n\n- A rate: three (90.5)\n- A rate: four (9.0)\n" in text
    assert "open:\n\n- A rate: two (92.0)\n" in text


def test_sections_that_are_not_measured_stay_as_they_are_written():
    text = (coverage.HERE / "coverage.md").read_text(encoding="utf-8")
    parts = written(text)
    assert list(parts) == [section.title for section in coverage.SECTIONS]
    assert report(list(parts.values())) == text


def test_measured_cells_are_kept_and_taken_up(tmp_path, monkeypatch):
    monkeypatch.setattr(coverage, "KEPT", tmp_path)
    made = []

    def cell(name, effort):
        made.append(name)
        return Cell(name, 20.0, 0.935, scores={OURS: Score(940, 1000, 1.5)})

    section = Section("A rate", "", [partial(cell, name) for name in ("one", "two", "three")])
    assert coverage.kept(section) == []
    first = coverage.measure(Section("A rate", "", section.cells[:2]), [])
    again = coverage.measure(section, coverage.kept(section))
    assert made == ["one", "two", "three"]
    assert again[:2] == first
    assert coverage.kept(section) == again


def test_a_missing_limit_is_a_miss():
    found = covered((np.array([0.1, np.nan]), np.array([0.3, np.nan])), 0.2, 0.1)
    assert (found.share, found.width) == (0.5, pytest.approx(2))


# The usual methods are those of the programs.

RNG = np.random.default_rng(3)


def test_cr1_is_that_of_statsmodels():
    sizes = np.array(unequal(12))
    x = RNG.normal(size=sizes.sum()) + RNG.normal(size=12).repeat(sizes)
    group = np.arange(12).repeat(sizes)
    sums = np.bincount(group, x - x.mean())[None]
    error = usual.cr1_error(sums, np.array(len(x)))
    mean_of = np.array([x.mean()])
    for use_t, limits in zip((False, True), usual.cr1(mean_of, error, 12), strict=True):
        model = sm.OLS(x, np.ones_like(x))
        fit = model.fit(cov_type="cluster", cov_kwds={"groups": group}, use_t=use_t)
        assert np.ravel(limits) == pytest.approx(fit.conf_int().ravel(), rel=1e-12)
        p = usual.two_sided(mean_of, error, 11 if use_t else np.inf)
        assert p == pytest.approx(fit.pvalues, rel=1e-9)


def test_two_way_errors_are_those_of_statsmodels():
    item, rater = ratings(20, 8, 3)
    x = rated(RNG, 5, item, rater, 0.3, 0.2)
    for row, error in zip(x, usual.two_way_error(x, item, rater), strict=True):
        fit = sm.OLS(row, np.ones_like(row)).fit(
            cov_type="cluster", cov_kwds={"groups": np.stack([item, rater], 1)}
        )
        assert error == pytest.approx(fit.bse.item(), rel=1e-9)


def test_the_bootstrap_of_rows_is_that_of_scipy():
    ones = np.arange(80)[None] < 60
    low, high = usual.row_bootstrap(np.array([60]), np.array([80]))
    drawn_low, drawn_high = usual.scipy_bootstrap(ones.astype(float), "percentile")
    # A hit more or less is the Monte Carlo error of a quantile.
    assert low == pytest.approx(drawn_low, abs=1.01 / 80)
    assert high == pytest.approx(drawn_high, abs=1.01 / 80)


def test_the_bootstrap_of_the_minimum_is_that_of_fairlearn():
    fairlearn = pytest.importorskip("fairlearn.metrics", reason="the bench extra is not installed")
    hits, rows = np.array([[25, 30, 33]]), np.full(3, 40)
    ok = (np.arange(40) < hits[0][:, None]).ravel()
    frame = fairlearn.MetricFrame(
        metrics=accuracy_score,
        y_true=np.ones(120, bool),
        y_pred=ok,
        sensitive_features=np.arange(3).repeat(40),
        n_boot=200,
        ci_quantiles=list(usual.TAILS),
        random_state=0,
    )
    found = np.ravel(usual.minimum_bootstrap(hits, rows, RNG))
    # Three standard errors of the quantiles of 200 draws with a deviation of 0.07.
    assert found == pytest.approx(np.ravel(frame.group_min_ci()), abs=0.035)


# The laws have the truth that they say.


@pytest.mark.parametrize(("of_item", "of_rater"), [(0.3, 0.0), (0.2, 0.4)])
def test_ratings_correlate_as_they_say(of_item, of_rater):
    item, rater = ratings(12, 6, 2)
    assert (np.bincount(item) == 2).all()
    assert (np.bincount(rater) == 4).all()
    assert len(set(zip(item, rater, strict=True))) == 24
    found = np.corrcoef(rated(RNG, 40_000, item, rater, of_item, of_rater).T)
    expected = of_item * (item[:, None] == item) + of_rater * (rater[:, None] == rater)
    np.fill_diagonal(expected, 1)
    # Four and a half standard errors, of 276 correlations.
    assert found == pytest.approx(expected, abs=0.0225)


@pytest.mark.parametrize(("icc", "relevant"), [(0.0, 0.4), (0.1, 1.0), (0.5, 0.2)])
def test_the_design_effect_is_that_of_the_law(icc, relevant):
    sizes = equal(200, 12)
    drawn_counts = counts(RNG, 20_000, sizes, 0.7, icc, relevant)
    trials = drawn_counts.hits + drawn_counts.misses
    shares = drawn_counts.hits.sum(1) / trials.sum(1)
    independent = 0.7 * 0.3 / trials.sum(1).mean()
    # 20,000 replicates know a variance to 1 %; trials that vary add a little.
    assert shares.var() / independent == pytest.approx(
        design_effect(sizes, icc, relevant), rel=0.04
    )


def test_the_true_average_precision():
    y = RNG.random(400_000) < 0.2
    score = RNG.normal(size=y.size) + y
    assert true_ap(1.0, 0.2) == pytest.approx(average_precision_score(y, score), abs=0.005)
