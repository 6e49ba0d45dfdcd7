"""The reference semantics of rules: short and slow, from the definitions.

No product module imports it; tests compare everything with it. Positions count from 1. A label is the
collection of propositions that are true at an event. `ltl3` searches for continuations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ...schemas.verdict import Recover, Verdict
from ..model.formula import FUTURE, PAST, Formula, Op, has_future, has_past, names
from ..model.rule import Rule
from .ltl3 import NO_TRANSITIONS, InstanceState, Label, Meaning, PastSummary, Transitions, boolean, steps

# --- Truth at a position, by the quantifiers of the operator table ---------------------------------


def holds(
    formula: Formula, trace: Sequence[Label], at: int, transitions: Transitions = NO_TRANSITIONS
) -> bool:
    """Return whether the formula is true at position `at` of the finite trace (LTLf, with past)."""
    return _Word(trace, 0, transitions).true(formula, at)


def holds_forever(
    formula: Formula, prefix: Sequence[Label], loop: Sequence[Label], positions: Sequence[int]
) -> list[bool]:
    """Return whether the formula is true at these positions of the infinite word `prefix loop loop loop ...`.

    Past operators may differ between rounds of the loop. But their memory is finite and follows from the
    memory one event before and the label there: once the memory before a round equals that before an earlier
    round, the rounds in between repeat for ever, and are the loop for the past too.
    """
    history = PastSummary.of(formula, NO_TRANSITIONS)
    memory = history.start
    for label in prefix:
        memory = history.after(memory, label)
    seen = [memory]
    while len(seen) == len(set(seen)) or len(prefix) + len(loop) * (len(seen) - 1) < max(positions):
        for label in loop:
            memory = history.after(memory, label)
        seen.append(memory)
    word = [*prefix, *(label for _ in seen[1:] for label in loop)]
    back = len(prefix) + len(loop) * seen.index(memory) + 1
    infinite = _Word(word, back, NO_TRANSITIONS)
    return [infinite.true(formula, at) for at in positions]


@dataclass
class _Word:
    """A word whose last position precedes the position `back`, or no position where that is 0."""

    labels: Sequence[Label]
    back: int
    transitions: Transitions
    known: dict[tuple[Formula, int], bool] = field(default_factory=dict[tuple[Formula, int], bool])

    def true(self, f: Formula, i: int) -> bool:
        """Return whether f is true at position i."""
        if (f, i) not in self.known:
            if f.op is Op.PROP:
                defined = self.transitions.get(f.name)
                value = f.name in self.labels[i - 1] if defined is None else self.true(defined, i)
            elif f.op in FUTURE:
                value = self._future(f, i)
            elif f.op in PAST:
                value = self._past(f, i)
            else:
                value = boolean(f, lambda p: self.true(p, i))
            self.known[f, i] = value
        return self.known[f, i]

    def _future(self, f: Formula, i: int) -> bool:
        onward = list(self._onward(i))
        within = list(self._within(i, f)) if f.bounds or f.op in (Op.NEXT, Op.WEAK_NEXT) else onward
        match f.op, f.args:
            case ((Op.NEXT | Op.EVENTUALLY), (p,)):
                return any(self.true(p, j) for j in within)
            case ((Op.WEAK_NEXT | Op.ALWAYS), (p,)):
                return all(self.true(p, j) for j in within)
            case Op.UNTIL, (p, q):
                return self._until(onward, p, q)
            case Op.WEAK_UNTIL, (p, q):
                return self._until(onward, p, q) or all(self.true(p, j) for j in onward)
            case Op.RELEASE, (p, q):  # q weak_until (p and q)
                return self._until(onward, q, _and(p, q)) or all(self.true(q, j) for j in onward)
            case Op.STRONG_RELEASE, (p, q):  # q until (p and q)
                return self._until(onward, q, _and(p, q))
            case _:
                raise AssertionError(f)

    def _past(self, f: Formula, i: int) -> bool:
        back = range(i, 0, -1)
        a, b = f.bounds or (1, 1)
        bounded = f.bounds is not None or f.op in (Op.PREVIOUS, Op.WEAK_PREVIOUS)
        within = [j for j in range(i - a, i - b - 1, -1) if j >= 1] if bounded else back
        match f.op, f.args:
            case ((Op.PREVIOUS | Op.ONCE), (p,)):
                return any(self.true(p, j) for j in within)
            case ((Op.WEAK_PREVIOUS | Op.HISTORICALLY), (p,)):
                return all(self.true(p, j) for j in within)
            case Op.SINCE, (p, q):
                return self._until(back, p, q)
            case Op.WEAK_SINCE, (p, q):
                return self._until(back, p, q) or all(self.true(p, j) for j in back)
            case Op.AT_MOST, (p,):
                return sum(self.true(p, j) for j in back) <= steps(f)
            case _:
                raise AssertionError(f)

    def _onward(self, i: int) -> Iterable[int]:
        """Yield the positions from i on, each once."""
        yield from range(i, len(self.labels) + 1)
        if self.back:
            yield from range(self.back, i)

    def _within(self, i: int, f: Formula) -> Iterable[int]:
        """Yield the existing positions of i+a..i+b."""
        a, b = f.bounds or (1, 1)
        for distance in range(b + 1):
            if distance >= a:
                yield i
            i = i + 1 if i < len(self.labels) else self.back
            if not i:
                return

    def _until(self, path: Sequence[int], p: Formula, q: Formula) -> bool:
        """Return whether q is true somewhere on the path and p everywhere before."""
        return any(self.true(q, j) and all(self.true(p, k) for k in path[:n]) for n, j in enumerate(path))


def _and(p: Formula, q: Formula) -> Formula:
    return Formula(Op.AND, (p, q))


# --- One rule over one trace: TRAC, TRAC_R, invariants, the close -----------------------------------


def invariant_body(formula: Formula, transitions: Transitions = NO_TRANSITIONS) -> Formula | None:
    """Return the condition of an invariant on every event; None where the rule is not an invariant.

    An invariant has a past operator (a transition bit counts as one) and no future operator except at most an
    outermost unbounded `always`. Its body lacks one outermost unbounded `always` or `historically`.
    """
    return _body(formula, frozenset(transitions))


@lru_cache(maxsize=256)
def _body(formula: Formula, bits: frozenset[str]) -> Formula | None:
    """Return the body of an invariant, where these names are transition bits."""
    strippable = formula.op in (Op.ALWAYS, Op.HISTORICALLY) and formula.bounds is None
    inside = formula.args[0] if strippable else formula
    looks_back = has_past(formula) or not names(formula).isdisjoint(bits)
    if not looks_back or has_future(inside):
        return None
    return inside


@dataclass(frozen=True)
class Judgement:
    """A verdict after each event (a final verdict repeats), and the reading at the close.

    `closing` is `held`, `unmet`, or None where no pending instance has seen an event. `recorded` holds the
    positions at which an instance was decided, which have a verdict record.
    """

    verdicts: tuple[Verdict, ...]
    closing: Verdict | None
    recorded: tuple[int, ...]


class Run(NamedTuple):
    """A rule's run over a session so far, which `advance` continues and `close` ends.

    `instance` is the pending instance (after a restart the one that begins at the next event), `start` the
    position where it begins; `final` is a verdict that never changes.
    """

    instance: InstanceState
    start: int
    position: int
    after_satisfied: bool
    final: Verdict | None


def begin(meaning: Meaning) -> Run:
    """Return a run before the first event."""
    return Run(meaning.begin(meaning.history.start), 1, 0, False, None)


def advance(meaning: Meaning, run: Run, label: Label, recover: Recover) -> tuple[Verdict, Run]:
    """Run the loop of TRAC (Algorithm 1) or TRAC_R (Algorithm 2) once; return the verdict and the new run."""
    position = run.position + 1
    if run.final is not None:
        return run.final, Run(run.instance, run.start, position, run.after_satisfied, run.final)
    instance = meaning.step(run.instance, label)
    body = invariant_body(meaning.formula, meaning.history.transitions)
    if body is None:
        verdict = meaning.verdict(instance)
    else:  # judged at each event: never completed, never satisfied
        now = meaning.history.now(run.instance.memory, label)
        verdict = Verdict.PENDING if now(body) else Verdict.VIOLATED
    if verdict is Verdict.PENDING:
        return verdict, Run(instance, run.start, position, run.after_satisfied, None)
    restarts = recover is Recover.BOTH or (recover is Recover.VIOLATION and verdict is Verdict.VIOLATED)
    fresh = meaning.begin(instance.memory)  # obligations restart, the history continues
    final = None if restarts else verdict
    return verdict, Run(fresh, position + 1, position, verdict is Verdict.SATISFIED, final)


def close(meaning: Meaning, run: Run, trace: Sequence[Label]) -> Verdict | None:
    """Return the reading of the pending instance where the session, which has this trace, ends here."""
    if run.final is not None or run.start > run.position:
        return None
    transitions = meaning.history.transitions
    if invariant_body(meaning.formula, transitions) is not None:
        return Verdict.HELD
    if run.after_satisfied and meaning.is_whole(run.instance):  # no obligation since the verdict
        return Verdict.HELD
    return Verdict.HELD if holds(meaning.formula, trace, run.start, transitions) else Verdict.UNMET


def judge(
    formula: Formula,
    trace: Sequence[Label],
    *,
    recover: Recover = Recover.BOTH,
    transitions: Transitions = NO_TRANSITIONS,
) -> Judgement:
    """Return the rule's judgement of a whole session: after each event, and at its close."""
    meaning = _meaning(formula, tuple(transitions.items()))
    run, verdicts, recorded = begin(meaning), list[Verdict](), list[int]()
    for label in trace:
        decided = run.final is not None
        verdict, run = advance(meaning, run, label, recover)
        verdicts.append(verdict)
        if verdict is not Verdict.PENDING and not decided:
            recorded.append(run.position)
    return Judgement(tuple(verdicts), close(meaning, run, trace), tuple(recorded))


