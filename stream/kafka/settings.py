"""The settings of Kafka, `[kafka]` of `tracline.toml`: addresses, and names of topics, groups and clients.

The command line loads them; this module checks them, and turns them into the arguments of aiokafka and of
Faust. `properties.py` has those of librdkafka.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from ...schemas.settings import NonEmpty
from ..error import StreamError
from ..messages.topics import Topic

KafkaName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
"""The names that Kafka allows for a topic, with room for a suffix."""
BrokerAddress = Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/,\[\]]+):[0-9]{1,5}$")]
Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

REQUEST_ROOM_BYTES = 131_072
"""The bytes of a request, and of a record, beside the value: keys, headers, one event too many."""


@dataclass(frozen=True)
class KafkaSettings:
    """`[kafka]` of `tracline.toml`. The password is not in its `repr`.

    `bootstrap_servers`: `host:port` of some brokers. `security_protocol` and the next fields: TLS and SASL;
    files are PEM, `ssl_ca_file` None means the system's authorities; a password file's last line break does
    not count. `prefix`: what every topic, group, client and transaction is named by (`tracline.events`,
    `tracline-rekey`), but `spans_topic` and `logs_topic`, which collectors write. `message_bytes_max`: about
    how large a message may be before compression. `compression`: that of what tracline sends.
    `on_rule_change`: whether an open session finishes under its first rules, or restarts under the new ones.
    `store`: where the monitor has its state between two reads of Kafka; `data_folder`: where it puts it on
    disk.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    bootstrap_servers: tuple[BrokerAddress, ...] = ("127.0.0.1:9092",)
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_ca_file: NonEmpty | None = None
    ssl_certificate_file: NonEmpty | None = None
    ssl_key_file: NonEmpty | None = None
    ssl_key_password_file: NonEmpty | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: Mechanism | None = None
    sasl_username: NonEmpty | None = None
    sasl_password: NonEmpty | None = field(default=None, repr=False)
    sasl_password_file: NonEmpty | None = None
    prefix: KafkaName = "tracline"
    spans_topic: KafkaName = "otlp_spans"
    logs_topic: KafkaName = "otlp_logs"
    message_bytes_max: Annotated[int, Field(ge=10_000, le=100_000_000)] = 900_000
    compression: Literal["none", "gzip", "zstd"] = "zstd"
    on_rule_change: Literal["finish", "restart"] = "finish"
    store: Literal["memory", "rocksdict"] = "memory"
    data_folder: NonEmpty = "tracline-kafka"

    def topic(self, topic: Topic) -> str:
        """Return the topic's name: `spans_topic`, `logs_topic`, or `prefix.events` and its like."""
        of_collectors = {Topic.SPANS: self.spans_topic, Topic.LOGS: self.logs_topic}
        return of_collectors.get(topic, f"{self.prefix}.{topic}")

    def group(self, process: str) -> str:
        """Return the consumer group of a process, `tracline-rekey` and its like; also of its clients."""
        return f"{self.prefix}-{process}"

    @property
    def request_bytes_max(self) -> int:
        """Return how large a request of a producer, and a record in a topic, may be."""
        return self.message_bytes_max + REQUEST_ROOM_BYTES


def check(settings: KafkaSettings) -> None:
    """Raise StreamError (TRL721) if the settings contradict each other."""
    for what, hint in (*_of_protocol(settings), *_of_identity(settings), *_of_topics(settings)):
        raise StreamError("TRL721", what, hint)


def _of_protocol(settings: KafkaSettings) -> Iterator[tuple[str, str]]:
    """Yield the contradictions between the protocol and what it needs, each with what to do instead."""
    protocol = settings.security_protocol
    tls, sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    tls_files = (settings.ssl_ca_file, settings.ssl_certificate_file, settings.ssl_key_file)
    passwords = (settings.sasl_password, settings.sasl_password_file)
    if not settings.bootstrap_servers:
        yield "there is no bootstrap server", "name one: host:9092"
    if not tls and any(tls_files):
        yield f"TLS files are given, and {protocol} has no TLS", "security_protocol = SSL or SASL_SSL"
    if not sasl and any((settings.sasl_mechanism, settings.sasl_username, *passwords)):
        hint = "security_protocol = SASL_SSL (or SASL_PLAINTEXT)"
        yield f"SASL is set up, and {protocol} has no SASL", hint
    if sasl and not settings.sasl_mechanism:
        yield f"{protocol} needs sasl_mechanism", "PLAIN or SCRAM-SHA-512"
    if sasl and not settings.sasl_username:
        yield f"{protocol} needs sasl_username", "name the user"
    if sasl and not any(passwords):
        hint = "set sasl_password_file, or TRACLINE_KAFKA_SASL_PASSWORD in the environment"
        yield f"{protocol} needs a password", hint


def _of_identity(settings: KafkaSettings) -> Iterator[tuple[str, str]]:
    """Yield the contradictions between passwords, keys and certificates, each with what to do instead."""
    if settings.sasl_password and settings.sasl_password_file:
        yield "two passwords are given", "one of sasl_password and sasl_password_file"
    if settings.ssl_key_file and not settings.ssl_certificate_file:
        yield "ssl_key_file needs the certificate it is the key of", "set ssl_certificate_file"
    if settings.ssl_key_password_file and not settings.ssl_certificate_file:
        hint = "set ssl_certificate_file, and ssl_key_file where the key is not in that file"
        yield "ssl_key_password_file needs a key", hint


