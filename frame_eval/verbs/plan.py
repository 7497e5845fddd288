"""``plan``: what can a set of examples detect, and how many examples are needed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.errors import EvalError, check_option
from frame_eval.evaluation import free_verb
from frame_eval.inference.power import Design, ExactPairs
from frame_eval.metrics.core import Metric
from frame_eval.reduce import Roles
from frame_eval.slices import By, slices
from frame_eval.verbs.cases import Case, Setup, assumed, case_of, numbers, questions
from frame_eval.verbs.matching import Unmatched
from frame_eval.verbs.options import Missing, check_level, check_metrics, check_names
from frame_eval.verbs.pilots import Found, Pilots, pilots_of_pairs, pilots_of_rows
from frame_eval.verbs.results import joined

Numbers: TypeAlias = float | Sequence[float]
Method: TypeAlias = Literal["auto", "exact"]

ANSWER: dict[str, Any] = {
    "design": pl.String,
    "solved": pl.String,
    "effect": pl.Float64,
    "n": pl.Int64,
    "power": pl.Float64,
    "simulated_power": pl.Float64,
    "std_error": pl.Float64,
    "df": pl.Float64,
    "std_dev": pl.Float64,
    "discordance": pl.Float64,
    "rate": pl.Float64,
    "correlation": pl.Float64,
    "cluster_size": pl.Float64,
    "icc": pl.Float64,
    "design_effect": pl.Float64,
    "trials": pl.Float64,
    "trial_share": pl.Float64,
    "level": pl.Float64,
    "method": pl.String,
    "note": pl.String,
}
PILOT = ("class", "metric", "system", "baseline", "pilot_estimate", "pilot_n", "pilot_clusters")
DESIGNS = {(True, 2): "paired", (False, 2): "unpaired", (True, 1): "one system"}


@free_verb
def plan(
    frame: Any = None,
    *metrics: Metric,
    effect: Numbers | None = None,
    n: Numbers | None = None,
    power: Numbers | None = None,
    level: float = 0.95,
    discordance: Numbers | None = None,
    rate: Numbers | None = None,
    correlation: Numbers | None = None,
    std_dev: Numbers | None = None,
    cluster_size: Numbers | None = None,
    icc: Numbers | None = None,
    trials: Numbers | None = None,
    trial_share: Numbers | None = None,
    paired: bool = True,
    systems: Literal[1, 2] = 2,
    method: Method = "auto",
    simulate: bool = False,
    draws: int = 2000,
    seed: int = 0,
    system: Columns | None = None,
    example: Columns | None = None,
    baseline: Any = None,
    by: By = None,
    trial: Columns | None = None,
    cluster: Columns | None = None,
    weight: Source | None = None,
    overall: bool = False,
    unmatched: Unmatched = "raise",
    missing: Missing = "raise",
) -> pl.DataFrame:
    """The detectable effect, the number of examples needed or the power, from two of the three.

    How much examples vary is said by ``discordance``, ``rate`` or ``std_dev``, or measured in a
    frame of results, the pilot. Every number may be a list: there is a row for each combination.

    The detectable effect is (z_{1 - alpha / 2} + z_power) standard errors, 2.80 by default, and the
    standard error sqrt(variance / n), with the variance of one example

    ============  ============================================================
    paired        r, the ``discordance``, or 2 p (1 - p) (1 - ``correlation``)
    unpaired      2 p (1 - p), with n examples of each system
    one system    p (1 - p), against a fixed bar
    ============  ============================================================

    or ``std_dev`` squared (twice, when unpaired). k trials of each example divide the part of it
    that is due to trials, ``trial_share``, by k; clusters of m examples multiply the rest by the
    design effect 1 + (m - 1) ``icc``. Clusters, trials and ``std_dev`` call for a t-test: its power
    is that of the noncentral t on n / m - 1 degrees of freedom (twice as many when unpaired).

    Parameters
    ----------
    frame
        None, or a pilot as :func:`compare` takes it.
    metrics
        With a frame: metrics that are smooth functions of sums, such as rates, means and AUC.
    effect
        The difference to detect (of one system: from the bar), not 0.
    n
        Examples; of each system, when unpaired. With a frame and without ``effect``: its own.
    power
        Default 0.8; left out when ``n`` and ``effect`` are given, which asks for it.
    level
        1 minus the size of the two-sided test.
    discordance
        The share of examples on which exactly one of two systems is right.
    rate
        The rate of success, about the same for both systems.
    correlation
        Of the two systems over examples.
    std_dev
        The standard deviation of an example's difference; of its value, when unpaired or of one
        system.
    cluster_size, icc
        Examples in a cluster (sum m^2 / sum m where sizes differ) and the correlation within.
    trials, trial_share
        Trials of each example, and the share of the variance of a single trial that is due to
        trials, not to examples.
    paired, systems
        False: two systems on different examples. 1: one system against a fixed bar.
    method
        ``"exact"``: the exact power of the exact McNemar test, by enumeration.
    simulate, draws, seed
        Whether to simulate the power of each answer with the test of :func:`compare`: wins and
        losses for rates, normal clusters for the rest, clusters drawn from those of a pilot of
        pairs.
    system, example, baseline, by, trial, cluster, weight, overall, unmatched, missing
        As in :func:`compare`, for a pilot.

    Returns
    -------
    pandas.DataFrame or polars.DataFrame
        A row per answer. Of a pilot first the slice keys, ``class``, ``metric``, ``system``,
        ``baseline``, ``pilot_estimate`` (the difference), ``pilot_n`` and ``pilot_clusters``. Then
        ``design``, ``solved`` (which of the next three is the answer), ``effect``, ``n``,
        ``power``, ``simulated_power``, ``std_error`` and ``df`` (with n examples), ``std_dev``,
        ``discordance``, ``rate``, ``correlation``, ``cluster_size``, ``icc``, ``design_effect``,
        ``trials``, ``trial_share``, ``level``, ``method``, ``note``. Null where not known or, with
        the reason in ``note``, where there is no answer.

    Raises
    ------
    EvalError
        For an effect of 0 or larger than the discordance, numbers out of their range, power not
        over 1 - ``level``, n under 2, too little or too much said, and as :func:`compare`.

    Notes
    -----
    Connor (1987), with the variance under no difference; Kish (1965) for the design effect. That of
    a pilot is the ratio of CR2 variances with clusters and without, at least 1; Satterthwaite's
    degrees of freedom grow with the number of clusters. The answers of a pilot with few clusters
    are as uncertain as its variances. Bound strata are left out: a test within them usually needs
    fewer examples.

    Examples
    --------
    >>> import frame_eval as fe
    >>> fe.plan(n=500, discordance=0.2)["effect"].round(4).item()
    0.056
    >>> fe.plan(effect=0.02, discordance=0.2)["n"].item()
    3925
    >>> fe.plan(effect=0.02, rate=0.7, paired=False)["n"].item()
    8242
    >>> curve = fe.plan(n=[200, 500, 2000], discordance=0.2)
    >>> curve["effect"].round(3).to_list()
    [0.089, 0.056, 0.028]

    A pilot of 4 questions, tried once by each of two models:

    >>> import polars as pl
    >>> df = pl.DataFrame({
    ...     "model": ["old"] * 4 + ["new"] * 4,
    ...     "id": [1, 2, 3, 4] * 2,
    ...     "correct": [1, 0, 0, 0, 1, 1, 1, 0],
    ... })
    >>> roles = {"system": "model", "example": "id", "baseline": "old"}
    >>> df.eval.plan(fe.rate("correct"), effect=0.05, **roles).select("discordance", "n").row(0)
    (0.5, 1570)
    """
    check_level(level)
    check_option("method", method, ("auto", "exact"))
    check_option("systems", systems, (1, 2))
    if (paired, systems) not in DESIGNS:
        raise EvalError("systems=1 compares with a fixed bar: leave out paired=False")
    design = DESIGNS[paired, systems]
    setup = Setup(level, method == "exact", simulate, draws, seed)
    asked = questions(setup, effect, n, power, pilot=frame is not None)
    variation = {
        "discordance": discordance,
        "rate": rate,
        "correlation": correlation,
        "std_dev": std_dev,
        "cluster_size": cluster_size,
        "icc": icc,
        "trial_share": trial_share,
    }
    roles = Roles.of(system, example, trial, cluster, weight)
    if frame is None:
        if metrics or roles != Roles():
            raise EvalError("metrics and roles such as system= are about a frame: pass one first")
        cases = list(assumed(design, {**variation, "trials": trials}, setup))
        for case, question in product(cases, asked):
            if reason := _no_room(case, question["effect"]):
                raise EvalError(f"effect={question['effect']!r} is {reason}")
        rows = [_answer(case, question, setup) for case, question in product(cases, asked)]
        return pl.DataFrame(rows, schema=_schema(simulate))
    if isinstance(frame, Metric):
        raise EvalError("a metric is measured in a frame: fe.plan(frame, metric, ...)")
    for name, value in variation.items():
        if value is not None:
            raise EvalError(f"{name}= comes from the frame; leave it out, or plan without a frame")
    tried = [None] if trials is None else numbers("trials", trials, 1)
    chosen = slices(by, overall)
    check_metrics(metrics)
    if design == "one system":
        taken = {*PILOT, *ANSWER} - {"system", "baseline"}
        check_names((*chosen.shown, *roles.system), sorted(taken))
        pilots = pilots_of_rows(frame, metrics, chosen, roles, missing)
    else:
        check_names(chosen.shown, (*PILOT, *ANSWER))
        pilots = pilots_of_pairs(
            frame, metrics, chosen, roles, baseline, paired, unmatched, missing
        )
    return _of_pilots(pilots, design, asked, tried, setup)


def _schema(simulate: bool) -> dict[str, Any]:
    return {k: kind for k, kind in ANSWER.items() if simulate or k != "simulated_power"}


def _answer(case: Case, question: Mapping[str, Any], setup: Setup) -> dict[str, Any]:
    """The row of one case and question: what was asked for is put in."""
    n, effect, power = question["n"], question["effect"], question["power"]
    model, level, note = case.model, setup.level, None
    solved = next(name for name in ("effect", "n", "power") if question[name] is None)
    if solved == "effect":
        effect = model.effect(n, level, power)
        if not effect <= case.most:
            few = isinstance(model, Design) and np.isnan(effect)
            note = "fewer than two clusters" if few else "no effect has this power with n examples"
            effect = None
    elif solved == "n":
        n = model.size(effect, level, power)
    else:
        power = model.power(n, effect, level)
        if not np.isfinite(power):
            power, note = None, "fewer than two clusters"
    row = {
        **case.known,
        "design": case.design,
        "solved": solved,
        "n": int(n),
        "effect": effect,
        "power": power,
        "std_error": model.std_error(n),
        "df": _df(model, n),
        "level": level,
        "method": _name(model),
        "note": note,
    }
    if setup.simulate and note is None:
        shared = {"level": level, "draws": setup.draws, "seed": setup.seed}
        row["simulated_power"] = case.simulation(n=int(n), effect=effect, **shared)
    return {name: row.get(name) for name in _schema(setup.simulate)}


def _no_room(case: Case, effect: float | None) -> str | None:
    """Why the rates can not have the effect, if so."""
    if effect is None or abs(effect) <= case.most * (1 + 1e-12):
        return None
    discordance, rate = case.known["discordance"], case.known["rate"]
    if discordance is None:
        return f"more than a rate of {rate:.4g} leaves room for"
    return (
        f"larger than the discordance, {discordance:.4g}: two systems can not differ by more than "
        "the share of examples on which they do"
    )


def _df(model: Design | ExactPairs, n: float) -> float | None:
    return None if isinstance(model, ExactPairs) or model.normal else model.df(n)


def _name(model: Design | ExactPairs) -> str:
    if isinstance(model, ExactPairs):
        return "McNemar exact"
    return "normal" if model.normal else "noncentral t"


def _of_pilots(
    found: Found,
    design: str,
    questions: Sequence[Mapping[str, Any]],
    tried: Sequence[float | None],
    setup: Setup,
) -> pl.DataFrame:
    """The answers for every group of the pilots, with the keys in front."""
    rows = [
        {
            **{name: values[i] for name, values in block.keys.items()},
            "pilot_estimate": block.pilot.estimate[i],
            "pilot_n": block.pilot.n[i],
            "pilot_clusters": block.pilot.clusters[i],
            **_measured_answer(block, int(i), design, {**question, "trials": trials}, setup),
        }
        for block in found.blocks
        for i in np.flatnonzero(block.there)
        for trials in tried
        for question in questions
    ]
    columns = {name: np.array([row[name] for row in rows], object) for name in rows[0]}
    table = joined([columns], ("n", "pilot_n", "pilot_clusters"))
    kinds = [pl.col(name).cast(kind) for name, kind in _schema(setup.simulate).items()]
    table = table.with_columns(*kinds, pl.col("pilot_estimate").fill_nan(None))
    order = [name for name in found.order if name in table.columns]
    result = found.keyed(table.sort(order, maintain_order=True))
    known = (*PILOT, *_schema(setup.simulate))
    keys = [c for c in result.columns if c not in known and not c.startswith("__fe_")]
    return result.select(*keys, *(c for c in known if c in result.columns))


def _measured_answer(
    block: Pilots, place: int, design: str, question: Mapping[str, Any], setup: Setup
) -> dict[str, Any]:
    """The row of one group of a pilot and one question."""
    measured = {f.name: float(getattr(block.pilot, f.name)[place]) for f in fields(block.pilot)}
    known = {name: x if np.isfinite(x) else None for name, x in measured.items()}
    between, within, size = measured["between"], measured["within"], measured["cluster_size"]
    trials = question["trials"]
    if trials is not None and trials != measured["trials"] and not within > 0:
        raise EvalError(
            f"trials={trials!r} needs a pilot with several trials of an example, whose variance it "
            "averages: say trial=<the column that tells them apart>"
        )
    binary = known["discordance" if design == "paired" else "rate"] is not None
    normal = binary and size == 1

    def unanswered(note: str) -> dict[str, Any]:
        row = {**question, "design": design, "level": setup.level, "note": note}
        return {name: row.get(name) for name in _schema(setup.simulate)}

    if between + within == 0:
        return unanswered("no variance in the pilot")
    if not between + within > 0 or (known["df"] is None and not normal):
        return unanswered("fewer than two clusters in the pilot")
    known["icc"] = (measured["design_effect"] - 1) / (size - 1) if size > 1 else None
    known["trial_share"] = within / (between + within) if measured["trials"] > 1 else None
    samples = 2 if design == "unpaired" else 1
    model = Design(
        between=between,
        within=within,
        trials=trials or measured["trials"],
        design_effect=measured["design_effect"],
        independent=measured["n"] / (measured["df"] / samples + 1),
        samples=samples,
        normal=normal,
    )
    simulated = None
    if block.simulation is not None and not normal and trials is None:
        simulated = partial(block.simulation, place=place)
    case = case_of(design, model, known, setup, simulated)
    if reason := _no_room(case, question["effect"]):
        return unanswered(f"effect {reason}")
    asked = dict(question)
    if asked["n"] is None and asked["effect"] is None:
        asked["n"] = round(measured["n"])
    return _answer(case, asked, setup)
