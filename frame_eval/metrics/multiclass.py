"""Rank metrics of several classes, from a column of scores for each: averages of binary ones.

A cell is a distinct combination of the scores of all classes; its sums are the rows of each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from frame_eval.columns import Source, member, score
from frame_eval.errors import EvalError, check_option, check_share, listing
from frame_eval.metrics.core import Finish, Metric, PerClass, Sums

Array: TypeAlias = npt.NDArray[Any]
Average: TypeAlias = Literal["macro", "weighted", "micro"] | None
MultiClass: TypeAlias = Literal["ovr", "ovo"]


class Ranking(NamedTuple):
    """A binary metric of the positives and negatives at each distinct score.

    ``apart`` says whether positives and negatives are two samples: their numbers do not matter.
    Where they do, ``restated`` has the note at a prevalence and the expression over weighted rows.
    """

    name: str
    value: Callable[[Any], Any]
    gradient: Callable[[Any], Mapping[str, Any]]
    undefined: Mapping[str, Callable[[Any], Any]]
    note: Callable[[Any], Any]
    expression: Callable[[Any], Any]
    apart: bool
    restated: tuple[Callable[[float, Any], Any], Callable[[Any], Any]] | None = None


class Contest(NamedTuple):
    """Classes that are positive, each in the order of its own score, against others.

    Several are pooled into one ranking. In an average the contest has the weight of the rows of
    the classes in ``weight``; without any, all contests weigh the same.
    """

    positive: tuple[int, ...]
    negative: tuple[tuple[int, ...], ...]
    weight: tuple[int, ...] = ()


class Setting(NamedTuple):
    """What the metrics of a set of classes have in common."""

    ranking: Ranking
    target: Source
    scores: Mapping[Any, Source]
    shares: tuple[float, ...] = ()


def _contests(average: Average, multi_class: MultiClass, size: int) -> tuple[Contest, ...]:
    """What is averaged: every class against the rest, or against each other; or all at once."""
    every = tuple(range(size))
    rests = tuple(tuple(other for other in every if other != k) for k in every)
    if average == "micro":
        return (Contest(every, rests),)
    weighted = average == "weighted"
    if multi_class == "ovo":
        pairs = [(k, other) for k in every for other in rests[k]]
        return tuple(Contest((k,), ((b,),), (k, b) if weighted else ()) for k, b in pairs)
    return tuple(Contest((k,), (rests[k],), (k,) if weighted else ()) for k in every)


def rows_of_classes(size: int, c: Any) -> Any:
    """One for the class of the row, whose position is ``c.y``, and 0 for the others."""
    return {f"y{k}": 1.0 - (c.y - float(k)).abs().clip(0.0, 1.0) for k in range(size)}


def _counts(size: int, s: Any) -> list[Array]:
    return [getattr(s, f"y{k}") for k in range(size)]


class Order:
    """The cells in ascending order of the scores of a class, or of several, one after the other."""

    def __init__(self, s: Any, classes: Sequence[int]) -> None:
        scores = np.concatenate([s.classes[0].to_series(k).to_numpy() for k in classes])
        self.parts = len(classes)
        self.order = np.argsort(scores, kind="stable")
        ranked = scores[self.order]
        new = np.ones(len(ranked), bool)
        new[1:] = ranked[1:] != ranked[:-1]
        self.starts = np.flatnonzero(new)
        self.scores = ranked[self.starts]
        self.place = np.empty(len(ranked), np.int64)
        self.place[self.order] = np.cumsum(new) - 1

    def by_score(self, counts: Sequence[Array]) -> Array:
        """Counts by cell, a part for each class, as those by distinct score."""
        ranked = np.concatenate(counts, axis=-1)[..., self.order]
        found: Array = np.add.reduceat(ranked, self.starts, axis=-1)
        return found

    def by_cell(self, slopes: Array) -> list[Array]:
        """Slopes by distinct score as those by cell, a part for each class."""
        return np.split(slopes[..., self.place], self.parts, axis=-1)


def _played(
    contests: Sequence[Contest], size: int, s: Any
) -> Iterator[tuple[Contest, Order, Sums]]:
    """Every contest with the order of its cells, and its positives and negatives by score."""
    counts = _counts(size, s)
    for positive, same in groupby(contests, lambda contest: contest.positive):
        order = Order(s, positive)
        for contest in same:
            pos = order.by_score([counts[k] for k in contest.positive])
            neg = order.by_score([_added(counts, others) for others in contest.negative])
            yield contest, order, Sums({"pos": pos, "neg": neg})


def _added(counts: Sequence[Array], classes: Sequence[int]) -> Array:
    total: Array = np.sum([counts[k] for k in classes], axis=0)
    return total


class Averaged(NamedTuple):
    """The value of every contest (the trailing axis), and how much each weighs, 0 if undefined."""

    values: Array
    weights: Array

    @property
    def value(self) -> Array:
        """The average; NaN where no contest is defined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean: Array = (self.values * self.weights).sum(-1) / self.weights.sum(-1)
        return mean


