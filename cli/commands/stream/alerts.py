"""`tracline stream alerts`: watch verdicts, and alert where rules are violated more than is tolerated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...error import file_error
from ...options import Command, Seconds, health_options, note
from ...settings import kafka_settings, session_settings
from ...stopping import stopping
from ..alerts.group import TICK_S
from .group import broker_option, instance_option, timeout_option, wait_option

if TYPE_CHECKING:
    from ....stream.alerts.rates import Tolerance
    from ....stream.alerts.receivers import Receiver
    from ....stream.ingest.server.sockets import Address

ARL_TICKS = 8_640
RESEND_S = 60.0
TIMEOUT_S = 10.0


@click.command("alerts", cls=Command)
@click.option(
    "--rates",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What is tolerated, from history: made with `tracline alerts rates`.  [default: 3.2 % of sessions]",
)
@click.option(
    "--tick-s",
    type=click.IntRange(1, 86_400),
    default=TICK_S,
    show_default=True,
    help="Without --rates: how many seconds of event time are counted together.",
)
@click.option(
    "--arl",
    type=click.IntRange(10, 100_000_000),
    default=ARL_TICKS,
    show_default=True,
    help="How many ticks there are in the mean between two false alarms of a rule and agent, at least.",
)
@click.option("--alertmanager", metavar="URL", help="An Alertmanager, as http://127.0.0.1:9093.")
@click.option("--webhook", metavar="URL", help="Any server that takes the JSON of docs/operations.md.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label that every alert has at Alertmanager, to route it by; give it as often as needed.",
)
@click.option("--console", metavar="URL", help="The address of a console, which alerts link to.")
@click.option(
    "--resend-s",
    type=Seconds(0.1, 3_600),
    default=RESEND_S,
    show_default=True,
    help="How often Alertmanager hears of an alert while it fires; four times as long keeps it firing there.",
)
@instance_option()
@timeout_option(TIMEOUT_S, "another takes over")
@wait_option()
@health_options
@broker_option()
def command(
    rates: Path | None,
    tick_s: int,
    arl: int,
    alertmanager: str | None,
    webhook: str | None,
    labels: tuple[str, ...],
    console: str | None,
    resend_s: float,
    instance: str,
    timeout_s: float,
    wait_s: float,
    address: Address,
    bootstrap_servers: str | None,
) -> None:
    """Watch the verdicts of all sessions, and alert where an agent violates a rule more than is tolerated.

    Alerts go to the topic of alerts, and from there to Alertmanager and a webhook, where they are named: each
    until it is taken, and again when it is over. One process is at work; others wait to take over. Tokens for
    the receivers come from TRACLINE_ALERTMANAGER_TOKEN and TRACLINE_WEBHOOK_TOKEN; with
    TRACLINE_WEBHOOK_SECRET the webhook's requests are signed.
    """
    import random

    import httpx

    from ....stream.alerts.delivery import Delivery, Pace
    from ....stream.alerts.detector import Settings
    from ....stream.alerts.receivers import TIMEOUT_S as ANSWER_S
    from ....stream.alerts.receivers import Alertmanager, Webhook
    from ....stream.group.alerts import AlertsRuntime
    from ....stream.kafka.alerts_process import DEAD_LETTER_CODES, SENDS, alerts_process
    from ....stream.kafka.health import serving
    from ....stream.messages.topics import Topic
    from ....stream.process.metrics import AlertMetrics
    from ....stream.stages.alert import Alerting

    if alertmanager is None and (labels or console is not None):
        raise click.UsageError("--label and --console are for Alertmanager: give --alertmanager, too.")
    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    tolerance, settings = _tolerance(rates, tick_s), Settings(arl_ticks=arl)
    verdicts = kafka.topic(Topic.VERDICTS)
    with httpx.Client(timeout=ANSWER_S) as client:
        receivers: list[Receiver] = []
        if alertmanager is not None:
            known = os.environ.get("TRACLINE_ALERTMANAGER_TOKEN")
            headers = {} if known is None else {"Authorization": f"Bearer {known}"}
            receivers.append(Alertmanager(alertmanager, client, _labels(labels), console, headers))
        if webhook is not None:
            known, secret = (os.environ.get(f"TRACLINE_WEBHOOK_{name}") for name in ("TOKEN", "SECRET"))
            receivers.append(Webhook(webhook, client, known, secret))
        names = [receiver.name for receiver in receivers]
        metrics = AlertMetrics([verdicts], map(kafka.topic, SENDS), names, DEAD_LETTER_CODES)
        pace = Pace(resend_s=resend_s, lease_s=4 * resend_s)
        runtime = AlertsRuntime(
            instance=instance,
            timeout_s=timeout_s,
            metrics=metrics,
            report=lambda text: note(f"alerts: {text}"),
            stopping=stopping(),
            alerting=lambda partitions: Alerting(tolerance, settings, partitions, verdicts),
            delivery=lambda: Delivery(
                receivers, metrics, jitter=random.random, tell=lambda text: note(f"alerts: {text}"), pace=pace
            ),
        )
        process = alerts_process(kafka, runtime, wait_s)
        if process is None:
            return
        with serving(metrics.kafka, address, lambda: process.is_ready) as port:
            note(f"alerts: reads {verdicts}; metrics and health on {address.url(port)}")
            if not receivers:
                note(f"alerts: no receiver is named; alerts go to {kafka.topic(Topic.ALERTS)} alone")
            process.run()


def _tolerance(rates: Path | None, tick_s: int) -> Tolerance:
    """Return what is tolerated: as the file says, or what is believed without any history."""
    from ....stream.alerts.rates import decode, tolerance, unknown

    if rates is None:
        return tolerance(unknown(tick_s, session_settings().idle_s))
    try:
        data = rates.read_bytes()
    except OSError as error:
        raise file_error(error) from error
    return tolerance(decode(data))


def _labels(given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` as labels."""
    labels: dict[str, str] = {}
    for text in given:
        name, separator, told = text.partition("=")
        if not separator or not name.isascii() or not name.isidentifier():
            raise click.UsageError(f"--label is NAME=VALUE with a name of letters, digits and _: {text!r}.")
        labels[name] = told
    return labels
