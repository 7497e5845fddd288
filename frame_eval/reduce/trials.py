"""Rows of the same example: none twice, and trials that count for one example together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import narwhals as nw

from frame_eval.errors import EvalError
from frame_eval.metrics.core import Metric
from frame_eval.reduce.checks import explain_ids
from frame_eval.reduce.coded import repeats_message
from frame_eval.reduce.engines import collect
from frame_eval.reduce.parts import in_one, in_parts
from frame_eval.reduce.passes import passes_of
from frame_eval.reduce.prepare import Prepared
from frame_eval.running import shown


@contextmanager
def averaged(prepared: Prepared, metrics: Sequence[Metric]) -> Iterator[Prepared]:
    """The rows of examples, which all count the same, however many trials they have.

    Raise for repeated rows that no ``trial`` tells apart. Polars holds all rows to count those of
    each example: where they are too many it is given parts of them, and the weights that come of
    it are put into temporary files.
    """
    if not prepared.examples or all(metric.unit is not None for metric in metrics):
        yield prepared
        return
    examples = list(prepared.examples.values())
    keys = [*prepared.systems.values(), *examples]
    trials = [*keys, *prepared.trials.values()]
    passes = passes_of(prepared, trials, examples, 1) if prepared.is_polars else 1
    with ExitStack() as opened:
        with in_parts(prepared.frame, examples, passes, 3 if prepared.trials else 1) as parts:
            numbers: set[int] = set()
            for rows in shown(parts, "repeated examples"):
                part = replace(prepared, native=nw.to_native(rows))
                _check_repeats(part, trials, some=passes > 1)
                numbers.update(_fewest_and_most(part, keys) if prepared.trials else ())
            if len(numbers) > 1:
                # Examples with more trials must not count for more than others.
                share = 1.0 / nw.len().over(keys).cast(nw.Float64)
                if prepared.weight is not None:
                    share = nw.col(prepared.weight) * share
                weighted = [rows.with_columns(share.alias("__fe_weight")) for rows in parts]
                whole = weighted[0]
                if passes > 1:
                    whole = opened.enter_context(in_one(shown(weighted, "numbers of trials")))
                prepared = replace(prepared, native=nw.to_native(whole), weight="__fe_weight")
        yield prepared


def _fewest_and_most(prepared: Prepared, keys: Sequence[str]) -> list[int]:
    """The smallest and the largest number of rows with the same keys, if there are rows."""
    sizes = prepared.frame.group_by(keys).agg(nw.len().alias("__fe_len"))
    size = nw.col("__fe_len")
    span = sizes.select(size.min().alias("low"), size.max().alias("high"))
    return [number for number in collect(span, rows=prepared.rows).row(0) if number is not None]


def _check_repeats(prepared: Prepared, keys: Sequence[str], *, some: bool) -> None:
    """Raise where rows have the same system, example and trial."""
    counts = prepared.frame.group_by(keys).agg(nw.len().alias("__fe_len"))
    examples = list(prepared.examples.values())
    repeated = counts.filter(nw.col("__fe_len") > 1).select(examples).unique()
    first = collect(repeated.sort(examples).head(3), rows=prepared.rows)
    if first.height:
        explain_ids(prepared)
        total = collect(repeated.select(nw.len())).item()
        roles = {"system": prepared.systems, "trial": prepared.trials}
        named = [role for role, columns in roles.items() if columns]
        raise EvalError(repeats_message(total, first, named, some=some))
