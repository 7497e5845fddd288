"""Real coverage of nominal 95 % intervals, and real size of 5 % tests, beside the alternatives.

python -m benchmarks.coverage            # half an hour; writes coverage.md and coverage.svg
python -m benchmarks.coverage --resume   # the same, with the cells that were measured before
python -m benchmarks.coverage --only AUC # the sections with this in their title, others stay
python -m benchmarks.coverage --short    # few replicates of few cells, only to see that it runs

Every cell has a seed of its own, made from its name, so cells come and go without changing others.
Measured cells are kept in build/coverage, a file for each section.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeAlias

from benchmarks.study.cells import (
    FULL,
    OURS,
    SHORT,
    Cell,
    Score,
    mean,
    paired_means,
    paired_ranks,
    paired_rates,
    rank,
    share,
    worst,
)
from benchmarks.study.designs import crossed, stratified, worst_crossed, worst_stratified
from benchmarks.study.laws import REPOSITORIES, equal, unequal
from benchmarks.study.picture import picture

HERE = Path(__file__).parent
KEPT = HERE.parent / "build" / "coverage"
HEAD = """\
# Coverage

Made by `python -m benchmarks.coverage`, from laws whose truth is known: the share of replicates, in
per cent, whose nominal 95 % interval holds the truth, or whose 5 % test rejects it. In brackets the
mean width over that of an oracle that knows the true standard error. A missing limit is a miss.

**The promise.** With E = n_eff min(p, 1 - p), n_eff the rows over the true design effect, coverage
is at least 93.5 % where E >= 10 and at least 92 % where 5 <= E < 10; below that it is reported.
Tests reject at most 5.5 % of true nulls; the worst slice is covered at least 94 % of the time. A
cell fails where even the upper 99.9 % Monte Carlo bound is under its target (for tests, where the
lower one is over it). Where only the share itself is, chance can explain it: the cell is open.

Of {cells} cells {judged} are under a promise. Where it fails:

{fails}

Where it is open:

{leaves}

"CR1, normal" is what statsmodels gives for a cluster regression by default and "CR1, t" with
`use_t=True`; "bootstrap of rows" ignores clusters, as do "normal" and "t-test of rows". What
resamples has {slow} replicates at most, so that a share near 95 is known to about two points there.

