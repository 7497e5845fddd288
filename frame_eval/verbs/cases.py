"""What a plan assumes and asks: checked numbers, and the design that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from frame_eval.errors import EvalError
from frame_eval.inference import simulate as simulation
from frame_eval.inference.power import Design, ExactPairs, variance_of_rates


@dataclass(frozen=True)
class Setup:
    """How answers are to be tested: what all of a call have in common."""

    level: float
    exact: bool
    simulate: bool
    draws: int
    seed: int


@dataclass(frozen=True)
class Case:
    """One set of assumptions: the model that answers, and the numbers that say what it assumes.

    No effect is larger than ``most``. ``simulation`` takes n and the effect first.
    """

    design: str
    model: Design | ExactPairs
    known: Mapping[str, Any]
    most: float
    simulation: Callable[..., float]


def numbers(
    name: str, value: Any, low: float = -np.inf, high: float = np.inf, *, inside: bool = False
) -> list[Any]:
    """The number or numbers given, each from low to high, or strictly between them."""
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) else [value]
    for x in values:
        ok = isinstance(x, (int, float, np.number)) and not isinstance(x, bool) and np.isfinite(x)
        if not ok or not (low < x < high if inside else low <= x <= high):
            between = f"strictly between {low:g} and {high:g}" if inside else f"{low:g} to {high:g}"
            asked = f"at least {low:g}" if high == np.inf else between
            asked = "a finite number" if low == -np.inf else f"a number, {asked}"
            raise EvalError(f"{name}={x!r} is not {asked}")
    if not values:
        raise EvalError(f"{name}=[] is empty: give a number or leave it out")
    return values


def questions(
    setup: Setup, effect: Any, n: Any, power: Any, *, pilot: bool
) -> list[dict[str, Any]]:
    """Every combination of what is given of effect, n and power; what is asked for is None."""
    if effect is not None and n is not None and power is not None:
        raise EvalError("effect, n and power are all given: leave out the one to be found")
    if effect is None and n is None and not pilot:
        raise EvalError(
            "say n= (to find the detectable effect), effect= (to find how many examples it takes) "
            "or both (to find the power)"
        )
    effects = [None] if effect is None else numbers("effect", effect)
    if 0 in effects:
        raise EvalError("effect=0 is no effect; give the smallest difference that matters")
    sizes = [None] if n is None else numbers("n", n, 2)
    if any(size is not None and size != int(size) for size in sizes):
        raise EvalError(f"n={n!r} is not a whole number of examples")
    if n is not None and effect is not None:
        return [{"n": size, "effect": x, "power": None} for size in sizes for x in effects]
    powers = numbers("power", 0.8 if power is None else power, 0, 1, inside=True)
    alpha = 1 - setup.level
    if min(powers) <= alpha:
        raise EvalError(
            f"power={min(powers)!r} is not over 1 - level = {alpha:.4g}, which a test reaches "
            "without any effect"
        )
    combined = product(sizes, effects, powers)
    return [{"n": size, "effect": x, "power": y} for size, x, y in combined]


def assumed(design: str, given: Mapping[str, Any], setup: Setup) -> Iterator[Case]:
    """The cases of a plan without a pilot, one for each combination of what is assumed."""
    _check_variation(design, given)
    ranges: dict[str, dict[str, Any]] = {
        "discordance": {"low": 0, "high": 1},
        "rate": {"low": 0, "high": 1, "inside": True},
        "correlation": {"low": -1, "high": 1, "inside": True},
        "std_dev": {"low": 0, "inside": True},
        "cluster_size": {"low": 1},
        "icc": {"low": 0, "high": 1},
        "trial_share": {"low": 0, "high": 1},
        "trials": {"low": 1},
    }
    lists = [
        [None] if given[name] is None else numbers(name, given[name], **limits)
        for name, limits in ranges.items()
    ]
    for values in product(*lists):
        yield _assumed_case(design, dict(zip(ranges, values, strict=True)), setup)


def _check_variation(design: str, given: Mapping[str, Any]) -> None:
    """Raise unless what is assumed says once, and fully, how much examples vary."""
    ways = ("discordance", "rate", "std_dev") if design == "paired" else ("rate", "std_dev")
    said = [name for name in ("discordance", "rate", "std_dev") if given[name] is not None]
    needed = " or ".join(f"{way}=" for way in ways)
    if len(said) != 1:
        raise EvalError(f"say how much examples vary, in one way: {needed}, or pass a pilot frame")
    if said[0] not in ways:
        raise EvalError(f"{said[0]}= is about pairs; with design {design!r} say {needed}")
    if design == "paired" and said == ["rate"] and given["correlation"] is None:
        raise EvalError(
            "rate= of two systems on the same examples needs correlation= (of the two), or say "
            "discordance= instead"
        )
    if given["correlation"] is not None and (design != "paired" or said != ["rate"]):
        raise EvalError("correlation= goes with the rate= of two systems on the same examples")
    for one, other in (("cluster_size", "icc"), ("icc", "cluster_size"), ("trials", "trial_share")):
        if given[one] is not None and given[other] is None:
            raise EvalError(f"{one}= needs {other}= as well")


def _assumed_case(design: str, known: dict[str, Any], setup: Setup) -> Case:
    samples = 2 if design == "unpaired" else 1
    if known["std_dev"] is not None:
        variance = samples * known["std_dev"] ** 2
    elif known["discordance"] is not None:
        variance = known["discordance"]
        if variance == 0:
            raise EvalError("discordance=0: the systems never differ, so that nothing is to detect")
    else:
        variance = variance_of_rates(known["rate"], known["correlation"] or 0.0)
        variance /= 2 if design == "one system" else 1
    size = known["cluster_size"] or 1.0
    share = known["trial_share"] or 0.0
    model = Design(
        between=variance * (1 - share),
        within=variance * share,
        trials=known["trials"] or 1.0,
        independent=size,
        design_effect=1 + (size - 1) * (known["icc"] or 0.0),
        samples=samples,
        normal=known["std_dev"] is None and size == 1 and (known["trials"] or 1) == 1,
    )
    if design == "paired" and known["rate"] is not None:
        known = {**known, "discordance": variance}
    return case_of(design, model, {**known, "cluster_size": size}, setup, None)


def case_of(
    design: str,
    model: Design,
    known: Mapping[str, Any],
    setup: Setup,
    simulated: Callable[..., float] | None,
) -> Case:
    """The case of a design; simulated by its own test unless said how."""
    rate, discordance = known["rate"], known["discordance"]
    most = np.inf
    if discordance is not None:
        most = discordance
    elif rate is not None:
        most = max(rate, 1 - rate) if design == "one system" else 2 * min(rate, 1 - rate)
    simulated = simulated or _own_test(design, model, rate, discordance, setup.exact)
    shown = {
        **known,
        "std_dev": float(np.sqrt((model.between + model.within / model.trials) / model.samples)),
        "design_effect": model.design_effect,
        "trials": model.trials,
    }
    if not setup.exact:
        return Case(design, model, shown, most, simulated)
    if design != "paired" or discordance is None or not model.normal:
        raise EvalError(
            "method='exact' is McNemar's test, of independent 0/1 pairs with one trial: use 'auto'"
        )
    return Case(design, ExactPairs(discordance), shown, most, simulated)


def _own_test(
    design: str, model: Design, rate: Any, discordance: Any, exact: bool
) -> Callable[..., float]:
    """The simulation of what is assumed: of counts for rates, of normal clusters for the rest."""
    if not model.normal:
        return partial(simulation.power_of_means, model)
    if design == "paired":
        return partial(simulation.power_of_pairs, discordance, exact=exact)
    if design == "unpaired":
        return partial(simulation.power_of_rates, rate)
    return partial(simulation.power_of_rate, rate)
