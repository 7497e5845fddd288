"""Power, minimum detectable effects and sample sizes of the tests that ``compare`` makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import scipy
from numpy.typing import ArrayLike

from frame_eval.inference import pairs
from frame_eval.table import Floats

_LARGEST = 10**12  # a size beyond which none is looked for


def mde(
    std_error: ArrayLike, level: ArrayLike = 0.95, power: ArrayLike = 0.8, df: ArrayLike = np.inf
) -> Floats:
    """The minimum detectable effect: the one that a two-sided test finds with this power.

    (z_{1 - alpha / 2} + z_power) std_error, 2.80 standard errors by default; for a t-test the
    noncentrality that solves P(t'_df(delta) > t_{df, 1 - alpha / 2}) = power takes the place of
    the sum. The chance to be significant on the wrong side (under 1e-6 at the defaults) does not
    count. Broadcasts; NaN where an argument is NaN or a df is under 1.

    >>> mde([0.02, 0.02], df=[np.inf, 11]).round(4)
    array([0.056 , 0.0616])
    """
    std_error, level, power, df = _floats(std_error, level, power, df)
    z = scipy.special.ndtri((1 + level) / 2) + scipy.special.ndtri(power)
    finite = _proper(df)
    critical = scipy.special.stdtrit(finite, (1 + level) / 2)
    t = scipy.special.nctdtrinc(finite, 1 - power, critical)
    return np.where(np.isposinf(df), z, t) * std_error


def _proper(df: Floats) -> Floats:
    """Finite degrees of freedom from 1 on: there is no test under 1, and scipy takes minutes."""
    return np.where(np.isfinite(df) & (df >= 1 - 1e-9), df, np.nan)


def power_of(
    effect: ArrayLike, std_error: ArrayLike, level: ArrayLike = 0.95, df: ArrayLike = np.inf
) -> Floats:
    """The power of a two-sided z- or t-test: the chance of a p under 1 - level, on either side.

    Broadcasts; NaN where an argument is NaN or a df is under 1.

    >>> power_of(0.02, [0.02, 0.02], df=[np.inf, 11]).round(4)
    array([0.1701, 0.15  ])
    """
    effect, std_error, level, df = _floats(effect, std_error, level, df)
    ratio = np.abs(effect) / std_error
    z = scipy.special.ndtri((1 + level) / 2)
    normal = scipy.special.ndtr(ratio - z) + scipy.special.ndtr(-ratio - z)
    finite = _proper(df)
    t = scipy.special.stdtrit(finite, (1 + level) / 2)
    above = 1 - scipy.special.nctdtr(finite, ratio, t)
    return np.where(np.isposinf(df), normal, above + scipy.special.nctdtr(finite, ratio, -t))


def sample_size(
    effect: ArrayLike, variance: ArrayLike, level: ArrayLike = 0.95, power: ArrayLike = 0.8
) -> Floats:
    """The examples that make an effect detectable: (z_{1-alpha/2} + z_power)^2 variance / effect^2.

    ``variance`` is that of one example: of its paired difference (the discordance r of two 0/1
    systems), 2 p (1 - p) for as many examples of each of two systems. Not rounded; broadcasts.

    >>> sample_size(0.02, [0.2, 2 * 0.7 * 0.3]).round(2)
    array([3924.44, 8241.32])
    """
    effect, variance, level, power = _floats(effect, variance, level, power)
    return (mde(1.0, level, power) / effect) ** 2 * variance


def variance_of_rates(rate: float, correlation: float = 0.0) -> float:
    """2 p (1 - p) (1 - rho), of the difference of two 0/1 outcomes that are equally often 1.

    >>> variance_of_rates(0.4, 0.5)
    0.24
    """
    return 2 * rate * (1 - rate) * (1 - correlation)


def mcnemar_power(
    effect: float,
    discordance: float,
    n: int,
    level: float = 0.95,
    test: Callable[[Floats, Floats], Floats] = pairs.mcnemar_exact,
) -> float:
    """The exact power of McNemar's test of n pairs, by enumeration.

    Of n pairs Binomial(n, discordance) differ, and of those the system wins each with probability
    (1 + effect / discordance) / 2. All counts are gone through whose probability counts, with the
    smallest majority that rejects; ``test`` gives p from wins and losses.

    >>> round(mcnemar_power(0.02, 0.2, 500), 4)
    0.1455
    """
    differ, losses, weight = _rejected(discordance, n, level, test)
    wins = (1 + abs(effect) / discordance) / 2
    # P(at most so many of m) as an incomplete beta integral, on either side.
    rejects = sum(scipy.special.betainc(differ - losses, losses + 1, p) for p in (wins, 1 - wins))
    return float(np.sum(weight * rejects))


@lru_cache(maxsize=16)
def _rejected(
    discordance: float, n: int, level: float, test: Callable[[Floats, Floats], Floats]
) -> tuple[Floats, Floats, Floats]:
    """Numbers of pairs that differ, the most losses that reject, and the probability of each."""
    mean, spread = n * discordance, np.sqrt(n * discordance * (1 - discordance))
    # Beyond there are less than 1e-18, by Bernstein's inequality.
    reach = 10 * spread + 30
    first, last = max(0.0, np.floor(mean - reach)), min(float(n), np.ceil(mean + reach))
    differ = np.arange(first, last + 1, dtype=np.float64)
    losses = _most_losses(differ, level, test)
    differ, losses = differ[losses >= 0], losses[losses >= 0]
    return differ, losses, _binomial(differ, n, discordance)


def _most_losses(differ: Floats, level: float, test: Callable[[Floats, Floats], Floats]) -> Floats:
    """For every number of pairs that differ, the most losses with p < 1 - level; -1 for none."""
    low, high = np.full(len(differ), -1.0), np.floor(differ / 2)
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        rejects = test(differ - middle, middle) < 1 - level
        low, high = np.where(rejects, middle, low), np.where(rejects, high, middle - 1)
    return low


def _binomial(k: Floats, n: int, p: float) -> Floats:
    log = scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1)
    log -= scipy.special.gammaln(n - k + 1)
    weight: Floats = np.exp(log + scipy.special.xlogy(k, p) + scipy.special.xlog1py(n - k, -p))
    return weight


@dataclass(frozen=True)
class Design:
    """What one example tells about a difference, and how examples hang together.

    ``between`` is the variance of an example's (paired) difference over examples, each measured
    without noise, ``within`` what one trial adds to it. With ``samples`` = 2 every system has
    examples of its own, and both variances are of the sum of the two. ``design_effect`` is what
    clusters do to ``between``, and each ``independent`` examples are worth one independent one to
    the degrees of freedom: a cluster of so many. ``normal`` says that the test is one of z.
    """

    between: float
    within: float = 0.0
    trials: float = 1.0
    design_effect: float = 1.0
    independent: float = 1.0
    samples: int = 1
    normal: bool = True

    def std_error(self, n: float) -> float:
        """Of the difference, with n examples (of each system, if apart)."""
        variance = self.between * self.design_effect + self.within / self.trials
        return float(np.sqrt(variance / n))

    def df(self, n: float) -> float:
        """Degrees of freedom of clusters alike, one less than there are; infinite for z."""
        return np.inf if self.normal else self.samples * (n / self.independent - 1)

    def effect(self, n: int, level: float, power: float) -> float:
        """The minimum detectable effect of n examples; NaN under two clusters."""
        return float(mde(self.std_error(n), level, power, self.df(n)))

    def power(self, n: int, effect: float, level: float) -> float:
        """The power of n examples; NaN under two clusters."""
        return float(power_of(effect, self.std_error(n), level, self.df(n)))

    def size(self, effect: float, level: float, power: float) -> int:
        """The smallest number of examples with which the effect is detectable."""
        least = sample_size(effect, self.std_error(1) ** 2, level, power)
        start = max(2, int(np.ceil(least - 1e-9)))
        if self.normal:
            return start
        start = max(start, int(self.independent) + 1)
        return smallest(lambda n: self.effect(n, level, power) <= abs(effect), start)


@dataclass(frozen=True)
class ExactPairs:
    """The same three answers of the exact McNemar test, from the share of pairs that differ."""

    discordance: float

    def std_error(self, n: float) -> float:
        """Of the difference, under the null."""
        return float(np.sqrt(self.discordance / n))

    def power(self, n: int, effect: float, level: float) -> float:
        """By enumeration."""
        return mcnemar_power(effect, self.discordance, n, level)

    def effect(self, n: int, level: float, power: float) -> float:
        """NaN where even pairs that all differ the same way have less power."""
        if self.power(n, self.discordance, level) < power:
            return np.nan
        gap = partial(self._gap, n=n, level=level, power=power)
        return _root(gap, 0.0, self.discordance)

    def size(self, effect: float, level: float, power: float) -> int:
        """A size that has the power while one example less has not (power is a little jagged)."""
        return smallest(lambda n: self.power(n, effect, level) >= power, 2)

    def _gap(self, effect: float, n: int, level: float, power: float) -> float:
        return self.power(n, effect, level) - power


def smallest(enough: Callable[[int], bool], start: int) -> int:
    """The smallest integer from ``start`` on that is enough, where more is never worse.

    >>> smallest(lambda n: n**2 > 50, 2)
    8
    """
    low, high = start - 1, start
    while not enough(high):
        if high > _LARGEST:
            raise OverflowError(f"not enough up to {_LARGEST}")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where an ascending function turns positive, to the last digits."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if f(middle) >= 0 else (middle, high)
    return high


def _floats(*values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(value, np.float64) for value in values)
