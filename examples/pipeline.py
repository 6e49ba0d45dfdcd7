"""The whole Kafka pipeline on this machine, and the simulated bot in it: `make pipeline`.

Starts Apache Kafka, makes the topics, learns from a simulated past what is usual, starts `rekey`, `monitor`,
`archive` and `alerts` as processes, and has the bot hold conversations through `KafkaSpanExporter`, in which
it breaks one rule far more often for a while. Then it says what was found, and stops everything. The exit
code is 1 where something was not found.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click

from ..rules.packs.load import shipped_packs
from ..schemas.time import NS, parse_time
from .local_kafka import Broker, missing
from .pipeline_bot import PLAN, BotReport, Breach, past_archive, talk

SESSIONS = {"lateness_s": 1.0, "tick_s": 0.5, "idle_s": 60.0, "hold_s": 10.0}
ALERT_TICK_S = 1
ARL_TICKS = 3_600
"""An hour of this time between two false alarms of a rule and agent, in the mean."""
PARTITIONS = 4
WAIT_S = 120.0
POLL_S = 0.1
PROCESSES = ("rekey", "monitor", "archive", "alerts")
BROKEN = ("violated", "unmet")
TRACLINE = Path(sys.executable).with_name("tracline")


@dataclass
class Process:
    """A process of the pipeline; what it says goes to its log."""

    name: str
    running: subprocess.Popen[bytes]
    log: Path

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until that holds. Raises click's error where the process ends before, or it takes too long."""
        limit = time.monotonic() + WAIT_S
        while not holds():
            if self.running.poll() is not None or time.monotonic() > limit:
                raise click.ClickException(f"{self.name}: {what} never came\n{self.log.read_text()[-2000:]}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self.running.terminate()
        self.running.wait(WAIT_S)


@dataclass
class PipelineRun:
    """Where everything is: the broker, a folder for what is made, and the processes."""

    folder: Path
    broker: Broker
    processes: dict[str, Process] = field(default_factory=dict[str, Process])

    @property
    def environment(self) -> dict[str, str]:
        """Return what processes are told: nothing of what the settings of whoever runs this would say."""
        rest = {name: value for name, value in os.environ.items() if not name.startswith("TRACLINE_")}
        named = {f"TRACLINE_SESSIONS_{name.upper()}": str(value) for name, value in SESSIONS.items()}
        return rest | named | {"TRACLINE_KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap}

    def tracline(self, *arguments: str | Path) -> str:
        """Return what `tracline` says with these arguments. Raises click's error where it fails."""
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
        """Run a process of the pipeline, which does not outlive the block."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as said:
            command = [TRACLINE, "stream", name, *arguments]
            running = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=said, stderr=said
            )
        try:
            yield Process(name, running, log)
        finally:
            running.kill()
            running.wait()


@contextmanager
def webhook() -> Generator[tuple[str, list[dict[str, Any]]]]:
    """The address of a web server, and the alerts that were posted to it."""
    told: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", told
        finally:
            server.shutdown()
            thread.join()


@click.command()
def main() -> None:
    """Run the pipeline with the simulated bot in it, and say what it found."""
    if lack := missing():
        raise click.ClickException(lack)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tracline-pipeline-") as name:
        folder = Path(name)
        broker = Broker(folder / "kafka")
        try:
            broker.start()
            click.echo(f"Kafka is up at {broker.bootstrap}", err=True)
            found = _run(PipelineRun(folder, broker))
        finally:
            broker.kill()
    click.echo(f"all is stopped, after {time.monotonic() - began:.0f} s", err=True)
    sys.exit(0 if found else 1)


def _run(place: PipelineRun) -> bool:
    """Everything between the broker's start and its end; whether all was found."""
    place.tracline("stream", "topics", "--create", "--partitions", str(PARTITIONS))
    with ExitStack() as stack:
        url, posted = stack.enter_context(webhook())
        archive, rates = place.folder / "archive", place.folder / "rates.json"
        packs = shipped_packs()
        ways: dict[str, tuple[str | Path, ...]] = {
            "rekey": (),
            "monitor": ("--rules", *packs),
            "archive": ("--archive", archive, "--every-s", "2"),
        }
        for name, arguments in ways.items():
            place.processes[name] = stack.enter_context(place.process(name, *arguments))
        past = place.folder / "past"
        past_archive(past)
        place.tracline(
            "alerts", "rates", past, "--rules", *packs, "--tick-s", str(ALERT_TICK_S), "--out", rates
        )
        alerting = ("--rates", rates, "--arl", str(ARL_TICKS), "--webhook", url)
        place.processes["alerts"] = stack.enter_context(place.process("alerts", *alerting))
        click.echo(f"what is usual was learned from {PLAN.past:,} conversations", err=True)
        for one in place.processes.values():
            words = "is at work" if one.name == "alerts" else "goes on with"
            one.until(words, lambda one=one, words=words: words in one.log.read_text())
        click.echo(f"{', '.join(PROCESSES)} are at work; the bot talks", err=True)
        talked = talk(place.broker.bootstrap)
        _finish(place)
        live = _verdicts(place)
        audited = _audited(place, archive, packs)
    told = (_told_broken(talked, live), _told_alerts(talked, posted), _told_archive(live, audited))
    return all(told)


def _finish(place: PipelineRun) -> None:
    """Let the pipeline work off what there is, and stop its processes one after the other."""
    from ..stream.kafka.lag import lags
    from ..stream.kafka.settings import KafkaSettings
    from ..stream.kafka.topics import administering

    kafka = KafkaSettings((place.broker.bootstrap,))

    def is_done(name: str) -> bool:
        # Behind the last record may stand a transaction's mark.
        mark = 1 if name in ("rekey", "monitor") else 0
        with administering(kafka, "example") as admin:
            return all(one.lag <= mark for one in lags(admin, kafka) if one.process == name)

    # A span is held for `lateness_s`, and the time that passes it comes with a tick.
    time.sleep(SESSIONS["lateness_s"] + 4 * SESSIONS["tick_s"])
    for name in PROCESSES:
        one = place.processes[name]
        one.until("the end of what it reads", lambda name=name: is_done(name))
        one.stop()


def _verdicts(place: PipelineRun) -> list[dict[str, Any]]:
    """The verdicts that the monitor gave."""
    from ..stream.kafka.settings import KafkaSettings
    from ..stream.messages.codec import decode_verdicts
    from ..stream.messages.topics import Topic

    return [
        one
        for value in _values(place.broker, KafkaSettings().topic(Topic.VERDICTS))
        for one in decode_verdicts(value)["verdicts"]
    ]


def _values(broker: Broker, topic: str) -> list[bytes]:
    """Everything in a topic."""
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    options: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer: Any = KafkaConsumer(bootstrap_servers=[broker.bootstrap], **options)
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    values: list[bytes] = []
    while any(consumer.position(one) < ends[one] for one in places):
        values += [record.value for some in consumer.poll(200).values() for record in some]
    consumer.close()
    return values


def _audited(place: PipelineRun, archive: Path, packs: tuple[str, ...]) -> list[dict[str, Any]]:
    """The verdicts that an audit of the live archive gives."""
    bundle = place.folder / "bundle"
    place.tracline("audit", archive, "--rules", *packs, "--out", bundle)
    return [json.loads(line) for line in (bundle / "verdicts.jsonl").read_text().splitlines()]


def _told_broken(talked: BotReport, live: list[dict[str, Any]]) -> bool:
    """Say which of the planted breaks were found."""
    broken = (one for one in live if one["verdict"] in BROKEN)
    found = frozenset[Breach]((one["pack"], one["rule"], one["session_id"]) for one in broken)
    others = len(found - talked.breaks)
    click.echo(
        f"{talked.sessions:,} conversations, {talked.spans:,} spans through Kafka in {talked.took_s:.0f} s.\n"
        f"The bot broke a rule {len(talked.breaks):,} times, counting a rule once in a conversation.\n"
        f"The monitor found {len(talked.breaks & found):,} of these and {others or 'no'} others."
    )
    return found == talked.breaks


def _told_alerts(talked: BotReport, posted: list[dict[str, Any]]) -> bool:
    """Say which alerts came to the webhook, and whether one is of the spike."""
    first: dict[str, dict[str, Any]] = {}
    for one in posted:
        first.setdefault(one["id"], one)
    resolved = {one["id"] for one in posted if one["status"] == "resolved"}
    since, until = talked.spike
    click.echo(f"\nFor {(until - since) / NS:.0f} s the bot set out to break {PLAN.rule[1]} far more often.")
    is_found = False
    for one in first.values():
        starts = parse_time(one["starts_at"]) or 0
        is_spike = (one["pack"], one["rule"]) == PLAN.rule and since - NS <= starts <= until + 10 * NS
        is_found |= is_spike
        click.echo(
            f"Alert: {one['rule']} by {one['agent']}, from {(starts - since) / NS:.0f} s after that began;"
            f" {one['violating']} of {one['applicable']} sessions"
            f"{', over by the end' if one['id'] in resolved else ''}."
        )
    if not is_found:
        click.echo("No alert came of that.")
    return is_found


def _told_archive(live: list[dict[str, Any]], audited: list[dict[str, Any]]) -> bool:
    """Say whether the audit of the archive gives the same verdicts."""
    ids, again = {one["id"] for one in live}, {one["id"] for one in audited}
    is_same = ids == again and len(ids) == len(live) == len(audited)
    words = "the same ids" if is_same else f"{len(ids & again):,} of these ids"
    click.echo(
        f"\nThe monitor gave {len(live):,} verdicts; an audit of what was archived gives {len(audited):,},"
        f" with {words}."
    )
    return is_same


if __name__ == "__main__":
    main()
