"""The section `predict` of a pack: further propositions, and memory formulas, for learned chains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..model.formula import Formula, has_future, has_past, names
from ..model.predicate import Predicate
from ..model.problem import did_you_mean
from ..model.rule import PackMemory, Rule
from .example_events import Report
from .transitions import used_transitions
from .yaml.document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode

MEMORY_MAX = 4
"""Memory formulas of a pack: contexts may double with each."""

FIELD = "predict"


@dataclass(frozen=True, slots=True)
class PackNames:
    """The valid definitions of a pack, and the names that it defines or that are reserved."""

    pack: str
    propositions: Mapping[str, Predicate]
    transitions: Mapping[str, Formula]
    taken: frozenset[str]


def pack_memory(
    document: Document,
    defined: PackNames,
    formula: Callable[[YamlNode], Formula | None],
    report: Report,
) -> PackMemory:
    """Return the valid part of the section, and report the rest; `formula` parses over the pack's names."""
    section = document.value(FIELD)
    if not isinstance(section, MappingNode):
        return PackMemory()
    chosen = dict(_propositions(section.value("propositions"), defined, report))
    written = section.value("memory")
    entries = written.entries if isinstance(written, MappingNode) else ()
    for key, _ in entries[MEMORY_MAX:]:
        hint = "leave out those that matter least, or write two as one formula"
        report("TRL804", f"`memory` has more than {MEMORY_MAX} formulas", hint, key)
    memory = [_memory(key, node, defined, formula, report) for key, node in entries[:MEMORY_MAX]]
    return PackMemory(chosen, tuple(rule for rule in memory if rule is not None))


def _propositions(
    node: YamlNode | None, defined: PackNames, report: Report
) -> Iterator[tuple[str, Predicate]]:
    """Yield the named propositions, and report unknown ones."""
    for item in node.items if isinstance(node, SequenceNode) else ():
        if not isinstance(item, ScalarNode):
            continue
        if item.text in defined.propositions:
            yield item.text, defined.propositions[item.text]
        else:
            hint = did_you_mean(item.text, defined.propositions)
            report("TRL804", f"unknown proposition `{item.text}` under `{FIELD}`", hint, item)


def _memory(
    key: ScalarNode,
    node: YamlNode,
    defined: PackNames,
    formula: Callable[[YamlNode], Formula | None],
    report: Report,
) -> Rule | None:
    """Return a memory formula as a rule, or None after a problem with it."""
    if key.text in defined.taken or not key.text.isidentifier():
        what = "is taken" if key.text in defined.taken else "is no name"
        hint = "use letters, digits and `_`, and a name that the pack does not define"
        report("TRL804", f"the name `{key.text}` of a memory formula {what}", hint, key)
        return None
    found = formula(node)
    if found is None or not isinstance(node, ScalarNode):
        return None
    bits = used_transitions(names(found), defined.transitions)
    if has_future(found) or not (has_past(found) or bits):
        hint = "use past operators, such as `once p` or `p since q`"
        report("TRL804", f"the memory formula `{key.text}` is not about the past", hint, node)
        return None
    used = names(found).union(*map(names, bits.values()))
    return Rule(
        pack=defined.pack,
        id=key.text,
        title="",
        formula=found,
        text=node.text.strip(),
        propositions={name: value for name, value in defined.propositions.items() if name in used},
        transitions=bits,
    )
