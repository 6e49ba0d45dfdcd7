"""The missing content of one event, against the column of a frame."""

from __future__ import annotations

from itertools import product

from tracline.rules.labels.missing import MISSING, missing_column, missing_in
from tracline.schemas.dialects.names.opentelemetry_1_41 import SCOPE_NAME
from tracline.schemas.event import Content, Event, Kind
from tracline.schemas.frames.events import event_frame

PRESENT = (None, "x")
ATTRIBUTES: tuple[dict[str, str], ...] = ({}, {SCOPE_NAME: "agent"})


def test_one_event_lacks_what_its_row_lacks() -> None:
    """Every kind and content of an event, with and without each field."""
    fields = product(Kind, Content, PRESENT, PRESENT, PRESENT, ATTRIBUTES)
    events = [
        Event("s", 1, 1, 0, kind, content=content, tool=tool, args=args, result=result, attributes=attributes)
        for kind, content, tool, args, result, attributes in fields
    ]
    column = event_frame(events).select(missing_column())[MISSING].to_list()
    assert [missing_in(event) for event in events] == column
