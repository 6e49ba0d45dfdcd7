"""The expected findings of `tracline serve`, from the conversations alone: no assembly, label or kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tracline.examples.desk.script import Script
from tracline.rules.model.digest import rule_digest, verdict_id
from tracline.rules.model.rule import Rule
from tracline.rules.packs.load import pack_text
from tracline.rules.reference.semantics import LabelledEvent
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.span import Span
from tracline.schemas.time import NS, rfc3339

from ..conversations.agent_spans import expected, spans
from ..conversations.span_plan import Manner
from .followed import may_apply, referenced

PACK = """
pack: desk
version: 1
propositions:
  ask: kind == "user" and text contains "?"
  thanks: kind == "assistant" and text contains "thank"
  answer: kind == "assistant"
  call: kind == "tool_call"
  refund: kind == "tool_call" and tool == "issue_refund"
  result: kind == "tool_result"
  failed: kind == "tool_result" and error is not null
transitions:
  odd: not previous odd
rules:
  - {id: answered, unknown: stop, formula: always (ask -> eventually answer)}
  - {id: asked-first, formula: always (refund -> once ask), severity: critical}
  - id: every-result
    for_each: [args.id, args.order_id]
    steps: call or result
    formula: always (refund -> eventually result)
  - {id: refund-once, unknown: stop, for_each: args.id, formula: 'always (refund -> at_most[1] refund)'}
  - {id: no-failure, unknown: stop, recover: none, formula: not failed until ask}
  - {id: thanked, unknown: stop, recover: violation, formula: eventually thanks}
  - {id: failed-refund, applies_to: refund, formula: historically (failed -> previous refund)}
  - {id: odd-steps, formula: always (odd -> not thanks)}
  - {id: next-result, unknown: stop, steps: refund or result or ask, formula: always (refund -> next result)}
  - {id: fails-by-order, for_each: args.order_id, recover: none, formula: always not failed}
"""

RECORDED = ("violated", "unmet", "unjudged")
"""The verdicts that are always written down."""

Ids = dict[str, tuple[str, int, str, str]]
"""Verdicts by id: session, place, rule and verdict, for reading what is missing."""


Place = tuple[str, int, int, str]
"""An event: session, occurrence (ns since the epoch), place in it, and id."""


@dataclass(frozen=True)
class PlayedSession:
    """A conversation, and the manner of its spans."""

    session: Script
    manner: Manner

    @property
    def spans(self) -> list[Span]:
        """Its spans in the order in which they ended."""
        return spans(self.session, self.manner)

    @property
    def events(self) -> list[Event]:
        """Its events, without the `end` row."""
        return [event for event in expected(self.session, self.manner) if event.kind is not Kind.END]

    @property
    def places(self) -> list[Place]:
        """Return where its events stand."""
        return [(event.session_id, event.occurrence, event.seq, event.event_id) for event in self.events]


def paced(session: Script, start: int, gap_s: float) -> Script:
    """The conversation with a message every so many seconds, from that time (ns since the epoch) on."""
    lines = [
        replace(line, time=start + round(place * gap_s * NS))
        for place, line in enumerate(session.lines, start=1)
    ]
    return replace(session, lines=tuple(lines))


def answered_once(session: Script) -> Script:
    """The conversation without second answers to a call: not every dialect names their tool."""
    return replace(session, lines=tuple(line for line in session.lines if not line.again))


def write_pack(folder: Path) -> Path:
    """The pack as a file in that folder."""
    file = folder / "desk.yaml"
    file.write_text(PACK)
    return file


def true_ids(played: Iterable[PlayedSession], pack: Path) -> Ids:
    """Every verdict that conversations must give, once they have closed."""
    return ids_of((session_played.events for session_played in played), pack)


def ids_of(occurrences: Iterable[Sequence[Event]], pack: Path, *, closed: bool = True) -> Ids:
    """Every verdict that occurrences must give, from their first event here on."""
    found: Ids = {}
    for events in occurrences:
        for rule, digest in _rules(pack.read_text()):
            found |= _ids(events, rule, digest, closed=closed)
    return found


def applying(events: Sequence[Event], pack: Path) -> set[str]:
    """The rules that come to apply in an occurrence."""
    return {
        rule.id
        for rule, _ in _rules(pack.read_text())
        if may_apply(rule, [seen(event, rule.id) for event in events])
    }


@cache
def _rules(pack: str) -> tuple[tuple[Rule, str], ...]:
    """Return the rules of a pack with their digests."""
    return tuple((rule, rule_digest(rule)) for rule in pack_text(pack).rules)


def _ids(events: Sequence[Event], rule: Rule, digest: str, *, closed: bool) -> Ids:
    """Return the verdicts that one rule must give in one occurrence."""
    found: Ids = {}
    for finding in referenced(rule, [seen(event, rule.id) for event in events], closed=closed):
        event = events[finding.event]
        name = verdict_id(
            pack=rule.pack,
            rule=rule.id,
            rule_digest=digest,
            session_id=event.session_id,
            occurrence=rfc3339(event.occurrence),
            slice=finding.slice,
            event_id=event.event_id,
            verdict=finding.verdict.value,
        )
        if finding.verdict.value in RECORDED:
            found[name] = (event.session_id, event.seq, rule.id, finding.verdict.value)
    return found


SLICED = {
    "every-result": ("id", "order_id"),
    "refund-once": ("id",),
    "fails-by-order": ("order_id",),
}
"""The arguments by which rules look at sessions, the first that is there."""


def seen(event: Event, rule: str) -> LabelledEvent:
    """The propositions of the pack and the rule's slice value at an event, in plain Python."""
    true: set[str] = set()
    unknown: set[str] = set()
    absent = event.content is Content.ABSENT
    text = event.text or ""
    match event.kind:
        case Kind.USER:
            true |= {"ask"} if "?" in text else set()
            unknown |= {"ask"} if absent else set()
        case Kind.ASSISTANT:
            true |= {"answer", *(["thanks"] if "thank" in text else [])}
            unknown |= {"thanks"} if absent else set()
        case Kind.TOOL_CALL:
            true |= {"call", *(["refund"] if event.tool == "issue_refund" else [])}
        case Kind.TOOL_RESULT:
            true |= {"result", *(["failed"] if event.error is not None else [])}
        case _:
            unknown |= {"ask", "answer", "thanks"}
    is_tool = event.kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT)
    value, is_unknown = _slice(event, SLICED.get(rule, ())) if is_tool else (None, False)
    return LabelledEvent(frozenset(true), frozenset(unknown), value, is_unknown)


def _slice(event: Event, names: Sequence[str]) -> tuple[str | None, bool]:
    """The value of the first of these arguments that a call has, and whether it is not known."""
    if not names:
        return None, False
    if event.args is None:
        return None, event.content is Content.ABSENT
    value = next((found for name in names if (found := json.loads(event.args).get(name)) is not None), None)
    assert value is None or isinstance(value, str | int), "the conversations have plain ids"
    return (None if value is None else str(value)), False
