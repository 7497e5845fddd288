"""The benchmarks run; what they measure is not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUN = ROOT / "benchmarks" / "run.py"


def test_the_short_mode_runs() -> None:
    pytest.importorskip("fairlearn", reason="the bench extra is not installed")
    done = subprocess.run(
        [sys.executable, str(RUN), "--short"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n| ") >= 9


def test_the_short_coverage_study_runs() -> None:
    command = [sys.executable, "-m", "benchmarks.coverage", "--short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("## ") == 12


def test_the_short_mode_of_the_scales_runs() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    command = [sys.executable, str(ROOT / "benchmarks" / "scale.py"), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n| ") == 12  # a heading, six questions, five sizes