![coverage against the number of clusters](coverage.svg)
"""
DRAWN = "A rate, clusters"
Asked: TypeAlias = "Callable[..., Cell]"


@dataclass(frozen=True)
class Section:
    """Cells of a kind, a table of the report."""

    title: str
    text: str
    cells: Sequence[Asked]


FIVE = (equal(5), equal(12), equal(30), equal(100), equal(500))
GROWING = tuple(unequal(clusters) for clusters in (5, 12, 30, 50, 100, 200))
PAIRED = (
    *(((n,), 0.0) for n in (12, 30, 100, 1000)),
    *((equal(clusters), 0.2) for clusters in (5, 12, 30)),
    *((unequal(clusters), 0.2) for clusters in (5, 12, 30, 100)),
    (REPOSITORIES, 0.0),
    (REPOSITORIES, 0.2),
)
RANKED = (
    ((100,), 0.0),
    ((500,), 0.0),
    *((sizes, 0.2) for sizes in (equal(12), equal(30), unequal(30), unequal(100), REPOSITORIES)),
)
SECTIONS = (
    Section(
        "A rate, independent rows",
        "Ours: Wilson. Coverage jumps from p to p: by enumeration it is 93.3 % at n = 100, p = "
        "0.85.",
        [
            partial(share, "rate", (n,), p)
            for n, p in product((10, 30, 100, 300, 1000, 5000), (0.5, 0.8, 0.9, 0.95, 0.99))
        ],
    ),
    Section(
        DRAWN,
        "Ours: Wilson on the effective size from CR2, at most that which one correlation in all "
        "clusters leaves. Equal clusters have ten rows each, unequal ones 1 to 60, SWE-bench's "
        "twelve repositories 1 to 231: one of them has 46 % of the rows, so that CR2 has 1.6 "
        "degrees of freedom. There the interval is wide, as it does not rest on one correlation: "
        "on that alone, with t(11), it is 40 % narrower, but covers as little as 89 % where large "
        "clusters fail more often.",
        [
            partial(share, "rate", sizes, p, icc)
            for sizes in (*FIVE, *GROWING, REPOSITORIES)
            for p, icc in ((0.7, 0.0), (0.7, 0.1), (0.7, 0.5), (0.9, 0.1), (0.99, 0.1))
        ],
    ),
    Section(
        "A rate near 1 in many clusters",
        "Few failures, most of them in few clusters. These cells were picked because others "
        "like them, with other seeds, looked weak: how many of them fail is no estimate of how "
        "many do elsewhere. With the effective size from CR2 alone the first six were covered "
        "89 to 94 % of the time, as CR2 is too small just where there are too few failures. "
        "Where that was under 93 %, a score interval with the variance under the null gave 86 "
        "to 93 %, corrections for skewness (Johnson 1978, third moments in Wilson's variance) "
        "85 to 92 %, and degrees of freedom from the fourth moment 93 to 95 %, in intervals 8 "
        "to 26 % wider than now.",
        [
            partial(share, "rate", sizes, p, icc)
            for sizes, p, icc in (
                (unequal(50), 0.95, 0.1),
                (unequal(100), 0.95, 0.1),
                (unequal(100), 0.95, 0.2),
                (unequal(200), 0.98, 0.1),
                (unequal(300), 0.99, 0.1),
                (unequal(400), 0.99, 0.3),
                (equal(100), 0.95, 0.2),
                (equal(300), 0.99, 0.1),
                (equal(400), 0.99, 0.3),
            )
        ],
    ),
    Section(
        "Recall with few positives, and F1",
        "Recall: Wilson on the positives, here p of them found and the share of rows given. F1: "
        "Wilson on tp / (tp + fp + fn), which is the p here, mapped.",
        [
            *(
                partial(share, "recall", sizes, p, icc, relevant)
                for sizes, icc, relevant in (
                    ((200,), 0.0, 0.05),
                    ((200,), 0.0, 0.2),
                    ((1000,), 0.0, 0.05),
                    (unequal(30), 0.2, 0.1),
                    (unequal(100), 0.2, 0.1),
                    (REPOSITORIES, 0.2, 0.1),
                )
                for p in (0.6, 0.9)
            ),
            *(
                partial(share, "F1", sizes, p, icc, 0.4)
                for sizes, icc in (
                    ((30,), 0.0),
                    ((100,), 0.0),
                    ((1000,), 0.0),
                    (unequal(30), 0.2),
                    (unequal(100), 0.2),
                    (REPOSITORIES, 0.2),
                )
                for p in (0.5, 0.8)
            ),
        ],
    ),
    Section(
        "A mean",
        "Ours: t, with clusters CR2 and Satterthwaite's degrees of freedom. Promised for normal "
        "values; skewed ones are reported.",
        [
            *(
                partial(mean, law, (n,))
                for law, n in product(("normal", "lognormal"), (10, 30, 100, 1000))
            ),
            *(
                partial(mean, law, sizes, icc)
                for law, sizes, icc in product(
                    ("normal", "lognormal"),
                    (equal(5), unequal(12), unequal(30), unequal(100), REPOSITORIES),
                    (0.1, 0.5),
                )
            ),
        ],
    ),
    Section(
        "AUC and average precision",
        "Ours: influences (DeLong's) with CR2, on the logit scale. Average precision is promised "
        "from 50 positives. E takes n_eff from the true variance.",
        [
            *(
                partial(rank, kind, (n,), shift, prevalence)
                for kind in ("AUC", "AP")
                for n, shift, prevalence in (
                    (50, 1.0, 0.2),
                    (100, 1.0, 0.5),
                    (200, 1.0, 0.1),
                    (200, 2.0, 0.5),
                    (500, 1.0, 0.2),
                    (2000, 2.0, 0.1),
                )
            ),
            *(
                partial(rank, kind, sizes, 1.0, 0.3, 0.2)
                for kind in ("AUC", "AP")
                for sizes in (equal(12), equal(30), unequal(30), equal(100), REPOSITORIES)
            ),
        ],
    ),
    Section(
        "Paired differences",
        "Ours: for single 0/1 examples Tango, else CR2 on the differences. The rates disagree on "
        "30 % of the examples and differ by 0.1; the means, with a variance of 1, by 0.15; the "
        "AUCs, 0.76 with three in ten positive, by 0.05, and normal is DeLong's error. E counts "
        "the rarer kind of disagreement.",
        [
            *(partial(paired_rates, sizes, 0.1, icc) for sizes, icc in PAIRED),
            *(
                partial(paired_means, law, sizes, 0.15, icc)
                for law in ("normal", "lognormal")
                for sizes, icc in PAIRED
            ),
            *(partial(paired_ranks, sizes, 0.05, icc) for sizes, icc in RANKED),
        ],
    ),
    Section(
        "Size of the paired tests",
        "The share of true nulls with p < 0.05, in per cent. By enumeration the score test of two "
        "rates rejects 5.2 % at n = 100. Five clusters have 32 patterns of signs, too few for "
        "permutation and wild bootstrap to reject at all.",
        [
            *(partial(paired_rates, sizes, 0.0, icc) for sizes, icc in PAIRED),
            *(
                partial(paired_means, law, sizes, 0.0, icc)
                for law in ("normal", "lognormal")
                for sizes, icc in PAIRED
            ),
            *(partial(paired_ranks, sizes, 0.0, icc) for sizes, icc in RANKED),
        ],
    ),
    Section(
        "The worst of many slices",
        "Ours: the simultaneous interval, as in `worst`, of the slice that looks worst, for its "
        "true rate. Beside it the plain interval of the same slice, and fairlearn's bootstrap of "
        "the group minimum, for the true minimum.",
        [
            partial(worst, [0.8] * 5, 40),
            partial(worst, [0.8] * 20, 40),
            partial(worst, [0.8] * 20, 200),
            partial(worst, [0.6] + [0.8] * 9, 40),
            partial(worst, [0.8] * 10, 40, 0.2),
            partial(worst, [0.8] * 10, 100, 0.2),
        ],
    ),
    Section(
        "Within strata",
        "Ours: analytic errors with `strata=`, on C - H degrees of freedom; simultaneous intervals "
        "by signs on the influences within strata. As many rows or clusters from each stratum, "
        "whose middles span two standard deviations of a row. Clusters have ten rows each. A rate "
        "of independent rows is not taken for surer than without strata. In the last cells a "
        "document has a row in each of ten slices. E takes n_eff from the true variance.",
        [
            *(
                partial(stratified, kind, strata, sizes, p, icc)
                for kind, p in (("rate", 0.8), ("mean", 0.5))
                for strata, sizes, icc in (
                    (5, (1,) * 200, 0.0),
                    (5, equal(15), 0.1),
                    (5, equal(30), 0.1),
                    (10, equal(20), 0.2),
                    (4, equal(100), 0.2),
                )
            ),
            *(
                partial(worst_stratified, strata, documents, 0.2)
                for strata, documents in ((4, 40), (4, 100), (10, 40))
            ),
        ],
    ),
    Section(
        "Crossed clusters",
        "Ours: `fe.crossed`, with the variance of Cameron, Gelbach and Miller and the fewer "
        "degrees of freedom. Items and raters both have a normal effect. Beside it either way "
        'alone, and "two-way CR1, normal", what statsmodels gives for two groups. Where one way '
        "does nothing, what it has few of is still counted, so that intervals are wide. E takes "
        "n_eff from the true variance.",
        [
            *(
                partial(crossed, kind, shape, p)
                for kind, p in (("rate", 0.7), ("rate", 0.9), ("mean", 0.5))
                for shape in ((40, 15, 6), (100, 5, 5), (30, 30, 30), (200, 12, 3), (20, 10, 10))
            ),
            *(
                partial(crossed, kind, (200, 12, 3), p, iccs)
                for kind, p in (("rate", 0.9), ("mean", 0.5))
                for iccs in ((0.0, 0.0), (0.3, 0.0), (0.0, 0.2))
            ),
        ],
    ),
    Section(
        "The worst slice of crossed clusters",
        "Ours: the simultaneous interval, as in `worst`, from draws with the two-way covariance "
        "of the slices, for the slice that looks worst; rates of 0.8, or means. Slices of items "
        "have a tenth of the items each, slices of rows a tenth of the rows, whatever their item.",
        [
            *(
                partial(worst_crossed, kind, shape, of_items, iccs)
                for kind in ("rate", "mean")
                for shape, iccs in (((100, 10, 5), (0.2, 0.1)), ((200, 6, 3), (0.1, 0.3)))
                for of_items in (True, False)
            ),
            partial(worst_crossed, "rate", (200, 30, 10), True, (0.2, 0.1)),
        ],
    ),
)


def verdict(cell: Cell) -> str:
    """The target and what became of it."""
    if cell.promise is None:
        return "none"
    target = f">= {100 * cell.least:g}" if cell.least else f"<= {100 * (cell.most or 0):g}"
    return f"{target} {'**fails**' if cell.promise == 'fails' else cell.promise}"


def table(cells: Sequence[Cell]) -> str:
    """A row per cell, a column per method."""
    titles = list(dict.fromkeys(title for cell in cells for title in cell.scores))
    lines = [
        f"| cell | E | promise | {' | '.join(titles)} |",
        f"|---|---:|---|{'---:|' * len(titles)}",
    ]
    for cell in cells:
        effective = "" if cell.effective is None else f"{cell.effective:.3g}"
        scores = " | ".join(str(cell.scores.get(title, "")) for title in titles)
        lines.append(f"| {cell.name} | {effective} | {verdict(cell)} | {scores} |")
    return "\n".join(lines)


def part(section: Section, cells: Sequence[Cell]) -> str:
    """A section of the report."""
    return f"## {section.title}\n\n{section.text}{_replicates(cells)}\n\n{table(cells)}\n"


def written(text: str) -> dict[str, str]:
    """The sections of a report, by title."""
    _, *parts = re.split("^(?=## )", text, flags=re.MULTILINE)
    return {one.removeprefix("## ").splitlines()[0]: one.rstrip("\n") + "\n" for one in parts}


def report(parts: Sequence[str]) -> str:
    """The whole study as Markdown, from its sections."""
    became = [
        (promise, f"- {title}: {name} ({ours})")
        for text in parts
        for title, name, promise, ours in _cells(text)
    ]
    judged = [promise for promise, _ in became if promise != "none"]
    fails, leaves = (
        "\n".join(text for promise, text in became if asked in promise) or "- none"
        for asked in ("fails", "open")
    )
    intro = HEAD.format(
        cells=len(became), judged=len(judged), slow=FULL.slow, fails=fails, leaves=leaves
    )
    return "\n".join([intro, *parts])


def _cells(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Of every cell of a section: its title and the cell's name, promise and score of ours."""
    title, *lines = text.removeprefix("## ").splitlines()
    for line in [line for line in lines if line.startswith("|")][2:]:
        name, _, promise, ours = (column.strip() for column in line.split("|")[1:5])
        yield title, name, promise, ours


