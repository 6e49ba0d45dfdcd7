"""The options of `tracline stream alerts` that name the receivers of alerts, and the receivers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...options import decorated

if TYPE_CHECKING:
    import httpx

    from ....stream.alerts.receivers import Receiver

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ReceiverOptions:
    """The addresses of the receivers, and the labels and the console that Alertmanager's alerts name."""

    alertmanager: str | None
    webhook: str | None
    labels: Mapping[str, str]
    console: str | None

    def opened(self, client: httpx.Client) -> list[Receiver]:
        """Return the receivers; tokens and the secret of the webhook are in the environment."""
        from ....stream.alerts.receivers import Alertmanager, Webhook

        found: list[Receiver] = []
        if self.alertmanager is not None:
            token = os.environ.get("TRACLINE_ALERTMANAGER_TOKEN")
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            found.append(Alertmanager(self.alertmanager, client, self.labels, self.console, headers))
        if self.webhook is not None:
            token, secret = (os.environ.get(f"TRACLINE_WEBHOOK_{name}") for name in ("TOKEN", "SECRET"))
            found.append(Webhook(self.webhook, client, token, secret))
        return found


def receiver_options(command: F) -> F:
    """Add `--alertmanager`, `--webhook`, `--label` and `--console`: the `ReceiverOptions` `receivers`."""

    @wraps(command)
    def with_receivers(
        *args: Any,
        alertmanager: str | None,
        webhook: str | None,
        labels: tuple[str, ...],
        console: str | None,
        **rest: Any,
    ) -> Any:
        if alertmanager is None and (labels or console is not None):
            raise click.UsageError("--label and --console require --alertmanager.")
        return command(
            *args, receivers=ReceiverOptions(alertmanager, webhook, _labels(labels), console), **rest
        )

    options = (
        click.option("--alertmanager", metavar="URL", help="An Alertmanager, such as http://127.0.0.1:9093."),
        click.option(
            "--webhook", metavar="URL", help="A server that accepts the JSON in docs/operations.md."
        ),
        click.option(
            "--label",
            "labels",
            multiple=True,
            metavar="NAME=VALUE",
            help="A label of every alert at Alertmanager, for routing; may be repeated.",
        ),
        click.option("--console", metavar="URL", help="The address of the console to which alerts link."),
    )
    return decorated(with_receivers, options)


def _labels(given: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME=VALUE` labels."""
    labels: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name.isascii() or not name.isidentifier():
            hint = "use NAME=VALUE with a name of letters, digits and _."
            raise click.UsageError(f"invalid --label {text!r}: {hint}")
        labels[name] = value
    return labels
