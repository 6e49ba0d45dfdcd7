"""Resolved rules: operators are expanded and names are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...schemas.event import Event
from ...schemas.verdict import Recover, Severity, Unknown
from .formula import Formula
from .predicate import Path as FieldPath
from .predicate import Predicate
from .problem import Location


@dataclass(frozen=True, slots=True)
class SliceKey:
    """The key of an event's slice, from `for_each`.

    With `joint` false the key is the first of `paths` that is present; with `joint` true it is the tuple of
    all of them, absent when one is.
    """

    paths: tuple[FieldPath, ...]
    joint: bool


ExampleSession = tuple[frozenset[str], ...]
"""A whole session: for each step the propositions that are true at it."""


@dataclass(frozen=True, slots=True)
class EventsExample:
    """A whole session as a file of events: its path from `folder`, that of the pack's file.

    `folder` is None if the pack is no file. `location` is where the pack names the file.
    """

    path: str
    location: Location = field(compare=False)
    folder: Path | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Examples:
    """Whole sessions that must violate the rule, and whole sessions that must not: labels, and events."""

    violated: tuple[ExampleSession, ...] = ()
    holds: tuple[ExampleSession, ...] = ()
    violated_events: tuple[EventsExample, ...] = ()
    holds_events: tuple[EventsExample, ...] = ()


@dataclass(frozen=True, slots=True)
class PropositionExample:
    """A text or an event of which a proposition must be true or false; `number` counts from 1."""

    pack: str
    name: str
    predicate: Predicate
    condition: str
    expected: bool
    number: int
    text: str | None
    event: Event | None


@dataclass(frozen=True, slots=True)
class Precision:
    """The measured precision of what a rule reads from texts: `value`, on `n` cases marked by hand.

    `of` names the cases. It is not the share of a rule's findings that are true: a proposition that is true
    where it should not be hides violations of some rules and makes up those of others.
    """

    value: float
    n: int
    of: str

    @property
    def described(self) -> str:
        """Return in words the precision and what it is of, which is not the findings."""
        reading = f"precision of its reading of texts, not of its findings: {self.value:g}"
        return f"{reading}, on {self.n:,} {self.of}; what it misses is not measured"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a pack, ready to be compiled.

    `formula`, `steps`, `applies_to` and `transitions` have user-defined operators expanded; `text` is the
    formula as written. `propositions` and `transitions` have by name exactly those that the formula, `steps`,
    `applies_to` and the transitions use. `policy` is the sentence that the rule implements, with its place.
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
    unknown: Unknown = Unknown.FOLLOW
    for_each: SliceKey | None = None
    steps: Formula | None = None
    applies_to: Formula | None = None
    why: str = ""
    blind_spots: str = ""
    precision: Precision | None = None
    policy: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    examples: Examples = Examples()


@dataclass(frozen=True, slots=True)
class PackMemory:
    """The basis of a pack's prediction beside its rules, from `predict`.

    `propositions` are further ones that a chain distinguishes, `memory` the memory formulas, each as a rule
    of that id whose formula has past operators and no future ones.
    """

    propositions: Mapping[str, Predicate] = field(default_factory=dict[str, Predicate])
    memory: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of all loaded packs, ordered by pack and then as written.

    `sources` maps a pack's name to its YAML text, for the copy in an audit's bundle. If a pack extends
    another, `NAME.extends/PARENT` has the text of that one, `NAME.uses.1/USED` that of the first it uses,
    and so on. `selection` has the words that chose the rules among those of the packs, by option; it is empty
    where all were taken. `memory` has the `predict` sections by pack, of those that have one.
    """

    rules: tuple[Rule, ...]
    sources: Mapping[str, str]
    selection: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    memory: Mapping[str, PackMemory] = field(default_factory=dict[str, PackMemory])

    @property
    def packs(self) -> tuple[str, ...]:
        """Return the names of the packs, without the packs that they extend and use."""
        return tuple(name for name in self.sources if "/" not in name)


def stopping(rule_set: RuleSet) -> RuleSet:
    """Return the rule set as releases read it that had no `unknown`: every rule stops at an unknown."""
    rules = tuple(replace(rule, unknown=Unknown.STOP) for rule in rule_set.rules)
    return replace(rule_set, rules=rules)
