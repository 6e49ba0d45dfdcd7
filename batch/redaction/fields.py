"""The fields of a bundle's files, each classed: open, or replaced under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final


class FieldClass(StrEnum):
    """The class of a field; all but `OPEN` and `SENTENCE` name the field of the keyed digest.

    `SENTENCE` is a text on a verdict, which names the slice. `SESSION_ID` is replaced on request only.
    """

    OPEN = "open"
    SENTENCE = "sentence"
    SESSION_ID = "session_id"
    EVENT_ID = "event_id"
    ID = "id"
    SLICE = "slice"
    TEXT = "text"
    NAME = "name"
    PATH = "path"
    HINT = "hint"
    CERTIFIED = "certified"
    """Events of a certificate: lists with the event's id in the second place."""


OPEN, SESSION = FieldClass.OPEN, FieldClass.SESSION_ID
ALWAYS: Final = ("event_id", "hint", "id", "name", "path", "slice", "text")
"""The fields that every redaction replaces."""

FieldShape = FieldClass | Mapping[str, Any] | Sequence[Any]
"""A class, the shapes of an object's members, or a list with the shape of all elements."""


def _open(names: str) -> dict[str, FieldClass]:
    return dict.fromkeys(names.split(), OPEN)


_WITNESS_EVENT = {**_open("seq true residual"), "event_id": FieldClass.EVENT_ID}
_WITNESS_PAST = {**_open("seq formula value"), "event_id": FieldClass.EVENT_ID}
VERDICT: Final[FieldShape] = {
    **_open("agent history late missing occurrence pack reason rule rule_digest seq severity time verdict"),
    "event_id": FieldClass.EVENT_ID,
    "id": FieldClass.ID,
    "session_id": SESSION,
    "slice": FieldClass.SLICE,
    "witness": {"events": [_WITNESS_EVENT], "history": [_WITNESS_PAST], "truncated": OPEN},
}
CROSSING: Final[FieldShape] = {
    **_open("agent basis chain drift high history late level low occurrence pack risk rule rule_digest seq"),
    **_open("sessions severity threshold time within"),
    "event_id": FieldClass.EVENT_ID,
    "id": FieldClass.ID,
    "session_id": SESSION,
    "slice": FieldClass.SLICE,
}
_RUN = {
    **_open("pack rule rule_digest steps close nodes worth"),
    "slice": FieldClass.SLICE,
    "verdicts": [{**_open("step verdict residual"), "sentence": FieldClass.SENTENCE}],
    "unjudged": {"seq": OPEN, "sentence": FieldClass.SENTENCE},
}
_RISK = {
    **_open("pack rule within threshold seqs risks"),
    "slice": FieldClass.SLICE,
    "rises": [_open("seq before after symbol")],
}
DRAWN_SESSION: Final[FieldShape] = {
    **_open("occurrence why"),
    "session_id": SESSION,
    "events": [
        {
            **_open("agent kind seq time tool"),
            "event_id": FieldClass.EVENT_ID,
            "text": FieldClass.TEXT,
        }
    ],
    "rules": [_RUN],
    "risks": [_RISK],
}
CERTIFIED_SESSION: Final[FieldShape] = {
    **_open("kind occurrence rule_set closed words"),
    "session_id": SESSION,
    "values": [[FieldClass.SLICE]],
    "events": FieldClass.CERTIFIED,
}
OPEN_SESSION: Final[FieldShape] = {"session_id": SESSION, "occurrence": OPEN, "files": [FieldClass.NAME]}
INPUT: Final[FieldShape] = {**_open("bytes first_time last_time rows sha256"), "name": FieldClass.NAME}
SOURCE_FIELDS: Final[FieldShape] = {
    **_open("as_judged as_of chat idle_s previous_as_of scope seed timezone waivers_at with_text"),
    "paths": [FieldClass.PATH],
}
SUMMARY_FIELDS: Final[FieldShape] = {
    **_open("followed never_true population rule_sets rules selection"),
    # A likely mistake may be a word of an argument's values.
    "likely_mistakes": [
        {
            **_open("pack proposition rules condition"),
            "reason": FieldClass.HINT,
            "suggestion": FieldClass.HINT,
        }
    ],
}
WAIVED_VERDICT: Final[FieldShape] = {
    **_open("waiver until"),
    "id": FieldClass.ID,
    # Who accepts a finding, and why, in words of their own.
    "by": FieldClass.NAME,
    "reason": FieldClass.HINT,
}
