"""Sessions with more events than are judged: unjudged from there, live as in an audit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import orjson
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.engine.kernel import EVENTS_MAX
from tracline.rules.incremental.carried import stored_page
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Content, Event, Kind, end_event
from tracline.schemas.records.session_status import SessionStatus
from tracline.schemas.records.verdict_record import encode_verdict
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.memory.seen import CARRIED_CHARS_MAX, CLOSED_MAX, REMEMBERED_MAX, WAITING_MAX
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.messages.session_state import JudgingState, SessionState
from tracline.stream.stages.judge import HELD_CHARS_MAX, HELD_MAX, Outputs, SessionJudge, poisoned
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ...support.event_rows import PACK, START, call, session, user, write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

RULES = pack_text(PACK)


def over(more: int) -> list[dict]:
    """A session that shouts, calls, and goes on; its last event shouts again."""
    quiet = [user("well") for _ in range(EVENTS_MAX + more - 3)]
    return session("a", user("now!"), call("pay"), *quiet, user("again!"))


def found(tmp_path: Path, rows: list[dict]) -> list[dict]:
    """Return the records of an audit of these rows."""
    archive = write(tmp_path / "archive" / "events.parquet", rows)
    audit(archive.parent, RULES, tmp_path / "bundle", AuditOptions())
    return bundle_lines(tmp_path / "bundle")


def test_one_event_more_unjudges_every_rule_there(tmp_path: Path) -> None:
    """Earlier findings stay; at the first event over the limit every rule is unjudged, with the reason."""
    records = found(tmp_path, over(5))
    assert [(record["rule"], record["seq"]) for record in records if record["verdict"] == "violated"] == [
        ("calm", 1)
    ]
    unjudged = [record for record in records if record["verdict"] == "unjudged"]
    assert {record["rule"] for record in unjudged} == {"answered", "calm", "gives-up", "paid-once"}
    assert {record["seq"] for record in unjudged} == {EVENTS_MAX + 1}
    assert {record["reason"] for record in unjudged} == {f"the session has more than {EVENTS_MAX} events"}
    assert {record["verdict"] for record in records} == {"violated", "unjudged"}


def test_as_many_as_the_limit_are_judged(tmp_path: Path) -> None:
    """A session of just so many events is judged to its end."""
    records = found(tmp_path, over(0))
    assert [(record["rule"], record["seq"]) for record in records if record["verdict"] == "violated"] == [
        ("calm", 1),
        ("calm", EVENTS_MAX),
    ]
    assert {record["rule"] for record in records if record["verdict"] == "unmet"} == {"answered"}


def by_id(records: list[dict]) -> dict[str, dict]:
    """The records by id, of which none comes twice."""
    found = {record["id"]: record for record in records}
    assert len(found) == len(records)
    return found


def test_live_gives_the_same_and_remembers_one_event(tmp_path: Path) -> None:
    """Judged in parts, the same records come, each once; past the limit the state has one row."""
    rows = over(50)
    events = [
        end_event("a", START, row["time"], row["seq"], {"end": "mark"})
        if row["kind"] == "end"
        else Event(
            session_id="a",
            occurrence=START,
            time=row["time"],
            seq=row["seq"],
            kind=Kind(row["kind"]),
            text=row.get("text"),
            tool=row.get("tool"),
            call_id=row.get("call_id"),
            event_id=row["event_id"],
        )
        for row in rows
    ]
    wanted = found(tmp_path, rows)
    state = JudgingState()
    judge = RuleSetJudge(compile_rule_set(RULES))
    records: list[dict] = []
    statuses = []
    cuts = [0, 3_000, EVENTS_MAX - 1, EVENTS_MAX, EVENTS_MAX + 20, len(events) - 1, len(events)]
    sizes = []
    for begin, end in pairwise(cuts):
        done = judge.judge({"a": state}, [events[begin:end]])
        [judged] = done.verdicts
        records += [orjson.loads(encode_verdict(record)) for record in judged.records]
        statuses += judged.statuses
        state = done.states["a"]
        sizes.append(
            0 if state.carried is None else len(msgspec.msgpack.encode(state.carried, enc_hook=stored_page))
        )
    assert by_id(records) == by_id(wanted)
    assert sizes[-1] == 0
    assert sizes[3] == sizes[4] < sizes[0] < 1_000
    assert max(sizes) < 1_000
    assert [status.rule for status in statuses if status.status is SessionStatus.VIOLATED] == ["calm"]
    unjudged = [status.rule for status in statuses if status.status is SessionStatus.UNJUDGED]
    assert sorted(filter(None, unjudged)) == ["answered", "calm", "gives-up", "paid-once"]


def stepped(
    judge: SessionJudge, states: dict[str, SessionState], candidates: list[Candidate], watermark: int
) -> Outputs:
    """Step all sessions; their states change in place."""
    return judge.step(states, candidates, watermark, states.__getitem__).outputs


def waiting(number: int) -> Candidate:
    """A tool's run in the session `a`, one of many."""
    claims = (Claim(Kind.TOOL_CALL, START, tool="look", call_id=f"c{number}"),)
    return Candidate("a", SpanRole.TOOL, START, START, claims, trace_id="t", span_id=str(number))


