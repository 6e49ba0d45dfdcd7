"""A sentence on how a rule was broken, from its formula and the witness of the verdict.

The sentence names the obligation that was open, the event that opened it, and the propositions that broke it.
These are the propositions of the last event each of which, had it been the other way, would have averted the
violation; of a condition on the past, the sentence states since when it was true or false.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from ...schemas.records.verdict_record import VerdictRecord, Witness, WitnessEvent, WitnessHistory
from ...schemas.verdict import Verdict
from ..compiler.compile import compile_formula
from ..compiler.shape import always_body, invariant_body
from ..engine.stepper import MachineRun
from ..language.parse import parse_formula
from ..model.formula import PAST, Formula, Op, has_past, names
from ..model.machine import Machine
from ..model.printer import to_text
from ..model.problem import RuleError
from ..model.rule import Rule
from .nouns import NAMES_MAX, joined
from .past import RunPast
from .plain import plain_omission, plain_violation
from .waits import plain_wait

SLICE_MAX = 80
"""Characters of a slice's value in a sentence."""


def explain_breach(rule: Rule, record: VerdictRecord, past: RunPast | None = None) -> str:
    """Return a sentence on what broke the rule, or why it is unjudged; `rule` is the one that judged.

    With the past of the verdict's run there are plain sentences on more shapes of rules.
    """
    if record.witness is None:
        return f"The rule is unjudged from event {record.seq} on: {record.why}."
    past = None if past is None else past.until(record.seq)
    scope = "" if record.slice is None else f"For `{_short(record.slice)}`: "
    match record.verdict:
        case Verdict.UNMET:
            return f"{scope}{_unmet(rule, record.seq, record.witness, past)}"
        case Verdict.VIOLATED:
            return f"{scope}{_violated(rule, record.witness, past)}"
        case _:
            return f"{scope}The rule is {record.verdict} at event {record.seq}."


def decisive_propositions(rule: Rule, witness: Witness) -> tuple[str, ...]:
    """Return the propositions of the violating event each of which alone would have averted the verdict.

    There may be none: two may have to differ, or the witness does not have the whole past that is read.
    """
    last = witness.events[-1]
    body = invariant_body(rule.formula, rule.transitions)
    if body is not None:
        bits = {bit.formula: bit.value for bit in witness.history}
        return tuple(name for name in _present_names(body, rule) if _averts(body, name, last, bits, rule))
    machine = None if witness.truncated else _machine(_required(rule, witness), frozenset(rule.transitions))
    if machine is None:
        return ()
    return tuple(name for name in machine.propositions if not _is_violated(machine, {*last.true} ^ {name}))


def _short(value: str) -> str:
    return value if len(value) <= SLICE_MAX else f"{value[: SLICE_MAX - 1]}…"


def _unmet(rule: Rule, end: int, witness: Witness, past: RunPast | None) -> str:
    """Return the sentence on an obligation that the session's end left open."""
    plain = plain_omission(rule, witness, end) or (past and plain_wait(rule, witness, past, is_over=True))
    if plain:
        return plain
    first, last = witness.events[0], witness.events[-1]
    since, left = without_rule(first.residual, rule), without_rule(last.residual, rule)
    ended = f"the session ended after event {end} without it"
    if first.residual == to_text(rule.formula):
        return f"The rule requires `{since}`; {ended}."
    remained = "" if left == since else f", of which `{left}` was left"
    return f"{_at(first)} required `{since}`{remained}; {ended}."


def _violated(rule: Rule, witness: Witness, past: RunPast | None) -> str:
    """Return the sentence on the event that broke the rule, or an open obligation."""
    first, last = witness.events[0], witness.events[-1]
    decisive = decisive_propositions(rule, witness)
    if len(witness.events) == 1:
        plain = plain_violation(rule, witness, decisive, past)
    else:
        plain = past and plain_wait(rule, witness, past, is_over=False)
    if plain:
        return plain
    history = joined([_past_fact(bit, last.seq) for bit in witness.history])
    facts = _facts(decisive or last.true, last.true) if decisive or not history else ""
    reason = ", and ".join(part for part in (facts, history) if part)
    if len(witness.events) == 1:
        return f"Event {last.seq} broke `{_body_text(rule)}`: {reason}."
    since = without_rule(first.residual, rule)
    left = since if witness.truncated else without_rule(_required(rule, witness), rule)
    remained = "" if left == since else f", of which `{left}` was left"
    return f"{_at(first)} required `{since}`{remained}; event {last.seq} broke it: {reason}."


def _required(rule: Rule, witness: Witness) -> str:
    """Return what was required of the witness's last event."""
    return witness.events[-2].residual if len(witness.events) > 1 else to_text(rule.formula)


