"""Warnings about rules that are accepted and probably do not mean what was intended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...schemas.verdict import Recover
from ..compiler.compile import compile_counted
from ..compiler.limits import RULES_STEPS_MAX, CompilerLimits, TooLarge, Work, too_much_together
from ..compiler.shape import invariant_body
from ..labels.guards import TRUE, as_predicate
from ..model.fields import KIND_NOUNS
from ..model.formula import Formula
from ..model.machine import Machine
from ..model.printer import to_text
from ..model.problem import Location, Problem, Snippet, by_location, did_you_mean
from ..model.rule import Rule, RuleSet
from ..packs.inheritance import overrides, section_entries
from ..packs.load import documents_of, resolve_with_library
from ..packs.yaml_document import Document, MappingNode, ScalarNode
from .finite_trace import finite_trace_disagrees
from .inherited import outdated_examples, widened_propositions
from .precedence import precedence_warnings
from .reachability import always_violated, is_sticky, never_violated, reachable_machine
from .restarts import lost_obligations, violable_after_satisfied
from .rewrites import at_cause, past_form, without_restart
from .satisfiability import is_satisfiable
from .vacuity import find_vacuity

RULE_LIMITS = CompilerLimits(steps_max=2_000_000)
"""The work on the warnings of one rule, without compiling it."""

STEPS_MAX = 100_000_000
"""The work on the warnings of all rules; rules beyond it get none."""

KIND_WITH = {"text": "user", "result": "tool_result"}
"""For a field that tool calls do not have, a kind that has it."""


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
        here += [*_unsatisfiable_propositions(rules, document), *_vacuous_propositions(rules, document)]
        here += [*_precedence_warnings(document), *_unused_names(rules, document)]
        here += widened_propositions(rules, bases, document)
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
        if never_violated(machine):
            hint = "no possible session gives `violated` or `unmet`: check the formula and its propositions"
            yield Problem("TRL501", f"rule `{rule.id}` can never be violated", hint, location)
        elif always_violated(machine):
            hint = "every session gives `violated` or `unmet`: check the formula and its propositions"
            yield Problem("TRL502", f"rule `{rule.id}` is violated by every session", hint, location)
        elif body is not None:
            yield from _invariant_warnings(rule, body, machine, location, work)
        else:
            yield from _restart_warnings(rule, machine, location, work)
        if body is None and finite_trace_disagrees(rule.formula, rule.transitions, work):
            message = f"rule `{rule.id}` gets a verdict that would be the opposite if the session ended there"
            yield Problem("TRL507", message, past_form(rule.formula), location)
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


def _invariant_warnings(
    rule: Rule, body: Formula, machine: Machine, location: Location, work: Work
) -> Iterator[Problem]:
    """Yield a warning if a violation of the invariant makes every later event a violation."""
    if rule.recover is not Recover.NONE and is_sticky(machine, work):
        message = f"after a violation of rule `{rule.id}`, every later event is flagged too"
        yield Problem("TRL506", message, f"write `{at_cause(body)}`, which flags only the cause", location)


def _restart_warnings(rule: Rule, machine: Machine, location: Location, work: Work) -> Iterator[Problem]:
    """Yield the warnings about the restarts of a rule."""
    if rule.recover is not Recover.NONE:
        pair = lost_obligations(rule.formula, rule.transitions, work)
        if pair is not None:
            lost, violated = map(to_text, pair)
            message = f"rule `{rule.id}` restarts after a violation and loses its open obligations"
            yield Problem("TRL504", message, f"split it into two rules: `{lost}` and `{violated}`", location)
    if rule.recover is Recover.BOTH and violable_after_satisfied(machine):
        message = f"rule `{rule.id}` restarts after it is satisfied and can then be violated"
        yield Problem("TRL505", message, without_restart(rule.formula), location)


# ---- propositions and texts


def _unsatisfiable_propositions(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each proposition of a rule that no event makes true."""
    users: dict[str, list[str]] = {}
    for rule in rules:
        for name, predicate in rule.propositions.items():
            if not is_satisfiable(predicate):
                users.setdefault(name, []).append(rule.id)
    for name, ids in users.items():
        location = document.location(document.at(("propositions", name)))
        hint = f"its conditions exclude each other; used by {_listed(ids)}"
        yield Problem("TRL503", f"proposition `{name}` can never be true", hint, location)


def _vacuous_propositions(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each proposition that is vacuously true of events without a field."""
    users: dict[str, list[str]] = {}
    found: dict[str, tuple[str, str]] = {}
    for rule in rules:
        steps = TRUE if rule.steps is None else as_predicate(rule.steps, rule.propositions)
        for name, predicate in rule.propositions.items():
            vacuity = find_vacuity(predicate, steps)
            if vacuity is not None:
                found.setdefault(name, vacuity)
                users.setdefault(name, []).append(rule.id)
    for name, (kind, field) in found.items():
        message = f"proposition `{name}` can be true of {KIND_NOUNS[kind]}, which never have `{field}`"
        hint = f'add the kind of the event, as in `kind == "{KIND_WITH.get(field, "tool_call")}" and ...`'
        location = document.location(document.at(("propositions", name)))
        yield Problem("TRL510", message, f"{hint}; used by {_listed(users[name])}", location)


def _unused_names(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield a warning for each name of the pack's file that no rule uses, if the pack has rules."""
    if not rules:
        return
    for section, used in (
        ("propositions", {name for rule in rules for name in rule.propositions}),
        ("transitions", {name for rule in rules for name in rule.transitions}),
    ):
        parent = document.parent
        inherited = set[str]() if parent is None else section_entries(parent, section).keys()
        for name, (key, _) in section_entries(document, section).items():
            if name in used or key.file is not document.file:
                continue
            message = f"unused {section[:-1]} `{name}`"
            hint = "use it, or remove it"
            if name in inherited:
                message += ", which replaces an inherited one"
            elif inherited:
                hint += f"; to replace an inherited one, use that one's name: {did_you_mean(name, inherited)}"
            yield Problem("TRL509", message, hint, document.location(key))


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


def _listed(ids: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in ids[:5]) + (" and others" if len(ids) > 5 else "")
