"""Environments of agents, and the monitor of the rules that an agent must follow.

An environment is a pure function from states and actions to states, so that a monitor may look ahead in it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple, Protocol

import numpy as np

from ....rules.engine.judge import compile_rule_set
from ....rules.engine.letters import label_words
from ....rules.model.arrays import Mask
from ....rules.model.machine import VERDICT_MASK, VIOLATED
from ....rules.packs.load import pack_text
from ....schemas.event import Event, Kind
from ....schemas.frames.events import event_frame

State = Hashable


class Action(NamedTuple):
    """An action as the tool call that the rules see; `args` are pairs of a name and a value."""

    tool: str
    args: tuple[tuple[str, str], ...] = ()


class Environment(Protocol):
    """An environment with its allowed actions; `pack` names the file of its rules in this folder."""

    @property
    def pack(self) -> str:
        """Return the name of the file of its rules."""
        ...

    def start(self) -> State:
        """Return the state before the first action."""
        ...

    def actions(self, state: State) -> Sequence[Action]:
        """Return the allowed actions of a state."""
        ...

    def after(self, state: State, action: Action) -> State:
        """Return the state after an action."""
        ...


MachineStates = tuple[int, ...]


class RuleMonitor:
    """The rules of an environment, stepped together on its actions."""

    def __init__(self, pack: str) -> None:
        text = (files("tracline.examples.papers") / pack).read_text()
        self._compiled = compile_rule_set(pack_text(text, pack))
        self.rules = tuple(rule.id for rule in self._compiled.rules)
        self.first: MachineStates = (0,) * len(self.rules)
        self._words = cache(self._words_of)
        self.step = cache(self._step)

    def _step(self, states: MachineStates, action: Action) -> tuple[MachineStates, Mask]:
        """Return the states after an action, and which rules it violates."""
        words, machines = self._words(action), self._compiled.machines
        steps = [
            machine.step(state, word) for machine, state, word in zip(machines, states, words, strict=True)
        ]
        violated = np.array([output & VERDICT_MASK == VIOLATED for _, output in steps])
        return tuple(state for state, _ in steps), violated

    def _words_of(self, action: Action) -> tuple[int, ...]:
        """Return the word of each machine at an action, by the predicates of the pack."""
        call = Event("papers", 0, 0, 1, Kind.TOOL_CALL, tool=action.tool, args=json.dumps(dict(action.args)))
        labelled = self._compiled.labeler.label_few(event_frame([call]))
        words, codes = label_words(labelled, self._compiled.labeler.words)
        bits = {name: bit for (_, name), bit in self._compiled.propositions.items()}
        true = words.true_at(int(codes[0]), bits)
        return tuple(machine.word(true) for machine in self._compiled.machines)
