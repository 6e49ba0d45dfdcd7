"""The options that every process of the pipeline has, and how a command runs its process."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from ...options import SecondsType, decorated, note, token_option
from ...settings import kafka_settings
from .group import broker_option

if TYPE_CHECKING:
    from ....stream.ingest.server.sockets import Address
    from ....stream.kafka.settings import KafkaSettings
    from ....stream.process.kafka_metrics import KafkaMetrics

WAIT_S = 60.0

F = TypeVar("F", bound=Callable[..., Any])


class StreamProcess(Protocol):
    """A process of the pipeline."""

    @property
    def is_ready(self) -> bool: ...  # noqa: D102
    def run(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """The options of a process: `address` is that of its metrics and health.

    `instance` is empty where the process has no such option.
    """

    name: str
    timeout_s: float
    wait_s: float
    address: Address
    bootstrap_servers: str | None
    instance: str = ""

    def kafka(self, **given: str | None) -> KafkaSettings:
        """Return the settings of Kafka; the given ones that are not None precede those of other sources."""
        return kafka_settings({"bootstrap_servers": self.bootstrap_servers, **given})

    def report(self, text: str) -> None:
        """Print a note of the process on standard error."""
        note(f"{self.name}: {text}")

    def run(self, process: StreamProcess, metrics: KafkaMetrics, reads: str) -> None:
        """Run the process, and serve its metrics and health."""
        from ....stream.kafka.health import serving

        with serving(metrics, self.address, lambda: process.is_ready) as port:
            self.report(f"reading {reads}; metrics and health on {self.address.url(port)}")
            process.run()


def process_options(
    name: str, timeout_s: float, effect: str, *, has_instance: bool = False
) -> Callable[[F], F]:
    """Return the options of every process: the `ProcessOptions` `options`.

    `effect` is what happens when the process has been silent for `timeout_s`.
    """

    instance = [_instance_option()] if has_instance else []

    def decorate(command: F) -> F:
        @wraps(command)
        def with_options(
            *args: Any,
            timeout_s: float,
            wait_s: float,
            metrics_host: str,
            metrics_port: int,
            token: str | None,
            bootstrap_servers: str | None,
            instance: str = "",
            **rest: Any,
        ) -> Any:
            from ....stream.ingest.server.sockets import Address

            address = Address(metrics_host, metrics_port, token)
            options = ProcessOptions(name, timeout_s, wait_s, address, bootstrap_servers, instance)
            return command(*args, options=options, **rest)

        return decorated(with_options, [*instance, *_options(timeout_s, effect)])

    return decorate


def _instance_option() -> Callable[[Any], Any]:
    """Return the option `--instance`: a str, by default a random one.

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


def _options(timeout_s: float, effect: str) -> list[Callable[[Any], Any]]:
    """Return the options, in the order of the help."""
    return [
        click.option(
            "--timeout-s",
            type=SecondsType(0.5, 600),
            default=timeout_s,
            show_default=True,
            help=f"Seconds of silence after which {effect}.",
        ),
        click.option(
            "--wait-s",
            type=SecondsType(0, 86_400),
            default=WAIT_S,
            show_default=True,
            help="Seconds to wait for an unavailable broker at start; 0 exits at once.",
        ),
        click.option(
            "--metrics-host",
            default="127.0.0.1",
            show_default=True,
            help="The address for /metrics, /healthz and /readyz.",
        ),
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            default=0,
            show_default=True,
            help="The port for them; 0 chooses a free port.",
        ),
        token_option("The bearer token for readers of metrics; required unless the address is local."),
        broker_option(),
    ]
