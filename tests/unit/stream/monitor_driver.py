"""A monitor without its broker: the stage over a table that outlives it, and messages for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracline.predict.following.loaded_chains import LoadedChains
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.records.dead_letter import decode_dead_letter
from tracline.schemas.settings import SessionSettings
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.messages.codec import CandidateBatch, EventsMessage, decode_verdicts, encode
from tracline.stream.messages.record import Output, Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.judge import Outputs
from tracline.stream.stages.monitor import MonitorResult, MonitorStage
from tracline.stream.stages.monitor_step import MonitorOptions
from tracline.stream.stages.schedule import MonitorState, Write

from ...support.event_rows import PACK, START

RULES = pack_text(PACK)
OPTIONS = MonitorOptions(
    SessionSettings(idle_s=60, lateness_s=5), partitions=1, bytes_max=100_000, rules=dict(RULES.sources)
)
FIRST, SECOND = "ann", "bob"
OTHER = PACK.replace("{id: calm,", "{id: quiet,")
OTHER_TEXTS = dict(pack_text(OTHER).sources)


def wrote(session_id: str, second: int, text: str) -> Candidate:
    """Return a user's message in a second of its own."""
    time = START + second * NS
    claims = (Claim(Kind.USER, time, text=text, place=0, key=f"{second}"),)
    return Candidate(
        session_id, SpanRole.CHAT, time, time, claims, "t", f"{session_id}-{second}", str(second)
    )


def batch(until: int, *candidates: Candidate, source: int = 0, sources: int = 1) -> CandidateBatch:
    """Return a batch with a watermark in seconds."""
    return CandidateBatch(source, sources, 0, START + until * NS, list(candidates))


def record(offset: int, message: EventsMessage | bytes, partition: int = 0) -> Record:
    """Return a record of the events' topic."""
    value = message if isinstance(message, bytes) else encode(message)
    return Record(partition, offset, START, value, Topic.EVENTS)


@dataclass(frozen=True)
class Taken:
    """The result of a step with one message."""

    outputs: tuple[Output, ...]
    writes: tuple[Write, ...]
    judged: Outputs
    watermark: int | None
    rules: frozenset[tuple[str, str]]


class Monitor:
    """A monitor over a table that outlives it."""

    def __init__(
        self,
        options: MonitorOptions = OPTIONS,
        table: dict[str, bytes] | None = None,
        partitions: Sequence[int] = (0,),
        chains: LoadedChains | None = None,
    ) -> None:
        self.options, self.table, self.partitions = options, {} if table is None else table, partitions
        self.chains = chains
        self.begin()

    def begin(self) -> None:
        """Begin with the records of the table."""
        self.stage, self.state = MonitorStage(self.options, self.chains), MonitorState(self.table)
        self.stage.restore(self.state, self.partitions, list(self.table.items()))

    def write(self, writes: Sequence[Write]) -> None:
        """Change the table."""
        for key, value in writes:
            if value is None:
                self.table.pop(key, None)
            else:
                self.table[key] = value

    def step(self, records: Sequence[Record]) -> MonitorResult:
        """Step records, and write and apply all of the result."""
        result = self.stage.step(self.state, records)
        for writes in result.writes.values():
            self.write(writes)
        self.state.apply(result.writes)
        return result

    def take(self, offset: int, message: EventsMessage | bytes, writes: int | None = None) -> Taken:
        """Step a message, and write all of the result, or as many writes as a crash leaves."""
        result = self.stage.step(self.state, [record(offset, message)])
        (counted,) = result.metrics.messages
        written = tuple(result.writes.get(0, ()))
        self.write(written[:writes])
        if writes is None:
            self.state.apply(result.writes)
        return Taken(
            result.outputs, written, counted.judged, counted.watermark, frozenset(result.metrics.rules)
        )


def verdicts(outputs: Sequence[Output]) -> list[tuple[str, str, str]]:
    """Return session, rule and verdict of the records among outputs."""
    messages = [decode_verdicts(output.value or b"") for output in outputs if output.topic is Topic.VERDICTS]
    return [
        (found.session_id, found.rule, found.verdict) for message in messages for found in message.verdicts
    ]


def codes(outputs: Sequence[Output]) -> list[str]:
    """Return the codes of the dead letters among outputs."""
    return [
        decode_dead_letter(output.value or b"").code
        for output in outputs
        if output.topic is Topic.DEAD_LETTER
    ]
