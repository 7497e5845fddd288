"""What the default tests and intervals of ``compare`` promise, on data from known laws.

Each cell is one call: the replicates are slices of one frame.
"""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import frame_eval as fe
from frame_eval.inference.pairs import mcnemar_score

REPLICATES = 1000
# As unequal as the repositories of SWE-bench Verified.
REPOSITORIES = np.array([231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1])
# From 1 to 40 examples, with as many small as large clusters.
FORTY = np.repeat([1, 2, 3, 5, 8, 12, 20, 40], 5)
SINGLES = np.ones(80, int)


def rates(rng, sizes, spread, gap):
    """Two systems right with probability 0.5 -+ gap / 2, leaning apart by cluster."""
    lean = rng.choice([-1, 1], (REPLICATES, len(sizes))).repeat(sizes, axis=1) * spread
    shape = (REPLICATES, sizes.sum())
    a = rng.random(shape) < 0.5 + (lean - gap) / 2
    b = rng.random(shape) < 0.5 - (lean - gap) / 2
    return a, b


def means(rng, sizes, spread, gap):
    """Skewed values of an example's difficulty, with effects of the cluster on the difference."""
    shape = (REPLICATES, sizes.sum())
    difficulty = rng.exponential(2, shape)
    effect = rng.normal(0, spread, (REPLICATES, len(sizes))).repeat(sizes, axis=1)
    a = difficulty + rng.normal(size=shape)
    b = difficulty + rng.normal(size=shape) + effect + gap
    return a, b


def results(values, sizes, metric, **options):
    """The comparison of b with a in every replicate."""
    a, b = values
    example = np.arange(a.size)
    document = np.repeat(np.arange(len(sizes)), sizes) + 1000 * np.arange(REPLICATES)[:, None]
    frame = pl.DataFrame(
        {
            "replicate": np.tile(example // a.shape[1], 2),
            "id": np.tile(example, 2),
            "document": np.tile(document.ravel(), 2),
            "model": np.repeat(["a", "b"], a.size),
            "x": np.concatenate([a.ravel(), b.ravel()]),
        }
    )
    roles = {"system": "model", "baseline": "a", "by": "replicate", "example": "id"}
    clusters = {} if (sizes == 1).all() else {"cluster": "document"}
    return frame.eval.compare(metric("x"), **{**roles, **clusters, **options})


def bounds(count, total=REPLICATES):
    """Limits that hold the true share with 99.9 % on either side."""
    exact = stats.binomtest(int(count), total).proportion_ci(0.998, "exact")
    return exact.low, exact.high


@pytest.mark.parametrize("n", [12, 30, 50, 100, 150, 300])
@pytest.mark.parametrize("discordance", [0.1, 0.3, 0.5])
def test_size_of_the_paired_score_test_by_enumeration(n, discordance):
    b, c = np.indices((n + 1, n + 1)).reshape(2, -1)
    shares = [discordance / 2, discordance / 2, 1 - discordance]
    b, c = b[b + c <= n], c[b + c <= n]
    chance = stats.multinomial.pmf(np.stack([b, c, n - b - c], -1), n, shares)
    rejects = mcnemar_score(b, c)[1] < 0.05
    assert chance.sum() == pytest.approx(1, abs=1e-9)
    assert chance[rejects].sum() <= 0.055


CELLS = {
    "rates, single": (rates, fe.rate, SINGLES, 0.0),
    "rates, 20 single": (rates, fe.rate, SINGLES[:20], 0.0),
    "rates, 40 clusters": (rates, fe.rate, FORTY, 0.4),
    "rates, 12 repositories": (rates, fe.rate, REPOSITORIES, 0.4),
    "rates, 12 repositories, independent": (rates, fe.rate, REPOSITORIES, 0.0),
    "means, single": (means, fe.mean, SINGLES, 0.0),
    "means, 12 single": (means, fe.mean, SINGLES[:12], 0.0),
    "means, 40 clusters": (means, fe.mean, FORTY, 0.7),
    "means, 12 repositories": (means, fe.mean, REPOSITORIES, 0.7),
}


@pytest.mark.parametrize("cell", CELLS)
def test_size_of_the_default(cell):
    make, metric, sizes, spread = CELLS[cell]
    found = results(make(np.random.default_rng(7), sizes, spread, 0.0), sizes, metric)
    rejected = (found["p_value"] < 0.05).sum()
    assert found["p_value"].null_count() == 0
    assert bounds(rejected)[0] <= 0.055, rejected / REPLICATES


@pytest.mark.parametrize("cell", CELLS)
def test_coverage_of_the_default(cell):
    make, metric, sizes, spread = CELLS[cell]
    gap = 0.15
    found = results(make(np.random.default_rng(8), sizes, spread, gap), sizes, metric)
    inside = ((found["ci_low"] <= gap) & (found["ci_high"] >= gap)).sum()
    assert bounds(inside)[1] >= 0.935, inside / REPLICATES


@pytest.mark.parametrize("cell", ["rates, 12 repositories", "means, 12 repositories"])
def test_the_usual_errors_reject_several_times_as_often(cell):
    make, metric, sizes, spread = CELLS[cell]
    values = make(np.random.default_rng(7), sizes, spread, 0.0)
    usual = (results(values, sizes, metric, method="cr1")["p_value"] < 0.05).mean()
    ours = (results(values, sizes, metric)["p_value"] < 0.05).mean()
    assert usual > 3 * max(ours, 0.03)


@pytest.mark.parametrize(
    ("metric", "low", "gap"), [(fe.rate, 0.3, 0.0), (fe.rate, 0.3, 0.2), (fe.mean, 0.0, 0.5)]
)
def test_unpaired_default(metric, low, gap):
    rng = np.random.default_rng(9)
    shape = (REPLICATES, 40)
    if metric is fe.rate:
        values = rng.random(shape) < low, rng.random(shape) < low + gap
    else:
        values = rng.normal(size=shape), rng.normal(gap, 2, shape)
    found = results(values, np.ones(40, int), metric, paired=False, example=None)
    inside = ((found["ci_low"] <= gap) & (found["ci_high"] >= gap)).sum()
    assert bounds(inside)[1] >= 0.935, inside / REPLICATES
    if gap == 0:
        assert bounds((found["p_value"] < 0.05).sum())[0] <= 0.055
