"""A cascade counted row by row at every threshold."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from statsmodels.stats.proportion import proportion_confint

import frame_eval as fe


def drawn(n, seed, digits=1):
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.random(n), digits)
    return pl.DataFrame(
        {
            "ok": rng.random(n) < confidence,
            "large": (rng.random(n) < 0.9).astype(int),
            "confidence": confidence,
            "usd": rng.gamma(2.0, 0.1, n),
            "large_usd": rng.gamma(2.0, 1.0, n),
            "w": rng.integers(1, 5, n) / 2,
            "g": rng.integers(0, 2, n),
        }
    )


FRAME = drawn(150, 0)


def _value(frame, given):
    return (
        np.full(frame.height, float(given))
        if not isinstance(given, str)
        else frame[given].to_numpy()
    )


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize(
    ("fallback", "cost", "fallback_cost"),
    [("large", "usd", "large_usd"), (0.95, 0, 1), ("large", 0.1, 2), (1, "usd", "large_usd")],
)
def test_a_cascade_by_counting(fallback, cost, fallback_cost, weight):
    options = {"fallback": fallback, "cost": cost, "fallback_cost": fallback_cost}
    found = FRAME.eval.routing("ok", "confidence", by="g", weight=weight, **options)
    assert found.height == sum(1 + FRAME.filter(g=g)["confidence"].n_unique() for g in (0, 1))
    for row in found.iter_rows(named=True):
        part = FRAME.filter(g=row["g"])
        w = np.ones(part.height) if weight is None else part[weight].to_numpy()
        kept = part["confidence"].to_numpy() >= row["threshold"]
        ok = np.where(kept, part["ok"].to_numpy(), _value(part, fallback))
        paid = _value(part, cost) + np.where(kept, 0.0, _value(part, fallback_cost))
        assert_allclose(row["accuracy"], np.average(ok, weights=w), rtol=1e-12)
        assert_allclose(row["cost"], np.average(paid, weights=w), rtol=1e-12)
        assert_allclose(row["handed_on"], np.average(~kept, weights=w), atol=1e-12)
        assert row["n"] == kept.sum()
        if kept.any():
            right = np.average(part["ok"].to_numpy()[kept], weights=w[kept])
            assert_allclose(row["accuracy_kept"], right, rtol=1e-12)
        else:
            assert row["accuracy_kept"] is None
        if fallback != "large":
            assert row["accuracy_low"] is row["accuracy_high"] is None
        elif weight is None:
            band = proportion_confint(ok.sum(), part.height, 0.05, "wilson")
            assert_allclose([row["accuracy_low"], row["accuracy_high"]], band, rtol=1e-9)


@pytest.mark.parametrize(
    "roles", [{"cluster": "c"}, {"weight": "w"}, {"cluster": "c", "weight": "w"}]
)
def test_bands_are_the_intervals_of_the_accuracy(roles):
    """As a summary of the column that says whether the cascade is right at that threshold."""
    frame = FRAME.with_columns(c=pl.int_range(pl.len()) % 11 // (1 + pl.col("g")))
    found = frame.eval.routing("ok", "confidence", fallback="large", by="g", **roles)
    for row in found.iter_rows(named=True):
        kept = pl.col("confidence") >= row["threshold"]
        right = pl.when(kept).then(pl.col("ok").cast(int)).otherwise("large")
        part = frame.filter(g=row["g"]).with_columns(right=right)
        expected = part.eval.summary(fe.rate("right"), **roles).row(0, named=True)
        band = [expected["ci_low"], expected["ci_high"]]
        assert_allclose([row["accuracy_low"], row["accuracy_high"]], band, rtol=1e-9)


def test_the_ends_are_both_systems_alone():
    found = FRAME.eval.routing("ok", "confidence", fallback="large")
    first, last = found.row(0, named=True), found.row(-1, named=True)
    assert first["threshold"] == float("inf")
    assert_allclose([first["handed_on"], last["handed_on"]], [1, 0], atol=1e-12)
    assert_allclose(
        [first["accuracy"], last["accuracy"]], FRAME.select("large", "ok").mean().row(0)
    )
    assert_allclose([first["cost"], last["cost"]], [1, 0], atol=1e-12)


def test_every_engine(engine):
    frame = FRAME.drop("w")
    options = {"fallback": "large", "cost": "usd", "fallback_cost": "large_usd", "by": "g"}
    found = fe.routing(engine(frame), "ok", "confidence", **options)
    found = found if isinstance(found, pl.DataFrame) else pl.from_pandas(found)
    expected = frame.eval.routing("ok", "confidence", **options)
    assert_frame_equal(found, expected, rel_tol=1e-12, check_dtypes=False)


def test_many_thresholds_are_thinned():
    frame = drawn(3000, 1, 12)
    found = frame.eval.routing("ok", "confidence", fallback="large", points=100)
    assert found.height <= 100
    whole = frame.eval.routing("ok", "confidence", fallback="large", points=None)
    kept = whole.join(found.select("threshold"), on="threshold", maintain_order="right")
    assert_frame_equal(kept, found, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fallback": 1.2}, r"fallback=1.2 is neither a column nor an accuracy"),
        ({"cost": float("nan")}, "not a finite number"),
        ({"fallback_cost": float("inf")}, "not a finite number"),
        ({"points": 10}, "points=10"),
        ({"level": 2}, "level=2"),
        ({"missing": "worst"}, "missing='worst'"),
        ({"fallback": "usd"}, "column 'usd' must be 0/1"),
        ({"fallback": "larg"}, "Did you mean 'large'"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(fe.EvalError, match=message):
        FRAME.eval.routing("ok", "confidence", **options)


def test_all_rows_handed_on_are_exactly_the_fallback():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"ok": rng.random(300) < 0.5, "sure": rng.random(300)})
    row = frame.eval.routing("ok", "sure", fallback=0.95, cost=1, fallback_cost=5).row(
        0, named=True
    )
    assert (row["handed_on"], row["accuracy"], row["cost"]) == (1.0, 0.95, 6.0)


@pytest.mark.parametrize("cluster", [None, "doc"])
def test_a_slice_without_weight_has_no_rates_and_says_so(cluster):
    frame = FRAME.with_columns(part=pl.int_range(pl.len()) % 2)
    frame = frame.with_columns(w=pl.col("part").cast(float), doc=pl.int_range(pl.len()) // 5)
    found = frame.eval.routing("ok", "confidence", by="part", weight="w", cluster=cluster)
    empty = found.filter(part=0)
    assert set(empty["note"]) == {"no rows"}
    assert empty["handed_on"].null_count() == empty["cost"].null_count() == empty.height
