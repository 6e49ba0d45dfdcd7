"""The contract of a client of a group: the one in memory and that of a real Kafka behave the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from tracline.stream.error import StreamError
from tracline.stream.group.broker_errors import (
    FENCED,
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
)
from tracline.stream.group.client import GroupClient, OutgoingRecord, TopicPartition

from .client_harness import BYTES_MAX, PARTITIONS, Harness, InMemory, join, on_kafka, poll


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.slow)])
def harness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """A broker with its topics; on Kafka members learn of a rebalance within a fifth of a second."""
    monkeypatch.setattr("tracline.stream.kafka.properties.HEARTBEAT_MS", 200)
    if request.param == "memory":
        made: Harness = InMemory()
        _create(made)
        yield made
        return
    with on_kafka(request.getfixturevalue("kafka")) as made:
        _create(made)
        yield made


def _create(harness: Harness) -> None:
    for topic in ("work", "beside", "state"):
        harness.create(topic)


def place(harness: Harness, topic: str, partition: int = 0) -> TopicPartition:
    """Return a partition of a topic."""
    return TopicPartition(harness.name(topic), partition)


def write(harness: Harness, client: GroupClient, *values: bytes, offset: int | None = None) -> None:
    """Commit records to partition 0 of `state` in a transaction, with the group's offset of `work`."""
    client.transactions.begin()
    client.transactions.produce(outgoing(harness, *values))
    if offset is not None:
        client.transactions.offsets({place(harness, "work"): offset}, client.member())
    client.transactions.commit()


def outgoing(harness: Harness, *values: bytes) -> list[OutgoingRecord]:
    """Return records for partition 0 of `state`, whose keys are their values."""
    return [OutgoingRecord(harness.name("state"), 0, value[:1], value) for value in values]


def going_on() -> bool:
    """Return true: nothing ends."""
    return True


def values_of(records: list[Any], partition: int = 0) -> list[bytes]:
    """Return the values of the records of a partition."""
    return [record.value for record in records if record.partition == partition]


def test_a_member_alone_owns_every_partition_and_reads_each_in_order(harness: Harness) -> None:
    """Its group has committed nothing, so it begins with the first record of each partition."""
    client = harness.client()
    join(harness, client)
    assert client.assignment.owned == set(range(PARTITIONS))
    harness.send("work", 0, b"a", b"b")
    harness.send("work", 1, b"c")
    records = poll(harness, client, "work", 3)
    assert (values_of(records), values_of(records, 1)) == ([b"a", b"b"], [b"c"])
    assert [record.offset for record in records if record.partition == 0] == [0, 1]
    assert client.committed(place(harness, "work")) is None
    assert client.position(place(harness, "work")) == client.high_water(place(harness, "work")) == 2
    assert client.unread([place(harness, "work")]) == {place(harness, "work"): 0}


def test_offsets_are_committed_with_the_records_of_a_transaction(harness: Harness) -> None:
    """Another member then has both."""
    client = harness.client()
    join(harness, client)
    write(harness, client, b"one", b"two", offset=7)
    assert client.committed(place(harness, "work")) == 7
    assert client.read_compacted(harness.name("state"), [0], going_on) == {0: {"o": b"one", "t": b"two"}}


def test_an_open_transaction_holds_offsets_and_records_back(harness: Harness) -> None:
    """Nobody reads a record behind one that may still be aborted, nor an offset that may still change."""
    client, second = harness.client(), harness.client()
    join(harness, client, second)
    assigned = {place(harness, "work", number): 0 for number in second.assignment.owned}
    assert second.read_from({**assigned, place(harness, "beside"): 0})
    client.transactions.begin()
    client.transactions.produce([OutgoingRecord(harness.name("beside"), 0, None, b"open")])
    client.transactions.offsets({place(harness, "work"): 3}, client.member())
    harness.send("beside", 0, b"later")
    with pytest.raises(KafkaTimeoutError):
        second.committed(place(harness, "work"))
    assert not second.poll(harness.name("beside"), 0.5, 10)
    client.transactions.commit()
    assert values_of(poll(harness, second, "beside", 2)) == [b"open", b"later"]
    assert second.committed(place(harness, "work")) == 3


def test_a_second_producer_of_an_instance_fences_the_first(harness: Harness) -> None:
    """The open transaction of the first one is aborted; it gets TRL733, and nobody reads its records."""
    first = harness.client("same")
    join(harness, first)
    first.transactions.begin()
    first.transactions.produce(outgoing(harness, b"lost"))
    second = harness.client("same")
    with pytest.raises(FENCED) as fenced:
        first.transactions.produce(outgoing(harness, b"more"))
    with pytest.raises(StreamError) as refused:
        first.transactions.abandon(fenced.value)
    assert refused.value.code == "TRL733"
    write(harness, second, b"kept")
    assert second.read_compacted(harness.name("state"), [0], going_on) == {0: {"k": b"kept"}}


def test_offsets_of_an_earlier_generation_are_rejected(harness: Harness) -> None:
    """A member joins: what the first one began with its old membership cannot be committed."""
    first = harness.client()
    join(harness, first)
    member, count = first.member(), first.assignment.count
    second = harness.client()
    join(harness, first, second)
    assert first.assignment.count > count
    assert first.assignment.owned.isdisjoint(second.assignment.owned)
    first.transactions.begin()
    first.transactions.produce(outgoing(harness, b"late"))
    with pytest.raises(CommitFailedError) as rejected:
        first.transactions.offsets({place(harness, "work"): 1}, member)
    first.transactions.abandon(rejected.value)
    assert second.committed(place(harness, "work")) is None
    first.open()
    assert second.read_compacted(harness.name("state"), [0], going_on) == {0: {}}


