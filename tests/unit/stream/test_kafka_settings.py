"""`[kafka]`: where it comes from, what contradicts itself, and what the two Kafka clients are given."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tracline.cli.error import CommandError
from tracline.cli.settings import kafka_settings
from tracline.stream.error import StreamError
from tracline.stream.group.broker_errors import KafkaError
from tracline.stream.kafka import properties as config
from tracline.stream.kafka.librdkafka.admin import Admin
from tracline.stream.kafka.librdkafka.reader import TopicReader
from tracline.stream.kafka.librdkafka.sender import RecordSender
from tracline.stream.kafka.settings import (
    KafkaSettings,
    check,
    connecting,
    faust_broker,
    password,
)
from tracline.stream.messages.topics import Topic

SECRET = "correct horse"
TIMEOUTS = (0.5, 1.5, 600.0)
"""Least, usual and greatest `--timeout-s` of a process."""
WITH_SASL = KafkaSettings(
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="SCRAM-SHA-512",
    sasl_username="tracline",
    sasl_password=SECRET,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_any_source_the_defaults_hold() -> None:
    """A broker on this machine, without TLS; topics named by the prefix but those that collectors write."""
    settings = kafka_settings()
    assert settings == KafkaSettings()
    assert settings.bootstrap_servers == ("127.0.0.1:9092",)
    assert [settings.topic(topic) for topic in Topic] == [
        "otlp_spans",
        "otlp_logs",
        "tracline.events",
        "tracline.judged",
        "tracline.verdicts",
        "tracline.risk",
        "tracline.dead-letter",
        "tracline.rekey-state",
        "tracline.alerts",
        "tracline.alerts-state",
    ]
    assert settings.group("rekey") == "tracline-rekey"


def test_a_later_source_wins_and_lists_are_divided_at_commas(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, environment, flags; a variable and a flag give a list as one text."""
    (folder / "tracline.toml").write_text(
        '[sessions]\nidle_s = 5\n[kafka]\nbootstrap_servers = ["a:1"]\nprefix = "team"\nstore = "rocksdict"\n'
    )
    monkeypatch.setenv("TRACLINE_KAFKA_BOOTSTRAP_SERVERS", "b:1, b:2")
    monkeypatch.setenv("TRACLINE_KAFKA_MESSAGE_BYTES_MAX", "500000")
    monkeypatch.setenv("TRACLINE_KAFKA_SSL_CHECK_HOSTNAME", "false")
    found = kafka_settings()
    assert found == KafkaSettings(
        ("b:1", "b:2"),
        prefix="team",
        store="rocksdict",
        message_bytes_max=500_000,
        ssl_check_hostname=False,
    )
    assert found.topic(Topic.EVENTS) == "team.events"
    assert kafka_settings({"bootstrap_servers": "c:3"}).bootstrap_servers == ("c:3",)


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ('bootstrap_servers = ["kafka"]', "TRL612", "bootstrap_servers"),
        ('bootstrap_servers = ["kafka://host:1"]', "TRL612", "bootstrap_servers"),
        ('prefix = "my topics"', "TRL612", "prefix"),
        ('compresion = "gzip"', "TRL611", "did you mean `compression`"),
        ('security_protocol = "TLS"', "TRL612", "'SASL_SSL'"),
        ("message_bytes_max = 10", "TRL612", "message_bytes_max"),
        ('bootstrap_servers = "kafka:9092"', "TRL612", "hint: use a list of host:port, as in ["),
        ('spans_topic = "a/b"', "TRL612", "hint: use letters, digits"),
        ('store = "redis"', "TRL612", "'memory' or 'rocksdict'\n  hint: docs/kafka.md describes"),
    ],
)
def test_a_wrong_value_is_refused(folder: Path, text: str, code: str, error: str) -> None:
    """The error has the file, a code, the setting and what it may be, in words."""
    (folder / "tracline.toml").write_text(f"[kafka]\n{text}\n")
    with pytest.raises(CommandError) as caught:
        kafka_settings()
    assert caught.value.message.startswith(f"tracline.toml: {code} ")
    assert error in caught.value.message
    assert "pattern" not in caught.value.message


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (KafkaSettings(()), "bootstrap server"),
        (KafkaSettings(ssl_ca_file="ca.pem"), "PLAINTEXT has no TLS"),
        (replace(WITH_SASL, ssl_ca_file="ca.pem"), "SASL_PLAINTEXT has no TLS"),
        (KafkaSettings(sasl_username="tracline"), "PLAINTEXT has no SASL"),
        (replace(WITH_SASL, security_protocol="SSL"), "SSL has no SASL"),
        (replace(WITH_SASL, sasl_mechanism=None), "needs sasl_mechanism"),
        (replace(WITH_SASL, sasl_username=None), "needs sasl_username"),
        (replace(WITH_SASL, sasl_password=None), "needs a password"),
        (replace(WITH_SASL, sasl_password_file="secret"), "two passwords"),
        (KafkaSettings(security_protocol="SSL", ssl_key_file="key.pem"), "needs the certificate"),
        (KafkaSettings(security_protocol="SSL", ssl_key_password_file="secret"), "needs a key"),
        (KafkaSettings(spans_topic="tracline.events"), "'tracline.events'"),
        (KafkaSettings(logs_topic="tracline.events"), "logs_topic 'tracline.events'"),
        (KafkaSettings(logs_topic="otlp_spans"), "are both"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: KafkaSettings, error: str) -> None:
    """TRL721 names them; no client is made of them."""
    with pytest.raises(StreamError, match=error) as caught:
        check(settings)
    assert caught.value.code == "TRL721"
    assert caught.value.hint
    with pytest.raises(StreamError):
        connecting(settings, "rekey")