def _replicates(cells: Sequence[Cell]) -> str:
    """The replicates of each method, over the cells of a section."""
    counts: dict[str, list[int]] = {}
    for cell in cells:
        for title, score in cell.scores.items():
            counts.setdefault(title, []).append(score.replicates)
    spans: dict[str, list[str]] = {}
    for title, found in counts.items():
        low, high = min(found), max(found)
        spans.setdefault(f"{low:,}" + f" to {high:,}" * (high > low), []).append(title)
    return (
        " Replicates: " + "; ".join(f"{span} ({', '.join(t)})" for span, t in spans.items()) + "."
    )


def main() -> None:
    """Measure and print; unless short, write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few replicates, nothing is written")
    parser.add_argument("--only", default="", help="sections whose title has this")
    parser.add_argument("--resume", action="store_true", help="with the cells measured before")
    options = parser.parse_args()
    file = HERE / "coverage.md"
    parts = written(file.read_text(encoding="utf-8"))
    for section in SECTIONS:
        if options.only not in section.title:
            continue
        if options.short:
            cells = [cell(effort=SHORT) for cell in section.cells[:: len(section.cells) - 1]]
        else:
            cells = measure(section, kept(section) if options.resume else [])
            parts[section.title] = part(section, cells)
        print(f"## {section.title}\n\n{table(cells)}\n", flush=True)
        if section.title == DRAWN and not options.short:
            (HERE / "coverage.svg").write_text(drawn(cells), encoding="utf-8")
    every = [parts[section.title] for section in SECTIONS if section.title in parts]
    if not options.short:
        file.write_text(report(every), encoding="utf-8")


def measure(section: Section, cells: list[Cell]) -> list[Cell]:
    """The cells of a section, the first of which are given; each is kept as soon as it is there."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for cell in section.cells[len(cells) :]:
        cells.append(cell(effort=FULL))
        text = json.dumps([asdict(cell) for cell in cells], indent=1)
        (KEPT / f"{section.title}.json").write_text(text, encoding="utf-8")
    return cells


def kept(section: Section) -> list[Cell]:
    """The cells of a section that were measured before, which are its first ones."""
    file = KEPT / f"{section.title}.json"
    if not file.exists():
        return []
    cells = json.loads(file.read_text(encoding="utf-8"))
    for cell in cells:
        cell["scores"] = {title: Score(**score) for title, score in cell["scores"].items()}
    return [Cell(**cell) for cell in cells]


def drawn(measured: Sequence[Cell]) -> str:
    """The coverage of a rate of 0.7 with an ICC of 0.1 as unequal clusters grow in number."""
    found = {cell.name: cell for cell in measured}
    cells = [found[f"{len(sizes)} unequal, p = 0.7, ICC 0.1"] for sizes in GROWING]
    lines = {
        title: [100 * cell.scores[title].share for cell in cells if title in cell.scores]
        for title in (OURS, "CR1, t", "CR1, normal", "percentile of clusters", "bootstrap of rows")
    }
    title = "Coverage of 95 % intervals for a rate of 0.7; unequal clusters, ICC 0.1"
    return picture(title, [len(sizes) for sizes in GROWING], lines)


if __name__ == "__main__":
    main()
