"""One body of tests, every engine: the same numbers, notes and methods as eager Polars."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import engines
from frame_eval.reduce.engines import collect

RNG = np.random.default_rng(7)
ROWS = 240


def rows() -> pl.DataFrame:
    """A table with what evaluation tables hold: two systems on the same examples in documents."""
    half = ROWS // 2
    example = np.tile(np.arange(half), 2)
    document = example // 5
    label = (RNG.random(half) < 0.4)[example]
    score = np.round(RNG.normal(label * 1.0, 1.0), 1)
    return pl.DataFrame(
        {
            "model": ["a"] * half + ["b"] * half,
            "id": example,
            "doc": [f"d{d}" for d in document],
            "lang": np.array(["sw", "de", "fr"])[example % 3],
            "domain": np.array(["law", "news"])[(example // 3) % 2],
            "tokens": (example * 37) % 900,
            "weight": 1.0 + (example % 4),
            "label": label.astype(np.int64),
            "pred": (score > 0.5).astype(np.int64),
            "kind": np.array(["cat", "dog", "eel"])[RNG.integers(0, 3, ROWS)],
            "guess": np.array(["cat", "dog", "eel"])[RNG.integers(0, 3, ROWS)],
            "score": score,
            "latency": RNG.lognormal(0, 1, ROWS),
            "target": RNG.normal(0, 1, ROWS),
        }
    )


TABLE = rows()
METRICS = [
    fe.rate("label"),
    fe.mean("latency"),
    fe.ratio("latency", "tokens"),
    fe.median("latency"),
    fe.quantile("latency", 0.9),
    fe.mae("target", "latency"),
    fe.rmse("target", "latency"),
    fe.bias("target", "latency"),
    fe.accuracy("label", "pred"),
    fe.precision("label", "pred"),
    fe.recall("label", "pred"),
    fe.specificity("label", "pred"),
    fe.f1("label", "pred"),
    fe.fbeta("label", "pred", 2),
    fe.mcc("label", "pred"),
    fe.balanced_accuracy("kind", "guess"),
    fe.cohen_kappa("kind", "guess"),
    fe.f1("kind", "guess", average="macro"),
    fe.precision("kind", "guess", average="weighted"),
    fe.recall("kind", "guess", average=None).alias("class_recall"),
    fe.roc_auc("label", "score"),
]
SLICES: dict[str, dict[str, Any]] = {
    "all": {},
    "column": {"by": "lang"},
    "list": {"by": ["lang", "domain"]},
    "each": {"by": fe.each("lang", "domain"), "overall": True},
    "cube": {"by": fe.cube("lang", "domain")},
    "where": {"by": fe.where(long=fe.col("tokens") > 400, short=fe.col("tokens") <= 500)},
}
ROLES: dict[str, dict[str, Any]] = {
    "rows": {},
    "clusters": {"system": "model", "cluster": "doc"},
    "examples": {"system": "model", "example": "id"},
    "weights": {"weight": "weight"},
    "weighted clusters": {"system": ["model"], "cluster": ["doc"], "weight": "weight"},
}


def polars_of(result: Any) -> pl.DataFrame:
    return pl.from_pandas(result) if isinstance(result, pd.DataFrame) else result


def assert_same(left: Any, right: Any) -> None:
    assert_frame_equal(
        polars_of(left), polars_of(right), rel_tol=1e-12, abs_tol=1e-13, check_dtypes=False
    )


@pytest.mark.parametrize("slices", SLICES)
@pytest.mark.parametrize("roles", ROLES)
def test_summary_is_the_same_on_every_engine(engine, slices, roles) -> None:
    options = {**SLICES[slices], **ROLES[roles]}
    expected = TABLE.eval.summary(*METRICS, **options)
    shuffled = TABLE.sample(fraction=1, shuffle=True, seed=3)
    assert_same(fe.of(engine(shuffled)).summary(*METRICS, **options), expected)


@pytest.mark.parametrize("missing", ["drop", "worst"])
def test_missing_values_are_the_same_on_every_engine(engine, missing) -> None:
    holes = TABLE.with_columns(
        pl.when(pl.col("id") % 7 == 0).then(None).otherwise("pred").alias("pred"),
        pl.when(pl.col("id") % 5 == 0).then(None).otherwise("label").alias("seen"),
    )
    metrics = [fe.rate("seen"), fe.accuracy("label", "pred"), fe.f1("label", "pred")]
    if missing == "drop":
        metrics += [fe.mcc("seen", "pred"), fe.roc_auc("seen", "score"), fe.ratio("seen", "pred")]
    options = {"by": "lang", "cluster": "doc", "missing": missing}
    expected = holes.eval.summary(*metrics, **options)
    assert expected["missing"].sum() > 0
    assert_same(fe.of(engine(holes)).summary(*metrics, **options), expected)


def test_trials_and_units_are_the_same_on_every_engine(engine) -> None:
    trials = TABLE.with_columns(trial=pl.col("model"), task=pl.col("id") // 3)
    trials = trials.with_columns(trial=pl.format("{}-{}", "model", "id")).head(237)
    options = {"example": "task", "trial": "trial", "by": "domain"}
    metrics = [fe.rate("label"), fe.pass_at_k("label", 2), fe.f1("label", "pred")]
    expected = trials.eval.summary(*metrics, **options)
    assert_same(fe.of(engine(trials)).summary(*metrics, **options), expected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cluster": "doc"},
        {"by": fe.each("lang", "domain"), "overall": True},
        {"weight": "weight", "by": "lang"},
    ],
)
def test_compare_is_the_same_on_every_engine(engine, options) -> None:
    metrics = [fe.accuracy("label", "pred"), fe.mean("latency"), fe.f1("label", "pred")]
    metrics += [fe.roc_auc("label", "score"), fe.cohen_kappa("kind", "guess")]
    options = {"system": "model", "example": "id", "baseline": "a", **options}
    expected = TABLE.eval.compare(*metrics, **options)
    shuffled = TABLE.sample(fraction=1, shuffle=True, seed=3)
    assert_same(fe.of(engine(shuffled)).compare(*metrics, **options), expected)


def test_guard_is_the_same_on_every_engine(engine) -> None:
    rules = [
        fe.rule(fe.accuracy("label", "pred"), max_drop=0.05),
        fe.rule(fe.recall("label", "pred"), min=0.6, where=fe.col("tokens") > 100),
    ]
    options = {"system": "model", "example": "id", "baseline": "a", "by": "lang"}
    expected = TABLE.eval.guard(*rules, **options)
    assert_same(fe.of(engine(TABLE)).guard(*rules, **options), expected)


TODAY = dt.date(2026, 1, 5)
KEYS: dict[str, pl.Series] = {
    "string": pl.Series(["b", "a", None] * 8),
    "categorical": pl.Series(["b", "a", None] * 8, dtype=pl.Categorical),
    "enum": pl.Series(["b", "a", None] * 8, dtype=pl.Enum(["c", "b", "a"])),
    "bool": pl.Series([True, False, None] * 8),
    "int": pl.Series([3, -1, None] * 8, dtype=pl.Int32),
    "uint8": pl.Series([3, 1, 250] * 8, dtype=pl.UInt8),
    "float": pl.Series([0.5, float("nan"), None] * 8),
    "decimal": pl.Series([Decimal("1.50"), Decimal("0.25"), None] * 8),
    "date": pl.Series([TODAY, TODAY - dt.timedelta(3), None] * 8),
    "zoned": pl.Series(
        [dt.datetime(2026, 1, 5, 12), dt.datetime(2025, 7, 5), None] * 8, dtype=pl.Datetime("us")
    ).dt.replace_time_zone("Europe/Vienna"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_any_type_make_the_same_slices(engine, kind) -> None:
    frame = pl.DataFrame({"key": KEYS[kind], "ok": [1, 0, 1, 1] * 6})
    expected = frame.eval.summary(fe.rate("ok"), by="key")
    groups = frame["key"].fill_nan(None) if kind == "float" else frame["key"]
    assert expected.height == groups.n_unique()
    assert expected["key"].dtype == frame["key"].dtype
    shown = expected["key"].cast(pl.String).to_list()
    text = [value for value in shown if value is not None]
    if kind in ("string", "categorical", "enum"):
        assert text == sorted(text)
    assert shown[-1] is None or None not in shown
    result = polars_of(fe.of(engine(frame)).summary(fe.rate("ok"), by="key"))
    same = ["estimate", "ci_low", "ci_high", "n", "method"]
    assert_frame_equal(result.select(same), expected.select(same), rel_tol=1e-12)
    # Dates are time stamps in pandas.
    keys = result["key"].cast(pl.Date) if kind == "date" else result["key"]
    assert keys.to_list() == expected["key"].to_list()


def test_nan_is_missing_and_outside_of_conditions(engine) -> None:
    frame = pl.DataFrame(
        {"x": [0.5, float("nan"), None, 2.0] * 6, "id": [f"e{i}" for i in range(24)]}
    )
    by = fe.where(high=fe.col("x") > 0.5, known=fe.col("x") < 99)
    options = {"by": by, "example": "id", "missing": "drop", "overall": True}
    expected = frame.eval.summary(fe.mean("x"), **options)
    assert dict(expected.select("slice", "n").rows()) == {"overall": 12, "high": 6, "known": 12}
    assert expected.filter(slice="overall")["missing"].item() == 12
    assert_same(fe.of(engine(frame)).summary(fe.mean("x"), **options), expected)


def test_pandas_keys_keep_their_dtype() -> None:
    frame = pd.DataFrame(
        {
            "text": ["b", "a", "b"],
            "kind": pd.Categorical(["y", "x", "y"], categories=["z", "y", "x"]),
            "small": np.array([2, 1, 2], np.int8),
            "nullable": pd.array([1, None, 1], dtype="Int16"),
            "zoned": pd.to_datetime(["2026-01-02", "2026-01-01", "2026-01-02"]).tz_localize(
                "Asia/Tokyo"
            ),
            "ok": [1, 0, 0],
        },
        index=[5, 5, 7],
    )
    keys = ["text", "kind", "small", "nullable", "zoned"]
    result = frame.eval.summary(fe.rate("ok"), by=keys)
    assert isinstance(result, pd.DataFrame)
    assert isinstance(result.index, pd.RangeIndex)
    for key in keys:
        assert result[key].dtype == frame[key].dtype, key
    assert result["text"].tolist() == ["a", "b"]
    assert result["kind"].tolist() == ["x", "y"]
    assert result["estimate"].tolist() == [0.0, 0.5]


RESULT = ["n", "estimate", "level", "method", "note", "metric", "class", "clusters"]


def test_columns_called_like_results_stay_out_of_the_result() -> None:
    frame = pd.DataFrame({"kind": ["x", "y"], "guess": ["x", "x"], "s": ["a", "b"]})
    frame = frame.assign(**{name: pd.Categorical([3, 4]) for name in (*RESULT, "value", "slice")})
    metrics = [fe.accuracy("kind", "guess"), fe.f1("kind", "guess", average=None)]
    for options in ({}, {"by": "s"}, {"by": fe.each("s"), "overall": True}):
        plain = frame[["kind", "guess", "s"]].eval.summary(*metrics, **options)
        pd.testing.assert_frame_equal(frame.eval.summary(*metrics, **options), plain)


def test_systems_in_pandas_comparisons_keep_their_dtype() -> None:
    model = pd.Categorical(["x", "x", "y", "y"], categories=["y", "x"])
    frame = pd.DataFrame({"model": model, "id": [1, 2, 1, 2], "ok": [1, 0, 1, 1]})
    frame["system"] = [1.0, 2.0, 3.0, 4.0]
    result = frame.eval.compare(fe.rate("ok"), system="model", example="id", baseline="x")
    assert result["system"].dtype == result["baseline"].dtype == frame["model"].dtype
    assert result["baseline"].tolist() == ["x"]


PANDAS_KEYS = {
    "interval": pd.cut([1, 2, 9, 9], 2),
    "period": pd.PeriodIndex(["2020-02", "2020-01", None, None], freq="M").to_series().array,
    "timedelta": pd.to_timedelta([2, 1, None, None], unit="D"),
    "dates": pd.Series([dt.date(2026, 1, 5), dt.date(2026, 1, 2), None, None], dtype=object),
    "objects": pd.Series([True, False, None, None], dtype=object),
    "int category": pd.Categorical([10, 2, None, None], categories=[10, 3, 2]),
}


@pytest.mark.parametrize("kind", PANDAS_KEYS)
def test_pandas_keys_come_back_as_they_were(kind) -> None:
    frame = pd.DataFrame({"key": PANDAS_KEYS[kind], "ok": [1, 0, 1, 1]})
    result = frame.eval.summary(fe.rate("ok"), by="key")
    assert result["n"].tolist() == ([2, 2] if kind == "interval" else [1, 1, 2])
    assert set(result["key"].dropna()) == set(frame["key"].dropna())
    if kind != "timedelta":  # its unit is that of Arrow
        assert result["key"].dtype == frame["key"].dtype


def test_integers_that_fit_nowhere_are_refused() -> None:
    frame = pd.DataFrame({"key": pd.Series([2**200, 1], dtype=object), "ok": [1, 0]})
    with pytest.raises(fe.ColumnError, match="'key'"):
        frame.eval.summary(fe.rate("ok"), by="key")


def test_sparse_columns_are_read() -> None:
    frame = pd.DataFrame({"x": pd.arrays.SparseArray([1.0, 0.0, 0.0, 0.0])})
    assert frame.eval.summary(fe.mean("x"))["estimate"].item() == 0.25


TEXTLESS: dict[str, tuple[list[Any], list[str | None]]] = {
    "duration": ([dt.timedelta(1), dt.timedelta(2)], ["1 day, 0:00:00", "2 days, 0:00:00"]),
    "list": ([[1], [2]], ["[1]", "[2]"]),
    "bytes": ([b"a", b"\xff"], ["b'a'", r"b'\xff'"]),
    "zeros": ([-0.0, 0.0], ["0.0"]),
    "nulls": ([None, None], [None]),
}


@pytest.mark.parametrize("kind", TEXTLESS)
def test_every_key_has_a_text_when_stacked(kind) -> None:
    values, text = TEXTLESS[kind]
    frame = pl.DataFrame({"key": values, "ok": [1, 0]})
    result = frame.eval.summary(fe.rate("ok"), by=fe.each("key"))
    assert result["value"].to_list() == text


def test_wide_integers_are_keys() -> None:
    for dtype, most in ((pl.Int128, 2**100), (pl.UInt64, 2**64 - 1), (pl.Int64, 2**63 - 1)):
        frame = pl.DataFrame({"key": pl.Series([most, 5], dtype=dtype), "ok": [1, 0]})
        result = frame.eval.summary(fe.rate("ok"), by="key")
        assert result["key"].to_list() == [5, most]
        assert result["key"].dtype == dtype


def test_a_column_of_nulls_is_all_missing(engine) -> None:
    frame = pl.DataFrame({"ok": [1, 0], "kind": ["a", "b"]})
    frame = frame.with_columns(none=pl.Series([None, None], dtype=pl.Null))
    metrics = [fe.rate("none"), fe.mean("none"), fe.precision("ok", "none")]
    metrics += [fe.accuracy("ok", "none"), fe.cohen_kappa("ok", "none"), fe.roc_auc("ok", "none")]
    result = polars_of(fe.of(engine(frame)).summary(*metrics, missing="drop"))
    assert result["missing"].to_list() == [2] * len(metrics)
    assert result["estimate"].null_count() == len(metrics)


def test_text_and_a_column_of_nulls_can_be_compared() -> None:
    frame = pl.DataFrame({"kind": ["a", "b"], "none": pl.Series([None, None], dtype=pl.Null)})
    metrics = [fe.accuracy("kind", "none"), fe.cohen_kappa("kind", "none")]
    metrics += [fe.precision("kind", "none", positive="a")]
    for other in (frame, frame.lazy(), frame.to_pandas()):
        result = polars_of(other.eval.summary(*metrics, missing="drop"))
        assert result["missing"].to_list() == [2, 2, 2]
        assert result["estimate"].null_count() == 3


def test_metrics_asked_together_say_what_they_say_alone() -> None:
    # Problem 1 has three attempts and problem 2 has two.
    frame = pl.DataFrame({"id": [1, 1, 1, 2, 2], "t": [0, 1, 2, 0, 1], "ok": [1, 0, 0, 1, 1]})
    metrics = [fe.rate("ok"), fe.pass_at_k("ok", 1), fe.pass_at_k("ok", 2)]
    together = frame.eval.summary(*metrics, example="id", trial="t")
    alone = [frame.eval.summary(one, example="id", trial="t") for one in metrics]
    assert_frame_equal(together, pl.concat(alone))
    assert together["estimate"].to_list() == pytest.approx([2 / 3, 2 / 3, 5 / 6])


def test_named_index_levels_are_columns_too() -> None:
    frame = pd.DataFrame({"ok": [1, 0, 1, 1]})
    frame.index = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["model", "id"])
    result = frame.eval.summary(fe.rate("ok"), system="model", example="id")
    assert result["model"].tolist() == ["a", "b"]
    assert result["estimate"].tolist() == [0.5, 1.0]
    difference = frame.eval.compare(fe.rate("ok"), system="model", example="id", baseline="a")
    assert difference["difference"].tolist() == [0.5]


INPUTS: dict[str, pl.Series] = {
    "bool": pl.Series([True, False, True, True]),
    "uint8": pl.Series([1, 0, 1, 1], dtype=pl.UInt8),
    "int8": pl.Series([1, 0, 1, 1], dtype=pl.Int8),
    "float32": pl.Series([1, 0, 1, 1], dtype=pl.Float32),
    "decimal": pl.Series([Decimal(1), Decimal(0), Decimal(1), Decimal(1)]),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_of_any_type_give_the_same_numbers(engine, kind) -> None:
    frame = pl.DataFrame({"x": INPUTS[kind], "p": [1, 1, 0, 1], "s": [0.9, 0.2, 0.4, 0.4]})
    metrics = [fe.mean("x"), fe.rate("x"), fe.ratio("x", "p"), fe.bias("x", "p")]
    metrics += [fe.f1("x", "p"), fe.accuracy("x", "p"), fe.roc_auc("x", "s"), fe.mcc("x", "p")]
    expected = frame.with_columns(pl.col("x").cast(pl.Int64)).eval.summary(*metrics)
    assert_same(fe.of(engine(frame)).summary(*metrics), expected)


def test_small_integers_do_not_wrap(engine) -> None:
    frame = pl.DataFrame(
        {
            "y": pl.Series([200, 10, 250], dtype=pl.UInt8),
            "p": pl.Series([250, 20, 0], dtype=pl.UInt8),
        }
    )
    result = polars_of(fe.of(engine(frame)).summary(fe.mae("y", "p"), fe.bias("y", "p")))
    assert result["estimate"].to_list() == pytest.approx([310 / 3, -190 / 3], rel=1e-14)


def test_unobserved_categories_make_no_slice() -> None:
    kind = pd.Categorical(["x", "y"], categories=["w", "x", "y", "z"])
    frame = pd.DataFrame({"kind": kind, "ok": [1, 0]})
    assert frame.eval.summary(fe.rate("ok"), by="kind")["kind"].tolist() == ["x", "y"]


def test_a_null_condition_is_outside_and_an_empty_one_is_shown(engine) -> None:
    frame = pl.DataFrame({"tokens": [1, None, 9, 4], "ok": [1, 1, 0, 1]})
    by = fe.where(long=fe.col("tokens") > 3, none=fe.col("tokens") > 99)
    result = polars_of(fe.of(engine(frame)).summary(fe.rate("ok"), by=by))
    assert result["slice"].to_list() == ["long", "none"]
    assert result["n"].to_list() == [2, 0]
    assert result["estimate"].to_list() == [0.5, None]
    assert result["note"][1] == "no rows"


def test_only_the_needed_columns_are_read(tmp_path) -> None:
    path = tmp_path / "rows.parquet"
    TABLE.write_parquet(path)
    # A column that can not be read would fail the query if it were touched.
    scan = pl.scan_parquet(path).with_columns(poison=pl.col("kind").cast(pl.Int64, strict=True))
    result = scan.eval.summary(fe.rate("label"), by="lang", cluster="doc")
    assert_same(result, TABLE.eval.summary(fe.rate("label"), by="lang", cluster="doc"))
    frame = TABLE.to_pandas().assign(poison=[object()] * ROWS)
    assert_same(frame.eval.summary(fe.rate("label"), by="lang", cluster="doc"), result)


def test_dask_reads_the_needed_columns_of_its_partitions_and_its_index() -> None:
    pytest.importorskip("dask.dataframe")
    import dask

    frame = TABLE.select("lang", "label", "tokens").to_pandas(use_pyarrow_extension_array=True)
    frame = frame.assign(odd=[Decimal(1), "a"] * (ROWS // 2)).set_index("lang")
    with dask.config.set({"dataframe.convert-string": False}):
        evaluation = fe.of(dask.dataframe.from_pandas(frame, npartitions=12, sort=False))
    by_index = {"by": "lang", "overall": True}
    expected = TABLE.eval.summary(fe.rate("label"), **by_index)
    assert_same(evaluation.summary(fe.rate("label"), **by_index), expected)
    native = fe.mean(pl.col("tokens") / 2)
    assert_same(evaluation.summary(native), TABLE.eval.summary(native))
    with pytest.raises(fe.ColumnError, match="'odd' holds Python objects; cast it to one type"):
        evaluation.summary(fe.rate("label"), by="odd")


WHERE = {"narwhals": fe.col("tokens") > 400, "polars": pl.col("tokens") > 400}


@pytest.mark.parametrize("kind", WHERE)
def test_filters_and_columns_reach_the_scan_of_polars(kind, tmp_path, monkeypatch) -> None:
    path = tmp_path / "rows.parquet"
    TABLE.write_parquet(path)
    plans = []
    collect_batches = pl.LazyFrame.collect_batches

    def explained(frame, **how):
        plans.append(frame.explain())
        return collect_batches(frame, **how)

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", explained)
    scan = pl.scan_parquet(path).filter(pl.col("domain") == "law")
    rule = fe.rule(fe.rate("label"), min=0.1, where=WHERE[kind])
    scan.eval.guard(rule, by="lang")
    (plan,) = plans
    assert f"PROJECT 4/{TABLE.width} COLUMNS" in plan
    (selection,) = [line for line in plan.splitlines() if "SELECTION" in line]
    assert '"domain"' in selection
    assert '"tokens"' in selection


def test_filters_and_columns_reach_the_scan_of_duckdb(tmp_path, monkeypatch) -> None:
    path = tmp_path / "rows.parquet"
    TABLE.write_parquet(path)
    plans = []

    def explained(frame, **how):
        plans.append(nw.to_native(frame, pass_through=True).explain())
        return collect(frame, **how)

    monkeypatch.setattr(engines, "collect", explained)
    relation = duckdb.connect().read_parquet(str(path)).filter("domain = 'law'")
    rule = fe.rule(fe.rate("label"), min=0.1, where=fe.col("tokens") > 400)
    fe.of(relation).guard(rule, by="lang")
    (plan,) = plans
    scan = plan[plan.index("Parquet Scan") :]
    assert {"label", "lang"} <= set(re.findall(r"\w+", scan))
    assert not {"doc", "latency", "score"} & set(re.findall(r"\w+", scan))
    filters = scan[scan.index("Filters") :]
    assert "domain" in filters
    assert "tokens" in filters


def test_large_offsets_keep_their_errors(engine) -> None:
    frame = pl.DataFrame({"x": 1e9 + np.arange(50.0) % 7, "g": np.arange(50) % 2})
    result = polars_of(fe.of(engine(frame)).summary(fe.mean("x"), by="g"))
    expected = frame.group_by("g").agg(pl.col("x").std() / pl.len().sqrt()).sort("g")
    # The values hold the spread to 1e-16 * 1e9 / 2: no algorithm has more digits than this.
    assert result["std_error"].to_list() == pytest.approx(expected["x"].to_list(), rel=1e-8)
