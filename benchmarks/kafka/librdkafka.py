"""The minimal cost of two clients: `PYTHONPATH=. python benchmarks/kafka/librdkafka.py [SPANS]`.

Copies the desk's messages in transactions over a real broker, with kafka-python and with librdkafka, each in
turn, and prints microseconds of processor time a span and a message. tracline does not need librdkafka's
client, so install it first: `pip install confluent-kafka`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tracline.examples.local_kafka import Broker, missing

from benchmarks.desk_spans import desk_spans, traces
from benchmarks.kafka.floor import AT_ONCE, SOURCE, TARGET, WARM, copied, count_of, send
from tests.support.otlp_requests import to_otlp

SPANS = 20_000
ROUNDS = 3


def main() -> None:
    """Run the benchmark and print its figures."""
    if lack := missing():
        sys.exit(lack)
    try:
        client: Any = importlib.import_module("confluent_kafka")
    except ImportError:
        sys.exit("install it first: pip install confluent-kafka")
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else SPANS
    messages = [to_otlp(trace).SerializeToString() for trace in traces(desk_spans(wanted))]
    spans, counted = sum(map(count_of, messages[WARM:])), len(messages) - WARM
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "kafka")
        broker.start()
        try:
            send(broker, messages)
            for number in range(ROUNDS):
                now = copied(broker, len(messages)) * 1e6
                instead = copied_with(client, broker, len(messages), f"floor-{number}") * 1e6
                print(f"kafka-python {now / spans:.1f} us a span, {now / counted:.1f} a message;", end=" ")
                print(f"librdkafka {instead / spans:.1f}, {instead / counted:.1f};", end=" ")
                print(f"{now / instead:.1f} times")
        finally:
            broker.kill()


def copied_with(client: Any, broker: Broker, count: int, group: str) -> float:
    """Copy that many messages with their offsets; return the processor seconds after the first `WARM`."""
    reached = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    reading = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer: Any = client.Consumer({**reached, **reading})
    consumer.assign([client.TopicPartition(SOURCE, 0, 0)])
    writing = {"transactional.id": group, "compression.type": "zstd", "linger.ms": 5, "batch.size": 1 << 20}
    producer: Any = client.Producer({**reached, **writing})
    producer.init_transactions()
    done, began = 0, time.process_time()
    while done < count:
        records: Any = consumer.consume(WARM - done if done < WARM else AT_ONCE, 0.2)
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.produce(TARGET, record.value(), partition=0)
        producer.flush()
        offset = client.TopicPartition(SOURCE, 0, records[-1].offset() + 1)
        producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata())
        producer.commit_transaction()
        done += len(records)
        if done == WARM:
            began = time.process_time()
    spent = time.process_time() - began
    consumer.close()
    return spent


if __name__ == "__main__":
    main()
