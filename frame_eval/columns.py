"""Columns as the library sees them: metric inputs, the neutral ``fe.col``.

Inputs are made floating point (or 0/1) before any arithmetic, so that booleans, small integers,
decimals and labels give the same numbers on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals as nw
import polars as pl

from frame_eval.errors import ColumnError
from frame_eval.wording import wording

col = nw.col

Source: TypeAlias = "str | nw.Expr | pl.Expr"
Columns: TypeAlias = "str | Sequence[str]"
Kind: TypeAlias = Literal[
    "number",
    "flag",
    "label",
    "equal",
    "category",
    "score",
    "probability",
    "bin",
    "total",
    "truth",
    "rank",
    "class",
    "top",
    "labels",
]
NUMERIC = ("number", "flag", "score", "probability", "bin", "total", "top")
LOGICAL = ("flag", "label", "equal")
OF_A_CLASS = ("truth", "rank", "class")
# How far from 1 the probabilities of a row may sum: single precision, or rounded to four digits.
TOTAL_ERROR = 1e-3


@dataclass(frozen=True, eq=False)
class Input:
    """One column that a metric reads, and what it is made into.

    ``number``: Float64, NaN to null. ``flag``: the same, 0 or 1 only; where one of the ``others``
    is 0 it is 0, and may be missing. ``label``: 1 where the value
    is ``positive``, else 0. ``equal``: 1 where the two sources agree, else 0. ``category``: a
    label kept as it is, as a cell key (``peer`` is the column that shares its classes).
    ``score``: a number used as an ordered cell key (infinities are legal). ``probability``: a
    number between 0 and 1. ``bin``: such a number as a cell key, which of so many ``bins`` of equal
    width it is in.

    Of a label and ``others``, one column for each of the ``classes``: ``truth`` is the
    probability of the row's class, ``rank`` the number of classes that score as high as it or
    higher. ``total`` is the sum of such columns, which has to be 1, ``top`` the largest of them.
    ``class`` is the position of a label among the ``classes``. ``labels`` are lists of labels, as
    a cell key.

    What is true or false, as it stands or by a comparison, may be made ``small``: 0 or 1 in a byte.
    """

    kind: Kind
    source: Source
    peer: Source | None = None
    positive: Any = None
    bins: int | None = None
    classes: tuple[Any, ...] = ()
    others: tuple[Source, ...] = ()
    small: bool = False

    def __post_init__(self) -> None:
        for source in self.sources:
            check_source(source)

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two inputs the same column, so that they are computed once."""
        sources = map(_source_key, self.sources)
        words = repr(self.positive), self.bins, repr(self.classes), self.small
        return (self.kind, *sources, *words)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The columns or expressions behind this input."""
        return (self.source, *self.others) if self.peer is None else (self.source, self.peer)

    def build(self, ns: Any, exprs: Sequence[Any], dtypes: Sequence[Any] | None) -> Any:
        """The input as an expression of ``ns`` (narwhals or polars) over its resolved sources.

        Without ``dtypes`` (an expression that has not met its frame) nothing is assumed of them.
        """
        types = [None] * len(exprs) if dtypes is None else [_family(dtype) for dtype in dtypes]
        number = ns.Int8 if self.small else ns.Float64
        if self.kind == "equal":
            left, right = _comparable(ns, exprs, types)
            return (left == right).cast(number)
        if self.kind in ("category", "labels"):
            return _comparable(ns, exprs, types)[0]
        one_of_two = self.kind == "label" and self.positive is not None
        if one_of_two or (self.small and types == ["boolean"]):
            value = _is_class(ns, exprs[0], types[0], self.positive) if one_of_two else exprs[0]
            return value.cast(number)
        if self.kind in OF_A_CLASS:
            classes = [_is_class(ns, exprs[0], types[0], value) for value in self.classes]
            scores: list[Any] = [float(k) for k in range(len(classes))]
            if self.others:
                scores = [_float(ns, *pair) for pair in zip(exprs[1:], types[1:], strict=True)]
            return _of_truth(ns, exprs[0], classes, scores, rank=self.kind == "rank")
        values = [_float(ns, *pair) for pair in zip(exprs, types, strict=True)]
        if self.kind == "flag":
            value = _where(ns, *values)
        else:
            value = ns.max_horizontal(*values) if self.kind == "top" else summed(values)
        if self.bins is not None:
            return bin_of(value, self.bins)
        return value + 0.0 if self.kind == "score" else value

    def invalid(self, value: Any, dtype: Any) -> Any | None:
        """A condition for rows with a value that the input can not be, beyond nulls."""
        zero_one = self.kind == "flag" or (self.kind == "label" and self.positive is None)
        if zero_one and _family(dtype) != "boolean":
            return value * (value - 1.0) != 0.0
        if self.kind == "probability":
            return (value < 0.0) | (value > 1.0)
        if self.kind == "total":
            return (value - 1.0).abs() > TOTAL_ERROR
        return value < 0.0 if self.kind in OF_A_CLASS else None

    def check_dtypes(self, names: Sequence[str], dtypes: Sequence[Any]) -> None:
        """Raise where a column's type can not serve, before anything is computed."""
        families = [_family(dtype) for dtype in dtypes]
        _check_lists(self.kind, names, dtypes)
        numeric = ("integer", "float", "number", "boolean", "null")
        if "null" in families and self.kind not in NUMERIC:
            return
        numbers = range(len(names)) if self.kind in NUMERIC else range(1, len(self.others) + 1)
        for i in numbers:
            if families[i] not in numeric:
                way = "cast it first"
                if self.kind == "flag" and families[i] == "text":
                    way = f"compare it: fe.col({names[i]!r}) == <the text that counts as 1>"
                raise ColumnError(
                    f"column {names[i]!r} is {dtypes[i]}, but this metric needs numbers; {way}"
                )
        if self.kind in ("equal", "category") and len(families) == 2:
            text = [family == "text" for family in families]
            if text[0] != text[1]:
                raise ColumnError(
                    f"columns {names[0]!r} ({dtypes[0]}) and {names[1]!r} ({dtypes[1]}) can not be "
                    "compared as labels; cast one to the type of the other"
                )
        if self.kind == "label" and self.positive is not None:
            _check_class(self.positive, "positive=", names[0], families[0], dtypes[0])
        for value in self.classes:
            _check_class(value, "class ", names[0], families[0], dtypes[0])


