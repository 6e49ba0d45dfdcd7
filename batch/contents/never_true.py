"""Propositions that are true at no event of an archive, and likely mistakes in conditions and in `for_each`.

The labels show which propositions are never true. For the conditions, the tools that events name are
counted, and the first rows of the archive searched for what the conditions read; only what is not there is
searched for in all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ...rules.model.predicate import Predicate
from ...rules.model.printer import path_text, predicate_text
from ...rules.model.problem import counted
from ...rules.model.rule import Rule
from ..sources.discover import SourceFile
from .archive_events import SEARCHED_FIELDS, ArchiveEvents, has_bit
from .asked import KeyPaths, Required, asked_by
from .conditions import TOOL, Context, PlacedCondition, allowed, placed
from .mistakes import NAMES, ArchiveMistakes, asks_for_errors, compared_names, is_error_test
from .needs import Need, Shape
from .observed_events import ObservedEvents
from .spelling import contained, misspelt
from .wording import Mistake, quoted


@dataclass(frozen=True, slots=True)
class NeverTrue:
    """A proposition that is true at no event: the rules that use it, the likely mistake, what to write."""

    pack: str
    proposition: str
    rules: list[str]
    reason: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class LikelyMistake:
    """A likely mistake in a condition of a proposition, or in the `for_each` of rules.

    `proposition` is None for a `for_each`.
    """

    pack: str
    proposition: str | None
    rules: list[str]
    condition: str
    reason: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class RuleMistakes:
    """The propositions that are true at no event, and the likely mistakes in conditions of the others."""

    never_true: list[NeverTrue] = field(default_factory=list[NeverTrue])
    likely_mistakes: list[LikelyMistake] = field(default_factory=list[LikelyMistake])


@dataclass(frozen=True, slots=True)
class _Proposition:
    """A proposition by its name (pack, name): the rules that use it, its predicate, and its conditions."""

    name: tuple[str, str]
    rules: list[str]
    predicate: Predicate
    conditions: tuple[PlacedCondition, ...]


def rule_mistakes(
    parts: Sequence[SourceFile],
    rules: Sequence[Rule],
    never_true: Iterable[tuple[str, str]],
    as_of: int | None,
    only: frozenset[tuple[str, str]] | None = None,
    observed: ObservedEvents | None = None,
) -> RuleMistakes:
    """Explain the propositions `never_true` (pack, name), and find the likely mistakes in the others.

    The events are those up to `as_of`, of which there is at least one, and which may all be `observed`.
    Propositions that are not in `only` have no entries, nor then have rules.
    """
    archive, never = ArchiveEvents(parts, as_of, observed), list(dict.fromkeys(never_true))
    listed = {each.name: each for each in _propositions(rules) if only is None or each.name in only}
    keyed = [] if only is not None else [(rule, _required(rule, never)) for rule in rules if rule.for_each]
    conditions = [condition for each in listed.values() for condition in each.conditions]
    mistakes = ArchiveMistakes(archive, conditions, [key for _, key in keyed])
    explained = [_explained(listed[name], mistakes, archive) for name in never if name in listed]
    others = [each for each in listed.values() if each.name not in never]
    likely = [entry for each in others for entry in _likely(each, mistakes)]
    return RuleMistakes(explained, [*likely, *_of_keys(keyed, mistakes)])


def observer_of(rules: Sequence[Rule]) -> ObservedEvents:
    """Return an observer of the events of an archive, whose facts `rule_mistakes` then need not read."""
    propositions = list(_propositions(rules))
    conditions = [condition for each in propositions for condition in each.conditions]
    # Which propositions are never true is not yet known: what a key requires then may be read later.
    keys = [_required(rule, ()) for rule in rules if rule.for_each]
    compared = [compared_names(each.condition) for each in conditions]
    return ObservedEvents(
        asked_by(conditions, keys, lambda _context: True),
        names=NAMES & {each.path.field for each in compared if each is not None},
        errors=any(asks_for_errors(each.predicate) for each in propositions),
    )


def names_never_true(
    propositions: Sequence[tuple[str, str]], true: NDArray[np.uint64], unknown: NDArray[np.uint64]
) -> list[tuple[str, str]]:
    """Return the names whose bits are in no word of true and of unknown propositions."""
    return [
        name for bit, name in enumerate(propositions) if not (has_bit(true, bit) or has_bit(unknown, bit))
    ]


def _propositions(rules: Sequence[Rule]) -> Iterator[_Proposition]:
    found: dict[tuple[str, str], Predicate] = {}
    users: dict[tuple[str, str], dict[str, None]] = {}
    for rule in rules:
        for name, predicate in rule.propositions.items():
            found.setdefault((rule.pack, name), predicate)
            users.setdefault((rule.pack, name), {})[rule.id] = None
    for (pack, name), predicate in found.items():
        yield _Proposition((pack, name), list(users[pack, name]), predicate, tuple(placed(predicate)))


def _explained(proposition: _Proposition, mistakes: ArchiveMistakes, archive: ArchiveEvents) -> NeverTrue:
    """Return a proposition that is never true with its likely mistake."""
    tools = allowed(proposition.predicate, TOOL, truth=True)
    if tools is not None and not tools & archive.tools.keys():
        found = _not_called(sorted(tools), archive)
    else:
        deciding = (each for each in proposition.conditions if each.decides)
        found = next((mistake for each in deciding for mistake in mistakes.of(each)), None)
        found = found or next(_of_errors(proposition, mistakes), None)
    reason, suggestion = ("no event matches", None) if found is None else (found.reason, found.suggestion)
    return NeverTrue(*proposition.name, proposition.rules, reason, suggestion)


def _not_called(names: Sequence[str], archive: ArchiveEvents) -> Mistake:
    """Return the mistake of tools that no event names."""
    known = archive.tools.keys()
    near = [found for name in names for found in [misspelt(name, known) or contained(name, known)] if found]
    suggestion = None
    if near:
        nearest = max(near, key=lambda name: archive.calls[name])
        suggestion = f"did you mean `{nearest}`, {counted(archive.calls[nearest], 'call')}?"
    if len(names) == 1:
        return Mistake(f"the tool `{names[0]}` is not called here", suggestion, True)
    return Mistake(f"none of the tools {quoted(names)} is called here", suggestion, True)


def _likely(proposition: _Proposition, mistakes: ArchiveMistakes) -> Iterator[LikelyMistake]:
    """Yield the likely mistakes in the conditions of a proposition that is true somewhere."""
    for mistake in _of_errors(proposition, mistakes):
        asked = next(each.condition for each in proposition.conditions if is_error_test(each.condition))
        pair = mistake.reason, mistake.suggestion
        yield LikelyMistake(*proposition.name, proposition.rules, predicate_text(asked), *pair)
    seen = set[str]()
    for condition in proposition.conditions:
        for mistake in mistakes.of(condition):
            if mistake.is_likely and mistake.reason not in seen:
                seen.add(mistake.reason)
                text = predicate_text(condition.condition)
                pair = mistake.reason, mistake.suggestion
                yield LikelyMistake(*proposition.name, proposition.rules, text, *pair)


def _of_errors(proposition: _Proposition, mistakes: ArchiveMistakes) -> Iterator[Mistake]:
    context = Context().narrowed(proposition.predicate, truth=True)
    return mistakes.of_errors(proposition.predicate, context)


def _required(rule: Rule, never: Sequence[tuple[str, str]]) -> KeyPaths:
    """Return the paths of a `for_each` that some event of the rule must have.

    A rule of which no proposition is ever true is about nothing in the archive, and requires none.
    """
    used = [each for name, each in rule.propositions.items() if (rule.pack, name) not in never]
    key = rule.for_each
    if key is None or not used:
        return KeyPaths(False, ())
    paths = [path for path in key.paths if path.field in SEARCHED_FIELDS]
    if not key.joint and len(paths) < len(key.paths):
        return KeyPaths(False, ())  # one of them is a field that all events have
    context = reduce(Context.joined, [Context().narrowed(each, truth=True) for each in used])
    return KeyPaths(key.joint, tuple(Required(context, Need(path, Shape.VALUE)) for path in paths))


def _of_keys(keyed: Iterable[tuple[Rule, KeyPaths]], mistakes: ArchiveMistakes) -> Iterator[LikelyMistake]:
    """Yield the mistakes in the `for_each` of rules, those of one pack and path once."""
    found: dict[tuple[str, str, Mistake], dict[str, None]] = {}
    for rule, (joint, paths) in keyed:
        lacks = [each for each in paths if mistakes.lacks(each)]
        for each in lacks:
            # Of alternatives, one that never exists is a mistake only where another is likely meant.
            mistake = mistakes.of_key(each, decides=joint or lacks == [*paths])
            if mistake.is_likely:
                found.setdefault((rule.pack, _key_text(rule), mistake), {})[rule.id] = None
    for (pack, text, mistake), rules in found.items():
        yield LikelyMistake(pack, None, [*rules], text, mistake.reason, mistake.suggestion)


def _key_text(rule: Rule) -> str:
    key = rule.for_each
    assert key is not None, "a rule with key paths has `for_each`"
    paths = ", ".join(map(path_text, key.paths))
    return f"for_each: {f'[[{paths}]]' if key.joint else paths if len(key.paths) == 1 else f'[{paths}]'}"
