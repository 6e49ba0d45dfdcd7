"""A process of a consumer group: the driver of a stage and a commit policy, over a client.

The process joins the group, restores the state whenever the group has assigned partitions, polls, has the
policy step and commit, and retries what the broker did not do. After every error of the broker it resumes
from what was committed. Two things differ between processes: the topics and the work between records
(`GroupDriver`), and the order in which outputs, state and offsets become durable (`CommitPolicy`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..error import StreamError
from .broker_errors import FENCED, CommitFailedError, KafkaError
from .client import ClientRecord, GroupClient, TopicPartition
from .inputs import Inputs

RETRY_S = 1.0
"""Seconds that a process waits before it retries a call that the broker did not answer."""
POLL_S = 0.2
"""Seconds that a poll waits for the first record; the process sees a stop or a new assignment after that."""

GoingOn = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of the records that are stepped together: number, bytes, and seconds after the first one.

    `polled` is how many records the client returns at a time.
    """

    records: int
    bytes: int = 1 << 30
    linger_s: float = 0.0
    polled: int = 1_000


class GroupRuntime(Protocol):
    """The runtime of every process: timeout, reports, the stop event, and a clock in seconds."""

    @property
    def timeout_s(self) -> float: ...  # noqa: D102
    @property
    def report(self) -> Callable[[str], None]: ...  # noqa: D102
    @property
    def stopping(self) -> threading.Event: ...  # noqa: D102
    @property
    def clock(self) -> Callable[[], float]: ...  # noqa: D102


class GroupDriver(Protocol):
    """The driver of a stage: its topics, and the state of the assigned partitions.

    A process calls the methods without a result only while it owns partitions.
    """

    process: str
    """The name of the process, for errors."""
    topics: tuple[str, ...]
    """The topics of its records; a poll waits for the last one."""
    limits: BatchLimits

    def status(self, owned: frozenset[int]) -> str | None:
        """Return the report about an assignment."""
        return f"assigned partitions {', '.join(map(str, sorted(owned)))}" if owned else None

    def poll_beside(self, *, is_working: bool) -> None:
        """Poll a topic whose records are not stepped, before every poll, with an assignment or without."""

    def deadline(self) -> float | None:
        """Return when a poll must end at the latest, by the clock; None for no such time."""
        return None

    def resumed(self) -> None:
        """Start from new positions, whose partitions the client reads now."""

    def rest(self) -> None:
        """Take note that the group has assigned no partition."""

    def wait(self, *, is_assigned: bool) -> None:
        """Do what may be done while the broker does not answer."""


class CommitPolicy(Protocol):
    """The order in which the outputs, the state and the offsets of a stage become durable."""

    @property
    def driver(self) -> GroupDriver: ...  # noqa: D102

    @property
    def inputs(self) -> Inputs: ...  # noqa: D102
    @property
    def commits(self) -> int:
        """Return how often the policy has committed."""
        ...

    @property
    def refusals_max(self) -> int | None:
        """Return how often in a row the broker may refuse, for reasons that waiting does not mend."""
        ...

    def prepare(self) -> None:
        """Raise StreamError where the process must not start."""

    def resume(self, owned: frozenset[int], going_on: GoingOn) -> dict[TopicPartition, int] | None:
        """Restore the state of these partitions, and return where to resume in each input.

        None where `going_on` turned false.
        """
        ...

    def carry(self, records: Sequence[ClientRecord], member: Any) -> bool:
        """Step and commit records; return False where the process must resume from what was committed."""
        ...

    def between(self, member: Any) -> bool:
        """Do what is due after every poll; return as `carry`."""
        ...

    def finish(self) -> None:
        """Make durable what may be, at the end of the process."""


