"""A pack that extends another: its document with what it inherits, as if all of it stood in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...schemas.verdict import Severity
from ..model.problem import Problem, did_you_mean
from .yaml_document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode, data

SECTIONS = ("propositions", "operators", "transitions")
"""The sections whose entries replace inherited ones of the same name."""

PARENTS_MAX = 5
"""Packs that a pack inherits from: the one that it extends, the one that this extends, and so on."""

SectionEntries = Mapping[str, tuple[ScalarNode, YamlNode]]
"""The entries of a section by name: of an operator without its parameters."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """A pack's inheritance: the name of the pack that it extends, and what it changes of that.

    `inherited` are the ids of the rules that it takes, `own` those that it adds. `severities` has the rules
    whose severity is another than in the extended pack, each with the former and the new one.
    """

    parent: str
    inherited: tuple[str, ...]
    own: tuple[str, ...]
    dropped: tuple[str, ...]
    replaced: Mapping[str, tuple[str, ...]]
    severities: Mapping[str, tuple[str, str]]


def extends_node(document: Document) -> ScalarNode | None:
    """Return the node that names the pack which a document extends, if it does."""
    node = document.root.value("extends") if isinstance(document.root, MappingNode) else None
    return node if isinstance(node, ScalarNode) and data(node) is not None else None


def extend(child: Document, parent: Document) -> Document:
    """Return the child with the rules and names that it inherits from the parent, which may extend others.

    Inherited rules come first. What the child cannot have beside what it inherits is left out, and among its
    `problems`.
    """
    root = child.root
    assert isinstance(root, MappingNode), "a pack that extends another is a mapping"
    problems = [*child.problems, *_drop_problems(child, parent), *_name_problems(child, parent)]
    merged: dict[str, tuple[ScalarNode, YamlNode]] = {key.text: (key, value) for key, value in root.entries}
    for name in SECTIONS:
        own = root.value(name)
        if own is None or isinstance(own, MappingNode) or _is_empty(own):
            key = root.key(name) or _key(name, root)
            merged[name] = (key, replace(root, entries=(*_section_entries(child, parent, name),)))
    rules = root.value("rules")
    if rules is None or isinstance(rules, SequenceNode) or _is_empty(rules):
        own_rules = rules.items if isinstance(rules, SequenceNode) else ()
        items = (*_inherited_rules(child, parent), *own_rules)
        merged["rules"] = (
            root.key("rules") or _key("rules", root),
            SequenceNode(items, root.start, root.end, root.file),
        )
    whole = replace(root, entries=tuple(merged.values()))
    return replace(child, root=whole, problems=tuple(problems), parent=parent)


def check_without_parent(document: Document) -> Document:
    """Return a document that names no rules to leave out or to weigh where it extends no pack."""
    problems = [*document.problems, *_drop_problems(document, None)]
    return replace(document, problems=tuple(problems))


def overrides(document: Document) -> Overrides | None:
    """Return what a document inherits and changes; None where it extends no pack."""
    parent = document.parent
    if parent is None:
        return None
    before, now = _rules(parent), _rules(document)
    kept = {name: rule for name, rule in now.items() if rule.file is not document.file}
    changed = {
        name: (_severity(before[name]), _severity(rule)) for name, rule in kept.items() if name in before
    }
    replaced = {
        name: tuple(
            entry
            for entry, (key, _) in section(document, name).items()
            if key.file is document.file and entry in section(parent, name)
        )
        for name in SECTIONS
    }
    return Overrides(
        parent=pack_name(parent),
        inherited=tuple(kept),
        own=tuple(name for name in now if name not in kept),
        dropped=tuple(name for name in before if name not in kept),
        replaced=replaced,
        severities={name: pair for name, pair in changed.items() if pair[0] != pair[1]},
    )


def inheritance_chain(document: Document) -> Iterator[Document]:
    """Yield the document, the one that it extends, the one that this extends, and so on."""
    node: Document | None = document
    while node is not None:
        yield node
        node = node.parent


def pack_name(document: Document) -> str:
    """Return the name that the document gives its pack."""
    node = document.root.value("pack") if isinstance(document.root, MappingNode) else None
    return node.text if isinstance(node, ScalarNode) else document.source


def section(document: Document, name: str) -> SectionEntries:
    """Return the entries of a section by the names that they define."""
    node = document.root.value(name) if isinstance(document.root, MappingNode) else None
    entries = node.entries if isinstance(node, MappingNode) else ()
    return {_defined(key): (key, value) for key, value in entries}


def _section_entries(child: Document, parent: Document, name: str) -> Iterator[tuple[ScalarNode, YamlNode]]:
    """Yield the entries of a section: the inherited ones that the child does not replace, and the child's.

    What the parent has in another section hides an entry of the child, which `_name_problems` reports.
    """
    own = section(child, name)
    yield from (entry for found, entry in section(parent, name).items() if found not in own)
    elsewhere = {found for other in SECTIONS if other != name for found in section(parent, other)}
    node = child.root.value(name) if isinstance(child.root, MappingNode) else None
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        if _defined(key) not in elsewhere:
            yield key, value


def _inherited_rules(child: Document, parent: Document) -> Iterator[YamlNode]:
    """Yield the parent's rules without those that the child drops, with the severities that it gives.

    A rule of the child hides one of the same id, which `_name_problems` reports.
    """
    dropped = {node.text for node in _dropped(child)} | _rules(child).keys()
    severities = dict(_severities(child))
    rules = parent.root.value("rules") if isinstance(parent.root, MappingNode) else None
    for rule in rules.items if isinstance(rules, SequenceNode) else ():
        name = _id(rule)
        if name is not None and name.text in dropped:
            continue
        given = severities.get(name.text) if name is not None else None
        yield rule if given is None else _weighed(rule, given[1])


def _weighed(rule: YamlNode, value: ScalarNode) -> YamlNode:
    """Return the rule with another severity."""
    assert isinstance(rule, MappingNode), "a rule with an id is a mapping"
    entries = [entry for entry in rule.entries if entry[0].text != "severity"]
    return replace(rule, entries=(*entries, (_key("severity", rule), value)))


def _drop_problems(child: Document, parent: Document | None) -> Iterator[Problem]:
    """Yield a problem for each id under `drop` and `severities` that names no rule to inherit (TRL225)."""
    known = {} if parent is None else _rules(parent)
    dropped = {node.text for node in _dropped(child)}
    named = [("drop", node) for node in _dropped(child)]
    named += [("severities", key) for _, (key, _) in _severities(child)]
    for field, node in named:
        if parent is None:
            message, hint = (
                f"`{field}` stands in a pack that extends none",
                "add `extends: PACK`, or take it out",
            )
            yield Problem("TRL225", message, hint, child.location(node))
        elif node.text not in known:
            message = f"`{pack_name(parent)}` has no rule `{node.text}`"
            own = node.text in _rules(child)
            hint = "a rule of this file has its own `severity`" if own else did_you_mean(node.text, known)
            yield Problem("TRL225", message, hint, child.location(node))
        elif field == "severities" and node.text in dropped:
            message = f"the rule `{node.text}` is dropped"
            yield Problem(
                "TRL225", message, "take it out of `drop`, or of `severities`", child.location(node)
            )


def _name_problems(child: Document, parent: Document) -> Iterator[Problem]:
    """Yield a problem for each rule or name of the child that an inherited one is in the way of."""
    inherited = _rules(parent).keys() - {node.text for node in _dropped(child)}
    for name, rule in _rules(child).items():
        if name in inherited:
            message = f"`{pack_name(parent)}` has a rule `{name}` too"
            hint = f"rename this one, or leave the inherited one out with `drop: [{name}]`"
            yield Problem("TRL220", message, hint, child.location(_id(rule) or rule))
    for name in SECTIONS:
        for other in SECTIONS:
            for defined, (key, _) in section(child, name).items():
                if other != name and defined in section(parent, other):
                    message = f"`{defined}` is defined twice: `{pack_name(parent)}` has it under `{other}`"
                    yield Problem("TRL222", message, "choose another name", child.location(key))


def _rules(document: Document) -> dict[str, MappingNode]:
    """Return the rules that have an id, by their ids."""
    node = document.root.value("rules") if isinstance(document.root, MappingNode) else None
    rules = node.items if isinstance(node, SequenceNode) else ()
    return {
        name.text: rule for rule in rules if isinstance(rule, MappingNode) and (name := _id(rule)) is not None
    }


def _id(rule: YamlNode) -> ScalarNode | None:
    node = rule.value("id") if isinstance(rule, MappingNode) else None
    return node if isinstance(node, ScalarNode) else None


def _severity(rule: MappingNode) -> str:
    node = rule.value("severity")
    return node.text if isinstance(node, ScalarNode) else Severity.MEDIUM.value


def _dropped(document: Document) -> tuple[ScalarNode, ...]:
    """Return the ids under `drop`."""
    node = document.root.value("drop") if isinstance(document.root, MappingNode) else None
    return (
        tuple(item for item in node.items if isinstance(item, ScalarNode))
        if isinstance(node, SequenceNode)
        else ()
    )


def _severities(document: Document) -> Iterator[tuple[str, tuple[ScalarNode, ScalarNode]]]:
    """Yield the entries under `severities` that have one."""
    node = document.root.value("severities") if isinstance(document.root, MappingNode) else None
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(value, ScalarNode) and value.text in {severity.value for severity in Severity}:
            yield key.text, (key, value)


def _defined(key: ScalarNode) -> str:
    """Return the name that a section's key defines: that of an operator without its parameters."""
    return key.text.partition("(")[0].strip()


def _is_empty(node: YamlNode) -> bool:
    return data(node) is None


def _key(text: str, within: MappingNode) -> ScalarNode:
    """Return a key that the file itself does not have there."""
    return ScalarNode(text, "", within.start, within.start, within.file)
