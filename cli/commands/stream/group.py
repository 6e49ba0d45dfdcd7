"""`tracline stream`: the processes of the Kafka pipeline, and the commands that operate it."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from ...error import CommandError, coded_error, package_error
from ...lazy import LazyGroup
from ...options import Seconds, health_options, note

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

if TYPE_CHECKING:
    from ....stream.ingest.server.sockets import Address
    from ....stream.process.kafka_metrics import KafkaMetrics

WAIT_S = 60.0

F = TypeVar("F", bound=Callable[..., Any])


class StreamProcess(Protocol):
    """A process of the pipeline."""

    @property
    def is_ready(self) -> bool: ...  # noqa: D102
    def run(self) -> None: ...  # noqa: D102


class StreamGroup(LazyGroup):
    """The group of the pipeline's commands, which turns errors of the stream and of Kafka into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and report a missing package too."""
        from ....stream.error import StreamError

        try:
            return super().invoke(ctx)
        except StreamError as error:
            raise coded_error(error.code, _name(ctx), str(error), error.hint) from error
        except ModuleNotFoundError as error:
            if (missing := package_error(error, _name(ctx))) is None:
                raise
            raise missing from error
        except Exception as error:
            if (failure := kafka_error(error, _name(ctx))) is None:
                raise
            raise failure from error


def _name(ctx: click.Context) -> str:
    return f"tracline stream {ctx.invoked_subcommand or ''}".rstrip()


def kafka_error(error: BaseException, where: str) -> CommandError | None:
    """Return the error of a Kafka client by its name; None for other exceptions. Imports no client.

    The text of the error is left out: it may be a page long and quote a record.
    """
    loaded = [sys.modules[name] for name in ("kafka.errors", "aiokafka.errors") if name in sys.modules]
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


def process_options(timeout_s: float, effect: str) -> Callable[[F], F]:
    """Return the options of every process: `timeout_s`, `wait_s`, `address` and `bootstrap_servers`.

    `effect` is what happens when the process has been silent for `timeout_s`.
    """
    timeout = click.option(
        "--timeout-s",
        type=Seconds(0.5, 600),
        default=timeout_s,
        show_default=True,
        help=f"Seconds of silence after which {effect}.",
    )
    wait = click.option(
        "--wait-s",
        type=Seconds(0, 86_400),
        default=WAIT_S,
        show_default=True,
        help="Seconds to wait for an unavailable broker at start; 0 exits at once.",
    )
    return lambda command: timeout(wait(health_options(broker_option()(command))))


def run_process(
    name: str, process: StreamProcess, metrics: KafkaMetrics, reads: str, address: Address
) -> None:
    """Run a process of the pipeline, and serve its metrics and health."""
    from ....stream.kafka.health import serving

    with serving(metrics, address, lambda: process.is_ready) as port:
        note(f"{name}: reads {reads}; metrics and health on {address.url(port)}")
        process.run()


def instance_option() -> Callable[[F], F]:
    """Return the option `--instance`: the str `instance`, by default a random one.

    Process ids would not do: containers that share a name also share process ids.
    """
    return click.option(
        "--instance",
        metavar="NAME",
        default=lambda: secrets.token_hex(6),
        show_default=False,
        help="A unique name that this process keeps across restarts: a restart then ends the transaction that"
        " a crash left open, before --timeout-s does.  [default: random]",
    )


@click.group("stream", cls=StreamGroup, table=COMMANDS)
def command() -> None:
    """Run and operate the pipeline over Kafka, with any number of processes per step.

    Addresses, TLS, SASL and the names of topics are settings: [kafka] in tracline.toml, or TRACLINE_KAFKA_...
    in the environment.
    """
