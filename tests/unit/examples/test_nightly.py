"""The nightly example: run as cron and systemd run it, over two nights, with a webhook and a mail server."""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import polars as pl
import pytest
from tracline.archive.manifest import ManifestSource
from tracline.archive.writer import archive_writer
from tracline.examples.nightly import nightly

from ...support.event_rows import PACK, START, session, user, write

DAY = 86_400 * 10**9
COMMAND = Path(sys.executable).with_name("tracline")
FOLDER = Path(nightly.__file__).parent
POSTED: list[bytes] = []
MAILED: list[str] = []


class Webhook(BaseHTTPRequestHandler):
    """A receiver of messages."""

    def do_POST(self) -> None:
        """Store the body."""
        POSTED.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204 if self.path == "/secret" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class MailServer(socketserver.StreamRequestHandler):
    """As much of SMTP as one mail needs."""

    def handle(self) -> None:
        """Answer each line, and store the mail."""
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            word = line.strip().upper()
            answer = {b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}.get(word, b"250 fine\r\n")
            self.wfile.write(answer)
            if word == b"DATA":
                MAILED.append("".join(text.decode() for text in iter(self.rfile.readline, b".\r\n")))
                self.wfile.write(b"250 fine\r\n")
            if word == b"QUIT":
                return


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[int]:
    """Run a server, and yield its port."""
    with server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def archive(place: Path, number: int, text: str) -> None:
    """Append a day with one session to a live archive, which is then complete up to the day's end."""
    source, start = ManifestSource("serve", "a" * 64), START + number * DAY
    rows = write(place / "rows.parquet", session(f"s{number}", user(text), start=start))
    with archive_writer(place / "archive") as writer:
        writer.write(pl.read_parquet(rows), source, (10 * number, 10 * number + 9))
        writer.mark(source, start + DAY)


def run(place: Path, day: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the example as a command."""
    given = [str(place / "archive"), "--rules", str(place / "desk.yaml"), "--bundles", str(place / "bundles")]
    line = [
        sys.executable,
        str(FOLDER / "nightly.py"),
        *given,
        "--day",
        day,
        "--tracline",
        str(COMMAND),
        *more,
    ]
    return subprocess.run(line, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_two_nights(tmp_path: Path) -> None:
    """Findings exit 1 and are posted and mailed without texts; the second night chains to the first."""
    (tmp_path / "desk.yaml").write_text(PACK)
    archive(tmp_path, 0, "secret words!")
    with (
        serving(HTTPServer(("127.0.0.1", 0), Webhook)) as port,
        serving(socketserver.TCPServer(("127.0.0.1", 0), MailServer)) as mail,
    ):
        (tmp_path / "webhook").write_text(f"http://127.0.0.1:{port}/secret\n")
        hook = ("--webhook-file", str(tmp_path / "webhook"))
        first = run(tmp_path, "2026-02-17", *hook, "--mail-to", "a@b.example", "--smtp", f"127.0.0.1:{mail}")
        assert first.returncode == 1, first.stderr
        archive(tmp_path, 1, "fine")
        second = run(tmp_path, "2026-02-18", *hook)
        assert second.returncode == 0, second.stderr
        too_early = run(tmp_path, "2026-02-19", *hook)
        assert too_early.returncode == 2
        (tmp_path / "webhook").write_text(f"http://127.0.0.1:{port}/hidden\n")
        archive(tmp_path, 2, "fine")
        refused = run(tmp_path, "2026-02-19", *hook)
        assert refused.returncode == 2
        assert "hidden" not in refused.stdout + refused.stderr
        (tmp_path / "webhook").write_text("127.0.0.1/hidden\n")
        archive(tmp_path, 3, "fine")
        malformed = run(tmp_path, "2026-02-20", *hook)
        assert (malformed.returncode, malformed.stderr) == (2, "the message was not delivered: ValueError\n")
    messages = [json.loads(body) for body in POSTED]
    assert [each["exit_code"] for each in messages] == [1, 0, 2, 0]
    assert messages[0]["text"] == "tracline: 2026-02-17, 1 session: 1 broken rule: calm"
    assert messages[0]["rules"] == [
        {"rule": "calm", "severity": "high", "violations": 1, "unmet": 0, "sessions_violating": 1}
    ]
    assert messages[2]["text"] == "tracline: the audit of 2026-02-19 failed (exit code 2)"
    assert "report.html" in MAILED[0]
    assert not any("secret words" in text for text in (*MAILED, *map(bytes.decode, POSTED)))
    bundles = tmp_path / "bundles"
    assert sorted(path.name for path in bundles.iterdir()) == [
        "2026-02-17",
        "2026-02-18",
        "2026-02-19",
        "2026-02-20",
    ]
    verified = [
        COMMAND,
        "verify",
        bundles / "2026-02-18",
        "--previous",
        bundles / "2026-02-17",
        "--format",
        "json",
    ]
    checks = json.loads(subprocess.run(verified, check=False, capture_output=True).stdout)["checks"]
    assert {each["check"]: each["result"] for each in checks}["previous"] == "passed", checks
    again = run(tmp_path, "2026-02-18")
    assert (again.returncode, "was audited before" in again.stdout) == (0, True)


def test_a_missed_day_is_in_the_next_bundle(tmp_path: Path) -> None:
    """The bundle before is the newest one, not that of the day before."""
    for name in ("2026-02-10", "2026-02-12", "2026-02-20", "notes"):
        (tmp_path / name).mkdir()
    assert nightly.previous_bundle(tmp_path, date(2026, 2, 15)) == tmp_path / "2026-02-12"
    assert nightly.previous_bundle(tmp_path, date(2026, 2, 10)) is None


def test_the_units_give_options_that_the_example_has() -> None:
    """Of cron and of systemd; the passphrase comes from a credential."""
    service = (FOLDER / "tracline-nightly.service").read_text()
    assert "LoadCredential=passphrase:" in service
    assert "--passphrase-file %d/passphrase" in service
    for text in (
        service.split("ExecStart=")[1].split("\n\n")[0],
        (FOLDER / "crontab").read_text().splitlines()[-1],
    ):
        words = text.replace("\\\n", " ").split("ReadWritePaths")[0].split()
        given = words[[word.endswith("nightly.py") for word in words].index(True) + 1 :]
        found = nightly.arguments().parse_args(given)
        assert found.passphrase_file is not None
        assert found.webhook_file is not None
