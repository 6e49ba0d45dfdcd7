"""Warnings: what a rule that is accepted probably does not mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...schemas.verdict import Recover, Verdict
from ..compiler.compile import compile_counted
from ..compiler.limits import RULES_STEPS_MAX, CompilerLimits, TooLarge, Work, too_much_together
from ..compiler.shape import invariant_body
from ..labels.guards import TRUE, as_predicate
from ..model.formula import FUTURE, STEPPED, Formula, Op, has_future, has_past, walk
from ..model.machine import STAYS_VIOLATED, VERDICT_MASK, VIOLATED, Machine
from ..model.printer import to_text
from ..model.problem import Place, Problem, Snippet, by_place, did_you_mean
from ..model.rule import Rule, RuleSet
from ..packs.extend import overrides, section
from ..packs.load import documents_of, resolved
from ..packs.yaml_document import Document, Fields, Items, Node, Scalar
from .finite_trace import contradicted
from .inherited import misfits, reshaped
from .precedence import misread
from .reachable import met
from .restarts import begins_anew, forgotten
from .satisfiable import can_hold
from .vacuous import vacuous


def check(rule_set: RuleSet, documents: Mapping[str, Document] | None = None) -> tuple[Problem, ...]:
    """Every warning about the rules, pack by pack in the order of the file.

    `documents` are the packs as read (`read_packs`), for the places; without them a place's source is the
    pack's name. A rule that is too large to compile is an error among the warnings (TRL301), and so are rules
    that are too large together (TRL302). Where the search for a warning takes too much work, it is not given.
    """
    known = documents or documents_of(rule_set)
    found: list[Problem] = []
    rules_of: dict[str, list[Rule]] = {name: [] for name in sorted(known)}
    for rule in rule_set.rules:
        rules_of[rule.pack].append(rule)
    compiling = questions = 0
    for name, rules in rules_of.items():
        here: list[Problem] = []
        places = _formula_places(known[name])
        bases = _bases(known[name])
        for rule in rules:
            place = places.get(rule.id) or known[name].place(known[name].root)
            machine, steps, problems = _compiled(rule, place)
            here += problems
            compiling += steps
            if compiling > RULES_STEPS_MAX:
                return (*found, *here, *too_much_together(len(rule_set.rules)).problems)
            if machine is not None and questions < QUESTIONS_STEPS_MAX:
                work = Work(f"{rule.pack}/{rule.id}", QUESTIONS)
                here += _of_rule(rule, machine, place, work)
                if rule.id in bases:
                    here += _of_inherited(rule, machine, bases[rule.id], known[name], work)
                questions += work.spent
        here += [*_impossible(rules, known[name]), *_vacuous(rules, known[name])]
        here += [*_misread(known[name]), *_unused(rules, known[name])]
        here += reshaped(rules, bases, known[name])
        found += sorted(here, key=by_place)
    return tuple(found)


def is_warning(problem: Problem) -> bool:
    """Return whether the pack is accepted all the same."""
    return problem.code.startswith("TRL5")


QUESTIONS = CompilerLimits(steps_max=2_000_000)
"""The work on the warnings of one rule, beside compiling it."""

QUESTIONS_STEPS_MAX = 100_000_000
"""The work on the warnings of all rules; those that come behind it have none."""


def _formula_places(document: Document) -> dict[str, Place]:
    """Return where the formula of each rule stands, by the rule's id."""
    rules = document.at(("rules",))
    places: dict[str, Place] = {}
    for node in rules.items if isinstance(rules, Items) else ():
        name = node.value("id") if isinstance(node, Fields) else None
        if isinstance(name, Scalar) and isinstance(node, Fields):
            places.setdefault(name.text, document.place(node.value("formula") or node))
    return places


def _bases(document: Document) -> dict[str, Rule]:
    """Return the rules that a pack inherits, as they are in the pack that it extends, by their ids."""
    changed = overrides(document)
    if changed is None or document.parent is None:
        return {}
    return {rule.id: rule for rule in resolved(document.parent).rules if rule.id in changed.inherited}


def _compiled(rule: Rule, place: Place) -> tuple[Machine | None, int, list[Problem]]:
    """Return the rule's machine and the steps it took, or why there is none."""
    try:
        return *compile_counted(rule), []
    except TooLarge as error:
        problems = [replace(problem, place=problem.place or place) for problem in error.problems]
        return None, error.spent, problems


def _of_rule(rule: Rule, compiled: Machine, place: Place, work: Work) -> Iterator[Problem]:
    """The warnings that the rule's formula and machine give, as far as `work` goes."""
    try:
        machine = met(rule, compiled, work)
        body = invariant_body(rule.formula, rule.transitions)
        if never_broken(machine):
            yield Problem("TRL501", f"rule `{rule.id}` can never be broken", NEVER_HINT, place)
        elif always_broken(machine):
            yield Problem("TRL502", f"rule `{rule.id}` is broken by every session", ALWAYS_HINT, place)
        elif body is not None:
            yield from _of_invariant(rule, body, machine, place, work)
        else:
            yield from _of_restarts(rule, machine, place, work)
        if body is None and contradicted(rule.formula, rule.transitions, work):
            message = f"rule `{rule.id}` is decided where the session, ending there, would read the other way"
            yield Problem("TRL507", message, _past_spelling(rule.formula), place)
    except TooLarge:
        return  # the search for a warning ran out of work, and the rule itself compiles


