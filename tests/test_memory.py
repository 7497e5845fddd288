"""Questions whose sums are larger than the memory they may take: the same answers, in passes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from conftest import IN_MEMORY
from polars.testing import assert_frame_equal

import frame_eval as fe
from frame_eval.reduce import passes
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
SMALL = 3e6


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """The number of passes of every question."""
    found: list[int] = []

    def counting(*args):
        found.append(passes.passes_of(*args))
        return found[-1]

    monkeypatch.setattr("frame_eval.reduce.passes_of", counting)
    return found


def assert_same_in_passes(engine, metrics, counted, **options) -> None:
    expected = FRAME.eval.summary(*metrics, **options)
    result = fe.of(IN_MEMORY[engine](FRAME)).run(memory=SMALL).summary(*metrics, **options)
    assert counted[-1] > 2
    assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-12)


@pytest.mark.parametrize("engine", READ_IN_PARTS)
def test_clusters_in_passes_are_the_same_on_every_engine(engine, counted) -> None:
    options = {"system": "system", "by": "lang", "cluster": ["doc", "part"]}
    assert_same_in_passes(engine, SHARES, counted, **options)


@pytest.mark.parametrize("metrics", [SHARES, MEANS], ids=["shares", "means"])
@pytest.mark.parametrize("interval", ["auto", "cr0", "cr1", "cr2", None])
def test_clusters_in_passes_have_the_same_intervals(metrics, interval, counted) -> None:
    assert_same_in_passes("polars-lazy", metrics, counted, cluster="doc", interval=interval)


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
    with pytest.raises(fe.EvalError, match="1 examples have more than one row"):
        twice.eval.run(memory=1e6).summary(fe.rate("label"), **options)


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        (fe.mean("latency"), {}, "clusters and slices differ"),
        (fe.rate("label"), {"by": fe.each("lang", "system")}, "give more with frame.eval.run"),
        (fe.rate("label"), {"interval": "bootstrap"}, "give more with frame.eval.run"),
        (fe.cohen_kappa("label", "pred"), {}, "give more with frame.eval.run"),
    ],
)
def test_what_no_number_of_passes_makes_small_is_refused(metric, options, message) -> None:
    evaluation = FRAME.lazy().eval.run(memory=SMALL)
    with pytest.raises(fe.EvalError, match=message):
        evaluation.summary(metric, cluster="doc", **options)


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


def test_progress_is_not_shown_elsewhere(capfd) -> None:
    assert list(shown(range(3), "work")) == [0, 1, 2]
    assert capfd.readouterr() == ("", "")
