"""Topics as the pipeline needs them, on a real broker: created, checked, and their faults reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from tracline.examples.local_kafka import free_port
from tracline.stream.error import StreamError
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.librdkafka.admin import Admin, NewTopicLayout
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topic_checks import TopicFlaw, check, require
from tracline.stream.kafka.topics import OF_COLLECTORS, SPECS, FoundTopic, look
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from ..support.brokers.sending import sending

pytestmark = pytest.mark.slow
WAIT_S = 20.0


def altering(kafka: KafkaSettings) -> AdminClient:
    """librdkafka's own client, which changes what tracline does not."""
    return AdminClient({"bootstrap.servers": ",".join(kafka.bootstrap_servers), "log_level": 0})


def changed(
    admin: Admin, settings: KafkaSettings, until: Callable[[dict[Topic, FoundTopic]], bool]
) -> list[TopicFlaw]:
    """The flaws, once a change that the broker has accepted can be seen."""
    deadline = time.monotonic() + WAIT_S
    while not until(found := look(admin, settings)):
        assert time.monotonic() < deadline, found
    return check(found, settings)


def test_what_is_missing_is_reported_and_made(kafka: KafkaSettings) -> None:
    """Without topics every one is missing; those that `create` makes have no flaw; it makes none twice."""
    with administering(kafka) as admin:
        missing = check(look(admin, kafka), kafka)
        assert [flaw.topic for flaw in missing] == [kafka.topic(spec.topic) for spec in SPECS]
        assert {flaw.what for flaw in missing if flaw.harmful} == {"is missing"}
        assert [flaw.topic for flaw in missing if not flaw.harmful] == [
            kafka.logs_topic,
            kafka.topic(Topic.RISK),
        ]
        made = create(admin, kafka, partitions=3)
        assert made == [kafka.topic(spec.topic) for spec in SPECS]
        found = look(admin, kafka)
        assert check(found, kafka) == []
        assert create(admin, kafka, partitions=5) == []
    assert {topic: at.partitions for topic, at in found.items()} == {
        Topic.SPANS: 3,
        Topic.LOGS: 3,
        Topic.REKEY_STATE: 3,
        Topic.EVENTS: 3,
        Topic.JUDGED: 3,
        Topic.VERDICTS: 3,
        Topic.RISK: 3,
        Topic.DEAD_LETTER: 1,
        Topic.ALERTS: 1,
        Topic.ALERTS_STATE: 1,
    }
    assert found[Topic.REKEY_STATE].config["cleanup.policy"] == "compact"
    assert found[Topic.EVENTS].config["retention.ms"] == str(7 * 24 * 3600 * 1000)


def test_a_clock_that_is_ahead_changes_no_other_time(topics: KafkaSettings) -> None:
    """A producer's timestamp does not count on a topic that `create` made."""
    ahead = time.time_ns() // 1_000_000 + 50 * 60_000
    with sending(topics) as producer:
        producer.produce(topics.spans_topic, b"{}", b"key", 0, timestamp=ahead)
    (record,) = read(topics, topics.spans_topic)
    assert record.timestamp < ahead - 40 * 60_000


def test_a_collectors_topic_decides_how_many_states_there_are(kafka: KafkaSettings) -> None:
    """If the topic of spans exists, its number of partitions holds, not the one that was asked for."""
    with administering(kafka) as admin:
        assert not admin.create({kafka.spans_topic: NewTopicLayout(2)})
        assert kafka.spans_topic not in create(admin, kafka, partitions=5)
        found = look(admin, kafka)
    assert (found[Topic.REKEY_STATE].partitions, found[Topic.EVENTS].partitions) == (2, 5)
    assert not [flaw for flaw in check(found, kafka) if flaw.harmful]


