"""What keeps a live process from starting or going on: a code, what is wrong, and what to do instead."""

from __future__ import annotations

CODES: dict[str, str] = {
    "TRL701": "a session's state that another release wrote, or that is damaged",
    "TRL702": "a store that another release made, or that is damaged",
    "TRL703": "a store that another process has open",
    "TRL704": "a store that cannot be read or written, for the disk or another program",
    "TRL711": "an address that others can reach, and no token",
    "TRL712": "a token that cannot be used",
    "TRL713": "an address that cannot be listened on",
    "TRL714": "a limit of open files that is too low",
    "TRL721": "settings of Kafka that contradict each other",
    "TRL722": "a file of Kafka's settings that cannot be used",
    "TRL723": "a broker that cannot be reached, or refuses",
    "TRL724": "topics that are missing, or not as they must be",
    "TRL725": "a consumer group that does not take the process",
    "TRL731": "a message that another release wrote, or that is damaged",
    "TRL732": "topics whose number of partitions has changed",
    "TRL733": "two processes that run under one name",
    "TRL734": "a transaction that Kafka refuses, or records that it cannot give",
    "TRL735": "a topic that ends before what was read of it",
    "TRL742": "a monitor without a rule set in force",
    "TRL743": "a folder for the monitor's state that cannot be used",
    "TRL744": "topics that do not fit the monitor's state",
    "TRL745": "a monitor that cannot go on",
    "TRL746": "a monitor whose partitions others took over while it slept",
    "TRL747": "a message that Kafka's client did not hand on",
    "TRL748": "rules that a process does not survive judging by",
    "TRL741": "a partition's state that another release wrote, or that is damaged",
    "TRL751": "a topic that was made anew since an archive was written of it",
    "TRL761": "an alert's state that another release wrote, or that is damaged",
    "TRL762": "a file of tolerated rates that cannot be used",
    "TRL763": "an alert's state of ticks of another length",
    "TRL764": "a record of the topic of alerts that another release wrote, or that is none",
    "TRL765": "a receiver that alerts cannot be delivered to as it is given",
    "TRL766": "a topic of events that was made anew since verdicts of it were heard",
}
"""The codes of this room, beside those of the others; each has a test that triggers it."""


class StreamError(Exception):
    """A live process that may not, or cannot, go on: `code`, what is wrong, and a `hint`."""

    def __init__(self, code: str, what: str, hint: str) -> None:
        assert code in CODES, f"{code} is not in the table of codes"
        super().__init__(what)
        self.code = code
        self.hint = hint


PROCESS_ERRORS = (StreamError, MemoryError, OSError)
"""Errors that say nothing of the message, the span or the session in hand: it is not put aside for them."""