def test_a_member_that_leaves_gives_its_partitions_to_the_others(harness: Harness) -> None:
    """They have all of them soon."""
    first, second = harness.client(), harness.client()
    join(harness, first, second)
    second.close()
    join(harness, first)
    assert first.assignment.owned == set(range(PARTITIONS))


def test_a_silent_member_loses_its_partitions(harness: Harness) -> None:
    """A partition that is not its own any more cannot be read from an offset on."""
    first = harness.client()
    join(harness, first)
    assert first.read_from({place(harness, "work"): 0, place(harness, "work", 1): 0})
    assert not first.read_from({place(harness, "work", PARTITIONS): 0})
    second = harness.client()
    join(harness, first, second)
    [gone] = second.assignment.owned
    assert not first.read_from({place(harness, "work", gone): 0})


def test_a_compacted_topic_has_the_last_value_of_each_key(harness: Harness) -> None:
    """A record without a value forgets its key; one without a key is none of ours (TRL731)."""
    client = harness.client()
    join(harness, client)
    harness.send("state", 0, b"1", b"2", key=b"a")
    harness.send("state", 0, b"1", None, key=b"b")
    harness.send("state", 1, b"3", key=b"c")
    assert client.read_compacted(harness.name("state"), [0, 1], going_on) == {0: {"a": b"2"}, 1: {"c": b"3"}}
    assert client.read_compacted(harness.name("state"), [0], lambda: False) is None
    harness.send("state", 1, b"4")
    with pytest.raises(StreamError) as refused:
        client.read_compacted(harness.name("state"), [1], going_on)
    assert refused.value.code == "TRL731"


def test_a_topic_that_is_created_again_is_another_one(harness: Harness) -> None:
    """So it is though it has as many records; one that ends before what was read is no other."""
    client = harness.client()
    join(harness, client)
    harness.send("work", 0, b"a", b"b")
    name = harness.name("work")
    assert client.find_loss(name, {0: 2}) is None
    short = client.find_loss(name, {0: 3})
    assert short is not None
    assert not short.is_recreated
    assert "ends at offset 2, and was read up to 3" in short.what
    harness.delete("work")
    harness.create("work")
    harness.send("work", 0, b"a", b"b")
    loss = client.find_loss(name, {0: 2})
    assert loss is not None
    assert loss.is_recreated


def test_a_deleted_topic_takes_the_offsets_of_groups_with_it(harness: Harness) -> None:
    """One that is created again under its name is read from its beginning."""
    client = harness.client()
    join(harness, client)
    offset = {place(harness, "beside"): 4}
    client.commit(offset)
    harness.delete("beside")
    harness.create("beside")
    harness.until("the offset is gone", lambda: client.committed(*offset) is None)


def test_deleted_records_are_skipped(harness: Harness) -> None:
    """The first record that is there comes next, and its offset shows the gap."""
    harness.send("work", 0, b"a", b"b", b"c")
    harness.delete_records("work", 0, 2)
    client = harness.client()
    join(harness, client)
    assert client.first(place(harness, "work")) == 2
    assert client.read_from({place(harness, "work"): 0, place(harness, "work", 1): 0})
    assert [record.offset for record in poll(harness, client, "work", 1)] == [2]


def test_a_paused_partition_waits(harness: Harness) -> None:
    """It goes on where it was."""
    client = harness.client()
    join(harness, client)
    client.pause(place(harness, "work"), is_paused=True)
    harness.send("work", 0, b"a")
    harness.send("work", 1, b"b")
    assert values_of(poll(harness, client, "work", 1), 1) == [b"b"]
    assert not client.poll(harness.name("work"), 0.2, 10)
    client.pause(place(harness, "work"), is_paused=False)
    assert values_of(poll(harness, client, "work", 1)) == [b"a"]


def test_the_second_topic_is_read_where_it_is_chosen(harness: Harness) -> None:
    """No other partition of it is; a time gives the first record that is not older."""
    client = harness.client()
    join(harness, client)
    harness.send("beside", 0, b"a")
    harness.send("beside", 1, b"b")
    assert not client.poll(harness.name("beside"), 0.2, 10)
    assigned = {place(harness, "work", number): 0 for number in range(PARTITIONS)}
    assert client.read_from({**assigned, place(harness, "beside", 1): 0})
    [record] = poll(harness, client, "beside", 1)
    assert record.value == b"b"
    assert client.first_since(place(harness, "beside", 1), record.timestamp) == 0
    assert client.first_since(place(harness, "beside", 1), record.timestamp + 1_000) == 1


def test_offsets_may_be_committed_without_a_transaction(harness: Harness) -> None:
    """So may records be sent."""
    client = harness.client()
    join(harness, client)
    client.commit({place(harness, "work"): 4})
    assert client.committed(place(harness, "work")) == 4
    client.produce(OutgoingRecord(harness.name("state"), 1, b"k", b"v"))
    assert client.read_compacted(harness.name("state"), [1], going_on) == {1: {"k": b"v"}}


def test_a_record_that_is_too_large_is_refused(harness: Harness) -> None:
    """Nothing of its transaction is read."""
    client = harness.client()
    join(harness, client)
    client.transactions.begin()
    client.transactions.produce(outgoing(harness, b"small"))
    large = Random(1).randbytes(2 * BYTES_MAX)
    with pytest.raises(MessageSizeTooLargeError) as refused:
        client.transactions.produce(outgoing(harness, large))
    assert isinstance(client.transactions.abandon(refused.value), KafkaError)
    client.open()
    assert client.read_compacted(harness.name("state"), [0], going_on) == {0: {}}
