"""Codes of keys and the order of rows, against pandas and numpy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import frame_eval as fe
from frame_eval.inference.linear import added
from frame_eval.reduce.coded import codes
from frame_eval.table import in_order, packed, span

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
    "one value": np.zeros(5, int),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_codes_are_positions_among_sorted_values(name) -> None:
    column = pl.Series("key", COLUMNS[name])
    found, values = codes(column.to_frame(), ["key"])
    expected, distinct = pd.factorize(
        pd.Series(column.to_list(), dtype=object), sort=True, use_na_sentinel=False
    )
    assert found.tolist() == expected.tolist()
    assert values["key"].to_list() == [None if pd.isna(value) else value for value in distinct]
    assert values.schema["key"] == column.dtype


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
    ],
    ids=["sorted", "dense", "with gaps", "repeated", "wide", "twice the last", "none"],
)
def test_rows_are_put_in_the_order_of_their_keys(key) -> None:
    order, found = in_order(key)
    assert found.tolist() == np.sort(key).tolist()
    if order is not None:
        assert key[order].tolist() == found.tolist()
        assert np.sort(order).tolist() == list(range(len(key)))


def test_packed_keys_sort_as_the_keys_do() -> None:
    keys = tuple(RNG.integers(0, high, 400) for high in (1, 5, 1, 2**40, 2**30))
    assert np.argsort(packed(keys), kind="stable").tolist() == np.lexsort(keys[::-1]).tolist()


def test_positions_without_a_gap_are_a_slice() -> None:
    assert span(np.array([4, 5, 6])) == slice(4, 7)
    assert span(np.array([4, 6])).tolist() == [4, 6]
    assert span(np.zeros(0, np.int64)).tolist() == []


def test_sums_of_sorted_groups_are_counted_sums() -> None:
    group = np.sort(RNG.integers(0, 9, 300)) * 2
    values = RNG.normal(size=300)
    np.testing.assert_allclose(added(group, values, 20), np.bincount(group, values, 20), atol=1e-13)
    assert added(group, values > 0, 20).tolist() == np.bincount(group, values > 0, 20).tolist()
    assert added(group[:0], values[:0], 3).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("paired", [True, False])
def test_medians_of_columns_with_one_value_do_not_differ(paired) -> None:
    frame = pl.DataFrame({"m": ["a"] * 20 + ["b"] * 20, "id": [*range(20)] * 2, "x": [1.5] * 40})
    found = frame.eval.compare(fe.median("x"), system="m", example="id", paired=paired)
    row = found.select("difference", "std_error", "p_value", "note").row(0)
    assert row == (0.0, 0.0, 1.0, "no example differs")