def _past_fact(bit: WitnessHistory, now: int) -> str:
    """Return which event gave a condition on the past its value."""
    value = "true" if bit.value else "false"
    if bit.seq is None:
        return f"`{bit.formula}` has been {value} since the session began"
    itself = " itself" if bit.seq == now else ""
    return f"event {bit.seq}{itself} made `{bit.formula}` {value}"


def _at(event: WitnessEvent) -> str:
    true = joined([f"`{name}`" for name in event.true[:NAMES_MAX]])
    return f"Event {event.seq} ({true})" if true else f"Event {event.seq}"


def _facts(decisive: Sequence[str], true: Collection[str]) -> str:
    """Return which of the propositions were true at the event, and which were not."""
    held = [f"`{name}`" for name in decisive if name in true][:NAMES_MAX]
    missing = [f"`{name}`" for name in decisive if name not in true][:NAMES_MAX]
    parts = [f"{joined(held)} {'was' if len(held) == 1 else 'were'} true there"] if held else []
    if missing:
        parts.append(f"{joined(missing)} {'was' if len(missing) == 1 else 'were'} not true there")
    return " and ".join(parts) or "no proposition of the rule was true there"


def _body_text(rule: Rule) -> str:
    """Return the rule's formula without an outermost `always`."""
    return to_text(always_body(rule.formula))


def without_rule(residual: str, rule: Rule) -> str:
    """Return the obligations of a residual beside the rule itself, which stays required throughout."""
    parsed = _parsed(residual)
    if parsed is None:
        return residual
    parts = _conjuncts(parsed)
    rest = [part for part in parts if part != rule.formula]
    return " and ".join(_operand(part) for part in rest) if rest and len(rest) < len(parts) else residual


def _operand(part: Formula) -> str:
    text = to_text(part)
    return f"({text})" if part.op in (Op.OR, Op.IMPLIES, Op.IFF) else text


def _conjuncts(formula: Formula) -> list[Formula]:
    if formula.op is not Op.AND:
        return [formula]
    return [part for arg in formula.args for part in _conjuncts(arg)]


@lru_cache(maxsize=256)
def _parsed(text: str) -> Formula | None:
    """Return the formula of a residual; None where the text is none."""
    try:
        return parse_formula(text)
    except RuleError:
        return None


@lru_cache(maxsize=256)
def _machine(text: str, transitions: frozenset[str]) -> Machine | None:
    """Return the machine of a residual; None where it reads the past, which the text alone does not have."""
    formula = _parsed(text)
    try:
        reads_past = formula is None or has_past(formula) or not names(formula).isdisjoint(transitions)
        return None if formula is None or reads_past else compile_formula(formula)
    except RuleError:
        return None


def _is_violated(machine: Machine, true: Collection[str]) -> bool:
    return MachineRun(machine).step(true).verdict is Verdict.VIOLATED


def _present_names(formula: Formula, rule: Rule) -> list[str]:
    """Return the propositions of a condition that are read at the event itself, not by past operators."""
    if formula.op is Op.PROP:
        return [] if formula.name in rule.transitions else [formula.name]
    if formula.op in PAST:
        return []
    return list(dict.fromkeys(name for arg in formula.args for name in _present_names(arg, rule)))


def _averts(body: Formula, name: str, event: WitnessEvent, bits: Mapping[str, bool], rule: Rule) -> bool:
    """Return whether the condition is true if only this proposition of the event differs."""
    return _value(body, frozenset(event.true) ^ {name}, name, bits, rule) is True


def _value(
    formula: Formula, true: Collection[str], changed: str, bits: Mapping[str, bool], rule: Rule
) -> bool | None:
    """Return the value of a condition at an event, given its past formulas; None where that is unknown.

    A past formula that reads the changed proposition at the event itself is unknown.
    """
    is_bit = formula.op is Op.PROP and formula.name in rule.transitions
    if formula.op in PAST or is_bit:
        is_before = formula.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS)
        is_known = is_before or (not is_bit and changed not in names(formula) and not _bits_in(formula, rule))
        return bits.get(to_text(formula)) if is_known else None
    if formula.op is Op.PROP:
        return formula.name in true
    values = [_value(arg, true, changed, bits, rule) for arg in formula.args]
    return _combined(formula.op, values)


def _bits_in(formula: Formula, rule: Rule) -> bool:
    return not names(formula).isdisjoint(rule.transitions)


def _combined(op: Op, values: Sequence[bool | None]) -> bool | None:
    """Return the value of a Boolean operator in Kleene's logic."""
    match op:
        case Op.TRUE | Op.FALSE:
            return op is Op.TRUE
        case Op.NOT:
            return None if values[0] is None else not values[0]
        case Op.AND:
            return False if False in values else None if None in values else True
        case Op.OR:
            return True if True in values else None if None in values else False
        case Op.IMPLIES:
            return True if values[0] is False or values[1] is True else None if None in values else False
        case Op.IFF:
            return None if None in values else values[0] == values[1]
        case _:
            return None
