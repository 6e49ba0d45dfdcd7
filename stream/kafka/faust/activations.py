"""Reading ahead in a partition of events for activations, which may supersede the present one."""

from __future__ import annotations

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from ...messages.codec import Activation
from ...messages.superseded import activation_in
from ..care.dead_letters import reader_in_no_group, records_from
from ..preflight import refusal
from ..settings import KafkaSettings


def activations_after(kafka: KafkaSettings, topic: str, partition: int, offset: int) -> list[Activation]:
    """Return the activations behind an offset of a partition, up to its present end.

    Raises StreamError (TRL723) where Kafka does not answer.
    """
    consumer = reader_in_no_group(kafka)
    try:
        records = records_from(consumer, TopicPartition(topic, partition), offset + 1)
        found = (activation_in(record.value or b"") for record in records)
        return [activation for activation in found if activation is not None]
    except KafkaError as error:
        raise refusal(error, kafka) from error
    finally:
        consumer.close(autocommit=False)
