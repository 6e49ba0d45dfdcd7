"""`tracline stream monitor`: judge what was sent to sessions, and tell what was found."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ...error import told_error
from ...options import Command, Several, health_options, note
from ...settings import kafka_settings, session_settings
from ...stopping import stopping
from .group import broker_option, kafka_error, timeout_option, wait_option

if TYPE_CHECKING:
    from ....stream.ingest.server.sockets import Address

TIMEOUT_S = 30.0
FAILED = 2


@click.command("monitor", cls=Command)
@click.option(
    "--rules",
    cls=Several,
    metavar="PACK",
    help="Rule packs that are in force until others are activated: YAML files, folders of them, or names of"
    " shipped packs.",
)
@click.option(
    "--store",
    type=click.Choice(["memory", "rocksdict"]),
    help="Where the state is between two looks into Kafka; otherwise as the settings have it.",
)
@click.option(
    "--data",
    metavar="FOLDER",
    help="Where rocksdict keeps it; each process needs a folder of its own.",
)
@timeout_option(TIMEOUT_S, "others take over its partitions")
@wait_option()
@health_options
@broker_option()
def command(
    rules: tuple[str, ...],
    store: str | None,
    data: str | None,
    timeout_s: float,
    wait_s: float,
    address: Address,
    bootstrap_servers: str | None,
) -> None:
    """Judge sessions by the rules in force, and send verdicts, what was judged, and what could not be.

    Any number of these processes share the work, as many as the events' topic has partitions at most. Nothing
    is lost when one is killed; another one, or itself after a restart, goes on from the state in Kafka. On
    SIGTERM or Ctrl-C the process finishes the messages in hand, leaves the group and exits 0.
    """
    import logging

    from ....rules.packs.load import load_packs
    from ....stream.kafka.faust.monitor_process import (
        DEAD_LETTER_CODES,
        SENDS,
        MonitorRuntime,
        monitor_process,
    )
    from ....stream.kafka.faust.state_store import locked
    from ....stream.kafka.health import serving
    from ....stream.messages.topics import Topic
    from ....stream.process.metrics import MonitorMetrics
    from ....stream.process.trial import Trials, begin_trial

    logging.basicConfig(level=logging.WARNING, format="monitor: %(name)s: %(message)s")
    given = {"bootstrap_servers": bootstrap_servers, "store": store, "data_folder": data}
    kafka, sessions = kafka_settings(given), session_settings()
    packs = load_packs(rules) if rules else None
    # Its process loads what it needs while this one asks Kafka.
    trial = None if packs is None else begin_trial(packs.sources)
    trials = Trials()
    named = [(rule.pack, rule.id) for rule in packs.rules] if packs else []
    metrics = MonitorMetrics([kafka.topic(Topic.EVENTS)], map(kafka.topic, SENDS), named, DEAD_LETTER_CODES)
    runtime = MonitorRuntime(timeout_s, metrics, lambda text: note(f"monitor: {text}"), _fail, stopping())
    with ExitStack() as stack:
        if kafka.store == "rocksdict":
            stack.enter_context(locked(Path(kafka.data_folder)))
        process = monitor_process(kafka, sessions, packs, runtime, trials, wait_s)
        if process is None:
            return
        if trial is not None:
            trials.wait(trial)
        port = stack.enter_context(serving(metrics.kafka, address, lambda: process.is_ready))
        name = kafka.topic(Topic.EVENTS)
        note(f"monitor: reads {name}; metrics and health on {address.url(port)}")
        process.run()


def _fail(error: BaseException) -> NoReturn:
    """Say what happened, and end the process at once: nothing may be acknowledged any more."""
    from ....stream.error import StreamError

    where = "tracline stream monitor"
    if isinstance(error, StreamError):
        text = told_error(error.code, where, str(error), error.hint).message
    elif refused := kafka_error(error, where):
        text = refused.message
    else:
        # What it says may quote telemetry.
        frames = "".join(traceback.format_tb(error.__traceback__))
        text = f"{frames}{type(error).__name__}\nmonitor: nothing was acknowledged of the message in hand"
    click.echo(text, err=True)
    sys.stderr.flush()
    os._exit(FAILED)
