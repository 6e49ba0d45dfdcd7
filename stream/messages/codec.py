"""What flows through the topics of the Kafka pipeline, and how it is written.

`tracline.events` and `tracline.judged` carry `TL`, one byte, the version, and a MessagePack map with its
`type`; what others read, `tracline.verdicts` and `tracline.dead-letter`, is JSON. Times are nanoseconds
since the epoch in MessagePack and RFC 3339 text in JSON. Every output says which message of
`tracline.events` it was made of (`Mark`), so that a consumer which has seen it can drop what a restart
makes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import orjson
from crc32c import crc32c

from ...schemas.candidate import Candidate
from ...schemas.event import Event
from ..error import StreamError

if TYPE_CHECKING:
    # The rekeyer has no need of what judges.
    from ...rules.engine.records import Record

VERSION = 1
"""Version of the messages; a process refuses any other."""

RuleTexts: TypeAlias = dict[str, str]
"""A rule set as the texts of its packs and of those that they extend, as `RuleSet.sources` has it."""
Time: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Nanoseconds since the epoch that 64 bits hold, as archives and texts need them."""


class CandidateBatch(msgspec.Struct, frozen=True, tag_field="type", tag="batch"):
    """Candidates of one events partition, resolved from one source partition up to `offset` (-1 at a tick).

    `watermark` is the source's behind them; of `sources` source partitions there are. With `more` all of them
    are of one session, of which the next message of this source has others: until then it is not judged.
    """

    source: int
    sources: int
    offset: int
    watermark: Time
    candidates: list[Candidate]
    more: bool = False


class Tick(msgspec.Struct, frozen=True, tag_field="type", tag="tick"):
    """The watermarks of some sources, by their partition, told to every events partition."""

    sources: int
    watermarks: dict[int, Time]


class Activation(msgspec.Struct, frozen=True, tag_field="type", tag="activation"):
    """A rule set that comes into force with this message.

    `supersedes` are digests of rule sets in whose place it comes into force, wherever they were activated
    before it in the same partition (`activation.in_force`).
    """

    packs: RuleTexts
    supersedes: list[str] = []


Message: TypeAlias = CandidateBatch | Tick | Activation