def _averaged(contests: Sequence[Contest], values: Sequence[Array], size: int, s: Any) -> Averaged:
    stacked = np.stack(values, -1)
    totals = [count.sum(-1) for count in _counts(size, s)]
    one = np.ones(stacked.shape[:-1])
    weights = [_added(totals, contest.weight) if contest.weight else one for contest in contests]
    defined = np.isfinite(stacked)
    return Averaged(np.where(defined, stacked, 0.0), np.where(defined, np.stack(weights, -1), 0.0))


def _average(ranking: Ranking, contests: Sequence[Contest], size: int, s: Any) -> Array:
    values = [ranking.value(sums) for _, _, sums in _played(contests, size, s)]
    return _averaged(contests, values, size, s).value


def _average_gradient(
    ranking: Ranking, contests: Sequence[Contest], size: int, s: Any
) -> dict[str, Array]:
    played = list(_played(contests, size, s))
    found = _averaged(contests, [ranking.value(sums) for _, _, sums in played], size, s)
    whole, mean = found.weights.sum(-1), found.value
    slopes = [np.zeros(np.shape(s.n)) for _ in range(size)]
    for j, (contest, order, sums) in enumerate(played):
        with np.errstate(divide="ignore", invalid="ignore"):
            share = found.weights[..., j, None] / whole[..., None]
            of_weight = (found.values[..., j, None] - mean[..., None]) / whole[..., None]
            given = ranking.gradient(sums)
            slopes_of = [sums.by_cell(given[side]) for side in ("pos", "neg")]
            sides = [order.by_cell(np.where(share > 0, share * one, 0.0)) for one in slopes_of]
        for k, others, up, down in zip(contest.positive, contest.negative, *sides, strict=True):
            slopes[k] += up
            for other in others:
                slopes[other] += down
        for k in contest.weight:
            slopes[k] += np.where(share > 0, of_weight, 0.0)
    return {f"y{k}": slope for k, slope in enumerate(slopes)}


def _expression(setting: Setting, contests: Sequence[Contest], c: Any) -> pl.Expr:
    """The average over the contests that are defined."""
    ranking, shares = setting.ranking, setting.shares
    counts = [(c.y == k).sum() for k in range(len(setting.scores))]
    finish, row = ranking.expression, pl.lit(1.0)
    if shares and ranking.restated:
        finish = ranking.restated[1]
        row = pl.sum_horizontal((c.y == k) * (share / counts[k]) for k, share in enumerate(shares))
    values, weights = [], []
    for contest in contests:
        parts: dict[str, list[pl.Expr]] = {"y": [], "s": [], "w": []}
        for k, others in zip(contest.positive, contest.negative, strict=True):
            playing = _is_one_of(c.y, (k, *others))
            parts["y"].append((c.y == k).cast(pl.Float64).filter(playing))
            parts["s"].append(getattr(c, f"s{k}").filter(playing))
            parts["w"].append(row.filter(playing) if shares else row)
        value = finish(Sums({name: _joined(part) for name, part in parts.items()}))
        amounts = shares or counts
        weight = sum((amounts[k] for k in contest.weight), 0.0 if contest.weight else 1.0)
        values.append(pl.when(value.is_finite()).then(value * weight))
        weights.append(pl.when(value.is_finite()).then(weight))
    return pl.sum_horizontal(values) / pl.sum_horizontal(weights)


