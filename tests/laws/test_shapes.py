"""The shapes of values in JSON documents are those that conditions of the language find there."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tracline.batch.contents.needs import Need, ReadPlace, Shape, equals, shapes, text_of, values_at
from tracline.rules.model.predicate import Elements, Path

from ..support.truth.predicate_answers import answers
from .label_inputs import frame
from .label_oracle import Event
from .list_inputs import list_events

steps = st.sampled_from([("a",), ("b",), (0,), ("a", 0), (0, "a")])
places = st.builds(Path, st.sampled_from(["args", "result"]), steps) | st.builds(
    Elements, st.builds(Path, st.sampled_from(["args", "result"]), st.just(()) | steps), st.just(()) | steps
)


@settings(max_examples=60)
@given(st.lists(places, min_size=1, max_size=4, unique=True), st.lists(list_events, min_size=5, max_size=20))
def test_the_shapes_at_a_place_are_those_that_conditions_find(
    found: list[ReadPlace], rows: list[Event]
) -> None:
    """A sample of contents shows exactly the shapes and texts that a search of all events finds."""
    events: list[Event] = [{**row, "kind": "tool_result", "content": "captured"} for row in rows]
    needed = [Need(place, shape) for place in found for shape in Shape]
    for need, answered in zip(
        needed, answers([need.predicate for need in needed], frame(events)), strict=True
    ):
        assert answered == [_has(need, event) for event in events], need
    asked = [(place, text) for place in found for text in ("a", "yes", True)]
    for (place, text), answered in zip(
        asked, answers([equals(place, text) for place, text in asked], frame(events)), strict=True
    ):
        wanted = text if isinstance(text, str) else "true"
        assert answered == [wanted in map(text_of, _values(place, event)) for event in events]


def _has(need: Need, event: Event) -> bool:
    return any(need.shape in shapes(value) for value in _values(need.place, event))


def _values(place: ReadPlace, event: Event) -> list[object]:
    document = event[place.field if isinstance(place, Path) else place.list.field]
    return [] if document is None else values_at(place, document)
