"""The entries by which session assembly recognises repeats, and their pages.

A page has entries by the number of their occurrence. In it, None stands for a call or a use that older pages
have and that is no longer remembered.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ...paged.page import PAGE_BYTES_MAX, StatePage, unmerged
from .tool_use import ToolUse

RECENT_MAX = 32
"""Entries beyond which the recent ones become a page."""
UNREFERENCED_MIN = 256
"""Entries of pages that nothing needs, before all pages are merged."""


class SeenMessage(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last span with a message: its start and end and whether it failed; and the time of the event."""

    start: int
    end: int
    failed: bool
    time: int


class SeenCall(NamedTuple):
    """An open call: its tool and arguments, and its number among the calls of its occurrence."""

    number: int
    tool: str | None
    args: str | None


class SeenEntries(msgspec.Struct, array_like=True):
    """Entries of an occurrence, by their keys.

    `spans` are the keys of the spans with its claims, `within` the keys of the spans that these cover,
    `messages` the last span with each message, `equals` the numbers of events with equal content by its
    digest, `calls` the open calls by id, and `uses` the tool uses by number.
    """

    spans: dict[str, None] = {}
    within: dict[str, None] = {}
    messages: dict[str, SeenMessage] = {}
    equals: dict[str, int] = {}
    calls: dict[str, SeenCall | None] = {}
    uses: dict[int, ToolUse | None] = {}

    @property
    def count(self) -> int:
        """Return the number of entries."""
        return sum(map(len, self.parts))

    @property
    def parts(self) -> tuple[dict[Any, Any], ...]:
        """Return the entries of each kind."""
        return self.spans, self.within, self.messages, self.equals, self.calls, self.uses

    def update(self, newer: SeenEntries) -> None:
        """Add newer entries."""
        for part, added in zip(self.parts, newer.parts, strict=True):
            part.update(added)

    def drop_forgotten(self, older: Sequence[SeenEntries]) -> None:
        """Drop each None that stands for an entry of no older part."""
        for call_id in [call_id for call_id, call in self.calls.items() if call is None]:
            if not any(call_id in before.calls for before in older):
                del self.calls[call_id]
        for number in [number for number, use in self.uses.items() if use is None]:
            if not any(number in before.uses for before in older):
                del self.uses[number]

    def halves(self) -> tuple[SeenEntries, SeenEntries]:
        """Return the entries in two parts of about as many."""
        found, left = (SeenEntries(), SeenEntries()), self.count // 2
        for place, part in enumerate(self.parts):
            for key, value in part.items():
                found[left <= 0].parts[place][key] = value
                left -= 1
        return found


SeenContent: TypeAlias = Mapping[int, SeenEntries]
"""Entries by the number of their occurrence."""


class _StoredSeenPage(msgspec.Struct, array_like=True):
    """The stored form of a page."""

    level: int
    seen: dict[int, SeenEntries]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_StoredSeenPage)


class SeenPage(StatePage[SeenContent]):
    """A page of entries."""

    @classmethod
    def of(cls, level: int, content: SeenContent) -> SeenPage:
        """Return a page with this content."""
        page = cls(cls.encode(level, content))
        page.hold(level, content)
        return page

    @staticmethod
    def encode(level: int, content: SeenContent) -> bytes:
        """Return the bytes of a page."""
        return _ENCODER.encode(_StoredSeenPage(level, dict(content)))

    @staticmethod
    def decode(data: bytes) -> tuple[int, SeenContent]:
        """Return the level and the content in a page's bytes."""
        stored = _DECODER.decode(data)
        return stored.level, stored.seen


def paged(
    pages: Sequence[SeenPage], recent: SeenContent, numbers: Container[int], live: int
) -> tuple[SeenPage, ...]:
    """Return the pages after the recent entries have become one; `numbers` are those of open memory.

    `live` is the number of all entries that are needed. The newest page has the newest entries.
    """
    pages = needed(pages, numbers)
    count, level = unmerged(pages)
    if sum(map(_count, pages)) + _count_of(recent) > 2 * live + UNREFERENCED_MIN:
        count, level = 0, max((page.level for page in pages), default=0) + 1
    found: dict[int, SeenEntries] = {}
    for content in (*(page.content for page in pages[count:]), recent):
        for number, entries in content.items():
            if number in numbers:
                found.setdefault(number, SeenEntries()).update(entries)
    for number, entries in found.items():
        entries.drop_forgotten([page.content[number] for page in pages[:count] if number in page.content])
    return (*pages[:count], *_split(level, found))


def needed(pages: Iterable[SeenPage], numbers: Container[int]) -> tuple[SeenPage, ...]:
    """Return the pages with entries of these occurrences."""
    return tuple([page for page in pages if any(number in numbers for number in page.content)])


def _split(level: int, content: SeenContent) -> Iterator[SeenPage]:
    """Yield pages with this content; a page with several entries has at most `PAGE_BYTES_MAX` bytes."""
    page = SeenPage.of(level, content)
    if page.size <= PAGE_BYTES_MAX or _count_of(content) < 2:
        yield page
        return
    if len(content) > 1:
        items = sorted(content.items())
        middle = len(items) // 2
        parts = [dict(items[:middle]), dict(items[middle:])]
    else:
        ((number, entries),) = content.items()
        parts = [{number: half} for half in entries.halves()]
    for part in parts:
        yield from _split(level, part)


def _count(page: SeenPage) -> int:
    return _count_of(page.content)


def _count_of(content: SeenContent) -> int:
    return sum(entries.count for entries in content.values())
