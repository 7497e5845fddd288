"""The cells of the coverage study: data from a law, intervals or tests of it, their scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import polars as pl
import polars.selectors as cs
from scipy import integrate, special, stats

import frame_eval as fe
from benchmarks.study import usual
from benchmarks.study.laws import (
    REPOSITORIES,
    Counts,
    counts,
    design_effect,
    equal,
    rows_of,
    values,
)
from benchmarks.study.usual import Limits

OURS = "frame_eval"
FEW = 100  # rows or clusters, up to which they are resampled


@dataclass(frozen=True)
class Effort:
    """Replicates of a cell, the rows of all of them, and replicates of methods that resample."""

    replicates: int = 8000
    rows: int = 24_000_000
    slow: int = 1000

    def of(self, rows: int, cost: int = 1) -> int:
        """The replicates of a cell with so many rows each, which cost several times a share's."""
        return min(self.replicates, self.rows // rows) // cost


FULL, SHORT = Effort(), Effort(100, 40_000, 20)


@dataclass(frozen=True)
class Score:
    """How many replicates are covered (or rejected), and the mean width over the oracle's."""

    count: int
    replicates: int
    width: float | None = None

    @property
    def share(self) -> float:
        return self.count / self.replicates

    def bounds(self) -> tuple[float, float]:
        """Limits that hold the true share with 99.9 % on either side."""
        exact = stats.binomtest(self.count, self.replicates).proportion_ci(0.998, "exact")
        return float(exact.low), float(exact.high)

    def __str__(self) -> str:
        width = "" if self.width is None else f" ({self.width:.2f})"
        return f"{100 * self.share:.1f}{width}"


@dataclass(frozen=True)
class Cell:
    """What was measured in one cell, and what is promised of the library there.

    ``effective`` is E, the effective number of rows of the rarer kind. ``least`` is the coverage,
    ``most`` the size that is promised.
    """

    name: str
    effective: float | None = None
    least: float | None = None
    most: float | None = None
    scores: dict[str, Score] = field(default_factory=dict)

    @property
    def promise(self) -> Literal["kept", "open", "fails"] | None:
        """What became of the promise.

        It fails beyond what chance does once in a thousand cells; a share on the wrong side of its
        target that chance explains leaves it open.
        """
        if self.least is None and self.most is None:
            return None
        score = self.scores[OURS]
        low, high = score.bounds()
        least, most = self.least or 0.0, self.most or 1.0
        if high < least or low > most:
            return "fails"
        return "kept" if least <= score.share <= most else "open"


def promised(effective: float) -> float | None:
    """The coverage promised at E = n_eff min(p, 1 - p)."""
    effective = round(effective, 9)  # 100 (1 - 0.9) is not quite 10
    return 0.935 if effective >= 10 else 0.92 if effective >= 5 else None


def shape_of(sizes: tuple[int, ...]) -> str:
    """How a cell calls its clusters."""
    if len(sizes) == 1:
        return f"n = {sizes[0]}"
    if sizes == REPOSITORIES:
        return "12 as SWE-bench"
    return f"{len(sizes)} {'equal' if len(set(sizes)) == 1 else 'unequal'}"


def covered(limits: Limits, truth: Any, oracle: float) -> Score:
    """How often the truth is inside, a missing limit being a miss."""
    low, high = (np.asarray(limit, float) for limit in limits)
    inside = (low <= truth) & (truth <= high)
    return Score(int(inside.sum()), len(low), float(np.nanmean(high - low) / oracle))


def rejected(p_values: Any) -> Score:
    """How often p < 0.05."""
    return Score(int((np.asarray(p_values, float) < 0.05).sum()), len(p_values))


def oracle_of(estimates: np.ndarray) -> float:
    """The width of the interval of someone who knows the true error."""
    return float(2 * usual.Z * estimates.std(ddof=1))


def limits_of(found: pl.DataFrame) -> Limits:
    """The limits of a result, in the order of replicates."""
    return found["ci_low"].to_numpy(), found["ci_high"].to_numpy()


def first(frame: pl.DataFrame, replicates: int) -> pl.DataFrame:
    """The rows of the first replicates, for methods that are slow."""
    return frame.filter(pl.col("replicate") < replicates)


def resampled(
    metric: fe.Metric, frame: pl.DataFrame, methods: Sequence[str] = ("percentile",)
) -> dict[str, Limits]:
    """Bootstraps of whole clusters."""
    made = {}
    for method in methods:
        interval: Any = method.lower()
        found = frame.eval.summary(
            metric, by="replicate", cluster="cluster", interval=interval, resamples=usual.DRAWS
        )
        made[f"{method} of clusters"] = limits_of(found)
    return made


# A share: a rate, a recall, or F1 as a function of tp / (tp + fp + fn).


@dataclass(frozen=True)
class Share:
    """A metric that is a function of a share, and its columns from ``kind``."""

    metric: fe.Metric
    columns: dict[str, pl.Expr]
    value: Callable[[Any], Any] = lambda share: share
    slope: Callable[[Any], Any] = lambda _: 1.0


KIND, ODD = pl.col("kind"), pl.int_range(pl.len()) % 2 == 1
SHARES = {
    "rate": Share(fe.rate("ok"), {"ok": KIND == 0}),
    "recall": Share(fe.recall("y", "p"), {"y": KIND < 2, "p": KIND == 0}),
    "F1": Share(
        fe.f1("y", "p"),
        {"y": (KIND == 0) | (KIND == 1) & ODD, "p": (KIND == 0) | (KIND == 1) & ~ODD},
        lambda share: 2 * share / (1 + share),
        lambda share: 2 / (1 + share) ** 2,
    ),
}


def share(
    kind: str,
    sizes: tuple[int, ...],
    p: float,
    icc: float = 0.0,
    relevant: float = 1.0,
    effort: Effort = FULL,
) -> Cell:
    """Coverage for a share ``p`` of the rows that count, themselves a share ``relevant``."""
    what, rows = SHARES[kind], sum(sizes)
    clustered = len(sizes) > 1
    name = f"{shape_of(sizes)}, p = {p:g}"
    name += f", {relevant:.0%} of rows" * (relevant < 1) + f", ICC {icc:g}" * clustered
    rng = np.random.default_rng([*kind.encode(), *name.encode()])
    drawn = _defined(counts(rng, effort.of(rows), sizes, p, icc, relevant))
    hits, trials = drawn.hits.sum(1), (drawn.hits + drawn.misses).sum(1)
    found, error = hits / trials, np.sqrt(hits * (trials - hits) / trials**3)
    truth, oracle = what.value(p), oracle_of(what.value(found))
    frame = drawn.rows().with_columns(**what.columns)
    roles = {"by": "replicate", **({"cluster": "cluster"} if clustered else {})}
    made: dict[str, Limits] = {OURS: limits_of(frame.eval.summary(what.metric, **roles))}
    made["normal"] = usual.normal(what.value(found), what.slope(found) * error)
    low, high = usual.row_bootstrap(hits, trials)
    made["bootstrap of rows"] = what.value(low), what.value(high)
    if kind == "rate" and not clustered and rows <= FEW:
        ones = np.arange(rows) < hits[: effort.slow, None]
        made["scipy BCa"] = usual.scipy_bootstrap(ones.astype(float), "BCa")
    if kind == "rate" and clustered:
        errors = usual.cr1_error(drawn.hits - found[:, None] * np.array(sizes), trials)
        made["CR1, normal"], made["CR1, t"] = usual.cr1(found, errors, len(sizes))
    if clustered and len(sizes) <= FEW:
        methods = ("percentile", "BCa", "studentized") if kind == "rate" else ("percentile",)
        made |= resampled(what.metric, first(frame, effort.slow), methods)
    effective = rows * relevant * min(p, 1 - p) / design_effect(sizes, icc, relevant)
    scores = {title: covered(limits, truth, oracle) for title, limits in made.items()}
    return Cell(name, effective, promised(effective), scores=scores)


def _defined(drawn: Counts) -> Counts:
    """The replicates where some row counts; without any there is no estimate."""
    some = (drawn.hits + drawn.misses).sum(1) > 0
    return Counts(drawn.hits[some], drawn.misses[some], drawn.others[some])


# A mean.


def mean(law: str, sizes: tuple[int, ...], icc: float = 0.0, effort: Effort = FULL) -> Cell:
    """Coverage for the mean of normal or lognormal values; promised for the former."""
    rows, clustered = sum(sizes), len(sizes) > 1
    name = f"{law}, {shape_of(sizes)}" + f", ICC {icc:g}" * clustered
    rng = np.random.default_rng([*b"mean", *name.encode()])
    x = values(rng, effort.of(rows, 2), sizes, icc)
    truth = 0.0
    if law == "lognormal":
        x, truth = np.exp(x), np.exp(0.5)
    oracle = oracle_of(x.mean(1))
    roles = {"by": "replicate", **({"cluster": "cluster"} if clustered else {})}
    frame = rows_of(x, sizes)
    made: dict[str, Limits] = {OURS: limits_of(frame.eval.summary(fe.mean("x"), **roles))}
    made |= _usual_means(x, sizes, effort)
    if clustered and len(sizes) <= FEW:
        made |= resampled(fe.mean("x"), first(frame, effort.slow))
    scores = {title: covered(limits, truth, oracle) for title, limits in made.items()}
    return Cell(name, least=0.935 if law == "normal" else None, scores=scores)


def _usual_means(x: np.ndarray, sizes: tuple[int, ...], effort: Effort) -> dict[str, Limits]:
    """The usual intervals of a mean of values (replicates, rows)."""
    rows, found = x.shape[1], x.mean(1)
    made = {"normal": usual.normal(found, x.std(1, ddof=1) / np.sqrt(rows))}
    if len(sizes) == 1 and rows <= FEW:
        for method in ("percentile", "BCa"):
            made[f"scipy {method}"] = usual.scipy_bootstrap(x[: effort.slow], method)
    if len(sizes) > 1:
        starts = np.cumsum(sizes) - sizes
        sums = np.add.reduceat(x - found[:, None], starts, axis=1)
        errors = usual.cr1_error(sums, np.array(rows))
        made["CR1, normal"], made["CR1, t"] = usual.cr1(found, errors, len(sizes))
    return made


# Rank metrics of scores that are normal in both classes.


def rank(
    kind: str,
    sizes: tuple[int, ...],
    shift: float,
    prevalence: float,
    icc: float = 0.0,
    effort: Effort = FULL,
) -> Cell:
    """Coverage for AUC or average precision of N(shift, 1) against N(0, 1)."""
    rows, clustered = sum(sizes), len(sizes) > 1
    auc = kind == "AUC"
    truth = float(special.ndtr(shift / np.sqrt(2))) if auc else true_ap(shift, prevalence)
    positives = round(rows * prevalence)
    name = f"{kind} {truth:.2f}, {shape_of(sizes)}, {positives} positives"
    name += f", ICC {icc:g}" * clustered
    rng = np.random.default_rng([*kind.encode(), *name.encode()])
    x = values(rng, effort.of(rows, 2), sizes, icc)
    y = rng.random(x.shape) < prevalence
    kept = y.any(1) & ~y.all(1)
    x, y = (x + shift * y)[kept], y[kept]
    frame = rows_of(x, sizes).with_columns(y=y.ravel())
    metric = (fe.roc_auc if auc else fe.average_precision)("y", "x")
    alone: Any = {"by": "replicate"}
    roles = {**alone, **({"cluster": "cluster"} if clustered else {})}
    plain = frame.eval.summary(metric, **alone)
    found = plain["estimate"].to_numpy()
    made: dict[str, Limits] = {OURS: limits_of(frame.eval.summary(metric, **roles))}
    made["normal"] = usual.normal(found, plain["std_error"].to_numpy())
    if rows <= 500:
        few = first(frame, effort.slow // 2)
        again = few.eval.summary(metric, **alone, interval="percentile", resamples=usual.DRAWS)
        made["bootstrap of rows"] = limits_of(again)
        made |= resampled(metric, few) if clustered else {}
    # The rows of a share with the same true variance.
    effective = truth * (1 - truth) / found.var(ddof=1) * min(truth, 1 - truth)
    least = promised(effective) if auc or positives >= 50 else None
    oracle = oracle_of(found)
    scores = {title: covered(limits, truth, oracle) for title, limits in made.items()}
    return Cell(name, effective, least, scores=scores)


def true_ap(shift: float, prevalence: float) -> float:
    """The mean precision at the score of a positive, in endless data."""

    def precision(score: float) -> float:
        right = prevalence * special.ndtr(shift - score)
        return float(right / (right + (1 - prevalence) * special.ndtr(-score)))

    def weighted(score: float) -> float:
        return precision(score) * float(np.exp(-((score - shift) ** 2) / 2)) / np.sqrt(2 * np.pi)

    return float(integrate.quad(weighted, shift - 9, shift + 9)[0])


# Two systems on the same examples.


def paired_rates(
    sizes: tuple[int, ...], gap: float, icc: float = 0.0, effort: Effort = FULL
) -> Cell:
    """Two rates that disagree on 30 % of the examples; a gap of 0 asks for the size."""
    rows, disagree = sum(sizes), 0.3
    p = (1 + gap / disagree) / 2
    name = _pair_name("rates", sizes, icc)
    rng = np.random.default_rng([*b"pairs", *name.encode(), round(100 * gap)])
    drawn = counts(rng, effort.of(rows), sizes, p, icc, disagree)
    frame = drawn.rows()
    both = {"a": KIND != 0, "b": KIND != 1}
    wins, losses = drawn.hits, drawn.misses
    found = (wins - losses).sum(1) / rows
    square = (wins + losses).sum(1) / rows
    error = np.sqrt((square - found**2) / (rows - 1))
    errors = None
    if len(sizes) > 1:
        errors = usual.cr1_error(wins - losses - found[:, None] * np.array(sizes), np.array(rows))
    scores = _pair_scores(
        frame.with_columns(**both), fe.rate("x"), (found, error, errors), sizes, gap, effort
    )
    if gap == 0 and len(sizes) == 1:
        n01, n10 = wins.sum(1), losses.sum(1)
        exact = np.minimum(1, 2 * stats.binom.cdf(np.minimum(n01, n10), n01 + n10, 0.5))
        scores["McNemar, exact"] = rejected(exact)
    effective = rows * disagree * min(p, 1 - p) / design_effect(sizes, icc, disagree)
    return _pair_cell(name, gap, effective, promised(effective), scores)


def paired_means(
    law: str, sizes: tuple[int, ...], gap: float, icc: float = 0.0, effort: Effort = FULL
) -> Cell:
    """Two means whose differences are normal or lognormal; a gap of 0 asks for the size."""
    rows = sum(sizes)
    name = _pair_name(f"means, {law}", sizes, icc)
    rng = np.random.default_rng([*b"pairs", *name.encode(), round(100 * gap)])
    replicates = effort.of(rows, 2)
    x = values(rng, replicates, sizes, icc)
    x = (np.exp(x) - np.exp(0.5) if law == "lognormal" else x) + gap
    base = rng.exponential(2, x.shape)
    frame = rows_of(base, sizes, "a").with_columns(b=(base + x).ravel())
    found = x.mean(1)
    error = x.std(1, ddof=1) / np.sqrt(rows)
    errors = None
    if len(sizes) > 1:
        sums = np.add.reduceat(x - found[:, None], np.cumsum(sizes) - sizes, axis=1)
        errors = usual.cr1_error(sums, np.array(rows))
    scores = _pair_scores(frame, fe.mean("x"), (found, error, errors), sizes, gap, effort)
    return _pair_cell(name, gap, None, 0.935 if law == "normal" else None, scores)


def paired_ranks(
    sizes: tuple[int, ...], gap: float, icc: float = 0.0, effort: Effort = FULL
) -> Cell:
    """Two AUCs of scores that share half of their variance; a gap of 0 asks for the size."""
    rows = sum(sizes)
    name = _pair_name("AUC", sizes, icc)
    rng = np.random.default_rng([*b"pairs", *name.encode(), round(100 * gap)])
    common, first_own, second_own = (
        values(rng, effort.of(rows, 4), sizes, icc) * np.sqrt(0.5) for _ in range(3)
    )
    y = rng.random(common.shape) < 0.3
    better = np.sqrt(2) * special.ndtri(special.ndtr(np.sqrt(0.5)) + gap)
    kept = y.any(1) & ~y.all(1)
    y, base, other = (
        x[kept] for x in (y, common + first_own + y, common + second_own + better * y)
    )
    frame = rows_of(base, sizes, "a").with_columns(b=other.ravel(), y=y.ravel())
    metric = fe.roc_auc("y", "x")
    roles: Any = {"system": "system", "example": "id", "baseline": "a", "by": "replicate"}
    plain = _long(frame).eval.compare(metric, **roles)
    of_rows = plain["difference"].to_numpy(), plain["std_error"].to_numpy(), None
    fewer = replace(effort, slow=effort.slow // 5)
    scores = _pair_scores(frame, metric, of_rows, sizes, gap, fewer)
    return _pair_cell(name, gap, None, 0.935, scores)


def _pair_name(what: str, sizes: tuple[int, ...], icc: float) -> str:
    return f"{what}, {shape_of(sizes)}" + f", ICC {icc:g}" * (len(sizes) > 1)


def _pair_cell(
    name: str, gap: float, effective: float | None, least: float | None, scores: dict[str, Score]
) -> Cell:
    if gap != 0:
        return Cell(name, effective, least, scores=scores)
    return Cell(name, effective, most=None if "lognormal" in name else 0.055, scores=scores)


def _pair_scores(
    frame: pl.DataFrame,
    metric: fe.Metric,
    usual_errors: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    sizes: tuple[int, ...],
    gap: float,
    effort: Effort,
) -> dict[str, Score]:
    """Coverage of the gap, or rejections where it is 0, of our methods and the usual ones.

    The usual errors of the differences ignore clusters or, where there are any, are CR1.
    """
    found, error, errors = usual_errors
    rows, clusters = sum(sizes), len(sizes)
    units = clusters if clusters > 1 else rows
    long = _long(frame)
    roles: Any = {"system": "system", "example": "id", "baseline": "a", "by": "replicate"}
    roles |= {"cluster": ["replicate", "cluster"]} if clusters > 1 else {}
    default = long.eval.compare(metric, **roles)
    few, some = first(long, effort.slow), {**roles, "resamples": usual.DRAWS}
    if gap == 0:
        scores = {OURS: rejected(default["p_value"])}
        scores["t-test of rows"] = rejected(usual.two_sided(found, error, rows - 1))
        if errors is not None:
            scores["CR1, normal"] = rejected(usual.two_sided(found, errors, np.inf))
            scores["CR1, t"] = rejected(usual.two_sided(found, errors, clusters - 1))
        methods = ("permutation", "wild") if clusters > 1 else ("permutation",)
        for method in methods if units <= FEW else ():
            again = few.eval.compare(metric, **some, method=method)
            scores[f"{method} (ours)"] = rejected(again["p_value"])
        return scores
    made: dict[str, Limits] = {OURS: limits_of(default), "normal": usual.normal(found, error)}
    if errors is not None:
        made["CR1, normal"], made["CR1, t"] = usual.cr1(found, errors, clusters)
    if units <= FEW:
        again = few.eval.compare(metric, **some, method="percentile")
        made[f"percentile of {'clusters' if clusters > 1 else 'rows'}"] = limits_of(again)
    oracle = oracle_of(found)
    return {title: covered(limits, gap, oracle) for title, limits in made.items()}


def _long(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per example with ``a`` and ``b``, as a row per system."""
    kept = frame.select(cs.by_name("replicate", "cluster", "y", "a", "b", require_all=False))
    return kept.with_row_index("id").unpivot(
        on=["a", "b"], index=~cs.by_name("a", "b"), variable_name="system", value_name="x"
    )


# The worst of many slices.


def at_once(frame: pl.DataFrame, metric: fe.Metric, roles: Any) -> tuple[np.ndarray, Limits]:
    """The estimates of the slices of every replicate, and their simultaneous limits."""
    found = [
        one.eval.summary(metric, by="slice", simultaneous=True, resamples=999, **roles)
        for one in frame.partition_by("replicate")
    ]
    estimates, low, high = (
        np.array([one[name].cast(pl.Float64).to_numpy() for one in found])
        for name in ("estimate", "ci_low", "ci_high")
    )
    return estimates, (low, high)


def worst(rates: Sequence[float], rows: int, icc: float = 0.0, effort: Effort = FULL) -> Cell:
    """Coverage of the true rate of the slice that looks worst.

    With an ICC (of the latent normal) each of ``rows`` documents has a row in every slice.
    """
    slices = len(rates)
    lowest = "" if len(set(rates)) == 1 else f", one {min(rates):g}"
    clusters = f", documents across slices, ICC {icc:g}" if icc else ""
    name = f"{slices} slices of {rows}, p = {max(rates):g}{lowest}{clusters}"
    rng = np.random.default_rng([*b"worst", *name.encode()])
    z = values(rng, effort.slow, equal(rows, slices), icc)
    truth = np.array(rates)
    ok = z < special.ndtri(np.tile(truth, rows))
    frame = rows_of(ok, equal(rows, slices)).with_columns(
        slice=np.tile(np.arange(slices), rows * len(ok))
    )
    hits = ok.reshape(len(ok), rows, slices).sum(1)
    picked = hits.argmin(1)
    roles: Any = {"cluster": "cluster"} if icc else {}
    metric = fe.rate("x")
    _, every = at_once(frame, metric, roles)
    single = limits_of(frame.eval.summary(metric, by=["replicate", "slice"], **roles))
    found = hits / rows
    bare = usual.normal(found, np.sqrt(found * (1 - found) / rows))
    oracle = float(2 * usual.Z * np.sqrt(truth * (1 - truth) / rows).mean())
    chosen = np.arange(len(ok)), picked
    made: dict[str, Limits] = {
        OURS: (every[0][chosen], every[1][chosen]),
        "pointwise (ours)": (
            single[0].reshape(hits.shape)[chosen],
            single[1].reshape(hits.shape)[chosen],
        ),
        "normal": (bare[0][chosen], bare[1][chosen]),
    }
    scores = {title: covered(limits, truth[picked], oracle) for title, limits in made.items()}
    minimum = usual.minimum_bootstrap(hits, np.full(slices, rows), rng)
    scores["bootstrap of the minimum"] = covered(minimum, truth.min(), oracle)
    inside = ((every[0] <= truth) & (truth <= every[1])).all(1)
    scores["all slices at once (ours)"] = Score(int(inside.sum()), len(inside))
    return Cell(name, least=0.94, scores=scores)
