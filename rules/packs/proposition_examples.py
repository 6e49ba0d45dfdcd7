"""The examples of propositions, as data: texts and events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ...schemas.case_events import FIELDS, UnreadableEvent, case_event
from ...schemas.event import Event
from ..model.predicate import Predicate, event_paths, leaves
from ..model.rule import PropositionExample
from .example_events import Report
from .inheritance import condition_node
from .yaml.document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode

_PLAIN_VALUES = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?")


def proposition_examples(
    document: Document, pack: str, propositions: Mapping[str, Predicate], report: Report
) -> tuple[PropositionExample, ...]:
    """Return the examples of the propositions that the document's own file defines."""
    found: list[PropositionExample] = []
    for key, value in document.entries("propositions"):
        predicate, condition = propositions.get(key.text), condition_node(value)
        if not isinstance(value, MappingNode) or key.file is not document.file or predicate is None:
            continue
        assert isinstance(condition, ScalarNode), "a proposition with a predicate has a condition"
        for field, expected in (("true", True), ("false", False)):
            items = value.value(field)
            listed = items.items if isinstance(items, SequenceNode) else ()
            for number, item in enumerate(listed, start=1):
                text, event = _tried(predicate, item, report)
                if text is not None or event is not None:
                    example = PropositionExample(
                        pack, key.text, predicate, condition.text, expected, number, text, event
                    )
                    found.append(example)
    return tuple(found)


def _tried(predicate: Predicate, item: YamlNode, report: Report) -> tuple[str | None, Event | None]:
    """Return the text or the event of an example; report one that cannot be tried."""
    if isinstance(item, ScalarNode):
        if any(path.field == "text" for leaf in leaves(predicate) for path in event_paths(leaf)):
            return item.text, None
        hint = "write an event, such as `{kind: tool_call, tool: refund, args: {amount: 200}}`"
        report("TRL243", "a text is no example of a proposition that reads no `text`", hint, item)
        return None, None
    if isinstance(item, SequenceNode):
        return None, None
    try:
        return None, case_event(_json_value(item))
    except UnreadableEvent as error:
        hint = f"write the fields of an event: {', '.join(FIELDS)}"
        report("TRL242", f"the event {error}", hint, item)
        return None, None


def _json_value(node: YamlNode) -> object:
    """Return a node's value as JSON: a plain scalar is a number, true, false or null if it reads as one."""
    if isinstance(node, SequenceNode):
        return [_json_value(item) for item in node.items]
    if isinstance(node, MappingNode):
        return {key.text: _json_value(value) for key, value in node.entries}
    if node.style == "" and node.text in _PLAIN_VALUES:
        return _PLAIN_VALUES[node.text]
    return json.loads(node.text) if node.style == "" and _NUMBER.fullmatch(node.text) else node.text
