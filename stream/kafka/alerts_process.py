"""The alerts process: reads verdicts, writes alerts, and delivers what it has written.

The group divides the topic of alerts, which has one partition: the process that owns it works, and others
wait to take over. Verdicts' offsets, the state behind them and the alerts that come of them are in one
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..group.alerts import AlertsDriver, AlertsRuntime
from ..group.client import GroupClient
from ..group.inputs import Inputs
from ..group.process import GroupProcess
from ..group.transactional import TransactionalPolicy
from ..messages.codec import DAMAGED_CODE
from ..messages.topics import Topic
from ..stages.alert import PROCESS
from .client import KafkaClient
from .librdkafka.errors import group_refusal
from .preflight import StartWait, ask_when_reachable
from .settings import KafkaSettings
from .topic_checks import require
from .topics import look

SENDS = (Topic.ALERTS, Topic.ALERTS_STATE, Topic.DEAD_LETTER)
"""The topics that the process writes."""
DEAD_LETTER_CODES = (DAMAGED_CODE, "TRL764")
"""The codes of its dead letters."""
REFUSALS_MAX = 5
"""Consecutive refusals by Kafka, for reasons that waiting does not mend, after which the process ends."""


def alerts_over(
    client: GroupClient, names: Mapping[Topic, str], partitions: int, runtime: AlertsRuntime
) -> GroupProcess:
    """Return the process over a client of the topic of alerts, with that of verdicts beside it."""
    inputs = Inputs(client, runtime.metrics.kafka, runtime.report)
    driver = AlertsDriver(client, names, partitions, inputs, runtime)
    policy = TransactionalPolicy(
        client, driver, inputs, runtime.metrics, names, REFUSALS_MAX, runtime.fault_point
    )
    return GroupProcess(client, policy, runtime, group_refusal)


def alerts_process(kafka: KafkaSettings, runtime: AlertsRuntime, wait_s: float) -> GroupProcess | None:
    """Return the process over the topics as they are; None where it is to end before a broker answers.

    Raises StreamError: TRL721 to TRL724 where settings, brokers or topics are not as they must be.
    """
    wait = StartWait(wait_s, runtime.stopping, runtime.report)
    found = ask_when_reachable(kafka, PROCESS, wait, lambda admin: look(admin, kafka))
    if found is None:
        return None
    require(found, kafka, Topic.VERDICTS, *SENDS)
    names = {topic: kafka.topic(topic) for topic in Topic}
    client = KafkaClient(
        kafka, PROCESS, names[Topic.ALERTS], runtime.timeout_s, names[Topic.VERDICTS], runtime.instance
    )
    return alerts_over(client, names, found[Topic.VERDICTS].partitions, runtime)
