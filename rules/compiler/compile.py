"""The compiler: a resolved rule to a flat table, by a list of passes.

shape (invariant or ordinary, what makes it apply) -> letters -> history -> normal form -> residuals,
explored with LTL3 completion -> minimised -> table. One pass, one file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from ...schemas.verdict import Recover, Unknown
from ..model import machine as table
from ..model.formula import Formula
from ..model.machine import Machine
from ..model.printer import to_text
from ..model.rule import Rule
from .decide import Decider
from .emptiness import Tableau
from .events import Events
from .explore import INVARIANT, MachineGraph, MachineState, Subject, closing, explore
from .history import history
from .letters import Alphabet, alphabet, letters_of
from .limits import (
    DEFAULT,
    FOLLOWED_STATES_MAX,
    RULES_STEPS_MAX,
    TABLE_LETTERS_MAX,
    CompilerLimits,
    TooLarge,
    Work,
    cannot_follow,
    exceeded,
    too_much_together,
)
from .minimise import blocks, columns
from .normal import Nodes, normal_form
from .residual import Residuals, initial
from .shape import antecedent, invariant_body
from .wording import Wording

_NO_TRANSITIONS: Mapping[str, Formula] = MappingProxyType({})


def compile_rule(rule: Rule) -> Machine:
    """Return the machine of a rule.

    Raises:
        RuleError: the rule exceeds a named limit (`compiler.limits`), or cannot follow (TRL304).
    """
    return compile_counted(rule)[0]


def compile_rules(rules: Sequence[Rule]) -> tuple[Machine, ...]:
    """Return the machines of the rules of a set.

    Raises:
        RuleError: a rule exceeds a named limit, or the rules take too much work together (TRL302).
    """
    machines: list[Machine] = []
    spent = 0
    for rule in rules:
        machine, steps = compile_counted(rule)
        machines.append(machine)
        spent += steps
        if spent > RULES_STEPS_MAX:
            raise too_much_together(len(rules))
    return tuple(machines)


def compile_counted(rule: Rule) -> tuple[Machine, int]:
    """Return the machine of a rule and the steps of work to compile it, also where it is in the cache.

    Raises:
        RuleError: the rule exceeds a named limit (`compiler.limits`).
    """
    transitions = tuple(sorted(rule.transitions.items()))
    name = f"{rule.pack}/{rule.id}"
    machine, spent = _compiled(rule.formula, transitions, rule.recover, rule.applies_to, name, DEFAULT)
    if rule.unknown is Unknown.FOLLOW and len(machine.next) > FOLLOWED_STATES_MAX:
        error = cannot_follow(name, len(machine.next))
        error.spent = spent
        raise error
    return machine, spent


def compile_within(work: Work, formula: Formula, transitions: Mapping[str, Formula]) -> Machine:
    """Return the machine of a formula that never restarts, and add its steps to `work`.

    Raises:
        TooLarge: the formula exceeds a named limit, or `work` exceeds its own.
    """
    bits = tuple(sorted(transitions.items()))
    machine, spent = _compiled(formula, bits, Recover.NONE, None, work.rule, DEFAULT)
    work.spend(spent)
    return machine


def compile_formula(
    formula: Formula,
    *,
    transitions: Mapping[str, Formula] = _NO_TRANSITIONS,
    recover: Recover = Recover.BOTH,
    applies_to: Formula | None = None,
    name: str = "formula",
    limits: CompilerLimits = DEFAULT,
) -> Machine:
    """Return the machine of a formula whose operators are expanded.

    `transitions` are the right sides of the transition bits that it names, `applies_to` replaces the
    antecedent that decides whether it applies, and `name` is its name in errors.

    Raises:
        RuleError: the formula exceeds one of the `limits`.
    """
    return _compiled(formula, tuple(sorted(transitions.items())), recover, applies_to, name, limits)[0]


@lru_cache(maxsize=512)
def _compiled(
    formula: Formula,
    transitions: tuple[tuple[str, Formula], ...],
    recover: Recover,
    applies_to: Formula | None,
    name: str,
    limits: CompilerLimits,
) -> tuple[Machine, int]:
    bits = dict(transitions)
    work = Work(name, limits)
    try:
        return _machine(work, formula, bits, recover, applies_to), work.spent
    except TooLarge as error:
        error.spent = work.spent
        raise


def _machine(
    work: Work, formula: Formula, bits: Mapping[str, Formula], recover: Recover, applies_to: Formula | None
) -> Machine:
    applies = antecedent(formula) if applies_to is None else applies_to
    body = invariant_body(formula, bits)
    letters = alphabet((formula, applies, *bits.values()), bits, work)
    past = history((formula, applies), bits)
    nodes = Nodes(work)
    residuals = Residuals(nodes, work)
    events = Events(letters, past, work)
    start = INVARIANT if body is not None else initial(residuals, normal_form(formula, nodes))
    subject = Subject(
        body=body,
        start=start,
        applies=applies,
        recover=recover,
        residuals=residuals,
        decider=Decider(residuals, Tableau(nodes, events, work), events, nodes.leaves, work),
        events=events,
        history=past,
        work=work,
    )
    return _table(subject, explore(subject), letters, formula)


def _table(subject: Subject, graph: MachineGraph, letters: Alphabet, formula: Formula) -> Machine:
    visible = [
        (closing(subject, state), _condition(subject, state), tuple(outputs))
        for state, outputs in zip(graph.states, graph.output, strict=True)
    ]
    block = blocks(visible, graph.next, subject.work)
    first = [block.index(number) for number in range(max(block) + 1)]
    next_rows = [[block[target] for target in graph.next[s]] for s in first]
    output_rows = [graph.output[s] for s in first]
    merged = columns([*next_rows, *output_rows])
    if max(merged) >= TABLE_LETTERS_MAX:
        hint = "split the rule, or put propositions that only stand together into one"
        raise exceeded(subject.work.rule, "letters of the table", TABLE_LETTERS_MAX, hint)
    column = [merged.index(letter) for letter in range(max(merged) + 1)]
    return Machine(
        propositions=letters.propositions,
        letters=letters_of(letters.classes, tuple(merged), 1 << len(letters.propositions)),
        next=tuple(tuple(row[c] for c in column) for row in next_rows),
        output=tuple(tuple(row[c] for c in column) for row in output_rows),
        closing=tuple(visible[s][0] for s in first),
        residual=_texts(subject, [graph.states[s] for s in first], formula),
    )


def _condition(subject: Subject, state: MachineState) -> int | str:
    """Return the condition on the next event: a number, or `true`, `false` or `rule` as a word."""
    if state.final:
        return "false" if state.final == table.VIOLATED else "true"
    return "rule" if state.residual == INVARIANT else subject.residuals.condition(state.residual)


def _texts(subject: Subject, states: Sequence[MachineState], formula: Formula) -> tuple[str, ...]:
    rule = to_text(formula)
    wording = (
        None
        if subject.start == INVARIANT
        else Wording(subject.residuals, formula, subject.start, subject.work)
    )
    texts: list[str] = []
    for state in states:
        condition = _condition(subject, state)
        if isinstance(condition, str):
            texts.append(rule if condition == "rule" else condition)
        else:
            assert wording is not None
            texts.append(wording.text(condition))
    return tuple(texts)
