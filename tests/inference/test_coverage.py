"""Coverage at a fixed seed: the default interval keeps its level with few, unequal clusters."""

import numpy as np
import polars as pl
import pytest

import frame_eval as fe

# The repositories of SWE-bench Verified.
TWELVE = [231, 75, 44, 34, 32, 22, 22, 19, 10, 8, 2, 1]
FORTY = [1, 2, 3, 5, 8, 10, 15, 25, 40, 60] * 4
REPLICATES = 1500
P, ICC = 0.6, 0.1


def drawn(sizes, seed):
    """Beta-binomial outcomes, a replicate per slice: hits and misses of each cluster as rows."""
    rng = np.random.default_rng(seed)
    more = (1 - ICC) / ICC
    rates = rng.beta(P * more, (1 - P) * more, (REPLICATES, len(sizes)))
    rows = np.array(sizes)
    hits = rng.binomial(rows, rates)
    counts = np.stack([hits, rows - hits], -1).ravel()
    keys = np.indices((REPLICATES, len(sizes), 2)).reshape(3, -1)
    replicate, cluster, miss = (np.repeat(key, counts) for key in keys)
    return pl.DataFrame({"replicate": replicate, "cluster": cluster, "ok": miss == 0})


def coverage(frame, metric, interval):
    found = frame.eval.summary(metric, by="replicate", cluster="cluster", interval=interval)
    assert found.height == REPLICATES
    inside = (found["ci_low"] <= P) & (found["ci_high"] >= P)
    return inside.fill_null(False).mean()


@pytest.fixture(scope="module", params=[TWELVE, FORTY], ids=["twelve", "forty"])
def sample(request):
    return request.param, drawn(request.param, 20)


def test_the_default_covers_where_cr1_does_not(sample):
    sizes, frame = sample
    default = coverage(frame, fe.rate("ok"), "auto")
    usual = coverage(frame, fe.mean("ok"), "cr1")
    # The Monte Carlo error of 1,500 replicates is .006 at .95.
    assert default >= 0.93
    assert default > usual
    if sizes is TWELVE:
        assert 0.64 <= usual <= 0.87  # ../shared/statistics.md
        assert default - usual > 0.05


def test_cr2_with_its_degrees_of_freedom_covers(sample):
    _, frame = sample
    assert coverage(frame, fe.mean("ok"), "cr2") >= 0.93
