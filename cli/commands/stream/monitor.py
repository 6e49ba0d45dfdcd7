"""`tracline stream monitor`: judge sessions, and send the verdicts."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import click

from ...missing_package import live_error
from ...options import Command, Several
from ...settings import session_settings
from ...signals import stop_event
from .chains_options import ChainsOptions, chains_options, first_chain
from .cycles import rarely_look_for_cycles
from .group import kafka_error
from .process_options import ProcessOptions, process_options

TIMEOUT_S = 30.0
FAILED = 2


@click.command("monitor", cls=Command)
@click.option(
    "--rules",
    cls=Several,
    metavar="PACK",
    help="Rule packs to use until others are activated: YAML files, folders of them, or names of shipped"
    " packs.",
)
@click.option(
    "--store",
    type=click.Choice(["memory", "rocksdict"]),
    help="The local state store; the default is the setting.",
)
@click.option(
    "--data",
    metavar="FOLDER",
    help="The folder of the rocksdict store; each process needs a separate one.",
)
@chains_options()
@process_options("monitor", TIMEOUT_S, "other processes take over its partitions")
def command(
    rules: tuple[str, ...],
    store: str | None,
    data: str | None,
    predicting: ChainsOptions,
    options: ProcessOptions,
) -> None:
    """Judge sessions by the active rules, and send verdicts, judged events and dead letters.

    These processes share the work, up to one per partition of the topic of events. A crash loses nothing:
    another process, or this one after a restart, resumes from the state in Kafka. On SIGTERM or Ctrl-C the
    process finishes the messages in progress, leaves the group and exits 0.
    """
    import logging

    from ....rules.packs.load import load_packs
    from ....stream.kafka.faust.monitor_process import DEAD_LETTER_CODES, monitor_process
    from ....stream.kafka.faust.runtime import MonitorRuntime, topics_sent
    from ....stream.kafka.faust.state_store import locked
    from ....stream.messages.topics import Topic
    from ....stream.process.monitor_metrics import MonitorMetrics
    from ....stream.process.trial import RuleTrials, begin_trial
    from ....stream.stages.compile_loops import compile_monitor_loops

    logging.basicConfig(level=logging.WARNING, format="monitor: %(name)s: %(message)s")
    kafka, sessions = options.kafka(store=store, data_folder=data), session_settings()
    packs = load_packs(rules) if rules else None
    # The trial's process loads its modules while this one connects to Kafka.
    trial = None if packs is None else begin_trial(packs.sources)
    trials, chains = RuleTrials(), predicting.loaded()
    chain = first_chain(chains, packs)
    named = [(rule.pack, rule.id) for rule in packs.rules] if packs else []
    sends = topics_sent(chains)
    metrics = MonitorMetrics([kafka.topic(Topic.EVENTS)], map(kafka.topic, sends), named, DEAD_LETTER_CODES)
    metrics.risk.chains_loaded.set(len(chains.digests))
    stopping = stop_event()
    runtime = MonitorRuntime(
        options.timeout_s, metrics, options.report, _fail, stopping, chains=chains, chain=chain
    )
    with ExitStack() as stack:
        if kafka.store == "rocksdict":
            stack.enter_context(locked(Path(kafka.data_folder)))
        process = monitor_process(kafka, sessions, packs, runtime, trials, options.wait_s)
        if process is None:
            return
        compile_monitor_loops(follows=bool(chains.digests))
        if trial is not None:
            trials.wait(trial)
        rarely_look_for_cycles()
        options.run(process, metrics.kafka, kafka.topic(Topic.EVENTS))


def _fail(error: BaseException) -> NoReturn:
    """Print the error, and end the process at once, so that it acknowledges nothing more."""
    where = "tracline stream monitor"
    failure = live_error(error, where) if isinstance(error, Exception) else None
    if failure := failure or kafka_error(error, where):
        text = failure.message
    else:
        # The text of the error may quote telemetry.
        frames = "".join(traceback.format_tb(error.__traceback__))
        text = f"{frames}{type(error).__name__}\nmonitor: the message in progress was not acknowledged"
    click.echo(text, err=True)
    sys.stderr.flush()
    os._exit(FAILED)
