"""Session ids of conversations: the id in the log, unless different conversations share it and the start."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import Enum, auto

import numpy as np
import orjson
from numpy.typing import NDArray

from ...rules.model.arrays import U64
from ...schemas.chat.decode import DecodedConversation, decode, identity, origin_fields
from ...schemas.chat.find import InputFlaw, RecordedConversation
from ...schemas.chat.reading import AS_LOGGED, ChatReading
from ..sources.chat_files import read_conversations
from ..sources.discover import SourceFile

_SUFFIX_DIGITS = 16


class Fate(Enum):
    """The fate of a conversation: judged under its own id or a new one, a duplicate, or rejected."""

    OWN = auto()
    RENAMED = auto()
    DUPLICATE = auto()
    TAKEN = auto()


@dataclass(frozen=True, slots=True)
class KnownConversations:
    """The conversations that are known before a log is read, and those seen since.

    A key is a short hash of a session id and a start: a million conversations need about 100 MB. `clashing`
    are the keys that different conversations share. `archived` are the keys of conversations that an archive
    has under their own id, with their digests. `headers` selects one of several copies of a conversation
    that differ in their headers.
    """

    clashing: set[bytes] = field(default_factory=set[bytes])
    archived: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    seen: set[bytes] = field(default_factory=set[bytes])

    def add_archived(self, session_id: str, occurrence: int, digest: str, *, is_read_again: bool) -> None:
        """Add a conversation of an archive; it is a duplicate in a log unless its source `is_read_again`."""
        own_id = session_id.removesuffix(_suffix(digest))
        key = _key(own_id, occurrence)
        if session_id == own_id:
            self.archived[key] = bytes.fromhex(digest)
        else:
            self.clashing.add(key)
        if not is_read_again:
            self.seen.add(_with_digest(key, digest))

    def add(self, decoded: DecodedConversation, conversation: RecordedConversation) -> Fate:
        """Add a conversation of a log and return its fate.

        The order of calls only decides which of two equal conversations is the duplicate.
        """
        key = _key(decoded.session_id, decoded.events[0].occurrence)
        copy = _with_digest(key, decoded.digest)
        header = _header(conversation)
        if self.headers.get(copy, header) != header or copy in self.seen:
            return Fate.DUPLICATE
        archived = self.archived.get(key)
        if archived is not None and archived != bytes.fromhex(decoded.digest):
            return Fate.TAKEN
        self.seen.add(copy)
        return Fate.RENAMED if archived is None and key in self.clashing else Fate.OWN


def renamed(decoded: DecodedConversation) -> str:
    """Return the new id of a conversation that shares its id: the id, `~` and digits of its digest."""
    return decoded.session_id + _suffix(decoded.digest)


def shared_ids(
    parts: Sequence[SourceFile], zone: tzinfo, reading: ChatReading = AS_LOGGED
) -> KnownConversations:
    """Read the chat logs for ids only, and return those that different conversations of one start share.

    Without this pass, the id of a conversation would depend on the order of the files. Only files with a
    shared id are decoded.
    """
    ids, copies, files = array("Q"), array("Q"), array("Q")
    for number, part in enumerate(parts):
        for conversation, session_id, digest in _identified(part, reading):
            ids.append(_short(session_id))
            copies.append(_short(f"{digest}/{_header(conversation).decode()}/{session_id}"))
            files.append(number)
    shared, places = _shared(np.array(ids, dtype=np.uint64), np.array(copies, dtype=np.uint64))
    known = KnownConversations()
    digests: dict[bytes, str] = {}
    for number in np.unique(np.array(files, dtype=np.uint64)[places]):
        for conversation, session_id, _ in _identified(parts[int(number)], reading):
            if _short(session_id) not in shared:
                continue
            decoded = decode(conversation, zone)
            if decoded.events:
                key = _key(session_id, decoded.events[0].occurrence)
                copy = _with_digest(key, decoded.digest)
                known.headers[copy] = min(_header(conversation), known.headers.get(copy, b"~"))
                if digests.setdefault(key, decoded.digest) != decoded.digest:
                    known.clashing.add(key)
    return known


def _shared(ids: U64, copies: U64) -> tuple[set[int], NDArray[np.bool_]]:
    """Return the ids of several different copies, and their places."""
    pairs = np.unique(np.stack([ids, copies]), axis=1)
    distinct, count = np.unique(pairs[0], return_counts=True)
    shared = distinct[count > 1]
    return set(shared.tolist()), np.isin(ids, shared)


def _identified(part: SourceFile, reading: ChatReading) -> Iterator[tuple[RecordedConversation, str, str]]:
    for found in read_conversations(part.path, reading):
        if not isinstance(found, InputFlaw) and (identified := identity(found)) is not None:
            yield found, *identified


def _suffix(digest: str) -> str:
    return f"~{digest[:_SUFFIX_DIGITS]}"


def _header(conversation: RecordedConversation) -> bytes:
    """Return the agent, model and service in a conversation's header, as text with an order."""
    return orjson.dumps(origin_fields(conversation.header))


def _key(session_id: str, occurrence: int) -> bytes:
    return hashlib.blake2b(f"{occurrence}/{session_id}".encode(), digest_size=16).digest()


def _with_digest(key: bytes, digest: str) -> bytes:
    return hashlib.blake2b(key + bytes.fromhex(digest), digest_size=16).digest()


def _short(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
