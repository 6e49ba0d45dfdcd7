"""The decoded content of a request: its spans and records, and its flaws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from ..chat.find import InputFlaw
from ..dialects.parts.log_record import LogRecord
from ..span import Span

FLAWS_MAX = 1_000
"""Flaws of one request that are listed; a last one counts the others."""

Place: TypeAlias = Callable[[], str]
"""Returns the place of a flaw; most places are never made."""

CODES: dict[str, str] = {
    "otlp-protobuf": "bytes that are no OTLP in protobuf, or a part of it that is damaged",
    "otlp-shape": "JSON that is no span, no list of spans and no request",
    "otlp-signal": "a request of profiles, which hold neither spans nor log records",
    "otlp-trace-id": "a trace id that is not 16 bytes or is all zero; the span is lost",
    "otlp-span-id": "a span id that is not 8 bytes or is all zero; the span is lost",
    "otlp-parent-id": "a parent id that is not 8 bytes; the span becomes a root",
    "otlp-time": "a time that 64 bits of nanoseconds cannot hold; it is read as not set",
    "otlp-text": "text that UTF-8 cannot carry; it is left out",
    "otlp-key": "an attribute without a key (left out), or two with one key (the last counts)",
    "otlp-value": "a value that is none of its type; the key stays without it",
    "otlp-depth": "an attribute nested too deeply; the key stays without it",
    "otlp-more": "the number of further flaws, which are not listed",
    "otlp-size": "a request beyond the limit of bytes, packed or unpacked",
    "otlp-packed": "compressed data that is damaged",
    "otlp-cut": "a file that ends inside a request",
    "json": "text that is no JSON",
}
"""The meaning of the codes of flaws."""
BAD_TRACE_ID = "otlp-trace-id", "has a trace id that is not 16 bytes, or all zero"
BAD_SPAN_ID = "otlp-span-id", "has a span id that is not 8 bytes, or all zero"
BAD_PARENT_ID = "otlp-parent-id", "has a parent id that is not 8 bytes"
"""Code and text of the flaws of ids."""


class Unreadable(Exception):
    """A part that cannot be decoded: a code of `CODES` and the reason, which quotes nothing of the data."""

    def __init__(self, code: str, text: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Decoded:
    """The spans and content records of one request in its order, and its flaws.

    `rejected` counts the spans and records that could not be decoded, except those inside a part that is
    damaged as a whole. A flaw's place is `resource 1, scope 1, span 3` or the like, or `request`. `unlinked`
    counts records with content that name no span, `passed_over` log records without content, `metrics`
    resources of metrics. `latest` is the greatest time of any log record, 0 where there is none.
    """

    spans: tuple[Span, ...] = ()
    flaws: tuple[InputFlaw, ...] = ()
    rejected: int = 0
    records: tuple[LogRecord, ...] = ()
    unlinked: int = 0
    passed_over: int = 0
    metrics: int = 0
    latest: int = 0

    @property
    def items(self) -> int:
        """Return the number of decoded spans and log records, including those without content."""
        return len(self.spans) + len(self.records) + self.unlinked + self.passed_over


class Decoding(msgspec.Struct):
    """The state of a decoder: what it has found so far.

    `excused` are places that have a flaw already (`schemas/otlp/salvage.py`), `unlisted` counts flaws beyond
    `FLAWS_MAX`. `lost` counts attributes without a readable key.
    """

    spans: list[Span] = []
    records: list[LogRecord] = []
    unlinked: int = 0
    passed_over: int = 0
    metrics: int = 0
    latest: int = 0
    flaws: list[InputFlaw] = []
    unlisted: int = 0
    rejected: int = 0
    lost: int = 0
    excused: set[str] = set()

    def reject(self, place: str | Place, code: str, text: str) -> None:
        """Count a span or a record that cannot be decoded, and add its flaw."""
        self.rejected += 1
        self.flaw(place, code, text)

    def flaw(self, place: str | Place, code: str, text: str) -> None:
        """Add a flaw, or count it beyond `FLAWS_MAX`; the place is made only for an added one."""
        assert code in CODES, f"{code} is not in the table of codes"
        if len(self.flaws) >= FLAWS_MAX:
            self.unlisted += 1
            return
        at = place if isinstance(place, str) else place()
        if at not in self.excused:
            self.flaws.append(InputFlaw(at, code, text))

    def done(self) -> Decoded:
        """Return the decoded request."""
        flaws = self.flaws
        if self.unlisted:
            text = f"has {self.unlisted} more flaws, which are not listed"
            flaws = [*flaws, InputFlaw("request", "otlp-more", text)]
        return Decoded(
            tuple(self.spans),
            tuple(flaws),
            self.rejected,
            tuple(self.records),
            self.unlinked,
            self.passed_over,
            self.metrics,
            self.latest,
        )
