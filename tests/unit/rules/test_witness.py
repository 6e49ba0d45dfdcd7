"""Witnesses: which events explain a verdict."""

from tracline.rules.compiler.compile import compile_rule
from tracline.rules.engine.trail_loop import WITNESS_EVENTS_MAX
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.model.rule import Rule

from ...support.truth.table_witness import RunWitness, table_witnesses


def rule(text: str, **transitions: str) -> Rule:
    """Return a rule over propositions that the witness never evaluates."""
    return Rule(
        pack="shop",
        id="r",
        title="r",
        formula=parse_formula(text),
        text=text,
        propositions={"p": parse_predicate("nested")},
        transitions={name: parse_formula(right) for name, right in transitions.items()},
    )


def witness_of(subject: Rule, labels: list[set[str]], at: int | None = None) -> RunWitness:
    """Return the witness at an index, the last one by default."""
    index = len(labels) - 1 if at is None else at
    return table_witnesses(subject, compile_rule(subject), labels, [index])[index]


def indices(witness: RunWitness) -> list[int]:
    """Return the events that the witness holds."""
    return [event.place for event in witness.events]


def test_a_broken_promise_shows_the_event_that_made_it() -> None:
    """The events since the residual last equalled the rule: the call, and where the time ran out."""
    labels = [{"call"}, {"result"}, set(), {"call"}, set(), set()]
    found = witness_of(rule("always (call -> F[0,2] result)"), labels)
    assert indices(found) == [3, 4, 5]
    assert found.events[0].true == ("call",)
    assert found.events[0].residual == "always (call -> eventually[0,2] result) and eventually[0,1] result"
    assert found.events[-1].residual == "false"
    assert not found.truncated


def test_an_event_that_changes_nothing_is_left_out() -> None:
    """Waiting does not change `eventually result`, so only the call and the verdict's event are shown."""
    labels = [{"call"}, set(), set(), {"secret"}]
    found = witness_of(rule("always (not secret) and always (call -> eventually result)"), labels)
    assert indices(found) == [0, 3]


def test_an_answered_obligation_is_no_part_of_a_later_witness() -> None:
    """A thousand answered calls explain nothing."""
    labels = [{"call"}, {"result"}] * 1000 + [{"call"}]
    assert indices(witness_of(rule("always (call -> eventually result)"), labels)) == [2000]


def test_an_invariant_shows_the_history_that_decided() -> None:
    """The bit, its value, and the last event that changed it."""
    labels = [{"agreed"}, {"retracted"}, set(), {"pay"}]
    found = witness_of(rule("always (pay -> not retracted since agreed)"), labels)
    assert indices(found) == [3]
    (bit,) = found.history
    assert (bit.formula, bit.value, bit.place) == ("not retracted since agreed", False, 1)


def test_a_bit_that_never_changed_names_no_event() -> None:
    """`once agreed` was false from the beginning: there is no event to point at."""
    (bit,) = witness_of(rule("always (pay -> once agreed)"), [set(), {"pay"}]).history
    assert (bit.formula, bit.value, bit.place) == ("once agreed", False, None)


def test_the_first_event_can_be_the_one_that_decided() -> None:
    """`once cancelled` is true from the first event on, `historically calm` false: it is named for both."""
    (bit,) = witness_of(rule("always (pay -> not once cancelled)"), [{"cancelled"}, {"pay"}]).history
    assert (bit.formula, bit.value, bit.place) == ("once cancelled", True, 0)
    (bit,) = witness_of(rule("always (pay -> historically calm)"), [set(), {"calm", "pay"}]).history
    assert (bit.formula, bit.value, bit.place) == ("historically calm", False, 0)


def test_a_window_that_begins_earlier_names_the_event_it_speaks_of() -> None:
    """`once[1,2] call` is `previous once[0,1] call`: the call makes it true, not the event after."""
    (bit,) = witness_of(rule("always not (call and once[1,2] call)"), [{"call"}, {"call"}]).history
    assert (bit.formula, bit.value, bit.place) == ("once[1,2] call", True, 0)


def test_a_delayed_bit_names_the_event_it_speaks_of() -> None:
    """`previous call` is true at the second call because of the first; a longer delay points further back."""
    labels = [set(), {"call"}, {"call"}]
    (bit,) = witness_of(rule("always not (call and previous call)"), labels).history
    assert (bit.formula, bit.value, bit.place) == ("previous call", True, 1)
    labels = [set(), {"call"}, set(), {"call"}]
    (bit,) = witness_of(rule("always not (call and previous[2] call)"), labels).history
    assert (bit.formula, bit.place) == ("previous[2] call", 1)


def test_only_the_operand_that_decides_is_shown() -> None:
    """Of a conjunction that is false, the false operands; the true one explains nothing."""
    found = witness_of(rule("always (pay -> once agreed and once known)"), [{"known"}, {"pay"}])
    assert [bit.formula for bit in found.history] == ["once agreed"]


def test_a_transition_bit_can_decide() -> None:
    """Bits beyond LTL are history like any other."""
    found = witness_of(rule("always (p -> odd)", odd="not previous odd"), [{"p"}, {"p"}])
    assert [(bit.formula, bit.value, bit.place) for bit in found.history] == [("odd", False, 1)]


def test_a_long_witness_is_cut_and_marked() -> None:
    """At most `WITNESS_EVENTS_MAX` events, the verdict's own among them."""
    count = WITNESS_EVENTS_MAX + 5
    labels = [{"call"}] + [set[str]()] * count
    found = witness_of(rule(f"always (call -> F[0,{count}] result)"), labels)
    assert found.truncated
    assert indices(found) == [*range(WITNESS_EVENTS_MAX - 1), count]


def test_one_replay_answers_for_many_verdicts() -> None:
    """Asking for several indices gives what asking for each alone gives."""
    subject = rule("always (call -> F[0,1] result)")
    labels: list[set[str]] = [{"call"}, set(), {"call"}, set(), set()]
    together = table_witnesses(subject, compile_rule(subject), labels, [1, 3])
    assert [together[1], together[3]] == [witness_of(subject, labels, 1), witness_of(subject, labels, 3)]
