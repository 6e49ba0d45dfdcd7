"""Warnings about inherited rules that no longer fit the names that a pack replaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ..compiler.limits import Work
from ..model.fields import FIELDS, KIND_NOUNS
from ..model.machine import Machine
from ..model.predicate import And, Leaf, Predicate, Test
from ..model.problem import Problem, counted
from ..model.rule import Rule
from ..packs.examples.label_examples import run_examples
from ..packs.inheritance import overrides, pack_name, references, section_entries
from ..packs.yaml.document import Document, ScalarNode
from .satisfiability import KIND, is_satisfiable, jointly_satisfiable


def widened_propositions(
    rules: Sequence[Rule], bases: Mapping[str, Rule], document: Document
) -> Iterator[Problem]:
    """Yield a warning for each replaced proposition that is true of more kinds of events than before.

    `bases` are the rules of the parent, by their ids.
    """
    changed = overrides(document)
    for name in () if changed is None else changed.replaced["propositions"]:
        users = [rule for rule in rules if rule.id in bases and name in rule.propositions]
        pairs = [(bases[rule.id].propositions.get(name), rule.propositions[name]) for rule in users]
        inherited, replacement = next((pair for pair in pairs if pair[0] is not None), (None, None))
        if inherited is None or replacement is None:
            continue
        former = _kinds(inherited)
        added = [KIND_NOUNS[kind] for kind in _kinds(replacement) if kind not in former]
        if added and former:
            words = " and ".join(KIND_NOUNS[kind] for kind in former)
            message = f"`{name}` can be true of {' and '.join(added)}, the inherited one only of {words}"
            hint = f'add the kind of the event, as in `kind == "{former[0]}" and ...`; used by '
            hint += ", ".join(f"`{rule.id}`" for rule in users)
            key = section_entries(document, "propositions")[name][0]
            yield Problem("TRL511", message, hint, document.location(key))


def outdated_examples(
    rule: Rule, machine: Machine, base: Rule, document: Document, work: Work
) -> Iterator[Problem]:
    """Yield the warnings about examples of an inherited rule that no longer fit.

    `base` is the same rule in the parent. Raises TooLarge if the search takes more than `work` allows.
    """
    # An inherited rule is of a pack that extends another.
    link = next(references(document)).node
    if (rule.formula, rule.transitions, rule.steps) != (base.formula, base.transitions, base.steps):
        failed = sum(not run.passed for run in run_examples(rule, machine))
        if failed:
            verb = "fails" if failed == 1 else "fail"
            message = f"{counted(failed, 'example')} of the inherited rule `{rule.id}` {verb}"
            hint = "this pack's operators and transitions change the rule (`tracline test` shows how): "
            hint += f"fix them, or use `drop: [{rule.id}]` and define a new rule"
            yield Problem("TRL512", message, hint, document.location(link))
    for first, second in _excluded_pairs(rule, base, work):
        location = document.location(_replaced(document, first) or _replaced(document, second) or link)
        message = (
            f"`{first}` and `{second}` exclude each other, but examples of `{rule.id}` have both at one event"
        )
        hint = (
            f"replace both in `{pack_name(document)}`, with the meaning that they have in the extended pack"
        )
        yield Problem("TRL512", message, hint, location)


def _excluded_pairs(rule: Rule, base: Rule, work: Work) -> Iterator[tuple[str, str]]:
    """Yield pairs of propositions in a step of an example that exclude each other only in `rule`."""
    steps = [step for session in (*rule.examples.violated, *rule.examples.holds) for step in session]
    for pair in dict.fromkeys(pair for step in steps for pair in combinations(sorted(step), 2)):
        if not rule.propositions.keys() & base.propositions.keys() >= set(pair):
            continue
        if not jointly_satisfiable(rule, *pair, work) and jointly_satisfiable(base, *pair, work):
            yield pair


def _kinds(predicate: Predicate) -> list[str]:
    """Return the kinds of events of which the predicate can be true."""
    kinds = FIELDS["kind"].choices
    return [kind for kind in kinds if is_satisfiable(And((Leaf(KIND, Test.EQ, (kind,)), predicate)))]


def _replaced(document: Document, name: str) -> ScalarNode | None:
    """Return the key of a proposition that the document's own file defines."""
    key = section_entries(document, "propositions").get(name, (None, None))[0]
    return key if key is not None and key.file is document.file else None