class Mark(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Where an output comes from: the partition and offset of the message read, and which of its outputs.

    Those of one message are numbered from 0 in each topic; a consumer drops what is not above the last
    (offset, index) that it has seen of a partition.
    """

    partition: int
    offset: int
    index: int


class JudgedBatch(msgspec.Struct, frozen=True, tag_field="type", tag="judged"):
    """What was judged of one message: events and `end` rows in judged order, and by which rule sets.

    `sets` has, event by event, the number of its rule set in `digests`. `watermark` is that of the events
    partition, None before it is known; only what ends at it or before was judged. `activated` are the packs
    of a rule set that came into force, by its digest.
    """

    mark: Mark
    watermark: Time | None
    events: list[Event]
    digests: list[str]
    sets: list[int]
    activated: dict[str, RuleTexts] = {}


class DeadLetter(msgspec.Struct, frozen=True):
    """What could not be read or judged: where it is, a code, the reason, and a digest of the record.

    `time` is that of the record, in nanoseconds. Nothing of the payload: whoever may read it finds it at
    its topic, partition and offset.
    """

    process: str
    topic: str
    partition: int
    offset: int
    time: Time
    place: str
    code: str
    reason: str
    sha256: str


class Damaged(Exception):
    """A record that is no message of any release; its text is fit for dead letters.

    One that is a message of another release raises StreamError (TRL731) instead: it is not to be skipped.
    """


_HINT = "one release must write and read the topic: stop the other, or begin with new topics"
_ENCODER = msgspec.msgpack.Encoder()
_MESSAGE = msgspec.msgpack.Decoder(Message)
_JUDGED = msgspec.msgpack.Decoder(JudgedBatch)
_LETTER = msgspec.json.Decoder(DeadLetter)
_MAGIC = b"TL"
_HEAD = _MAGIC + bytes([VERSION])


def partition_of(session_id: str, partitions: int) -> int:
    """The events partition of a session: CRC-32C of its id in UTF-8, the same in every process."""
    return crc32c(session_id.encode("utf-8", "surrogatepass")) % partitions


def encode(message: Message | JudgedBatch) -> bytes:
    """A message of `tracline.events` or `tracline.judged` as bytes."""
    return _HEAD + _ENCODER.encode(message)


def decode(data: bytes) -> Message:
    """A message of `tracline.events`. Raises Damaged, or StreamError as `Damaged` says."""
    return _decoded(_MESSAGE, data, "tracline.events")


def decode_judged(data: bytes) -> JudgedBatch:
    """A message of `tracline.judged`. Raises Damaged, or StreamError as `Damaged` says."""
    return _decoded(_JUDGED, data, "tracline.judged")


def _decoded(decoder: msgspec.msgpack.Decoder[Any], data: bytes, topic: str) -> Any:
    if data.startswith(_MAGIC) and not data.startswith(_HEAD) and len(data) > len(_MAGIC):
        what = f"a message of {topic} has version {data[len(_MAGIC)]}, not {VERSION}"
        raise StreamError("TRL731", what, _HINT)
    try:
        if not data.startswith(_HEAD):
            raise ValueError
        return decoder.decode(data[len(_HEAD) :])
    except ValueError:
        raise Damaged(f"a record of {topic} is no message of tracline's") from None


def candidate_messages(
    batch: CandidateBatch, bytes_max: int, before: int
) -> tuple[list[bytes], list[Candidate]]:
    """The messages that carry a batch, each of about `bytes_max` at most, and what is too large for any.

    A session's candidates stand in one message, or in several of their own that say `more` but for the last.
    All messages but the last say the watermark `before` the batch.
    """
    by_session: dict[str, list[tuple[Candidate, int]]] = {}
    too_large: list[Candidate] = []
    for candidate in batch.candidates:
        size = len(_ENCODER.encode(candidate))
        if size > bytes_max:
            too_large.append(candidate)
        else:
            by_session.setdefault(candidate.session_id, []).append((candidate, size))
    groups = list(_parts(by_session.values(), bytes_max)) or [([], False)]
    structs = [
        msgspec.structs.replace(batch, candidates=own, watermark=before, more=more) for own, more in groups
    ]
    structs[-1] = msgspec.structs.replace(structs[-1], watermark=batch.watermark)
    return [encode(one) for one in structs], too_large


def _parts(
    sessions: Iterable[list[tuple[Candidate, int]]], bytes_max: int
) -> Iterator[tuple[list[Candidate], bool]]:
    """The candidates of each message, and whether more of their session follow in the next one."""
    small: list[tuple[list[Candidate], int]] = []
    for sized in sessions:
        size = sum(one for _, one in sized)
        if size <= bytes_max:
            small.append(([candidate for candidate, _ in sized], size))
            continue
        cut = list(_packed(sized, bytes_max))
        yield from ((own, number < len(cut) - 1) for number, own in enumerate(cut))
    for together in _packed(small, bytes_max):
        yield [candidate for own in together for candidate in own], False


def judged_messages(judged: JudgedBatch, bytes_max: int) -> list[bytes]:
    """The messages that carry what was judged, each of about `bytes_max` at most; one at least.

    An event larger than that has a message of its own, and so have the packs of rules that came into force.
    Only the last says the watermark.
    """
    sized = [
        ((event, number), len(_ENCODER.encode(event)))
        for event, number in zip(judged.events, judged.sets, strict=True)
    ]
    groups = list(_packed(sized, bytes_max))
    if judged.activated or not groups:
        groups.insert(0, [])
    return [
        encode(
            msgspec.structs.replace(
                judged,
                mark=msgspec.structs.replace(judged.mark, index=index),
                watermark=judged.watermark if index == len(groups) - 1 else None,
                events=[event for event, _ in group],
                sets=[number for _, number in group],
                activated=judged.activated if index == 0 else {},
            )
        )
        for index, group in enumerate(groups)
    ]


def verdict_messages(
    mark: Mark,
    watermark: str | None,
    verdicts: Sequence[Record],
    statuses: Sequence[Mapping[str, object]],
    bytes_max: int,
) -> list[bytes]:
    """The JSON messages of `tracline.verdicts`, each of about `bytes_max` at most; one at least.

    `{"version", "partition", "offset", "index", "watermark", "verdicts": [...], "session_status": [...]}`:
    verdicts are the lines of a bundle's `verdicts.jsonl`. Only the last message says the watermark.
    """
    sized = [((name, one), len(orjson.dumps(one))) for name, one in _told(verdicts, statuses)]
    groups = list(_packed(sized, bytes_max)) or [[]]
    return [
        orjson.dumps(
            {
                "version": VERSION,
                "partition": mark.partition,
                "offset": mark.offset,
                "index": index,
                "watermark": watermark if index == len(groups) - 1 else None,
                "verdicts": [one for name, one in group if name == "verdict"],
                "session_status": [one for name, one in group if name == "status"],
            }
        )
        for index, group in enumerate(groups)
    ]


def decode_verdicts(data: bytes) -> dict[str, Any]:
    """A message of `tracline.verdicts`. Raises Damaged, or StreamError as `Damaged` says."""
    try:
        message: Any = orjson.loads(data)
        version = message["version"]
    except (ValueError, TypeError, KeyError):
        raise Damaged("a record of tracline.verdicts is no message of tracline's") from None
    if version != VERSION:
        what = f"a message of tracline.verdicts has version {version}, not {VERSION}"
        raise StreamError("TRL731", what, _HINT)
    return message


def encode_dead_letter(letter: DeadLetter) -> bytes:
    """A dead letter as JSON, with the version."""
    return orjson.dumps({"version": VERSION, **msgspec.structs.asdict(letter)})


def decode_dead_letter(data: bytes) -> DeadLetter:
    """A dead letter of the topic. Raises Damaged where the record is none."""
    try:
        return _LETTER.decode(data)
    except ValueError:
        raise Damaged("a record of tracline.dead-letter is no dead letter") from None


def _told(
    verdicts: Iterable[Record], statuses: Iterable[Mapping[str, object]]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Statuses before verdicts, so that whoever counts knows of what."""
    yield from (("status", one) for one in statuses)
    yield from (("verdict", one) for one in verdicts)


def _packed(sized: Iterable[tuple[Any, int]], bytes_max: int) -> Iterator[list[Any]]:
    """Things in their order, grouped so that the sizes of a group stay within the limit where they can."""
    group: list[Any] = []
    used = 0
    for thing, size in sized:
        if group and used + size > bytes_max:
            yield group
            group, used = [], 0
        group.append(thing)
        used += size
    if group:
        yield group
