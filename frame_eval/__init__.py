"""An evaluation accessor for data frames: ``df.eval``.

Metrics are group-by aggregations over long tables of per-example results, with intervals that
respect clusters.
"""

from frame_eval.accessor import Evaluation, of, register
from frame_eval.columns import col
from frame_eval.errors import ColumnError, EvalError, GuardFailed
from frame_eval.metrics.brier_decomposition import (
    brier_reliability,
    brier_resolution,
    brier_uncertainty,
)
from frame_eval.metrics.calibration import ece, ece_debiased, mce
from frame_eval.metrics.classification import accuracy, balanced_accuracy, cohen_kappa, mcc
from frame_eval.metrics.core import Metric
from frame_eval.metrics.decisions import (
    expected_cost,
    fnr,
    fpr,
    hamming_loss,
    informedness,
    markedness,
    npv,
    top_k_accuracy,
)
from frame_eval.metrics.means import bias, mae, mean, rate, ratio, rmse
from frame_eval.metrics.pr_curve import (
    average_precision,
    precision_at_k,
    precision_at_recall,
    recall_at_k,
    recall_at_precision,
)
from frame_eval.metrics.precision_recall import (
    f1,
    fbeta,
    jaccard,
    precision,
    precision_at_prevalence,
    recall,
    specificity,
)
from frame_eval.metrics.probability import (
    bits_per_byte,
    brier,
    brier_multiclass,
    log_loss,
    perplexity,
)
from frame_eval.metrics.quantiles import median, quantile
from frame_eval.metrics.recalibration import calibration_intercept, calibration_slope
from frame_eval.metrics.roc import gini, ks, partial_auc, roc_auc
from frame_eval.metrics.sampling import pass_at_k
from frame_eval.metrics.selective import abstention, accuracy_at_coverage, aurc
from frame_eval.slices import crossed, cube, each, where
from frame_eval.verbs.bootstrap import bootstrap
from frame_eval.verbs.compare import compare
from frame_eval.verbs.confusion import confusion
from frame_eval.verbs.curve import curve
from frame_eval.verbs.guard import assert_passed, guard
from frame_eval.verbs.operating_point import operating_point
from frame_eval.verbs.plan import plan
from frame_eval.verbs.poststratify import poststratify
from frame_eval.verbs.routing import routing
from frame_eval.verbs.rules import Rule, rule
from frame_eval.verbs.summary import summary
from frame_eval.verbs.thresholds import bayes_threshold, best_threshold
from frame_eval.verbs.worst import worst

__version__ = "0.1.0"

__all__ = [
    "ColumnError",
    "EvalError",
    "Evaluation",
    "GuardFailed",
    "Metric",
    "Rule",
    "abstention",
    "accuracy",
    "accuracy_at_coverage",
    "assert_passed",
    "aurc",
    "average_precision",
    "balanced_accuracy",
    "bayes_threshold",
    "best_threshold",
    "bias",
    "bits_per_byte",
    "bootstrap",
    "brier",
    "brier_multiclass",
    "brier_reliability",
    "brier_resolution",
    "brier_uncertainty",
    "calibration_intercept",
    "calibration_slope",
    "cohen_kappa",
    "col",
    "compare",
    "confusion",
    "crossed",
    "cube",
    "curve",
    "each",
    "ece",
    "ece_debiased",
    "expected_cost",
    "f1",
    "fbeta",
    "fnr",
    "fpr",
    "gini",
    "guard",
    "hamming_loss",
    "informedness",
    "jaccard",
    "ks",
    "log_loss",
    "mae",
    "markedness",
    "mcc",
    "mce",
    "mean",
    "median",
    "npv",
    "of",
    "operating_point",
    "partial_auc",
    "pass_at_k",
    "perplexity",
    "plan",
    "poststratify",
    "precision",
    "precision_at_k",
    "precision_at_prevalence",
    "precision_at_recall",
    "quantile",
    "rate",
    "ratio",
    "recall",
    "recall_at_k",
    "recall_at_precision",
    "rmse",
    "roc_auc",
    "routing",
    "rule",
    "specificity",
    "summary",
    "top_k_accuracy",
    "where",
    "worst",
]

register()
