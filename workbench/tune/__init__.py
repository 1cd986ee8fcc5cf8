"""Choices: which provider to use for how many rows, with what certainty, and what a wrong choice costs.

============== ========================================================================================
`crossover`    `CrossoverSearch`: what to measure next, and who wins where; stops and goes on
`live`         `LiveRouter`: the measurement on the GPU at hand (imports torch)
`run`          `steps`, `interleaved`: carry a search out with a measurement of yours
`recorded`     `recorded_points`: figures from records instead
`evidence`     `Point`, `Block`: samples at one M and their bootstrap
`verdicts`     `compare`: the winner at one M, or none
`intervals`    `Interval`, `Crossing`: from single M to intervals
`traffic`      `Traffic`: how often the product is called with M rows
`regret`       `regret`, `Curves`: what a rule costs under a traffic
`results`      `make_table`, `fit_threshold`: a dispatch table, and SGLang's form of it
============== ========================================================================================
"""

from __future__ import annotations

from workbench.tune.crossover import COARSE_GRID, CrossoverSearch, Proposal, Settings
from workbench.tune.evidence import Block, Point
from workbench.tune.intervals import Crossing, Interval
from workbench.tune.recorded import Recorded, recorded_points
from workbench.tune.regret import Curves, Regret, regret
from workbench.tune.results import ThresholdFit, best_choice, fit_threshold, make_table
from workbench.tune.run import interleaved, steps
from workbench.tune.traffic import Traffic
from workbench.tune.verdicts import Verdict, compare

__all__ = [
    "COARSE_GRID",
    "Block",
    "Crossing",
    "CrossoverSearch",
    "Curves",
    "Interval",
    "Point",
    "Proposal",
    "Recorded",
    "Regret",
    "Settings",
    "ThresholdFit",
    "Traffic",
    "Verdict",
    "best_choice",
    "compare",
    "fit_threshold",
    "interleaved",
    "make_table",
    "recorded_points",
    "regret",
    "steps",
]