class GroupProcess:
    """One process; `run` works until it is to stop."""

    def __init__(
        self,
        client: GroupClient,
        policy: CommitPolicy,
        runtime: GroupRuntime,
        refused: Callable[[Exception, str, float], StreamError | None],
    ) -> None:
        """Take a client, a policy, and `refused`, which recognises that the group refuses this process."""
        self._client, self._policy, self._runtime = client, policy, runtime
        self._driver, self._inputs = policy.driver, policy.inputs
        self._refused = refused
        self._settled: int | None = None
        self._reported: str | None = None
        self._refusals = 0
        self._is_away = False

    @property
    def is_ready(self) -> bool:
        """Return whether the process goes on with the partitions of its assignment (there may be none)."""
        return self._settled is not None and self._settled == self._client.assignment.count

    def run(self) -> None:
        """Work until the runtime is stopping; then leave the group. Raises StreamError."""
        self._policy.prepare()
        try:
            while not self._runtime.stopping.is_set():
                if not self.turn():
                    self._runtime.stopping.wait(RETRY_S)
            self._policy.finish()
        finally:
            self._client.close()

    def turn(self) -> bool:
        """Poll once, and carry on what came; return False where the caller should wait for the broker."""
        try:
            self._turn()
        except KafkaError as error:
            return self._recover(error)
        return True

    def _turn(self) -> None:
        client, assignment = self._client, self._client.assignment
        client.open()
        self._driver.poll_beside(is_working=self._is_working)
        records = self._gather()
        # The membership comes first, then the question whether the assignment is still the same: the broker
        # rejects the commit of a process whose partitions move later.
        member = client.member()
        if member is None or not assignment.is_complete:
            self._settled = None
            return
        if not self.is_ready:
            self._settle()
            return
        is_checked, commits = self._inputs.check_again(self._runtime.clock()), self._policy.commits
        if assignment.owned and not self._work(records, member):
            self._settled = None
        if self._policy.commits > commits:
            self._refusals = 0
        if is_checked or self._policy.commits > commits:
            self._answered()

    def _work(self, records: Sequence[ClientRecord], member: Any) -> bool:
        """Carry records on, and do what is due; return False where to resume from what was committed."""
        if records and not self._policy.carry(records, member):
            return False
        return self._policy.between(member)

    @property
    def _is_working(self) -> bool:
        return self.is_ready and bool(self._client.assignment.owned)

    def _gather(self) -> list[ClientRecord]:
        """Return the records that come together; those of a partition are in order."""
        clock, limits, assignment = self._runtime.clock, self._driver.limits, self._client.assignment
        deadline = self._driver.deadline() if self._is_working else None
        until = clock() + POLL_S if deadline is None else deadline
        gathered: list[ClientRecord] = []
        size, count = 0, assignment.count
        while len(gathered) < limits.records and size < limits.bytes:
            records = self._poll(min(max(until - clock(), 0.0), POLL_S))
            if records and not gathered:
                until = clock() + limits.linger_s
            gathered += records
            size += sum(len(record.value or b"") for record in records)
            # A poll without records has waited until then.
            if not records or clock() >= until or assignment.count != count:
                break
        return gathered

    def _poll(self, wait_s: float) -> list[ClientRecord]:
        *others, last = self._driver.topics
        polled = self._driver.limits.polled
        records = [record for topic in others for record in self._client.poll(topic, 0, polled)]
        return records + self._client.poll(last, 0 if records else wait_s, polled)

    def _settle(self) -> None:
        """Resume the assigned partitions from what was last committed of each."""
        self._settled = None
        self._inputs.next = {}
        assignment = self._client.assignment
        count, owned = assignment.count, assignment.owned
        if count == 0:
            return

        def going_on() -> bool:
            return assignment.count == count and not self._runtime.stopping.is_set()

        offsets = self._policy.resume(owned, going_on)
        if offsets is None or assignment.count != count:
            return
        if not self._client.read_from(offsets):
            return
        self._inputs.next = {
            place: offset for place, offset in offsets.items() if place.topic in self._driver.topics
        }
        if owned:
            self._driver.resumed()
        else:
            self._driver.rest()
        self._settled = count
        status = self._driver.status(owned)
        if status is not None and status != self._reported:
            self._runtime.report(status)
        self._reported = status

    def _answered(self) -> None:
        """Take note that the broker did what it was asked for."""
        if self._is_away:
            self._is_away = False
            self._runtime.report("Kafka is reachable again")

    def _recover(self, error: KafkaError) -> bool:
        """Report an error, and go on from what was committed; return whether to do so at once.

        Raises StreamError: TRL725, TRL734.
        """
        # The consumer may have passed records of which nothing has come.
        self._settled = None
        if refused := self._refused(error, self._client.group, self._runtime.timeout_s):
            raise refused from error
        if isinstance(error, CommitFailedError):
            self._runtime.report("the group gave the partitions of this process to others; joining again")
            return True
        limit = self._policy.refusals_max
        if limit is not None and not error.retriable and not isinstance(error, FENCED):
            self._refusals += 1
            if self._refusals >= limit:
                raise self._refusal(error) from error
        self._driver.wait(is_assigned=bool(self._client.assignment.owned))
        if not self._is_away:
            self._is_away = True
            self._runtime.report(f"Kafka: {type(error).__name__}; retrying until it answers")
        return False

    def _refusal(self, error: KafkaError) -> StreamError:
        what = f"Kafka refuses what {self._driver.process} does: {type(error).__name__}"
        hint = "check what this user may do, and that the topics take records as large as message_bytes_max"
        return StreamError("TRL734", what, hint)
