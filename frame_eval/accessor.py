"""The two doors: ``frame.eval`` on pandas and Polars frames, and ``fe.of(anything)``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, overload

import pandas as pd
import polars as pl

from frame_eval.columns import Columns, Source
from frame_eval.evaluation import Bound, with_roles
from frame_eval.running import Run
from frame_eval.slices import Crossed
from frame_eval.verbs.bootstrap import bootstrap
from frame_eval.verbs.compare import compare
from frame_eval.verbs.confusion import confusion
from frame_eval.verbs.curve import curve
from frame_eval.verbs.guard import assert_passed, guard
from frame_eval.verbs.operating_point import operating_point
from frame_eval.verbs.plan import plan
from frame_eval.verbs.poststratify import poststratify
from frame_eval.verbs.routing import routing
from frame_eval.verbs.summary import summary
from frame_eval.verbs.thresholds import best_threshold
from frame_eval.verbs.worst import worst

R = TypeVar("R")


class Evaluation(Bound[R]):
    """A frame of results, with the verbs as methods and roles bound as defaults.

    ``R`` is the type of the results: pandas for pandas frames, Polars for all others.

    Examples
    --------
    >>> import frame_eval as fe, polars as pl
    >>> df = pl.DataFrame({"model": ["a", "a", "b", "b"], "ok": [1, 0, 1, 1]})
    >>> results = fe.of(df).roles(system="model")
    >>> results.summary(fe.rate("ok"))["estimate"].to_list()
    [0.5, 1.0]
    """

    summary = summary
    compare = compare
    bootstrap = bootstrap
    confusion = confusion
    curve = curve
    routing = routing
    best_threshold = best_threshold
    operating_point = operating_point
    guard = guard
    assert_passed = assert_passed
    worst = worst
    poststratify = poststratify
    plan = plan

    def roles(
        self,
        *,
        system: Columns | None = None,
        example: Columns | None = None,
        trial: Columns | None = None,
        cluster: Columns | Crossed | None = None,
        weight: Source | None = None,
        strata: Columns | None = None,
    ) -> Evaluation[R]:
        """The same frame with roles bound, as defaults of every verb.

        Parameters
        ----------
        system, example, trial, cluster, weight, strata
            Column names, as in :func:`summary`. Roles bound before stay, where not named again.

        Returns
        -------
        Evaluation
            A new one; this one stays as it is.

        Examples
        --------
        >>> import frame_eval as fe, polars as pl
        >>> df = pl.DataFrame({"model": ["a", "b"], "ok": [1, 0]})
        >>> df.eval.roles(system="model").summary(fe.rate("ok"))["model"].to_list()
        ['a', 'b']
        """
        given = {
            "system": system,
            "example": example,
            "trial": trial,
            "cluster": cluster,
            "weight": weight,
            "strata": strata,
        }
        bound = {name: value for name, value in given.items() if value is not None}
        return Evaluation(self._frame, with_roles(self, bound), self._run)

    def run(
        self,
        *,
        memory: float | None = None,
        progress: bool | None = None,
        score_bins: int | None = None,
    ) -> Evaluation[R]:
        """The same frame, its questions answered within some memory, in silence or in score bins.

        Parameters
        ----------
        memory
            The bytes that what leaves the engine may take while it is worked on; 1 GiB unless said
            otherwise. Frames that are in memory already are not counted. Where the sums of
            clusters or the examples of a comparison need more, they are taken in several passes,
            each over some of the clusters or examples, with the same result; errors of weighted
            rows, and of ratios over clusters, to within 2^-6 times the largest share that one has.
            For many passes Polars puts the rows into temporary files, in the folder that
            ``POLARS_TEMP_DIR`` or else ``TMPDIR`` names; they are gone when the answer is there.
            Where rows need more, rank metrics take counts of distinct scores. Comparisons and
            clusters of these and of metrics over classes look at the rows twice: at the counts
            first, then at what each row adds to the linearised metric; comparisons of rows in
            engines other than Polars collect them part by part. What none of this makes small
            enough is an error that says so.
        progress
            Whether work of more than two seconds shows a bar, on a terminal and with tqdm
            installed; True unless said otherwise.
        score_bins
            Rank metrics and quantiles of columns with too many distinct values: take each value as
            the middle of its bin, one of so many of equal width between the least and the largest
            (infinities stay). A quantile is then off by at most half the width of a bin. ROC-AUC
            is off by at most half the share of the pairs of a positive and a negative that share a
            bin, and gini by twice that, which ``note`` says.

        Returns
        -------
        Evaluation
            A new one; this one stays as it is.

        Raises
        ------
        EvalError
            When ``memory`` is not a positive number, or ``score_bins`` not a whole one from 2.

        Examples
        --------
        >>> import frame_eval as fe, polars as pl
        >>> df = pl.LazyFrame({"doc": [1, 1, 2, 2], "ok": [1, 0, 1, 0], "p": [0.9, 0.3, 0.4, 0.8]})
        >>> quiet = df.eval.run(memory=2e9, progress=False)
        >>> quiet.summary(fe.rate("ok"), cluster="doc")["estimate"].item()
        0.5
        >>> binned = df.eval.run(score_bins=2)
        >>> binned.summary(fe.roc_auc("ok", "p"))["note"].item()
        '2 rows of the rarer class; scores in 2 bins: off by at most 0.25'
        """
        given = {"memory": memory, "progress": progress, "score_bins": score_bins}
        named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return Evaluation(self._frame, self._roles, replace(self._run or Run(), **named))

    def __repr__(self) -> str:
        roles = "".join(f", {name}={value!r}" for name, value in self._roles.items())
        return f"<Evaluation of {type(self._frame).__name__}{roles}>"


class PandasEvaluation(Evaluation[pd.DataFrame]):
    """The accessor of pandas frames, which is also the frame's own ``eval`` when called.

    The call goes on to the method that pandas has under this name, one frame level further up, so
    that ``@local`` names resolve where the caller wrote them.
    """

    def __call__(self, expr: str, **kwargs: Any) -> Any:
        """Evaluate an expression as ``pandas.DataFrame.eval`` does."""
        kwargs["level"] = kwargs.get("level", 0) + 1
        return _pandas_eval(self._frame, expr, **kwargs)


class _Door:
    """Gives a fresh evaluation at every access: a cached one would keep its frame alive."""

    def __init__(self, kind: Any, plain: Any = None) -> None:
        self._kind = kind
        self._plain = plain

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self._kind if self._plain is None else self._plain
        return self._kind(instance)


@overload
def of(frame: pd.DataFrame) -> Evaluation[pd.DataFrame]: ...  # pyright: ignore[reportOverlappingOverload] - the rest is Polars
@overload
def of(frame: Any) -> Evaluation[pl.DataFrame]: ...
def of(frame: Any) -> Evaluation[Any]:
    """Any frame as an :class:`Evaluation`: the same as ``frame.eval``, and typed.

    Parameters
    ----------
    frame
        A pandas or Polars frame (eager or lazy), an Arrow table or dataset, a DuckDB relation,
        a Spark or Dask frame.

    Returns
    -------
    Evaluation
        With the verbs as methods.

    Raises
    ------
    EvalError
        In the verbs, when the frame is of no known kind.

    Examples
    --------
    >>> import frame_eval as fe, pandas as pd
    >>> type(fe.of(pd.DataFrame({"ok": [1, 0]})).summary(fe.rate("ok"))).__name__
    'DataFrame'
    """
    return Evaluation(frame)


_pandas_eval = pd.DataFrame.eval


def register() -> None:
    """Put ``eval`` on pandas DataFrame, Polars DataFrame and LazyFrame."""
    _open(pl.DataFrame, _Door(Evaluation))
    _open(pl.LazyFrame, _Door(Evaluation))
    _open(pd.DataFrame, _Door(PandasEvaluation, _pandas_eval))


def _open(frame: Any, door: _Door) -> None:
    # Both libraries list their accessors in a private set, which dir() reads.
    frame.eval = door
    frame._accessors.add("eval")
