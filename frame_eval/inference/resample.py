"""How often each unit is drawn: exact bootstrap weights, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from frame_eval.table import Floats, Ints

_BLOCK = 2**19  # weights that are held at once
_ALIKE = 15  # drawing counts costs as much per distinct unit as this many single draws
_LARGEST, _SMALLEST = 16, 9  # bits of the ranges that are drawn from by whole random words
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

    The units are cut into ranges of a power of two and a few left over. How many draws fall into
    each part is multinomial; within a range, random bits are the draws, without any division.
    """
    ranges, start = [], 0
    for bits in range(_LARGEST, _SMALLEST - 1, -1):
        while units - start >= 2**bits:
            ranges.append((start, bits))
            start += 2**bits
    parts = [2**bits / units for _, bits in ranges] + [1 / units] * (units - start)
    share = generator.multinomial(units, parts, size=rows)
    weights = np.empty((rows, units))
    weights[:, start:] = share[:, len(ranges) :]
    words = generator.bit_generator.random_raw
    for row, drawn in zip(weights, share, strict=True):
        for (first, bits), count in zip(ranges, drawn, strict=False):
            values = words(int(count) // 4 + 1).view(np.uint16)[:count]
            if bits < _LARGEST:
                values >>= _LARGEST - bits
            # Cast first: bincount is slower at it.
            row[first : first + 2**bits] = np.bincount(values.astype(np.intp), minlength=2**bits)
    return weights