def _is_one_of(position: pl.Expr, classes: Sequence[int]) -> pl.Expr:
    return position.is_in([float(k) for k in classes])


def _joined(parts: Sequence[pl.Expr]) -> pl.Expr:
    """Columns one after the other."""
    return reduce(pl.Expr.append, parts)


def _restated(shares: Sequence[float], s: Any) -> Sums:
    """The sums as if every class had its share of the rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        counts = {
            f"y{k}": count * (share / count.sum(-1, keepdims=True))
            for k, (share, count) in enumerate(zip(shares, _counts(len(shares), s), strict=True))
        }
    return Sums({**counts, "n": s.n, "rows": s.rows}, s.classes)


def _at_shares(value: Callable[[Any], Array], shares: Sequence[float], s: Any) -> Array:
    return np.where(_unrepresented(len(shares), s), np.nan, value(_restated(shares, s)))


def _gradient_at_shares(
    gradient: Callable[[Any], Mapping[str, Array]], shares: Sequence[float], s: Any
) -> dict[str, Array]:
    """The chain rule through shares of the classes, which are constants."""
    restated = _restated(shares, s)
    found = {}
    for (name, slope), share in zip(gradient(restated).items(), shares, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (slope * getattr(restated, name)).sum(-1, keepdims=True) / share
            found[name] = (slope - mean) * (share / getattr(s, name).sum(-1, keepdims=True))
    return found


def _unrepresented(size: int, s: Any) -> Any:
    return np.any([count.sum(-1) == 0 for count in _counts(size, s)], axis=0)


def _of_contest(function: Callable[[Any], Any], contest: Contest, size: int, s: Any) -> Any:
    """A function of the positives and negatives of one contest."""
    ((_, _, sums),) = _played([contest], size, s)
    return function(Sums({"pos": sums.pos, "neg": sums.neg, "n": s.n, "rows": s.rows}))


def _one_class(size: int, s: Any) -> Any:
    return np.sum([count.sum(-1) > 0 for count in _counts(size, s)], axis=0) < 2


def _left_out(classes: Sequence[Any], s: Any) -> str:
    """The classes that no row is of."""
    counts = _counts(len(classes), s)
    absent = [value for value, count in zip(classes, counts, strict=True) if not np.sum(count)]
    return f"without rows, left out: {listing(absent)}" if absent else ""


def _note(setting: Setting, s: Any) -> str:
    """What there is to say of the rarest class, and which are left out."""
    classes = list(setting.scores)
    totals = [float(np.sum(count)) for count in _counts(len(classes), s)]
    there = [k for k, count in enumerate(totals) if count]
    texts = []
    if there:
        rarest = min(there, key=(setting.shares or totals).__getitem__)
        text = _note_of(setting, rarest, s)
        texts.append(f"class {classes[rarest]!r}: {text}" if text else "")
    return "; ".join(filter(None, (*texts, _left_out(classes, s))))


def _note_of(setting: Setting, k: int, s: Any) -> str:
    """What there is to say of one class against the rest."""
    ranking, shares = setting.ranking, setting.shares
    totals = [float(np.sum(count)) for count in _counts(len(setting.scores), s)]
    found = {"pos": totals[k], "neg": sum(totals) - totals[k], "n": np.sum(s.n)}
    note = ranking.note
    if shares and ranking.restated:
        note = partial(ranking.restated[0], shares[k])
        others = [
            (share, n) for j, (share, n) in enumerate(zip(shares, totals, strict=True)) if j != k
        ]
        # Negatives of unequal weight are worth fewer (Kish 1965).
        found["neg"] = (1 - shares[k]) ** 2 / sum(
            share**2 / n if n else np.inf for share, n in others
        )
    sums = Sums({name: np.array([x]) for name, x in {**found, "rows": np.sum(s.rows)}.items()})
    text: str = note(sums)
    return text


def _names(classes: Sequence[Any], _: Any) -> Sequence[Any]:
    return classes


def _metric(name: str, setting: Setting, contests: Sequence[Contest], **options: Any) -> Metric:
    classes, size = tuple(setting.scores), len(setting.scores)
    columns = {f"s{k}": score(column) for k, column in enumerate(setting.scores.values())}
    apart = setting.ranking.apart or setting.shares
    value: Finish = partial(_average, setting.ranking, contests, size)
    gradient: Finish = partial(_average_gradient, setting.ranking, contests, size)
    if setting.shares:
        name = f"{name}(prevalence={'/'.join(f'{share:g}' for share in setting.shares)})"
        value = partial(_at_shares, value, setting.shares)
        gradient = partial(_gradient_at_shares, gradient, setting.shares)
        unrepresented = {"a class without rows": partial(_unrepresented, size)}
        options["undefined"] = {**options.get("undefined", {}), **unrepresented}
    return Metric(
        name,
        {"y": member(setting.target, classes), **columns},
        partial(rows_of_classes, size),
        value,
        gradient=gradient,
        cells=tuple(columns),
        ordered=True,
        counts=True,
        samples={f"y{k}": (f"y{k}",) for k in range(size)} if apart else None,
        better="higher",
        bounds=(0, 1),
        **options,
    )


def _of_class(setting: Setting, value: Any) -> Metric:
    """The metric of one class against the rest."""
    ranking, size = setting.ranking, len(setting.scores)
    contest = _contests(None, "ovr", size)[list(setting.scores).index(value)]
    undefined = {
        reason: partial(_of_contest, holds, contest, size)
        for reason, holds in ranking.undefined.items()
    }
    note = partial(_note_of, setting, contest.positive[0])
    return _metric(ranking.name, setting, [contest], undefined=undefined, note=note)


def _in_order(shares: Any, classes: Mapping[Any, Source]) -> tuple[float, ...]:
    """The shares in the order of the classes; raises unless they are those of a population."""
    if shares is None:
        return ()
    if not isinstance(shares, Mapping) or set(shares) != set(classes):
        raise EvalError(
            f"at_prevalence={shares!r} is not a share for each of the classes {listing(classes)}: "
            "{class: share}"
        )
    for value, share in shares.items():
        check_share(f"at_prevalence[{value!r}]", share)
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise EvalError(f"at_prevalence= has shares that sum to {sum(shares.values()):g}, not to 1")
    return tuple(float(shares[value]) for value in classes)


def averaged_ranking(
    ranking: Ranking,
    target: Source,
    scores: Mapping[Any, Source],
    average: Average,
    multi_class: MultiClass = "ovr",
    shares: Any = None,
) -> Metric:
    """An average over classes of a metric of rankings, or with None a row for each class.

    With ``shares`` it is restated for a population in which the classes have these.
    """
    check_option("average", average, ("macro", "weighted", "micro", None))
    check_option("multi_class", multi_class, ("ovr", "ovo"))
    if multi_class == "ovo" and average not in ("macro", "weighted"):
        raise EvalError(
            f"multi_class='ovo' goes with average='macro' or 'weighted', not {average!r}"
        )
    if len(scores) < 2:
        raise EvalError(f"scores names a column for each class, two or more, not {dict(scores)!r}")
    setting = Setting(ranking, target, scores, _in_order(shares, scores))
    size = len(scores)
    contests = _contests(average, multi_class, size)
    if average is None:
        each = PerClass(partial(_of_class, setting), known=partial(_names, tuple(scores)))
        return _metric(ranking.name, setting, contests, per_class=each)
    ending = "_ovo" if multi_class == "ovo" else ""
    return _metric(
        f"{average}_{ranking.name}{ending}",
        setting,
        contests,
        undefined={"one class only": partial(_one_class, size)},
        note=partial(_note, setting),
        expression=partial(_expression, setting, contests),
    )
