"""Classification of rows that have several labels each, in columns of lists.

A cell is a distinct pair of label list and prediction list. Which labels are in them says what
each cell adds to the counts of every label, and what the score of a row of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import Source, labels
from frame_eval.metrics.confusion import Confusion, Layout, Margins, Score, absent_from
from frame_eval.metrics.core import Metric

Array: TypeAlias = npt.NDArray[Any]


class Members(NamedTuple):
    """Pairs of a cell and the position of a label that it has."""

    cell: Array
    label: Array

    def by_label(self, of_cells: Array, size: int) -> Array:
        """Sums over cells by label (the trailing axis of ``size``)."""
        return _added(self.label, np.asarray(of_cells)[..., self.cell], size)

    def by_cell(self, of_labels: Array, size: int) -> Array:
        """Sums over labels by cell (the trailing axis of ``size``)."""
        return _added(self.cell, np.asarray(of_labels)[..., self.label], size)


def _added(place: Array, values: Array, size: int) -> Array:
    flat = values.reshape(int(np.prod(values.shape[:-1], dtype=int)), values.shape[-1])
    sums = np.array([np.bincount(place, row, size) for row in flat])
    shaped: Array = sums.reshape(*values.shape[:-1], size)
    return shaped


class Sets(NamedTuple):
    """Which labels are in the cells as label, as prediction, and as both."""

    names: Sequence[Any]
    truth: Members
    predicted: Members
    both: Members

    @classmethod
    def of(cls, asked: Sequence[Any] | None, classes: tuple[Any, ...]) -> Sets:
        """Of the combinations of two lists; of the labels asked for, or else all that occur."""
        cells = classes[0].with_row_index("cell").cast({"cell": pl.Int64})
        truth, predicted = (_members(cells, name) for name in ("y", "p"))
        domain = pl.concat([truth["label"], predicted["label"]]).unique().sort()
        if asked is not None:
            absent_from(domain.to_list(), asked)
            domain = pl.Series("label", list(asked)).cast(domain.dtype)
        numbered = pl.DataFrame({"label": domain, "place": np.arange(len(domain))})
        truth, predicted = (
            found.join(numbered, on="label").select("cell", "place").unique().sort("place", "cell")
            for found in (truth, predicted)
        )
        both = truth.join(predicted, on=["cell", "place"], maintain_order="left")
        parts = (
            Members(found["cell"].to_numpy(), found["place"].to_numpy())
            for found in (truth, predicted, both)
        )
        return cls(domain.to_list(), *parts)


def _members(cells: pl.DataFrame, name: str) -> pl.DataFrame:
    found = cells.select("cell", pl.col(name).alias("label")).explode("label").drop_nulls("label")
    dtype = found.schema["label"]
    if dtype in (pl.Null, pl.Categorical, pl.Enum):
        found = found.with_columns(pl.col("label").cast(pl.String))
    return found


def _margins(asked: Sequence[Any] | None, s: Any) -> Margins:
    sets = Sets.of(asked, s.classes)
    size, n = len(sets.names), np.asarray(s.n)
    diagonal, truth, predicted = (
        found.by_label(n, size) for found in (sets.both, sets.truth, sets.predicted)
    )
    confusion = Confusion(diagonal, truth, predicted, n.sum(-1, keepdims=True))
    support = sets.truth.by_label(s.rows, size)
    return Margins(confusion, sets.names, np.ones(size, bool), support)


def _spread(asked: Sequence[Any] | None, score: Score, s: Any) -> dict[str, Array]:
    sets, size = Sets.of(asked, s.classes), np.shape(s.n)[-1]
    slopes = (
        sets.both.by_cell(score.by_diagonal, size)
        + sets.truth.by_cell(score.by_truth, size)
        + sets.predicted.by_cell(score.by_predicted, size)
        + score.by_n.sum(-1, keepdims=True)
    )
    return {"n": slopes}


SETS = Layout(_margins, _spread)


def known_labels(classes: tuple[Any, ...]) -> Sequence[Any]:
    """The labels that occur."""
    return Sets.of(None, classes).names


def cells_of_label(classes: tuple[Any, ...], value: Any) -> tuple[Array, Array]:
    """Whether a label is in the label list and in the prediction list of each cell."""
    sets, size = Sets.of([value], classes), len(classes[0])
    one = np.ones(1)
    truth, predicted = (
        found.by_cell(one, size).astype(np.int64) for found in (sets.truth, sets.predicted)
    )
    return truth, predicted


def _of_rows(sets: Sets, size: int) -> Confusion:
    """The confusion of the labels of a single row of each cell."""
    one = np.ones(len(sets.names))
    diagonal, truth, predicted = (
        found.by_cell(one, size) for found in (sets.both, sets.truth, sets.predicted)
    )
    return Confusion(diagonal, truth, predicted, np.full(size, float(len(sets.names))))


RowScore: TypeAlias = "Callable[[Confusion], Array]"


def score_of_rows(score: Callable[[Confusion], Score], zero: float | None, c: Confusion) -> Array:
    """The score of single rows, NaN where it is undefined and nothing counts for that."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = score(c).value
    kept: Array = value if zero is None else np.where(np.isfinite(value), value, zero)
    return kept


