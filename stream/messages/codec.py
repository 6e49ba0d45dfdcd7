"""The messages of the Kafka pipeline's topics, and their codecs.

A message of `tracline.events` or `tracline.judged` is `TL`, one byte with the version, and a MessagePack map
with its `type`. Messages for other readers, in `tracline.verdicts` and `tracline.dead-letter`, are JSON.
Times are nanoseconds since the epoch in MessagePack and RFC 3339 text in JSON.

Every output names the message of `tracline.events` that it was made from (`Mark`), so that a consumer can
drop the outputs that a restarted monitor repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from crc32c import crc32c

from ...archive.chunk import RuleTexts
from ...schemas.attempt import Broken, attempt
from ...schemas.candidate import Candidate
from ...schemas.event import Event
from ...schemas.paged.grouping import grouped
from ...schemas.records.session_status import StatusChange, decode_status, encode_status, status_json
from ...schemas.records.verdict_record import VerdictRecord, decode_verdict, encode_verdict
from ...schemas.sessions.resolve import whole_candidate
from ...schemas.time import parse_time, rfc3339
from ..error import PROCESS_ERRORS, StreamError

VERSION = 1
"""Version of the messages; a process refuses all others."""
DAMAGED_CODE = "TRL731"
"""The code of dead letters: a record that is no message of its topic."""
UNREAD_VERSION = 2
"""Version of the messages of `tracline.events` with candidates whose content nobody has read.

Version 1 is read as well: there each candidate has its claims.
"""

Time: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Nanoseconds since the epoch, within 64 bits."""


class CandidateBatch(msgspec.Struct, frozen=True, tag_field="type", tag="batch"):
    """Candidates for one events partition, resolved from one source partition up to `offset` (-1 at a tick).

    `watermark` is that of the source after them; there are `sources` source partitions. With `more` all
    candidates are of one session, and the next message of this source has further ones: the session is not
    judged until then. `topic` is that of the source, for dead letters.
    """

    source: int
    sources: int
    offset: int
    watermark: Time
    candidates: list[Candidate]
    more: bool = False
    topic: str = ""


class Tick(msgspec.Struct, frozen=True, tag_field="type", tag="tick"):
    """The watermarks of source partitions, sent to every events partition."""

    sources: int
    watermarks: dict[int, Time]


class Activation(msgspec.Struct, frozen=True, tag_field="type", tag="activation"):
    """A rule set that comes into force with this message.

    `supersedes` are digests of rule sets that it replaces wherever they were activated before it in the same
    partition (`superseded.in_force`). `chain` is the digest of the chain that follows the sessions, unset
    without one.
    """

    packs: RuleTexts
    supersedes: list[str] = []
    chain: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def chain_digest(self) -> str | None:
        """Return the digest of the chain, None without one."""
        return None if isinstance(self.chain, msgspec.UnsetType) else self.chain


EncodedCandidate: TypeAlias = tuple[bytes, bytes]
"""The id of a candidate's session in UTF-8, and the candidate in MessagePack."""
EventsMessage: TypeAlias = CandidateBatch | Tick | Activation


