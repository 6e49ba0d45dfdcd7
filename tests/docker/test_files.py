"""The files in `docker/`, checked by promtool, amtool and docker-compose; no container runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.stream.kafka.settings import KafkaSettings

from .alertmanager import ROOT, need

DOCKER = ROOT / "docker"
COMPOSE = DOCKER / "compose.yaml"


def run(*command: str | Path) -> str:
    """Return the output of a tool, which must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def compose() -> dict[str, Any]:
    """The compose file."""
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


SERVICES: dict[str, dict[str, Any]] = compose()["services"]


def test_rules_of_prometheus_are_sound() -> None:
    """Promtool finds no fault in recording and alerting rules, and there are as many as one counts."""
    promtool = need("promtool", "prometheus")
    output = run(promtool, "check", "rules", *sorted((DOCKER / "prometheus/rules").glob("*.yml")))
    texts = [path.read_text(encoding="utf-8") for path in (DOCKER / "prometheus/rules").glob("*.yml")]
    counted = sum(len(re.findall(r"^ *- (?:record|alert):", text, re.MULTILINE)) for text in texts)
    assert sum(map(int, re.findall(r"(\d+) rules found", output))) == counted > 10


def test_every_rule_has_a_test_that_it_passes() -> None:
    """Promtool's own tests pass, and name every alert and every recorded series."""
    promtool = need("promtool", "prometheus")
    tests = sorted((DOCKER / "prometheus/tests").glob("*.yml"))
    run(promtool, "test", "rules", *tests)
    text = "".join(path.read_text(encoding="utf-8") for path in tests)
    for path in (DOCKER / "prometheus/rules").glob("*.yml"):
        for name in re.findall(
            r"^ *- (?:record|alert): (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert name in text, name


def test_configuration_of_prometheus_is_sound(tmp_path: Path) -> None:
    """Promtool reads it with its rules, once the token's file is one that is here."""
    promtool = need("promtool", "prometheus")
    token = tmp_path / "token"
    token.write_text("a-token-of-sixteen")
    config = (DOCKER / "prometheus/prometheus.yml").read_text(encoding="utf-8")
    assert "/tmp/token" in config
    folder = tmp_path / "prometheus"
    (folder / "rules").mkdir(parents=True)
    for path in (DOCKER / "prometheus/rules").glob("*.yml"):
        (folder / "rules" / path.name).write_text(path.read_text(encoding="utf-8"))
    (folder / "prometheus.yml").write_text(config.replace("/tmp/token", str(token)))
    assert "2 rule files found" in run(promtool, "check", "config", folder / "prometheus.yml")


def test_configuration_of_alertmanager_is_sound() -> None:
    """Amtool reads it, and routes what is critical and what is not."""
    amtool = need("amtool", "prometheus-alertmanager")
    config = DOCKER / "alertmanager/alertmanager.yml"
    run(amtool, "check-config", config)
    routed = run(amtool, "config", "routes", "test", f"--config.file={config}", "severity=critical")
    assert routed.splitlines()[0] == "nobody"


def test_the_compose_file_follows_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker-compose reads it without an engine, and refuses to where the token is missing."""
    command = need("docker-compose", "docker-compose")
    monkeypatch.setenv("TRACLINE_TOKEN", "a-token-of-sixteen")
    run(command, "-f", COMPOSE, "config", "--quiet")
    monkeypatch.delenv("TRACLINE_TOKEN")
    done = subprocess.run(
        [command, "-f", str(COMPOSE), "config"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "give a token" in done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_pinned_and_confined(name: str) -> None:
    """Each has an image with a version, no rights of root, no folder of the host, and only local ports."""
    service = SERVICES[name]
    assert re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+", service["image"])
    assert str(service["user"]).partition(":")[0] not in {"", "0", "root"}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    for volume in service.get("volumes", []):
        assert volume.partition(":")[0] in compose()["volumes"], volume
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), port


def test_files_that_compose_names_are_there() -> None:
    """Every configuration is a file beside the compose file, and is mounted somewhere."""
    configs = compose()["configs"]
    for configuration in configs.values():
        assert (DOCKER / configuration["file"]).is_file(), configuration
    used = {config["source"] for service in SERVICES.values() for config in service.get("configs", [])}
    assert used == set(configs)


@pytest.mark.parametrize(
    "name", [name for name, service in SERVICES.items() if service["image"].startswith("tracline:")]
)
def test_commands_of_tracline_are_ones_it_has(name: str) -> None:
    """Each container's command line is one that this version takes: asked for help, it gives it."""
    command = SERVICES[name]["command"]
    done = CliRunner().invoke(tracline, [*map(str, command), "--help"])
    assert done.exit_code == 0, done.output


def test_the_image_runs_as_nobody_and_holds_what_is_locked() -> None:
    """The Dockerfile's last stage has a user without rights; its packages are those of the lock, by hash."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "pip" not in last
    assert "--require-hashes" in text
    assert all(
        re.search(r":\d+\.\d+\.\d+-\S+", line) for line in text.splitlines() if line.startswith("FROM")
    )
    locked = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    packages = (DOCKER / "requirements.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^\S+==\S+ \\\n(?:    --hash.*\n?)+", packages, re.MULTILINE)
    assert len(entries) > 50
    for entry in entries:
        assert entry.strip() in locked, entry.splitlines()[0]


def test_what_is_copied_to_the_image_is_there() -> None:
    """Every path of a COPY exists, and is let through by the image's own ignore file."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    let_through = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for path in line.split()[:-1]:
            assert (ROOT / path).exists(), path
            assert f"!{path}" in let_through, path


def test_the_image_has_every_room() -> None:
    """The image copies every file that the project's packages are built from."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    rooms = re.findall(r'^"tracline\.\w+" = "(\w+)"$', pyproject, re.MULTILINE)
    assert len(rooms) > 4
    for room in rooms:
        assert f"COPY {room} /src/{room}" in text


def test_the_collector_writes_what_the_pipeline_reads() -> None:
    """Its exporter writes OTLP in protobuf by trace to the rekeyer's topic, safely, below the size limit."""
    config = yaml.safe_load((DOCKER / "collector.yaml").read_text(encoding="utf-8"))
    kafka, settings = config["exporters"]["kafka"], KafkaSettings()
    assert kafka["traces"] == {"topic": settings.spans_topic, "encoding": "otlp_proto"}
    assert kafka["logs"] == {"topic": settings.logs_topic, "encoding": "otlp_proto"}
    assert kafka["partition_traces_by_id"] is True
    assert kafka["partition_logs_by_trace_id"] is True
    assert kafka["producer"]["required_acks"] == -1
    assert kafka["producer"]["allow_auto_topic_creation"] is False
    assert kafka["producer"]["max_message_bytes"] <= settings.request_bytes_max
    assert kafka["sending_queue"]["batch"]["sizer"] == "bytes"
    assert kafka["sending_queue"]["batch"]["max_size"] < kafka["producer"]["max_message_bytes"]
    assert {name: pipeline["exporters"] for name, pipeline in config["service"]["pipelines"].items()} == {
        "traces": ["kafka"],
        "logs": ["kafka"],
    }
