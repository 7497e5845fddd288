"""The two doors, and that pandas' own ``eval`` and ``query`` stay what they were."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import jedi
import pandas as pd
import polars as pl
import pytest

import frame_eval as fe

VERBS = ["summary", "compare", "guard", "assert_passed", "roles"]
GLOBAL = 7


@pytest.fixture
def df() -> pd.DataFrame:
    return pd.DataFrame({"a": [1, 2, 3], "b": [10, 20, 30], "ok": [1, 0, 1]})


def test_pandas_eval_evaluates(df) -> None:
    assert df.eval("a + b").tolist() == [11, 22, 33]


def test_pandas_eval_sees_the_callers_locals(df) -> None:
    x = 100

    def nested() -> list[int]:
        y = 5
        return df.eval("a + @y").tolist()

    assert df.eval("a + @x").tolist() == [101, 102, 103]
    assert nested() == [6, 7, 8]
    assert df.eval("a + @z", local_dict={"z": 7}).tolist() == [8, 9, 10]
    assert x == 100


def test_pandas_query_sees_the_callers_locals(df) -> None:
    x = 1
    assert df.query("a > @x").index.tolist() == [1, 2]
    assert df.query("a > 1 and ok == 1").index.tolist() == [2]


def test_pandas_eval_assigns(df) -> None:
    assert df.eval("c = a + b")["c"].tolist() == [11, 22, 33]
    assert "c" not in df.columns
    assert df.eval("c = a * 2\nd = c + 1")["d"].tolist() == [3, 5, 7]


def test_pandas_eval_and_query_work_in_place(df) -> None:
    plain = pd.DataFrame.eval
    assert inspect.signature(plain).parameters["expr"].default is inspect.Parameter.empty
    with warnings.catch_warnings():  # pandas is about to drop the option
        warnings.simplefilter("ignore")
        assert df.eval("c = a + b", inplace=True) is None
        assert df["c"].tolist() == [11, 22, 33]
        assert df.query("a > 1", inplace=True) is None
    assert df["a"].tolist() == [2, 3]


def test_pandas_eval_reads_other_scopes(df) -> None:
    assert df.eval("a + @GLOBAL").tolist() == [8, 9, 10]
    assert df.eval("a + @y", resolvers=[{"y": 1}], local_dict={"y": 2}).tolist() == [3, 4, 5]
    assert df.pipe(pd.DataFrame.eval, "a + b").tolist() == [11, 22, 33]
    assert [df.eval(f"a + {n}").iloc[0] for n in range(2)] == [1, 2]
    with pytest.raises(pd.errors.UndefinedVariableError):
        df.eval("a + @nowhere")


def test_a_column_called_eval_does_not_shut_the_door() -> None:
    df = pd.DataFrame({"eval": [1, 0]})
    assert df.eval("`eval` + 1").tolist() == [2, 1]
    assert df.eval.summary(fe.rate("eval"))["estimate"].item() == 0.5


def test_pandas_eval_on_the_class_and_on_subclasses(df) -> None:
    class Special(pd.DataFrame):
        @property
        def _constructor(self) -> type[pd.DataFrame]:
            return Special

        def eval(self, expr: str, **kwargs: object) -> object:
            return super().eval(expr, **kwargs)

    class Plain(pd.DataFrame):
        pass

    x = 2
    assert pd.DataFrame.eval(df, "a + @x").tolist() == [3, 4, 5]
    assert Plain(df).eval("a + @x").tolist() == [3, 4, 5]
    assert Special(df).eval("a + b").tolist() == [11, 22, 33]
    assert Special(df).query("a > 1").shape == (2, 3)


def test_pandas_own_tests_of_eval_and_query_pass() -> None:
    # pandas' own conftest has the fixtures; the root makes pytest collect it.
    root = str(Path(pd.__file__).parent)
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", root, "-W", "ignore"]
    module = f"{root}/tests/frame/test_query_eval.py"
    code = f"import sys, pytest, frame_eval; sys.exit(pytest.main({[*options, module]!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    counted = [word for word in done.stdout.split() if word.isdigit()]
    assert max(map(int, counted)) > 100, done.stdout[-500:]


def test_importing_says_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import frame_eval"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_every_frame_has_the_verbs(make) -> None:
    frame = make({"ok": [1, 0]})
    assert "eval" in dir(frame)
    assert set(VERBS) <= set(dir(frame.eval))
    assert isinstance(frame.eval, fe.Evaluation)
    kind = pd.DataFrame if make is pd.DataFrame else pl.DataFrame
    assert isinstance(frame.eval.summary(fe.rate("ok")), kind)
    assert isinstance(fe.summary(frame, fe.rate("ok")), kind)


def test_jedi_completes_the_methods() -> None:
    code = "import frame_eval as fe\nimport pandas as pd\nfe.of(pd.DataFrame()).\n"
    names = {c.name for c in jedi.Script(code).complete(3, len("fe.of(pd.DataFrame())."))}
    assert set(VERBS) <= names


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_the_accessor_keeps_no_frame_alive(make) -> None:
    frame = make({"ok": [1, 0]})
    frame.eval.summary(fe.rate("ok"))
    alive = weakref.ref(frame)
    gc.disable()
    try:
        del frame
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_copy_and_pickle(make) -> None:
    frame = make({"ok": [1, 0]})
    for other in (copy.copy(frame), copy.deepcopy(frame), pickle.loads(pickle.dumps(frame))):
        assert other.eval.summary(fe.rate("ok"))["estimate"].item() == 0.5


def test_roles_are_layered_and_can_be_overruled() -> None:
    df = pl.DataFrame({"model": ["a", "b"], "org": ["x", "x"], "ok": [1, 0], "w": [1.0, 3.0]})
    base = df.eval.roles(system="model")
    both = base.roles(weight="w")
    assert both.summary(fe.rate("ok"))["model"].to_list() == ["a", "b"]
    assert base.summary(fe.rate("ok"), system="org")["org"].to_list() == ["x"]
    assert both.summary(fe.rate("ok"), system=None)["estimate"].item() == pytest.approx(0.25)
    assert "system='model'" in repr(base)
    assert "weight" not in repr(base)
    assert base.roles(system=None).summary(fe.rate("ok"))["model"].to_list() == ["a", "b"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_dir_lists_eval_once_and_keeps_the_rest(make) -> None:
    listed = dir(make({"a": [1]}))
    assert listed.count("eval") == 1
    assert "join" in listed


def test_other_namespaces_are_left_alone() -> None:
    @pl.api.register_dataframe_namespace("mine")
    class Mine:
        def __init__(self, frame: pl.DataFrame) -> None:
            self.frame = frame

    assert pl.DataFrame({"a": [1]}).mine.frame.height == 1
    assert isinstance(pl.DataFrame({"a": [1]}).eval, fe.Evaluation)