def test_more_spans_than_may_wait_are_put_aside() -> None:
    """A span beyond `HELD_MAX` waiting ones is a dead letter, and no waiting span is lost."""
    states = {"a": SessionState(SessionAssembler("a", 3_600 * NS))}
    judge = SessionJudge(RuleSetJudge(compile_rule_set(RULES)))
    first = stepped(judge, states, list(map(waiting, range(HELD_MAX))), START - 1)
    assert (first.events, first.poison) == ([], [])
    over = stepped(judge, states, [waiting(HELD_MAX)], START - 1)
    [(place, code, reason)] = [flaw for poison in over.poison for flaw in poisoned(poison)]
    assert (place, code) == (f"trace t, span {HELD_MAX}", "session-held")
    assert str(HELD_MAX) in reason
    assert len(stepped(judge, states, [], START).events) == HELD_MAX


def test_memory_of_a_session_is_bounded() -> None:
    """Past `REMEMBERED_MAX` spans nothing more is remembered of an occurrence, and events still come."""
    session = SessionAssembler("a", 3_600 * NS)
    for number in range(REMEMBERED_MAX + 10):
        session.add(waiting(number))
    assert len(session.advance(START)) == REMEMBERED_MAX + 10
    [seen] = session.seen
    assert session.open is not None
    assert {seen.counts.spans, seen.counts.equals} == {REMEMBERED_MAX}
    assert len(seen.calls) == WAITING_MAX
    session.add(waiting(1))
    assert session.advance(START) == []


def test_more_text_than_may_wait_is_put_aside() -> None:
    """Few spans with much text are bounded, too: the waiting ones are judged, further ones are named."""
    text = "x" * (HELD_CHARS_MAX // 4)

    def large(number: int) -> Candidate:
        claims = (Claim(Kind.USER, START + number, text=text, place=0, key=f"k{number}"),)
        return Candidate("a", SpanRole.CHAT, START, START + number, claims, trace_id="t", span_id=str(number))

    states = {"a": SessionState(SessionAssembler("a", 3_600 * NS))}
    judge = SessionJudge(RuleSetJudge(compile_rule_set(RULES)))
    done = stepped(judge, states, list(map(large, range(4))), START - 1)
    assert not done.poison
    over = stepped(judge, states, [large(4)], START - 1)
    assert [held_part.code for held_part in over.poison] == ["session-held"]
    assert len(stepped(judge, states, [], START + 9).events) == 4


def asked(args: str) -> list[Event]:
    """Return the events of a call with these arguments, which a model made, and of its later result."""
    call = Claim(Kind.TOOL_CALL, START, tool="look", call_id="c", args=args, place=1)
    claim = Claim(Kind.TOOL_RESULT, START + 1, call_id="c", result="found", place=2)
    session = SessionAssembler("a", 3_600 * NS)
    session.add(Candidate("a", SpanRole.CHAT, START, START, (call,), trace_id="t", span_id="1"))
    session.add(Candidate("a", SpanRole.CHAT, START, START + 1, (claim,), trace_id="t", span_id="2"))
    return session.advance(START + 1)


def test_a_result_carries_arguments_up_to_a_limit() -> None:
    """Longer ones are not known at the result, whose text is; the call has them whole."""
    fits, over = "x" * CARRIED_CHARS_MAX, "x" * (CARRIED_CHARS_MAX + 1)
    assert [(event.args, event.content) for event in asked(fits)] == [(fits, Content.CAPTURED)] * 2
    call_event, answer = asked(over)
    assert (call_event.args, call_event.content) == (over, Content.CAPTURED)
    assert (answer.tool, answer.args, answer.result) == ("look", None, "found")
    assert answer.content is Content.ABSENT


def test_few_closed_occurrences_are_remembered() -> None:
    """A session that ends and begins again and again remembers the last ones alone."""
    session = SessionAssembler("a", 3_600 * NS)
    for number in range(CLOSED_MAX + 50):
        time = START + 2 * number
        claims = (
            Claim(Kind.USER, time, text="hi", place=0, key=f"k{number}"),
            Claim(Kind.END, time + 1),
        )
        session.add(Candidate("a", SpanRole.CHAT, time, time + 1, claims, trace_id="t", span_id=str(number)))
        session.advance(time + 1)
    assert len(session.seen) == CLOSED_MAX + 1