def _check_lists(kind: Kind, names: Sequence[str], dtypes: Sequence[Any]) -> None:
    for name, dtype in zip(names, dtypes, strict=True):
        listed = isinstance(dtype, (nw.List, nw.Array)) or dtype in (nw.List, nw.Array)
        if kind == "labels" and not listed:
            raise ColumnError(
                f"column {name!r} is {dtype}, not lists of labels; leave out multilabel=True"
            )
        if kind in ("label", "equal", "category") and listed:
            raise ColumnError(f"column {name!r} is {dtype}, lists of labels; say multilabel=True")


def number(source: Source) -> Input:
    """A numeric column as Float64, NaN as missing.

    >>> number("latency_s").kind
    'number'
    """
    return Input("number", source)


def flag(source: Source, where: Iterable[Source] = ()) -> Input:
    """A 0/1 or boolean column; other values raise.

    Where one of the flags ``where`` is 0 it is 0, whatever the column has.

    >>> flag("correct", where=["answered"]).sources
    ('correct', 'answered')
    """
    return Input("flag", source, others=tuple(where))


def label(source: Source, positive: Any = None) -> Input:
    """A label column as 1 for the class ``positive`` (default True or 1) and 0 for the others.

    >>> label("gold", positive="spam").positive
    'spam'
    """
    return Input("label", source, positive=positive)


def equal(left: Source, right: Source) -> Input:
    """1 where two label columns agree, 0 where they do not.

    >>> equal("gold", "pred").sources
    ('gold', 'pred')
    """
    return Input("equal", left, right)


def category(source: Source, peer: Source) -> Input:
    """A label as a cell key, in a domain of classes shared with the column ``peer``.

    >>> category("gold", "pred").kind
    'category'
    """
    return Input("category", source, peer)


def labels(source: Source) -> Input:
    """Lists of labels as a cell key: the order in a list and repeats do not matter.

    >>> labels("topics").kind
    'labels'
    """
    return Input("labels", source)


def score(source: Source) -> Input:
    """A number as an ordered cell key: equal values share a cell.

    >>> score("confidence").kind
    'score'
    """
    return Input("score", source)


def probability(source: Source) -> Input:
    """A number between 0 and 1; others raise.

    >>> probability("confidence").kind
    'probability'
    """
    return Input("probability", source)


def binned(source: Source, bins: int) -> Input:
    """A probability as a cell key: its bin among ``bins`` of equal width.

    >>> binned("confidence", 15).bins
    15
    """
    return Input("bin", source, bins=bins)


def of_truth(target: Source, columns: Mapping[Any, Source]) -> Input:
    """The probability that a row gives to its own class, from a column for each class.

    >>> of_truth("gold", {"ham": "p_ham", "spam": "p_spam"}).sources
    ('gold', 'p_ham', 'p_spam')
    """
    return Input("truth", target, classes=tuple(columns), others=tuple(columns.values()))


def rank_of_truth(target: Source, columns: Mapping[Any, Source]) -> Input:
    """How many classes score as high as the row's own class, or higher: 1 is best.

    >>> rank_of_truth("gold", {"ham": "s_ham", "spam": "s_spam"}).classes
    ('ham', 'spam')
    """
    return Input("rank", target, classes=tuple(columns), others=tuple(columns.values()))


def member(target: Source, classes: Iterable[Any]) -> Input:
    """The position of a label among the classes; other labels raise.

    >>> member("gold", ["ham", "spam"]).classes
    ('ham', 'spam')
    """
    return Input("class", target, classes=tuple(classes))


def total(columns: Iterable[Source]) -> Input:
    """The sum of the probabilities of all classes; other sums than 1 raise.

    >>> total(["p_ham", "p_spam"]).sources
    ('p_ham', 'p_spam')
    """
    first, *others = columns
    return Input("total", first, others=tuple(others))


