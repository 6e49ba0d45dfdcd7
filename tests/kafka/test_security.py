"""TLS and SASL against a real broker: both clients get in with the same settings, and nobody without."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from tracline.examples.local_kafka import Broker, free_port
from tracline.stream.error import StreamError
from tracline.stream.group.client import OutgoingRecord
from tracline.stream.kafka.care.create_topics import create
from tracline.stream.kafka.preflight import administering
from tracline.stream.kafka.settings import KafkaSettings, faust_broker
from tracline.stream.kafka.topics import look
from tracline.stream.messages.topics import Topic

from ..support.brokers.reading import read
from ..support.brokers.sending import send_records
from ..support.processes.calling import stream
from .conftest import need, need_own

pytestmark = pytest.mark.slow
USER, PASSWORD, KEY_PASSWORD = "tracline", "correct horse", "battery"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def certificate(folder: Path, name: str, *options: str) -> Path:
    """A certificate of a key of its own, which is its own authority: `name.pem` and `name.key` in PEM."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", f"/CN={name}"]
    files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *files, *names, *options], check=True, capture_output=True, timeout=60)
    return folder / f"{name}.pem"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, KafkaSettings]]:
    """A broker that is reached with SASL over TLS, or a client's certificate: settings for each way."""
    need_own()
    if shutil.which("openssl") is None:
        need("there is no openssl here, which makes the certificates: apt-get install openssl")
    folder = tmp_path_factory.mktemp("secured")
    certificate(folder, "broker", "-nodes")
    certificate(folder, "client", "-passout", f"pass:{KEY_PASSWORD}")
    store = folder / "broker.both"
    store.write_text((folder / "broker.key").read_text() + (folder / "broker.pem").read_text())
    (folder / "password").write_text(f"{PASSWORD}\n")
    (folder / "key-password").write_text(f"{KEY_PASSWORD}\n")
    ports = {name: free_port() for name in ("PLAINTEXT", "CONTROLLER", "SASL_SSL", "SSL", "SASL_PLAINTEXT")}
    listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    properties = {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(at for name, at in listeners.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in ports
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_{USER}="{PASSWORD}";',
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_{USER}="{PASSWORD}";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "client.pem",
        "listener.name.ssl.ssl.client.auth": "required",
    }
    broker = Broker(folder / "kafka", properties, ports["PLAINTEXT"], ports["CONTROLLER"])
    sasl = KafkaSettings(
        (f"127.0.0.1:{ports['SASL_SSL']}",),
        security_protocol="SASL_SSL",
        ssl_ca_file=str(folder / "broker.pem"),
        sasl_mechanism="PLAIN",
        sasl_username=USER,
        sasl_password_file=str(folder / "password"),
    )
    at = (f"127.0.0.1:{ports['SASL_PLAINTEXT']}",)
    clear = replace(sasl, bootstrap_servers=at, security_protocol="SASL_PLAINTEXT", ssl_ca_file=None)
    tls = KafkaSettings(
        (f"127.0.0.1:{ports['SSL']}",),
        security_protocol="SSL",
        ssl_ca_file=str(folder / "broker.pem"),
        ssl_certificate_file=str(folder / "client.pem"),
        ssl_key_file=str(folder / "client.key"),
        ssl_key_password_file=str(folder / "key-password"),
    )
    try:
        broker.start()
        with administering(KafkaSettings((broker.bootstrap,))) as admin:
            create(admin, KafkaSettings(), partitions=1)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        altering = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert altering.alter_user_scram_credentials([user])[USER].result() is None
        scram = replace(sasl, sasl_mechanism="SCRAM-SHA-512")
        yield {"plain": sasl, "scram": scram, "tls": tls, "clear": clear}
    finally:
        broker.kill()


@pytest.mark.parametrize("way", ["plain", "scram", "tls", "clear"])
def test_both_clients_get_in(secured: dict[str, KafkaSettings], way: str) -> None:
    """Records of librdkafka and Faust's client are read; topics are checked over the same connection."""
    settings = secured[way]
    name = settings.topic(Topic.ALERTS)
    with administering(settings) as admin:
        assert set(look(admin, settings)) == set(Topic)
    send_records(settings, [OutgoingRecord(name, None, None, f"{way} librdkafka".encode())])
    asyncio.run(_send(settings, name, f"{way} faust".encode()))
    values = {record.value.decode() for record in read(settings, name)}
    assert {f"{way} librdkafka", f"{way} faust"} <= values


async def _send(settings: KafkaSettings, name: str, value: bytes) -> None:
    """Send a record with the client and the credentials that Faust would use."""
    credentials = credentials_to_aiokafka_auth(faust_broker(settings)["broker_credentials"])
    producer = AIOKafkaProducer(bootstrap_servers=list(settings.bootstrap_servers), **credentials)
    await producer.start()
    try:
        await producer.send_and_wait(name, value)
    finally:
        await producer.stop()


@pytest.mark.parametrize("way", ["scram", "clear"])
def test_a_client_that_gets_in_logs_nothing_of_it(
    secured: dict[str, KafkaSettings], tmp_path: Path, way: str
) -> None:
    """The log lines of Kafka's clients about a connection are not in a command's output."""
    ended = stream(secured[way], tmp_path, "topics")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_nobody_gets_in_otherwise(secured: dict[str, KafkaSettings], tmp_path: Path) -> None:
    """A wrong password, an unknown user or authority, no certificate, no TLS: exit code 2, and why."""
    wrong = {"sasl_password_file": None, "sasl_password": "wrong horse"}
    without = dict.fromkeys(("ssl_certificate_file", "ssl_key_file", "ssl_key_password_file"))
    cases = [
        (replace(secured["plain"], **wrong), "Invalid username or password"),
        (replace(secured["scram"], sasl_username="nobody"), "invalid credentials"),
        (replace(secured["plain"], ssl_ca_file=None), "certificate verify failed"),
        (replace(secured["tls"], **without), "bad certificate"),
        (
            replace(secured["plain"], security_protocol="SASL_PLAINTEXT", ssl_ca_file=None),
            "KafkaConnectionError",
        ),
    ]
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda case: stream(case[0], tmp_path, "lag"), cases))
    for (settings, why), command in zip(cases, ended, strict=True):
        assert command.returncode == 2
        assert command.stderr.startswith(
            f"tracline stream lag: TRL723 Kafka at {settings.bootstrap_servers[0]}: "
        )
        assert why in command.stderr
        assert "horse" not in command.stderr


def test_a_process_that_is_refused_does_not_wait(secured: dict[str, KafkaSettings], tmp_path: Path) -> None:
    """A wrong password or an unknown authority end a process at once, which would wait for a broker."""
    wrong = replace(secured["plain"], sasl_password_file=None, sasl_password="wrong horse")
    for settings in (wrong, replace(secured["tls"], ssl_ca_file=None)):
        ended = stream(settings, tmp_path, "rekey", "--wait-s", "600")
        assert ended.returncode == 2
        assert "TRL723" in ended.stderr
        assert "waiting" not in ended.stderr


def test_a_wrong_key_password_is_reported(secured: dict[str, KafkaSettings], tmp_path: Path) -> None:
    """TRL722 names the certificate; nobody asks the terminal."""
    (tmp_path / "wrong").write_text("wrong")
    settings = replace(secured["tls"], ssl_key_password_file=str(tmp_path / "wrong"))
    with pytest.raises(StreamError, match="key's password") as caught, administering(settings):
        raise AssertionError("it got in")
    assert caught.value.code == "TRL722"
