"""The simulated support desk as a program that sends spans: plain `opentelemetry-sdk`, instrumented by hand.

    python -m tracline.examples.instrumented_bot --sessions 20 --endpoint http://127.0.0.1:4318

Each conversation is a separate task, a few at a time; each turn is a trace, with the spans and attributes of
OpenTelemetry's conventions for generative AI. Standard output has one JSON line for each rule that a session
breaks: an audit of the spans must find these.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import click

from ..schemas.span_content import Role
from .desk.bot import Break, Desk, DeskConversation, conversations
from .desk.script import Script, ScriptCall, ScriptLine, support_session, turn_bounds

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import Span, Tracer

QUEUE_SPANS_MAX = 1_000_000
"""Maximum queued spans; the SDK silently drops further ones."""
DELAY_MS = 200
"""Delay before the SDK sends a batch."""
CONNECT_S = 3.0


@dataclass(slots=True)
class Receipts:
    """An exporter that forwards spans to another one and counts accepted and rejected spans."""

    inner: SpanExporter
    sent: int = 0
    lost: int = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans."""
        result = self.inner.export(spans)
        if result.name == "SUCCESS":
            self.sent += len(spans)
        else:
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Shut the inner exporter down."""
        self.inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the inner exporter."""
        return self.inner.force_flush(timeout_millis)


@dataclass(frozen=True, slots=True)
class Bot:
    """An agent that plays one conversation; a second of it lasts `second_s`."""

    tracer: Tracer
    session: Script
    second_s: float

    async def run(self) -> None:
        """Play the whole conversation, turn by turn."""
        lines = self.session.lines
        bounds = list(turn_bounds(lines))
        for start, end in bounds:
            await self.turn(lines, start, end, is_last=(start, end) == bounds[-1])

    async def turn(self, lines: Sequence[ScriptLine], start: int, end: int, *, is_last: bool) -> None:
        """Answer the customer: call the model, and run the tools that it calls, until it is done."""
        asked = [line.time for line in lines[start:end] if line.role is Role.USER]
        await self.wait(lines[start - 1].time if start else 0, max(asked, default=0))
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self.session.agent,
            "gen_ai.conversation.id": self.session.session_id,
        }
        with self.tracer.start_as_current_span(
            f"invoke_agent {self.session.agent}", attributes=attributes
        ) as span:
            for place in range(start, end):
                await self.play(lines, place, self.session.model)
            if lines[end - 1].role is Role.USER:
                self.fail(lines[:end])
            if is_last:
                span.set_attribute("tracline.session.end", True)

    async def play(self, lines: Sequence[ScriptLine], place: int, model: str) -> None:
        """Play a message of the model or a tool; the next model call has the customer's as input."""
        line = lines[place]
        before = lines[place - 1].time if place else 0
        if line.role is Role.ASSISTANT:
            await self.chat(lines[:place], line, model, before)
        elif line.answers is not None and not line.again:
            await self.execute(line.answers, line, before)

    async def chat(
        self, history: Sequence[ScriptLine], output_line: ScriptLine, model: str, before: int
    ) -> None:
        """Call the model with the whole conversation as input."""
        with self.tracer.start_as_current_span(f"chat {model}", attributes=_chat(history, model)) as span:
            await self.wait(before, output_line.time)
            reason = "tool_call" if output_line.calls else "stop"
            output = [{**_message(output_line), "finish_reason": reason}]
            span.set_attribute("gen_ai.output.messages", json.dumps(output))
            span.set_attribute("gen_ai.response.finish_reasons", [reason])

    async def execute(self, call: ScriptCall, answer: ScriptLine, before: int) -> None:
        """Run a tool; a sub-agent that does its work is an agent inside the tool's span."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.call_id or "",
            "gen_ai.tool.call.arguments": call.args,
        }
        with self.tracer.start_as_current_span(f"execute_tool {call.tool}", attributes=attributes) as span:
            if answer.inner:
                await self.consult(answer.inner)
            await self.wait(before, answer.time)
            span.set_attribute("gen_ai.tool.call.result", answer.text or "")
            if answer.error is not None:
                _fail(span, answer.error)

    async def consult(self, lines: Sequence[ScriptLine]) -> None:
        """Have a sub-agent answer a question."""
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "policy-desk"}
        with self.tracer.start_as_current_span("invoke_agent policy-desk", attributes=attributes):
            for place in range(len(lines)):
                await self.play(lines, place, "birch-2")

    def fail(self, history: Sequence[ScriptLine]) -> None:
        """Call the model, which fails: the customer gets no answer."""
        model = self.session.model
        with self.tracer.start_as_current_span(f"chat {model}", attributes=_chat(history, model)) as span:
            _fail(span, "timeout")

    async def wait(self, before: int, after: int) -> None:
        """Wait for the time between two messages, at the pace of the bot."""
        seconds = (after - before) / 1e9 if before and after else 0.0
        await asyncio.sleep(max(seconds, 0.0) * self.second_s)


def _chat(history: Sequence[ScriptLine], model: str) -> dict[str, str]:
    """Return the attributes of a model call before its output."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "lumen",
        "gen_ai.request.model": model,
        "gen_ai.input.messages": json.dumps(list(map(_message, history))),
    }


