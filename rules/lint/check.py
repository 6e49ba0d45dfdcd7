"""Warnings about rules that are accepted and probably do not mean what was intended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..compiler.compile import compile_counted
from ..compiler.limits import RULES_STEPS_MAX, CompilerLimits, TooLarge, Work, too_much_together
from ..compiler.shape import invariant_body
from ..model.machine import Machine
from ..model.problem import Location, Problem, Snippet, by_location
from ..model.rule import Rule, RuleSet
from ..packs.inheritance import overrides
from ..packs.load import documents_of, resolve_with_library
from ..packs.yaml.document import Document, MappingNode, ScalarNode
from .finite_trace import finite_trace_warnings
from .inherited import outdated_examples, widened_propositions
from .lengths import length_paths
from .precedence import precedence_warnings
from .reachability import one_verdict_warnings, reachable_machine, sticky_warnings
from .restarts import restart_warnings
from .satisfiability import unsatisfiable_propositions
from .unused import unused_names
from .vacuity import vacuous_propositions

RULE_LIMITS = CompilerLimits(steps_max=2_000_000)
"""The work on the warnings of one rule, without compiling it."""

STEPS_MAX = 100_000_000
"""The work on the warnings of all rules; rules beyond it get none."""


def check(rule_set: RuleSet, documents: Mapping[str, Document] | None = None) -> tuple[Problem, ...]:
    """Return every warning about the rules, pack by pack in the order of the file.

    `documents` are the packs as read (`read_packs`), for the locations; without them a location's source is
    the pack's name. Rules that are too large to compile, alone or together, are errors among the warnings
    (TRL301, TRL302). A warning whose search exceeds its limit of work is left out.
    """
    known = documents or documents_of(rule_set)
    found: list[Problem] = []
    rules_of: dict[str, list[Rule]] = {name: [] for name in sorted(known)}
    for rule in rule_set.rules:
        rules_of[rule.pack].append(rule)
    compile_steps = lint_steps = 0
    for name, rules in rules_of.items():
        here: list[Problem] = []
        document = known[name]
        locations = _formula_locations(document)
        bases = _bases(document)
        for rule in rules:
            location = locations.get(rule.id) or document.location(document.root)
            machine, steps, problems = _compiled(rule, location)
            here += problems
            compile_steps += steps
            if compile_steps > RULES_STEPS_MAX:
                return (*found, *here, *too_much_together(len(rule_set.rules)).problems)
            if machine is not None and lint_steps < STEPS_MAX:
                work = Work(f"{rule.pack}/{rule.id}", RULE_LIMITS)
                here += _rule_warnings(rule, machine, location, work)
                if rule.id in bases:
                    here += _inherited_warnings(rule, machine, bases[rule.id], document, work)
                lint_steps += work.spent
        here += [*unsatisfiable_propositions(rules, document), *vacuous_propositions(rules, document)]
        here += [*_precedence_warnings(document), *unused_names(rules, document)]
        here += [*length_paths(rules, document), *widened_propositions(rules, bases, document)]
        found += sorted(here, key=by_location)
    return tuple(found)


def is_warning(problem: Problem) -> bool:
    """Return whether a pack with this problem is accepted."""
    return problem.code.startswith("TRL5")


def _formula_locations(document: Document) -> dict[str, Location]:
    """Return the location of each rule's formula, by the rule's id."""
    locations: dict[str, Location] = {}
    for node in document.items("rules"):
        name = node.value("id") if isinstance(node, MappingNode) else None
        if isinstance(name, ScalarNode) and isinstance(node, MappingNode):
            locations.setdefault(name.text, document.location(node.value("formula") or node))
    return locations


def _bases(document: Document) -> dict[str, Rule]:
    """Return the inherited rules as they are in the parent, by their ids."""
    changed = overrides(document)
    if changed is None or document.parent is None:
        return {}
    rules = resolve_with_library(document.parent).rules
    return {rule.id: rule for rule in rules if rule.id in changed.inherited}


def _compiled(rule: Rule, location: Location) -> tuple[Machine | None, int, list[Problem]]:
    """Return the rule's machine and the steps of compiling it, or its problems."""
    try:
        return *compile_counted(rule), []
    except TooLarge as error:
        problems = [replace(problem, location=problem.location or location) for problem in error.problems]
        return None, error.spent, problems


def _rule_warnings(rule: Rule, compiled: Machine, location: Location, work: Work) -> Iterator[Problem]:
    """Yield the warnings about a rule's formula and machine, within the limit of `work`."""
    try:
        machine = reachable_machine(rule, compiled, work)
        body = invariant_body(rule.formula, rule.transitions)
        verdicts = tuple(one_verdict_warnings(rule, machine, location))
        yield from verdicts
        if not verdicts and body is not None:
            yield from sticky_warnings(rule, body, machine, location, work)
        elif not verdicts:
            yield from restart_warnings(rule, machine, location, work)
        if body is None:
            yield from finite_trace_warnings(rule, location, work)
    except TooLarge:
        return  # the search exceeds its limit of work; the rule itself compiles


def _inherited_warnings(
    rule: Rule, machine: Machine, base: Rule, document: Document, work: Work
) -> Iterator[Problem]:
    """Yield the warnings about an inherited rule that does not fit the pack, within the limit of `work`."""
    try:
        yield from outdated_examples(rule, machine, base, document, work)
    except TooLarge:
        return


def _precedence_warnings(document: Document) -> Iterator[Problem]:
    """Yield a warning for each formula whose precedence may surprise."""
    for node in _formula_texts(document):
        for problem in precedence_warnings(Snippet(node.text)):
            assert problem.location, "a warning about a text has a location"
            location = document.location(node, problem.location.start, problem.location.end)
            yield replace(problem, location=location)


def _formula_texts(document: Document) -> Iterator[ScalarNode]:
    """Yield the text of every formula in the pack."""
    for section in ("operators", "transitions"):
        yield from (value for _, value in document.entries(section) if isinstance(value, ScalarNode))
    for rule in document.items("rules"):
        if isinstance(rule, MappingNode):
            values = [rule.value(name) for name in ("formula", "steps", "applies_to")]
            yield from (value for value in values if isinstance(value, ScalarNode))
