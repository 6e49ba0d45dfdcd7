"""The Faust application of the monitor: its settings, and the parts of Faust that it replaces."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import faust

from ..care.live_chains import client_name
from ..settings import KafkaSettings, faust_broker
from .table import Tables
from .topics_of_state import MonitorTopics
from .transport import Progress, Transport

BUFFERED_MESSAGES = 128
"""Messages that Faust has read and the stream has not."""
BATCH_BYTES = 1 << 20
LINGER_S = 0.005
COMMIT_S = 1.0
REQUEST_S = 40.0
METADATA_MS = 5_000
"""The age of metadata at which a monitor asks for them again.

A monitor whose changelog was created a moment before may join its group before its broker has the topic. It
has no partition then, and joins again when the metadata have the topic.
"""


class App(faust.App):
    """A Faust app that reads and writes by the transport of this folder, and creates no folders."""

    progress: Progress

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    def _new_producer_transport(self) -> Transport:
        return Transport(self.conf.broker_producer, self)

    def _create_directories(self) -> None:
        """Do nothing: the partition stores create their own folders."""


def app_options(
    kafka: KafkaSettings, topics: MonitorTopics, timeout_s: float, chains: Collection[str]
) -> dict[str, Any]:
    """Return the settings of the app; `chains` are the digests of the monitor's chains."""
    named = {"broker_client_id": client_name(kafka, chains)} if chains else {}
    return {
        **faust_broker(kafka),
        **named,
        "autodiscover": False,
        "TableManager": Tables,
        "web_enabled": False,
        "topic_disable_leader": True,
        "topic_partitions": topics.partitions,
        "topic_replication_factor": topics.replicas,
        "processing_guarantee": "at_least_once",
        "table_standby_replicas": 0,
        "stream_wait_empty": True,
        "stream_buffer_maxsize": BUFFERED_MESSAGES,
        "stream_recovery_delay": 0.0,
        "consumer_auto_offset_reset": "earliest",
        "consumer_metadata_max_age_ms": METADATA_MS,
        "consumer_max_fetch_size": max(BATCH_BYTES, kafka.request_bytes_max),
        "producer_linger": LINGER_S,
        "producer_max_batch_size": BATCH_BYTES,
        "broker_commit_interval": COMMIT_S,
        "broker_session_timeout": timeout_s,
        "broker_heartbeat_interval": min(3.0, timeout_s / 4),
        "broker_request_timeout": max(REQUEST_S, 2 * timeout_s),
    }