def _of_inherited(
    rule: Rule, machine: Machine, base: Rule, document: Document, work: Work
) -> Iterator[Problem]:
    """Yield the warnings about an inherited rule that does not fit the pack, as far as `work` goes."""
    try:
        yield from misfits(rule, machine, base, document, work)
    except TooLarge:
        return


VACUOUS = {
    "user": "a user message",
    "assistant": "an assistant message",
    "tool_call": "a tool call",
    "tool_result": "a tool result",
    "unknown": "a message that was not captured",
}
"""The kinds of events, in words."""
MEANT = {"text": "user", "result": "tool_result"}
"""For a field that tool calls do not have, a kind that has it."""

NEVER_HINT = "no session whose events are possible gives `violated` or `unmet`: say what would break it"
ALWAYS_HINT = "every session gives `violated` or `unmet`: say what would keep it"


def _of_invariant(rule: Rule, body: Formula, machine: Machine, place: Place, work: Work) -> Iterator[Problem]:
    """The warning about an invariant that goes on flagging."""
    if rule.recover is not Recover.NONE and is_sticky(machine, work):
        message = f"once rule `{rule.id}` is violated, every later event is flagged too"
        yield Problem("TRL506", message, f"write `{cause(body)}`, which flags the cause alone", place)


def _of_restarts(rule: Rule, machine: Machine, place: Place, work: Work) -> Iterator[Problem]:
    """The warnings about a rule that begins anew."""
    if rule.recover is not Recover.NONE:
        dropped = forgotten(rule.formula, rule.transitions, work)
        if dropped is not None:
            kept, broken = map(to_text, dropped)
            message = f"when rule `{rule.id}` is violated, all of it begins anew and forgets what it had seen"
            yield Problem("TRL504", message, f"split it into two rules: `{kept}` and `{broken}`", place)
    if rule.recover is Recover.BOTH and begins_anew(machine):
        message = f"rule `{rule.id}` begins anew after it was satisfied, and can then be broken"
        yield Problem("TRL505", message, _once_spelling(rule.formula), place)


# ---- what a machine can do


def never_broken(machine: Machine) -> bool:
    """Return whether no finite session gives `violated` or `unmet`."""
    outputs = {output & VERDICT_MASK for row in machine.output for output in row}
    return VIOLATED not in outputs and Verdict.UNMET not in machine.closing


def always_broken(machine: Machine) -> bool:
    """Return whether every session with an event gives `violated` or `unmet`."""
    found, todo = {0}, [0]
    while todo:
        state = todo.pop()
        for target, output in zip(machine.next[state], machine.output[state], strict=True):
            if output & VERDICT_MASK in (VIOLATED, STAYS_VIOLATED):
                continue
            if machine.closing[target] is not Verdict.UNMET:
                return False
            if target not in found:
                found.add(target)
                todo.append(target)
    return True