def top(columns: Iterable[Source], bins: int | None = None) -> Input:
    """The largest probability of a row; with ``bins`` which of so many of equal width it is in.

    >>> top(["p_ham", "p_spam"], 15).bins
    15
    """
    first, *others = columns
    return Input("top", first, others=tuple(others), bins=bins)


def as_input(value: Input | Source) -> Input:
    """An input as given, or a column or expression as a number."""
    return value if isinstance(value, Input) else number(value)


def source_name(source: Source) -> str:
    """How a source is called in names and messages.

    >>> source_name(nw.col("x") > 0.5)
    'x > 0.5'
    """
    return source if isinstance(source, str) else wording(source)


def check_source(source: object) -> None:
    """Raise unless this is the name of a column or an expression of columns.

    >>> check_source(3)
    Traceback (most recent call last):
    frame_eval.errors.ColumnError: 3 is not a column: give its name or an expression of fe.col
    """
    if not isinstance(source, (str, nw.Expr, pl.Expr)):
        shown = repr(source) if isinstance(source, (int, float)) else f"a {type(source).__name__}"
        raise ColumnError(f"{shown} is not a column: give its name or an expression of fe.col")


def _source_key(source: Source | None) -> object:
    return source if source is None or isinstance(source, str) else id(source)


def _family(dtype: Any) -> str | None:
    if dtype is None:
        return None
    if dtype == nw.Boolean:
        return "boolean"
    if dtype == nw.Unknown:
        # A column of nulls: it can be made anything.
        return "null"
    if isinstance(dtype, (nw.String, nw.Categorical, nw.Enum)) or dtype in (
        nw.String,
        nw.Categorical,
        nw.Enum,
    ):
        return "text"
    kinds = {"integer": dtype.is_integer(), "float": dtype.is_float(), "number": dtype.is_numeric()}
    return next((kind for kind, holds in kinds.items() if holds), "other")


def _plain(ns: Any, expr: Any, family: str | None) -> Any:
    """A label without what differs between engines: categories as text, NaN as null."""
    if family == "text":
        return expr.cast(ns.String)
    return expr.fill_nan(None) if family == "float" else expr


def _float(ns: Any, expr: Any, family: str | None) -> Any:
    """A number as Float64, NaN as null."""
    value = expr.cast(ns.Float64)
    return value.fill_nan(None) if family in (None, "float", "number") else value


def _where(ns: Any, value: Any, *flags: Any) -> Any:
    """A value where no flag is 0, and 0 elsewhere."""
    for flag in flags:
        value = ns.when(flag == 0.0).then(0.0).otherwise(value)
    return value


def _is_class(ns: Any, expr: Any, family: str | None, value: Any) -> Any:
    """Whether a label is the class ``value``."""
    plain = _plain(ns, expr, family)
    if family in ("integer", "float", "number", "boolean"):
        return plain.cast(ns.Float64) == float(value)
    return plain == value


def summed(values: Sequence[Any]) -> Any:
    """Expressions added up in pairs, so that a thousand of them do not nest a thousand deep.

    >>> summed([1, 2, 3, 4, 5])
    15
    """
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return summed(values[:half]) + summed(values[half:])


def _of_truth(
    ns: Any, label: Any, classes: Sequence[Any], scores: Sequence[Any], *, rank: bool
) -> Any:
    """The score of the row's class, or its rank; -1 for a label that is none of the classes."""
    pairs = zip(classes, scores, strict=True)
    own = summed([ns.when(is_class).then(score_of).otherwise(0.0) for is_class, score_of in pairs])
    known = summed([is_class.cast(ns.Float64) for is_class in classes])
    if rank:
        own = summed([(score_of >= own).cast(ns.Float64) for score_of in scores])
    return ns.when(~label.is_null()).then(ns.when(known > 0).then(own).otherwise(-1.0))


def _check_class(value: Any, said: str, column: str, family: str | None, dtype: Any) -> None:
    if (family == "text") != isinstance(value, str):
        raise ColumnError(f"{said}{value!r} is not of the type of column {column!r} ({dtype})")


def bin_of(value: Any, bins: int) -> Any:
    """The number of the bin (lo, hi] of a probability, 1 to ``bins``; 0 is in the first.

    Within a billionth of a bin above an edge is on it: 0.07 * 100 is not 7 in doubles.
    """
    return (value * bins - 1e-9).ceil().clip(1.0, float(bins))


def _comparable(ns: Any, exprs: Sequence[Any], families: Sequence[str | None]) -> list[Any]:
    """Two label columns in one type."""
    # A column of nulls is taken for what the other column is.
    unknown = "text" if "text" in families else "number"
    families = [unknown if family == "null" else family for family in families]
    plain = [_plain(ns, expr, family) for expr, family in zip(exprs, families, strict=True)]
    if set(families) == {"integer"} and len(plain) > 1:
        return [expr.cast(ns.Int64) for expr in plain]
    if len(set(families)) > 1 and set(families) <= {"boolean", "integer", "float", "number"}:
        wide = ns.Float64 if {"float", "number"} & set(families) else ns.Int64
        return [expr.cast(wide) for expr in plain]
    return plain
