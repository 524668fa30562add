"""Pure functions of scores and labels, with an explicit mask and an explicit rule for classes without positives."""

from .at_k import AtK, at_k
from .calibration import Calibration, Reliability, calibration, reliability
from .decisions import DecisionScores, count_decisions, decide, decision_scores, scores_of_counts
from .examples import (
    ExampleScores,
    coverage,
    example_scores,
    image_ranking,
    label_ranking_average_precision,
    one_error,
    ranking_loss,
)
from .groups import ClassGroup, frequency_groups, grouped_map
from .inputs import MetricError, states_from_truth, unknown_as_absent
from .intervals import Interval, SeedSummary, bootstrap, over_seeds, paired_bootstrap, paired_over_seeds
from .published import CONVENTIONS, Convention, Published, published_metrics
from .ranking import MeanAP, average_precision, mean_average_precision, scoreable
from .separation import Densities, Shares, compare_separation, densities, wasserstein
from .summary import per_class_ap, summarise
from .thresholds import ClassThresholds, Threshold, best_threshold, best_thresholds, grid_threshold

__all__ = [
    "CONVENTIONS",
    "AtK",
    "Calibration",
    "ClassGroup",
    "ClassThresholds",
    "Convention",
    "DecisionScores",
    "Densities",
    "ExampleScores",
    "Interval",
    "MeanAP",
    "MetricError",
    "Published",
    "Reliability",
    "SeedSummary",
    "Shares",
    "Threshold",
    "at_k",
    "average_precision",
    "best_threshold",
    "best_thresholds",
    "bootstrap",
    "calibration",
    "compare_separation",
    "count_decisions",
    "coverage",
    "decide",
    "decision_scores",
    "densities",
    "example_scores",
    "frequency_groups",
    "grid_threshold",
    "grouped_map",
    "image_ranking",
    "label_ranking_average_precision",
    "mean_average_precision",
    "one_error",
    "over_seeds",
    "paired_bootstrap",
    "paired_over_seeds",
    "per_class_ap",
    "published_metrics",
    "ranking_loss",
    "reliability",
    "scoreable",
    "scores_of_counts",
    "states_from_truth",
    "summarise",
    "unknown_as_absent",
    "wasserstein",
]