def test_topics_that_go_together_must_have_as_many_partitions(topics: KafkaSettings) -> None:
    """A topic that grew is named, with the one that it goes with; nothing is made, no process starts."""
    judged = topics.topic(Topic.JUDGED)
    with administering(topics) as admin:
        admin.delete(topics.topic(Topic.ALERTS))
        client = altering(topics)
        client.create_partitions([NewPartitions(judged, 6)])[judged].result()
        changed(admin, topics, lambda found: found[Topic.JUDGED].partitions == 6)
        found = look(admin, topics)
        with pytest.raises(StreamError, match=f"{judged} has 6 partitions, and .*events 4") as caught:
            create(admin, topics)
    assert caught.value.code == "TRL724"
    with pytest.raises(StreamError, match="6 partitions"):
        require(found, topics, Topic.EVENTS, Topic.JUDGED)
    require(found, topics, Topic.SPANS, Topic.EVENTS)


def test_a_topic_of_logs_that_is_missing_is_no_error_and_an_uneven_one_is(topics: KafkaSettings) -> None:
    """Without it everything works as before; with other partitions records would miss their spans."""
    with administering(topics) as admin:
        admin.delete(topics.logs_topic)
        (flaw,) = changed(admin, topics, lambda found: Topic.LOGS not in found)
        assert (flaw.topic, flaw.harmful) == (topics.logs_topic, False)
        require(look(admin, topics), topics, Topic.SPANS, Topic.LOGS)
        assert not admin.create({topics.logs_topic: NewTopicLayout(2)})
        found = look(admin, topics)
        with pytest.raises(
            StreamError, match=f"{topics.logs_topic} has 2 partitions, and .*spans 4"
        ) as caught:
            require(found, topics, Topic.SPANS, Topic.LOGS)
        assert "delete this topic" in caught.value.hint
        with pytest.raises(StreamError, match="has 2 partitions"):
            create(admin, topics)


def test_a_configuration_that_loses_records_is_harmful(topics: KafkaSettings) -> None:
    """A state topic that is deleted, a limit below the messages'; another retention, which may be meant."""
    changes = {
        Topic.REKEY_STATE: {"cleanup.policy": "delete"},
        Topic.EVENTS: {"max.message.bytes": "1000"},
        Topic.JUDGED: {"retention.ms": "1000"},
        Topic.ALERTS: {"retention.bytes": "1000"},
        Topic.VERDICTS: {"max.message.bytes": "50000000"},
    }
    asked = [
        ConfigResource(
            ResourceType.TOPIC,
            topics.topic(of),
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in to.items()
            ],
        )
        for of, to in changes.items()
    ]
    with administering(topics) as admin:
        client = altering(topics)
        for answer in client.incremental_alter_configs(asked).values():
            answer.result()
        flaws = changed(
            admin,
            topics,
            lambda found: all(found[of].config.items() >= to.items() for of, to in changes.items()),
        )
    reported = {(flaw.topic.rsplit(".")[-1], flaw.what.split("=")[0], flaw.harmful) for flaw in flaws}
    assert reported == {
        ("rekey-state", "has cleanup.policy", True),
        ("events", "has max.message.bytes", True),
        ("judged", "has retention.ms", False),
        ("alerts", "has retention.bytes", False),
    }


def test_larger_messages_need_larger_limits(topics: KafkaSettings) -> None:
    """Settings that grew after the topics were made are reported of every topic that tracline writes."""
    larger = replace(topics, message_bytes_max=5_000_000)
    with administering(topics) as admin:
        flaws = check(look(admin, topics), larger)
    assert {flaw.topic for flaw in flaws if flaw.harmful} == {
        topics.topic(topic) for topic in Topic if topic not in OF_COLLECTORS
    }


def test_what_the_broker_refuses_is_reported(kafka: KafkaSettings) -> None:
    """More replicas than there are brokers: its own words, and what to look at."""
    with administering(kafka) as admin, pytest.raises(StreamError, match="cannot be made") as caught:
        create(admin, kafka, replicas=9)
    assert caught.value.code == "TRL724"
    assert "replication" in str(caught.value)


def test_no_broker_is_reported() -> None:
    """With no listener, the error names the addresses that were tried, and what to check."""
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StreamError, match=address) as caught, administering(KafkaSettings((address,))):
        raise AssertionError("somebody answered")
    assert caught.value.code == "TRL723"
    assert "refused" in str(caught.value)
