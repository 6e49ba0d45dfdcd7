"""The commit policy of stages whose outputs, state and offsets are in one transaction.

Nothing is lost or doubled wherever a process dies: the next one resumes from the last transaction that was
committed. A step leaves the state as it is; the driver applies the changes once they are committed. The
offsets carry the generation of the group, so the broker rejects the whole transaction of a process whose
partitions the group has assigned to another one since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from ...schemas.attempt import Broken, attempt
from ..error import PROCESS_ERRORS
from ..messages.record import Output
from ..messages.topics import Topic
from ..process.faultpoints import fault_point
from ..process.kafka_metrics import KafkaMetrics, TransactionOutcome
from ..process.shared_metrics import ProgressMetrics
from ..stages.result import StageResult
from .broker_errors import KafkaError
from .client import ClientRecord, GroupClient, OutgoingRecord, TopicPartition
from .inputs import Inputs, records_by_place
from .process import GoingOn, GroupDriver

FaultPoint = Callable[[StrEnum], None]


class DeadLetterCounts(Protocol):
    """The metrics of a step: at least the codes of its dead letters."""

    @property
    def dead_letters(self) -> Sequence[str]: ...  # noqa: D102


Stepped = TypeVar("Stepped", bound=StageResult[Output, Any, DeadLetterCounts])


class TransactionMetrics(Protocol):
    """The metrics that every transactional process has."""

    @property
    def kafka(self) -> KafkaMetrics: ...  # noqa: D102
    @property
    def progress(self) -> ProgressMetrics: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class TransactionFaults:
    """The fault points of a transaction; None where there is none."""

    received: StrEnum
    stepped: StrEnum
    produced: StrEnum
    offsets: StrEnum | None = None


class TransactionalDriver(GroupDriver, Protocol[Stepped]):
    """The driver of a stage whose state is in a compacted topic."""

    state_topic: Topic
    faults: TransactionFaults

    def begin(self) -> None:
        """Drop the state; raise StreamError where the topics do not fit the stage any more."""

    def inputs_of(self, owned: frozenset[int]) -> list[TopicPartition]:
        """Return the partitions that are read for these numbers, in the order of their offsets' questions."""
        ...

    def restore(self, owned: frozenset[int], state: Mapping[int, Mapping[str, bytes]]) -> bool:
        """Resume from the state of each partition, by key; return False where that is not possible now."""
        ...

    def first_offset(self, place: TopicPartition) -> int:
        """Return where to start an input of which nothing was committed."""
        ...

    def step(self, records: Sequence[ClientRecord]) -> Stepped:
        """Return the records to write for these records, those of state included, and the changes of state.

        The state stays as it is, also where a record raises an error.
        """
        ...

    def refuse(self, record: ClientRecord, error: Exception) -> Stepped:
        """Return the result for a record that breaks `step`."""
        ...

    def committed(self, result: Stepped, records: Sequence[ClientRecord]) -> None:
        """Apply the changes of state of a committed result, and count it."""

    def between(self, commit: Callable[[Stepped], None]) -> None:
        """Do what is due after every poll, with further transactions."""


class TransactionalPolicy(Generic[Stepped]):
    """Commits outputs, state and offsets together; isolates a record that breaks the stage."""

    def __init__(
        self,
        client: GroupClient,
        driver: TransactionalDriver[Stepped],
        inputs: Inputs,
        metrics: TransactionMetrics,
        names: Mapping[Topic, str],
        refusals_max: int,
        fault: FaultPoint = fault_point,
    ) -> None:
        self.driver, self.inputs, self.refusals_max = driver, inputs, refusals_max
        self.commits = 0
        self._client, self._metrics, self._names, self._fault_point = client, metrics, names, fault

    def prepare(self) -> None:
        """Let the process start."""

    def finish(self) -> None:
        """Leave what was not committed to the next process."""

    def resume(self, owned: frozenset[int], going_on: GoingOn) -> dict[TopicPartition, int] | None:
        """Restore the state from its topic, and return where to resume in each input.

        The state is read after the offsets, which are stable: all that belongs to them is in the topic then.
        """
        self.driver.begin()
        committed = {place: self.inputs.committed(place) for place in self.driver.inputs_of(owned)}
        state: dict[int, dict[str, bytes]] | None = {}
        if owned:
            state = self._client.read_compacted(self._names[self.driver.state_topic], owned, going_on)
        if state is None or not going_on() or not self.driver.restore(owned, state):
            return None
        return {
            place: self.driver.first_offset(place) if offset is None else offset
            for place, offset in committed.items()
        }

    def carry(self, records: Sequence[ClientRecord], member: Any) -> bool:
        """Step and commit records, one by one where one of them breaks the stage."""
        self._fault_point(self.driver.faults.received)
        records = self.inputs.unread(records)
        if not records:
            return True
        result = attempt(lambda: self.driver.step(records), PROCESS_ERRORS)
        if not isinstance(result, Broken):
            self._commit(result, records, member)
            return True
        for record in records:
            self._carry_alone(record, member)
        return True

    def _carry_alone(self, record: ClientRecord, member: Any) -> None:
        """Step and commit one record, or write a dead letter of it."""
        result = attempt(lambda: self.driver.step([record]), PROCESS_ERRORS)
        if isinstance(result, Broken):
            result = self.driver.refuse(record, result.error)
        self._commit(result, [record], member)

    def between(self, member: Any) -> bool:
        """Do what is due after every poll."""
        self.driver.between(lambda result: self._commit(result, (), member))
        return True

    def _commit(self, result: Stepped, records: Sequence[ClientRecord], member: Any) -> None:
        """Write everything in one transaction. Raises KafkaError, where nothing of it is committed."""
        faults, transactions, kafka = self.driver.faults, self._client.transactions, self._metrics.kafka
        self._fault_point(faults.stepped)
        offsets = self._offsets(records)
        try:
            transactions.begin()
            transactions.produce(self._outgoing(result.outputs))
            self._fault_point(faults.produced)
            transactions.offsets(offsets, member)
            if faults.offsets is not None:
                self._fault_point(faults.offsets)
            transactions.commit()
        except KafkaError as error:
            kafka.transaction(TransactionOutcome.ABORTED)
            raise transactions.abandon(error) from None
        self.commits += 1
        self.inputs.next = offsets
        self._count(result, records)
        self.driver.committed(result, records)

    def _offsets(self, records: Iterable[ClientRecord]) -> dict[TopicPartition, int]:
        """Return the next offset of every input after these records."""
        offsets = dict(self.inputs.next)
        for place, found in records_by_place(records).items():
            offsets[place] = max(offsets[place], *[record.offset + 1 for record in found])
        return offsets

    def _outgoing(self, outputs: Iterable[Output]) -> Iterator[OutgoingRecord]:
        for output in outputs:
            key = None if output.key is None else output.key.encode("utf-8", "surrogatepass")
            yield OutgoingRecord(self._names[output.topic], output.partition, key, output.value)

    def _count(self, result: Stepped, records: Sequence[ClientRecord]) -> None:
        kafka = self._metrics.kafka
        kafka.transaction(TransactionOutcome.COMMITTED)
        sizes: dict[str, list[int]] = {}
        for record in records:
            sizes.setdefault(record.topic, []).append(len(record.value or b""))
        for topic, of_topic in sizes.items():
            kafka.read(topic, len(of_topic), sum(of_topic))
        for sent, count in Counter([output.topic for output in result.outputs]).items():
            kafka.sent(self._names[sent], count)
        for code in result.metrics.dead_letters:
            self._metrics.progress.dead_letter(code)
