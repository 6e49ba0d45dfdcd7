"""Inheritance of packs: the document of a pack that extends another, merged with what it inherits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ...schemas.verdict import Severity
from ..model.problem import Problem, RuleError, did_you_mean
from .yaml.document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode, data

SECTIONS = ("propositions", "operators", "transitions")
"""The sections whose entries replace inherited ones of the same name."""

PARENTS_MAX = 5
"""The longest chain of packs above one pack: its parent or one that it uses, that one's parent, and so on."""

PARENT_SUFFIX = ".extends"
USED_SUFFIX = ".uses"
"""The suffixes of the folders beside a stored pack: `NAME.extends/`, and `NAME.uses.1/` and so on."""

SectionEntries = Mapping[str, tuple[ScalarNode, YamlNode]]
"""The entries of a section by name; the name of an operator is without its parameters."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """The inheritance of a pack: its parent's name, and what it changes of that.

    `inherited` are the ids of the inherited rules, `own` those of the pack's rules. `severities` has, for
    each inherited rule with another severity, the parent's severity and the new one.
    """

    parent: str
    inherited: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    replaced: Mapping[str, tuple[str, ...]]
    severities: Mapping[str, tuple[str, str]]


class PackSource(Protocol):
    """The source of a pack's text, from which the pack that it extends can be found."""

    @property
    def source(self) -> str:
        """Return the pack's name in errors."""
        ...

    @property
    def folder(self) -> Path | None:
        """Return the folder of the pack's file; None if it is no file."""
        ...

    def text(self) -> str:
        """Return the pack's text. Raises RuleError if it cannot be read."""
        ...

    def referred(self, reference: PackReference) -> PackSource:
        """Return the pack that this one refers to. Raises RuleError if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class PackReference:
    """The name of another pack under `extends` or `use`.

    `suffix` ends the name of the folder beside a stored pack that has the other one.
    """

    field: str
    node: ScalarNode
    suffix: str

    @property
    def name(self) -> str:
        """Return the name of the other pack, or its path."""
        return self.node.text


def referred_source(
    reference: PackReference, origin: PackSource, children: tuple[PackSource, ...]
) -> PackSource:
    """Return the pack that a pack extends or uses; `children` extend or use that one, the nearest first.

    Raises RuleError without a location: for an unknown pack, a cycle, or too long a chain.
    """
    parent = origin.referred(reference)
    if parent in (origin, *children):
        cycle = " -> ".join(pack.source for pack in (*reversed(children), origin, parent))
        raise RuleError([Problem("TRL223", f"cyclic `{reference.field}`: {cycle}", "remove one of them")])
    if len(children) == PARENTS_MAX:
        how = "extended" if reference.field == "extends" else "used"
        where = f"in a chain of {how} packs, more than {PARENTS_MAX}"
        hint = "extend a pack further up the chain, and copy what the packs between them change"
        if reference.field == "use":
            hint = "use that pack directly"
        raise RuleError([Problem("TRL224", f"`{reference.name}` is pack {PARENTS_MAX + 1} {where}", hint)])
    return parent


def references(document: Document) -> Iterator[PackReference]:
    """Yield the pack that the document extends, if it does, and the packs that it uses."""
    parent = document.value("extends")
    if isinstance(parent, ScalarNode) and data(parent) is not None:
        yield PackReference("extends", parent, PARENT_SUFFIX)
    value = document.value("use")
    used = (value,) if isinstance(value, ScalarNode) else document.items("use")
    for number, node in enumerate(used, start=1):
        if isinstance(node, ScalarNode) and data(node) is not None:
            yield PackReference("use", node, f"{USED_SUFFIX}.{number}")


def extend(child: Document, parent: Document) -> Document:
    """Return the child merged with the rules and names that it inherits from the parent.

    Inherited rules come first. Names and rules of the child that collide with inherited ones are left out and
    reported in `problems`.
    """
    root = child.root
    assert isinstance(root, MappingNode), "a pack that extends another is a mapping"
    problems = [*child.problems, *_drop_problems(child, parent), *_name_problems(child, parent)]
    merged: dict[str, tuple[ScalarNode, YamlNode]] = {key.text: (key, value) for key, value in root.entries}
    for name in SECTIONS:
        section = root.value(name)
        if section is None or isinstance(section, MappingNode) or data(section) is None:
            key = root.key(name) or _new_key(name, root)
            merged[name] = (key, replace(root, entries=(*_merged_entries(child, parent, name),)))
    rules = root.value("rules")
    if rules is None or isinstance(rules, SequenceNode) or data(rules) is None:
        items = (*_inherited_rules(child, parent), *child.items("rules"))
        node = SequenceNode(items, root.start, root.end, root.file)
        merged["rules"] = (root.key("rules") or _new_key("rules", root), node)
    whole = replace(root, entries=tuple(merged.values()))
    return replace(child, root=whole, problems=tuple(problems), parent=parent)


def check_without_parent(document: Document) -> Document:
    """Return a document that extends no pack, with a problem for each entry of `drop` and `severities`."""
    problems = [*document.problems, *_drop_problems(document, None)]
    return replace(document, problems=tuple(problems))


def overrides(document: Document) -> Overrides | None:
    """Return what a document inherits and changes; None if it extends no pack."""
    parent = document.parent
    if parent is None:
        return None
    before, now = _rules(parent), _rules(document)
    inherited = {name: rule for name, rule in now.items() if rule.file is not document.file}
    severities = {
        name: (_severity(before[name]), _severity(rule)) for name, rule in inherited.items() if name in before
    }
    replaced = {
        name: tuple(
            entry
            for entry, (key, _) in section_entries(document, name).items()
            if key.file is document.file and entry in section_entries(parent, name)
        )
        for name in SECTIONS
    }
    return Overrides(
        parent=pack_name(parent),
        inherited=tuple(inherited),
        added=tuple(name for name in now if name not in inherited),
        dropped=tuple(name for name in before if name not in inherited),
        replaced=replaced,
        severities={name: pair for name, pair in severities.items() if pair[0] != pair[1]},
    )


def stored_documents(document: Document, name: str) -> Iterator[tuple[str, Document]]:
    """Yield the document, its parent and the packs that it uses, theirs and so on, by their stored names."""
    yield name, document
    if document.parent is not None:
        yield from _stored_beside(document.parent, f"{name}{PARENT_SUFFIX}")
    for number, used in enumerate(document.uses, start=1):
        yield from _stored_beside(used, f"{name}{USED_SUFFIX}.{number}")


def _stored_beside(document: Document, folder: str) -> Iterator[tuple[str, Document]]:
    yield from stored_documents(document, f"{folder}/{pack_name(document)}")


def pack_name(document: Document) -> str:
    """Return the pack's name from its file, or else the file's name."""
    node = document.value("pack")
    return node.text if isinstance(node, ScalarNode) else document.source


def section_entries(document: Document, name: str) -> SectionEntries:
    """Return the entries of a section by the names that they define."""
    return {operator_name(key.text): (key, value) for key, value in document.entries(name)}


def condition_node(value: YamlNode) -> YamlNode | None:
    """Return the node of a proposition's condition: its value, or `is` of a proposition with examples."""
    return value.value("is") if isinstance(value, MappingNode) else value


