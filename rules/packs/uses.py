"""Use of packs: the document of a pack that uses others, merged with their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model.problem import Problem
from .inheritance import SECTIONS, PackReference, operator_name, pack_name, section_entries
from .yaml.document import Document, MappingNode, ScalarNode, YamlNode, data


@dataclass(frozen=True, slots=True)
class UsedNames:
    """The names that a pack takes from another one under `use`."""

    pack: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SharedName:
    """A name that a used pack defines, or has from a pack that it extends or uses in turn."""

    section: str
    name: str
    key: ScalarNode
    value: YamlNode

    def is_defined_by(self, key: ScalarNode) -> bool:
        """Return whether the key is this definition, perhaps read again through another pack."""
        return key.file.text == self.key.file.text and key.start == self.key.start


def share(document: Document, used: Sequence[tuple[PackReference, Document]]) -> Document:
    """Return the document with the names of the packs that it uses, which come first in their sections.

    A name that the document has already, or that two of these packs define, is left out and reported in
    `problems`. A definition that comes through several packs is one name.
    """
    root = document.root
    if not used or not isinstance(root, MappingNode):
        return document
    taken = {name: (document, key) for name, key in _defined(document)}
    shared: list[_SharedName] = []
    problems = list(document.problems)
    for reference, referred in used:
        for found in _names(referred):
            owner, key = taken.setdefault(found.name, (referred, found.key))
            if key is found.key:
                shared.append(found)
            elif not found.is_defined_by(key):
                problems.append(_clash(document, reference, found, pack_name(referred), owner, key))
    entries = {key.text: (key, value) for key, value in root.entries}
    for section in SECTIONS:
        value = root.value(section)
        if value is None or isinstance(value, MappingNode) or data(value) is None:
            key = root.key(section) or ScalarNode(section, "", root.start, root.start, root.file)
            added = [(found.key, found.value) for found in shared if found.section == section]
            merged = replace(root, entries=(*added, *document.entries(section)))
            entries[section] = (key, merged)
    return replace(
        document,
        root=replace(root, entries=tuple(entries.values())),
        problems=tuple(problems),
        uses=tuple(referred for _, referred in used),
    )


def used_names(document: Document) -> tuple[UsedNames, ...]:
    """Return what the document takes from each pack that it uses."""
    return tuple(
        UsedNames(pack_name(used), tuple(found.name for found in _names(used))) for used in document.uses
    )


def _names(document: Document) -> Iterator[_SharedName]:
    for section in SECTIONS:
        for name, (key, value) in section_entries(document, section).items():
            yield _SharedName(section, name, key, value)


def _defined(document: Document) -> Iterator[tuple[str, ScalarNode]]:
    for section in SECTIONS:
        for key, _ in document.entries(section):
            yield operator_name(key.text), key


def _clash(
    document: Document,
    reference: PackReference,
    found: _SharedName,
    pack: str,
    owner: Document,
    key: ScalarNode,
) -> Problem:
    """Return the problem of a used name that something else has."""
    if owner is document:
        message = f"duplicate name `{found.name}`: the used pack `{pack}` has it under `{found.section}`"
        hint = f"rename one of them; to replace it, write `extends: {reference.name}`"
        node = key if key.file is document.file else reference.node
    else:
        message = f"duplicate name `{found.name}`: the used packs `{pack_name(owner)}` and `{pack}` define it"
        hint, node = "rename it in one of them, or use only one of them", reference.node
    return Problem("TRL222", message, hint, document.location(node))
