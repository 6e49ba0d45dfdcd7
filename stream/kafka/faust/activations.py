"""Activations: reading ahead in a partition of events for later ones, and the report of those in force."""

from __future__ import annotations

from collections.abc import Iterable

from ...group.broker_errors import KafkaError
from ...messages.codec import Activation
from ...messages.superseded import activation_in
from ..librdkafka.reader import TopicReader, records_from
from ..preflight import refusal
from ..properties import consuming
from ..settings import KafkaSettings

PROCESS = "monitor"


def activations_after(kafka: KafkaSettings, topic: str, partition: int, offset: int) -> list[Activation]:
    """Return the activations behind an offset of a partition, up to its present end.

    Raises StreamError (TRL723) where Kafka does not answer.
    """
    reader = TopicReader(consuming(kafka, PROCESS), topic)
    try:
        records = records_from(reader, partition, offset + 1)
        found = (activation_in(record.value or b"") for record in records)
        return [activation for activation in found if activation is not None]
    except KafkaError as error:
        raise refusal(error, kafka) from error
    finally:
        reader.close()


def under_other_rules(partitions: Iterable[int], *, names_chain: bool) -> str:
    """Return the report that rules other than those of the start are in force, which may name a chain."""
    text = f"partitions {listed(partitions)} go on under the rules in force there"
    hint = "bring these into force with: tracline stream activate PACK..."
    return f"{text}, not those of --rules; {hint}{' --predict CHAIN' if names_chain else ''}"


def listed(partitions: Iterable[int]) -> str:
    """Return the partitions in their order, for a report."""
    return ", ".join(map(str, sorted(partitions)))
