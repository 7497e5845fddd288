"""The published numbers of ../shared on power, sample sizes, clusters and false alarms."""

from collections.abc import Callable

import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from shared_data import here, seeds

import frame_eval as fe
from frame_eval.inference.power import mde, sample_size

FAMILIES = {"power", "cluster", "multiplicity"}
SEEDS = seeds(FAMILIES)
RULE = round(float(mde(1.0)), 1)  # 2.8
LINE = round(float(mde(1.0, power=0.5)), 2)  # 1.96: at that effect half of the results are beyond


def planned(column, **options):
    """The answers of ``plan``: one number, or an array."""
    found = fe.plan(**options)[column].to_numpy()
    return found[0] if len(found) == 1 else found


def pairs(i, **options):
    return {"n": i["n"], "discordance": i["r"], **options}


def one_sided(effect, error):
    """The power whose detectable effect this is: only the right side counts there."""

    def gap(power):
        return mde(error, power=power) - effect

    return optimize.brentq(gap, 0.03, 0.99, xtol=1e-14)


def exact(i):
    return planned("power", **pairs(i, effect=i["delta"], method="exact"))


def size_of(i, variance):
    return [(RULE / i["delta"]) ** 2 * variance, sample_size(i["delta"], variance)]


def correlated(column, i):
    return planned(column, n=100, rate=i["p"], correlation=i["rho"])


def half_point(i):
    return [[(factor / i["delta"]) ** 2 * r for r in i["r"]] for factor in (LINE, RULE)]


def more_data(i):
    """n now is 1, with the standard error that the interval shows."""
    error = i["half_width"] / float(mde(1.0, power=0.5))
    needed = [sample_size(i["diff"], error**2, power=power) for power in (0.5, 0.8)]
    return [*needed, one_sided(i["diff"], error / 2)]


def rule_table(i):
    errors = fe.plan(discordance=i["r"], n=i["n"])["std_error"].to_numpy()
    return (100 * RULE * errors).reshape(len(i["r"]), len(i["n"]))


def clustered(i, icc):
    return fe.plan(n=1000, std_dev=1.0, cluster_size=i["m"], icc=icc)


def implied(i):
    """The correlation whose design effect is the square of the ratio of errors."""
    ratio = (i["se_cluster"] / i["se_iid"]) ** 2
    icc = optimize.brentq(lambda x: clustered(i, x)["design_effect"][0] - ratio, 0, 1, xtol=1e-14)
    return [ratio, icc]


def design_effect(i):
    effect = clustered(i, i["rho"])["design_effect"][0]
    errors = [planned("std_error", n=1000, std_dev=1.0), clustered(i, i["rho"])["std_error"][0]]
    return [effect, errors[1] / errors[0]]


def effective_sizes(i):
    return i["n"] / clustered(i, i["rho"])["design_effect"].to_numpy()


def error_of_a_mean(i):
    frame = pl.DataFrame({"x": i["values"], "c": i.get("clusters", range(len(i["values"])))})
    kind = "cr1" if "clusters" in i else "cr0"
    return frame.eval.summary(fe.mean("x"), cluster="c", interval=kind)["std_error"].item()


VALUES: dict[str, Callable] = {
    "paired-plan-se": lambda i: planned("std_error", **pairs(i)),
    "significance-line": lambda i: planned("effect", **pairs(i, power=0.5)),
    "power-normal-2pts": lambda i: [
        planned("power", **pairs(i, effect=i["delta"])),
        one_sided(i["delta"], planned("std_error", **pairs(i))),
    ],
    "power-exact-mcnemar-2pts": exact,
    "power-exact-mcnemar-mde": exact,
    "missed-fraction": lambda _: 1 - planned("power", n=500, discordance=0.2, effect=0.02),
    "mde-multiplier": lambda i: mde(1.0, 1 - i["alpha"], i["power"]),
    "mde-500": lambda i: [
        RULE * planned("std_error", **pairs(i)),
        planned("effect", **pairs(i)),
    ],
    "mde-4000": lambda i: RULE * planned("std_error", **pairs(i)),
    "n-paired-2pts": lambda i: [
        *size_of(i, i["r"]),
        planned("n", effect=i["delta"], discordance=i["r"]),
    ],
    "n-unpaired-2pts": lambda i: size_of(
        i, 2 * planned("std_dev", n=100, rate=i["p"], paired=False) ** 2
    ),
    "agent-sd": lambda i: correlated("std_dev", i),
    "agent-n-750": lambda i: [
        ((LINE + 0.84) / i["delta"] * round(correlated("std_dev", i), 2)) ** 2,
        sample_size(i["delta"], correlated("discordance", i)),
    ],
    "scaling-halve": lambda i: sample_size(1 / i["shrink"], 1) / sample_size(1, 1),
    "n-half-point": half_point,
    "q5-more-data": more_data,
    "mde-rule-table": rule_table,
    "implied-icc-40x5": implied,
    "design-effect-5-02": design_effect,
    "effective-n-500-50": effective_sizes,
    "clustered-se-formula": error_of_a_mean,
    "clustered-se-iid-reference": error_of_a_mean,
    "clustered-se-one-cluster": error_of_a_mean,
    # Independent tests: plain binomial probabilities.
    "fwer-40": lambda i: [
        stats.binom.pmf(0, i["m"], i["alpha"]),
        stats.binom.sf(0, i["m"], i["alpha"]),
    ],
    "expected-false-40": lambda i: stats.binom.mean(i["m"], i["alpha"]),
    "expected-false-20": lambda i: [
        stats.binom.mean(i["m"], i["alpha"]),
        stats.binom.sf(0, i["m"], i["alpha"]),
    ],
    "lit-cells-4": lambda i: stats.binom.sf(i["k"] - 1, i["m"], i["alpha"]),
}

IN_TEST_ADJUST = {
    *("bonferroni-40", "holm-thresholds-40", "holm-adjusted", "bh-adjusted", "reject-counts"),
}


@here
def test_every_seed_value_is_sorted():
    assert not IN_TEST_ADJUST & set(VALUES)
    assert IN_TEST_ADJUST | set(VALUES) == set(SEEDS)


@here
@pytest.mark.parametrize("name", VALUES)
def test_seed_value(name):
    row = SEEDS[name]
    found, expected = VALUES[name](row["input"]), row["expected"]
    if expected is None:
        assert found is None
    else:
        # They have twelve digits.
        assert_allclose(found, expected, rtol=1e-11, atol=row["tolerance"])
