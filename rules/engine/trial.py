"""A trial of rules: compile them, label synthetic events of every kind, and judge those events.

Rules that crash a process do so in compilation, in planning or in a native library. The caller runs a trial
in a process that may die, before a live process depends on the rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from typing import cast

from msgspec.structs import replace

from ...schemas.event import Content, Event, Kind
from ...schemas.frames.events import event_frame
from ..model.predicate import Leaf, Path, Predicate, Scalar, Test, event_paths, leaves
from ..model.rule import RuleSet
from .judge import JUDGED_COLUMNS, compile_rule_set, judge, label_columns
from .sessions import Clock

FEW = 200
"""Events of a batch that is labelled as live events are."""
SECOND = 1_000_000_000
WORDS = 'caf\u00e9, please \u2019 confirm: 12.50 \u4e2d\u6587 [1] {"a": 1} '
"""A text with letters beyond ASCII, punctuation, numbers and a JSON object."""
KINDS = (Kind.USER, Kind.ASSISTANT, Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.UNKNOWN)
VALUES: tuple[object, ...] = ("text", 1, 1.5, 2**60, True, None, [1], {"a": 1})
"""Values at the ends of paths, used in turn."""


def try_rules(rule_set: RuleSet) -> None:
    """Compile the rules, label synthetic events as live and as archived ones, and judge them.

    Raises RuleError where a rule exceeds a limit.
    """
    compiled = compile_rule_set(rule_set)
    events = list(synthetic_session(rule_set))
    columns = (*JUDGED_COLUMNS, *label_columns(compiled))
    for batch in (events[:FEW], events[-FEW:]):
        few = compiled.labeler.label_few(event_frame(batch), keep=JUDGED_COLUMNS).select(columns)
        judge(compiled, few, Clock(last=0, idle=0), satisfied=True)
    many = compiled.labeler.label(event_frame(events).lazy(), keep=JUDGED_COLUMNS).collect().select(columns)
    judge(compiled, many, Clock(last=(len(events) + 1) * SECOND, idle=0), satisfied=True)


def synthetic_session(rule_set: RuleSet) -> Iterator[Event]:
    """Yield the events of one session: first all kinds of events, with each kind of content.

    Then come, for each proposition, events that have the fields and paths that it reads, so that no guard
    skips a costly predicate, and events that carry slice values.
    """
    plain = [_filled(kind, content, [], {}) for kind in KINDS for content in Content]
    contents = cycle(Content)
    read = [event for predicate in _propositions(rule_set) for event in _read(predicate, next(contents))]
    sliced = [
        _filled(Kind.TOOL_CALL, Content.CAPTURED, list(rule.for_each.paths), {})
        for rule in rule_set.rules
        if rule.for_each is not None
    ]
    events = [*plain, *read, *sliced]
    for place, event in enumerate(events, start=1):
        yield replace(event, occurrence=SECOND, time=place * SECOND, seq=place, event_id=f"{place:016x}")


def _propositions(rule_set: RuleSet) -> list[Predicate]:
    """Return the propositions of the rules, each once."""
    return list(
        {
            (rule.pack, name): predicate
            for rule in rule_set.rules
            for name, predicate in rule.propositions.items()
        }.values()
    )


def _read(predicate: Predicate, content: Content) -> list[Event]:
    """Return events that have what the predicate reads: one of each kind that it names, or of each kind."""
    found = [leaf for leaf in leaves(predicate) if isinstance(leaf, Leaf)]
    named = {str(word) for leaf in found if leaf.path.field == "kind" for word in leaf.operands}
    kinds = [kind for kind in KINDS if kind.value in named] or list(KINDS)
    plain = {leaf.path.field: str(_operand(leaf)) for leaf in found if leaf.operands and not leaf.path.steps}
    paths = [path for leaf in leaves(predicate) for path in event_paths(leaf) if path.steps]
    events = [_filled(kind, Content.CAPTURED, paths, plain) for kind in kinds]
    return [*events, _filled(kinds[0], content, paths, plain)]


def _operand(leaf: Leaf) -> Scalar:
    """Return a value that the leaf compares with; a regular expression has no such value."""
    return WORDS if leaf.test is Test.MATCHES else leaf.operands[0]


def _filled(kind: Kind, content: Content, paths: list[Path], plain: dict[str, str]) -> Event:
    """Return an event that has those of these paths and fields that its kind has."""
    is_absent = content is Content.ABSENT
    is_tool = kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT)
    documents = {field: _json(paths, field) for field in ("args", "result")}
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
        args=documents["args"] if is_tool and not is_absent else None,
        result=documents["result"] if kind is Kind.TOOL_RESULT and not is_absent else None,
        error=plain.get("error"),
        content=content,
        attributes={str(path.steps[0]): WORDS for path in paths if path.field == "attributes"},
    )


def _json(paths: list[Path], field: str) -> str:
    """Return JSON that has the paths of the field; of two that contradict each other, the later one."""
    document: object = {}
    for place, path in enumerate(path for path in paths if path.field == field):
        value: object = VALUES[place % len(VALUES)]
        for step in reversed(path.steps):
            value = {step: value} if isinstance(step, str) else [*[None] * min(step, 3), value]
        if isinstance(document, dict) and isinstance(value, dict):
            value = {**cast(dict[str, object], document), **cast(dict[str, object], value)}
        document = value
    return json.dumps(document, ensure_ascii=False)
