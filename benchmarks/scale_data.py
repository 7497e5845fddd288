"""Parquet files of any number of rows, for what does not fit into memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

SYSTEMS = ("base", "new")


def hashed(values: npt.NDArray[np.int64], salt: int) -> npt.NDArray[np.uint64]:
    """Whole numbers without a pattern, the same for the same values (the mixer of SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint64) + np.uint64(salt) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


def part(
    at: int, rows: int, examples: int, *, slices: int, clusters: int, systems: int
) -> pl.DataFrame:
    """Rows ``at`` to ``at + rows`` of a table of ``systems`` x ``examples`` rows.

    The systems follow one another, each with all examples in a scattered order of its own.
    """
    row = np.arange(at, at + rows)
    system, place = row // examples, row % examples
    # A stride without a common factor visits every example once.
    stride = 2_654_435_761 + 2 * system
    while (np.gcd(stride, examples) > 1).any():
        stride = stride + 2
    example = (place * stride) % examples
    cluster = (hashed(example, 1) % np.uint64(clusters)).astype(np.int64)
    label = hashed(example, 2) % np.uint64(10) < 3
    noise = hashed(row, 3).astype(float) / 2.0**64
    score = np.round(np.where(label, noise ** (0.5 / (1 + system)), noise**1.2), 4)
    names = [*SYSTEMS, *(f"other {i}" for i in range(2, systems))]
    return pl.DataFrame(
        {
            "system": pl.Series(np.array(names)[system]),
            "slice": pl.Series("s", cluster % slices, pl.Int32).cast(pl.String),
            "cluster": pl.Series(cluster, dtype=pl.Int32),
            "example": example,
            "label": label,
            "pred": score > 0.5,
            "score": score,
            "tokens": pl.Series((hashed(example, 4) % np.uint64(900)).astype(np.int32)),
        }
    )


def written(
    folder: Path,
    rows: int,
    files: int,
    *,
    slices: int = 20,
    clusters: int = 100_000,
    systems: int = 2,
) -> Path:
    """A folder with the rows in so many files, made unless it is there."""
    target = folder / f"{rows}-{files}-{slices}-{clusters}-{systems}"
    examples = rows // systems
    bounds = np.linspace(0, examples * systems, files + 1).astype(int)
    target.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        path = target / f"part-{i:03d}.parquet"
        if not path.exists():
            size = int(bounds[i + 1] - bounds[i])
            frame = part(
                int(bounds[i]), size, examples, slices=slices, clusters=clusters, systems=systems
            )
            unfinished = path.with_suffix(".tmp")
            frame.write_parquet(unfinished, compression_level=1)
            unfinished.rename(path)
    return target
