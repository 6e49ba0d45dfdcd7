"""Errors that keep a live process from starting or continuing: a code, the problem, and a hint."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TRL701": "damaged or incompatible session state",
    "TRL702": "damaged or incompatible store",
    "TRL703": "store in use by another process",
    "TRL704": "store that cannot be read or written",
    "TRL711": "address reachable by other machines without a token",
    "TRL712": "unusable token",
    "TRL713": "address that cannot be listened on",
    "TRL714": "limit of open files too low",
    "TRL721": "contradictory Kafka settings",
    "TRL722": "unusable file of the Kafka settings",
    "TRL723": "broker unreachable or refusing",
    "TRL724": "missing or misconfigured topics",
    "TRL725": "consumer group that does not admit the process",
    "TRL731": "damaged or incompatible message",
    "TRL732": "changed number of partitions",
    "TRL733": "two processes with one name",
    "TRL734": "transaction refused by Kafka, or records that it cannot return",
    "TRL735": "topic that ends before what was read of it",
    "TRL741": "damaged or incompatible state of a partition",
    "TRL742": "monitor without rules in force",
    "TRL743": "unusable folder for the monitor's state",
    "TRL744": "topics that do not match the monitor's state",
    "TRL745": "monitor that cannot continue",
    "TRL746": "monitor whose partitions were reassigned while it was suspended",
    "TRL747": "message that the Kafka client dropped",
    "TRL748": "rules that no process can judge by",
    "TRL751": "topic recreated since it was archived",
    "TRL761": "damaged or incompatible state of the alerts",
    "TRL762": "unusable file of tolerated rates",
    "TRL763": "state of the alerts with ticks of another length",
    "TRL764": "damaged or incompatible record of the alerts topic",
    "TRL765": "unusable receiver of alerts",
    "TRL766": "events topic recreated since its verdicts were counted",
    "TRL805": "chain that a live monitor lacks",
}
"""The codes of the live room; a test triggers each."""


class StreamError(Exception):
    """An error that stops a live process: its `code`, the problem, and a `hint`."""

    def __init__(self, code: str, what: str, hint: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(what)
        self.code = code
        self.hint = hint


PROCESS_ERRORS = (StreamError, MemoryError, OSError)
"""Errors of the process, not of the message in hand: they never make it a dead letter."""