def operator_name(head: str) -> str:
    """Return the name in an operator's head, or any other name unchanged."""
    return head.partition("(")[0].strip()


def _merged_entries(child: Document, parent: Document, name: str) -> Iterator[tuple[ScalarNode, YamlNode]]:
    """Yield the inherited entries of a section that the child does not replace, then the child's.

    An entry of the child is left out if the parent has its name in another section; `_name_problems` reports
    it.
    """
    defined = section_entries(child, name)
    inherited = section_entries(parent, name)
    yield from (entry for key, entry in inherited.items() if key not in defined)
    elsewhere = {key for section in SECTIONS if section != name for key in section_entries(parent, section)}
    for key, value in child.entries(name):
        if operator_name(key.text) not in elsewhere:
            yield key, value


def _inherited_rules(child: Document, parent: Document) -> Iterator[YamlNode]:
    """Yield the parent's rules that the child does not drop, with the severities that the child sets.

    A rule is left out if the child has one of the same id; `_name_problems` reports it.
    """
    dropped = {node.text for node in _dropped(child)} | _rules(child).keys()
    severities = dict(_severities(child))
    for rule in parent.items("rules"):
        name = _id(rule)
        if name is not None and name.text in dropped:
            continue
        entry = severities.get(name.text) if name is not None else None
        yield rule if entry is None else _with_severity(rule, entry[1])


