"""The whole Kafka pipeline on this machine, with the simulated bot: `make pipeline`.

The program starts Apache Kafka, creates the topics, learns the tolerated rates from simulated conversations,
and starts the processes `rekey`, `monitor`, `archive` and `alerts`. The bot then sends conversations through
`KafkaSpanExporter`, and breaks one rule far more often for a while. The program reports the breaches that
were found, and stops everything. It exits 1 if a planted breach was not found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click

from ..rules.packs.load import shipped_packs
from ..schemas.records.verdict_record import VerdictRecord, decode_verdict
from ..schemas.time import NS, parse_time
from ..schemas.verdict import BREACHES
from .local_kafka import Broker, missing
from .pipeline_bot import PAST, SPIKE_BREAK, BotReport, Breach, past_archive, talk

SESSIONS = {"lateness_s": 1.0, "tick_s": 0.5, "idle_s": 60.0, "hold_s": 10.0}
ALERT_TICK_S = 1
ARL_TICKS = 3_600
"""A mean of one hour between two false alarms of a rule and agent."""
PARTITIONS = 4
WAIT_S = 300.0
"""Maximum seconds for each wait: in a fresh clone the processes first compile their loops."""
POLL_S = 0.1
PROCESSES = ("rekey", "monitor", "archive", "alerts")
TRACLINE = Path(sys.executable).with_name("tracline")


@dataclass
class Process:
    """A process of the pipeline, and its log."""

    name: str
    running: subprocess.Popen[bytes]
    log: Path

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises click's error if the process exits first, or on a timeout."""
        limit = time.monotonic() + WAIT_S
        while not holds():
            if self.running.poll() is not None or time.monotonic() > limit:
                log = self.log.read_text()[-2000:]
                raise click.ClickException(f"{self.name}: no success within {WAIT_S:g} s: {what}\n{log}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the process, and wait until it has exited."""
        self.running.terminate()
        self.running.wait(WAIT_S)


@dataclass
class PipelineRun:
    """A run of the pipeline: its folder, its broker and its processes."""

    folder: Path
    broker: Broker
    processes: dict[str, Process] = field(default_factory=dict[str, Process])

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the processes, without the user's settings of tracline."""
        rest = {name: value for name, value in os.environ.items() if not name.startswith("TRACLINE_")}
        sessions = {f"TRACLINE_SESSIONS_{name.upper()}": str(value) for name, value in SESSIONS.items()}
        return rest | sessions | {"TRACLINE_KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap}

    def tracline(self, *arguments: str | Path) -> str:
        """Run `tracline`, and return its standard output. Raises click's error if it fails."""
        done = subprocess.run(
            [TRACLINE, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise click.ClickException(f"tracline {arguments[0]}: {done.stderr}")
        return done.stdout

    @contextmanager
    def process(self, name: str, *arguments: str | Path) -> Generator[Process]:
        """Run a process of the pipeline inside the block."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            command = [TRACLINE, "stream", name, *arguments]
            running = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=output, stderr=output
            )
        try:
            yield Process(name, running, log)
        finally:
            running.kill()
            running.wait()


@contextmanager
def webhook() -> Generator[tuple[str, list[dict[str, Any]]]]:
    """Run a web server, and yield its address and the alerts that were posted to it."""
    posted: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", posted
        finally:
            server.shutdown()
            thread.join()


@click.command()
def main() -> None:
    """Run the pipeline with the simulated bot, and report what it found."""
    if lack := missing():
        raise click.ClickException(lack)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tracline-pipeline-") as name:
        folder = Path(name)
        broker = Broker(folder / "kafka")
        try:
            broker.start()
            click.echo(f"Kafka runs at {broker.bootstrap}", err=True)
            found = _run(PipelineRun(folder, broker))
        finally:
            broker.kill()
    click.echo(f"stopped after {time.monotonic() - start:.0f} s", err=True)
    sys.exit(0 if found else 1)


def _run(run: PipelineRun) -> bool:
    """Run the processes and the bot, and return whether the pipeline found everything."""
    run.tracline("stream", "topics", "--create", "--partitions", str(PARTITIONS))
    with ExitStack() as stack:
        url, posted = stack.enter_context(webhook())
        archive, rates = run.folder / "archive", run.folder / "rates.json"
        packs = shipped_packs()
        ways: dict[str, tuple[str | Path, ...]] = {
            "rekey": (),
            "monitor": ("--rules", *packs),
            "archive": ("--archive", archive, "--every-s", "2"),
        }
        for name, arguments in ways.items():
            run.processes[name] = stack.enter_context(run.process(name, *arguments))
        past = run.folder / "past"
        past_archive(past)
        run.tracline(
            "alerts", "rates", past, "--rules", *packs, "--tick-s", str(ALERT_TICK_S), "--out", rates
        )
        alerting = ("--rates", rates, "--arl", str(ARL_TICKS), "--webhook", url)
        run.processes["alerts"] = stack.enter_context(run.process("alerts", *alerting))
        click.echo(f"learned the tolerated rates from {PAST:,} conversations", err=True)
        for process in run.processes.values():
            words = "alerts: active" if process.name == "alerts" else "assigned partitions"
            process.until(words, lambda process=process, words=words: words in process.log.read_text())
        click.echo(f"{', '.join(PROCESSES)} are running; the bot sends conversations", err=True)
        sent = talk(run.broker.bootstrap)
        _finish(run)
        live = _verdicts(run)
        audited = _audited(run, archive, packs)
    found = (_report_breaches(sent, live), _report_alerts(sent, posted), _report_audit(live, audited))
    return all(found)


def _finish(run: PipelineRun) -> None:
    """Wait until each process has read everything, and stop the processes one after the other."""
    from ..stream.kafka.lag import lags
    from ..stream.kafka.preflight import administering
    from ..stream.kafka.settings import KafkaSettings

    kafka = KafkaSettings((run.broker.bootstrap,))

    def is_done(name: str) -> bool:
        # The marker of a transaction may follow the last record.
        marker = 1 if name in ("rekey", "monitor") else 0
        with administering(kafka, "example") as admin:
            return all(lag.lag <= marker for lag in lags(admin, kafka) if lag.process == name)

    # A span waits for `lateness_s`, and a tick advances the time beyond it.
    time.sleep(SESSIONS["lateness_s"] + 4 * SESSIONS["tick_s"])
    for name in PROCESSES:
        process = run.processes[name]
        process.until("no lag", lambda name=name: is_done(name))
        process.stop()


def _verdicts(run: PipelineRun) -> list[VerdictRecord]:
    """Return the monitor's verdicts."""
    from ..stream.kafka.settings import KafkaSettings
    from ..stream.messages.codec import decode_verdicts
    from ..stream.messages.topics import Topic

    return [
        verdict
        for value in _values(run.broker, KafkaSettings().topic(Topic.VERDICTS))
        for verdict in decode_verdicts(value).verdicts
    ]


def _values(broker: Broker, topic: str) -> list[bytes]:
    """Return the values of all records in a topic."""
    from ..stream.kafka.librdkafka.reader import TopicReader, records_from
    from ..stream.kafka.properties import consuming
    from ..stream.kafka.settings import KafkaSettings

    with closing(TopicReader(consuming(KafkaSettings((broker.bootstrap,)), "example"), topic)) as reader:
        return [
            record.value or b"" for number in range(PARTITIONS) for record in records_from(reader, number)
        ]


def _audited(run: PipelineRun, archive: Path, packs: tuple[str, ...]) -> list[VerdictRecord]:
    """Audit the live archive, and return the verdicts."""
    bundle = run.folder / "bundle"
    run.tracline("audit", archive, "--rules", *packs, "--out", bundle)
    return [decode_verdict(line) for line in (bundle / "verdicts.jsonl").read_bytes().splitlines()]


def _report_breaches(sent: BotReport, live: list[VerdictRecord]) -> bool:
    """Report the planted breaches that were found, and return whether these are all."""
    broken = (verdict for verdict in live if verdict.verdict in BREACHES)
    found = frozenset[Breach]((row.pack, row.rule, row.session_id) for row in broken)
    extra = len(found - sent.breaks)
    click.echo(
        f"{sent.sessions:,} conversations, {sent.spans:,} spans through Kafka in {sent.took_s:.0f} s.\n"
        f"The bot broke a rule {len(sent.breaks):,} times, counting a rule once in a conversation.\n"
        f"The monitor found {len(sent.breaks & found):,} of these and {extra or 'no'} others."
    )
    return found == sent.breaks


def _report_alerts(sent: BotReport, posted: list[dict[str, Any]]) -> bool:
    """Report the alerts that the webhook received, and return whether one is of the spike."""
    first: dict[str, dict[str, Any]] = {}
    for alert in posted:
        first.setdefault(alert["id"], alert)
    resolved = {alert["id"] for alert in posted if alert["status"] == "resolved"}
    since, until = sent.spike
    click.echo(f"\nFor {(until - since) / NS:.0f} s the bot broke {SPIKE_BREAK.value[1]} far more often.")
    is_found = False
    for alert in first.values():
        starts = parse_time(alert["starts_at"]) or 0
        is_spike = (
            alert["pack"],
            alert["rule"],
        ) == SPIKE_BREAK.value and since - NS <= starts <= until + 10 * NS
        is_found |= is_spike
        click.echo(
            f"Alert: {alert['rule']} by {alert['agent']}, {(starts - since) / NS:.0f} s after the start;"
            f" {alert['violating']} of {alert['applicable']} sessions"
            f"{', resolved' if alert['id'] in resolved else ''}."
        )
    if not is_found:
        click.echo("No alert for the spike.")
    return is_found


def _report_audit(live: list[VerdictRecord], audited: list[VerdictRecord]) -> bool:
    """Report the verdicts of the audit, and return whether they equal the monitor's."""
    ids, again = {verdict.id for verdict in live}, {verdict.id for verdict in audited}
    is_same = ids == again and len(ids) == len(live) == len(audited)
    words = "the same ids" if is_same else f"{len(ids & again):,} of these ids"
    click.echo(
        f"\nThe monitor gave {len(live):,} verdicts; an audit of the archive gives {len(audited):,},"
        f" with {words}."
    )
    return is_same


if __name__ == "__main__":
    main()
