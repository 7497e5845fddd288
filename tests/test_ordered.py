"""Ordered cells by one sort: against numpy's sorts, and against the group-by over cells."""

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from polars.testing import assert_frame_equal
from scipy.stats import ks_2samp, rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

import frame_eval as fe
from frame_eval import threads
from frame_eval.inference.linear import linear
from frame_eval.inference.ranked import ranked
from frame_eval.reduce import Roles, keys, reduce
from frame_eval.reduce.keys import Column, Packed, Score, position, whole
from frame_eval.slices import Slices

RNG = np.random.default_rng(0)
TINY, HUGE = np.finfo(float).smallest_subnormal, np.finfo(float).max
SCORES = {
    "normal": RNG.normal(size=700),
    "tied": np.round(RNG.normal(size=700), 1),
    "three decimals": np.round(RNG.normal(size=700), 3),
    "decimals and one sum of them": np.append(np.round(RNG.normal(size=699), 2), 0.1 + 0.2),
    "decimals that are too large": np.round(RNG.normal(size=700), 1) * 1e9,
    "thousands": RNG.integers(-9, 9, 700) * 1000.0,
    "all tied": np.full(700, 0.1),
    "zeros of both signs": np.where(RNG.random(700) < 0.5, 0.0, -0.0),
    "halves": RNG.integers(-9, 9, 700) / 2,
    "single precision": RNG.normal(size=700).astype(np.float32).astype(float),
    "probabilities": RNG.random(700),
    "negative": -RNG.random(700),
    "every magnitude": RNG.choice([-np.inf, -HUGE, -1, -TINY, -0.0, 0, TINY, 3, HUGE, np.inf], 700),
    "one infinity": np.where(np.arange(700) == 5, np.inf, RNG.normal(size=700)),
}
each_scores = pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)


def _same(values):
    return values[1:] == values[:-1]


@each_scores
def test_codes_sort_as_the_scores_and_come_back(scores):
    score = Score.of(scores)
    code = score(slice(None))
    order = np.argsort(code, kind="stable")
    assert_array_equal(scores[order], np.sort(scores))
    assert_array_equal(_same(code[order]), _same(np.sort(scores)))
    assert_array_equal(score.decoded(code), scores)
    assert int(code.max()).bit_length() == score.width


@each_scores
@pytest.mark.parametrize("wide", [1, 1 << 10, 1 << 40])
def test_packed_fields_sort_as_numpy_does(scores, wide):
    rows = len(scores)
    bit, unit, group = (
        RNG.integers(0, 2, rows),
        RNG.integers(0, 300, rows),
        RNG.integers(0, wide, rows),
    )
    score = Score.of(scores)
    fields = [whole(bit, 2), whole(unit, 300), (score, score.width), whole(group, wide)]
    packed = Packed(rows, fields)
    order = np.lexsort((bit, unit, scores, group))
    assert_array_equal(packed.field(0), bit[order])
    assert_array_equal(packed.field(1), unit[order])
    assert_array_equal(score.decoded(packed.field(2)), scores[order])
    assert_array_equal(packed.field(3), group[order])
    same = _same(scores[order]) & _same(group[order])
    cells = np.concatenate([[0], np.flatnonzero(~same) + 1, [rows]])
    assert_array_equal(np.arange(rows + 1) if same.sum() == 0 else packed.starts(2), cells)
    assert (packed.starts(2) is None) == (not same.any())
    by_score = Packed(rows, [position(rows), (score, score.width)])
    assert_array_equal(by_score.field(0), np.argsort(scores, kind="stable"))


METRICS = {
    "roc_auc": fe.roc_auc("y", "s"),
    "p30": fe.quantile("s", 0.3),
    "mean of what is ranked": fe.Metric(
        "slope",
        {"s": fe.roc_auc("y", "s").made["s"], "x": "x"},
        lambda c: {"x": c.x},
        lambda s: (np.cumsum(s.n) * s.x).sum() / s.x.sum() / s.n.sum(),
        cells=("s",),
        ordered=True,
    ),
}
OPTIONS = {
    "plain": {},
    "weight": {"weight": "w"},
    "cluster": {"cluster": ("c",)},
    "both": {"weight": "w", "cluster": ("c",)},
}


