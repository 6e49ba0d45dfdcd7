"""`tracline stream`: the processes of the Kafka pipeline, and the commands that operate it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ...error import CommandError, coded_error
from ...lazy import LazyGroup
from ...missing_package import live_error

COMMANDS = {
    "topics": ("stream.topics", "Create or check the topics."),
    "rekey": ("stream.rekey", "Read spans and send their claims to the partition of their session."),
    "archive": ("stream.archive", "Copy judged events to an archive, each once."),
    "alerts": ("stream.alerts", "Watch verdicts and alert on violation rates above the tolerated ones."),
    "monitor": ("stream.monitor", "Judge sessions and send the verdicts."),
    "activate": ("stream.activate", "Activate rule packs while the pipeline runs."),
    "dead-letters": ("stream.dead_letters", "List or replay records that could not be processed."),
    "lag": ("stream.lag", "Show the lag of each process."),
}
"""The module of each command, which exports it as `command`, and its line in the help."""

F = TypeVar("F", bound=Callable[..., Any])


class StreamGroup(LazyGroup):
    """The group of the pipeline's commands, which turns errors of the stream and of Kafka into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and report a missing package too."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            where = f"tracline stream {ctx.invoked_subcommand or ''}".rstrip()
            failure = live_error(error, where) or kafka_error(error, where)
            if failure is None:
                raise
            raise failure from error


def kafka_error(error: BaseException, where: str) -> CommandError | None:
    """Return the error of a Kafka client by its name; None for other exceptions. Imports no client.

    The text of the error is left out: it may be a page long and quote a record.
    """
    names = ("tracline.stream.group.broker_errors", "aiokafka.errors")
    loaded = [sys.modules[name] for name in names if name in sys.modules]
    if not any(isinstance(error, module.KafkaError) for module in loaded):
        return None
    hint = "check that the brokers run, and the permissions of this user"
    return coded_error("TRL723", where, f"Kafka error: {type(error).__name__}", hint)


def broker_option() -> Callable[[F], F]:
    """Return the option `--bootstrap-servers`: the str or None `bootstrap_servers`, for `kafka_settings`."""
    return click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Kafka brokers; the default is the setting.  [default: 127.0.0.1:9092]",
    )


@click.group("stream", cls=StreamGroup, table=COMMANDS)
def command() -> None:
    """Run and operate the pipeline over Kafka, with any number of processes per step.

    Addresses, TLS, SASL and the names of topics are settings: [kafka] in tracline.toml, or TRACLINE_KAFKA_...
    in the environment.
    """