class Mark(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The origin of an output: partition and offset of the message that was read, and the output's index.

    The outputs of a message are numbered from 0 in each topic. A consumer drops every output that is not
    above the last (offset, index) that it has seen of a partition.
    """

    partition: int
    offset: int
    index: int


class JudgedBatch(msgspec.Struct, frozen=True, tag_field="type", tag="judged"):
    """The events and `end` rows judged after one message, in judged order, with their rule sets.

    `sets` has, event by event, the index of its rule set in `digests`. `watermark` is that of the events
    partition, None before it is known; only events that end at it or before are judged. `activated` are the
    packs of a rule set that came into force, by its digest.

    Where the rule sets name a chain, `followed` has, event by event, the index in `chains` of the digest of
    the chain that followed its session, or of None: nothing computed its risks. Else both are unset.
    """

    mark: Mark
    watermark: Time | None
    events: list[Event]
    digests: list[str]
    sets: list[int]
    activated: dict[str, RuleTexts] = {}
    chains: list[str | None] | msgspec.UnsetType = msgspec.UNSET
    followed: list[int] | msgspec.UnsetType = msgspec.UNSET

    def with_chains(self, chains: Sequence[str | None]) -> JudgedBatch:
        """Return the batch with the chain that followed each event, as it is where there are no `chains`."""
        if not chains:
            return self
        distinct = list(dict.fromkeys(chains))
        numbers = {chain: number for number, chain in enumerate(distinct)}
        followed = [numbers[chain] for chain in chains]
        return msgspec.structs.replace(self, chains=distinct, followed=followed)

    @property
    def event_chains(self) -> list[str | None] | None:
        """Return the chain that followed each event, None where the rule sets name none."""
        if isinstance(self.chains, msgspec.UnsetType) or isinstance(self.followed, msgspec.UnsetType):
            return None
        return [self.chains[number] for number in self.followed]


class VerdictsMessage(msgspec.Struct, frozen=True):
    """The verdicts and changes of status that one message of `tracline.events` causes, or a part of them."""

    mark: Mark
    watermark: Time | None
    verdicts: list[VerdictRecord]
    statuses: list[StatusChange]


class _VerdictsJson(msgspec.Struct, frozen=True):
    """The JSON of a `VerdictsMessage`, with its verdicts and statuses as they are."""

    version: int
    partition: int
    offset: int
    index: int
    watermark: str | None
    verdicts: list[msgspec.Raw]
    session_status: list[msgspec.Raw]


class _Versioned(msgspec.Struct, frozen=True):
    """The version of a message in JSON."""

    version: object


class Damaged(Exception):
    """A record that is no message of any release; the error's text is safe in a dead letter.

    A message of another release raises StreamError (TRL731) instead, since it must not be skipped.
    """


_HINT = "write and read the topic with one release: stop the other one, or use new topics"
_ENCODER = msgspec.msgpack.Encoder()
_MESSAGE = msgspec.msgpack.Decoder(EventsMessage)
_CANDIDATE = msgspec.msgpack.Decoder(Candidate)
_JUDGED = msgspec.msgpack.Decoder(JudgedBatch)
_VERDICTS = msgspec.json.Decoder(_VerdictsJson)
_VERSIONED = msgspec.json.Decoder(_Versioned)
_JSON = msgspec.json.Encoder()
_CANDIDATES = _ENCODER.encode("candidates")
_NO_CANDIDATES = _CANDIDATES + _ENCODER.encode([])
_MAGIC = b"TL"
_HEAD, _UNREAD_HEAD = _MAGIC + bytes([VERSION]), _MAGIC + bytes([UNREAD_VERSION])


def partition_of(session_id: str, partitions: int) -> int:
    """Return the events partition of a session, by CRC-32C of its id in UTF-8."""
    return partition_of_bytes(_utf8(session_id), partitions)


def _utf8(session_id: str) -> bytes:
    return session_id.encode("utf-8", "surrogatepass")


def partition_of_bytes(session_id: bytes, partitions: int) -> int:
    """Return the events partition of a session by its id in UTF-8."""
    return crc32c(session_id) % partitions


def encode(message: EventsMessage | JudgedBatch) -> bytes:
    """Return a message of `tracline.events` or `tracline.judged` as bytes."""
    return (_UNREAD_HEAD if isinstance(message, CandidateBatch) else _HEAD) + _ENCODER.encode(message)


def decode(data: bytes) -> EventsMessage:
    """Return a message of `tracline.events`. Raises Damaged, or StreamError for another release's."""
    if data.startswith(_UNREAD_HEAD):
        data = _HEAD + data[len(_HEAD) :]
    return _decoded(_MESSAGE, data, "tracline.events")


def decode_candidate(data: bytes) -> Candidate:
    """Return a candidate in MessagePack that this process has made."""
    return _CANDIDATE.decode(data)


def decode_judged(data: bytes) -> JudgedBatch:
    """Return a message of `tracline.judged`. Raises Damaged, or StreamError for another release's."""
    return _decoded(_JUDGED, data, "tracline.judged")


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: bytes, topic: str) -> Any:
    if data.startswith(_MAGIC) and not data.startswith(_HEAD) and len(data) > len(_MAGIC):
        what = f"a message of {topic} has version {data[len(_MAGIC)]}, not {VERSION}"
        raise StreamError("TRL731", what, _HINT)
    try:
        if not data.startswith(_HEAD):
            raise ValueError
        return decoder.decode(data[len(_HEAD) :])
    except (ValueError, RecursionError):
        raise Damaged(f"not a message of tracline: a record of {topic}") from None


