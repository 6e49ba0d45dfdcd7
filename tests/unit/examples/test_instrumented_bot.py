"""The simulated support desk as a program: its SDK's spans over HTTP, and its errors if that fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import Thread

import pytest
from click.testing import CliRunner
from tracline.examples.desk.bot import Break, Desk, conversations
from tracline.examples.instrumented_bot import main, named
from tracline.schemas.otlp.decode import decode_protobuf
from tracline.schemas.span import Span

from ...support.agent_spans import spans
from ...support.span_plan import Manner

pytestmark = pytest.mark.slow

RATE = 0.5
DESK = Desk(sessions=12, seed=5, rates=dict.fromkeys(Break, RATE / len(Break)), spike=None)
ARGS = ["--sessions", "12", "--seed", "5", "--break", str(RATE), "--pace", "0"]
COMPARED = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments")
COMPARED = (
    *COMPARED,
    "gen_ai.tool.call.result",
    "gen_ai.tool.call.id",
    "gen_ai.conversation.id",
    "error.type",
)


@dataclass(slots=True)
class Receiver:
    """An OTLP/HTTP receiver: its port, what it answers, and the spans it was sent."""

    status: int = 200
    port: int = 0
    paths: set[str] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)


@contextmanager
def receiving(status: int = 200) -> Iterator[Receiver]:
    """A receiver that answers every request with that status."""
    receiver = Receiver(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.paths.add(self.path)
            receiver.spans += decode_protobuf(body).spans
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_port
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


def fields_of(span: Span) -> tuple[object, ...]:
    """Return a span's content, without times and ids."""
    return (span.name, span.failed, *(span.attributes.get(name) for name in COMPARED))


def test_its_spans_carry_the_desks_conversations() -> None:
    """The SDK's spans have the content of the same conversations as spans made without any SDK."""
    with receiving() as receiver:
        done = CliRunner().invoke(main, [*ARGS, "--endpoint", f"http://127.0.0.1:{receiver.port}"])
    assert done.exit_code == 0, done.output
    assert receiver.paths == {"/v1/traces"}
    expected = [s for talk in conversations(DESK) for s in spans(named(talk, "bot-5"), Manner())]
    # An agent's span does not fail by hand where the model did.
    whole = [fields_of(span) for span in expected if not span.name.startswith("invoke_agent")]
    assert Counter(fields_of(s) for s in receiver.spans if not s.name.startswith("invoke_agent")) == Counter(
        whole
    )
    roots = Counter(s.attributes["gen_ai.conversation.id"] for s in receiver.spans if s.parent_id is None)
    assert roots == Counter(s.attributes["gen_ai.conversation.id"] for s in expected if s.parent_id is None)
    ends = [s for s in receiver.spans if s.attributes.get("tracline.session.end") is True]
    assert {s.attributes["gen_ai.conversation.id"] for s in ends} == set(roots)
    assert len(ends) == len(roots)
    assert f"{len(receiver.spans)} spans sent" in done.stderr


def test_it_reports_what_it_broke() -> None:
    """Standard output has a JSON line for each rule that a session breaks, and no other."""
    with receiving() as receiver:
        done = CliRunner().invoke(main, [*ARGS, "--endpoint", f"http://127.0.0.1:{receiver.port}"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    broken = {
        (named(talk, "bot-5").session_id, *kind.value) for talk in conversations(DESK) for kind in talk.breaks
    }
    assert len(broken) > 3
    assert {(line["session_id"], line["pack"], line["rule"]) for line in lines} == broken


def test_a_few_conversations_go_on_at_a_time() -> None:
    """Traces of different sessions come interleaved."""
    with receiving() as receiver:
        CliRunner().invoke(main, [*ARGS, "--endpoint", f"http://127.0.0.1:{receiver.port}"])
    roots = [s for s in receiver.spans if s.parent_id is None]
    order = [s.attributes["gen_ai.conversation.id"] for s in sorted(roots, key=lambda s: s.start)]
    changes = sum(a != b for a, b in pairwise(order))
    assert changes > len(set(order))


def test_nobody_at_the_endpoint_is_an_error() -> None:
    """With no listener it reports that and the remedy before it has any conversation."""
    with receiving() as receiver:
        port = receiver.port
    done = CliRunner().invoke(main, [*ARGS, "--endpoint", f"http://127.0.0.1:{port}"])
    assert done.exit_code == 2
    assert f"no receiver at http://127.0.0.1:{port}" in done.output
    assert CliRunner().invoke(main, [*ARGS, "--endpoint", "127.0.0.1:4318"]).exit_code == 2


def test_spans_that_are_not_accepted_are_an_error() -> None:
    """A receiver that refuses what it is sent makes it fail, with how many spans are lost."""
    with receiving(status=400) as receiver:
        done = CliRunner().invoke(main, [*ARGS, "--endpoint", f"http://127.0.0.1:{receiver.port}"])
    assert done.exit_code == 1
    assert f"the receiver rejected {len(receiver.spans)} spans" in done.output
