"""How often each unit is drawn: exact bootstrap weights, in blocks that threads work on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
import scipy

from frame_eval.metrics.core import Array
from frame_eval.running import shown
from frame_eval.table import Floats, Ints
from frame_eval.threads import in_order

T = TypeVar("T")
Draw: TypeAlias = "Callable[[int, np.random.Generator], Array]"

_BLOCK = 2**21  # weights that are held at once, by each thread
_CODED = 2**11  # kinds of which 16 bits nearly always say one
_CACHED = 2**16  # units that are drawn one by one at once
_MOST = 8  # threads that are worth their memory
_BINOMIAL = 6  # how much longer a binomial count takes than one of a table, in units
_WIDEST = 2**19  # the variance of a binomial count whose law is worth a table
_BASE = 16  # of the digits by which many units of a kind are drawn


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
        size = -(-self.resamples // -(-self.resamples // size))  # all alike, for as many threads

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
    count = _by_codes(first, law)

    def draw(rows: int, generator: np.random.Generator) -> Array:
        drawn = count(rows, generator).astype(np.min_scalar_type(total))
        return np.stack([drawn, total - drawn], -1)

    return draw


def _by_poisson(counts: Ints) -> Draw:
    """Draws of many kinds.

    Independent Poisson counts, given their sum S, are multinomial with S draws. Their mean is a
    little under the number of units of their kind, so that S falls short; resamples that do not are
    drawn again, and the units that are missing are drawn one by one.
    """
    total, kinds = int(counts.sum()), len(counts)
    # Where kinds are many it is dear to draw a resample again, and single units are cheap.
    spare = np.sqrt(2 * np.log1p(kinds / np.sqrt(total)))
    over, share = scipy.special.ndtr(-spare), max(0.0, 1 - spare / np.sqrt(total))
    # Packets that have a law in common are looked up together, by 16 random bits each.
    sizes, places = _packets(counts)
    starts: list[int] = np.flatnonzero(np.diff(sizes, prepend=-1)).tolist()
    small = np.min_scalar_type(len(places) * _most(sizes[-1]) + 100)
    laws = [_poisson(size * share) for size in sizes[starts].tolist()]
    packets = list(zip(laws, starts, [*starts[1:], len(sizes)], strict=True))
    one = _one_of(counts)

    def independent(rows: int, generator: np.random.Generator) -> Array:
        if len(packets) == len(places) == 1:
            return laws[0](rows * kinds, generator).reshape(rows, kinds)
        drawn = np.empty((len(sizes), rows), small)
        for law, a, b in packets:
            drawn[a:b] = law((b - a) * rows, generator).reshape(b - a, rows)
        weights = drawn[places[0]]
        for place in places[1:]:
            weights += drawn[place]
        return np.ascontiguousarray(weights.T)

    def short(rows: int, generator: np.random.Generator) -> tuple[Array, Ints]:
        """So many resamples that fall short, and by how many units."""
        # With those that will not, since to look up a few more later takes longer.
        weights = independent(rows + int(1.1 * rows * over / (1 - over)), generator)
        missing = total - weights.sum(1, dtype=np.int64)
        found = np.flatnonzero(missing >= 0)[:rows]
        if len(found) < len(weights):
            weights, missing = weights[found], missing[found]
        if len(found) < rows:
            more = short(rows - len(found), generator)
            weights, missing = np.concatenate([weights, more[0]]), np.append(missing, more[1])
        return weights, missing

    def draw(rows: int, generator: np.random.Generator) -> Array:
        weights, missing = short(rows, generator)
        # So many at a time that they stay in the cache.
        step = 1 + _CACHED // (1 + int(missing.mean()))
        for start in range(0, rows, step):
            some = missing[start : start + step]
            more = np.repeat(np.arange(len(some)) * kinds, some)
            more += one(len(more), generator)
            part = weights[start : start + step].reshape(-1)
            np.add.at(part, more, weights.dtype.type(1))  # of one type: many times faster
        return weights

    return draw


def _one_of(counts: Ints) -> Draw:
    """The kinds of units that are drawn one by one."""
    total, kinds = int(counts.sum()), len(counts)
    if kinds <= _CODED:
        return _by_codes(0, np.cumsum(counts) / total)
    kind_of = np.repeat(np.arange(kinds, dtype=np.min_scalar_type(kinds)), counts)
    return lambda rows, generator: kind_of.take(generator.integers(0, total, rows))


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
def _poisson(mean: float) -> Draw:
    """Poisson counts."""
    counts = np.arange(max(0, int(mean - 12 * np.sqrt(mean))), _most(mean))
    law: Floats = np.asarray(scipy.special.pdtr(counts, mean), float)
    return _by_codes(int(counts[0]), law)


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


def _by_codes(first: int, law: Floats) -> Draw:
    """Whole numbers from the first on, with this law, by 16 random bits each."""
    numbers = np.arange(first, first + len(law))
    small = np.min_scalar_type(numbers[-1] + 1)
    unknown = np.iinfo(small).max
    edges = law * 2**16
    codes = np.ceil(edges).astype(np.int64)
    table = np.repeat(numbers.astype(small), np.diff(codes, prepend=0))
    # A few codes straddle two numbers.
    table[edges[edges < 2**16].astype(np.int64)] = unknown

    def draw(rows: int, generator: np.random.Generator) -> Array:
        code = _words(rows // 4 + 1, generator).view(np.uint16)[:rows]
        drawn = table.take(code)
        torn = np.flatnonzero(drawn == unknown)
        # They take more bits.
        exact = (code[torn] + generator.random(len(torn))) / 2**16
        drawn[torn] = first + np.minimum(np.searchsorted(law, exact, "right"), len(law) - 1)
        return drawn

    return draw
