"""Totals of groups that are added up batch by batch, against a group-by of Polars."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from frame_eval.reduce import groups
from frame_eval.reduce.groups import TooManyGroups, Total, totals_of

ROWS = 100_000
RNG = np.random.default_rng(8)
CODE = RNG.integers(0, 30_000, ROWS)
FRAME = pl.DataFrame(
    {
        "text": pl.Series(["a", None, "", "a text of more than twelve letters"])[CODE % 4],
        "long": [f"document number {c % 9_000}" for c in CODE],
        "whole": pl.Series(CODE - 15_000, dtype=pl.Int32),
        "real": pl.Series(np.where(CODE % 5 == 0, -0.0, CODE / 7)),
        "flag": pl.Series([True, None, False])[CODE % 3],
        "day": pl.Series(CODE, dtype=pl.Int32).cast(pl.Date),
        "list": pl.Series([[1, 2], [1], None])[CODE % 3],
        "x": 1e6 + RNG.normal(0, 1, ROWS),
        "bit": pl.Series(RNG.random(ROWS) < 0.4),
    }
).with_columns(gaps=pl.when(pl.Series(RNG.random(ROWS) < 0.4)).then(pl.col("x") / 9))
TOTALS = [
    Total("n", "rows"),
    Total("bits", "sum", nw.col("bit").cast(nw.Int8)),
    Total("sum", "sum", nw.col("gaps")),
    Total("spread", "variance", nw.col("x")),
    Total("some", "variance", nw.col("gaps")),
]
KEYS = [["text"], ["whole"], ["long", "flag"], ["real", "text"], ["day"], ["list", "whole"]]


def assert_grouped(keys, frame=FRAME) -> None:
    lazy = nw.from_native(frame.lazy())
    # A large mean would cost Polars digits of the variance.
    near = nw.from_native(frame.lazy().with_columns(pl.col("x") - 1e6))
    expected = nw.to_native(
        near.group_by(*keys).agg(*(total.aggregate(nw) for total in TOTALS)).collect()
    )
    expected = expected.with_columns(
        pl.col("some").fill_null(0.0), pl.col("n", "bits").cast(pl.Float64)
    )
    found = totals_of(lazy, keys, TOTALS)
    options = {"check_row_order": False, "rel_tol": 1e-9, "abs_tol": 1e-12}
    assert_frame_equal(found, expected, **options)


@pytest.mark.parametrize("keys", KEYS, ids=repr)
@pytest.mark.parametrize("batch", [1_000, 1 << 18])
def test_totals_are_those_of_a_group_by(keys, batch, monkeypatch) -> None:
    monkeypatch.setattr(groups, "_BATCH", batch)
    assert_grouped(keys)


def test_no_rows_have_no_groups() -> None:
    assert_grouped(["text", "whole"], FRAME.clear())


@pytest.mark.parametrize("room", [64, 1 << 12])
def test_there_is_room_for_any_number_of_groups(room, monkeypatch) -> None:
    monkeypatch.setattr(groups, "_ROOM", room)
    assert_grouped(["whole", "text"])


def test_groups_that_lead_to_one_place_are_told_apart(monkeypatch) -> None:
    first = groups._hash(["whole"], 0)
    poor = {0: first % 7 * 2**61, 1: groups._hash(["whole"], 1)}
    monkeypatch.setattr(groups, "_hash", lambda _, seed: poor[seed])
    assert_grouped(["whole"], FRAME[:3_000])


def test_more_groups_than_fit_are_refused() -> None:
    lazy = nw.from_native(FRAME.lazy())
    with pytest.raises(TooManyGroups):
        totals_of(lazy, ["whole"], TOTALS, 5_000)
