"""What must hold for every frame: order, chunks, engine and the names of slices do not matter."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import frame_eval as fe

METRICS = [
    fe.rate("ok"),
    fe.mean("x"),
    fe.ratio("x", "size"),
    fe.median("x"),
    fe.recall("ok", "pred"),
    fe.f1("ok", "pred"),
    fe.mcc("ok", "pred"),
    fe.f1("kind", "guess", average="macro"),
    fe.roc_auc("ok", "score"),
    fe.brier("ok", "prob"),
    fe.log_loss("ok", "prob"),
    fe.ece("ok", "prob", bins=4),
    fe.ece("ok", "prob", bins=4, strategy="quantile").alias("quantile_ece"),
    fe.calibration_slope("ok", "prob"),
    fe.cohen_kappa("kind", "guess", weights="linear", labels=["eel", "cat", "dog"]),
    fe.informedness("ok", "pred"),
]
ROLES: list[dict[str, Any]] = [
    {},
    {"cluster": "doc"},
    {"weight": "w"},
    {"cluster": "doc", "weight": "w"},
]
KINDS = ["cat", "dog", "eel"]
# Sixteenths are exact and their sums too, so that only real differences are seen.
NUMBER = st.integers(-64, 64).map(lambda value: value / 16)
ROW = st.fixed_dictionaries(
    {
        "lang": st.sampled_from(["de", "fr", "sw"]),
        "doc": st.integers(0, 3),
        "ok": st.integers(0, 1),
        "pred": st.integers(0, 1),
        "x": NUMBER,
        "size": st.integers(1, 5),
        "kind": st.sampled_from(KINDS),
        "guess": st.sampled_from(KINDS),
        "score": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "prob": st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 0.875]),
        "w": st.sampled_from([0.5, 1.0, 2.0]),
    }
)
FRAMES = st.lists(ROW, min_size=1, max_size=14).map(pl.DataFrame)
each_example = settings(max_examples=50, deadline=None)


def assert_same(left: Any, right: Any, *, rel_tol: float = 1e-9) -> None:
    if isinstance(left, pd.DataFrame):
        left = pl.from_pandas(left).cast({"note": pl.String, "method": pl.String})
    assert_frame_equal(left, right, rel_tol=rel_tol, abs_tol=1e-11, check_dtypes=False)


@each_example
@given(frame=FRAMES, roles=st.sampled_from(ROLES), seed=st.integers(0, 9))
def test_row_order_does_not_matter(frame, roles, seed) -> None:
    shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
    expected = frame.eval.summary(*METRICS, by="lang", **roles)
    assert_same(shuffled.eval.summary(*METRICS, by="lang", **roles), expected)


@each_example
@given(frame=FRAMES, roles=st.sampled_from(ROLES), cut=st.integers(0, 14))
def test_chunks_and_engine_do_not_matter(frame, roles, cut) -> None:
    expected = frame.eval.summary(*METRICS, by="lang", **roles)
    chunked = pl.concat([frame[:cut], frame[cut:]], rechunk=False)
    for other in (chunked, frame.lazy(), frame.to_pandas()):
        assert_same(other.eval.summary(*METRICS, by="lang", **roles), expected)


@each_example
@given(frame=FRAMES, roles=st.sampled_from(ROLES), names=st.permutations(["de", "fr", "sw"]))
def test_other_names_of_slices_only_permute_the_rows(frame, roles, names) -> None:
    renamed = dict(zip(["de", "fr", "sw"], names, strict=True))
    other = frame.with_columns(pl.col("lang").replace(renamed))
    expected = frame.eval.summary(*METRICS, by="lang", **roles)
    result = other.eval.summary(*METRICS, by="lang", **roles)
    moved = expected.with_columns(pl.col("lang").replace(renamed)).sort("lang", maintain_order=True)
    assert_same(result, moved)


@each_example
@given(frame=FRAMES, roles=st.sampled_from(ROLES))
def test_stacked_slices_are_the_slices_and_the_whole(frame, roles) -> None:
    stacked = frame.eval.summary(*METRICS, by=fe.each("lang"), overall=True, **roles)
    whole = frame.eval.summary(*METRICS, **roles)
    single = frame.eval.summary(*METRICS, by="lang", **roles)
    parts = stacked.partition_by("slice", maintain_order=True)
    assert_same(parts[0].drop("slice", "value"), whole)
    assert_same(parts[1].drop("slice").rename({"value": "lang"}), single)


@each_example
@given(
    frame=FRAMES, scale=st.sampled_from([0.125, 3.0, 1e6]), cluster=st.sampled_from([None, "doc"])
)
def test_weights_are_free_of_scale(frame, scale, cluster) -> None:
    options = {"by": "lang", "cluster": cluster, "weight": "w"}
    expected = frame.eval.summary(*METRICS, **options)
    scaled = frame.with_columns(pl.col("w") * scale)
    assert_same(scaled.eval.summary(*METRICS, **options), expected)


@each_example
@given(frame=FRAMES, times=st.integers(2, 4))
def test_copies_within_a_cluster_say_nothing_new(frame, times) -> None:
    options: dict[str, Any] = {"by": "lang", "cluster": "doc"}
    once = frame.eval.summary(fe.mean("x"), **options)
    often = pl.concat([frame] * times).eval.summary(fe.mean("x"), **options)
    assert often["n"].to_list() == [times * n for n in once["n"]]
    # Documents of one row each take the path without clusters, with n - 1: others take CR2. The
    # degrees of freedom, and so the interval, depend on how alike the rows of a document are.
    same = once["n"] != once["clusters"]
    columns = ["lang", "estimate", "std_error", "clusters"]
    assert_same(often.select(columns).filter(same), once.select(columns).filter(same))
    assert_same(often.select("lang", "estimate"), once.select("lang", "estimate"))


@each_example
@given(frame=FRAMES)
def test_two_equal_systems_do_not_differ(frame) -> None:
    rows = frame.with_row_index("id").drop("w")
    both = pl.concat([rows.with_columns(model=pl.lit(name)) for name in ("a", "b")])
    metrics = [fe.rate("ok"), fe.mean("x"), fe.f1("ok", "pred")]
    result = both.eval.compare(*metrics, system="model", example="id", baseline="a")
    assert set(result["difference"].drop_nulls()) <= {0.0}
    assert set(result["p_value"].drop_nulls()) <= {1.0}