@lru_cache(maxsize=256)
def _meaning(formula: Formula, transitions: tuple[tuple[str, Formula], ...]) -> Meaning:
    """Return the meaning of a rule, whose decisions serve all its sessions and slices."""
    return Meaning(formula, dict(transitions))


def applies_at(
    formula: Formula,
    trace: Sequence[Label],
    *,
    applies_to: Formula | None = None,
    transitions: Transitions = NO_TRANSITIONS,
) -> tuple[int, ...]:
    """Return the positions that make the rule apply; it applies from the first of them on.

    They are those where `applies_to` is true, else those where the antecedent of the outermost implication
    (under one outermost `always` or `historically`) is, if that has no future operator, else the first.
    """
    inside = formula.args[0] if formula.op in (Op.ALWAYS, Op.HISTORICALLY) else formula
    if applies_to is None and inside.op is Op.IMPLIES and not has_future(inside.args[0]):
        applies_to = inside.args[0]
    if applies_to is None:
        return tuple(range(1, min(len(trace), 1) + 1))
    return tuple(i for i in range(1, len(trace) + 1) if holds(applies_to, trace, i, transitions))


# --- One rule over one session's events: steps, slices, unjudged events -----------------------------


@dataclass(frozen=True)
class LabelledEvent:
    """The labels of one event: the propositions true and unknown at it, and its slice's value.

    `slice` is None where the event carries no value. `slice_unknown` is true where it may carry one that was
    not captured, or carries an array or object.
    """

    true: frozenset[str]
    unknown: frozenset[str] = frozenset()
    slice: str | None = None
    slice_unknown: bool = False