def is_sticky(machine: Machine, work: Work) -> bool:
    """Return whether some violation leaves every later event a violation too, whatever it is.

    `not previous once handover` is not: there every event flagged is one too many itself, and the
    handover, from which on they are flagged, is no violation.
    """
    stuck = set(range(len(machine.next)))
    while True:
        work.spend(len(stuck) * len(machine.next[0]) // 4)
        left = {
            state
            for state in stuck
            if all(output & VERDICT_MASK == VIOLATED for output in machine.output[state])
            and stuck.issuperset(machine.next[state])
        }
        if left == stuck:
            break
        stuck = left
    return any(
        target in stuck and output & VERDICT_MASK == VIOLATED
        for state in set(range(len(machine.next))) - stuck
        for target, output in zip(machine.next[state], machine.output[state], strict=True)
    )


# ---- what to write instead


def cause(body: Formula) -> str:
    """An invariant that is false where this body becomes false, and not for ever after."""
    match body:
        case Formula(Op.AT_MOST, (counted,)):
            return to_text(_always(Formula(Op.IMPLIES, (counted, body))))
        case Formula(Op.HISTORICALLY, (kept,), _, None):
            return to_text(_always(kept))
        case Formula(Op.NOT, (Formula(Op.ONCE, (banned,), _, None),)):
            return to_text(_always(Formula(Op.NOT, (banned,))))
        case _:
            return to_text(_always(Formula(Op.IMPLIES, (Formula(Op.WEAK_PREVIOUS, (body,)), body))))


def _past_spelling(formula: Formula) -> str:
    """Return how to say of the past what this says of the end."""
    match formula:
        case Formula(Op.ALWAYS, (Formula(Op.IMPLIES, (last, Formula(Op.WEAK_NEXT, (Formula(Op.FALSE),)))),)):
            return f"say it of the past: `{to_text(_never_after(last))}`"
        case Formula(Op.ALWAYS, (Formula(Op.IMPLIES, (last, Formula(Op.NOT, (Formula(Op.NEXT, _),)))),)):
            return f"say it of the past: `{to_text(_never_after(last))}`"
        case _:
            ahead = [part for part in walk(formula) if part.op in FUTURE]
            asked = min(ahead, key=lambda part: part.op not in STEPPED and part.bounds is None)
            doubt = f"`{to_text(asked)}` hangs on whether the session goes on"
            return f"{doubt}: say it of the past, at the later event"


def _never_after(last: Formula) -> Formula:
    # last -> weak_next false  =  no event after one with last
    return _always(Formula(Op.NOT, (Formula(Op.PREVIOUS, (Formula(Op.ONCE, (last,)),)),)))


def _once_spelling(formula: Formula) -> str:
    """Return how to ask it once, or of every event."""
    if not (has_future(formula) or has_past(formula)):
        return (
            f"write `{to_text(_always(formula))}` to ask every event, or `recover: none` for the first alone"
        )
    once = "write `recover: violation`, with which it is satisfied for good"
    match formula:
        case Formula(Op.UNTIL | Op.WEAK_UNTIL, (Formula(Op.NOT, (early,)), first)) if not (
            has_future(early) or has_future(first)
        ):
            every = _always(Formula(Op.IMPLIES, (early, Formula(Op.ONCE, (first,)))))
        case Formula(Op.IMPLIES, (cause, _)) if not has_future(cause):
            every = _always(formula)
        case _:
            return once
    return f"{once}, or say it of every event: `{to_text(every)}`"


def _always(formula: Formula) -> Formula:
    return Formula(Op.ALWAYS, (formula,))


# ---- what the text shows


def _impossible(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Propositions that rules use and that no event makes true."""
    users: dict[str, list[str]] = {}
    for rule in rules:
        for name, predicate in rule.propositions.items():
            if not can_hold(predicate):
                users.setdefault(name, []).append(rule.id)
    for name, ids in users.items():
        place = document.place(document.at(("propositions", name)))
        hint = f"its conditions exclude each other; it is used by {_listed(ids)}"
        yield Problem("TRL503", f"the proposition `{name}` can never hold", hint, place)


def _vacuous(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield the propositions that hold at events of some kind for want of a field."""
    users: dict[str, list[str]] = {}
    found: dict[str, tuple[str, str]] = {}
    for rule in rules:
        steps = TRUE if rule.steps is None else as_predicate(rule.steps, rule.propositions)
        for name, predicate in rule.propositions.items():
            vacuity = vacuous(predicate, steps)
            if vacuity is not None:
                found.setdefault(name, vacuity)
                users.setdefault(name, []).append(rule.id)
    for name, (kind, field) in found.items():
        message = f"the proposition `{name}` can be true of {VACUOUS[kind]}, which never has `{field}`"
        meant = f'say which events are meant, as in `kind == "{MEANT.get(field, "tool_call")}" and ...`'
        place = document.place(document.at(("propositions", name)))
        yield Problem("TRL510", message, f"{meant}; it is used by {_listed(users[name])}", place)


def _unused(rules: list[Rule], document: Document) -> Iterator[Problem]:
    """Yield the names of the pack's own file that no rule uses, where the pack has rules."""
    if not rules:
        return
    for name, used in (
        ("propositions", {name for rule in rules for name in rule.propositions}),
        ("transitions", {name for rule in rules for name in rule.transitions}),
    ):
        inherited = frozenset[str]() if document.parent is None else section(document.parent, name).keys()
        for entry, (key, _) in section(document, name).items():
            if entry in used or key.file is not document.file:
                continue
            message = f"the {name[:-1]} `{entry}` is used by no rule"
            hint = "use it, or leave it out"
            if entry in inherited:
                message = f"the {name[:-1]} `{entry}` replaces an inherited one and is used by no rule"
            elif inherited:
                hint += "; to replace an inherited one, give it that one's name: " + did_you_mean(
                    entry, inherited
                )
            yield Problem("TRL509", message, hint, document.place(key))


def _misread(document: Document) -> Iterator[Problem]:
    """Formulas that read as something else than they look."""
    for node in _formula_texts(document):
        for problem in misread(Snippet(node.text)):
            assert problem.place, "a warning about a text says where"
            place = document.place(node, problem.place.start, problem.place.end)
            yield replace(problem, place=place)


def _formula_texts(document: Document) -> Iterator[Scalar]:
    """Every text of the pack that is a formula."""
    ways: list[tuple[str | int, ...]] = [("operators",), ("transitions",)]
    for way in ways:
        section = document.at(way)
        if isinstance(section, Fields) and section is not document.root:
            yield from (value for _, value in section.entries if isinstance(value, Scalar))
    rules = document.at(("rules",))
    for rule in rules.items if isinstance(rules, Items) else ():
        if isinstance(rule, Fields):
            values: list[Node | None] = [rule.value(name) for name in ("formula", "steps", "applies_to")]
            yield from (value for value in values if isinstance(value, Scalar))


def _listed(ids: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in ids[:5]) + (" and others" if len(ids) > 5 else "")