def candidate_messages(
    batch: CandidateBatch, candidates: Iterable[Candidate | EncodedCandidate], bytes_max: int, before: int
) -> tuple[list[bytes], list[Candidate]]:
    """Return the messages of a batch's candidates, and those too large for any; `batch` itself has none.

    A message has about `bytes_max` at most, as has each encoded candidate. A session's candidates are in one
    message, or in several of their own, all with `more` but the last. All messages but the last have the
    watermark `before` the batch.
    """
    by_session: dict[bytes, list[bytes]] = {}
    too_large: list[Candidate] = []
    for candidate in candidates:
        if isinstance(candidate, tuple):
            by_session.setdefault(candidate[0], []).append(candidate[1])
            continue
        data = _ENCODER.encode(candidate)
        if len(data) > bytes_max and candidate.request:
            # The claims may take less than the span, which has instructions and descriptions of tools.
            data = _with_claims(candidate) or data
        if len(data) > bytes_max:
            too_large.append(candidate)
        else:
            by_session.setdefault(_utf8(candidate.session_id), []).append(data)
    groups = list(_by_session(by_session.values(), bytes_max)) or [([], False)]
    last = len(groups) - 1
    messages: list[bytes] = []
    for number, (group, more) in enumerate(groups):
        watermark = batch.watermark if number == last else before
        message = msgspec.structs.replace(batch, watermark=watermark, more=more)
        messages.append(_with_candidates(message, group))
    return messages, too_large


def _with_candidates(batch: CandidateBatch, candidates: Sequence[bytes]) -> bytes:
    """Return the message of a batch without candidates, with these in MessagePack; they are copied once."""
    head, _, tail = encode(batch).partition(_NO_CANDIDATES)
    # The head of a list is what its encoding has before as many values of one byte each.
    list_head = _ENCODER.encode([None] * len(candidates))[: -len(candidates) or None]
    return b"".join((head, _CANDIDATES, list_head, *candidates, tail))


def _with_claims(candidate: Candidate) -> bytes | None:
    """Return a candidate of an unread span with its claims; None where the span cannot be read."""
    data = attempt(lambda: _ENCODER.encode(whole_candidate(candidate, None)), PROCESS_ERRORS)
    return None if isinstance(data, Broken) else data


def _by_session(sessions: Iterable[list[bytes]], bytes_max: int) -> Iterator[tuple[list[bytes], bool]]:
    """Yield the candidates of each message, and whether the next message has more of their session."""
    small: list[tuple[list[bytes], int]] = []
    for session in sessions:
        size = sum(map(len, session))
        if size <= bytes_max:
            small.append((session, size))
            continue
        cut = list(grouped(((data, len(data)) for data in session), bytes_max))
        yield from ((group, number < len(cut) - 1) for number, group in enumerate(cut))
    for together in grouped(small, bytes_max):
        yield [data for session in together for data in session], False