def _with_severity(rule: YamlNode, value: ScalarNode) -> YamlNode:
    """Return the rule with another severity."""
    assert isinstance(rule, MappingNode), "a rule with an id is a mapping"
    entries = [entry for entry in rule.entries if entry[0].text != "severity"]
    return replace(rule, entries=(*entries, (_new_key("severity", rule), value)))


def _drop_problems(child: Document, parent: Document | None) -> Iterator[Problem]:
    """Yield a problem for each id under `drop` and `severities` that names no inherited rule (TRL225)."""
    known = {} if parent is None else _rules(parent)
    dropped = {node.text for node in _dropped(child)}
    named = [("drop", node) for node in _dropped(child)]
    named += [("severities", key) for _, (key, _) in _severities(child)]
    for field, node in named:
        if parent is None:
            message, hint = f"`{field}` requires `extends`", f"add `extends: PACK`, or remove `{field}`"
        elif node.text not in known:
            message = f"`{pack_name(parent)}` has no rule `{node.text}`"
            is_own = node.text in _rules(child)
            hint = "a rule of this file has its own `severity`" if is_own else did_you_mean(node.text, known)
        elif field == "severities" and node.text in dropped:
            message = f"rule `{node.text}` is dropped"
            hint = "remove it from `drop` or from `severities`"
        else:
            continue
        yield Problem("TRL225", message, hint, child.location(node))


def _name_problems(child: Document, parent: Document) -> Iterator[Problem]:
    """Yield a problem for each rule or name of the child that collides with an inherited one."""
    inherited = _rules(parent).keys() - {node.text for node in _dropped(child)}
    for name, rule in _rules(child).items():
        if name in inherited:
            message = f"duplicate rule id `{name}`: `{pack_name(parent)}` has a rule of this id"
            hint = f"rename this rule, or leave out the inherited one with `drop: [{name}]`"
            yield Problem("TRL220", message, hint, child.location(_id(rule) or rule))
    for name in SECTIONS:
        for section in SECTIONS:
            for defined, (key, _) in section_entries(child, name).items():
                if section != name and defined in section_entries(parent, section):
                    message = f"duplicate name `{defined}`: `{pack_name(parent)}` has it under `{section}`"
                    yield Problem("TRL222", message, "choose another name", child.location(key))


def _rules(document: Document) -> dict[str, MappingNode]:
    """Return the rules that have an id, by their ids."""
    rules = [rule for rule in document.items("rules") if isinstance(rule, MappingNode)]
    return {name.text: rule for rule in rules if (name := _id(rule)) is not None}


def _id(rule: YamlNode) -> ScalarNode | None:
    node = rule.value("id") if isinstance(rule, MappingNode) else None
    return node if isinstance(node, ScalarNode) else None


def _severity(rule: MappingNode) -> str:
    node = rule.value("severity")
    return node.text if isinstance(node, ScalarNode) else Severity.MEDIUM.value


def _dropped(document: Document) -> tuple[ScalarNode, ...]:
    """Return the ids under `drop`."""
    return tuple(item for item in document.items("drop") if isinstance(item, ScalarNode))


def _severities(document: Document) -> Iterator[tuple[str, tuple[ScalarNode, ScalarNode]]]:
    """Yield the entries under `severities` whose value is a severity."""
    for key, value in document.entries("severities"):
        if isinstance(value, ScalarNode) and value.text in {severity.value for severity in Severity}:
            yield key.text, (key, value)


def _new_key(text: str, within: MappingNode) -> ScalarNode:
    """Return a key that the file does not have."""
    return ScalarNode(text, "", within.start, within.start, within.file)
