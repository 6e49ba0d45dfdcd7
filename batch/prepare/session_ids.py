"""What conversations are called: the log's own id, unless different conversations at one time have it."""

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

from ...schemas.chat.decode import DecodedConversation, decode, identity, origin_fields
from ...schemas.chat.find import InputFlaw, RecordedConversation
from ..sources.chat_files import read_conversations
from ..sources.discover import SourceFile

U64 = NDArray[np.uint64]

_SUFFIX_DIGITS = 16


class Fate(Enum):
    """What becomes of a conversation: told under its own id or under `renamed`, or not told."""

    OWN = auto()
    RENAMED = auto()
    DUPLICATE = auto()
    TAKEN = auto()


@dataclass(frozen=True, slots=True)
class KnownConversations:
    """What is known of conversations before they are read, and which were told since.

    A key is a short hash of a session id and a start: a million conversations stay near 100 MB. `clashing`
    are the keys that different conversations share, `kept` those of conversations that have their own id
    in an archive, with their digests. `tellers` says, of conversations that headers tell differently, which
    one counts.
    """

    clashing: set[bytes] = field(default_factory=set[bytes])
    kept: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    tellers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    told: set[bytes] = field(default_factory=set[bytes])

    def archived(self, session_id: str, occurrence: int, digest: str, *, told: bool) -> None:
        """A conversation that an archive has. `told` is false where its source is to be read once more."""
        key = _key(_own(session_id, digest), occurrence)
        if session_id == _own(session_id, digest):
            self.kept[key] = bytes.fromhex(digest)
        else:
            self.clashing.add(key)
        if told:
            self.told.add(_telling(key, digest))

    def meet(self, decoded: DecodedConversation, conversation: RecordedConversation) -> Fate:
        """What becomes of a conversation, which is met now. The order of meeting decides nothing but which
        of two equal ones is the duplicate.
        """
        key = _key(decoded.session_id, decoded.events[0].occurrence)
        telling = _telling(key, decoded.digest)
        if self.tellers.get(telling, who := _who(conversation)) != who or telling in self.told:
            return Fate.DUPLICATE
        kept = self.kept.get(key)
        if kept is not None and kept != bytes.fromhex(decoded.digest):
            return Fate.TAKEN
        self.told.add(telling)
        return Fate.RENAMED if kept is None and key in self.clashing else Fate.OWN


def renamed(decoded: DecodedConversation) -> str:
    """The id of a conversation whose own is shared: `~` and digits of its digest are put behind that."""
    return f"{decoded.session_id}~{decoded.digest[:_SUFFIX_DIGITS]}"


def shared_ids(parts: Sequence[SourceFile], zone: tzinfo) -> KnownConversations:
    """Read the chat logs once for ids alone: which are shared by different conversations of one start.

    So an id means the same whatever the order of the files. Files of which an id is shared are decoded.
    """
    ids, whole, files = array("Q"), array("Q"), array("Q")
    for number, part in enumerate(parts):
        for conversation, session_id, digest in _named(part):
            ids.append(_short(session_id))
            whole.append(_short(f"{digest}/{_who(conversation).decode()}/{session_id}"))
            files.append(number)
    shared, places = _shared(np.array(ids, dtype=np.uint64), np.array(whole, dtype=np.uint64))
    met = KnownConversations()
    digests: dict[bytes, str] = {}
    for number in np.unique(np.array(files, dtype=np.uint64)[places]):
        for conversation, session_id, _ in _named(parts[int(number)]):
            if _short(session_id) not in shared:
                continue
            decoded = decode(conversation, zone)
            if decoded.events:
                key = _key(session_id, decoded.events[0].occurrence)
                telling = _telling(key, decoded.digest)
                met.tellers[telling] = min(_who(conversation), met.tellers.get(telling, b"~"))
                if digests.setdefault(key, decoded.digest) != decoded.digest:
                    met.clashing.add(key)
    return met


def _shared(ids: U64, whole: U64) -> tuple[set[int], NDArray[np.bool_]]:
    """The ids that stand beside different wholes, and their places."""
    pairs = np.unique(np.stack([ids, whole]), axis=1)
    told, count = np.unique(pairs[0], return_counts=True)
    shared = told[count > 1]
    return set(shared.tolist()), np.isin(ids, shared)


def _named(part: SourceFile) -> Iterator[tuple[RecordedConversation, str, str]]:
    for found in read_conversations(part.path):
        if not isinstance(found, InputFlaw) and (named := identity(found)) is not None:
            yield found, *named


def _own(session_id: str, digest: str) -> str:
    return session_id.removesuffix(f"~{digest[:_SUFFIX_DIGITS]}")


def _who(conversation: RecordedConversation) -> bytes:
    """Return who told a conversation, as a text that has an order."""
    return orjson.dumps(origin_fields(conversation.header))


def _key(session_id: str, occurrence: int) -> bytes:
    return hashlib.blake2b(f"{occurrence}/{session_id}".encode(), digest_size=16).digest()


def _telling(key: bytes, digest: str) -> bytes:
    return hashlib.blake2b(key + bytes.fromhex(digest), digest_size=16).digest()


def _short(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
