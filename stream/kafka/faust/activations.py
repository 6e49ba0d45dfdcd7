"""Reading ahead in a partition of events for activations, which may supersede the present one."""

from __future__ import annotations

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
