"""The rekey process: reads spans and log records, and sends candidates.

The outputs, the rekeyer's state and the offsets of all inputs are in one transaction, ticks too.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...schemas.settings import SessionSettings
from ..group.client import GroupClient
from ..group.inputs import Inputs
from ..group.process import GroupProcess
from ..group.rekey import PROCESS, RekeyDriver, RekeyRuntime
from ..group.rekey_sources import RekeySources
from ..group.rekey_state import TopicCounts
from ..group.transactional import TransactionalPolicy
from ..messages.topics import Topic
from ..stages.rekey import RekeyStage
from .client import KafkaClient
from .librdkafka.errors import group_refusal
from .preflight import StartWait, ask_when_reachable
from .settings import KafkaSettings
from .topic_checks import require
from .topics import look

REFUSALS_MAX = 3
"""Consecutive refusals by Kafka, for reasons that waiting does not mend, after which the process ends."""
SENDS = (Topic.EVENTS, Topic.REKEY_STATE, Topic.DEAD_LETTER)
"""The topics that the process writes."""
DEAD_LETTER_CODES = ("internal", "size", "empty")
"""The codes of its dead letters beside those of span data."""


def rekey_over(
    client: GroupClient,
    names: Mapping[Topic, str],
    sources: RekeySources,
    runtime: RekeyRuntime,
    *,
    reads_logs: bool = False,
) -> GroupProcess:
    """Return the process over a client of the topic of spans; `sources` has none yet."""
    inputs = Inputs(client, runtime.metrics.kafka, runtime.report)
    driver = RekeyDriver(client, names, sources, inputs, runtime, reads_logs=reads_logs)
    policy = TransactionalPolicy(
        client, driver, inputs, runtime.metrics, names, REFUSALS_MAX, runtime.fault_point
    )
    return GroupProcess(client, policy, runtime, group_refusal)


def rekey_client(kafka: KafkaSettings, runtime: RekeyRuntime, *, reads_logs: bool) -> KafkaClient:
    """Return the process's client of Kafka."""
    beside = kafka.topic(Topic.LOGS) if reads_logs else None
    spans = kafka.topic(Topic.SPANS)
    return KafkaClient(kafka, PROCESS, spans, runtime.timeout_s, beside, runtime.instance)


def rekey_process(
    kafka: KafkaSettings, sessions: SessionSettings, runtime: RekeyRuntime, wait_s: float
) -> GroupProcess | None:
    """Return the process over the topics as they are; None where it is to end before a broker answers.

    Raises StreamError: TRL721 to TRL724 where settings, brokers or topics are not as they must be.
    """
    wait = StartWait(wait_s, runtime.stopping, runtime.report)
    found = ask_when_reachable(kafka, PROCESS, wait, lambda admin: look(admin, kafka))
    if found is None:
        return None
    require(found, kafka, Topic.SPANS, Topic.LOGS, *SENDS)
    names = {topic: kafka.topic(topic) for topic in Topic}
    counts = TopicCounts(found[Topic.SPANS].partitions, found[Topic.EVENTS].partitions)
    sources = RekeySources(RekeyStage(sessions, names), counts, kafka.message_bytes_max)
    reads_logs = Topic.LOGS in found
    if not reads_logs:
        hint = "make it with tracline stream topics --create, and start again, where spans lack their content"
        runtime.report(f"not reading log records: {kafka.logs_topic} is missing; {hint}")
    client = rekey_client(kafka, runtime, reads_logs=reads_logs)
    return rekey_over(client, names, sources, runtime, reads_logs=reads_logs)
