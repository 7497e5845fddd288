"""Questions whose sums are larger than the memory they may take: the same answers, in passes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from conftest import IN_MEMORY
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import engines, passes
from frame_eval.reduce.kinds import pairs_in_kinds
from frame_eval.running import Run, current, running, shown

RNG = np.random.default_rng(5)
ROWS = 20_000
CLUSTER = RNG.integers(0, 10_000, ROWS)
FRAME = pl.DataFrame(
    {
        "system": np.array(["a", "b"])[RNG.integers(0, 2, ROWS)],
        "lang": pl.Series(["de", "sw", None])[CLUSTER % 3],
        "doc": [f"d{c}" for c in CLUSTER],
        "part": CLUSTER // 7,
        "label": RNG.random(ROWS) < 0.4,
        "pred": RNG.random(ROWS) < 0.5,
        "stars": RNG.integers(1, 4, ROWS),
        "latency": RNG.lognormal(0, 1, ROWS),
        "weight": 1 + CLUSTER % 2,
    }
)
READ_IN_PARTS = ["polars-lazy", "arrow-dataset", "duckdb", "spark", "dask"]
SHARES = [fe.rate("label"), fe.accuracy("label", "pred"), fe.f1("label", "pred")]
MEANS = [fe.mean("stars"), fe.ratio("pred", "stars")]
SPREAD = [fe.mean("latency"), fe.ratio("latency", "stars"), fe.rmse("latency", "stars")]
SMALL = 3e6


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """The number of passes of every question."""
    found: list[int] = []

    def counting(*args):
        found.append(passes_of(*args))
        return found[-1]

    passes_of = passes.passes_of
    for module in ("reduce.trials", "reduce.passes"):
        monkeypatch.setattr(f"frame_eval.{module}.passes_of", counting)
    return found


def assert_same_in_passes(engine, metrics, counted, frame=FRAME, rel_tol=1e-10, **options) -> None:
    expected = frame.eval.summary(*metrics, **options)
    result = fe.of(IN_MEMORY[engine](frame)).run(memory=SMALL).summary(*metrics, **options)
    assert counted[-1] > 2
    assert_frame_equal(result, expected, rel_tol=rel_tol, abs_tol=1e-12)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_clusters_in_passes_are_the_same_on_every_engine(engine, counted) -> None:
    options = {"system": "system", "by": "lang", "cluster": ["doc", "part"]}
    assert_same_in_passes(engine, SHARES, counted, **options)


@pytest.mark.parametrize("engine", ["duckdb", "spark", "polars-lazy"])
def test_rows_with_clusters_that_fit_are_read_once(engine, monkeypatch) -> None:
    asked, collect, totals_of = [], engines.collect, engines.totals_of

    def counting(frame, **how):
        asked.append(frame)
        return collect(frame, **how)

    def totalling(frame, *how):
        asked.append(frame)
        return totals_of(frame, *how)

    monkeypatch.setattr(engines, "collect", counting)
    monkeypatch.setattr(engines, "totals_of", totalling)
    monkeypatch.setattr(passes, "collect", counting)
    fe.of(IN_MEMORY[engine](FRAME)).summary(*SHARES, by="lang", cluster="doc")
    assert len(asked) == 1


@pytest.mark.parametrize("metrics", [SHARES, MEANS, SPREAD], ids=["shares", "means", "spread"])
@pytest.mark.parametrize("interval", ["auto", "cr0", "cr1", "cr2", None])
def test_clusters_in_passes_have_the_same_intervals(metrics, interval, counted) -> None:
    assert_same_in_passes("polars-lazy", metrics, counted, cluster="doc", interval=interval)


SLICED = {
    "each": {"by": fe.each("lang", "system"), "overall": True},
    "cube": {"by": fe.cube("lang", "system")},
    "where": {"by": fe.where(long=fe.col("stars") > 2, none=fe.col("stars") > 9)},
}


@pytest.mark.parametrize("sliced", SLICED)
def test_slices_that_overlap_share_clusters_in_passes(sliced, counted) -> None:
    metrics = [*SHARES[:1], *SPREAD[:2]]
    assert_same_in_passes("polars-lazy", metrics, counted, cluster="doc", **SLICED[sliced])


# A few clusters with many rows, and very many with few, of all sizes.
CLUSTERS = RNG.integers(9, 40_000, 100_000)
UNEVEN = pl.DataFrame(
    {
        "doc": np.where(RNG.random(100_000) < 0.2, RNG.integers(0, 9, 100_000), CLUSTERS),
        "tokens": RNG.lognormal(5, 0.3, 100_000),
        "cost": 90 + RNG.normal(0, 30, 100_000),
    }
).with_columns(weight=1.0 + (pl.col("doc") * 0.618) % 1)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_clusters_of_uneven_sizes_in_passes(weight, counted) -> None:
    metrics = [fe.mean("cost"), fe.ratio("cost", "tokens"), fe.rmse("cost", "tokens")]
    options = {"cluster": "doc", "weight": weight}
    assert_same_in_passes("polars-lazy", metrics, counted, UNEVEN, 1e-8, **options)


def test_weights_and_missing_values_in_passes(counted) -> None:
    holes = FRAME.with_columns(pl.when(pl.col("stars") != 2).then("label").alias("label"))
    metrics = [fe.rate("label"), fe.recall("label", "pred")]
    options = {"by": "lang", "cluster": "doc", "weight": "weight", "missing": "drop"}
    expected = holes.eval.summary(*metrics, **options)
    result = holes.lazy().eval.run(memory=SMALL).summary(*metrics, **options)
    assert counted[-1] > 1
    assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-12)
    bad = FRAME.with_columns(pl.when(pl.int_range(pl.len()) != 77).then("label").alias("label"))
    with pytest.raises(fe.EvalError, match="1 rows are missing"):
        bad.lazy().eval.run(memory=SMALL).summary(fe.rate("label"), cluster="doc")


def test_examples_are_checked_in_passes(counted) -> None:
    frame = FRAME.with_row_index("id").lazy()
    options = {"example": "id", "by": "lang"}
    expected = frame.collect().eval.summary(fe.rate("label"), **options)
    result = frame.eval.run(memory=1e6).summary(fe.rate("label"), **options)
    assert min(counted[-2:]) > 1
    assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-12)
    twice = pl.concat([frame, frame.filter(pl.col("id") == 5)])
    with pytest.raises(fe.EvalError, match="at least 1 examples have more than one row"):
        twice.eval.run(memory=1e6).summary(fe.rate("label"), **options)


@pytest.fixture(scope="module")
def uneven_trials() -> pl.DataFrame:
    """Problems with one to five trials by each of two systems, few of them in every document."""
    trials = FRAME[:6_000].with_row_index("id").with_columns(hard=pl.col("id") % 7 < 3)
    many = trials.with_columns(times=1 + pl.col("id") * 5 // 3 % 5)
    return (
        many.with_columns(trial=pl.int_ranges(pl.col("times")))
        .explode("trial")
        .with_columns(label=pl.col("hard") | (pl.col("trial") * 3 + pl.col("id") % 5 > 8))
        .sample(fraction=1, shuffle=True, seed=4)
    )


@pytest.mark.parametrize(
    ("engine", "cluster"),
    # Spark takes a query for every part.
    [(e, c) for e in READ_IN_PARTS for c in ("doc", "stars", None) if e != "spark" or c == "stars"],
)
def test_unequal_trials_are_counted_in_parts(engine, cluster, uneven_trials, counted) -> None:
    options = {"system": "system", "example": "id", "trial": "trial", "cluster": cluster}
    metrics = [fe.rate("label"), fe.mean("latency"), fe.f1("label", "pred")]
    expected = uneven_trials.eval.summary(*metrics, **options)
    result = fe.of(IN_MEMORY[engine](uneven_trials)).run(memory=1e6).summary(*metrics, **options)
    assert max(counted) > 2 or (engine in ("duckdb", "spark") and cluster == "stars")
    assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-12)


def test_unequal_trials_of_weighted_metrics_over_cells_in_parts(uneven_trials, counted) -> None:
    options = {"example": "id", "trial": ["system", "trial"], "weight": "weight", "by": "lang"}
    metrics = [fe.cohen_kappa("label", "pred"), fe.rate("pred"), fe.pass_at_k("pred", 1)]
    expected = uneven_trials.eval.summary(*metrics, cluster="doc", **options)
    lazy = uneven_trials.lazy().eval.run(memory=1e6)
    result = lazy.summary(*metrics, cluster="doc", **options)
    assert max(counted) > 2
    assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-12)


def of_systems(systems: str = "ab") -> pl.DataFrame:
    """Systems on the same examples, in scattered order."""
    half = FRAME[:3_000].drop("system").with_row_index("id")
    parts = [
        half.with_columns(
            system=pl.lit(name),
            pred=pl.Series(RNG.random(3_000) < 0.5),
            latency=pl.Series(RNG.lognormal(5, 1, 3_000)),
        )
        for name in systems
    ]
    return pl.concat(parts).sample(fraction=1, shuffle=True, seed=4)


PAIRED = of_systems()
EXAMPLES = {"system": "system", "example": "id"}
COMPARED = [*SHARES, fe.precision("label", "pred"), *SPREAD]


@pytest.mark.parametrize("engine", READ_IN_PARTS)
@pytest.mark.parametrize("cluster", ["doc", None])
def test_examples_side_by_side_are_the_same_on_every_engine(engine, cluster) -> None:
    options = {**EXAMPLES, "baseline": "a", "by": "lang", "cluster": cluster}
    expected = PAIRED.eval.compare(*COMPARED, **options)
    evaluation = fe.of(IN_MEMORY[engine](PAIRED)).run(memory=4e6)
    assert_frame_equal(
        evaluation.compare(*COMPARED, **options), expected, rel_tol=1e-9, abs_tol=1e-11
    )


@pytest.mark.parametrize("engine", READ_IN_PARTS)
@pytest.mark.parametrize("weight", [None, "weight"])
def test_ratios_side_by_side_have_the_leverage_of_each_example(engine, weight) -> None:
    metric = fe.ratio("stars", "latency")
    expected = PAIRED.eval.compare(metric, **EXAMPLES, weight=weight)
    evaluation = fe.of(IN_MEMORY[engine](PAIRED)).run(memory=1e6)
    result = evaluation.compare(metric, **EXAMPLES, weight=weight)
    assert_frame_equal(result, expected, rel_tol=1e-8, abs_tol=1e-11)


MANY = pl.concat(
    [
        pl.DataFrame(
            {
                "system": name,
                "id": np.arange(40_000),
                "doc": CLUSTERS[:40_000],
                "pred": RNG.random(40_000) < chance,
                "label": CLUSTERS[:40_000] % 3 == 0,
                "latency": RNG.lognormal(1, 1, 40_000),
                "weight": 1 + CLUSTERS[:40_000] * 0.618 % 1,
            }
        )
        for name, chance in (("a", 0.4), ("b", 0.42))
    ]
)


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("by", ["label", fe.each("label")])
def test_clusters_of_two_systems_become_kinds(by, weight, monkeypatch) -> None:
    seen = []

    def folding(metric, tables, bits):
        made = pairs_in_kinds(metric, tables, bits)
        seen.append((sum(len(table.rows) for table in tables), len(made.rows)))
        return made

    monkeypatch.setattr("frame_eval.reduce.beside.pairs_in_kinds", folding)
    metrics = [fe.rate("pred"), fe.mean("latency"), fe.recall("label", "pred")]
    options = {**EXAMPLES, "by": by, "overall": True, "cluster": "doc", "weight": weight}
    if by == "label":
        options.pop("overall")
    expected = MANY.eval.compare(*metrics, **options)
    result = MANY.lazy().eval.run(memory=6e6).compare(*metrics, **options)
    assert min(after / before for before, after in seen) < 0.7
    assert_frame_equal(result, expected, rel_tol=1e-6, abs_tol=1e-11)


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("doc", "the sizes of more than .* clusters and"),
        (None, "sizes and weights of .* examples"),
    ],
)
def test_sums_over_examples_that_are_too_many_are_refused(cluster, message) -> None:
    frame = PAIRED.with_columns(weight=1 + pl.col("id") / 7)
    options = {**EXAMPLES, "by": "lang", "cluster": cluster, "weight": "weight"}
    with pytest.raises(fe.EvalError, match=message):
        frame.lazy().eval.run(memory=2e5).compare(*COMPARED, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"by": fe.each("lang", "part"), "overall": True, "cluster": "doc"},
        {"by": fe.where(long=fe.col("part") > 99), "cluster": ["doc", "part"]},
        {"weight": "weight", "cluster": "doc", "by": "lang"},
        {"weight": "weight", "method": "cr1"},
        {"method": "cr0", "cluster": "doc"},
        {"method": "mid-p"},
        {"method": None, "by": "lang"},
        {"method": "t", "by": fe.where(never=fe.col("id") < 0, some=fe.col("id") % 3 == 0)},
        {"method": "t", "margin": 0.1},
    ],
    ids=repr,
)
def test_examples_side_by_side_are_compared_in_every_way(options) -> None:
    metrics = [fe.rate("pred"), fe.accuracy("label", "pred")]
    if options.get("method") != "mid-p":
        metrics.append(fe.mean("latency", better="lower"))
    frame = of_systems("abc")
    expected = frame.eval.compare(*metrics, **EXAMPLES, **options)
    result = frame.lazy().eval.run(memory=4e6).compare(*metrics, **EXAMPLES, **options)
    assert expected.height >= 6
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-11)


@pytest.mark.parametrize("missing", ["drop", "worst"])
def test_examples_that_miss_an_input_side_by_side(missing) -> None:
    holes = PAIRED.with_columns(
        pl.when((pl.col("id") % 7 > 0) | (pl.col("system") == "b")).then("pred").alias("pred")
    )
    metrics = [fe.rate("pred"), fe.accuracy("label", "pred"), fe.f1("label", "pred")]
    metrics = metrics if missing == "drop" else metrics[:1]
    options = {**EXAMPLES, "cluster": "doc", "by": "lang", "missing": missing}
    expected = holes.eval.compare(*metrics, **options)
    assert expected["missing"].sum() > 100
    result = holes.lazy().eval.run(memory=2e6).compare(*metrics, **options)
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-11)


def test_examples_of_one_system_side_by_side() -> None:
    some = PAIRED.filter((pl.col("id") % 5 > 0) | (pl.col("system") == "a"))
    lazy = some.lazy().eval.run(memory=1e6)
    with pytest.raises(fe.EvalError, match="answered by only one of 'b' and 'a', or in diff"):
        lazy.compare(fe.rate("pred"), **EXAMPLES, baseline="a")
    options = {**EXAMPLES, "baseline": "a", "by": "lang", "cluster": "doc", "unmatched": "drop"}
    expected = some.eval.compare(fe.rate("pred"), **options)
    assert expected["note"].str.contains("examples in common").all()
    assert_frame_equal(lazy.compare(fe.rate("pred"), **options), expected, rel_tol=1e-9)
    apart = PAIRED.filter((pl.col("id") % 2 > 0) == (pl.col("system") == "a"))
    with pytest.raises(fe.EvalError, match="'b' and 'a' have no example in common"):
        apart.lazy().eval.run(memory=5e5).compare(fe.rate("pred"), **options)


def repeated(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frame, frame.filter(pl.col("id") == 5)])


BAD = {
    "2 examples have more than one row": lambda: repeated(repeated(PAIRED)).filter(
        (pl.col("id") != 6) | (pl.col("system") == "a")
    ),
    "1 rows are missing": lambda: PAIRED.with_columns(
        pl.when((pl.col("id") != 7) | (pl.col("system") == "a")).then("pred").alias("pred")
    ),
    "1 examples have different weights": lambda: PAIRED.with_columns(
        pl.when((pl.col("id") != 7) | (pl.col("system") == "a")).then("weight").otherwise(9.0)
    ),
    "in different slices, clusters or strata": lambda: PAIRED.with_columns(
        pl.when((pl.col("id") != 7) | (pl.col("system") == "a")).then("doc").otherwise(pl.lit("x"))
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_examples_side_by_side_are_named(message) -> None:
    frame = BAD[message]().rename({"literal": "doc"}, strict=False).lazy().eval.run(memory=1e6)
    options = {**EXAMPLES, "cluster": "doc", "weight": "weight"}
    with pytest.raises(fe.EvalError, match=message.replace("2 ", "1 ", 1)):
        frame.compare(fe.rate("pred"), **options)


RANKED = FRAME.with_columns(score=pl.col("latency").round(1) + pl.col("label"))
RANKS = [
    fe.roc_auc("label", "score"),
    fe.average_precision("label", "score"),
    fe.ks("label", "score"),
    fe.median("score"),
]


@pytest.mark.parametrize("engine", READ_IN_PARTS)
@pytest.mark.parametrize("options", [{"by": "lang"}, {"system": "system", "weight": "weight"}])
def test_scores_are_counted_where_they_are(engine, options) -> None:
    expected = RANKED.eval.summary(*RANKS, **options)
    result = fe.of(IN_MEMORY[engine](RANKED)).run(memory=5e5).summary(*RANKS, **options)
    assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-12)


def test_too_many_scores_are_refused_and_bins_are_the_way_out() -> None:
    metric = fe.roc_auc("label", "latency")
    lazy = FRAME.lazy().eval.run(memory=5e5)
    with pytest.raises(fe.EvalError, match=r"scores that differ .*run\(score_bins=10_000\)"):
        lazy.summary(metric)
    result = lazy.run(score_bins=500).summary(metric)
    assert "scores in 500 bins" in result["note"].item()


BINNED = {
    "normal": RNG.normal(size=4_000),
    "heavy": RNG.lognormal(0, 2, 4_000),
    "infinite": np.where(RNG.random(4_000) < 0.1, np.inf, RNG.random(4_000)),
    "rounded": RNG.integers(0, 5, 4_000) / 4.0,
    "one value": np.ones(4_000),
}


@pytest.mark.parametrize("scores", BINNED)
@pytest.mark.parametrize("bins", [2, 7, 100, 5_000])
def test_bins_err_by_no_more_than_they_say(scores, bins) -> None:
    values = BINNED[scores]
    label = RNG.random(4_000) < 1 / (1 + np.exp(-np.minimum(values, 9.0)))
    frame = pl.DataFrame({"y": label, "s": values})
    metrics = [fe.roc_auc("y", "s"), fe.gini("y", "s"), fe.quantile("s", 0.3)]
    exact = frame.eval.summary(*metrics, interval=None)
    binned = frame.eval.run(score_bins=bins).summary(*metrics, interval=None)
    off = (exact["estimate"] - binned["estimate"]).abs()
    for i in (0, 1):
        assert off[i] <= float(binned["note"][i].rpartition(" ")[2]) + 1e-15
    finite = values[np.isfinite(values)]
    assert off[2] <= np.ptp(finite) / bins / 2 * (1 + 1e-9)


def delong(label, score) -> tuple[float, float]:
    """The AUC and its standard error, from every pair of a positive and a negative."""
    positives, negatives = score[label][:, None], score[~label]
    wins = (positives > negatives) + 0.5 * (positives == negatives)
    of_positives, of_negatives = wins.mean(1), wins.mean(0)
    variance = of_positives.var(ddof=1) / len(of_positives)
    variance += of_negatives.var(ddof=1) / len(of_negatives)
    return wins.mean(), float(np.sqrt(variance))


@pytest.mark.parametrize("bins", [3, 12, 90])
@pytest.mark.parametrize("memory", [2e9, 1e5])
def test_errors_in_bins_are_those_of_scores_in_bins(bins, memory) -> None:
    rng = np.random.default_rng(bins)
    label, values = rng.random(6_000) < 0.3, rng.normal(size=6_000)
    values = values + label
    width = np.ptp(values) / bins
    middle = np.minimum(np.floor((values - values.min()) / width), bins - 1) * width
    lazy = pl.LazyFrame({"y": label, "s": values, "system": np.arange(6_000) % 2})
    ways = lazy.eval.run(score_bins=bins, memory=memory)
    result = ways.summary(fe.roc_auc("y", "s"))
    expected = delong(label, middle)
    np.testing.assert_allclose(result.select("estimate", "std_error").row(0), expected, 1e-10)
    # Resampled scores in bins vary as much.
    draws = rng.integers(0, 6_000, (200, 1_500))
    spread = np.std([delong(label[draw], middle[draw])[0] for draw in draws])
    assert abs(spread / 2 / expected[1] - 1) < 0.2
    # Different examples of two systems: their variances add up.
    sides = [delong(label[k::2], middle[k::2]) for k in (1, 0)]
    compared = ways.compare(fe.roc_auc("y", "s"), system="system", paired=False)
    difference = [sides[0][0] - sides[1][0], np.hypot(sides[0][1], sides[1][1])]
    found = compared.select("difference", "std_error").row(0)
    np.testing.assert_allclose(found, difference, 1e-9)


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (
            fe.ratio("stars", "latency"),
            {"by": ["part", "system"]},
            "the sizes of more than .* clusters and slices differ",
        ),
        (fe.cohen_kappa("label", "pred"), {"strata": "part"}, "give more with frame.eval.run"),
    ],
)
def test_what_no_number_of_passes_makes_small_is_refused(metric, options, message) -> None:
    evaluation = FRAME.lazy().eval.run(memory=SMALL / 2)
    with pytest.raises(fe.EvalError, match=message):
        evaluation.summary(metric, cluster="doc", **options)


ROUNDED = RANKED.with_row_index("id").with_columns(
    uneven=1 + pl.col("id") % 5_000 / 7, risk=(pl.col("score") / 30).clip(0, 1)
)
SLICES = {"by": "lang", "cluster": "doc"}
EQUAL = {
    "guard": lambda e: e.guard(
        fe.rule(fe.rate("label"), min=0.3), fe.rule(fe.mean("latency"), max=3), **SLICES
    ),
    "curve": lambda e: e.curve("pr", "label", "score", by="lang"),
    "curve of clusters": lambda e: e.curve("roc", "label", "score", cluster="doc"),
    "reliability": lambda e: e.curve("reliability", "label", "risk", by="lang"),
    "best_threshold": lambda e: e.best_threshold("label", "score", by="lang", fbeta=1),
    "operating_point": lambda e: e.operating_point("label", "score", 0.5, by="lang"),
    "routing": lambda e: e.routing("label", "score", by="lang", fallback="pred"),
    "confusion": lambda e: e.confusion("label", "pred", by="lang"),
    "unpaired": lambda e: e.compare(
        fe.roc_auc("label", "score"), system="system", paired=False, by="lang"
    ),
    "problems": lambda e: e.summary(
        fe.pass_at_k("label", 1), fe.rate("pred"), example="part", trial="id", by="lang"
    ),
}


@pytest.mark.parametrize("verb", EQUAL)
def test_every_verb_answers_the_same_within_little_memory(verb, counted) -> None:
    expected = EQUAL[verb](ROUNDED.eval)
    result = EQUAL[verb](ROUNDED.lazy().eval.run(memory=8e5))
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-12)
    if verb in ("guard", "problems"):
        assert max(counted) > 1


@pytest.mark.parametrize("by", ["lang", fe.each("lang", "system")])
def test_rows_of_very_many_weights_in_passes(by, counted) -> None:
    metrics = [fe.rate("label"), fe.mean("latency"), fe.f1("label", "pred")]
    expected = ROUNDED.eval.summary(*metrics, weight="uneven", by=by)
    result = ROUNDED.lazy().eval.run(memory=2e6).summary(*metrics, weight="uneven", by=by)
    assert counted[-1] > 2
    # Weights are told apart to few bits; a row has 1 / 6,000 of the weight of its slice. The
    # degrees of freedom that `method` shows may be rounded the other way.
    result, expected = (frame.drop("method") for frame in (result, expected))
    assert_frame_equal(result, expected, rel_tol=5e-7, abs_tol=1e-12)


MIX = {"by": "lang", "target": {"de": 0.2, "sw": 0.5, None: 0.3}}
BOTH = {"by": "system", "cluster": "doc"}
CLUSTERS_AT_ONCE = "the sums of all clusters and slices take about"
TORN = f"at least .* clusters are in several slices, .*: {CLUSTERS_AT_ONCE}"
EXAMPLES_AT_ONCE = "the examples of all systems take about"
REFUSED = {
    "worst": (TORN, lambda e: e.worst(fe.rate("label"), **BOTH)),
    "bootstrap": (CLUSTERS_AT_ONCE, lambda e: e.bootstrap(fe.rate("label"), cluster="doc")),
    "bootstrap of rows": ("rows that differ", lambda e: e.bootstrap(fe.mean("latency"))),
    "poststratify": (
        TORN,
        lambda e: e.poststratify(fe.rate("label"), target={"a": 0.2, "b": 0.8}, **BOTH),
    ),
    "details": (
        CLUSTERS_AT_ONCE,
        lambda e: e.summary(fe.rate("label"), cluster="doc", details=True),
    ),
    "unpaired": (
        "the scores that differ",
        lambda e: e.compare(fe.roc_auc("label", "latency"), system="system", paired=False),
    ),
    "curve": ("the scores that differ", lambda e: e.curve("roc", "label", "latency")),
}
REFUSED_PAIRS = {
    "wild": lambda e: e.compare(fe.rate("pred"), method="wild", **EXAMPLES),
    "poststratify": lambda e: e.poststratify(fe.rate("pred"), baseline="a", **EXAMPLES, **MIX),
    "plan": lambda e: e.plan(fe.rate("pred"), baseline="a", effect=0.05, **EXAMPLES),
}


@pytest.mark.parametrize("verb", REFUSED)
def test_what_does_not_fit_is_named_with_the_bound_and_the_way_out(verb) -> None:
    message, ask = REFUSED[verb]
    way_out = r".* times memory=500000 bytes: give more with frame.eval.run\(memory=\), or "
    asked = {"details": "summary", "unpaired": "compare"}.get(verb, verb.split()[0])
    with pytest.raises(fe.EvalError, match=f"^{asked}: {message}{way_out}"):
        ask(ROUNDED.lazy().eval.run(memory=5e5))


@pytest.mark.parametrize("verb", REFUSED_PAIRS)
def test_pairs_that_do_not_fit_are_named_with_the_bound_and_the_way_out(verb) -> None:
    way_out = r".* times memory=500000 bytes: give more with frame.eval.run\(memory=\), or "
    with pytest.raises(fe.EvalError, match=EXAMPLES_AT_ONCE + way_out):
        REFUSED_PAIRS[verb](PAIRED.lazy().eval.run(memory=5e5))


def test_margins_side_by_side() -> None:
    rules = [
        fe.rule(fe.rate("pred"), max_drop=0.1),
        fe.rule(fe.mean("latency", better="lower"), max_rise=0.1, relative=True),
    ]
    options = {**EXAMPLES, **SLICES, "baseline": "a"}
    expected = PAIRED.eval.guard(*rules, **options)
    result = PAIRED.lazy().eval.run(memory=2e6).guard(*rules, **options)
    assert_frame_equal(result, expected, rel_tol=1e-9, abs_tol=1e-11)


def test_frames_in_memory_are_read_at_once(counted) -> None:
    FRAME.eval.run(memory=1).summary(fe.mean("latency"), by="lang", cluster="doc")
    assert counted == [1]


@pytest.mark.parametrize("memory", [0, -1, "1GB", True])
def test_memory_is_a_number_of_bytes(memory) -> None:
    with pytest.raises(fe.EvalError, match=r"memory=.* is not a positive number of bytes"):
        FRAME.eval.run(memory=memory)


def test_options_stay_until_they_are_named_again() -> None:
    evaluation = FRAME.eval.run(memory=5e8).run(progress=False).roles(cluster="doc")
    assert evaluation._run == Run(5e8, progress=False)
    assert current() == Run()


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_shown_on_a_terminal_and_can_be_silenced(monkeypatch, progress) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("frame_eval.running._SHOWN_AFTER", 0)
    with running(Run(progress=progress)):
        assert list(shown(range(3), "work")) == [0, 1, 2]
    assert ("work" in terminal.text) == progress


@pytest.mark.parametrize("progress", [True, False])
def test_progress_counts_the_rows_of_a_scan(monkeypatch, progress, tmp_path) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("frame_eval.running._SHOWN_AFTER", 0)
    monkeypatch.setattr("frame_eval.reduce.groups._BATCH", 1_000)
    FRAME.write_parquet(tmp_path / "rows.parquet")
    scan = pl.scan_parquet(tmp_path / "rows.parquet")
    fe.of(scan).run(progress=progress).summary(fe.rate("label"), cluster="doc")
    assert ("rows read" in terminal.text) == progress
    assert ("rows/s" in terminal.text) == progress


def test_progress_is_not_shown_elsewhere(capfd) -> None:
    assert list(shown(range(3), "work")) == [0, 1, 2]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("bytes_per_row", range(200, 560, 24))
def test_comparisons_fit_or_are_taken_in_passes(bytes_per_row) -> None:
    rng = np.random.default_rng(5)
    rows = pl.DataFrame(
        {
            "system": ["a"] * 2_000 + ["b"] * 2_000,
            "example": [*range(2_000)] * 2,
            "doc": [i // 4 for i in range(2_000)] * 2,
            "part": [i // 4 % 3 for i in range(2_000)] * 2,
            "ok": rng.random(4_000) < 0.6,
        }
    )
    asked = {"by": "part", "system": "system", "example": "example", "baseline": "a"}
    bounded = rows.lazy().eval.run(memory=4_000 * bytes_per_row)
    for cluster in ("doc", None):
        found = bounded.compare(fe.rate("ok"), cluster=cluster, **asked)
        whole = rows.eval.compare(fe.rate("ok"), cluster=cluster, **asked)
        for column in ("difference", "std_error", "ci_low", "ci_high", "p_value"):
            np.testing.assert_allclose(found[column], whole[column], rtol=1e-9)
