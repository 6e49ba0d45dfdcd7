"""The error of a transaction that failed."""

from __future__ import annotations

import pytest
from tracline.stream.error import StreamError
from tracline.stream.group.broker_errors import FENCED, KafkaError
from tracline.stream.group.client import OutgoingRecord
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.transactions import Transactions
from tracline.stream.messages.topics import Topic

pytestmark = pytest.mark.slow


@pytest.fixture
def ended(topics: KafkaSettings) -> Transactions:
    """A process whose transaction another one of its name has ended, and which knows of that."""
    first, second = (Transactions(topics, "rekey", "same", 30) for _ in range(2))
    first.open()
    first.begin()
    second.open()
    with pytest.raises(FENCED):
        first.produce([OutgoingRecord(topics.topic(Topic.EVENTS), 0, None, b"spans")])
    second.discard()
    return first


def test_the_reason_of_a_failure_is_reported_whatever_is_asked_next(ended: Transactions) -> None:
    """Another process has ended the transaction: it is no reason to begin again (TRL733)."""
    with pytest.raises(KafkaError) as caught:
        ended.commit()
    with pytest.raises(StreamError) as refused:
        ended.abandon(caught.value)
    assert refused.value.code == "TRL733"
    assert not ended.is_open
