"""A disk that is full, or damages a file, ends a process with a code and the path, and loses nothing."""

from __future__ import annotations

import resource
import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.stream.kafka.faust.state_store import DiskPartitionStore
from tracline.stream.kafka.settings import KafkaSettings

from ..support.processes.stage import Stage
from ..support.truth.judging import Listener, send
from .test_archive import archiver, assert_whole, read_all
from .test_archive import send as send_judged
from .test_monitor import Case, case, monitor, sessions, until_committed  # noqa: F401 (fixtures)

pytestmark = pytest.mark.slow

ROOM_BYTES = 6_000
"""The largest size of a file that a process writes: enough for its log."""


def fill_disk(stage: Stage) -> None:
    """Let the system refuse what would make a file larger than that, as a full disk refuses it."""
    resource.prlimit(stage.process.pid, resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))


def assert_reported(stage: Stage, code: str, path: Path, *, hint: str) -> None:
    """The process ended with the code and the path, what to do, and no traceback."""
    assert stage.ended() == 2, stage.log.read_text()
    log = stage.log.read_text()
    assert code in log
    assert str(path) in log
    assert hint in log
    assert "Traceback" not in log
    assert 'File "' not in log


def test_a_disk_that_is_full_ends_the_monitor_and_loses_nothing(
    topics: KafkaSettings,
    case: Case,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The error names the folder of the monitor's state; restarted with room, it sends everything once."""
    flags = ("--store", "rocksdict", "--data", str(tmp_path / "data"))
    middle = len(case.sent) // 3
    with closing(Listener(topics)) as listener:
        with monitor(topics, tmp_path / "full", case, *flags) as stage:
            send(topics, case.sent[:middle])
            until_committed(topics, stage)
            fill_disk(stage)
            send(topics, case.sent[middle:])
            assert_reported(stage, "TRL743", tmp_path / "data", hint="make room on the disk and start again")
        with monitor(topics, tmp_path / "room", case, *flags) as stage:
            case.assert_complete(listener.until(case.is_complete))
            assert stage.stop() == 0


def test_a_damaged_file_of_the_monitor_is_reported_at_its_start(
    topics: KafkaSettings,
    case: Case,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The error names the folder; deleted, it is recreated from Kafka, and everything is sent once."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    flags = ("--store", "rocksdict", "--data", str(data))
    middle = len(case.sent) // 2
    with closing(Listener(topics)) as listener:
        send(topics, case.sent[:middle])
        with monitor(topics, tmp_path / "first", case, *flags) as stage:
            until_committed(topics, stage)
            assert stage.stop() == 0
        shutil.copytree(data, copy)
        for files in ("CURRENT", "*.sst"):
            for store in (data / topics.group("monitor")).iterdir():
                damage(store, files)
            with monitor(topics, tmp_path / "second", case, *flags) as stage:
                assert_reported(stage, "TRL743", data, hint="which is restored from Kafka")
            shutil.rmtree(data)
            shutil.copytree(copy, data)
        shutil.rmtree(data)
        send(topics, case.sent[middle:])
        with monitor(topics, tmp_path / "third", case, *flags) as stage:
            case.assert_complete(listener.until(case.is_complete))
            assert stage.stop() == 0


def damage(folder: Path, files: str) -> None:
    """Change the first bytes of files in a store's folder; the content of its log is in tables by then."""
    DiskPartitionStore(folder, time.time_ns).close()
    for file in folder.glob(files):
        data = file.read_bytes()
        file.write_bytes(bytes(255 - byte for byte in data[:100]) + data[100:])


def test_a_disk_that_is_full_ends_the_archiver_and_loses_nothing(
    topics: KafkaSettings, tmp_path: Path
) -> None:
    """The archiver names a file of the archive; started again with room, it has every event once."""
    with archiver(topics, tmp_path) as stage:
        until_ready(stage)
        fill_disk(stage)
        sent = send_judged(topics)
        assert_reported(stage, "TRL409", tmp_path / "archive", hint="check that the disk has free space")
    with archiver(topics, tmp_path, "room") as stage:
        read_all(stage)
        assert stage.stop() == 0, stage.log.read_text()
    assert_whole(tmp_path / "archive", sent)


def test_a_manifest_that_cannot_grow_ends_the_archiver(topics: KafkaSettings, tmp_path: Path) -> None:
    """The manifest is named, though the system names no file on a write."""
    manifest = tmp_path / "archive" / "manifest.jsonl"
    manifest.parent.mkdir()
    with archive_writer(manifest.parent) as writer:
        for number in range(100):
            writer.mark(ManifestSource("another source", "0" * 64, partition=number), 0)
    assert manifest.stat().st_size > ROOM_BYTES
    with archiver(topics, tmp_path) as stage:
        until_ready(stage)
        fill_disk(stage)
        send_judged(topics)
        assert_reported(stage, "TRL409", manifest, hint="check that the disk has free space")


def until_ready(stage: Stage) -> None:
    """Wait until the process reads."""
    stage.until("tracline_kafka_lag", bool)
