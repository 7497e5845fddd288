"""Codes of keys and the order of rows, against pandas and numpy."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import frame_eval as fe
from frame_eval.inference.linear import added
from frame_eval.reduce.coding import codes, sparse_codes
from frame_eval.table import Sorting, bisected, joined, keyed, packed

RNG = np.random.default_rng(11)
FEW = RNG.integers(0, 3, 200)
MANY = RNG.integers(0, 5000, 6000)
COLUMNS = {
    "few texts": [["b", "a", ""][i] for i in FEW],
    "texts with nulls": [["b", None, "a"][i] for i in FEW],
    "many texts": [f"example {i}" for i in MANY],
    "dense numbers": MANY + 7,
    "numbers with gaps": MANY * 3 - 900,
    "wide numbers": MANY * 10**12,
    "small integers": pl.Series(FEW, dtype=pl.Int8),
    "unsigned": pl.Series(FEW, dtype=pl.UInt64),
    "floats": [[0.5, None, -0.0][i] for i in FEW],
    "booleans": FEW > 1,
    "booleans with nulls": [[True, None, False][i] for i in FEW],
    "days": [[date(2024, 2, 29), None, date(2023, 3, 1)][i] for i in FEW],
    "decimals": [[Decimal("0.10"), Decimal("-1.25"), None][i] for i in FEW],
    "nothing": [None] * 5,
    "one value": np.zeros(5, int),
}


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_codes_are_positions_among_sorted_values(name, long) -> None:
    column = pl.Series("key", COLUMNS[name])
    if long:
        column = pl.concat([column] * (20_000 // len(column)))
    found, values = codes(column.to_frame(), ["key"])
    expected, distinct = pd.factorize(
        pd.Series(column.to_list(), dtype=object), sort=True, use_na_sentinel=False
    )
    assert found.tolist() == expected.tolist()
    assert values["key"].to_list() == [None if pd.isna(value) else value for value in distinct]
    assert values.schema["key"] == column.dtype


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("name", COLUMNS)
def test_sparse_codes_tell_the_same_rows_apart(name, copies) -> None:
    column = pl.concat([pl.Series("key", COLUMNS[name])] * copies)
    found, many = sparse_codes(column.to_frame(), ["key"])
    expected, values = codes(column.to_frame(), ["key"])
    pairs = np.unique(np.stack([found, expected]), axis=1)
    assert pairs.shape[1] == len(np.unique(found)) == values.height
    assert (np.diff(pairs[1]) > 0).all()
    assert pairs[0, 0] >= 0
    assert pairs[0, -1] < many <= max(values.height, len(column))


@pytest.mark.parametrize("copies", [1, 100])
def test_codes_of_several_keys(copies) -> None:
    """Every combination that occurs, in the order of the keys, nulls last."""
    rows = list(zip([3, None, 3, 1] * 50, ["b", "a", None, "a"] * 50, FEW > 1, strict=True))
    frame = pl.DataFrame(rows * copies, schema=["x", "y", "z"], orient="row")
    found, values = codes(frame, ["x", "y", "z"])
    order = sorted(set(frame.rows()), key=lambda row: [(v is None, v or 0) for v in row])
    assert values.rows() == order
    assert [order[code] for code in found] == frame.rows()


@pytest.mark.parametrize(
    "key",
    [
        np.arange(50),
        RNG.permutation(1000),
        RNG.permutation(3000)[:2000],
        RNG.integers(0, 40, 500),
        RNG.integers(0, 10**15, 500),
        np.array([3, 3, 0]),
        np.zeros(0, np.int64),
        RNG.permutation(300_000),
        RNG.permutation(300_000)[:250_000],
        RNG.integers(0, 200_000, 250_000),
    ],
    ids=[
        *["sorted", "dense", "with gaps", "repeated", "wide", "twice the last", "none"],
        *["many dense", "many with gaps", "many repeated"],
    ],
)
def test_rows_are_put_in_the_order_of_their_keys(key) -> None:
    sorting = Sorting(key)
    assert np.array_equal(sorting.key, np.sort(key))
    assert sorting.sorted == bool((np.diff(key) >= 0).all())
    if not sorting.sorted:
        assert np.array_equal(np.sort(sorting.order), np.arange(len(key)))
        assert np.array_equal(key[sorting.order], sorting.key)
    values = RNG.normal(size=len(key))
    moved = sorting(values)
    assert np.array_equal(sorting(key), sorting.key)
    assert sorted(zip(sorting.key, moved, strict=True)) == sorted(zip(key, values, strict=True))


def test_two_codes_make_one_key() -> None:
    high, low = RNG.integers(0, 5, 100), RNG.integers(0, 7, 100)
    assert np.array_equal(keyed(high, low, 7), high * 7 + low)
    assert np.array_equal(keyed(high * 0, low, 7), low)


def test_arrays_one_after_the_other() -> None:
    parts = [np.arange(3), np.arange(2)]
    assert joined(parts).tolist() == [0, 1, 2, 0, 1]
    assert joined(parts[:1]) is parts[0]


def test_packed_keys_sort_as_the_keys_do() -> None:
    keys = tuple(RNG.integers(0, high, 400) for high in (1, 5, 1, 2**40, 2**30))
    assert np.argsort(packed(keys), kind="stable").tolist() == np.lexsort(keys[::-1]).tolist()


@pytest.mark.parametrize("rows", [300, 3000])
def test_sums_of_sorted_groups_are_counted_sums(rows) -> None:
    group = np.sort(RNG.integers(0, 9, rows)) * 2
    values = RNG.normal(size=rows)
    np.testing.assert_allclose(added(group, values, 20), np.bincount(group, values, 20), atol=1e-12)
    assert np.array_equal(added(group, values > 0, 20), np.bincount(group, values > 0, 20))
    assert added(group, values > 0, 20).tolist() == np.bincount(group, values > 0, 20).tolist()
    assert added(group[:0], values[:0], 3).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("paired", [True, False])
def test_medians_of_columns_with_one_value_do_not_differ(paired) -> None:
    frame = pl.DataFrame({"m": ["a"] * 20 + ["b"] * 20, "id": [*range(20)] * 2, "x": [1.5] * 40})
    found = frame.eval.compare(fe.median("x"), system="m", example="id", paired=paired)
    row = found.select("difference", "std_error", "p_value", "note").row(0)
    assert row == (0.0, 0.0, 1.0, "no example differs")


@pytest.mark.parametrize("length", [1, 2, 7, 1000])
def test_many_searches_at_once_find_what_numpy_finds(length) -> None:
    values, wanted = np.sort(RNG.integers(0, 50, length)), np.arange(-1, 52)
    found = bisected(lambda at: values[at] < wanted, length, len(wanted))
    assert_array_equal(found, np.searchsorted(values, wanted))
