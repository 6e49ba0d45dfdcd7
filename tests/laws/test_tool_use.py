"""Each call and each result is one event, whichever ids come again and whichever runs have a span."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.claims.span_claims import claims_of
from tracline.schemas.event import Kind
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.span_content import Message, Role, SpanContent, SpanRole, ToolCall, ToolResult
from tracline.schemas.time import NS

IDLE_NS = 3600 * NS
SESSIONS = 150
IDS = ["again", "own", "none", "run has none"]
Truth = list[tuple[Kind, str | None, str | None, str | None]]


def candidate(number: int, start: int, end: int, content: SpanContent) -> Candidate:
    """A span of the session; times in seconds."""
    claims, digest = claims_of(content, start * NS, end * NS)
    return Candidate("s", content.role, start * NS, end * NS, claims, "t", str(number), digest)


def conversation(random: Random, ids: str) -> tuple[list[Candidate], Truth]:
    """The spans of a conversation with tools, and its calls and results in their order.

    Few arguments and results, so that calls are alike; any run may lack its span, and after any answer the
    session may rest until it is forgotten.
    """
    spans: list[Candidate] = []
    truth: Truth = []
    history: list[Message] = []
    now = 1
    for turn in range(random.randint(2, 6)):
        history.append(Message(Role.USER, f"{turn}"))
        for round_ in range(random.randint(0, 3)):
            calls = tuple(_calls(random, ids, f"{turn}.{round_}"))
            spoken = Message(Role.ASSISTANT, None, calls=calls)
            spans.append(
                candidate(
                    len(spans), now, now + 2, SpanContent(SpanRole.CHAT, input=(*history,), output=(spoken,))
                )
            )
            truth += [(Kind.TOOL_CALL, made_call.tool, made_call.args, None) for made_call in calls]
            results = tuple(
                ToolResult(made_call.call_id, None, random.choice(["ok", "no", "3"])) for made_call in calls
            )
            now += 2
            for call, result in zip(calls, results, strict=True):
                truth.append((Kind.TOOL_RESULT, call.tool, call.args, result.result))
                if random.random() < 0.6:
                    own_call = ToolCall(None if ids == "run has none" else call.call_id, call.tool, call.args)
                    ran = SpanContent(
                        SpanRole.TOOL,
                        call=own_call,
                        result=ToolResult(own_call.call_id, own_call.tool, result.result),
                    )
                    spans.append(candidate(len(spans), now, now + 1, ran))
                now += 1
            history += [spoken, Message(Role.TOOL, results=results)]
        answer = Message(Role.ASSISTANT, f"answer {turn}")
        spans.append(
            candidate(
                len(spans), now, now + 1, SpanContent(SpanRole.CHAT, input=(*history,), output=(answer,))
            )
        )
        history.append(answer)
        now += random.choice([2, 2, 2 * IDLE_NS // NS + 10])
    return spans, truth


def _calls(random: Random, ids: str, round_: str) -> Iterator[ToolCall]:
    for number in range(random.choice([1, 1, 1, 2, 3])):
        call_id = {"again": f"call_{number}", "none": None}.get(ids, f"call_{round_}.{number}")
        tool = random.choice(["log_in", "refund"])
        yield ToolCall(call_id, tool, random.choice(["{}", '{"order": 1}', '{"order": 2}']))


def assembled(spans: list[Candidate], cuts: list[int]) -> Truth:
    """The calls and results; at each of the cuts the time has passed all before what is to come."""
    session = SessionAssembler("s", IDLE_NS)
    found = []
    arrived = 0
    for cut in cuts:
        for item in spans[arrived:cut]:
            session.add(item)
        arrived = cut
        expected = min((item.start for item in spans[cut:]), default=max(item.end for item in spans) + 1)
        found += session.advance(expected - 1)
    assert session.late == 0
    return [
        (item.kind, item.tool, item.args, item.result)
        for item in found
        if item.kind in (Kind.TOOL_CALL, Kind.TOOL_RESULT) and not item.history
    ]


def by_text(events: Truth) -> list[tuple[str, ...]]:
    """Events in an order of their own: parallel results come as their runs end."""
    return sorted(tuple(map(str, row)) for row in events)


@pytest.mark.parametrize("ids", IDS)
def test_no_true_call_or_result_is_lost_or_doubled(ids: str) -> None:
    """The events of any conversation are its calls and results, in whatever order and batches spans come."""
    calls = 0
    for seed in range(SESSIONS):
        random = Random(f"{ids} {seed}")
        spans, truth = conversation(random, ids)
        found = assembled(spans, [len(spans)])
        assert by_text(found) == by_text(truth), seed
        calls += len(truth)
        shuffled = random.sample(spans, len(spans))
        assert assembled(shuffled, [len(spans)]) == found
        cuts = sorted(random.sample(range(1, len(spans)), min(3, len(spans) - 1)))
        assert assembled(shuffled, [*cuts, len(spans)]) == found
        assert assembled(sorted(spans, key=lambda span: span.end), [*range(1, len(spans) + 1)]) == found
    assert calls > 1_000
