"""A span is read the same with the memory of its session's last calls as without."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.examples.desk.bot import Break, Desk, conversations
from tracline.examples.desk.script import support_session, turn_bounds
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.claims.span_claims import ClaimMemory, claims_of, parted_claims
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.plain.span import PlainSpans, plain_span
from tracline.schemas.plain_calls.calls import CallBatch
from tracline.schemas.plain_calls.conversation import PlainCalls
from tracline.schemas.sessions.resolve import whole_candidate
from tracline.schemas.sessions.span_reading import SessionMemory, claimed_content, read_span
from tracline.schemas.span import Span, Value
from tracline.schemas.span_content import SpanContent, SpanRole

from ..support.conversations.agent_spans import spans
from ..support.conversations.recordings import FOLDER, names, requests_of
from ..support.conversations.scripts import random_session
from ..support.conversations.span_plan import Dialect
from ..support.otlp_requests import to_otlp
from .test_dialects import MANNERS

DESK = list(
    map(
        support_session, conversations(Desk(sessions=3, seed=8, rates=dict.fromkeys(Break, 0.03), spike=None))
    )
)
SESSIONS = [s for s in (*DESK, *map(random_session, range(6))) if len([*turn_bounds(s.lines)]) > 1]
INPUTS = ("gen_ai.input.messages", "ai.prompt.messages")
EDITS = (
    *(("}]", "}"), ("}]", "},]"), ("}]", '},{"role":"user","content":"new"}]'), ("}]", "} ,  {}]")),
    *(
        ('"role"', '"rolle"'),
        ("assistant", "user"),
        ("user", "tool"),
        ("[", "[ "),
        ("}]", "} ]"),
        ("}]", "}]x"),
    ),
    *(("call_", "kall_"), ('"id"', '"idd"'), ("{", '{"type":"reasoning",'), ("e", "é"), ("}]", "},1]")),
)
"""Changes of a text of messages, at one place."""


@dataclass(frozen=True)
class ReadSpan:
    """A span as it is sent alone, with the content and the claims that are read without a memory."""

    span: Span
    request: bytes
    content: SpanContent
    claims: tuple[tuple[tuple[Claim, ...], str], ...]
    """The claims and their digest, and those of a retry, which begins later and has the same input."""

    @property
    def starts(self) -> tuple[int, int]:
        """Return when the span and its retry begin."""
        return self.span.start, self.span.start + 1


def read(span: Span) -> ReadSpan:
    """Read a span without a memory."""
    request, plain = to_otlp([span]).SerializeToString(), read_span(span).content
    both = (claims_of(plain, start, span.end) for start in (span.start, span.start + 1))
    return ReadSpan(span, request, claimed(plain), tuple(both))


def agreed(sent: Iterable[ReadSpan]) -> list[bool]:
    """Return of each span with an input whether the memory knew its beginning; check all claims."""
    memory, straight, known = SessionMemory(), PlainCalls(), list[bool]()
    for plain in sent:
        attributes = plain.span.attributes
        texts = [text for name in INPUTS if isinstance(text := attributes.get(name), str)]
        inputs = [conversation.inputs for conversation in memory.conversations]
        known += [any(remembered.is_in(text) for remembered in inputs for text in texts)] if texts else []
        content, claims = claimed_content(plain.request, plain_span(plain.request), memory)
        assert content == plain.content
        assert claims is not None or content.role is SpanRole.TOOL
        for start, expected in zip(plain.starts, plain.claims, strict=True):
            assert joined_claims(content, start, plain.span.end, claims or ClaimMemory()) == expected
            assert straight_claims(plain, start, straight) == expected
    return known


def straight_claims(plain: ReadSpan, start: int, memory: PlainCalls) -> tuple[tuple[Claim, ...], str]:
    """Return claims and digest as a monitor reads them, straight from the JSON where they are plain."""
    unread = Candidate("s", plain.content.role, start, plain.span.end, (), request=plain.request)
    read = [unread]
    batch = CallBatch(PlainSpans([plain.request]), read)
    batch.add(0, memory)
    batch.read()
    (whole,) = read
    if whole.request:
        whole = whole_candidate(unread, plain_span(plain.request), SessionMemory())
    assert whole.attributes == plain.content.attributes
    return checked(whole), whole.digest


def joined_claims(
    content: SpanContent, start: int, end: int, memory: ClaimMemory
) -> tuple[tuple[Claim, ...], str]:
    """Return claims and digest with a memory; the claims of the history are the past ones."""
    history, claims, digest = parted_claims(content, start, end, memory)
    assert not any(claim.past for claim in claims)
    return checked(Candidate("s", content.role, start, end, claims, history=history)), digest


def checked(candidate: Candidate) -> tuple[Claim, ...]:
    """Return all claims of a candidate, of which the past ones are its history if it has one."""
    assert candidate.history is None or not any(claim.past for claim in candidate.claims)
    assert all(claim.past for claim in candidate.past_claims)
    assert candidate.chars == candidate.joined().chars
    return candidate.joined().claims


def claimed(content: SpanContent) -> SpanContent:
    """Return a content without what only other spans inherit."""
    inherited = ("session", "agent", "model", "service", "nested", "own_conversation", "response_id", "lacks")
    empty = SpanContent(content.role)
    return msgspec.structs.replace(content, **{name: getattr(empty, name) for name in inherited})


def in_layout(span: Span, layout: str) -> Span:
    """Return a span with its JSON texts in another layout."""
    changed: dict[str, Value] = {}
    for name in INPUTS:
        text = span.attributes.get(name)
        if isinstance(text, str):
            # The desk's instructions change with each call.
            value = [message for message in json.loads(text) if message["role"] != "system"]
            layouts = {
                "spaced": json.dumps(value),
                "compact": json.dumps(value, ensure_ascii=False, separators=(",", ":")),
                "indented": json.dumps(value, indent=1),
            }
            changed[name] = layouts[layout]
    return msgspec.structs.replace(span, attributes={**span.attributes, **changed})


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("manner", MANNERS)
def test_generated_conversations_are_read_the_same(dialect: Dialect, manner: str) -> None:
    """In every dialect and manner, also where conversations are mixed."""
    plan = replace(MANNERS[manner], dialect=dialect)
    each = [[*map(read, spans(session, plan))] for session in SESSIONS]
    for sent in each:
        agreed(sent)
    agreed(sorted((plain for sent in each for plain in sent), key=lambda plain: plain.span.end))


@pytest.mark.parametrize("layout", ["spaced", "compact", "indented"])
@pytest.mark.parametrize("dialect", [Dialect.GENAI, Dialect.VERCEL])
def test_a_conversation_that_repeats_its_history_is_remembered(dialect: Dialect, layout: str) -> None:
    """In each layout of JSON, most calls are continued."""
    known: list[bool] = []
    for session in DESK:
        sent = spans(session, replace(MANNERS["plain"], dialect=dialect))
        known += agreed(read(in_layout(span, layout)) for span in sent)
    share = sum(known) / len(known)
    assert share > 0.5


@pytest.mark.parametrize("name", names())
def test_recordings_are_read_the_same(name: str) -> None:
    """All recorded spans, in the order of their requests."""
    agreed(
        read(span)
        for body in requests_of(FOLDER / name / "otlp" / "requests.pb.zst")
        for span in decode_protobuf(body).spans
    )


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_edited_histories_are_read_the_same(seed: int) -> None:
    """Texts that are cut off or changed at any place between calls give the same claims."""
    random = Random(seed)
    session = random.choice(SESSIONS)
    sent = spans(session, replace(MANNERS["plain"], dialect=random.choice([Dialect.GENAI, Dialect.VERCEL])))
    edited: list[Span] = []
    for span in sent:
        changed = dict(span.attributes)
        for name in INPUTS:
            text = changed.get(name)
            if isinstance(text, str) and random.random() < 0.5:
                changed[name] = changed_text(text, random)
        edited += [span] * random.choice([0, 1, 1, 2]) + [msgspec.structs.replace(span, attributes=changed)]
    agreed(map(read, edited))


def changed_text(text: str, random: Random) -> str:
    """Return a text cut off, without a part, or with an edit at one of its places."""
    kind = random.randrange(4)
    if kind == 0:
        return text[: random.randrange(len(text) + 1)]
    if kind == 1:
        at = random.randrange(len(text) + 1)
        return text[:at] + text[at + random.randrange(30) :]
    old, new = random.choice(EDITS)
    places = text.split(old)
    at = len(places) - 1 if random.random() < 0.5 else random.randrange(1, len(places) + 1)
    return old.join(places[:at]) + new + old.join(places[at:])
