"""The examples of rules that are events in files, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..model.rule import EventsExample
from .validate import KeyPath
from .yaml.document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode, data

KINDS = ("violated", "holds")
"""The kinds of a rule's examples."""

Report = Callable[[str, str, str, YamlNode], None]
"""A function that reports a problem: its code, message and hint, and the node."""


def events_examples(document: Document, path: KeyPath, report: Report) -> tuple[EventsExample, ...]:
    """Return the files of events under `violated` or `holds` of a rule."""
    return tuple(_events_examples(document, path, report))


def _events_examples(document: Document, path: KeyPath, report: Report) -> Iterator[EventsExample]:
    node = document.at(path)
    for item in node.items if isinstance(node, SequenceNode) else ():
        file = item.value("events") if isinstance(item, MappingNode) else None
        if not isinstance(file, ScalarNode) or data(file) is None:
            continue
        if is_case_path(file.text):
            yield EventsExample(file.text, document.location(file), file.file.folder)
        else:
            hint = "write a path such as `cases/refund.jsonl`, relative to this file and below its folder"
            report("TRL241", f"`{file.text}` is not the path of a case", hint, file)


def is_case_path(text: str) -> bool:
    """Return whether a text is the path of a file of events, relative and without a way out of its folder."""
    return text.endswith(".jsonl") and "\\" not in text and not {"", ".", ".."} & set(text.split("/"))
