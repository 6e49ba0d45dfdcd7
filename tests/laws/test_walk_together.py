"""The walk over many requests at once finds what the walk over each of them finds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tracline.schemas.walk import locate
from tracline.schemas.walk.locate import LocatedRequests, located

from ..support.conversations.span_plan import Dialect
from .test_walk import SCOPE, damaged, generated, recorded

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