def test_a_contradiction_is_reported_by_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources may each be right and not go together."""
    monkeypatch.setenv("TRACLINE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    with pytest.raises(CommandError, match=r"\[kafka\]: TRL721 SASL_SSL needs sasl_mechanism"):
        kafka_settings({"sasl_mechanism": None})


def test_no_text_of_the_settings_holds_the_password(folder: Path) -> None:
    """Neither their repr nor an error that is about the password."""
    assert SECRET not in repr(WITH_SASL)
    (folder / "tracline.toml").write_text(f"[kafka]\nsasl_password = [{SECRET!r}]\n")
    with pytest.raises(CommandError) as caught:
        kafka_settings()
    assert SECRET not in caught.value.message


def test_a_password_file_ends_before_its_line_break(folder: Path) -> None:
    """A newline that an editor adds is no part of the password; spaces inside are."""
    (folder / "secret").write_text(" a b \r\n")
    assert password(KafkaSettings(sasl_password_file="secret")) == " a b "


@pytest.mark.parametrize(
    ("field", "content", "error"),
    [
        ("ssl_ca_file", None, "cannot be read: no such file"),
        ("ssl_ca_file", b"none", "holds no PEM certificate"),
        ("ssl_certificate_file", None, "cannot be read"),
        ("ssl_certificate_file", b"none", "is no PEM certificate"),
        ("sasl_password_file", None, "cannot be read"),
        ("sasl_password_file", b"\n", "is empty"),
        ("sasl_password_file", b"\xff", "is no UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    folder: Path, field: str, content: bytes | None, error: str
) -> None:
    """TRL722 has the setting, the path and the reason."""
    if content is not None:
        (folder / "given").write_bytes(content)
    secured = replace(WITH_SASL, security_protocol="SASL_SSL")
    given = {field: "given"} | ({"sasl_password": None} if field == "sasl_password_file" else {})
    with pytest.raises(StreamError, match=f"{field} given {error}") as caught:
        connecting(replace(secured, **given), "rekey")
    assert caught.value.code == "TRL722"


def test_aiokafka_is_given_what_reaches_the_brokers() -> None:
    """Addresses, the client's name, TLS that checks names, and who we are; a key there is means it is set."""
    assert connecting(KafkaSettings(), "rekey") == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "client_id": "tracline-rekey",
        "security_protocol": "PLAINTEXT",
    }
    secured = connecting(replace(WITH_SASL, security_protocol="SASL_SSL"), "rekey")
    context = secured["ssl_context"]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert secured["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (secured["sasl_plain_username"], secured["sasl_plain_password"]) == ("tracline", SECRET)


def test_librdkafka_is_given_the_same(folder: Path) -> None:
    """Addresses, names, TLS and SASL, of the same files; a client with these properties can be made."""
    plain = config.connecting(KafkaSettings(("a:1", "b:2")), "rekey")
    assert (plain["bootstrap.servers"], plain["client.id"]) == ("a:1,b:2", "tracline-rekey")
    assert plain["security.protocol"] == "PLAINTEXT"
    assert not [name for name in plain if name.startswith(("ssl", "sasl"))]
    (folder / "secret").write_text(f"{SECRET}\n")
    given = replace(WITH_SASL, security_protocol="SASL_SSL", sasl_password=None, sasl_password_file="secret")
    secured = config.connecting(replace(given, ssl_check_hostname=False), "rekey")
    assert secured["sasl.mechanism"] == "SCRAM-SHA-512"
    assert (secured["sasl.username"], secured["sasl.password"]) == ("tracline", SECRET)
    assert secured["ssl.endpoint.identification.algorithm"] == "none"
    assert config.connecting(given, "rekey")["ssl.endpoint.identification.algorithm"] == "https"
    for properties in (
        config.producing(given, "rekey"),
        *(config.transacting(given, "rekey", "one", timeout_s) for timeout_s in TIMEOUTS),
    ):
        assert Producer({**properties, "log_level": 0}) is not None
    for properties in (
        config.consuming(given, "rekey"),
        *(config.joining(given, "rekey", timeout_s) for timeout_s in TIMEOUTS),
    ):
        assert Consumer({**properties, "log_level": 0}) is not None


@pytest.mark.parametrize(
    "kind", [RecordSender, lambda given: TopicReader(given, "t"), lambda given: Admin(given, 1)]
)
def test_what_librdkafka_refuses_is_an_error_of_kafka(kind: Callable[[dict[str, Any]], object]) -> None:
    """A process reports it as it reports what a broker refuses."""
    refused = {"group.id": "g", "message.timeout.ms": 1_000, "socket.timeout.ms": -1}
    with pytest.raises(KafkaError, match=r"socket\.timeout\.ms"):
        kind(refused)


def test_producers_lose_nothing_and_consumers_read_what_is_committed() -> None:
    """Acknowledged by all replicas, written once; no offset is committed behind our back."""
    producer = config.producing(KafkaSettings(compression="none"), "rekey")
    assert (producer["acks"], producer["enable.idempotence"]) == ("all", True)
    assert producer["compression.type"] == "none"
    assert producer["message.max.bytes"] > KafkaSettings().message_bytes_max
    consumer = config.consuming(KafkaSettings(), "archive")
    assert consumer["group.id"] == "tracline-archive"
    assert consumer["isolation.level"] == "read_committed"
    assert consumer["enable.auto.commit"] is False
    member = config.joining(KafkaSettings(), "archive", 10)
    assert (member["session.timeout.ms"], member["partition.assignment.strategy"]) == (10_000, "range")


@pytest.mark.slow
def test_faust_is_given_the_same() -> None:
    """The protocol of the credentials is that of the settings, in each of the four."""
    import faust

    plain = faust_broker(KafkaSettings(("a:1", "b:2"), compression="gzip"))
    assert plain["broker"] == ["kafka://a:1", "kafka://b:2"]
    assert plain["broker_credentials"] is None
    assert plain["producer_compression_type"] == "gzip"
    for settings in (
        WITH_SASL,
        replace(WITH_SASL, security_protocol="SASL_SSL"),
        KafkaSettings(security_protocol="SSL"),
    ):
        credentials = faust_broker(settings)["broker_credentials"]
        assert credentials.protocol.value == settings.security_protocol
        assert SECRET not in repr(credentials)
    sasl = faust_broker(WITH_SASL)["broker_credentials"]
    assert (sasl.mechanism.value, sasl.username, sasl.password) == ("SCRAM-SHA-512", "tracline", SECRET)
    faust.App("settings-are-taken", **faust_broker(WITH_SASL))
