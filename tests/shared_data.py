"""The reference data beside the project, where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[2] / "shared"
SEED_FILE = SHARED / "reference" / "seed_values.json"
DATA = SHARED / "data"
here = pytest.mark.skipif(
    not SEED_FILE.exists(), reason="../shared, with the reference data, is not beside the project"
)


def seeds(families: set[str] | None = None) -> dict[str, Any]:
    """The reproducible seed values (of some families) by id; none where the file is not there."""
    if not SEED_FILE.exists():
        return {}
    rows = json.loads(SEED_FILE.read_text(encoding="utf-8"))["vectors"]
    return {
        row["id"]: row
        for row in rows
        if row["reproducible"] and (families is None or row["family"] in families)
    }


def entries() -> list[dict[str, Any]]:
    """The values that other programs computed from the published results."""
    file = DATA / "reference_values.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
