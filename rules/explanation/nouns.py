"""Nouns for propositions: `verify_customer` result, user message, event with `name`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model.formula import Formula, Op
from ..model.predicate import And, Leaf, Predicate, Test
from ..model.rule import Rule

TOOLS_MAX = 3
"""Tools that a noun names; of more it names none."""
NAMES_MAX = 6
"""Propositions that a sentence lists."""

_EVENTS = re.compile(r"\b[Ee]vents? (\d+(?:(?:, | and )\d+)*)")
_NUMBER = re.compile(r"\d+")
_KINDS = {
    "user": "user message",
    "assistant": "assistant message",
    "tool_call": "call",
    "tool_result": "result",
}


def event_noun(rule: Rule, name: str) -> str:
    """Return a noun for the events at which a proposition is true, from its predicate where that is simple.

    The noun has the proposition's name unless the predicate tests the kind and the tool only.
    """
    noun, is_exact = kind_noun(rule.propositions.get(name))
    return noun if is_exact else f"{noun} with `{name}`"


def kind_noun(predicate: Predicate | None) -> tuple[str, bool]:
    """Return a noun for the kind and tool that a predicate requires, and whether it tests nothing else."""
    leaves = predicate.args if isinstance(predicate, And) else (predicate,)
    tested = {leaf.path.field: leaf for leaf in leaves if isinstance(leaf, Leaf) and not leaf.path.steps}
    kinds, tools = _required(tested.get("kind")), _required(tested.get("tool"))
    if len(kinds) != 1 or kinds[0] not in _KINDS:
        return "event", False
    names = " or ".join(f"`{tool}`" for tool in tools) if len(tools) <= TOOLS_MAX else ""
    is_whole = len(leaves) == 1 + bool(tools) and len(tools) <= TOOLS_MAX
    return f"{names} {_KINDS[kinds[0]]}".strip(), is_whole


def event_phrase(rule: Rule, seq: int, names: Sequence[str]) -> str:
    """Return an event with propositions that are true there: the user message at event 3 (`agrees`).

    The tool is named where the propositions allow only that one.
    """
    found = {_single_noun(rule.propositions.get(name)) for name in names}
    listed = ", ".join(f"`{name}`" for name in names[:NAMES_MAX])
    place = f"event {seq} ({listed})" if names else f"event {seq}"
    found = found if len(found) == 1 else {noun.rpartition("` ")[2] for noun in found}
    noun = found.pop() if len(found) == 1 else "event"
    return place if noun == "event" else f"the {noun} at {place}"


def events_of(sentence: str) -> set[int]:
    """Return the `seq` of the events that a sentence names: `event 3`, `events 3, 5 and 8`."""
    return {int(seq) for seqs in _EVENTS.findall(sentence) for seq in _NUMBER.findall(seqs)}


def _single_noun(predicate: Predicate | None) -> str:
    """Return the noun of a predicate, without tools if these are several."""
    noun, _ = kind_noun(predicate)
    return noun.rpartition(" or ")[2].rpartition("` ")[2] if " or " in noun else noun


def _required(leaf: Leaf | None) -> tuple[str, ...]:
    """Return the values that a test of a field allows, none if it allows others."""
    if leaf is None or leaf.test not in (Test.EQ, Test.IN):
        return ()
    return tuple(map(str, leaf.operands))


def joined(parts: Sequence[str]) -> str:
    """Return the parts as a list in a sentence."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def any_noun(rule: Rule, formula: Formula) -> str | None:
    """Return a noun for the events at which a proposition, or one of several, is true; else None."""
    parts = formula.args if formula.op is Op.OR else (formula,)
    if any(part.op is not Op.PROP or part.name in rule.transitions for part in parts):
        return None
    return " or ".join(dict.fromkeys(event_noun(rule, part.name) for part in parts))
