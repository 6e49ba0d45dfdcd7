"""`tracline stream alerts`: watch verdicts, and alert on violation rates above the tolerated ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...error import file_error
from ...options import Command, Seconds, note
from ...settings import kafka_settings, session_settings
from ...signals import stop_event
from ..alerts.group import TICK_S
from .group import instance_option, process_options, run_process

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
    help="Tolerated rates, a file of `tracline alerts rates`.  [default: 3.2 % of sessions]",
)
@click.option(
    "--tick-s",
    type=click.IntRange(1, 86_400),
    default=TICK_S,
    show_default=True,
    help="Seconds of event time per tick; only without --rates.",
)
@click.option(
    "--arl",
    type=click.IntRange(10, 100_000_000),
    default=ARL_TICKS,
    show_default=True,
    help="The minimum mean number of ticks between false alarms of one rule and agent.",
)
@click.option("--alertmanager", metavar="URL", help="An Alertmanager, such as http://127.0.0.1:9093.")
@click.option("--webhook", metavar="URL", help="A server that accepts the JSON in docs/operations.md.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label of every alert at Alertmanager, for routing; may be repeated.",
)
@click.option("--console", metavar="URL", help="The address of the console to which alerts link.")
@click.option(
    "--resend-s",
    type=Seconds(0.1, 3_600),
    default=RESEND_S,
    show_default=True,
    help="Seconds between resends of a firing alert to Alertmanager, which resolves it after four times as"
    " long.",
)
@instance_option()
@process_options(TIMEOUT_S, "another process takes over")
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
    """Watch the verdicts of all sessions, and alert when an agent violates a rule more often than tolerated.

    Alerts go to the topic of alerts, and from there to Alertmanager and the webhook, if they are given. Each
    alert is sent until the receiver accepts it, and again when it is resolved. One process is active; others
    are on standby. TRACLINE_ALERTMANAGER_TOKEN and TRACLINE_WEBHOOK_TOKEN are the tokens for the receivers;
    TRACLINE_WEBHOOK_SECRET signs the webhook's requests.
    """
    import random

    import httpx

    from ....predict.detector import DetectorSettings
    from ....stream.alerts.delivery import Delivery, DeliveryIntervals
    from ....stream.alerts.receivers import TIMEOUT_S as ANSWER_S
    from ....stream.alerts.receivers import Alertmanager, Webhook
    from ....stream.group.alerts import AlertsRuntime
    from ....stream.kafka.alerts_process import DEAD_LETTER_CODES, SENDS, alerts_process
    from ....stream.messages.topics import Topic
    from ....stream.process.alert_metrics import AlertMetrics
    from ....stream.stages.alert import AlertStage

    if alertmanager is None and (labels or console is not None):
        raise click.UsageError("--label and --console require --alertmanager.")
    kafka = kafka_settings({"bootstrap_servers": bootstrap_servers})
    tolerance, settings = _tolerance(rates, tick_s), DetectorSettings(arl_ticks=arl)
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
        intervals = DeliveryIntervals(resend_s=resend_s, lease_s=4 * resend_s)
        runtime = AlertsRuntime(
            instance=instance,
            timeout_s=timeout_s,
            metrics=metrics,
            report=lambda text: note(f"alerts: {text}"),
            stopping=stop_event(),
            stage=AlertStage(tolerance, settings, verdicts),
            delivery=lambda: Delivery(
                receivers,
                metrics,
                jitter=random.random,
                report=lambda text: note(f"alerts: {text}"),
                intervals=intervals,
            ),
        )
        process = alerts_process(kafka, runtime, wait_s)
        if process is None:
            return
        if not receivers:
            note(f"alerts: no receiver; alerts go only to {kafka.topic(Topic.ALERTS)}")
        run_process("alerts", process, metrics.kafka, verdicts, address)


def _tolerance(rates: Path | None, tick_s: int) -> Tolerance:
    """Return the tolerated rates of the file, or those for an unknown history."""
    from ....stream.alerts.rates import decode, default_rates, tolerance

    if rates is None:
        return tolerance(default_rates(tick_s, session_settings().idle_s))
    try:
        data = rates.read_bytes()
    except OSError as error:
        raise file_error(error) from error
    return tolerance(decode(data))


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
