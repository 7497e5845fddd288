"""``confusion``: counts and shares beside scikit-learn, intervals beside rates of the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from sklearn import metrics as sk

import frame_eval as fe

WORDS = ["ant", "bee", "cat"]


def drawn(n=240, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    p = np.where(rng.random(n) < 0.5, y, rng.choice(3, n))
    return pl.DataFrame(
        {
            "y": np.array(WORDS)[y],
            "p": np.array(WORDS)[p],
            "lang": np.array(["de", "sw"])[rng.integers(0, 2, n)],
            "model": np.array(["a", "b"])[np.arange(n) % 2],
            "id": np.arange(n) // 2,
            "doc": rng.integers(0, 30, n),
            "w": rng.integers(1, 5, n) / 2,
        }
    )


FRAME = drawn()
OF = {"truth": "y", "pred": "p"}


def polars_of(result):
    return pl.from_pandas(result) if isinstance(result, pd.DataFrame) else result


@pytest.mark.parametrize("labels", [None, WORDS[::-1], ["dog", *WORDS]])
def test_counts_against_scikit_learn(labels):
    found = FRAME.eval.confusion("y", "p", by="lang", system="model", labels=labels)
    names = labels or WORDS
    assert found.columns == ["lang", "model", "truth", "predicted", "n", "missing"]
    for lang in ("de", "sw"):
        for model in ("a", "b"):
            same = (pl.col("lang") == lang) & (pl.col("model") == model)
            rows, part = FRAME.filter(same), found.filter(same)
            expected = sk.confusion_matrix(rows["y"].to_list(), rows["p"].to_list(), labels=names)
            assert part["truth"].to_list() == np.repeat(names, len(names)).tolist()
            assert part["predicted"].to_list() == names * len(names)
            assert part["n"].to_list() == expected.ravel().tolist()
    assert found["missing"].sum() == 0


@pytest.mark.parametrize("normalize", ["truth", "pred", "all"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_shares_against_scikit_learn(normalize, weight):
    found = FRAME.eval.confusion("y", "p", normalize=normalize, weight=weight)
    expected = sk.confusion_matrix(
        FRAME["y"].to_list(),
        FRAME["p"].to_list(),
        normalize="true" if normalize == "truth" else normalize,
        sample_weight=None if weight is None else FRAME["w"].to_numpy(),
    )
    assert_allclose(found["share"], expected.ravel(), rtol=1e-13)


@pytest.mark.parametrize("normalize", ["truth", "pred", "all"])
@pytest.mark.parametrize(
    "roles",
    [
        {},
        {"weight": "w"},
        {"cluster": "doc"},
        {"cluster": "doc", "weight": "w"},
        {"interval": "clopper-pearson", "level": 0.8},
        {"cluster": "doc", "interval": "cr1"},
        {"interval": None},
    ],
    ids=str,
)
def test_shares_are_rates_of_their_rows(normalize, roles):
    """Of the rows with the label (or prediction), the rate of the other: in every column."""
    found = FRAME.eval.confusion("y", "p", by="lang", normalize=normalize, **roles)
    for i in WORDS:
        for j in WORDS:
            part, rows = found.filter(truth=i, predicted=j), FRAME
            hit = (pl.col("y") == i) & (pl.col("p") == j)
            if normalize in OF:
                rows = rows.filter(pl.col(OF[normalize]) == (i if normalize == "truth" else j))
            expected = rows.eval.summary(fe.rate(hit), by="lang", **roles)
            columns = ["std_error", "ci_low", "ci_high", "clusters", "level", "method", "note"]
            assert_frame_equal(
                part.select(
                    pl.col("share").alias("estimate"), pl.col("total").alias("n"), *columns
                ),
                expected.select("estimate", "n", *columns),
                rel_tol=1e-10,
                abs_tol=1e-13,
            )


def test_examples_with_more_trials_do_not_count_for_more():
    frame = FRAME.filter((pl.col("model") == "a") | (pl.col("id") % 3 == 0))
    options = {"example": "id", "trial": "model"}
    found = frame.eval.confusion("y", "p", normalize="all", **options)
    share = found.filter(pl.col("truth") == pl.col("predicted"))["share"].sum()
    accuracy = frame.eval.summary(fe.accuracy("y", "p"), **options)["estimate"].item()
    assert_allclose(share, accuracy, rtol=1e-13)
    assert found["n"].sum() == frame.height


def test_slices_and_wholes():
    found = FRAME.eval.confusion("y", "p", by=fe.each("lang", "model"), overall=True)
    sums = found.group_by("slice", "value", maintain_order=True).agg(pl.col("n").sum())
    assert sums["n"].to_list()[0] == FRAME.height
    assert sums["n"].sum() == 3 * FRAME.height
    where = fe.where(long=pl.col("doc") > 1000, short=pl.col("doc") < 15)
    part = FRAME.eval.confusion("y", "p", by=where, normalize="all")
    assert part.filter(slice="long")["n"].sum() == 0
    assert part.filter(slice="long")["note"].unique().to_list() == ["no rows"]
    alone = FRAME.filter(pl.col("doc") < 15).eval.confusion("y", "p", normalize="all")
    assert_frame_equal(part.filter(slice="short").drop("slice", "value"), alone, rel_tol=1e-12)


@pytest.mark.parametrize("normalize", [None, "truth"])
def test_engines_agree(engine, normalize):
    options = {"by": "lang", "system": "model", "cluster": "doc", "normalize": normalize}
    expected = FRAME.eval.confusion("y", "p", **options)
    native = engine(FRAME)
    found = fe.of(native).confusion("y", "p", **options)
    assert isinstance(found, pd.DataFrame) == isinstance(native, pd.DataFrame)
    assert_frame_equal(polars_of(found), expected, rel_tol=1e-12, check_dtypes=False)
    assert_frame_equal(
        polars_of(fe.confusion(native, "y", "p", **options)), polars_of(found), check_dtypes=False
    )


def test_order_and_roles_do_not_matter():
    expected = FRAME.eval.confusion("y", "p", system="model", cluster="doc", normalize="pred")
    shuffled = FRAME.sample(fraction=1, shuffle=True, seed=3)
    bound = shuffled.eval.roles(system="model", cluster="doc").confusion("y", "p", normalize="pred")
    assert_frame_equal(bound, expected, rel_tol=1e-12)


def test_a_label_never_given_and_a_slice_without_one():
    frame = pl.DataFrame({"y": ["a", "a", "b"], "p": ["a", "a", "a"], "g": [1, 1, 2]})
    found = frame.eval.confusion("y", "p", by="g", normalize="truth", labels=["a", "b", "c"])
    empty = found.filter(pl.col("total") == 0)
    assert empty["note"].unique().to_list() == ["no rows with this label"]
    assert empty["share"].null_count() == empty["ci_low"].null_count() == empty.height
    assert empty["clusters"].sum() == empty["n"].sum() == 0
    found = frame.eval.confusion("y", "p", normalize="pred").filter(predicted="b")
    assert found["note"].unique().to_list() == ["no rows with this prediction"]
    weightless = frame.with_columns(w=pl.col("g") - 1.0)
    found = weightless.eval.confusion("y", "p", by="g", normalize="all", weight="w").filter(g=1)
    assert found.select("share", "method", "note").unique().rows() == [(None, None, "no rows")]


@pytest.mark.parametrize(
    ("y", "p", "classes"),
    [
        ([True, False, True], [True, True, False], [False, True]),
        ([3, 1, 10], [1, 1, 3], [1, 3, 10]),
        ([0, 1, 1], [False, True, True], [0, 1]),
    ],
)
def test_classes_of_any_type(y, p, classes):
    found = pl.DataFrame({"y": y, "p": p}).eval.confusion("y", "p")
    assert found["truth"].unique(maintain_order=True).to_list() == classes
    assert found.filter(pl.col("truth") == pl.col("predicted"))["n"].sum() == sum(
        a == b for a, b in zip(y, p, strict=True)
    )


def test_missing_rows_are_counted():
    frame = pl.DataFrame({"y": ["a", None, "b"], "p": ["a", "b", None], "g": [1, 1, 2]})
    with pytest.raises(fe.EvalError, match="1 rows are missing"):
        frame.eval.confusion("y", "p")
    found = frame.eval.confusion("y", "p", by="g", missing="drop", normalize="all")
    assert found.group_by("g", maintain_order=True).agg(pl.col("missing").first()).rows() == [
        (1, 1),
        (2, 1),
    ]
    assert found.filter(g=2)["note"].unique().to_list() == ["no rows"]
    nothing = frame.with_columns(pl.col("y", "p").replace({"a": None, "b": None}))
    with pytest.raises(fe.EvalError, match="no row has a label or a prediction"):
        nothing.eval.confusion("y", "p", missing="drop")


def test_pandas_keys_keep_their_type():
    """Also keys of other verbs that are called like the columns of this one."""
    frame = FRAME.to_pandas().astype({"lang": "category"})
    found = frame.eval.confusion("y", "p", by="lang")
    assert found["lang"].dtype == frame["lang"].dtype
    renamed = frame.rename(columns={"lang": "truth"})
    result = renamed.eval.summary(fe.accuracy("y", "p"), by=["truth", "model"])
    assert result["truth"].dtype == frame["lang"].dtype
    numbers = frame.assign(n=np.float32(1))
    assert numbers.eval.confusion("y", "p", by="lang")["n"].dtype == np.int64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"normalize": "true"}, ["normalize='true'", "'truth'"]),
        ({"missing": "worst"}, ["missing='worst'"]),
        ({"interval": "order"}, ["interval='order'"]),
        ({"level": 95}, ["level=95"]),
        ({"labels": ["ant", "bee"]}, ["'cat'", "labels=['ant', 'bee']"]),
        ({"by": "langg"}, ["slice key 'langg'", "'lang'"]),
        ({"target": "yy"}, ["'yy' is not a column"]),
        ({"pred": "id"}, ["'y' (String)", "'id' (Int64)"]),
    ],
    ids=str,
)
def test_errors(options, words):
    with pytest.raises(fe.EvalError) as caught:
        fe.confusion(FRAME, **{"target": "y", "pred": "p", **options})
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_key_can_not_be_called_as_a_column_of_the_result():
    with pytest.raises(fe.EvalError, match=r"key column 'truth'.*'truth_'"):
        FRAME.rename({"lang": "truth"}).eval.confusion("y", "p", by="truth")
