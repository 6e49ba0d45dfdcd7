"""The instrumentations that sent spans, what each lacks for an audit, and the setting that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ..dialects.session_key import SESSION_KEYS
from ..event import Content, Kind
from ..otlp.single import attribute_names
from ..span import Span
from ..span_content import SpanContent, SpanRole
from .advice import Advice, advice_for
from .census import scope_name

SCOPES_MAX = 200
"""Instrumentations, by scope and version, with counts of their own; further ones count as `OTHERS`."""
OTHERS = "(others)", ""

_OF_TOOLS = (Kind.TOOL_CALL, Kind.TOOL_RESULT)
_HIDDEN = (Content.ABSENT, Content.REDACTED)
_OF_AGENTS = (
    *("gen_ai.", "openinference.", "traceloop.", "llm.", "ai.", "input.value", "output.value"),
    *("langfuse.", "langsmith.", "mlflow."),
)
"""Prefixes of the attributes of spans about models, tools and agents."""


class Lack(StrEnum):
    """The deficiency of an instrumentation; `docs/spans.md` explains these stable words."""

    UNREAD = "unread"
    """Spans that look like those of models, tools or agents, but are not read."""
    CONTENT = "content"
    """Events without text, arguments or result."""
    LOG_RECORDS = "log-records"
    """Content is missing that this instrumentation writes to log records, and none came."""
    SESSION = "session"
    """Events of spans without a session: it is the trace."""
    CALL_IDS = "call-ids"
    """Calls and results without the id of their call."""
    LIMITS = "limits"
    """Spans with dropped attributes or events, and events with truncated text."""


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One instrumentation, by scope and version: how many spans it sent, and how many events come from them.

    `setting` has a line for each lack, in their order: how much it affects, and the setting that mends it. It
    is empty where nothing is lacking.
    """

    scope: str
    version: str
    spans: int
    events: int
    lacks: tuple[Lack, ...]
    setting: str


@dataclass(slots=True)
class _Counts:
    """The counts of one instrumentation.

    Of `spans`, `read` are those of models, tools and agents, `unread` those that only look like them, and
    `dropping` those that lost attributes or events. Of `events`, `hidden` have no content and `truncated` a
    part of it, `sessionless` have the trace's id for a session, `nameless` are calls and results without id.
    """

    spans: int = 0
    read: int = 0
    unread: int = 0
    dropping: int = 0
    events: int = 0
    hidden: int = 0
    truncated: int = 0
    sessionless: int = 0
    nameless: int = 0


