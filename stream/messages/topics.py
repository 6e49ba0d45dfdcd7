"""The topics of the pipeline, by what they are for; `KafkaSettings` gives their names."""

from __future__ import annotations

from enum import StrEnum


class Topic(StrEnum):
    """What a topic is for: the last part of its name."""

    SPANS = "spans"
    """OTLP requests, as a collector or an agent's exporter sends them; keyed by trace."""
    LOGS = "logs"
    """OTLP requests of log records, keyed by trace like those of `SPANS`; it may be missing."""
    EVENTS = "events"
    """Candidates by session, ticks and activations: what the monitor reads."""
    JUDGED = "judged"
    """Events in judged order: what the archiver copies."""
    VERDICTS = "verdicts"
    """Verdicts and sessions' statuses: what alerts count, and anyone may read."""
    DEAD_LETTER = "dead-letter"
    """Where what could not be read or judged stands, and why."""
    REKEY_STATE = "rekey-state"
    """What the rekeyer goes on with, partition by partition of `SPANS` and `LOGS`."""
    ALERTS = "alerts"
    """Alerts that began and ended."""
    ALERTS_STATE = "alerts-state"
    """What the alerts process goes on with."""
