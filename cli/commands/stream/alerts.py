"""`tracline stream alerts`: watch verdicts, and alert on violation rates above the tolerated ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...error import file_error
from ...options import Command, SecondsType
from ...settings import session_settings
from ...signals import stop_event
from ..alerts.group import TICK_S
from .process_options import ProcessOptions, process_options
from .receivers import ReceiverOptions, receiver_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ....stream.alerts.delivery import Delivery
    from ....stream.alerts.receivers import Receiver
    from ....stream.kafka.settings import KafkaSettings
    from ....stream.process.alert_metrics import AlertMetrics
    from ....stream.stages.alert import AlertStage

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
@receiver_options
@click.option(
    "--resend-s",
    type=SecondsType(0.1, 3_600),
    default=RESEND_S,
    show_default=True,
    help="Seconds between resends of a firing alert to Alertmanager, which resolves it after four times as"
    " long.",
)
@process_options("alerts", TIMEOUT_S, "another process takes over", has_instance=True)
def command(
    rates: Path | None,
    tick_s: int,
    arl: int,
    receivers: ReceiverOptions,
    resend_s: float,
    options: ProcessOptions,
) -> None:
    """Watch the verdicts of all sessions, and alert when an agent violates a rule more often than tolerated.

    Alerts go to the topic of alerts, and from there to Alertmanager and the webhook, if they are given. Each
    alert is sent until the receiver accepts it, and again when it is resolved. One process is active; others
    are on standby. TRACLINE_ALERTMANAGER_TOKEN and TRACLINE_WEBHOOK_TOKEN are the tokens for the receivers;
    TRACLINE_WEBHOOK_SECRET signs the webhook's requests.
    """
    import httpx

    from ....stream.alerts.receivers import TIMEOUT_S as ANSWER_S
    from ....stream.messages.topics import Topic

    kafka = options.kafka()
    stage = _stage(rates, tick_s, arl, kafka.topic(Topic.VERDICTS))
    with httpx.Client(timeout=ANSWER_S) as client:
        _run(kafka, stage, receivers.opened(client), resend_s, options)


def _run(
    kafka: KafkaSettings,
    stage: AlertStage,
    receivers: Sequence[Receiver],
    resend_s: float,
    options: ProcessOptions,
) -> None:
    """Run the process until it is stopped."""
    from ....stream.group.alerts import AlertsRuntime
    from ....stream.kafka.alerts_process import DEAD_LETTER_CODES, SENDS, alerts_process
    from ....stream.messages.topics import Topic
    from ....stream.process.alert_metrics import AlertMetrics

    verdicts, names = kafka.topic(Topic.VERDICTS), [receiver.name for receiver in receivers]
    metrics = AlertMetrics([verdicts], map(kafka.topic, SENDS), names, DEAD_LETTER_CODES)
    runtime = AlertsRuntime(
        instance=options.instance,
        timeout_s=options.timeout_s,
        metrics=metrics,
        report=options.report,
        stopping=stop_event(),
        stage=stage,
        delivery=_deliveries(receivers, metrics, options.report, resend_s),
    )
    process = alerts_process(kafka, runtime, options.wait_s)
    if process is None:
        return
    if not receivers:
        options.report(f"no receiver; alerts go only to {kafka.topic(Topic.ALERTS)}")
    options.run(process, metrics.kafka, verdicts)


def _deliveries(
    receivers: Sequence[Receiver], metrics: AlertMetrics, report: Callable[[str], None], resend_s: float
) -> Callable[[], Delivery]:
    """Return what makes a new delivery to the receivers, whenever the process takes over."""
    import random

    from ....stream.alerts.delivery import Delivery, DeliveryIntervals

    intervals = DeliveryIntervals(resend_s=resend_s, lease_s=4 * resend_s)
    return lambda: Delivery(receivers, metrics, jitter=random.random, report=report, intervals=intervals)


def _stage(rates: Path | None, tick_s: int, arl: int, verdicts: str) -> AlertStage:
    """Return the stage with the tolerated rates of the file, or those for an unknown history."""
    from ....predict.detector import DetectorSettings
    from ....stream.alerts.rates import decode, default_rates, tolerance
    from ....stream.stages.alert import AlertStage

    try:
        learned = None if rates is None else decode(rates.read_bytes())
    except OSError as error:
        raise file_error(error) from error
    tolerated = tolerance(learned or default_rates(tick_s, session_settings().idle_s))
    return AlertStage(tolerated, DetectorSettings(arl_ticks=arl), verdicts)
