"""The topics of the pipeline by purpose; `KafkaSettings` has their names."""

from __future__ import annotations

from enum import StrEnum


class Topic(StrEnum):
    """The purpose of a topic: the last part of its name."""

    SPANS = "spans"
    """OTLP requests, as a collector or an agent's exporter sends them; keyed by trace."""
    LOGS = "logs"
    """OTLP requests of log records, keyed by trace like those of `SPANS`; the topic is optional."""
    EVENTS = "events"
    """Candidates by session, ticks and activations; the monitor reads them."""
    JUDGED = "judged"
    """Events in judged order; the archiver copies them."""
    VERDICTS = "verdicts"
    """Verdicts and status changes; the alerts process counts them, and others may read them."""
    RISK = "risk"
    """Crossings of thresholds of risk, where a chain follows the sessions; others read them."""
    DEAD_LETTER = "dead-letter"
    """The positions of records that could not be read or judged, and why."""
    REKEY_STATE = "rekey-state"
    """The rekeyer's state, by partition of `SPANS` and `LOGS`."""
    ALERTS = "alerts"
    """Alerts that fire and are resolved."""
    ALERTS_STATE = "alerts-state"
    """The state of the alerts process."""
