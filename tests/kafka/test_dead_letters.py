"""`tracline stream dead-letters` against a real broker: what is listed, and what is sent once more."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
from tracline.schemas.records.dead_letter import DeadLetter, encode_dead_letter
from tracline.schemas.time import NS
from tracline.stream.group.client import OutgoingRecord, TopicPartition
from tracline.stream.kafka.care.dead_letters import HEADER
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import Activation, encode
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from ..support.brokers.sending import send_records, sending
from ..support.processes.stage import ran

pytestmark = pytest.mark.slow

TIME = 1_770_000_000 * NS
DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]")
VALUES = [b"secret zero", b"secret one", b"secret two"]


def letter(topic: str, partition: int, offset: int, value: bytes, **changes: object) -> DeadLetter:
    """A letter about the record of that value."""
    fields: dict[str, object] = {
        "process": "rekey",
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "time": TIME + offset * NS,
        "place": "span 1",
        "code": "otlp-id",
        "reason": "has no span id",
        "sha256": hashlib.sha256(value).hexdigest(),
    }
    return DeadLetter(**(fields | changes))


def prepared(kafka: KafkaSettings) -> None:
    """Three records of spans in partition 2, letters about them, one about judged events, and no letter."""
    spans, judged = kafka.topic(Topic.SPANS), kafka.topic(Topic.JUDGED)
    dead = kafka.topic(Topic.DEAD_LETTER)
    letters = [
        letter(spans, 2, 0, VALUES[0], code="size"),
        letter(spans, 2, 1, VALUES[1]),
        letter(spans, 2, 1, VALUES[1], place="span 2", code="otlp-time"),
        letter(judged, 0, 0, b"", process="archive", code="TRL731"),
        letter(spans, 2, 2, b"what stood there before"),
        letter(spans, 7, 0, b"", process="monitor"),
    ]
    with sending(kafka) as producer:
        for value in VALUES:
            producer.produce(spans, value, b"trace", 2, headers=[("own", b"1")])
        for dead_letter in letters:
            producer.produce(dead, encode_dead_letter(dead_letter))
        producer.produce(dead, b"no letter")
        # A time that no text can hold.
        producer.produce(dead, encode_dead_letter(letters[0]).replace(str(TIME).encode(), b"9" * 19))


def test_letters_are_listed_without_what_is_in_the_records(topics: KafkaSettings) -> None:
    """All, or those of a code, a process, a time, some numbers; never the payload."""
    prepared(topics)
    done = ran(topics, "dead-letters", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "2 records of the topic" in done.stderr
    assert "secret" not in done.stdout
    found = json.loads(done.stdout)
    assert [row["number"] for row in found] == list(range(6))
    spans = topics.topic(Topic.SPANS)
    assert {name: found[1][name] for name in ("process", "code", "topic", "partition", "offset", "time")} == {
        "process": "rekey",
        "code": "otlp-id",
        "topic": spans,
        "partition": 2,
        "offset": 1,
        "time": "2026-02-02T02:40:01.000000000Z",
    }
    asked = {
        ("--code", "size"): [0],
        ("--process", "archive"): [3],
        ("--since", "2026-02-02T02:40:01Z"): [1, 2, 4],
        ("--numbers", "2-4", "--process", "rekey"): [2, 4],
        ("--numbers", "5"): [5],
    }
    for options, numbers in asked.items():
        lines = ran(topics, "dead-letters", "--format", "jsonl", *options).stdout.splitlines()
        assert [json.loads(line)["number"] for line in lines] == numbers, options
    table = ran(topics, "dead-letters", "--code", "size").stdout
    assert re.search(r"0 +rekey +size", table)
    assert "secret" not in table


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
def test_letters_cannot_drive_the_terminal(topics: KafkaSettings, form: str) -> None:
    """A writer to the topic may write escapes; they are cleaned or escaped in every format."""
    dead_letter = letter("spans", 0, 0, b"", place="\x1b]0;owned\x07\u202e", reason="\u009b2J[bold]")
    topic = topics.topic(Topic.DEAD_LETTER)
    send_records(topics, [OutgoingRecord(topic, None, None, encode_dead_letter(dead_letter))])
    done = ran(topics, "dead-letters", "--format", form)
    assert "owned" in "".join(done.stdout.split())
    assert not DANGEROUS.search(done.stdout + done.stderr)


def test_records_are_sent_once_more_where_they_can_be(topics: KafkaSettings) -> None:
    """Two dead letters about a record send it once, with key, headers and partition; the others name why."""
    prepared(topics)
    spans = topics.topic(Topic.SPANS)
    with administering(topics) as admin:
        admin.delete_records({TopicPartition(spans, 2): 1})
    done = ran(topics, "dead-letters", "--replay", "--numbers", "0-5", "--format", "json")
    assert done.returncode == 1
    assert "replayed 1 of 5 records" in done.stderr
    outcomes = {
        (result["topic"], result["partition"], result["offset"]): result["outcome"]
        for result in json.loads(done.stdout)
    }
    assert outcomes == {
        (spans, 2, 0): "gone",
        (spans, 2, 1): "replayed",
        (spans, 2, 2): "other",
        (spans, 7, 0): "gone",
        (topics.topic(Topic.JUDGED), 0, 0): "refused",
    }
    records = read(topics, spans)
    assert [(result.partition, result.offset, result.value) for result in records[-1:]] == [(2, 3, VALUES[1])]
    assert records[-1].key == b"trace"
    assert list(records[-1].headers) == [("own", b"1"), (HEADER, f"{spans}/2/1".encode())]
    again = ran(topics, "dead-letters", "--replay", "--code", "otlp-time")
    assert again.returncode == 0
    assert "secret" not in done.stdout + done.stderr + again.stdout + again.stderr


def test_rules_are_not_brought_into_force_by_a_replay(topics: KafkaSettings) -> None:
    """One partition would have them again, and at another place than the others: they are to be activated."""
    events, value = topics.topic(Topic.EVENTS), encode(Activation({"old": "pack: old\n"}))
    dead_letter = letter(events, 1, 0, value, process="monitor", code="damaged")
    noted = OutgoingRecord(topics.topic(Topic.DEAD_LETTER), None, None, encode_dead_letter(dead_letter))
    send_records(topics, [OutgoingRecord(events, 1, None, value), noted])
    done = ran(topics, "dead-letters", "--replay", "--code", "damaged", "--format", "json")
    assert done.returncode == 1, done.stderr
    assert [result["outcome"] for result in json.loads(done.stdout)] == ["refused"]
    assert len(read(topics, events)) == 1


def test_a_replay_names_its_records(topics: KafkaSettings) -> None:
    """Everything at once is hardly meant."""
    done = ran(topics, "dead-letters", "--replay")
    assert done.returncode == 2
    assert "--replay requires --code, --process or --numbers" in done.stderr
