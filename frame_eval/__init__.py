"""An evaluation accessor for data frames: ``df.eval``.

Metrics are group-by aggregations over long tables of per-example results, with intervals that
respect clusters.
"""

from frame_eval.accessor import Evaluation, of, register
from frame_eval.columns import col, cube, each, where
from frame_eval.errors import ColumnError, EvalError, GuardFailed
from frame_eval.metrics.classification import (
    accuracy,
    balanced_accuracy,
    cohen_kappa,
    f1,
    fbeta,
    mcc,
    precision,
    recall,
    specificity,
)
from frame_eval.metrics.core import Metric
from frame_eval.metrics.means import bias, mae, mean, rate, ratio, rmse
from frame_eval.metrics.quantiles import median, quantile
from frame_eval.metrics.sampling import pass_at_k
from frame_eval.metrics.scores import roc_auc
from frame_eval.verbs.compare import compare
from frame_eval.verbs.guard import assert_passed, guard
from frame_eval.verbs.plan import plan
from frame_eval.verbs.rules import Rule, rule
from frame_eval.verbs.summary import summary

__version__ = "0.1.0"

__all__ = [
    "ColumnError",
    "EvalError",
    "Evaluation",
    "GuardFailed",
    "Metric",
    "Rule",
    "accuracy",
    "assert_passed",
    "balanced_accuracy",
    "bias",
    "cohen_kappa",
    "col",
    "compare",
    "cube",
    "each",
    "f1",
    "fbeta",
    "guard",
    "mae",
    "mcc",
    "mean",
    "median",
    "of",
    "pass_at_k",
    "plan",
    "precision",
    "quantile",
    "rate",
    "ratio",
    "recall",
    "rmse",
    "roc_auc",
    "rule",
    "specificity",
    "summary",
    "where",
]

register()
