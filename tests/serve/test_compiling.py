"""Requests that come while the loops of the pipeline are compiled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tracline.stream.ingest.request import Encoding
from tracline.stream.serve import pipeline

from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Manner
from ..support.processes.live import Live, Sent, wire
from ..support.truth.conversations import PlayedSession, paced


def test_requests_are_acknowledged_while_loops_are_compiled(live: Live) -> None:
    """They are judged once the loops are there; senders would not wait so long for an answer."""
    compiled = threading.Event()
    sent = one_request(live, compiled.is_set)

    async def run() -> None:
        working = asyncio.get_running_loop().run_in_executor(None, live.pipeline.run)
        await live.pipeline.put(sent.request)
        assert (live.batches, len(list(live.store.inbox()))) == ([], 1)
        compiled.set()
        await live.pipeline.put(sent.request)
        live.pipeline.stop()
        await working

    asyncio.run(run())
    assert live.events.height > 0
    assert list(live.store.inbox()) == []


def test_few_requests_wait_for_the_compiler(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait are judged in one round; when they are large, they wait no longer."""
    sent = one_request(live, lambda: False)
    monkeypatch.setattr(pipeline, "UNJUDGED_BYTES_MAX", 0)

    async def run() -> None:
        working = asyncio.get_running_loop().run_in_executor(None, live.pipeline.run)
        await live.pipeline.put(sent.request)
        await live.pipeline.put(sent.request)
        assert live.batches
        live.pipeline.stop()
        await working

    asyncio.run(run())


def one_request(live: Live, is_compiled: Callable[[], bool]) -> Sent:
    """Restart, with loops that are not compiled yet, and return a conversation in one request."""
    live.is_compiled = is_compiled
    live.restart()
    played = PlayedSession(paced(random_session(237), START_NS, 30), Manner())
    live.now = played.spans[-1].end
    return Sent(live.now, wire(played.spans, Encoding.PROTOBUF), Encoding.PROTOBUF)