@each_scores
@pytest.mark.parametrize("roles", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_the_sort_gives_what_the_group_by_gives(metric, roles, scores):
    """A group-by with a row per example; without clusters, the examples are the units."""
    rows = 300
    frame = pl.DataFrame(
        {
            "y": RNG.random(rows) < 0.4,
            "s": scores[:rows],
            "x": RNG.random(rows),
            "w": RNG.integers(1, 5, rows) / 2,
            "c": RNG.integers(0, 40, rows),
            "e": np.arange(rows),
            "g": RNG.integers(0, 3, rows),
            "m": RNG.integers(0, 2, rows),
        }
    )
    frame = frame.with_columns(pl.col("c") * 6 + pl.col("g") * 2 + pl.col("m"))
    if metric.name == "slope" or np.isinf(scores[:rows]).any():
        frame = frame.head(60)
    slices = Slices(("g",), ((), ("g",)), stacked=True)
    sides = []
    for by_example in (True, False):
        given = Roles(system=("m",), example=("e",), **roles)
        found = reduce(frame, [metric], slices, given, by_example=by_example)
        table, units = found.tables[0], found.cluster_of
        if by_example:
            assert units is not None
            made = linear(metric, table, *found.shape)
            sides.append((made, units[made.unit]))
        else:
            made = ranked(metric, table, *found.shape)
            sides.append((made, made.unit))
    (old, old_unit), (new, new_unit) = sides
    assert_allclose(new.estimate, old.estimate, rtol=1e-13, equal_nan=True)
    assert_array_equal(new.n, old.n)
    assert_array_equal(new.missing, old.missing)
    size = int(max(old_unit.max(), new_unit.max())) + 1
    for before, after in zip(old.samples, new.samples, strict=True):
        for values in ("influence", "share"):
            sums = [
                np.bincount(made.group * size + unit, getattr(sample, values), size * len(old.n))
                for made, unit, sample in ((old, old_unit, before), (new, new_unit, after))
            ]
            differences = 1e-12 if metric.gradient else 1e-9  # by a formula, or by steps
            assert_allclose(sums[1], sums[0], rtol=1e-11, atol=differences)


@pytest.mark.parametrize("weight", [None, "w"])
def test_rows_alone_and_rows_as_clusters_agree(weight):
    """Without clusters the errors come from the cells, with them from the rows."""
    frame = pl.DataFrame(
        {
            "y": RNG.random(400) < 0.3,
            "s": np.round(RNG.normal(size=400), 1),
            "w": RNG.integers(1, 5, 400) / 2,
            "g": RNG.integers(0, 3, 400),
        }
    ).with_row_index("e")
    for by in ("g", fe.where(some=fe.col("s") > -1, none=fe.col("s") > 99), fe.each("g")):
        whole, single = (
            frame.eval.summary(fe.roc_auc("y", "s"), by=by, weight=weight, **roles)
            for roles in ({}, {"cluster": "e"})
        )
        assert_allclose(
            whole["std_error"].fill_null(np.nan), single["std_error"].fill_null(np.nan), rtol=1e-11
        )
        assert whole["clusters"].to_list() == single["clusters"].to_list()
        assert whole["method"].to_list() == single["method"].to_list()


@pytest.mark.parametrize("missing", ["drop", "worst"])
def test_missing_rows_are_counted_where_they_are(missing):
    frame = pl.DataFrame(
        {
            "g": ["a", "a", "a", "b", "b", "c"],
            "y": [1, None, 0, 1, 0, 1],
            "s": [0.5, 0.7, np.nan, 0.2, 0.1, None],
        }
    )
    metric = fe.roc_auc("y", "s")
    if missing == "worst":
        with pytest.raises(fe.EvalError, match="no worst value"):
            frame.eval.summary(metric, by="g", missing=missing)
        return
    found = frame.eval.summary(metric, by="g", missing=missing)
    assert found["n"].to_list() == [1, 2, 0]
    assert found["missing"].to_list() == [2, 0, 1]
    assert found["estimate"].to_list() == [None, 1.0, None]
    assert found["note"].to_list() == ["no negatives", found["note"][1], "no rows"]


def test_a_missing_input_can_count_as_the_worst():
    metric = fe.Metric(
        "ranked",
        {"s": fe.roc_auc("y", "s").made["s"], "x": "x"},
        lambda c: {"x": c.x},
        lambda s: s.x.sum() / s.n.sum(),
        cells=("s",),
        ordered=True,
        worst={"x": 0.0},
    )
    frame = pl.DataFrame({"s": [1.0, 2.0, 3.0, 4.0], "x": [2.0, None, 4.0, 2.0]})
    row = frame.eval.summary(metric, missing="worst", interval=None).row(0, named=True)
    assert (row["estimate"], row["n"], row["missing"]) == (2.0, 4, 1)


def _delong(y, s):
    """The AUC and its error by placement values, from the table of all pairs."""
    above = (s[y == 1][:, None] > s[y == 0]) + 0.5 * (s[y == 1][:, None] == s[y == 0])
    variances = (above.mean(axis).var(ddof=1) / above.shape[1 - axis] for axis in (0, 1))
    return above.mean(), np.sqrt(sum(variances))


@pytest.fixture(params=[1, 7, 64], ids="blocks of {}".format)
def _small_blocks(request, monkeypatch):
    monkeypatch.setattr(threads, "_BLOCK", request.param)
    monkeypatch.setattr(keys, "_LARGE", 4 * request.param)


@pytest.mark.usefixtures("_small_blocks")
@each_scores
def test_blocks_of_any_size_agree_with_all_pairs_and_with_scikit_learn(scores):
    """Ties, running sums and totals cross the blocks."""
    rows = np.arange(300)
    y, s = (rows % 3 == 0).astype(int), scores[:300]
    weight = RNG.random(300) + 0.1
    frame = pl.DataFrame({"y": y, "s": s, "w": weight, "e": rows})
    auc, ap, ks = fe.roc_auc("y", "s"), fe.average_precision("y", "s"), fe.ks("y", "s")
    finite = rankdata(s)  # in the same order, for those that know no infinity
    found = frame.eval.summary(auc, ap, ks, fe.quantile("s", 0.4))
    value, error = _delong(y, finite)
    assert_allclose(found["estimate"][0], value, rtol=1e-13)
    if error > 1e-9:
        assert_allclose(found["std_error"][0], error, rtol=1e-11)
    assert_allclose(found["estimate"][1], average_precision_score(y, finite), rtol=1e-12)
    distance = ks_2samp(finite[y == 1], finite[y == 0], method="asymp").statistic
    assert_allclose(found["estimate"][2], distance, rtol=1e-12)
    alone = frame.eval.summary(auc, ap, cluster="e")
    assert_allclose(
        alone["std_error"].fill_null(0), found["std_error"][:2].fill_null(0), rtol=1e-10, atol=1e-14
    )
    weighted = frame.eval.summary(auc, ap, weight="w")["estimate"]
    assert_allclose(weighted[0], roc_auc_score(y, finite, sample_weight=weight), rtol=1e-12)
    expected = average_precision_score(y, finite, sample_weight=weight)
    assert_allclose(weighted[1], expected, rtol=1e-12)


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("roles", OPTIONS.values(), ids=OPTIONS)
def test_errors_do_not_depend_on_the_blocks(roles, monkeypatch):
    """Against one block for all rows, by row and by unit."""
    frame = pl.DataFrame(
        {
            "y": RNG.random(400) < 0.4,
            "s": np.round(RNG.normal(size=400), 1),
            "w": RNG.random(400) + 0.1,
            "c": RNG.integers(0, 30, 400),
        }
    )
    asked = [
        fe.roc_auc("y", "s"),
        fe.gini("y", "s"),
        fe.average_precision("y", "s"),
        fe.average_precision("y", "s", at_prevalence=0.1),
        fe.partial_auc("y", "s", 0.2),
        fe.quantile("s", 0.3),
    ]
    small = frame.eval.summary(*asked, **roles)
    monkeypatch.setattr(threads, "_BLOCK", 1 << 17)
    whole = frame.eval.summary(*asked, **roles)
    for name in ("estimate", "std_error", "ci_low", "ci_high"):
        assert_allclose(small[name], whole[name], rtol=1e-10)


LAST = np.nextafter(1.0, 2.0)
WIDE = {
    "distinct": RNG.normal(size=3000) * 10.0 ** RNG.integers(-9, 9, 3000),
    "tied": RNG.choice(RNG.normal(size=40) * 1e-9 ** RNG.random(40), 3000),
    "told apart by the last bit": RNG.choice([1.0, LAST, -1.0, 1e-300, -LAST], 3000),
}


@pytest.mark.parametrize("scores", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("cluster", [None, "c"])
def test_scores_of_all_bits_in_many_slices_stay_exact(scores, cluster):
    """Slice, score and label need more than one word: 64 bits serve only where they tell all."""
    group, y = np.arange(3000) % 100, RNG.random(3000) < 0.5
    frame = pl.DataFrame({"g": group, "y": y, "s": scores, "c": np.arange(3000) % 300})
    asked = fe.roc_auc("y", "s"), fe.quantile("s", 0.25)
    found = frame.eval.summary(*asked, by="g", cluster=cluster)
    for k in range(100):
        part = found.filter(g=k)["estimate"]
        inside = group == k
        assert_allclose(part[0], roc_auc_score(y[inside], scores[inside]), rtol=1e-13)
        assert part[1] == pytest.approx(np.quantile(scores[inside], 0.25), rel=1e-15)


def test_decimals_take_as_many_bits_as_they_have_steps():
    """Between -1 and 1 there are 2,001 numbers of three decimals, and 11 bits for them."""
    scores = np.append(RNG.integers(-1000, 1001, 500) / 1000, [-1.0, 1.0])
    assert Score.of(scores).width == 11
    assert Packed(502, [whole(np.ones(502, int), 2), Score.of(scores).field()]).low.itemsize == 4
    for other in (0.1 + 0.2, 1e-7, 3e6, np.inf):
        assert Score.of(np.append(scores, other)).width > 30


def test_numbers_told_apart_by_their_last_bits_are_not_taken_as_one():
    tied = np.repeat([1.0, 1.5, -3.0], 4)
    assert Score.of(np.append(tied, 1 / 7)).told_apart(8)
    assert not Score.of(np.append(tied, LAST)).told_apart(1)
    # Zero is far from the smallest magnitude, although the span between them takes no bits.
    assert Score.of(np.array([0.0, -0.0, 1 / 700, -1 / 700, 4.0])).told_apart(8)


@pytest.mark.parametrize("name", ["rows", "classes", "total", "from_top"])
def test_sums_can_not_be_called_what_cells_have_already(name):
    metric = fe.Metric(
        "mine",
        {"s": fe.roc_auc("y", "s").made["s"], "x": "x"},
        lambda c: {name: c.x},
        lambda s: s.n.sum(),
        cells=("s",),
        ordered=True,
    )
    with pytest.raises(fe.EvalError, match=f"s.{name} of ordered cells is no sum of yours"):
        pl.DataFrame({"s": [1.0, 2.0], "x": [1.0, 2.0]}).eval.summary(metric)


def test_a_condition_that_no_row_meets_has_no_rows():
    frame = pl.DataFrame({"y": [1, 0, 1], "s": [0.1, 0.2, 0.3]})
    found = frame.eval.summary(fe.roc_auc("y", "s"), by=fe.where(none=fe.col("s") > 1))
    assert found.select("estimate", "n", "note").row(0) == (None, 0, "no rows")


@pytest.mark.parametrize("chunks", [1, 3, 250])
def test_columns_are_read_across_their_chunks(chunks):
    pieces = np.array_split(np.arange(1000.0), chunks)
    column = Column(pl.concat([pl.Series(piece) for piece in pieces], rechunk=False))
    assert len(column) == 1000
    for start, stop in [(0, 1), (0, 1000), (3, 998), (330, 340), (999, 2000)]:
        assert_array_equal(column[start:stop], np.arange(1000.0)[start:stop])


def test_words_are_sorted_on_all_cores(monkeypatch):
    for count in (1, 2, 3):
        monkeypatch.setattr(keys, "cores", lambda count=count: count)
        monkeypatch.setattr(keys, "_LARGE", 40)
        for words in (RNG.integers(0, 2**63, 999), RNG.integers(0, 3, 999), np.zeros(999)):
            given = words.astype(np.uint64)
            ordered = np.sort(given)
            keys.sort(given)
            assert_array_equal(given, ordered)


def test_numbers_of_the_last_field_start_where_a_search_finds_them():
    score, group = np.round(RNG.normal(size=500), 2), RNG.integers(0, 9, 500)
    for most in (12, 1 << 20):
        coded = Score.of(score)
        packed = Packed(500, [position(500), coded.field(), whole(group, most)])
        expected = np.searchsorted(np.sort(group), np.arange(13))
        assert_array_equal(packed.edges(12), expected)


def _slices_of_many_sizes():
    sizes = RNG.permutation(np.concatenate([np.full(30, 1), np.arange(2, 60), [700, 701, 3000]]))
    group = np.repeat(np.arange(len(sizes)), sizes)
    y = RNG.random(len(group)) < np.repeat(RNG.choice([0, 0.3, 0.6, 1], len(sizes)), sizes)
    scores = np.where(group % 2, RNG.normal(size=len(group)), RNG.integers(0, 6, len(group)))
    return pl.DataFrame({"g": group, "y": y, "s": scores}).sample(fraction=1, shuffle=True, seed=1)


@pytest.mark.parametrize("interval", [None, "auto"])
def test_slices_side_by_side_are_as_slices_alone(interval, monkeypatch):
    frame = _slices_of_many_sizes()
    asked = [
        fe.roc_auc("y", "s"),
        fe.gini("y", "s"),
        fe.average_precision("y", "s"),
        fe.average_precision("y", "s", at_prevalence=0.2),
        fe.ks("y", "s"),
        fe.quantile("s", 0.3),
    ]
    together = frame.eval.summary(*asked, by="g", interval=interval)
    monkeypatch.setattr("frame_eval.inference.ranked.stacked", lambda _: [])
    alone = frame.eval.summary(*asked, by="g", interval=interval)
    assert_frame_equal(together, alone, rel_tol=1e-12)
    for (group,), rows in frame.group_by("g"):
        if rows["y"].n_unique() == 2:
            found = together.filter(g=group, metric="roc_auc")["estimate"].item()
            assert found == pytest.approx(roc_auc_score(rows["y"], rows["s"]), rel=1e-13)


def _of_one_slice(s):
    return float(s.dot("x", lambda c: c.from_top("x") / s.total("x"))) / max(s.total("x"), 1.0)


def test_functions_that_know_one_slice_alone_are_asked_about_one():
    """Totals that are taken for numbers, in a term and outside: by hand for every slice."""
    metric = fe.Metric(
        "mine",
        {"s": fe.roc_auc("y", "s").made["s"], "x": "x"},
        lambda c: {"x": c.x},
        _of_one_slice,
        cells=("s",),
        ordered=True,
    )
    frame = _slices_of_many_sizes().with_columns(x=pl.col("y").cast(pl.Float64) + 0.5)
    found = frame.eval.summary(metric, by="g", interval=None)
    for (group,), rows in frame.group_by("g"):
        cells = rows.group_by("s").agg(pl.col("x").sum()).sort("s")["x"].to_numpy()
        above = np.cumsum(cells[::-1])[::-1]
        expected = cells @ above / cells.sum() / max(cells.sum(), 1.0)
        assert found.filter(g=group)["estimate"].item() == pytest.approx(expected, rel=1e-12)
