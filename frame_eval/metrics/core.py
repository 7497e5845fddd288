"""What a metric is: one group-by sum plus one array function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import LOGICAL, Input, Source, as_input
from frame_eval.errors import EvalError

Array: TypeAlias = npt.NDArray[Any]
Finish: TypeAlias = "Callable[[Any], Any]"
Better: TypeAlias = "Literal['higher', 'lower'] | None"
Bounds: TypeAlias = "tuple[float | None, float | None]"
Term: TypeAlias = "str | Callable[[Any], Any] | Array"

_FEW = 6  # inputs of which all combinations are tried
_BYTES = (np.int8, np.bool_)
_HALF = 63  # the difference of two such numbers is one of a byte too


class Sums:
    """The sums of a metric, read by attribute: ``s.tp``, and ``s.n`` the (weighted) rows.

    Each is an array with any leading axes (slices, systems, replicates) and, for metrics over
    cells, one trailing axis per cell key in sorted order. ``s.classes`` holds the values of the
    cell keys. The same attributes are Polars expressions inside ``Metric.expr``.

    The methods are for ordered cells. Each takes a term: the name of a sum, an array by cell, or a
    function of the sums that treats every cell alike, but for the running sums that it asks for.
    What they say of a group holds however many of its cells are in memory at once.
    """

    def __init__(self, values: Mapping[str, Any], classes: tuple[Any, ...] = ()) -> None:
        self.__dict__.update(values)
        self.classes = classes

    def __getattr__(self, name: str) -> Any:
        raise EvalError(f"the metric has no sum {name!r}; it has {', '.join(self._known())}")

    def _known(self) -> tuple[str, ...]:
        return tuple(name for name in self.__dict__ if name not in ("classes", "_made"))

    def by_cell(self, term: Term) -> Array:
        """A term at every cell; functions are asked once."""
        if isinstance(term, str):
            return getattr(self, term)  # type: ignore[no-any-return]
        if not callable(term):
            return term
        made = self.__dict__.setdefault("_made", {})
        if term not in made:
            made[term] = term(self)
        return made[term]  # type: ignore[no-any-return]

    def total(self, term: Term) -> Any:
        """The sum of a term over all cells."""
        return self.by_cell(term).sum(-1)

    def dot(self, left: Term, right: Term) -> Any:
        """The sum of a product of terms over all cells."""
        return np.einsum("...k,...k->...", self.by_cell(left), self.by_cell(right))

    def from_bottom(self, term: Term) -> Array:
        """The sum of a term over the cells up to each, inclusive."""
        return np.cumsum(self.by_cell(term), axis=-1)

    def from_top(self, term: Term) -> Array:
        """The sum of a term over the cells from the highest down to each, inclusive."""
        return np.cumsum(self.by_cell(term)[..., ::-1], axis=-1)[..., ::-1]


@dataclass(frozen=True)
class Proportion:
    """Hits over trials, both counts of rows, and the monotone map from the share to the metric.

    ``hits`` and ``trials`` are linear in the sums. ``map`` and ``slope`` (its derivative) are
    given where the metric is a function of the share, as F1 is of tp / (tp + fp + fn).
    """

    hits: Finish
    trials: Finish
    map: Finish | None = None
    slope: Finish | None = None


def _first_domain(classes: tuple[Any, ...]) -> Sequence[Any]:
    found: Sequence[Any] = classes[0]
    return found


class PerClass(NamedTuple):
    """From a class to its metric, over the same sums; and which classes have one.

    ``known`` finds the classes that there are from the values of the cell keys; ``labels`` are the
    ones asked for (None: all), each of which has a row, whether it occurs or not. Where cells are
    combinations of many, ``cells`` gives label and prediction (0 or 1) of each for one class.
    """

    of: Callable[[Any], Metric]
    labels: Sequence[Any] | None = None
    known: Callable[[tuple[Any, ...]], Sequence[Any]] = _first_domain
    cells: Callable[[tuple[Any, ...], Any], tuple[Array, Array]] | None = None


@dataclass(frozen=True)
class Unit:
    """A step before the sums: rows become one row per unit (the ``example``).

    ``sums`` names additive columns of the unit from the metric's inputs; ``value`` turns them into
    the unit's value; ``invalid`` says for which units it can not be had, with the message.
    Both see narwhals expressions, so the step runs where the data lives.
    """

    sums: Callable[[Any], Mapping[str, Any]]
    value: Callable[[Any, Any], Any]
    invalid: Callable[[Any], Any] | None = None
    message: str = ""
    drop: bool = False


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric: columns made numbers, group-by sums of them, and a function of the sums.

    Parameters
    ----------
    name
        How results call it.
    inputs
        Name to column, expression or ``frame_eval.columns`` input (``label``, ``flag``, ...); a
        plain column becomes Float64.
    sums
        From the inputs (``c.y``) to the contributions of a row, by name; only ``+ - *`` and
        narwhals expressions. ``s.n``, the (weighted) number of rows, is always there.
    finish
        From the sums (``s.tp``) to the value: arrays with any leading axes in, array out. Several
        threads may call it at once.
    cells
        Inputs that are extra group keys; ``finish`` sees a trailing axis for each.
    ordered
        Whether the cell key has many values in order, as scores have: ``finish`` then sees one
        slice at a time, with the values of the key in ``s.classes[0]``; ``sums`` do not read it.
        Written with ``s.total``, ``s.dot`` and running sums it needs no array of all cells, and is
        asked about several slices at once, along a leading axis. Of
        several cell keys every combination that occurs is a cell, and ``s.classes[0]`` is a Polars
        frame with a column for each.
    runs
        Whether neighbouring ordered cells may be made one where they hold rows of one and the same
        kind (as under a ROC curve, a straight line): resamples are then of fewer cells.
    proportion
        Hits and trials, where the metric is a share of rows: it then gets proportion intervals.
    gradient
        From the sums to the derivative of the value by each sum, by name; of ordered cells an array
        or a term (see :class:`Sums`). Central differences otherwise.
    samples
        Which sum is the denominator of which sums (for the leverage of a cluster); one sample of
        all rows, ``{"n": all}``, otherwise. AUC has two: positives and negatives.
    counts
        Whether the sums count disjoint sets of rows, so that their second moments are known.
    better
        ``"higher"``, ``"lower"`` or None: the direction of guards.
    bounds
        The smallest and largest value, None where unbounded. Linearised intervals are made on the
        logit scale between two bounds and on the log scale above a lower bound of 0.
    undefined
        Reasons for a null, each with a condition on the sums.
    zero_division
        The value where the metric is undefined, if not null.
    worst
        What a missing input counts as under ``missing="worst"``: a number, or a function of the
        other inputs.
    smooth
        Whether linearised errors are valid.
    quantile
        The level, for metrics that are order statistics.
    per_class
        The metrics of the single classes, each a row of the result.
    unit
        A step that makes one row per example first.
    note
        From the sums to a remark on each value ("" for none).
    matched
        Inputs whose mean should be that of the other system in a comparison, each with what it is
        called: a note says where it is not. A first label is such an input, called prevalence.
    expression
        From the inputs (of the rows without a missing one) to the metric as one Polars expression,
        where the sums do not say it.

    Raises
    ------
    EvalError
        When a name is empty or reserved, or cells are not among the inputs.

    Examples
    --------
    Dollars per solved task, in one line, with everything that the library does:

    >>> import frame_eval as fe, polars as pl
    >>> cost = fe.Metric(
    ...     "cost_per_solved",
    ...     inputs={"cost": "usd", "solved": "ok"},
    ...     sums=lambda c: {"cost": c.cost, "solved": c.solved},
    ...     finish=lambda s: s.cost / s.solved,
    ... )
    >>> df = pl.DataFrame({"usd": [1.0, 2.0, 3.0], "ok": [True, False, True]})
    >>> df.eval.summary(cost)["estimate"].item()
    3.0
    >>> df.select(cost.expr()).item()
    3.0
    """

    name: str
    inputs: Mapping[str, Input | Source]
    sums: Callable[[Any], Mapping[str, Any]]
    finish: Finish
    cells: tuple[str, ...] = field(default=(), kw_only=True)
    ordered: bool = field(default=False, kw_only=True)
    runs: bool = field(default=False, kw_only=True)
    proportion: Proportion | None = field(default=None, kw_only=True)
    gradient: Finish | None = field(default=None, kw_only=True)
    samples: Mapping[str, tuple[str, ...]] | None = field(default=None, kw_only=True)
    counts: bool = field(default=False, kw_only=True)
    better: Better = field(default=None, kw_only=True)
    bounds: Bounds = field(default=(None, None), kw_only=True)
    undefined: Mapping[str, Finish] = field(default_factory=dict, kw_only=True)
    zero_division: float | None = field(default=None, kw_only=True)
    worst: Mapping[str, Any] | None = field(default=None, kw_only=True)
    smooth: bool = field(default=True, kw_only=True)
    quantile: float | None = field(default=None, kw_only=True)
    per_class: PerClass | None = field(default=None, kw_only=True)
    unit: Unit | None = field(default=None, kw_only=True)
    note: Finish | None = field(default=None, kw_only=True)
    matched: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    expression: Finish | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name:
            raise EvalError("a metric needs a name")
        inputs = {name: as_input(value) for name, value in self.inputs.items()}
        object.__setattr__(self, "inputs", MappingProxyType(inputs))
        for cell in self.cells:
            if cell not in inputs:
                raise EvalError(f"cell {cell!r} of metric {self.name!r} is not among its inputs")

    def __repr__(self) -> str:
        sources = [s for i in self.made.values() for s in i.sources]
        columns = ", ".join(dict.fromkeys(map(repr, sources)))
        return f"<Metric {self.name} of {columns}>"

    def __reduce__(self) -> Any:
        state = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return _restore, ({**state, "inputs": dict(self.inputs)},)

    @property
    def made(self) -> Mapping[str, Input]:
        """The inputs, columns and expressions among them made numbers."""
        return self.inputs  # type: ignore[return-value]  # made inputs in __post_init__

    @cached_property
    def in_bytes(self) -> Metric:
        """The same over inputs of a byte each, if no step of its sums of true and false needs more.

        They are tried on all values that rows can have, in arithmetic that raises where it wraps.
        """
        plain = not self.cells or (self.ordered and len(self.cells) == 1)
        read = {name: i for name, i in self.made.items() if name not in self.cells}
        logical = all(i.kind in LOGICAL and not i.others for i in read.values())
        if not (plain and logical) or self.unit is not None or not _fit(self):
            return self
        small = {name: replace(given, small=True) for name, given in read.items()}
        return replace(self, inputs={**self.made, **small})

    @cached_property
    def native(self) -> bool:
        """Whether the sums can be said by Polars itself, without functions of narwhals."""
        columns = Sums({name: pl.col(name) for name in self.inputs})
        try:
            said = [*self.sums(columns).values()]
            said += [worst(columns) for worst in (self.worst or {}).values() if callable(worst)]
        except Exception:  # noqa: BLE001  # the sums of a user may raise anything
            return False
        return self.unit is None and all(isinstance(value, pl.Expr) for value in said)

    @property
    def linear(self) -> bool:
        """Whether errors can be linearised: of smooth metrics, and the share below a quantile."""
        return self.smooth or self.quantile is not None

    def sampled(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The sums of every sample by its denominator; those of none go with the first."""
        samples = self.samples or {"n": tuple(names)}
        rest = set(names).difference(*samples.values())
        found = {}
        for denominator, members in samples.items():
            found[denominator] = [name for name in names if name in members or name in rest]
            rest = set()
        return found

    @property
    def follows(self) -> bool:
        """Whether second moments follow from the sums, as these count rows and nothing else."""
        own = all(members == (name,) for name, members in (self.samples or {}).items())
        return self.proportion is not None or (self.counts and own)

    def slopes(self, sums: Sums) -> dict[str, Array]:
        """The derivative of the value by each sum that moves it, by cell."""
        given = {} if self.gradient is None else self.gradient(sums)
        return {name: sums.by_cell(slope) for name, slope in given.items()}

    def alias(self, name: str) -> Metric:
        """The same metric under another name.

        >>> import frame_eval as fe
        >>> fe.rate("correct").alias("solved").name
        'solved'
        """
        return replace(self, name=name)

    def expr(self) -> pl.Expr:
        """The estimate as one Polars expression, for ``group_by().agg()``, ``over``, ``rolling``.

        Returns
        -------
        polars.Expr
            Float64, named like the metric; null (or ``zero_division``) where undefined. Rows with
            a missing input are left out. Of many rows ``summary`` is faster, but for plain sums.

        Raises
        ------
        EvalError
            For metrics over units and those over cells that no expression says: rows per class,
            metrics of lists of labels or with ``label_of``, recalibration and ``ece_debiased``. Use
            ``summary``.

        Examples
        --------
        >>> import frame_eval as fe, polars as pl
        >>> df = pl.DataFrame({"lang": ["sw", "sw", "de"], "ok": [1, 0, 1]})
        >>> df.group_by("lang", maintain_order=True).agg(fe.rate("ok").expr())["rate(ok)"].to_list()
        [0.5, 1.0]
        """
        if (self.cells or self.unit) and self.expression is None:
            raise EvalError(f"{self.name!r} is not one expression; use frame.eval.summary")
        columns = {name: i.build(pl, _natives(i), None) for name, i in self.made.items()}
        valid = pl.all_horizontal(*(column.is_not_null() for column in columns.values()))
        if self.expression is not None:
            kept = {name: column.filter(valid) for name, column in columns.items()}
            value = self.expression(Sums(kept))
        else:
            whole = {name: pl.when(valid).then(column) for name, column in columns.items()}
            values = {name: value.sum() for name, value in self.sums(Sums(whole)).items()}
            value = self.finish(Sums({"n": valid.sum().cast(pl.Float64), **values}))
        nothing = pl.lit(self.zero_division, dtype=pl.Float64)
        shown = pl.when(value.is_finite()).then(value).when(valid.any()).then(nothing)
        return shown.alias(self.name)


def _fit(metric: Metric) -> bool:
    """Whether sums of 0/1 inputs are whole numbers of a byte, on the way and in the end."""
    names = list(metric.inputs)
    if len(names) > _FEW:
        return False

    def sums_of(kind: type[np.generic], row: tuple[int, ...]) -> Mapping[str, Any]:
        return metric.sums(Sums(dict(zip(names, map(kind, row), strict=True))))

    rows = product((0, 1), repeat=len(names))
    try:
        with np.errstate(all="raise"):
            return all(_alike(sums_of(np.int8, row), sums_of(np.float64, row)) for row in rows)
    except Exception:  # noqa: BLE001  # the sums of a user may raise anything
        return False


def _alike(small: Mapping[str, Any], wide: Mapping[str, Any]) -> bool:
    """Whether values are bytes, far from where these wrap, and the same as in floating point."""
    return all(
        np.asarray(value).dtype in _BYTES and abs(int(value)) <= _HALF and value == wide[name]
        for name, value in small.items()
    )


def _restore(state: dict[str, Any]) -> Metric:
    return Metric(**state)


def _natives(given: Input) -> list[pl.Expr]:
    for source in given.sources:
        if not isinstance(source, (str, pl.Expr)):
            raise EvalError("expr() takes column names and pl.col expressions, not fe.col")
    return [pl.col(s) if isinstance(s, str) else s for s in given.sources]  # type: ignore[misc]
