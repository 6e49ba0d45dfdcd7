"""A trial of rules: every question of theirs asked of made-up events of every kind, and all rules judged.

Rules that end a process do it where they are compiled, planned or asked by a foreign library. A trial does
all of that once, in a process that may be killed, before anything depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import cast

from ...schemas.event import Content, Event, Kind
from ...schemas.frames.events import event_frame
from ..labels.guards import leaves
from ..model.predicate import Leaf, Path, Predicate, Scalar, Test
from ..model.rule import RuleSet
from .judge import JUDGED_COLUMNS, compile_rule_set, judge, label_columns
from .sessions import Clock

FEW = 200
"""Events that are labelled as the few of a live session are."""
SECOND = 1_000_000_000
WORDS = 'caf\u00e9, please \u2019 confirm: 12.50 \u4e2d\u6587 [1] {"a": 1} '
"""A text with letters beyond ASCII, signs, numbers and what looks like JSON."""
KINDS = (Kind.USER, Kind.ASSISTANT, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.UNKNOWN)
VALUES: tuple[object, ...] = ("text", 1, 1.5, 2**60, True, None, [1], {"a": 1})
"""What stands at the end of a path, in turn."""


def try_rules(rule_set: RuleSet) -> None:
    """Compile the rules, label made-up events both ways, and judge them.

    Raises RuleError where a rule runs into a limit; otherwise returns, or ends with the process.
    """
    compiled = compile_rule_set(rule_set)
    events = list(made_up(rule_set))
    columns = (*JUDGED_COLUMNS, *label_columns(compiled))
    for some in (events[:FEW], events[-FEW:]):
        few = compiled.labeler.label_few(event_frame(some), keep=JUDGED_COLUMNS).select(columns)
        judge(compiled, few, Clock(last=0, idle=0), satisfied=True)
    many = compiled.labeler.label(event_frame(events).lazy(), keep=JUDGED_COLUMNS).collect().select(columns)
    judge(compiled, many, Clock(last=(len(events) + 1) * SECOND, idle=0), satisfied=True)


def made_up(rule_set: RuleSet) -> Iterator[Event]:
    """Yield the events of one session: all kinds, each with its content there, absent and cut, then its end.

    For each proposition come events that have what it asks for, so that no guard spares a costly question.
    """
    plain = [_event(kind, content) for kind in KINDS for content in Content]
    asked = [_asked(predicate, content) for predicate, content in zip(_questions(rule_set), cycle(Content))]
    sliced = [
        _filled(Kind.TOOL_CALL, Content.CAPTURED, list(rule.for_each.paths), {})
        for rule in rule_set.rules
        if rule.for_each is not None
    ]
    events = [*plain, *(event for some in asked for event in some), *sliced]
    for place, event in enumerate(events, start=1):
        yield replace(event, occurrence=SECOND, time=place * SECOND, seq=place, event_id=f"{place:016x}")


def _questions(rule_set: RuleSet) -> list[Predicate]:
    """Return the propositions of the rules, each once."""
    return list(
        {
            (rule.pack, name): predicate
            for rule in rule_set.rules
            for name, predicate in rule.propositions.items()
        }.values()
    )


def _event(kind: Kind, content: Content) -> Event:
    """Return an event of that kind, with all that it can hold unless its content is absent."""
    return _filled(kind, content, [], {})


def _asked(predicate: Predicate, content: Content) -> list[Event]:
    """Return events that hold what the predicate asks for, one of each kind that it names, or of any."""
    found = list(leaves(predicate))
    named = {str(word) for leaf in found if leaf.path.field == "kind" for word in leaf.operands}
    kinds = [kind for kind in KINDS if kind.value in named] or list(KINDS)
    plain = {leaf.path.field: str(_operand(leaf)) for leaf in found if leaf.operands and not leaf.path.steps}
    paths = [leaf.path for leaf in found if leaf.path.steps]
    events = [_filled(kind, Content.CAPTURED, paths, plain) for kind in kinds]
    return [*events, _filled(kinds[0], content, paths, plain)]


def _operand(leaf: Leaf) -> Scalar:
    """Return a value that the leaf compares with; a regular expression is none."""
    return WORDS if leaf.test is Test.MATCHES else leaf.operands[0]


def _filled(kind: Kind, content: Content, paths: list[Path], plain: dict[str, str]) -> Event:
    """Return an event that has these paths and fields, as far as its kind has them."""
    is_absent = content is Content.ABSENT
    is_tool = kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT)
    held = {field: _json(paths, field) for field in ("args", "result")}
    text = None if is_absent or is_tool else plain.get("text", "") + WORDS
    return Event(
        session_id="trial",
        occurrence=0,
        time=0,
        seq=0,
        kind=kind,
        agent=plain.get("agent", "agent"),
        model=plain.get("model"),
        service=plain.get("service"),
        text=text,
        tool=plain.get("tool", "tool") if is_tool else None,
        call_id=plain.get("call_id", "c1") if is_tool else None,
        args=held["args"] if is_tool and not is_absent else None,
        result=held["result"] if kind is Kind.TOOL_RESULT and not is_absent else None,
        error=plain.get("error"),
        content=content,
        attributes={str(path.steps[0]): WORDS for path in paths if path.field == "attributes"},
    )


def _json(paths: list[Path], field: str) -> str:
    """Return JSON that has the paths of the field; where two contradict each other, the later one."""
    whole: object = {}
    for place, path in enumerate(path for path in paths if path.field == field):
        value = VALUES[place % len(VALUES)]
        for step in reversed(path.steps):
            value = {step: value} if isinstance(step, str) else [*[None] * min(step, 3), value]
        if isinstance(whole, dict) and isinstance(value, dict):
            value = {**cast(dict[str, object], whole), **cast(dict[str, object], value)}
        whole = value
    return json.dumps(whole, ensure_ascii=False)