def _of_topics(settings: KafkaSettings) -> Iterator[tuple[str, str]]:
    """Yield the contradictions between the names of topics, each with what to do instead."""
    for setting, name in (("spans_topic", settings.spans_topic), ("logs_topic", settings.logs_topic)):
        if name.startswith(f"{settings.prefix}."):
            hint = f"choose another {setting} or prefix"
            yield f"{setting} {name!r} has the name of a topic of tracline's own", hint
    if settings.spans_topic == settings.logs_topic:
        hint = "give log records a topic of their own"
        yield f"spans_topic and logs_topic are both {settings.spans_topic!r}", hint


def ssl_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    """Return the TLS context, or None if the protocol has none.

    Raises StreamError (TRL722) if a file cannot be read or used.
    """
    if not settings.security_protocol.endswith("SSL"):
        return None
    authorities = settings.ssl_ca_file
    if authorities is not None:
        _usable("ssl_ca_file", authorities)
    try:
        # Given authorities replace the system's.
        context = ssl.create_default_context(cafile=authorities)
    except (ssl.SSLError, ValueError):
        raise _unusable("ssl_ca_file", str(authorities), "holds no PEM certificate") from None
    context.check_hostname = settings.ssl_check_hostname
    if settings.ssl_certificate_file is not None:
        _load_identity(settings, settings.ssl_certificate_file, context)
    return context


def _load_identity(settings: KafkaSettings, certificate: str, context: ssl.SSLContext) -> None:
    """Load our own certificate and its key."""
    _usable("ssl_certificate_file", certificate)
    if settings.ssl_key_file is not None:
        _usable("ssl_key_file", settings.ssl_key_file)
    password = ""
    if settings.ssl_key_password_file is not None:
        password = secret("ssl_key_password_file", settings.ssl_key_password_file)
    try:
        # Without a password OpenSSL would ask the terminal for one.
        context.load_cert_chain(certificate, settings.ssl_key_file, lambda: password)
    except (ssl.SSLError, ValueError):
        reason = "is no PEM certificate that goes with its key and the key's password"
        raise _unusable("ssl_certificate_file", certificate, reason) from None


def password(settings: KafkaSettings) -> str | None:
    """Return the SASL password. Raises StreamError (TRL722) if its file cannot be read."""
    if settings.sasl_password_file is None:
        return settings.sasl_password
    return secret("sasl_password_file", settings.sasl_password_file)


def connecting(settings: KafkaSettings, process: str) -> dict[str, Any]:
    """Return the arguments with which a client of aiokafka reaches the brokers.

    Raises StreamError (TRL721, TRL722).
    """
    check(settings)
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": settings.group(process),
        "security_protocol": settings.security_protocol,
    }
    if (context := ssl_context(settings)) is not None:
        arguments["ssl_context"] = context
    if settings.sasl_mechanism is not None:
        arguments["sasl_mechanism"] = settings.sasl_mechanism
        arguments["sasl_plain_username"] = settings.sasl_username
        arguments["sasl_plain_password"] = password(settings)
    return arguments


def faust_broker(settings: KafkaSettings) -> dict[str, Any]:
    """Return the arguments of a `faust.App` for its broker: addresses, credentials, compression, sizes.

    Raises StreamError (TRL721, TRL722).
    """
    import faust

    check(settings)
    context, mechanism = ssl_context(settings), settings.sasl_mechanism
    credentials: Any = None
    if mechanism is not None:
        username, secret = settings.sasl_username, password(settings)
        credentials = faust.SASLCredentials(
            username=username, password=secret, ssl_context=context, mechanism=mechanism
        )
    elif context is not None:
        credentials = faust.SSLCredentials(context)
    return {
        "broker": [f"kafka://{server}" for server in settings.bootstrap_servers],
        "broker_credentials": credentials,
        "producer_acks": -1,
        "producer_compression_type": compression(settings),
        "producer_max_request_size": settings.request_bytes_max,
    }


def compression(settings: KafkaSettings) -> str | None:
    """Return the compression as clients name it: None for none."""
    return None if settings.compression == "none" else settings.compression


def _usable(setting: str, path: str) -> None:
    """Raise StreamError if the file cannot be read."""
    try:
        with Path(path).open("rb"):
            return
    except OSError as error:
        raise _unusable(setting, path, f"cannot be read: {(error.strerror or '').lower()}") from None


def secret(setting: str, path: str) -> str:
    """Return the text of a password file, without its last line break."""
    _usable(setting, path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _unusable(setting, path, "is no UTF-8 text") from None
    if not text.strip():
        raise _unusable(setting, path, "is empty")
    return text.removesuffix("\n").removesuffix("\r")


def _unusable(setting: str, path: str, reason: str) -> StreamError:
    return StreamError(
        "TRL722", f"{setting} {path} {reason}", "check the path, its content and who may read it"
    )
