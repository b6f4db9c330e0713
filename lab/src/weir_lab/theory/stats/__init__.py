"""Statistics of runs: pure functions on arrays, frozen results with units. No IO, no clock; randomness is an argument.

The unit of replication is the run, never the window inside a run: windows of one run are correlated, and an interval over them is
too short (docs/measure/method.md has the numbers). By question:

``intervals``    how well do we know the mean of a cell? Student's t on run means; variance components
``series``       the same of parts of one run, which follow each other and may be alike: their mean, their change along a line, and
                 whether two series go together
``stopping``     how many runs? the stop rule, the two-stage plan, sample sizes; intervals that hold at every look
``adjusting``    p values of several tests made side by side (comparisons of cells are `theory.linear`'s)
``warmup``       where does the steady state begin? MSER-5 with its guards
``spikes``       which windows of a long run are far off, and what else was unusual then?
``ratios``       how many times another is one, where both were measured apart?
``percentiles``  which percentile can this many samples support?
``placement``    do keys fall evenly on servers? chi-square and statistical distance

Start with `mean_interval`.
"""

from weir_lab.theory.stats.adjusting import FALSE_DISCOVERIES, benjamini_hochberg, holm
from weir_lab.theory.stats.intervals import (
    Interval,
    VarianceComponents,
    coefficient_of_variation,
    mean_interval,
    variance_components,
)
from weir_lab.theory.stats.percentiles import percentile_min_count
from weir_lab.theory.stats.placement import (
    Uniformity,
    expected_distance_if_uniform,
    placement_uniformity,
    same_shares,
    statistical_distance,
)
from weir_lab.theory.stats.ratios import ratio_of
from weir_lab.theory.stats.series import AlongSeries, Together, change_along, mean_along, together
from weir_lab.theory.stats.spikes import Spike, coincidences, find_spikes, spike_reach
from weir_lab.theory.stats.stopping import Decision, StopRule, running_half_widths, runs_for_precision, sample_size
from weir_lab.theory.stats.warmup import Truncation, mser5, warmup_cut

__all__ = [
    "FALSE_DISCOVERIES",
    "AlongSeries",
    "Decision",
    "Interval",
    "Spike",
    "StopRule",
    "Together",
    "Truncation",
    "Uniformity",
    "VarianceComponents",
    "benjamini_hochberg",
    "change_along",
    "coefficient_of_variation",
    "coincidences",
    "expected_distance_if_uniform",
    "find_spikes",
    "holm",
    "mean_along",
    "mean_interval",
    "mser5",
    "percentile_min_count",
    "placement_uniformity",
    "ratio_of",
    "running_half_widths",
    "runs_for_precision",
    "same_shares",
    "sample_size",
    "spike_reach",
    "statistical_distance",
    "together",
    "variance_components",
    "warmup_cut",
]
