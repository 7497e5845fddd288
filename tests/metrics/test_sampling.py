"""Repeated attempts, by the formula."""

import math
import pickle

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import frame_eval as fe


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_pass_at_k(k):
    rng = np.random.default_rng(k)
    problem = np.repeat(np.arange(40), rng.integers(10, 14, 40))
    ok = rng.random(len(problem)) < (problem % 5) / 5
    frame = pl.DataFrame({"task": problem, "ok": ok, "lang": problem % 2})
    metric = fe.pass_at_k("ok", k)

    def value(task):
        n, c = int((problem == task).sum()), int(ok[problem == task].sum())
        return 1 - math.comb(n - c, k) / math.comb(n, k)

    values = np.array([value(task) for task in range(40)])
    whole = frame.eval.summary(metric, example="task").row(0, named=True)
    assert_allclose(whole["estimate"], values.mean(), rtol=1e-13)
    assert_allclose(whole["std_error"], values.std(ddof=1) / np.sqrt(40), rtol=1e-10)
    assert whole["n"] == whole["clusters"] == 40
    parts = frame.eval.summary(metric, example="task", by="lang")["estimate"].to_list()
    assert_allclose(parts, [values[::2].mean(), values[1::2].mean()], rtol=1e-13)
    with pytest.raises(fe.EvalError, match="summary"):
        metric.expr()
    again = pickle.loads(pickle.dumps(metric)).alias("mine")
    assert frame.eval.summary(again, example="task")["estimate"].item() == whole["estimate"]


def test_pass_at_k_short_of_attempts():
    frame = pl.DataFrame({"task": [1, 1, 1, 2], "ok": [1, 0, 1, 1]})
    with pytest.raises(fe.EvalError, match="1 problems have fewer than k=3"):
        frame.eval.summary(fe.pass_at_k("ok", 3), example="task")
    kept = frame.eval.summary(fe.pass_at_k("ok", 3, short="drop"), example="task")
    assert kept["estimate"].item() == 1.0
    assert kept["n"].item() == 1