def judged_messages(judged: JudgedBatch, bytes_max: int) -> list[bytes]:
    """Return the messages of judged events, each of about `bytes_max` at most; at least one.

    An event larger than that has a message of its own, and so have the packs of rules that came into force.
    Only the last message has the watermark.
    """
    whole = encode(judged)
    if len(whole) <= bytes_max and not judged.activated:
        # Its events are smaller.
        return [whole]
    is_followed = not isinstance(judged.followed, msgspec.UnsetType)
    followed = judged.followed if not isinstance(judged.followed, msgspec.UnsetType) else judged.sets
    encoded = (
        (_ENCODER.encode(event), number, chain)
        for event, number, chain in zip(judged.events, judged.sets, followed, strict=True)
    )
    groups = list(grouped(((each, len(each[0])) for each in encoded), bytes_max))
    if judged.activated or not groups:
        groups.insert(0, [])
    return [
        encode(
            msgspec.structs.replace(
                judged,
                mark=msgspec.structs.replace(judged.mark, index=index),
                watermark=judged.watermark if index == len(groups) - 1 else None,
                events=[msgspec.Raw(data) for data, _, _ in group],
                sets=[number for _, number, _ in group],
                activated=judged.activated if index == 0 else {},
                followed=[chain for _, _, chain in group] if is_followed else msgspec.UNSET,
            )
        )
        for index, group in enumerate(groups)
    ]


def verdict_messages(message: VerdictsMessage, bytes_max: int) -> list[bytes]:
    """Return the JSON messages of `tracline.verdicts`, each of about `bytes_max` at most; at least one.

    `{"version", "partition", "offset", "index", "watermark", "verdicts": [...], "session_status": [...]}`:
    verdicts are the lines of a bundle's `verdicts.jsonl`. Statuses come first, so that a consumer that counts
    knows of the session before its verdicts. Only the last message has the watermark.
    """
    statuses: Any = list(map(status_json, message.statuses))
    verdicts = [msgspec.Raw(encode_verdict(verdict)) for verdict in message.verdicts]
    time = None if message.watermark is None else rfc3339(message.watermark)
    mark = message.mark
    whole = _VerdictsJson(VERSION, mark.partition, mark.offset, 0, time, verdicts, statuses)
    if len(data := _JSON.encode(whole)) <= bytes_max:
        # Its verdicts and statuses are smaller.
        return [data]
    encoded = [
        *((True, msgspec.Raw(encode_status(status))) for status in message.statuses),
        *((False, data) for data in verdicts),
    ]
    groups = list(grouped(((pair, len(bytes(pair[1]))) for pair in encoded), bytes_max)) or [[]]
    return [
        _JSON.encode(
            msgspec.structs.replace(
                whole,
                index=index,
                watermark=time if index == len(groups) - 1 else None,
                verdicts=[data for is_status, data in group if not is_status],
                session_status=[data for is_status, data in group if is_status],
            )
        )
        for index, group in enumerate(groups)
    ]


def decode_verdicts(data: bytes) -> VerdictsMessage:
    """Return a message of `tracline.verdicts`. Raises Damaged, or StreamError for another release's."""
    try:
        version = _VERSIONED.decode(data).version
    except (ValueError, RecursionError):
        raise Damaged("not a message of tracline: a record of tracline.verdicts") from None
    if version != VERSION:
        what = f"a message of tracline.verdicts has version {version}, not {VERSION}"
        raise StreamError("TRL731", what, _HINT)
    try:
        message = _VERDICTS.decode(data)
        watermark = None if message.watermark is None else parse_time(message.watermark)
        if watermark is None and message.watermark is not None:
            raise ValueError
        return VerdictsMessage(
            Mark(message.partition, message.offset, message.index),
            watermark,
            list(map(decode_verdict, message.verdicts)),
            list(map(decode_status, message.session_status)),
        )
    except (ValueError, RecursionError):
        # The text of these errors may quote what was read.
        raise Damaged("a message of verdicts that lacks something") from None
