"""The settings of Kafka as librdkafka's clients take them."""

from __future__ import annotations

import ssl
from typing import Any

from .librdkafka.errors import log_refusal
from .settings import KafkaSettings, check, password, secret, ssl_context

RECONNECT_MS_MAX = 2_000
"""The most milliseconds that a client waits before it looks again whether a broker is back."""
REQUEST_MS = 10_000
"""The milliseconds that a client waits for an answer before it asks again."""
DELIVERY_MS = 12_000
"""The milliseconds that a producer tries to send a record."""
BATCH_BYTES = 1 << 20
"""The bytes that are sent to a partition at a time, before compression; larger records go alone.

Once five records of a partition are on their way, librdkafka (2.16) asks without a pause whether it may send
those that are left.
"""
LINGER_MS = 100
"""A sender sends what it has in the end, so waiting only makes fuller batches."""
RETRY_MS = 20
"""The milliseconds before the broker is asked again, as when it still writes the last transaction's end."""
FETCH_BYTES = 4 << 20
"""The bytes that are fetched of a partition at a time; a larger record is fetched alone."""
QUEUED_KIB = 2 * FETCH_BYTES >> 10
"""The KiB that a consumer may have fetched ahead: it fetches no more until they are polled."""
QUEUE_MS = 10
"""The milliseconds after which a consumer looks again whether there is room for another fetch."""
FETCH_WAIT_MS = 500
"""The milliseconds that a broker waits for the first record of a fetch."""
HEARTBEAT_MS = 3_000
TRANSACTION_S_MIN = 1.0
"""The least seconds after which librdkafka lets the broker abort a transaction."""
POLL_MS_MAX = 300_000
"""The milliseconds without a poll after which a client leaves its group by itself."""
ANSWER_BYTES_MAX = 1_000_000_000
"""The bytes of an answer above which a client takes it for damaged."""


def connecting(settings: KafkaSettings, process: str) -> dict[str, Any]:
    """Return the properties with which every client reaches the brokers.

    Raises StreamError (TRL721, TRL722).
    """
    check(settings)
    return {
        "bootstrap.servers": ",".join(settings.bootstrap_servers),
        "client.id": settings.group(process),
        "security.protocol": settings.security_protocol,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "socket.timeout.ms": REQUEST_MS,
        "socket.connection.setup.timeout.ms": REQUEST_MS,
        "receive.message.max.bytes": ANSWER_BYTES_MAX,
        # A broker that is away is reported once, and not by each attempt to connect to it.
        "log_level": 2,
        "error_cb": log_refusal,
        **_tls(settings),
        **_sasl(settings),
    }


def _tls(settings: KafkaSettings) -> dict[str, Any]:
    """Return the properties of TLS; without authorities of its own a client has those of Python's."""
    # The files are checked, so that the error names the one that cannot be used.
    if ssl_context(settings) is None:
        return {}
    system = ssl.get_default_verify_paths()
    properties: dict[str, Any] = {
        "ssl.ca.location": settings.ssl_ca_file or system.cafile or system.capath or "probe",
        "ssl.endpoint.identification.algorithm": "https" if settings.ssl_check_hostname else "none",
    }
    if settings.ssl_certificate_file is not None:
        properties["ssl.certificate.location"] = settings.ssl_certificate_file
        properties["ssl.key.location"] = settings.ssl_key_file or settings.ssl_certificate_file
    if settings.ssl_key_password_file is not None:
        properties["ssl.key.password"] = secret("ssl_key_password_file", settings.ssl_key_password_file)
    return properties


def _sasl(settings: KafkaSettings) -> dict[str, Any]:
    """Return the properties of SASL."""
    if settings.sasl_mechanism is None:
        return {}
    return {
        "sasl.mechanism": settings.sasl_mechanism,
        "sasl.username": settings.sasl_username,
        "sasl.password": password(settings),
    }


def producing(settings: KafkaSettings, process: str) -> dict[str, Any]:
    """Return the properties of a producer that loses nothing; errors as `connecting`.

    Keys go to the partitions that Kafka's own clients choose; librdkafka would choose others.
    """
    return {
        **connecting(settings, process),
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "compression.type": settings.compression,
        "message.max.bytes": settings.request_bytes_max,
        "batch.size": min(BATCH_BYTES, settings.request_bytes_max),
        "linger.ms": LINGER_MS,
        "message.timeout.ms": DELIVERY_MS,
        "delivery.report.only.error": True,
    }


def transaction_s(timeout_s: float) -> float:
    """Return the seconds that a transaction may take of a process that may be silent for so many."""
    return max(timeout_s, TRANSACTION_S_MIN)


def transacting(settings: KafkaSettings, process: str, instance: str, timeout_s: float) -> dict[str, Any]:
    """Return the properties of a transactional producer; errors as `connecting`.

    librdkafka lets no request and no record take longer than a transaction.
    """
    timeout_ms = round(transaction_s(timeout_s) * 1000)
    return {
        **producing(settings, process),
        "transactional.id": f"{settings.group(process)}-{instance}",
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": min(DELIVERY_MS, timeout_ms),
        "socket.timeout.ms": min(REQUEST_MS, timeout_ms),
        "retry.backoff.ms": RETRY_MS,
    }


def consuming(settings: KafkaSettings, process: str) -> dict[str, Any]:
    """Return the properties of a consumer in the process's group; errors as `connecting`.

    It reads what is committed, from the beginning where the group has no offset, and commits nothing itself.
    """
    return {
        **connecting(settings, process),
        "group.id": settings.group(process),
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # The end of a partition shows how far it is read behind aborted records and markers.
        "enable.partition.eof": True,
        "max.partition.fetch.bytes": FETCH_BYTES,
        "fetch.max.bytes": 2 * FETCH_BYTES,
        "queued.max.messages.kbytes": QUEUED_KIB,
        "fetch.queue.backoff.ms": QUEUE_MS,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
    }


def joining(settings: KafkaSettings, process: str, timeout_s: float) -> dict[str, Any]:
    """Return the properties of a consumer that joins the group; errors as `connecting`.

    The group revokes all partitions each time, so that each process reads its state again.
    """
    timeout_ms = round(timeout_s * 1000)
    return {
        **consuming(settings, process),
        "session.timeout.ms": timeout_ms,
        "heartbeat.interval.ms": min(HEARTBEAT_MS, timeout_ms // 4),
        "max.poll.interval.ms": max(POLL_MS_MAX, timeout_ms),
        "partition.assignment.strategy": "range",
    }
