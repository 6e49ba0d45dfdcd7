"""The calibration of a predictive monitor: the Brier skill of its risks over the rates of the rules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from ...rules.model.arrays import F64
from .agents import Player, Situation
from .prevention import RUNS, STEPS, WITHIN

Predict = Callable[[Situation], F64]


def brier_skill(player: Player, predict: Predict, runs: int = RUNS, steps: int = STEPS) -> float:
    """Return 1 - Brier score / that of each rule's rate, over every step of unchecked runs and every rule.

    0 is as good as a monitor that knows the rates and looks at nothing; 1 is a monitor that knows the future.
    """
    risks, outcomes = zip(
        *(_run(player, predict, Random(f"calibration {run}"), steps) for run in range(runs)), strict=True
    )
    predicted, happened = np.concatenate(risks), np.concatenate(outcomes)
    rates = happened.mean(axis=0)
    return float(1 - ((predicted - happened) ** 2).sum() / ((rates - happened) ** 2).sum())


def _run(player: Player, predict: Predict, draw: Random, steps: int) -> tuple[F64, F64]:
    """Return by [step, rule] the risk within k steps, and whether the rule was violated within them."""
    situation, risks, violated = player.first(), list[F64](), list[F64]()
    for _ in range(steps + WITHIN):
        risks.append(predict(situation))
        option = player.draw(situation, draw)
        violated.append(option.violated.astype(np.float64))
        situation = option.after
    windows = [np.maximum.reduce(violated[step : step + WITHIN]) for step in range(steps)]
    return np.array(risks[:steps]), np.array(windows)
