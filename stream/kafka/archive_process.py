"""The archive process: copies judged events to an archive, whose manifest has the offsets."""

from __future__ import annotations

from collections.abc import Mapping

from ...archive.shared_writer import LiveArchive
from ..group.archive import ArchiveRuntime, ManifestPolicy
from ..group.client import GroupClient
from ..group.process import GroupProcess
from ..messages.codec import DAMAGED_CODE
from ..messages.topics import Topic
from ..stages.archive import ChunkLimits
from .client import KafkaClient
from .librdkafka.admin import Admin
from .librdkafka.errors import group_refusal
from .preflight import StartWait, ask_when_reachable
from .settings import KafkaSettings
from .topic_checks import require
from .topics import look

PROCESS = "archive"
DEAD_LETTER_CODES = (DAMAGED_CODE,)
"""The codes of the archiver's dead letters."""


def archive_over(
    client: GroupClient,
    names: Mapping[Topic, str],
    archive: LiveArchive,
    runtime: ArchiveRuntime,
    limits: ChunkLimits,
) -> GroupProcess:
    """Return the process over a client of the topic of judged events."""
    return GroupProcess(
        client, ManifestPolicy(client, names, archive, runtime, limits), runtime, group_refusal
    )


def archive_process(
    kafka: KafkaSettings, archive: LiveArchive, runtime: ArchiveRuntime, limits: ChunkLimits
) -> GroupProcess:
    """Return the process over Kafka. It raises StreamError (TRL731, TRL751), and what the archive raises."""
    names = {topic: kafka.topic(topic) for topic in Topic}
    client = KafkaClient(kafka, PROCESS, names[Topic.JUDGED], runtime.timeout_s)
    return archive_over(client, names, archive, runtime, limits)


def source_of(kafka: KafkaSettings, wait: StartWait) -> tuple[str, str] | None:
    """Return the name of the topic of judged events as a source, and what identifies it: cluster and topic.

    None where the process is to end before a broker answers. Raises StreamError: TRL721 to TRL724 where
    settings, brokers or topics are not as they must be.
    """
    topic = kafka.topic(Topic.JUDGED)

    def ask(admin: Admin) -> str:
        require(look(admin, kafka), kafka, Topic.JUDGED, Topic.DEAD_LETTER)
        return admin.cluster_id()

    cluster = ask_when_reachable(kafka, PROCESS, wait, ask)
    return None if cluster is None else (f"kafka-{topic}", f"{cluster}/{topic}")
