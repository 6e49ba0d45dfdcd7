"""The walk over many requests at once finds what the walk over each of them finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from tracline.schemas.otlp.protobuf import decode_protobuf
from tracline.schemas.walk import locate
from tracline.schemas.walk.locate import LocatedRequests, located
from tracline.schemas.walk.request_loops import FACTS
from tracline.schemas.walk.wire_loops import KIND

from ..support.conversations.span_plan import Dialect
from ..support.otlp_requests import to_otlp
from .test_walk import SCOPE, damaged, generated, recorded

SYSTEM = "You are the agent of a shop. " * 80
"""A beginning that many conversations have."""
SPANS_MAX = 8
"""The room for spans of each request, which is too small for some."""


@pytest.mark.parametrize("seed", range(4))
def test_requests_are_located_together_as_alone(seed: int) -> None:
    """Sound, damaged, empty and large requests in any order have the spans that each has alone."""
    random = Random(seed)
    sound = [*recorded(), *(data for dialect in Dialect for data in generated(dialect, "trouble"))]
    requests = [
        *random.sample(sound, 30),
        b"",
        b"\x00",
        *(damaged(random.choice(sound), random) for _ in range(30)),
    ]
    random.shuffle(requests)
    alone = [located(data, SCOPE) for data in requests]
    together = LocatedRequests(requests)
    assert [together.at(place, SCOPE) for place in range(len(requests))] == alone
    assert 0 < alone.count(None) < len(requests) // 2


def test_one_call_walks_all_requests_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled loop is called once for all requests, and again only for those without room."""
    walked: list[int] = []
    walk_all = locate.walk_all

    def spied(whole: Any, words: Any, stops: Any, *arguments: Any) -> Any:
        walked.append(len(stops))
        return walk_all(whole, words, stops, *arguments)

    monkeypatch.setattr(locate, "walk_all", spied)
    desk = generated(Dialect.GENAI, "plain") * 3
    together = LocatedRequests(desk)
    assert all(together.at(place) for place in range(len(desk)))
    assert walked == [len(desk)]
    cramped = LocatedRequests(desk, 1)
    found = [cramped.at(place) for place in range(len(desk))]
    assert found == [located(data) for data in desk]
    assert walked[1] == len(desk)
    assert len(walked) > 2 + len(desk)


def test_rows_without_room_are_of_their_request_alone() -> None:
    """A request without room is walked alone, and those behind it have the room that is left."""
    large = max(generated(Dialect.GENAI, "plain"), key=len)
    small = [data for data in generated(Dialect.GENAI, "plain") if len(located(data) or ()) < SPANS_MAX]
    requests = [large, *small, large]
    together = LocatedRequests(requests, 1)
    assert [together.at(place) for place in range(len(requests))] == [*map(located, requests)]


def histories(random: Random) -> Iterator[str]:
    """Yield the inputs of calls of some conversations at once, each mostly one before with more behind it."""
    texts = ["Where is it?", "Dové è?" * 9, 'a "quoted"\n\\word', "x" * 400, "посылка " * 30]
    fields = [{}] * 60 + [{"name": "desk"}, {"thought": True}, {"finish_reason": "stop"}]
    spellings = [(", ", ": ")] * 5 + [(",", ":"), (" , ", " : ")]
    system = {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]}
    chats: list[list[dict[str, Any]]] = [[system] if number % 2 else [] for number in range(6)]
    for _ in range(150):
        chat = random.choice(chats)
        for _ in range(random.choice((0, 1, 2, 2, 3))):
            part = {"type": "text", "content": random.choice(texts)}
            role = random.choice(("user", "assistant"))
            chat.append({"role": role, "parts": [part]} | random.choice(fields))
        if random.random() < 0.1:
            del chat[random.randrange(len(chat) + 1) :]
        ascii_only = random.random() < 0.2
        text = json.dumps(chat, ensure_ascii=ascii_only, separators=random.choice(spellings))
        if random.random() < 0.3:
            place = random.randrange(len(text))
            text = text[:place] + random.choice(("", "x", '"', "}", "]", ",", "{")) + text[place + 1 :]
        yield text


@pytest.mark.parametrize("seed", range(4))
def test_repeated_messages_are_judged_as_alone(seed: int) -> None:
    """Histories that come again, cut, changed or in another spelling are accepted as they are alone."""
    span = next(span for data in generated(Dialect.GENAI, "plain") for span in decode_protobuf(data).spans)
    requests: list[bytes] = []
    for text in histories(Random(f"histories {seed}")):
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": text}
        made = msgspec.structs.replace(span, attributes=attributes)
        requests.append(to_otlp([made]).SerializeToString())
    together = LocatedRequests(requests)
    alone = [LocatedRequests([data]) for data in requests]
    assert not sum(each.repeated for each in alone)
    assert [together.at(place) for place in range(len(requests))] == [each.at(0) for each in alone]
    kinds = {tuple(each.facts[:, KIND].tolist()) for each in alone}
    assert [each.facts.tolist() for each in alone] == facts_by_request(together)
    print(f"{together.repeated / sum(map(len, requests)):.1%} of bytes were known, kinds {kinds}")
    assert together.repeated > sum(map(len, requests)) / 10
    assert len(kinds) > 1


def facts_by_request(together: LocatedRequests) -> list[list[list[int]]]:
    """Return the facts of each request."""
    stops = together.found[:, FACTS].cumsum().tolist()
    begins = [0, *stops[:-1]]
    return [together.facts[begin:stop].tolist() for begin, stop in zip(begins, stops, strict=True)]