@dataclass(frozen=True, order=True)
class SessionFinding:
    """A recorded verdict, with the event (from 0) of the session and the slice."""

    event: int
    slice: str
    sliced: bool
    verdict: Verdict


@dataclass(frozen=True)
class SessionJudgement:
    """All findings of a rule in a session, ordered by event, and the event from which it applies."""

    findings: tuple[SessionFinding, ...]
    applies: int | None


def judge_session(rule: Rule, events: Sequence[LabelledEvent], *, closed: bool = True) -> SessionJudgement:
    """Return the findings of the rule in a session; with slices, each value has a run on its own trace."""
    stepped, stop = _stepped(rule, events)
    values = dict.fromkeys(events[i].slice for i in stepped) if rule.for_each else {}
    values.pop(None, None)
    findings, applies = set[SessionFinding](), list[int]()
    for value in (*values, None):
        places = [i for i in stepped if not rule.for_each or events[i].slice in (value, None)]
        trace = [events[i].true for i in places]
        found = judge(rule.formula, trace, recover=rule.recover, transitions=rule.transitions)
        verdicts = [(places[at - 1], found.verdicts[at - 1]) for at in found.recorded]
        if closed and stop is None and found.closing is not None:
            verdicts.append((places[-1], found.closing))
        if value is not None:  # its verdicts count from the first event with this value
            first = next(i for i in places if events[i].slice == value)
            verdicts = [(i, verdict) for i, verdict in verdicts if i >= first]
        elif rule.for_each:  # the run without a value reports violations, and only before the first value
            first = min((i for i in stepped if events[i].slice is not None), default=len(events))
            verdicts = [(i, v) for i, v in verdicts if i < first and v is Verdict.VIOLATED]
        findings |= {SessionFinding(i, value or "", value is not None, verdict) for i, verdict in verdicts}
        at = applies_at(rule.formula, trace, applies_to=rule.applies_to, transitions=rule.transitions)
        applies += [places[i - 1] for i in at]
    if stop is not None:
        findings.add(SessionFinding(stop, "", False, Verdict.UNJUDGED))
    applies += [f.event for f in findings if f.verdict is Verdict.VIOLATED]
    return SessionJudgement(tuple(sorted(findings)), min(applies, default=None))


