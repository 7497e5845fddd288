"""Several columns in one unsigned integer that sorts as they do, and one sort of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.table import Floats, Ints, bisected, joined
from frame_eval.threads import at_once, cores, spread_out

Words: TypeAlias = npt.NDArray[np.uint64]
Field: TypeAlias = "Callable[[slice], Words]"

_LARGE = 1 << 19  # words that are sorted faster by several threads
_ROOM = 1 << 20  # left above zero, so that codes without their last bits are still apart from it
_MOST_DECIMALS = 6  # of numbers that are taken for decimal ones
_MAGNITUDE = 2**63 - 1  # the bits of a float64 without its sign


def blocks(length: int) -> list[slice]:
    """Slices that cover an array piece by piece."""
    size = at_once(length)
    return [slice(start, start + size) for start in range(0, length, size)]


class Column:
    """The numbers of a column without nulls, a part at a time: its chunks are not joined.

    Less the ``least`` of them, if it is given.
    """

    def __init__(self, values: pl.Series, least: int = 0) -> None:
        self.chunks = [chunk.to_numpy() for chunk in values.get_chunks()]
        self.starts = np.cumsum([0, *map(len, self.chunks)])
        self.least = least

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        stop = min(part.stop, len(self))
        first, last = np.searchsorted(self.starts, [part.start, stop - 1], side="right") - 1
        found = joined(
            [
                self.chunks[i][max(part.start - self.starts[i], 0) : stop - self.starts[i]]
                for i in range(first, last + 1)
            ]
        )
        return found - self.least if self.least else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        found = joined(self.chunks)
        return np.asarray(found - self.least if self.least else found, dtype)


Values: TypeAlias = "Column | npt.NDArray[Any]"


@dataclass(frozen=True)
class Score(ABC):
    """Float64 numbers as whole numbers from 0 that sort as they do and need few bits.

    They are ``width`` bits wide, ``least`` is what the smallest would be otherwise.
    """

    values: Values
    width: int
    least: int

    @staticmethod
    def of(values: Values) -> Score:
        """How to code some numbers; -0.0 and 0.0 are one, and none may be NaN."""
        return _Decimals.found(values) or _Bits.found(values)

    @abstractmethod
    def coded(self, numbers: Floats) -> Ints:
        """Numbers as whole ones that sort as they do."""

    @abstractmethod
    def number(self, coded: Ints) -> Floats:
        """The numbers behind whole ones."""

    def __call__(self, part: slice) -> Words:
        """The codes of a part of the numbers."""
        coded = self.coded(self.values[part])
        coded -= self.least
        return coded.view(np.uint64)

    def decoded(self, code: Words) -> Floats:
        """The numbers behind some codes."""
        return self.number(code.view(np.int64) + np.int64(self.least))

    def field(self) -> tuple[Field, int]:
        """The codes as a field."""
        return self, self.width

    def rounded(self, bits: int) -> tuple[Field, int]:
        """The codes without their last bits as a field."""
        return lambda part: self(part) >> np.uint64(bits), self.width - bits

    def told_apart(self, bits: int) -> bool:
        """Whether different numbers differ without their last bits too."""
        some = spread_out(lambda part: _distinct(self(part)), blocks(len(self.values)))
        code = joined(some)
        sort(code)
        differ = code[1:] ^ code[:-1]
        return not ((differ > 0) & (differ < np.uint64(1 << bits))).any()


@dataclass(frozen=True)
class _Decimals(Score):
    """Numbers that all have few decimals, times a power of ten."""

    scale: float

    @classmethod
    def found(cls, values: Values) -> Score | None:
        if not len(values):
            return None
        scales = 10.0 ** np.arange(_MOST_DECIMALS + 1)

        def fits(numbers: Floats, scale: Any) -> tuple[Any, Any]:
            whole = np.rint(numbers * scale)
            return whole, (whole / scale == numbers) & (np.abs(whole) < 2**31)

        with np.errstate(over="ignore", invalid="ignore"):
            # The first numbers show if it is worth a look at all of them.
            fitting = fits(values[slice(0, 64)], scales[:, None])[1].all(axis=1)
            if not fitting.any():
                return None
            scale = float(scales[fitting.argmax()])

            def of_block(part: slice) -> tuple[bool, float, float]:
                whole, there = fits(values[part], scale)
                return bool(there.all()), whole.min(), whole.max()

            all_fit, lows, highs = zip(*spread_out(of_block, blocks(len(values))), strict=True)
        if not all(all_fit):
            return None
        low, high = int(min(lows)), int(max(highs))
        return cls(values, (high - low).bit_length(), low, scale)

    def coded(self, numbers: Floats) -> Ints:
        return np.rint(numbers * self.scale).astype(np.int64)

    def number(self, coded: Ints) -> Floats:
        return coded / self.scale


@dataclass(frozen=True)
class _Bits(Score):
    """The bits of any numbers; without its sign a float sorts as they do.

    Trailing bits that no number uses and most of the span between zero and the smallest magnitude
    are left out.
    """

    spare: int
    gap: int

    @classmethod
    def found(cls, values: Values) -> Score:
        def of_block(part: slice) -> tuple[int, int, float, float]:
            numbers = values[part]
            magnitude = numbers.view(np.int64) & _MAGNITUDE
            used = int(np.bitwise_or.reduce(magnitude))
            # Zero wraps around to the largest number.
            nearest = int((magnitude.view(np.uint64) - np.uint64(1)).min())
            return used, nearest, numbers.min(), numbers.max()

        found = spread_out(of_block, blocks(len(values))) or [(0, 0, 0.0, 0.0)]
        each_used, each_nearest, lows, highs = zip(*found, strict=True)
        used = reduce(or_, each_used)
        spare = (used & -used).bit_length() - 1 if used else 0
        gap = max(((min(each_nearest) + 1) >> spare) - _ROOM, 0) if used else 0
        ends = cls(values, 0, 0, spare, gap).coded(np.array([min(lows), max(highs)]))
        low, high = map(int, ends)
        return cls(values, (high - low).bit_length(), low, spare, gap)

    def coded(self, numbers: Floats) -> Ints:
        bits = numbers.view(np.int64)
        sign = bits >> 63
        coded: Ints = bits & _MAGNITUDE
        coded >>= self.spare
        coded -= self.gap
        np.maximum(coded, 0, out=coded)
        coded ^= sign
        coded -= sign
        return coded

    def number(self, coded: Ints) -> Floats:
        bits = np.where(coded == 0, 0, (np.abs(coded) + self.gap) << self.spare)
        return np.copysign(bits.view(np.float64), np.where(coded < 0, -1.0, 1.0))


def _distinct(code: Words) -> Words:
    """Some codes, each once; they are sorted where they are."""
    code.sort()
    found: Words = code[np.append(True, code[1:] != code[:-1])]
    return found


class Packed:
    """Unsigned whole numbers side by side in one integer of 32, 64 or 128 bits, sorted.

    Parameters
    ----------
    length
        How many.
    fields
        From a part of the rows to its numbers, and the bits that they need; the least significant
        first.
    """

    def __init__(self, length: int, fields: Sequence[tuple[Field, int]]) -> None:
        self.widths = [width for _, width in fields]
        total, last = sum(self.widths), self.widths[-1]
        # The upper word is the last field alone, where the others fill the lower one.
        self.base = min(total - last, 64) if total > 64 else 64
        small = total - self.base <= 16
        low: Any = np.empty(length, np.uint32 if total <= 32 else np.uint64)
        high: Any = np.zeros(length, np.uint16 if small else np.uint64) if total > 64 else None

        def pack(part: slice) -> None:
            offset, word = 0, np.zeros(len(low[part]), np.uint64)
            for values, width in fields:
                value = values(part)
                if high is not None and offset + width > self.base:
                    upper = _shifted(value, offset - self.base)
                    high[part] |= upper.astype(high.dtype)
                if offset < self.base and width:
                    value <<= np.uint64(offset)
                    word |= value
                offset += width
            low[part] = word

        spread_out(pack, blocks(length))
        self.low, self.high = _sorted(low, high)

    def field(self, position: int, rows: Any = slice(None)) -> Words:
        """One of the fields, in the order of all of them; of some rows."""
        width, offset = self.widths[position], sum(self.widths[:position])
        found: Words = np.zeros(self.low[rows].shape, np.uint64)
        if width and offset < self.base:
            found = _shifted(self.low[rows], -offset)
        if self.high is not None and offset + width > self.base:
            found |= _shifted(self.high[rows].astype(np.uint64), self.base - offset)
        found &= np.uint64((1 << width) - 1)
        return found

    def edges(self, count: int) -> Ints:
        """Where each number under a count starts in the last field, and where all end."""
        wanted = np.arange(count, dtype=np.uint64)
        starts = bisected(lambda at: self.field(-1, at) < wanted, len(self.low), count)
        return np.append(starts, len(self.low))

    def starts(self, fields: int) -> Ints | None:
        """The rows that differ from the one before in any but the first fields, and their number.

        None if all differ.
        """
        beneath = np.uint64(1 << sum(self.widths[:fields]))
        length = len(self.low)

        def found(part: slice) -> Ints | None:
            after = slice(part.start + 1, min(part.stop + 1, length))
            before = slice(part.start, after.stop - 1)
            new = (self.low[after] ^ self.low[before]) >= beneath
            if self.high is not None:
                new |= self.high[after] != self.high[before]
            return None if new.all() else np.flatnonzero(new) + after.start

        parts = blocks(length - 1)
        each = spread_out(found, parts)
        if all(one is None for one in each):
            return None
        rows = [
            np.arange(part.start, min(part.stop, length - 1)) + 1 if one is None else one
            for part, one in zip(parts, each, strict=True)
        ]
        return np.concatenate([[0], *rows, [length]])


def _shifted(value: Words, by: int) -> Words:
    shift: Words = value << np.uint64(by) if by >= 0 else value >> np.uint64(-by)
    return shift


def sort(words: Words) -> None:
    """Sort words where they are, on all cores where they are many."""
    if cores() == 1 or len(words) < _LARGE:
        words.sort()
        return
    edges = [len(words) * i // cores() for i in range(cores() + 1)]
    # Which words belong into which part takes a small share of the time that their order takes.
    words.partition(edges[1:-1])
    spread_out(lambda part: words[part].sort(), [slice(*pair) for pair in pairwise(edges)], least=1)


def _sorted(low: Words, high: Any) -> tuple[Words, Any]:
    if high is None:
        sort(low)
        return low, None
    if high.dtype == np.uint16:
        # A stable sort of 16 bits is a counting sort; the rest is sorted where it is.
        low = low[np.argsort(high, kind="stable")]
        counts = np.bincount(high)
        ends = np.cumsum(counts)
        for start, end in zip(ends - counts, ends, strict=True):
            low[start:end].sort()
        return low, np.repeat(np.arange(len(counts), dtype=np.uint16), counts)
    whole = pl.col("high").cast(pl.UInt128) * 2**64 + pl.col("low")
    frame = pl.DataFrame({"low": low, "high": high}).lazy().select(whole.alias("key"))
    key = frame.collect(engine="streaming")["key"].sort()
    upper = (key // 2**64).cast(pl.UInt64)
    return key.cast(pl.UInt64, wrap_numerical=True).to_numpy(), upper.to_numpy()


def whole(values: Values, count: int) -> tuple[Field, int]:
    """Whole numbers from 0 and under a count as a field."""
    return lambda part: values[part].astype(np.uint64), max(count - 1, 0).bit_length()


def position(count: int) -> tuple[Field, int]:
    """The position of the row as a field."""
    return (
        lambda part: np.arange(part.start, min(part.stop, count), dtype=np.uint64),
        max(count - 1, 0).bit_length(),
    )
