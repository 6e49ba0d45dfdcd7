"""A rule, resolved: what a pack's entry means once operators are expanded and names are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...schemas.verdict import Recover, Severity
from .formula import Formula
from .predicate import Path, Predicate


@dataclass(frozen=True, slots=True)
class SliceKey:
    """How `for_each` reads the value that names an event's slice.

    With `joint` false the value is the first of `paths` that is present; with `joint` true it is the tuple
    of all of them, absent when one is.
    """

    paths: tuple[Path, ...]
    joint: bool


@dataclass(frozen=True, slots=True)
class Examples:
    """Whole sessions, each step the set of propositions true at it, that must break or keep the rule."""

    violated: tuple[tuple[frozenset[str], ...], ...] = ()
    holds: tuple[tuple[frozenset[str], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a pack, ready to be compiled.

    `formula`, `steps`, `applies_to` and `transitions` have user-defined operators expanded; `text` is the
    formula as written. `propositions` and `transitions` hold exactly those that the formula, `steps`,
    `applies_to` and the transitions themselves use, by name.
    """

    pack: str
    id: str
    title: str
    formula: Formula
    text: str
    propositions: Mapping[str, Predicate]
    transitions: Mapping[str, Formula] = field(default_factory=dict[str, Formula])
    severity: Severity = Severity.MEDIUM
    recover: Recover = Recover.BOTH
    for_each: SliceKey | None = None
    steps: Formula | None = None
    applies_to: Formula | None = None
    why: str = ""
    blind_spots: str = ""
    examples: Examples = Examples()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of all loaded packs, ordered by pack and then as written.

    `sources` maps a pack's name to the YAML text it was read from, for the copy in an audit's bundle. Where a
    pack extends another, `NAME.extends/PARENT` has that one's text, and so on.
    """

    rules: tuple[Rule, ...]
    sources: Mapping[str, str]

    @property
    def packs(self) -> tuple[str, ...]:
        """The names of the packs, without those that they extend."""
        return tuple(name for name in self.sources if "/" not in name)
