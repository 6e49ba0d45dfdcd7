"""Agents with a stated policy, so that the risk of what they do next can be solved as well as sampled."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import NamedTuple, Protocol

import numpy as np

from ...rules.model.arrays import F64, Mask
from .environments.environment import Action, Environment, MachineStates, RuleMonitor, State


class Situation(NamedTuple):
    """The state of the environment, and those of the rules' machines."""

    environment: State
    rules: MachineStates


class Option(NamedTuple):
    """An allowed action: its probability, the situation after it, and which rules it violates."""

    action: Action
    probability: float
    after: Situation
    violated: Mask


class Policy(Protocol):
    """The probabilities of an agent's actions, from which rules each of them would violate now."""

    def __call__(self, violated: Sequence[Mask]) -> Sequence[float]:
        """Return the probability of each action."""
        ...


def uniform(violated: Sequence[Mask]) -> Sequence[float]:
    """Return the same probability for all actions."""
    return [1 / len(violated)] * len(violated)


@dataclass(frozen=True)
class Forgetful:
    """An agent that forgets each rule with a probability at each step, and violates none that it remembers.

    Where every action violates a rule that it remembers, it takes any.
    """

    forgets: float = 0.3

    def __call__(self, violated: Sequence[Mask]) -> Sequence[float]:
        """Return the probability of each action, over the subsets of rules that it may remember."""
        table = np.array(violated)
        [matter] = np.nonzero(table.any(axis=0))
        found = np.zeros(len(table))
        for remembered in product((False, True), repeat=len(matter)):
            chance = float(np.prod([1 - self.forgets if each else self.forgets for each in remembered]))
            open_to = ~table[:, matter[list(remembered)]].any(axis=1)
            chosen = open_to if open_to.any() else np.ones(len(table), dtype=np.bool_)
            found += chance * chosen / chosen.sum()
        return found.tolist()


@dataclass
class Player:
    """An agent in an environment, with the monitor of its rules."""

    environment: Environment
    policy: Policy
    monitor: RuleMonitor
    _options: dict[Situation, list[Option]] = field(default_factory=dict[Situation, list[Option]])
    _risks: dict[Hashable, F64] = field(default_factory=dict[Hashable, F64])

    def first(self) -> Situation:
        """Return the situation before the first action."""
        return Situation(self.environment.start(), self.monitor.first)

    def options(self, situation: Situation) -> list[Option]:
        """Return the allowed actions with their probabilities."""
        found = self._options.get(situation)
        if found is None:
            actions = self.environment.actions(situation.environment)
            steps = [self.monitor.step(situation.rules, action) for action in actions]
            shares = self.policy([violated for _, violated in steps])
            found = self._options[situation] = [
                Option(
                    action,
                    share,
                    self._after(situation, action, rules),
                    violated,
                )
                for action, share, (rules, violated) in zip(actions, shares, steps, strict=True)
            ]
        return found

    def _after(self, situation: Situation, action: Action, rules: MachineStates) -> Situation:
        return Situation(self.environment.after(situation.environment, action), rules)

    def draw(self, situation: Situation, draw: Random) -> Option:
        """Return an action drawn by the policy."""
        options = self.options(situation)
        return draw.choices(options, weights=[each.probability for each in options])[0]

    def solved(self, situation: Situation, within: int) -> F64:
        """Return the probability that each rule is violated within so many steps."""
        if not within:
            return np.zeros(len(self.monitor.rules))
        found = self._risks.get((situation, within))
        if found is None:
            found = np.zeros(len(self.monitor.rules))
            for each in self.options(situation):
                if each.probability:
                    found += each.probability * self.solved_after(each, within - 1)
            self._risks[situation, within] = found
        return found

    def solved_after(self, option: Option, within: int) -> F64:
        """Return the probability that each rule is violated by an action or within so many steps after it."""
        return np.where(option.violated, 1.0, self.solved(option.after, within))

    def sampled(self, situation: Situation, within: int, samples: int, draw: Random) -> F64:
        """Return the share of sampled continuations that violate each rule."""
        found = np.zeros(len(self.monitor.rules))
        for _ in range(samples):
            violated, place = np.zeros(len(self.monitor.rules), dtype=np.bool_), situation
            for _ in range(within):
                option = self.draw(place, draw)
                violated |= option.violated
                place = option.after
            found += violated
        return found / samples

    def sampled_after(self, option: Option, within: int, samples: int, draw: Random) -> F64:
        """Return the same after an action, 1 for the rules that it violates."""
        return np.where(option.violated, 1.0, self.sampled(option.after, within, samples, draw))