def differing(c: Confusion) -> Array:
    """The share of labels that are in one list only; NaN without any label."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share: Array = (c.truth + c.predicted - 2 * c.diagonal) / c.n
    return share


def the_same(c: Confusion) -> Array:
    """One where both lists have the same labels."""
    same: Array = (c.truth == c.diagonal) & (c.predicted == c.diagonal)
    return same.astype(float)


def _values(row: RowScore, asked: Sequence[Any] | None, s: Any) -> tuple[Array, Array]:
    """The value of the rows of each cell, and whether it has one."""
    values = row(_of_rows(Sets.of(asked, s.classes), np.shape(s.n)[-1]))
    defined = np.isfinite(values)
    return np.where(defined, values, 0.0), defined


def _mean(row: RowScore, asked: Sequence[Any] | None, s: Any) -> Array:
    values, defined = _values(row, asked, s)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean: Array = (s.n * values).sum(-1) / (s.n * defined).sum(-1)
    return mean


def _mean_gradient(row: RowScore, asked: Sequence[Any] | None, s: Any) -> dict[str, Array]:
    values, defined = _values(row, asked, s)
    mean, whole = _mean(row, asked, s)[..., None], (s.n * defined).sum(-1)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return {"n": np.where(defined, (values - mean) / whole, 0.0)}


def _rows_left_out(row: RowScore, asked: Sequence[Any] | None, s: Any) -> str:
    defined = _values(row, asked, s)[1]
    lost = float(np.sum(np.where(defined, 0.0, s.rows)))
    return f"{lost:g} row{'' if lost == 1 else 's'} undefined, left out" if lost else ""


def _nothing(s: Any) -> Any:
    return np.sum(s.rows, axis=-1) == 0


def _always(_: Any) -> bool:
    return True


def set_metric(name: str, target: Source, pred: Source, finish: Any, **options: Any) -> Metric:
    """A metric of the distinct pairs of label list and prediction list."""
    return Metric(
        name,
        {"y": labels(target), "p": labels(pred)},
        _no_sums,
        finish,
        cells=("y", "p"),
        ordered=True,
        counts=True,
        **options,
    )


def _no_sums(_: Any) -> Any:
    return {}


def mean_of_rows(
    name: str, target: Source, pred: Source, row: RowScore, asked: Any, **options: Any
) -> Metric:
    """The mean over rows of what each is worth by its two lists."""
    return set_metric(
        name,
        target,
        pred,
        partial(_mean, row, asked),
        gradient=partial(_mean_gradient, row, asked),
        note=partial(_rows_left_out, row, asked),
        undefined={"no rows": _nothing, "no row is defined": _always},
        **options,
    )