def _stepped(rule: Rule, events: Sequence[LabelledEvent]) -> tuple[list[int], int | None]:
    """Return the events that the rule steps on, before the first that makes it unjudged, and the latter."""
    formulas = (rule.formula, rule.applies_to, *rule.transitions.values())
    used = frozenset[str]().union(*(names(f) for f in formulas if f is not None))
    stepped: list[int] = []
    for i, event in enumerate(events):
        counts = True if rule.steps is None else kleene(rule.steps, event)
        if counts is False:
            continue
        if counts is None or used & event.unknown or (rule.for_each and event.slice_unknown):
            return stepped, i
        stepped.append(i)
    return stepped, None


def kleene(formula: Formula, event: LabelledEvent) -> bool | None:
    """Return a Boolean formula's truth where propositions may be unknown; None is unknown.

    The operators have the tables of Kleene's strong logic: `p or not p` is unknown where p is.
    """
    match formula.op, [kleene(p, event) for p in formula.args]:
        case Op.PROP, _:
            return None if formula.name in event.unknown else formula.name in event.true
        case Op.NOT, [p]:
            return None if p is None else not p
        case ((Op.AND | Op.OR), values):
            settles = formula.op is Op.OR
            return settles if settles in values else None if None in values else not settles
        case Op.IMPLIES, [p, q]:
            return True if p is False or q is True else None if None in (p, q) else False
        case Op.IFF, [p, q]:
            return None if None in (p, q) else p == q
        case _:
            return formula.op is Op.TRUE
