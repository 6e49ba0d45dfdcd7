"""`tracline stream`: the processes of the Kafka pipeline, and what cares for them."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ...error import CommandError, coded_error, package_error
from ...lazy import LazyGroup
from ...options import Seconds

COMMANDS = {
    "topics": ("stream.topics", "Make the topics, or say what is wrong with them."),
    "rekey": ("stream.rekey", "Read spans, and send what they tell to its session's partition."),
    "archive": ("stream.archive", "Copy judged events to an archive, each once."),
    "alerts": ("stream.alerts", "Watch verdicts, and alert where more violate a rule than is tolerated."),
    "monitor": ("stream.monitor", "Judge sessions, and send what was found."),
    "activate": ("stream.activate", "Bring rule packs into force while the pipeline runs."),
    "dead-letters": ("stream.dead_letters", "What could not be read or judged; send it once more."),
    "lag": ("stream.lag", "How far each process is behind."),
}
"""Each command's module in this room, which exports it as `command`, and its line in the help."""

WAIT_S = 60.0

F = TypeVar("F", bound=Callable[..., Any])


class StreamGroup(LazyGroup):
    """The group of the pipeline's commands: an error of theirs, or of Kafka's, becomes one of the world."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it needs and is not installed is said, too."""
        from ....stream.error import StreamError

        try:
            return super().invoke(ctx)
        except StreamError as error:
            raise coded_error(error.code, _name(ctx), str(error), error.hint) from error
        except ModuleNotFoundError as error:
            if (told := package_error(error, _name(ctx))) is None:
                raise
            raise told from error
        except Exception as error:
            if (told := kafka_error(error, _name(ctx))) is None:
                raise
            raise told from error


def _name(ctx: click.Context) -> str:
    return f"tracline stream {ctx.invoked_subcommand or ''}".rstrip()


def kafka_error(error: BaseException, where: str) -> CommandError | None:
    """An error of one of Kafka's clients by its name; None for others. Asks no client that was not imported.

    Not its text, which may be a page long, and quote what was sent.
    """
    loaded = [sys.modules[name] for name in ("kafka.errors", "aiokafka.errors") if name in sys.modules]
    if not any(isinstance(error, module.KafkaError) for module in loaded):
        return None
    hint = "check that the brokers run, and what this user may do"
    return coded_error("TRL723", where, f"Kafka refuses or fails: {type(error).__name__}", hint)


def broker_option() -> Callable[[F], F]:
    """`--bootstrap-servers`, the str or None `bootstrap_servers`: for `kafka_settings`."""
    return click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="Some brokers; otherwise those of the settings.  [default: 127.0.0.1:9092]",
    )


def timeout_option(default: float, what: str) -> Callable[[F], F]:
    """`--timeout-s`, the float `timeout_s`: how long the process may be silent before `what` happens."""
    return click.option(
        "--timeout-s",
        type=Seconds(0.5, 600),
        default=default,
        show_default=True,
        help=f"How long the process may be silent before {what}.",
    )


def wait_option() -> Callable[[F], F]:
    """`--wait-s`, the float `wait_s`: how long the process waits at its start for a broker."""
    return click.option(
        "--wait-s",
        type=Seconds(0, 86_400),
        default=WAIT_S,
        show_default=True,
        help="How long the process waits at its start for a broker that is away; 0: it ends at once.",
    )


def instance_option() -> Callable[[F], F]:
    """`--instance`, the str `instance`; where none is given, one that no other process has.

    Where containers share a name, so do the numbers of processes: neither would do.
    """
    return click.option(
        "--instance",
        metavar="NAME",
        default=lambda: secrets.token_hex(6),
        show_default=False,
        help="A name that no other process has and a restart of this one keeps: what it left open when it was"
        " killed then ends at its restart, not only after --timeout-s.  [default: a new one each time]",
    )


@click.group("stream", cls=StreamGroup, table=COMMANDS)
def command() -> None:
    """Receive, judge and archive what agents do over Kafka, in as many processes as it takes.

    Addresses, TLS, SASL and the names of topics are settings: [kafka] in tracline.toml, or TRACLINE_KAFKA_...
    in the environment.
    """
