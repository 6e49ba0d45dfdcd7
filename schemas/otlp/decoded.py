"""What a request held: its spans, and what of it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..chat.find import InputFlaw
from ..dialects.parts.log_record import LogRecord
from ..span import Span

FLAWS_MAX = 1_000
"""Flaws of one request that are told one by one; a last one says how many more there are."""

TIME_MAX = 2**63 - 1
"""The last nanosecond that 64 bits with a sign hold, in the year 2262."""

Place: TypeAlias = Callable[[], str]
"""Says where something is; most places are never asked for."""

CODES: dict[str, str] = {
    "otlp-protobuf": "bytes that are no OTLP in protobuf, or a part of it that is damaged",
    "otlp-shape": "JSON that is no span, no list of spans and no request",
    "otlp-signal": "a request of profiles, which hold neither spans nor log records",
    "otlp-trace-id": "a trace id that is not 16 bytes or is all zero; the span is lost",
    "otlp-span-id": "a span id that is not 8 bytes or is all zero; the span is lost",
    "otlp-parent-id": "a parent id that is not 8 bytes; the span is kept as a root",
    "otlp-time": "a time that 64 bits of nanoseconds cannot hold; it is read as not said",
    "otlp-text": "text that UTF-8 cannot carry; it is left out",
    "otlp-key": "an attribute without a key (left out), or two with one key (the last is kept)",
    "otlp-value": "a value that is none of its type; it is left out and its key kept",
    "otlp-depth": "an attribute nested too deeply; it is left out and its key kept",
    "otlp-more": "how many flaws were counted and not told one by one",
    "otlp-size": "a request beyond the limit of bytes, packed or unpacked",
    "otlp-packed": "compressed data that is damaged",
    "otlp-cut": "a file that ends inside a request",
    "json": "text that is no JSON",
}
"""What the codes of flaws in span data mean."""


class Unreadable(Exception):
    """A part that cannot be read: a code of `CODES` and what is wrong, without anything of the data."""

    def __init__(self, code: str, text: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Decoded:
    """The spans and content records of one request in its order, and what of it cannot be read.

    `rejected` counts the spans and records that were there and are not among these; those inside a part that
    is damaged as a whole cannot be counted, so it is the least number. A flaw's place is
    `resource 1, scope 1, span 3` or the like, or `request`. `unlinked` counts records with content that name
    no span, `passed_over` log records without content, `metrics` resources of metrics. `latest` is the
    greatest time of any log record, 0 where there is none.
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
        """Return how many spans and log records could be read, those without content among them."""
        return len(self.spans) + len(self.records) + self.unlinked + self.passed_over


@dataclass(slots=True)
class Decoding:
    """What a decoder has found so far.

    `excused` are places that were told to be unreadable before they were decoded (`schemas/otlp/salvage.py`).
    `lost` counts attributes of which not even the key is known.
    """

    spans: list[Span] = field(default_factory=list[Span])
    records: list[LogRecord] = field(default_factory=list[LogRecord])
    unlinked: int = 0
    passed_over: int = 0
    metrics: int = 0
    latest: int = 0
    flaws: list[InputFlaw] = field(default_factory=list[InputFlaw])
    untold: int = 0
    rejected: int = 0
    lost: int = 0
    excused: set[str] = field(default_factory=set[str])

    def flaw(self, place: str | Place, code: str, text: str) -> None:
        """Tell a flaw, or count it where there were many; a place is made only where it is told."""
        assert code in CODES, f"{code} is not in the table of codes"
        if len(self.flaws) >= FLAWS_MAX:
            self.untold += 1
            return
        at = place if isinstance(place, str) else place()
        if at not in self.excused:
            self.flaws.append(InputFlaw(at, code, text))

    def done(self) -> Decoded:
        """Return all that was found."""
        flaws = self.flaws
        if self.untold:
            text = f"has {self.untold} more flaws, which are not told one by one"
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
