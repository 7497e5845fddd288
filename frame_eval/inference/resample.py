"""How often each unit is drawn: exact bootstrap weights, in blocks that threads work on."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy

from frame_eval.table import Floats, Ints

T = TypeVar("T")
Draw: TypeAlias = "Callable[[int, np.random.Generator], Floats]"

_BLOCK = 2**19  # weights that are held at once, by each thread
_MOST = 8  # threads that are worth their memory
_SPARE = 3  # standard deviations by which independent counts fall short of the units


@dataclass(frozen=True)
class Draws:
    """What the resamples of a bootstrap have in common, however many metrics look at them.

    ``resamples`` of them from the generators of ``seed``; the draws depend on these and on how many
    units there are of each kind, in the order of their keys, and on nothing else.
    """

    resamples: int
    seed: int

    def each(
        self, function: Callable[[Floats], T], counts: Ints, strata: Ints | None = None
    ) -> list[T]:
        """What a function makes of every block of resamples, in order.

        A block is an array of resamples x kinds: how often each kind of unit is drawn, with
        replacement. ``counts`` says how many units of each kind there are (at least one). As many
        units are drawn as there are, within each of the ``strata`` (codes by kind) where they are
        given. The function is called from several threads; every block has a generator of its own,
        so that it does not matter which of them works on it.
        """
        draw = _from_all(counts) if strata is None else _from_each(counts, strata)
        size = block_size(len(counts))

        def block(number: int) -> T:
            seed = np.random.SeedSequence(self.seed, spawn_key=(number,))
            rows = min(size, self.resamples - number * size)
            return function(draw(rows, np.random.default_rng(seed)))

        return in_threads(block, -(-self.resamples // size))


DRAWS = Draws(9999, 0)


def block_size(kinds: int) -> int:
    """How many resamples of so many kinds of units are worked on at once."""
    return max(1, _BLOCK // max(kinds, 1))


def in_threads(work: Callable[[int], T], count: int) -> list[T]:
    """The results of so many numbered pieces of work, in order.

    numpy lets threads run side by side while it loops over its arrays.
    """
    if count == 1:
        return [work(0)]
    with ThreadPoolExecutor(min(count, os.cpu_count() or 1, _MOST)) as threads:
        return list(threads.map(work, range(count)))


def _from_each(counts: Ints, strata: Ints) -> Draw:
    """Draws within each stratum."""
    members = [np.flatnonzero(strata == code) for code in np.unique(strata)]
    draws = [_from_all(counts[chosen]) for chosen in members]

    def draw(rows: int, generator: np.random.Generator) -> Floats:
        weights = np.empty((rows, len(counts)))
        for chosen, within in zip(members, draws, strict=True):
            weights[:, chosen] = within(rows, generator)
        return weights

    return draw


def _from_all(counts: Ints) -> Draw:
    """Draws from all units, by whichever way is faster for so many kinds of so many."""
    if 4 * len(counts) > np.sqrt(counts.sum()):
        return _by_poisson(counts)
    total = int(counts.sum())
    return lambda rows, generator: generator.multinomial(total, counts / total, rows).astype(float)


def _by_poisson(counts: Ints) -> Draw:
    """Draws of many kinds.

    Independent Poisson counts, given their sum S, are multinomial with S draws. Their mean is a
    little under the number of units of their kind, so that S falls short; resamples that do not are
    drawn again, and the units that are missing are drawn one by one.
    """
    total, kinds = int(counts.sum()), len(counts)
    share = max(0.0, 1 - _SPARE / np.sqrt(total))
    # Kinds that have a law in common are drawn together.
    order = np.argsort(counts, kind="stable")
    sizes, starts = np.unique(counts[order], return_index=True)
    laws = list(zip(sizes.tolist(), starts, [*starts[1:], kinds], strict=True))
    place = np.argsort(order)
    kind_of = np.repeat(np.arange(kinds), counts)

    def independent(rows: int, generator: np.random.Generator) -> Floats:
        weights = np.empty((rows, kinds))
        for size, a, b in laws:
            drawn = _poissons(size * share, rows * (b - a), generator)
            weights[:, a:b] = drawn.reshape(rows, b - a)
        return weights if len(laws) == 1 else np.take(weights, place, axis=1)

    def draw(rows: int, generator: np.random.Generator) -> Floats:
        weights = independent(rows, generator)
        missing = total - weights.sum(1)
        while len(over := np.flatnonzero(missing < 0)):
            weights[over] = independent(len(over), generator)
            missing[over] = total - weights[over].sum(1)
        times = missing.astype(np.int64)
        more = kind_of[generator.integers(0, total, times.sum())]
        more += np.repeat(np.arange(rows) * kinds, times)
        np.add.at(weights.reshape(-1), more, 1.0)
        return weights

    return draw


def _poissons(mean: float, size: int, generator: np.random.Generator) -> Any:
    """Independent Poisson counts, looked up by 16 random bits each.

    The few codes that straddle two counts take more bits.
    """
    first, law, table = _poisson(mean)
    code = generator.bit_generator.random_raw(size // 4 + 1).view(np.uint16)[:size]
    drawn = table.take(code)
    torn = np.flatnonzero(drawn == np.iinfo(drawn.dtype).max)
    exact = (code[torn] + generator.random(len(torn))) / 2**16
    drawn[torn] = first + np.searchsorted(law, exact, side="right")
    return drawn


@lru_cache(maxsize=1024)
def _poisson(mean: float) -> tuple[int, Floats, Any]:
    """The smallest count, the law from there on, and the count of every code of 16 bits.

    A code that does not say which of two counts it is has the largest number that there is.
    """
    wide = 12 * np.sqrt(mean)
    counts = np.arange(max(0, int(mean - wide)), int(mean + wide) + 30)
    law = scipy.special.pdtr(counts, mean)
    edges = law * 2**16
    table = np.repeat(counts, np.diff(np.ceil(edges).astype(np.int64), prepend=0))
    table = table.astype(np.min_scalar_type(counts[-1] + 1))
    table[edges[edges < 2**16].astype(np.int64)] = np.iinfo(table.dtype).max
    return int(counts[0]), law, table
