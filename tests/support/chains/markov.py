"""The rules of `examples/markov_desk.py`: the walks of its sessions, and the true risks of their contexts.

All of it steps the compiled machine along the stated policy, and uses of `predict` its data types alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tracline.examples.markov_desk import FIRST, FOUND, LAST, POLICY, STEPS
from tracline.predict.chain.walks import CLOSED, CLOSED_UNMET
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.model.machine import VERDICT_MASK, VIOLATED
from tracline.rules.packs.load import pack_text
from tracline.schemas.verdict import Verdict

from .walks import Walk

PACK = """
pack: markov-desk
version: 1
propositions:
  offers: kind == "assistant" and text matches /Shall I/
  agrees: kind == "user" and text matches /^Yes/
  declines: kind == "user" and text matches /^No/
  found: kind == "tool_result" and tool == "find_user_id_by_email" and not result starts with "Error"
  refunds: kind == "tool_call" and tool == "issue_refund"
  reports: kind == "assistant" and not text matches /Shall I/
  call: kind == "tool_call"
  handed_over: kind == "tool_result" and tool == "transfer_to_human_agents"
rules:
  - {id: find-first, title: No refund before the account is found, formula: always (refunds -> once found)}
  - id: agree-first
    title: No refund without a yes
    steps: offers or agrees or declines or refunds
    formula: always (refunds -> previous agrees)
  - {id: last-call, title: No call after the hand-over, formula: always (call -> not once handed_over)}
  - {id: report-it, title: The refund is reported, formula: always (refunds -> eventually reports)}
"""

TRUE = {
    "asks": set[str](),
    "agrees": {"agrees"},
    "declines": {"declines"},
    "offers": {"offers"},
    "reports": {"reports"},
    "looks_up": {"call"},
    "found": {"found"},
    "not_found": set[str](),
    "refunds": {"refunds", "call"},
    "refunded": set[str](),
    "hands_over": {"call"},
    "handed_over": {"handed_over"},
}
"""The propositions that are true at each step."""

SEEN = {"agree-first": {"offers", "agrees", "declines", "refunds"}}
"""The steps that each rule with `steps` sees."""

NAMES = (*STEPS, FIRST)

Node = tuple[str, bool, int, str]
"""The last step, whether the account was found, the machine's state, and the last step that the rule saw."""


@dataclass(frozen=True)
class DeskRule:
    """One rule over the steps of the desk, as tables by machine state and step."""

    name: str
    following: dict[tuple[int, str], tuple[int, bool]]
    unmet: tuple[bool, ...]
    seen: frozenset[str]

    @property
    def contexts(self) -> int:
        """Return the number of pairs of a step, or the start, and a state."""
        return len(NAMES) * len(self.unmet)

    def context(self, step: str, state: int) -> int:
        """Return the number of a context."""
        return NAMES.index(step) * len(self.unmet) + state

    def walk(self, session: int, steps: Sequence[str]) -> Walk:
        """Return the walk of a closed session."""
        state, contexts, violated = 0, [self.context(FIRST, 0)], [False]
        for step in steps:
            if step in self.seen:
                state, is_violated = self.following[state, step]
                contexts.append(self.context(step, state))
                violated.append(is_violated)
        return Walk(session, contexts, violated, CLOSED_UNMET if self.unmet[state] else CLOSED)


def desk_rules() -> list[DeskRule]:
    """Return the rules of the pack."""
    found: list[DeskRule] = []
    for rule in pack_text(PACK).rules:
        machine = compile_rule(rule)
        following: dict[tuple[int, str], tuple[int, bool]] = {}
        for state in range(len(machine.next)):
            for step, true in TRUE.items():
                target, output = machine.step(state, machine.word(true))
                following[state, step] = target, output & VERDICT_MASK == VIOLATED
        unmet = tuple(verdict is Verdict.UNMET for verdict in machine.closing)
        found.append(DeskRule(rule.id, following, unmet, frozenset(SEEN.get(rule.id, STEPS))))
    return found


@dataclass(frozen=True)
class ExactDesk:
    """The product of the policy and one rule, and what is certain of it."""

    rule: DeskRule

    @cached_property
    def nodes(self) -> list[Node]:
        """Return the nodes that sessions come to, the start first."""
        found: dict[Node, None] = {(FIRST, False, 0, FIRST): None}
        waiting = list(found)
        while waiting:
            new = {target: None for _, target, _, _ in self._arrows(waiting.pop()) if target is not None}
            waiting += [target for target in new if target not in found]
            found |= new
        return list(found)

    def _arrows(self, node: Node) -> Iterator[tuple[float, Node | None, bool, bool]]:
        """Yield probability, target (None at the close), whether the rule sees it, and its verdict."""
        last, found, state, seen = node
        for step, percent in POLICY[last, found].items():
            if step == LAST:
                yield percent / 100, None, True, self.rule.unmet[state]
            elif step in self.rule.seen:
                target, violated = self.rule.following[state, step]
                yield percent / 100, (step, found or step == FOUND, target, step), True, violated
            else:
                yield percent / 100, (step, found or step == FOUND, state, seen), False, False

    @cached_property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the probabilities of steps unseen, of steps seen without a verdict, and of a verdict."""
        place = {node: number for number, node in enumerate(self.nodes)}
        unseen = np.zeros((len(place), len(place)))
        quiet, verdict = unseen.copy(), np.zeros((len(place), len(place) + 1))
        for node, source in place.items():
            for probability, target, is_seen, violated in self._arrows(node):
                if violated:
                    verdict[source, len(place) if target is None else place[target]] += probability
                elif target is not None:
                    (quiet if is_seen else unseen)[source, place[target]] += probability
        return unseen, quiet, verdict

    def risks(self, within: int | None) -> np.ndarray:
        """Return the probability of a verdict within so many seen events, by node."""
        unseen, quiet, verdict = self._matrices
        identity, now = np.eye(len(unseen)), verdict.sum(axis=1)
        if within is None:
            return np.linalg.solve(identity - unseen - quiet, now)
        value = np.zeros(len(unseen))
        for _ in range(within):
            value = np.linalg.solve(identity - unseen, now + quiet @ value)
        return value

    def first_visits(self, within: int | None) -> np.ndarray:
        """Return the risk at the first visit of each context; NaN where no session comes."""
        unseen, quiet, verdict = self._matrices
        risks, size = self.risks(within), len(unseen)
        seen = quiet + verdict[:, :size]
        of_node = np.array([self.rule.context(node[3], node[2]) for node in self.nodes])
        found = np.full(self.rule.contexts, np.nan)
        found[of_node[0]] = risks[0]
        for context in set(of_node[1:].tolist()) - {int(of_node[0])}:
            into = of_node == context
            going = unseen + np.where(into, 0.0, seen)
            hits = np.linalg.solve((np.eye(size) - going).T, np.eye(size)[0]) @ np.where(into, seen, 0.0)
            if hits.sum() > 0:
                found[context] = hits @ risks / hits.sum()
        return found

    def missed(self, warned: np.ndarray) -> float:
        """Return the share of the violating sessions without a visit of these contexts before the verdict."""
        unseen, quiet, verdict = self._matrices
        stops = np.array([warned[self.rule.context(node[3], node[2])] for node in self.nodes])
        going = unseen + np.where(stops, 0.0, quiet)
        silently = np.linalg.solve(np.eye(len(unseen)) - going, verdict.sum(axis=1))[0]
        return float(silently / self.risks(None)[0])