def _message(line: ScriptLine) -> dict[str, object]:
    """Return a message in the format of the GenAI conventions (`gen_ai.input.messages`)."""
    if line.answers is not None:
        response = {"type": "tool_call_response", "id": line.answers.call_id, "response": line.text}
        return {"role": "tool", "parts": [response]}
    parts: list[object] = [] if line.text is None else [{"type": "text", "content": line.text}]
    parts += [
        {"type": "tool_call", "id": call.call_id, "name": call.tool, "arguments": json.loads(call.args)}
        for call in line.calls
    ]
    return {"role": line.role.value, "parts": parts}


def _fail(span: Span, error: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", error)
    span.set_status(StatusCode.ERROR)


async def converse(
    chats: Sequence[DeskConversation], provider: TracerProvider, second_s: float, at_once: int, prefix: str
) -> None:
    """Play all conversations, `at_once` of them concurrently."""
    limit = asyncio.Semaphore(at_once)
    tracer = provider.get_tracer("tracline.examples.instrumented_bot")

    async def play(conversation: DeskConversation) -> None:
        async with limit:
            await Bot(tracer, named(conversation, prefix), second_s).run()

    await asyncio.gather(*map(play, chats))


def named(conversation: DeskConversation, prefix: str) -> Script:
    """Return the conversation under an id of this run, so that two runs share no session."""
    session = support_session(conversation)
    number = session.session_id.rpartition("-")[2]
    return Script(f"{prefix}-{number}", session.agent, session.model, session.service, session.lines)


def check_endpoint(endpoint: str) -> None:
    """Check that a receiver listens at the endpoint. Raises click's usage error if none does."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(
            f"--endpoint must be an http address such as http://127.0.0.1:4318, not {endpoint}"
        )
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or "no answer"
        raise click.UsageError(
            f"no receiver at {endpoint} ({reason}); start `tracline serve`, or choose another --endpoint"
        ) from None


@contextmanager
def sending(exporter: SpanExporter) -> Generator[tuple[TracerProvider, Receipts]]:
    """Yield a provider whose spans the exporter sends; at the end all spans were sent or rejected."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    receipts = Receipts(exporter)
    processor = BatchSpanProcessor(cast("SpanExporter", receipts), QUEUE_SPANS_MAX, DELAY_MS)
    provider = TracerProvider(resource=Resource.create({"service.name": "support-desk"}))
    provider.add_span_processor(processor)
    yield provider, receipts
    provider.force_flush()
    provider.shutdown()


def send(
    chats: Sequence[DeskConversation], endpoint: str, second_s: float, at_once: int, prefix: str
) -> Receipts:
    """Play the conversations and send their spans; return when all spans were sent or rejected."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    with sending(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")) as (provider, receipts):
        asyncio.run(converse(chats, provider, second_s, at_once, prefix))
    return receipts


@click.command()
@click.option(
    "--sessions",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="The number of conversations.",
)
@click.option(
    "--endpoint",
    default="http://127.0.0.1:4318",
    show_default=True,
    metavar="URL",
    help="The address of an OTLP/HTTP receiver.",
)
@click.option("--seed", type=int, metavar="N", help="The seed of the conversations.  [default: the time]")
@click.option(
    "--break",
    "rate",
    type=click.FloatRange(0, 1),
    default=0.3,
    show_default=True,
    metavar="RATE",
    help="The share of conversations in which the agent tries to break a rule.",
)
@click.option(
    "--pace",
    "second_s",
    type=click.FloatRange(min=0),
    default=0.002,
    show_default=True,
    metavar="SECONDS",
    help="The duration of one second of a conversation.",
)
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="The number of concurrent conversations.",
)
def main(sessions: int, endpoint: str, seed: int | None, rate: float, second_s: float, at_once: int) -> None:
    """Play simulated support conversations and send their spans to an OTLP/HTTP receiver."""
    check_endpoint(endpoint)
    seed = int(time.time()) if seed is None else seed
    desk = Desk(sessions=sessions, seed=seed, rates=dict.fromkeys(Break, rate / len(Break)), spike=None)
    chats, prefix = list(conversations(desk)), f"bot-{seed}"
    receipts = send(chats, endpoint, second_s, at_once, prefix)
    for conversation in chats:
        session_id = named(conversation, prefix).session_id
        for pack, rule in sorted(kind.value for kind in conversation.breaks):
            click.echo(json.dumps({"session_id": session_id, "pack": pack, "rule": rule}))
    click.echo(f"{sessions} sessions, {receipts.sent} spans sent to {endpoint}", err=True)
    if receipts.lost:
        raise click.ClickException(f"the receiver rejected {receipts.lost} spans; see its log")


if __name__ == "__main__":
    main()
