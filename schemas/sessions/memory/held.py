"""The candidates of a session that wait for the watermark, and their pages.

A page has candidates that came one after another. It is needed until none of them waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from ...candidate import Candidate
from ...paged.grouping import grouped
from ...paged.page import PAGE_BYTES_MAX, StatePage

RECENT_CHARS_MAX = 4 << 10
"""Characters of the waiting candidates of no page beyond which these become one."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, Candidate])


class HeldPage(StatePage[Mapping[str, Candidate]]):
    """A page of candidates by the key of their span; the level of all such pages is 0."""

    @classmethod
    def of(cls, content: Mapping[str, Candidate]) -> HeldPage:
        """Return a page with these candidates."""
        page = cls(cls.encode(0, content))
        page.hold(0, content)
        return page

    @staticmethod
    def encode(level: int, content: Mapping[str, Candidate]) -> bytes:
        """Return the bytes of a page."""
        assert level == 0
        return _ENCODER.encode(content)

    @staticmethod
    def decode(data: bytes) -> tuple[int, Mapping[str, Candidate]]:
        """Return the level and the candidates in a page's bytes."""
        return 0, _DECODER.decode(data)


class StoredHeldPage(msgspec.Struct, array_like=True):
    """A page of candidates, and the places of those in it that still wait."""

    page: HeldPage
    waiting: list[int]


class StoredHeld(msgspec.Struct, array_like=True):
    """The stored form of waiting candidates: those of no page, and the pages."""

    recent: dict[str, Candidate] = {}
    pages: list[StoredHeldPage] = []


class HeldCandidates:
    """The candidates that wait, by the key of their span, in the order in which they came.

    `chars` is the number of characters in all of them.
    """

    def __init__(self, candidates: Mapping[str, Candidate] | None = None) -> None:
        self.candidates: dict[str, Candidate] = {}
        self.pages: tuple[HeldPage, ...] = ()
        self.chars = 0
        self._chars: dict[str, int] = {}
        self._recent: dict[str, None] = {}
        for key, candidate in (candidates or {}).items():
            self.put(key, candidate)

    @classmethod
    def restored(cls, stored: StoredHeld) -> HeldCandidates:
        """Return the candidates of a stored form. Raises IndexError where it is damaged."""
        held = cls()
        for each in stored.pages:
            waiting = list(each.page.content.items())
            for place in each.waiting:
                held.put(*waiting[place])
        held.pages, held._recent = tuple([each.page for each in stored.pages]), {}
        for key, candidate in stored.recent.items():
            held.put(key, candidate)
        return held

    def stored(self) -> StoredHeld:
        """Return the stored form."""
        recent = {key: self.candidates[key] for key in self._recent}
        return StoredHeld(recent, [StoredHeldPage(page, self._waiting(page)) for page in self.pages])

    def __eq__(self, other: object) -> bool:
        """Return whether the same candidates wait."""
        return isinstance(other, HeldCandidates) and self.candidates == other.candidates

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.candidates)

    def values(self) -> Iterable[Candidate]:
        """Return the candidates."""
        return self.candidates.values()

    def put(self, key: str, candidate: Candidate, chars: int | None = None) -> None:
        """Add a candidate in the place of one with that key; `chars` are its characters if known."""
        chars = candidate.chars if chars is None else chars
        self.chars += chars - self._chars.get(key, 0)
        self.candidates[key], self._chars[key], self._recent[key] = candidate, chars, None

    def remove(self, key: str) -> None:
        """Remove a candidate."""
        del self.candidates[key]
        self.chars -= self._chars.pop(key)
        self._recent.pop(key, None)

    def remove_all(self, keys: Collection[str]) -> None:
        """Remove these candidates."""
        if len(keys) < len(self.candidates):
            for key in keys:
                self.remove(key)
            return
        self.candidates, self._chars, self._recent, self.chars = {}, {}, {}, 0

    def join_histories(self) -> None:
        """Put the histories of all candidates among their claims."""
        for key, candidate in self.candidates.items():
            if candidate.history is not None:
                self.put(key, candidate.joined())

    def page(self) -> None:
        """Drop the pages that are no longer needed, and put recent candidates into pages where they are long.

        A page with several candidates has at most `PAGE_BYTES_MAX` characters.
        """
        pages = [page for page in self.pages if self._is_needed(page)]
        chars = {key: self._chars[key] for key in self._recent}
        if sum(chars.values()) > RECENT_CHARS_MAX:
            groups = grouped(chars.items(), PAGE_BYTES_MAX)
            pages += [HeldPage.of({key: self.candidates[key] for key in keys}) for keys in groups]
            self._recent = {}
        self.pages = tuple(pages)

    def _is_needed(self, page: HeldPage) -> bool:
        """Return whether a candidate in a page waits, and no newer one replaces it."""
        waiting = self.candidates
        return any(waiting.get(key) is candidate for key, candidate in page.content.items())

    def _waiting(self, page: HeldPage) -> list[int]:
        """Return the places of the candidates in a page that wait, and that no newer one replaces."""
        waiting = self.candidates
        return [
            place
            for place, (key, candidate) in enumerate(page.content.items())
            if waiting.get(key) is candidate
        ]
