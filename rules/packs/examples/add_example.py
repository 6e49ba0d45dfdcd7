"""Adding an example to the text of a pack: comments and the author's layout stay."""

from __future__ import annotations

import json
from dataclasses import replace

from ...model.rule import Examples, Rule, RuleSet
from ..yaml.document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode, data


def example_line(path: str) -> str:
    """Return the entry of a case, as in a list under `violated` or `holds`."""
    plain = all(char.isascii() and (char.isalnum() or char in "._-/") for char in path)
    return f"{{events: {path if plain else json.dumps(path)}}}"


def with_example(document: Document, rule_id: str, kind: str, path: str) -> str | None:
    """Return the text of the document's file with a case as the last example of that kind of the rule.

    Return None if the file has no such rule, or if its layout leaves no certain place.
    """
    rule = next((rule for rule in document.items("rules") if _id(rule) == rule_id), None)
    if not isinstance(rule, MappingNode) or rule.file is not document.file:
        return None
    text = rule.file.text
    examples = rule.value("examples")
    if examples is None or data(examples) is None:
        if _is_flow(rule) or examples is not None:
            return None
        indent = _indent(rule)
        lines = f"{indent}examples:\n{indent}  {kind}:\n{indent}    - {example_line(path)}"
        return _inserted(text, _end(rule), lines)
    if not isinstance(examples, MappingNode):
        return None
    sessions = examples.value(kind)
    if sessions is None:
        if _is_flow(examples):
            return _before_bracket(text, examples, f"{kind}: [{example_line(path)}]")
        return _inserted(text, _end(examples), f"{_indent(examples)}{kind}: [{example_line(path)}]")
    return _listed(text, sessions, example_line(path)) if isinstance(sessions, SequenceNode) else None


def adds_only(before: RuleSet, after: RuleSet, rule_id: str) -> bool:
    """Return whether two readings of a pack differ in exactly one more case of that rule."""
    pairs = list(zip(before.rules, after.rules, strict=False))
    if len(before.rules) != len(after.rules):
        return False
    changed = [(old, new) for old, new in pairs if old != new]
    return len(changed) == 1 and _gains(*changed[0], rule_id)


def _gains(old: Rule, new: Rule, rule_id: str) -> bool:
    bare = Examples()
    if old.id != rule_id or replace(old, examples=bare) != replace(new, examples=bare):
        return False
    was, now = old.examples, new.examples
    cases = [len(found.violated_events) + len(found.holds_events) for found in (was, now)]
    return (was.violated, was.holds) == (now.violated, now.holds) and cases[1] == cases[0] + 1


def _listed(text: str, sessions: SequenceNode, line: str) -> str | None:
    """Return the text with a case in a list of sessions; a single session becomes the first of the list."""
    steps = [item for item in sessions.items if isinstance(item, SequenceNode)]
    several = len(steps) < len(sessions.items) or any(
        isinstance(part, SequenceNode) for step in steps for part in step.items
    )
    if not _is_flow(sessions):
        last = sessions.items[-1] if sessions.items else None
        if last is None or not several:
            return None
        return _inserted(text, _end(sessions), f"{_indent(sessions)}- {line}")
    if several or not sessions.items:
        return _before_bracket(text, sessions, line)
    whole = text[sessions.start : sessions.end]
    return f"{text[: sessions.start]}[{whole}, {line}]{text[sessions.end :]}"


def _before_bracket(text: str, node: MappingNode | SequenceNode, line: str) -> str:
    """Return the text with a further entry in a flow collection."""
    inside = text[: node.end - 1].rstrip()
    is_empty = inside[-1] in "[{"
    separator = "" if is_empty else " " if inside.endswith(",") else ", "
    return f"{inside}{separator}{line}{text[node.end - 1 :]}"


def _inserted(text: str, end: int, line: str) -> str:
    """Return the text with a further line after the one that ends a block."""
    return f"{text[:end]}\n{line}{text[end:]}"


def _end(node: YamlNode) -> int:
    """Return the end of the last line of a block: the parser ends a block at the next key."""
    text = node.file.text
    last = len(text[: node.end].rstrip())
    # A comment below a block belongs to what follows; the last value is above it.
    while (start := text.rfind("\n", 0, last) + 1) and text[start:last].lstrip().startswith("#"):
        last = len(text[:start].rstrip())
    line_end = text.find("\n", last)
    return len(text) if line_end < 0 else line_end


def _indent(node: MappingNode | SequenceNode) -> str:
    """Return the spaces before a block's entries; `- ` before the first one counts as two."""
    start = node.start
    return " " * (start - node.file.text.rfind("\n", 0, start) - 1)


def _is_flow(node: MappingNode | SequenceNode) -> bool:
    return node.file.text[node.start : node.start + 1] in ("[", "{")


def _id(rule: YamlNode) -> str | None:
    node = rule.value("id") if isinstance(rule, MappingNode) else None
    return node.text if isinstance(node, ScalarNode) else None
