"""TRAC's predictive monitor with an intervention (algorithm 3): violations a step by kind of prediction.

The monitor estimates at each step the probability of each rule to be violated within k steps. Where one is at
least the threshold, the agent proposes n actions, and the one with the fewest expected violations is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from .agents import Option, Player, Situation

STEPS, RUNS = 50, 30
WITHIN, SAMPLES, PROPOSALS, THRESHOLD = 3, 3, 5, 0.5
"""k, m, n and the threshold of the paper."""

Choose = Callable[[Player, Situation, Random], Option]


def unchecked(player: Player, situation: Situation, draw: Random) -> Option:
    """Take what the agent does."""
    return player.draw(situation, draw)


def one_step(player: Player, situation: Situation, draw: Random) -> Option:
    """Take the first of the proposals that violate the fewest rules at once; nothing is predicted."""
    return min(_proposals(player, situation, draw), key=lambda each: int(each.violated.sum()))


def by_samples(player: Player, situation: Situation, draw: Random) -> Option:
    """Intervene as the paper does: risks of m sampled continuations, a threshold, and n proposals."""
    if player.sampled(situation, WITHIN, SAMPLES, draw).max() < THRESHOLD:
        return player.draw(situation, draw)
    return always_sampling(player, situation, draw)


def always_sampling(player: Player, situation: Situation, draw: Random) -> Option:
    """Take the proposal with the fewest violations in m sampled continuations, whatever the threshold."""
    return min(
        _proposals(player, situation, draw),
        key=lambda each: float(player.sampled_after(each, WITHIN - 1, SAMPLES, draw).sum()),
    )


def by_solving(player: Player, situation: Situation, draw: Random) -> Option:
    """Intervene at the same threshold and among as many proposals, by solved risks."""
    if player.solved(situation, WITHIN).max() < THRESHOLD:
        return player.draw(situation, draw)
    return always_solving(player, situation, draw)


def always_solving(player: Player, situation: Situation, draw: Random) -> Option:
    """Take the proposal of the least solved risk at every step, whatever the threshold."""
    return min(_proposals(player, situation, draw), key=lambda each: _solved(player, each))


def least_of_all(player: Player, situation: Situation, draw: Random) -> Option:
    """Take the allowed action of the least solved risk, any of several."""
    options = player.options(situation)
    return min(draw.sample(options, len(options)), key=lambda each: round(_solved(player, each), 12))


def _proposals(player: Player, situation: Situation, draw: Random) -> list[Option]:
    return [player.draw(situation, draw) for _ in range(PROPOSALS)]


def _solved(player: Player, option: Option) -> float:
    return float(player.solved_after(option, WITHIN - 1).sum())


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over runs with the half width of its 95 % interval, from the standard error as in the paper."""

    value: float
    half: float


def violations_a_step(player: Player, choose: Choose, runs: int = RUNS, steps: int = STEPS) -> Mean:
    """Return the violations a step; run `i` depends on nothing but `i`."""
    rates = [_run(player, choose, Random(f"papers {run}"), steps) for run in range(runs)]
    return Mean(float(np.mean(rates)), float(1.96 * np.std(rates, ddof=1) / np.sqrt(runs)))


def _run(player: Player, choose: Choose, draw: Random, steps: int) -> float:
    situation, violations = player.first(), 0
    for _ in range(steps):
        option = choose(player, situation, draw)
        violations += int(option.violated.sum())
        situation = option.after
    return violations / steps