@dataclass(slots=True)
class Instrumentations:
    """The instrumentations of some telemetry, counted as their spans and events come.

    `log_records` is whether log records with content came, of whichever instrumentation.
    """

    log_records: bool = False
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    _counts: list[_Counts] = field(default_factory=list[_Counts])

    def add(self, span: Span, content: SpanContent) -> int:
        """Count a span with its content, and return the number of its instrumentation."""
        number = self._number(scope_name(span.scope), scope_name(span.scope_version))
        counts = self._counts[number]
        counts.spans += 1
        counts.dropping += bool(span.dropped_attributes or span.dropped_events)
        if content.role is not SpanRole.OTHER:
            counts.read += 1
        elif not counts.read and any(map(_is_of_agents, span.attributes)):
            counts.unread += 1
        return number

    def add_plain(self, scope: str, version: str, read: int, others: Sequence[bytes]) -> int:
        """Count spans of plain requests, and return the number of their instrumentation.

        `read` is how many are of models, tools and agents; `others` are the other spans in protobuf. A plain
        request has no span with dropped attributes or events.
        """
        number = self._number(scope_name(scope), scope_name(version))
        counts = self._counts[number]
        counts.spans += read + len(others)
        counts.read += read
        if not counts.read:
            counts.unread += sum(any(map(_is_of_agents, attribute_names(span))) for span in others)
        return number

    def add_event(
        self, number: int, kind: Kind, content: Content, session_id: str, trace_id: str, call_id: str | None
    ) -> None:
        """Count an event that comes from a span of the instrumentation with that number.

        Where no span names the session, its id is that of the trace, after the resource attributes of the
        scope.
        """
        if kind is Kind.END:
            return
        counts = self._counts[number]
        counts.events += 1
        counts.hidden += content in _HIDDEN
        counts.truncated += content is Content.TRUNCATED
        counts.sessionless += session_id.rpartition("/")[2] == trace_id
        counts.nameless += kind in _OF_TOOLS and call_id is None

    def diagnosed(self) -> list[Diagnosed]:
        """Return every instrumentation with what it lacks, by scope and version."""
        return [self._diagnosed(*key) for key in sorted(self._numbers)]

    def _number(self, scope: str, version: str) -> int:
        key = scope, version
        if key not in self._numbers and len(self._numbers) >= SCOPES_MAX:
            key = OTHERS
        number = self._numbers.setdefault(key, len(self._counts))
        if number == len(self._counts):
            self._counts.append(_Counts())
        return number

    def _diagnosed(self, scope: str, version: str) -> Diagnosed:
        counts, advice = self._counts[self._numbers[scope, version]], advice_for(scope)
        found = dict(_lacks(counts, advice, log_records=self.log_records))
        setting = "\n".join(f"{lack} ({of}): {_setting(lack, advice)}" for lack, of in found.items())
        return Diagnosed(scope, version, counts.spans, counts.events, tuple(found), setting)


def as_json(diagnosed: Diagnosed) -> dict[str, Any]:
    """Return an instrumentation as the member of a JSON array."""
    return asdict(diagnosed) | {"lacks": [lack.value for lack in diagnosed.lacks]}


def _lacks(counts: _Counts, advice: Advice | None, *, log_records: bool) -> Iterator[tuple[Lack, str]]:
    """Yield what an instrumentation lacks, each with how much of its telemetry that affects."""
    events = f"of {counts.events:,} events"
    if counts.unread and not counts.read:
        yield Lack.UNREAD, f"{counts.unread:,} of {counts.spans:,} spans"
    if counts.hidden:
        yield Lack.CONTENT, f"{counts.hidden:,} {events}"
        if advice is not None and advice.logs and not log_records:
            yield Lack.LOG_RECORDS, f"{counts.hidden:,} {events}"
    if counts.sessionless:
        yield Lack.SESSION, f"{counts.sessionless:,} {events}"
    if counts.nameless:
        yield Lack.CALL_IDS, f"{counts.nameless:,} {events}"
    if counts.dropping or counts.truncated:
        yield Lack.LIMITS, f"{counts.dropping:,} of {counts.spans:,} spans, {counts.truncated:,} {events}"


def _is_of_agents(name: str) -> bool:
    """Return whether an attribute is about models, tools or agents; a session id alone is not."""
    return name.startswith(_OF_AGENTS) and name not in SESSION_KEYS


def _setting(lack: Lack, advice: Advice | None) -> str:
    """Return the setting that mends a lack, from the instrumentation's advice where there is any."""
    if advice is not None and lack is Lack.CONTENT:
        return advice.content
    if advice is not None and lack is Lack.SESSION:
        return advice.session
    return _SETTINGS[lack]


_SETTINGS = {
    Lack.UNREAD: "these spans follow no conventions that are read; docs/spans.md lists those that are",
    Lack.CONTENT: "not known for this scope; switch on the recording of messages, arguments and results",
    Lack.LOG_RECORDS: "export log records beside the spans, as with OTEL_LOGS_EXPORTER=otlp",
    Lack.SESSION: "`gen_ai.conversation.id` on a span around each turn",
    Lack.CALL_IDS: "`gen_ai.tool.call.id` on spans of tools of your own; a newer instrumentation may send it",
    Lack.LIMITS: "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and OTEL_SPAN_EVENT_COUNT_LIMIT, "
    "and leave OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT unset",
}
