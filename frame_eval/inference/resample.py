"""How often each unit is drawn: exact bootstrap weights, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from frame_eval.table import Floats, Ints

_BLOCK = 2**19  # weights that are held at once
_ALIKE = 15  # drawing counts costs as much per distinct unit as this many single draws
_MOST, _TORN = 100, 255  # no count is as large; a code that does not say which one
_FEW = 2**13  # units below which many resamples are counted at once


@dataclass(frozen=True)
class Draws:
    """What the resamples of a bootstrap have in common, however many metrics look at them.

    ``resamples`` of them from the generator of ``seed``; the draws depend on these and on how many
    units there are of each kind, in the order of their keys, and on nothing else.
    """

    resamples: int
    seed: int

    def weights(self, counts: Ints, strata: Ints | None = None) -> Iterator[Floats]:
        """Blocks of resamples x kinds: how often each kind of unit is drawn, with replacement.

        ``counts`` says how many units of each kind there are. As many units are drawn as there are,
        within each of the ``strata`` (codes by kind) where they are given.
        """
        if strata is None:
            yield from _weights(counts, self.resamples, np.random.default_rng(self.seed))
            return
        codes = np.unique(strata)
        members = [np.flatnonzero(strata == code) for code in codes]
        seeds = np.random.SeedSequence(self.seed).spawn(len(codes))
        size = block_size(len(counts))
        each = [
            _weights(counts[chosen], self.resamples, np.random.default_rng(seed), size)
            for chosen, seed in zip(members, seeds, strict=True)
        ]
        for blocks in zip(*each, strict=True):
            whole = np.empty((len(blocks[0]), len(counts)))
            for chosen, block in zip(members, blocks, strict=True):
                whole[:, chosen] = block
            yield whole


DRAWS = Draws(9999, 0)


def block_size(kinds: int) -> int:
    """How many resamples of so many kinds of units are worked on at once."""
    return max(1, _BLOCK // max(kinds, 1))


def _weights(
    counts: Ints, resamples: int, generator: np.random.Generator, size: int | None = None
) -> Iterator[Floats]:
    total, kinds = int(counts.sum()), len(counts)
    size = block_size(kinds) if size is None else size
    few = kinds * _ALIKE <= total
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        if few:
            yield np.asarray(generator.multinomial(total, counts / total, size=rows), np.float64)
            continue
        of_singles = _of_few if total < _FEW else _of_many
        singles = of_singles(total, rows, generator)
        if kinds < total:
            singles = np.asarray(np.add.reduceat(singles, np.cumsum(counts) - counts, axis=1))
        yield singles


def _of_few(units: int, rows: int, generator: np.random.Generator) -> Floats:
    """Draws from units that are all different, some resamples at a time."""
    weights = np.empty((rows, units))
    step = max(1, _FEW * 4 // units)
    for start in range(0, rows, step):
        block = weights[start : start + step]
        drawn = generator.integers(0, units, block.shape)
        drawn += np.arange(len(block))[:, None] * units
        block[:] = np.bincount(drawn.ravel(), minlength=block.size).reshape(block.shape)
    return weights


def _of_many(units: int, rows: int, generator: np.random.Generator) -> Floats:
    """Draws from units that are all different.

    Independent Poisson counts, given their sum S, are multinomial with S draws. Their mean is a
    little under 1, so that S falls short, and the draws that are missing are made one by one. The
    counts are looked up by 16 random bits each; the few codes that straddle two of them take more.
    """
    law, table = _poisson(units)
    words = generator.bit_generator.random_raw
    weights = np.empty((rows, units))
    for row in weights:
        missing = -1
        while missing < 0:
            code = words(units // 4 + 1).view(np.uint16)[:units]
            counts = table.take(code)
            torn = np.flatnonzero(counts == _TORN)
            exact = (code[torn] + generator.random(len(torn))) / 2**16
            counts[torn] = np.searchsorted(law, exact, side="right")
            row[:] = counts
            missing = units - int(row.sum())
        np.add.at(row, generator.integers(0, units, missing), 1.0)
    return weights


@lru_cache(maxsize=8)
def _poisson(units: int) -> tuple[Floats, Any]:
    """The law of the counts of so many units, and the count of every code of 16 bits."""
    law = scipy.special.pdtr(np.arange(_MOST), 1 - 5 / np.sqrt(units))
    codes = np.arange(2**16) / 2**16
    lower = np.searchsorted(law, codes, side="right")
    upper = np.searchsorted(law, codes + 2**-16, side="left")
    return law, np.where(lower == upper, lower, _TORN).astype(np.uint8)
