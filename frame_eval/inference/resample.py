"""How often each unit is drawn: exact bootstrap weights, in blocks that threads work on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy

from frame_eval.metrics.core import Array
from frame_eval.running import shown
from frame_eval.table import Floats, Ints
from frame_eval.threads import in_order

T = TypeVar("T")
Draw: TypeAlias = "Callable[[int, np.random.Generator], Array]"

_BLOCK = 2**19  # weights that are held at once, by each thread
_CACHED = 2**16  # units that are drawn one by one at once
_MOST = 8  # threads that are worth their memory
_BINOMIAL = 6  # how much longer a binomial count takes than one of a table, in units
_WIDEST = 2**19  # the variance of a binomial count whose law is worth a table
_BASE = 16  # of the digits by which many units of a kind are drawn
_SPARE = 1.5  # standard deviations by which independent counts fall short of the units


@dataclass(frozen=True)
class Draws:
    """What the resamples of a bootstrap have in common, however many metrics look at them.

    ``resamples`` of them from the generators of ``seed``; the draws depend on these and on how many
    units there are of each kind, in the order of their keys, and on nothing else.
    """

    resamples: int
    seed: int

    def each(
        self, function: Callable[[Array], T], counts: Ints, strata: Ints | None = None
    ) -> list[T]:
        """What a function makes of every block of resamples, in order.

        A block is an array of resamples x kinds, of small integers: how often each kind of unit is
        drawn, with replacement. ``counts`` says how many units of each kind there are (at least
        one). As many units are drawn as there are, within each of the ``strata`` (codes by kind)
        where they are given. The function is called from several threads; every block has a
        generator of its own, so that it does not matter which of them works on it.
        """
        draw = _from_all(counts) if strata is None else _from_each(counts, strata)
        return self.blocks(lambda rows, generator: function(draw(rows, generator)), len(counts))

    def blocks(self, work: Callable[[int, np.random.Generator], T], width: int) -> list[T]:
        """The results of work on so many resamples at once, in order, for rows of some width."""
        size = max(1, _BLOCK // max(width, 1))

        def block(number: int) -> T:
            seed = np.random.SeedSequence(self.seed, spawn_key=(number,))
            rows = min(size, self.resamples - number * size)
            return work(rows, np.random.default_rng(seed))

        numbers = range(-(-self.resamples // size))
        found = in_order(block, numbers, most=_MOST)
        return [next(found) for _ in shown(numbers, "resamples")]


DRAWS = Draws(9999, 0)


def coins(rows: int, count: int, generator: np.random.Generator) -> Array:
    """So many fair coins in every row: 0 or 1, a random bit each."""
    words = _words(rows * count // 64 + 1, generator)
    return np.unpackbits(words.view(np.uint8), count=rows * count).reshape(rows, count)


def _from_each(counts: Ints, strata: Ints) -> Draw:
    """Draws within each stratum."""
    members = [np.flatnonzero(strata == code) for code in np.unique(strata)]
    draws = [_from_all(counts[chosen]) for chosen in members]

    def draw(rows: int, generator: np.random.Generator) -> Array:
        weights = np.empty((rows, len(counts)), np.int64)
        for chosen, within in zip(members, draws, strict=True):
            weights[:, chosen] = within(rows, generator)
        return weights

    return draw


def _from_all(counts: Ints) -> Draw:
    """Draws from all units, by whichever way is faster for so many kinds of so many."""
    total = int(counts.sum())
    if len(counts) == 2 and math.prod(counts.tolist()) < _WIDEST * total:
        return _of_two(counts)
    if (_BINOMIAL * len(counts)) ** 2 > total:
        return _by_poisson(counts)
    return lambda rows, generator: generator.multinomial(total, counts / total, rows)


def _of_two(counts: Ints) -> Draw:
    """Draws of two kinds: the binomial count of the first, by 16 random bits."""
    total = int(counts.sum())
    first, law = _binomial(total, int(counts[0]) / total)
    small = np.min_scalar_type(total + 1)
    table = _table(first, law, small)

    def draw(rows: int, generator: np.random.Generator) -> Array:
        code = _words(rows // 4 + 1, generator).view(np.uint16)[:rows]
        drawn = table.take(code)
        # The few codes that straddle two counts take more bits.
        torn = np.flatnonzero(drawn == np.iinfo(small).max)
        exact = (code[torn] + generator.random(len(torn))) / 2**16
        drawn[torn] = first + np.minimum(np.searchsorted(law, exact, "right"), len(law) - 1)
        return np.stack([drawn, total - drawn], -1)

    return draw


def _by_poisson(counts: Ints) -> Draw:
    """Draws of many kinds.

    Independent Poisson counts, given their sum S, are multinomial with S draws. Their mean is a
    little under the number of units of their kind, so that S falls short; resamples that do not are
    drawn again, and the units that are missing are drawn one by one.
    """
    total, kinds = int(counts.sum()), len(counts)
    share = max(0.0, 1 - _SPARE / np.sqrt(total))
    # Packets that have a law in common are looked up together, by 16 random bits each.
    sizes, places = _packets(counts)
    starts = np.flatnonzero(np.diff(sizes, prepend=-1))
    law_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(sizes))))
    small = np.min_scalar_type(len(places) * _most(sizes[-1]) + 100)
    laws = [_poisson(size * share, small) for size in sizes[starts].tolist()]
    firsts, edges_of, tables = zip(*laws, strict=True)
    looked_up = list(zip(tables, starts, [*starts[1:], len(sizes)], strict=True))
    lengths = np.array([len(edges) for edges in edges_of])
    ends = np.cumsum(lengths)
    edges = np.concatenate([number + law for number, law in enumerate(edges_of)])
    kind_of = np.repeat(np.arange(kinds, dtype=np.min_scalar_type(kinds)), counts)

    def independent(rows: int, generator: np.random.Generator) -> Array:
        code = _words(rows * len(sizes) // 4 + 1, generator).view(np.uint16)[: rows * len(sizes)]
        drawn = np.empty(len(code), small)
        for table, a, b in looked_up:
            drawn[a * rows : b * rows] = table.take(code[a * rows : b * rows])
        # The few codes that straddle two counts take more bits.
        torn = np.flatnonzero(drawn == np.iinfo(small).max)
        law = law_of[torn // rows]
        exact = (code[torn] + generator.random(len(torn))) / 2**16
        found = np.minimum(np.searchsorted(edges, law + exact, side="right"), ends[law] - 1)
        drawn[torn] = found - (ends - lengths - firsts)[law]
        if len(looked_up) == len(places) == 1:  # in any order, since all are alike
            return drawn.reshape(rows, kinds)
        of_packets = drawn.reshape(len(sizes), rows)
        weights = of_packets[places[0]]
        for place in places[1:]:
            weights += of_packets[place]
        return np.ascontiguousarray(weights.T)

    def draw(rows: int, generator: np.random.Generator) -> Array:
        weights = independent(rows, generator)
        missing = total - weights.sum(1, dtype=np.int64)
        while len(over := np.flatnonzero(missing < 0)):
            weights[over] = independent(len(over), generator)
            missing[over] = total - weights[over].sum(1, dtype=np.int64)
        # So many at a time that they stay in the cache.
        step = 1 + _CACHED // (1 + int(missing.mean()))
        for start in range(0, rows, step):
            some = missing[start : start + step]
            more = np.repeat(np.arange(len(some)) * kinds, some)
            more += kind_of.take(generator.integers(0, total, len(more)))
            part = weights[start : start + step].reshape(-1)
            np.add.at(part, more, small.type(1))  # of one type: many times faster
        return weights

    return draw


def _packets(counts: Ints) -> tuple[Ints, list[Ints]]:
    """Numbers of units in packets whose sizes have one digit each, so that few sizes occur.

    The sizes in order, and for every digit where among them that of each kind is.
    """
    digits, unit = [], 1
    while (counts >= unit).any():
        digits.append(counts // unit % _BASE * unit)
        unit *= _BASE
    sizes = np.concatenate(digits)
    order = np.argsort(sizes, kind="stable")
    # Kinds without a digit share one packet of no units.
    empty = max(int(np.count_nonzero(sizes == 0)) - 1, 0)
    place = np.maximum(np.argsort(order) - empty, 0)
    return sizes[order][empty:], list(place.reshape(len(digits), -1))


def _words(count: int, generator: np.random.Generator) -> Array:
    """So many words of 64 random bits, without keeping other threads from their work."""
    return generator.integers(0, 2**64 - 1, count, np.uint64, endpoint=True)


def _most(mean: float) -> int:
    """More than a Poisson count ever is."""
    return int(mean + 12 * np.sqrt(mean)) + 30


@lru_cache(maxsize=1024)
def _poisson(mean: float, dtype: np.dtype[Any]) -> tuple[int, Floats, Array]:
    """The smallest count, the law from there on, and the count of every code of 16 bits."""
    counts = np.arange(max(0, int(mean - 12 * np.sqrt(mean))), _most(mean))
    law: Floats = np.asarray(scipy.special.pdtr(counts, mean), float)
    return int(counts[0]), law, _table(int(counts[0]), law, dtype)


def _binomial(total: int, share: float) -> tuple[int, Floats]:
    """The smallest count, and the law from there on: by the ratios of neighbours from the mode."""
    mode, reach = int(total * share), 30 + int(12 * np.sqrt(total * share * (1 - share)))
    up = np.arange(mode + 1, min(mode + reach, total) + 1)
    down = np.arange(mode, max(mode - reach, 0), -1)
    odds = share / (1 - share)
    above = np.cumprod((total - up + 1) / up * odds)
    below = np.cumprod(down / (total - down + 1) / odds)
    law = np.cumsum(np.concatenate([below[::-1], [1.0], above]))
    return mode - len(down), law / law[-1]


def _table(first: int, law: Floats, dtype: np.dtype[Any]) -> Array:
    """The count of every code of 16 bits; the highest of the type where it does not say which."""
    edges = law * 2**16
    codes = np.ceil(edges).astype(np.int64)
    counts = np.arange(first, first + len(law)).astype(dtype)
    table = np.repeat(counts, np.diff(codes, prepend=0))
    table[edges[edges < 2**16].astype(np.int64)] = np.iinfo(dtype).max
    return table
