"""The benchmarks run; what they measure is not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent.parent / "benchmarks" / "run.py"


def test_the_short_mode_runs() -> None:
    pytest.importorskip("fairlearn", reason="the bench extra is not installed")
    done = subprocess.run(
        [sys.executable, str(RUN), "--short"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n| ") >= 9
