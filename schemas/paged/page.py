"""Pages: parts of a session's state that never change.

A state that grows with its session is written as a log: what changed lately is in the session's record, and
once it is much it becomes a page. Pages of one level are merged into a page of the next one, so that each
entry is written a few times only, however many there are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

PageContent = TypeVar("PageContent")

LEVEL_PAGES = 4
"""Pages of one level that are merged to a page of the next one."""
PAGE_BYTES_MAX = 128 << 10
"""Bytes of pages beyond which they are not merged."""


class PagePlace(NamedTuple):
    """The place of a page that is stored by itself.

    These are the offset of the message that led to it, its number among the pages of that message, and the
    CRC-32 of its bytes.
    """

    offset: int
    number: int
    crc: int


class StatePage(Generic[PageContent]):
    """A part of a state that never changes; each kind of content has a class with its codec.

    `size` is that of its bytes, and `place` where they are stored by themselves, None for a page that is a
    part of its session's record. A stored page has its content in memory alone.
    """

    def __init__(self, data: bytes, place: PagePlace | None = None) -> None:
        self._data: bytes | None = data
        self._decoded: tuple[int, PageContent] | None = None
        self.size, self.place = len(data), place

    def __eq__(self, other: object) -> bool:
        """Return whether two pages have the same content."""
        return isinstance(other, type(self)) and (self.level, self.content) == (other.level, other.content)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @staticmethod
    @abstractmethod
    def encode(level: int, content: PageContent) -> bytes:
        """Return the bytes of a page."""

    @staticmethod
    @abstractmethod
    def decode(data: bytes) -> tuple[int, PageContent]:
        """Return the level and the content in a page's bytes. Raises MsgspecError or IndexError."""

    @property
    def data(self) -> bytes:
        """Return the page as bytes."""
        return self.encode(*self.decoded) if self._data is None else self._data

    def store(self, place: PagePlace) -> None:
        """Note that the page is stored at that place."""
        assert self.place is None
        _ = self.decoded
        self.place, self._data = place, None

    @property
    def decoded(self) -> tuple[int, PageContent]:
        """Return the level and the content of the page."""
        if self._decoded is None:
            assert self._data is not None
            self._decoded = self.decode(self._data)
            if self.place is not None:
                self._data = None
        return self._decoded

    def hold(self, level: int, content: PageContent) -> None:
        """Hold the content that the page's bytes were made of."""
        self._decoded = level, content

    @property
    def level(self) -> int:
        """Return how many merges led to the page."""
        return self.decoded[0]

    @property
    def content(self) -> PageContent:
        """Return the content of the page."""
        return self.decoded[1]


def stored_page(page: Any) -> bytes:
    """Return the stored form of a page, for an encoder's `enc_hook`."""
    assert isinstance(page, StatePage)
    return page.data


def page_of(kind: type, stored: Any, place: PagePlace | None = None) -> StatePage[Any]:
    """Return the page of that form, for a decoder's `dec_hook`."""
    assert issubclass(kind, StatePage)
    return cast("type[StatePage[Any]]", kind)(stored, place)


def unmerged(pages: Sequence[StatePage[PageContent]]) -> tuple[int, int]:
    """Return how many of the pages stay as they are when a new one comes, and the level of the new one.

    The others are merged into it.
    """
    count, level = len(pages), 0
    while _is_full(pages[:count], level):
        count, level = count - (LEVEL_PAGES - 1), level + 1
    return count, level


def _is_full(pages: Sequence[StatePage[PageContent]], level: int) -> bool:
    """Return whether the last pages are so many of that level that they are merged with another one."""
    last = pages[-(LEVEL_PAGES - 1) :]
    if len(last) < LEVEL_PAGES - 1 or any(page.level != level for page in last):
        return False
    return sum(page.size for page in last) <= PAGE_BYTES_MAX
