"""The shipped packs on simulated conversations: clean ones pass, one change is flagged at its event.

Rules are run by the plain stepper, so that a failure here is the pack's and not the kernel's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache

import pytest
from tracline.examples.desk.bot import Break, Desk, DeskConversation, conversations
from tracline.examples.desk.formats import event_frame
from tracline.examples.desk.scene import REFUNDS, WRITES, SceneStep
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.labels.labeler import Labeler
from tracline.rules.model.formula import evaluate_boolean
from tracline.rules.model.rule import Rule
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.rules.reference.slow_stepper import SteppedEvent, judge_slowly
from tracline.schemas.verdict import Verdict

pytestmark = pytest.mark.slow

RULES = load_packs(shipped_packs())
MACHINES = [(rule, compile_rule(rule)) for rule in RULES.rules]
LABELER = Labeler(RULES)
Found = dict[tuple[str, str], list[int]]
Steps = list[SceneStep]


def findings(population: Iterable[DeskConversation]) -> Mapping[str, Found]:
    """By session: for each violated rule (pack, id), the positions of the violating events."""
    frame = event_frame(population)
    labels = LABELER.label(frame.lazy(), ["session_id", "kind"]).collect().rows(named=True)
    sessions: dict[str, list[dict[str, object]]] = defaultdict(list)
    for row in labels:
        if row["kind"] != "end":
            sessions[str(row["session_id"])].append(row)
    return {session: judged(rows) for session, rows in sessions.items()}


def judged(rows: list[dict[str, object]]) -> Found:
    """Return what every rule finds in one labelled session."""
    found: Found = {}
    for rule, machine in MACHINES:
        outcome = judge_slowly(machine, [seen(rule, row) for row in rows], sliced=rule.for_each is not None)
        broken = (Verdict.VIOLATED, Verdict.UNMET)
        assert outcome.judged
        locations = [hit.at for hit in (*outcome.findings, *outcome.closing) if hit.verdict in broken]
        if locations:
            found[rule.pack, rule.id] = locations
    return found


@cache
def bits(pack: str) -> tuple[tuple[str, str, int], ...]:
    """Return the propositions of a pack, each with its label column and its bit."""
    return tuple(
        (name, f"t{index // 64}", index % 64)
        for index, (of, name) in enumerate(LABELER.propositions)
        if of == pack
    )


def seen(rule: Rule, row: Mapping[str, object]) -> SteppedEvent:
    """Return one labelled event as the rule sees it."""
    true = frozenset(name for name, word, bit in bits(rule.pack) if int(str(row[word])) >> bit & 1)
    value = None
    if rule.for_each is not None:
        value = row[f"s{LABELER.slice_keys.index(rule.for_each)}"]
    return SteppedEvent(
        true,
        rule.steps is None or evaluate_boolean(rule.steps, true),
        value=None if value is None else str(value),
    )


@cache
def clean() -> tuple[DeskConversation, ...]:
    """Return conversations in which the agent violates no rule on purpose."""
    return tuple(conversations(Desk(sessions=250, seed=11, rates={}, spike=None)))


def test_clean_conversations_violate_no_rule() -> None:
    """If the simulated agent violates nothing, no shipped rule flags anything."""
    assert all(not conversation.breaks for conversation in clean())
    assert {session: found for session, found in findings(clean()).items() if found} == {}


def test_the_packs_find_exactly_the_simulated_violations() -> None:
    """In conversations with many violations, each rule flags exactly its own."""
    desk = Desk(sessions=300, seed=5, rates=dict.fromkeys(Break, 0.04), spike=None)
    population = list(conversations(desk))
    expected = {
        conversation.session_id: {kind.value for kind in conversation.breaks} for conversation in population
    }
    assert set().union(*expected.values()) == {kind.value for kind in Break}
    assert {session: set(found) for session, found in findings(population).items()} == expected


# Mutants: from the steps of a clean conversation to those of a broken one and the place of the culprit, or
# None where the conversation offers no place for the edit.


def index_of(steps: Steps, wanted: Callable[[SceneStep], bool], start: int = 0) -> int | None:
    """Return the index of the first wanted step from `start`."""
    return next((i for i in range(start, len(steps)) if wanted(steps[i])), None)


def changed(steps: Steps, at: int, **fields: str) -> Steps:
    """Return the steps with those fields of one step changed."""
    return [replace(step, **fields) if i == at else step for i, step in enumerate(steps)]


def is_call(*tools: str) -> Callable[[SceneStep], bool]:
    """Return whether a step is a call of one of the tools."""
    return lambda step: step.kind == "tool_call" and step.tool in tools


def lookup_fails(steps: Steps, tools: Iterable[str]) -> tuple[Steps, int] | None:
    """Let every look-up of the customer fail; the culprit is the first call of one of the tools."""
    broken = [
        replace(step, result="Error: user not found", error="not_found")
        if step.kind == "tool_result" and str(step.tool).startswith("find_user")
        else step
        for step in steps
    ]
    culprit = index_of(broken, is_call(*tools))
    return None if culprit is None else (broken, culprit)


def customer_hesitates(steps: Steps, tools: Iterable[str]) -> tuple[Steps, int] | None:
    """The customer's last message before the change is no yes."""
    culprit = index_of(steps, is_call(*tools))
    if culprit is None:
        return None
    yes = max(i for i in range(culprit) if steps[i].kind == "user" and not steps[i].nested)
    return changed(steps, yes, text="Hm, let me think."), culprit


def books_unseen(steps: Steps) -> tuple[Steps, int] | None:
    """The change is one of a reservation, whose traveller nobody looked up."""
    culprit = index_of(steps, is_call(*WRITES))
    if culprit is None:
        return None
    return [
        *steps[:culprit],
        replace(steps[culprit], tool="cancel_reservation"),
        *steps[culprit + 1 :],
    ], culprit


def approval_denied(steps: Steps) -> tuple[Steps, int] | None:
    """The supervisor refuses, and the refund is made all the same."""
    answer = index_of(steps, lambda step: step.kind == "tool_result" and step.tool == "request_approval")
    culprit = index_of(steps, is_call(*REFUNDS))
    if answer is None or culprit is None:
        return None
    return changed(steps, answer, result='{"status": "denied"}'), culprit


def other_order_seen(steps: Steps) -> tuple[Steps, int] | None:
    """The agent looks at another order than the one it changes."""
    culprit = index_of(steps, is_call(*WRITES))
    if culprit is None:
        return None
    return [
        replace(step, args='{"order_id": "#W0000001"}') if step.tool == "get_order_details" else step
        for step in steps
    ], culprit


def items_changed_again(steps: Steps) -> tuple[Steps, int] | None:
    """The call that changed an order's items is made once more after it succeeded."""
    call = index_of(steps, is_call("exchange_delivered_order_items", "modify_pending_order_items"))
    done = None if call is None else index_of(steps, lambda step: step.kind == "assistant", call)
    if call is None or done is None or steps[done - 1].error:
        return None
    again = [replace(steps[call], call_id="again"), replace(steps[done - 1], call_id="again")]
    return [*steps[: done + 1], *again, *steps[done + 1 :]], done + 1


def change_failed(steps: Steps) -> tuple[Steps, int] | None:
    """The tool rejects the change, and the agent claims that it was made."""
    result = index_of(
        steps, lambda step: step.kind == "tool_result" and step.tool in WRITES and not step.error
    )
    if result is None:
        return None
    return changed(steps, result, result="Error: not possible", error="refused"), result + 1


def customer_left_waiting(steps: Steps) -> tuple[Steps, int] | None:
    """The customer writes three times more before the agent replies."""
    first = index_of(steps, lambda step: step.kind == "user")
    if first is None or steps[first + 1].kind != "assistant":
        return None
    return [*steps[: first + 1], *[replace(steps[first], text="Hello?")] * 3, *steps[first + 1 :]], first + 3


def works_on_after_handover(steps: Steps) -> tuple[Steps, int] | None:
    """After the hand-over the agent looks an order up."""
    if index_of(steps, is_call("transfer_to_human_agents")) is None:
        return None
    extra = [step for step in steps if str(step.tool).startswith("find_user")][-2:]
    return [*steps, *(replace(step, call_id="late") for step in extra)], len(steps)


def surveyed_again(steps: Steps) -> tuple[Steps, int] | None:
    """The last message, a survey or what follows it, is followed by the survey once more."""
    survey = index_of(steps, lambda step: step.kind == "assistant" and "1" in str(step.text)[-30:])
    if survey is None or "rate" not in str(steps[survey].text):
        return None
    return [*steps, steps[survey]], len(steps)


def result_lost(steps: Steps) -> tuple[Steps, int] | None:
    """A call's result never comes."""
    result = index_of(steps, lambda step: step.kind == "tool_result")
    return None if result is None else ([*steps[:result], *steps[result + 1 :]], result - 1)


def result_twice(steps: Steps) -> tuple[Steps, int] | None:
    """A call's result comes twice."""
    result = index_of(steps, lambda step: step.kind == "tool_result")
    return None if result is None else ([*steps[: result + 1], *steps[result:]], result + 1)


def retried_again(steps: Steps) -> tuple[Steps, int] | None:
    """A call that failed twice fails a third time and is made once more."""
    for i in range(len(steps) - 5):
        call, failed = steps[i : i + 2]
        if failed.error == "timeout" and steps[i + 4].args == call.args and steps[i + 4].tool == call.tool:
            third = [replace(step, call_id="third") for step in (call, failed)]
            return [*steps[:i], *third, *steps[i:]], i + 6
    return None


def calls_at_once(steps: Steps) -> tuple[Steps, int] | None:
    """Of two calls in a row the second is made before the first has its result."""
    for i in range(len(steps) - 2):
        kinds = [step.kind for step in steps[i : i + 3]]
        if kinds == ["tool_call", "tool_result", "tool_call"]:
            return [*steps[: i + 1], steps[i + 2], steps[i + 1], *steps[i + 3 :]], i + 1
    return None


def tool_unknown(steps: Steps) -> tuple[Steps, int] | None:
    """The runtime answers that there is no such tool."""
    result = index_of(steps, lambda step: step.kind == "tool_result")
    if result is None:
        return None
    return changed(steps, result, result="Error: unknown tool", error="unknown_tool"), result


def message(text: str) -> Callable[[Steps], tuple[Steps, int] | None]:
    """The agent's last message also has the text."""

    def edit(steps: Steps) -> tuple[Steps, int] | None:
        last = max(i for i, step in enumerate(steps) if step.kind == "assistant")
        return [
            *steps[:last],
            replace(steps[last], text=f"{steps[last].text} {text}"),
            *steps[last + 1 :],
        ], last

    return edit


def passes_card(steps: Steps) -> tuple[Steps, int] | None:
    """A tool is given a card number."""
    call = index_of(steps, lambda step: step.kind == "tool_call")
    if call is None:
        return None
    return changed(steps, call, args='{"order_id": "#W1", "card": "4111111111111111"}'), call


MUTANTS: dict[tuple[str, str], Callable[[Steps], tuple[Steps, int] | None]] = {
    ("customer-service", "authenticate-first"): lambda steps: lookup_fails(steps, WRITES),
    ("customer-service", "authenticate-before-reading"): lambda s: lookup_fails(s, ["get_order_details"]),
    ("customer-service", "identify-before-booking"): books_unseen,
    ("customer-service", "confirm-before-change"): lambda s: customer_hesitates(s, WRITES - REFUNDS),
    ("customer-service", "confirm-before-refund"): lambda steps: customer_hesitates(steps, REFUNDS),
    ("customer-service", "approve-large-refund"): approval_denied,
    ("customer-service", "look-before-change"): other_order_seen,
    ("customer-service", "change-items-once"): items_changed_again,
    ("customer-service", "claim-only-what-was-done"): change_failed,
    ("customer-service", "answer-within-three-turns"): customer_left_waiting,
    ("customer-service", "handover-is-final"): works_on_after_handover,
    ("customer-service", "survey-once"): surveyed_again,
    ("tool-hygiene", "answer-every-call"): result_lost,
    ("tool-hygiene", "one-result-per-call"): result_twice,
    ("tool-hygiene", "no-stubborn-retry"): retried_again,
    ("tool-hygiene", "one-call-at-a-time"): calls_at_once,
    ("tool-hygiene", "known-tools-only"): tool_unknown,
    ("privacy", "no-api-key"): message("The key is sk-" + 30 * "x"),
    ("privacy", "no-private-key"): message("-----BEGIN " + "PRIVATE KEY-----"),
    ("privacy", "no-password"): message("Your password is tulip99."),
    ("privacy", "no-card-number"): message("You paid with 4111 1111 1111 1111."),
    ("privacy", "no-secret-in-arguments"): passes_card,
    ("privacy", "no-asking-for-secrets"): message("Please send me your password."),
}


def test_every_shipped_rule_has_a_mutant() -> None:
    """Every shipped rule has a change of a clean conversation that it must flag."""
    assert set(MUTANTS) == {(rule.pack, rule.id) for rule in RULES.rules}


@pytest.mark.parametrize("rule", MUTANTS, ids="/".join)
def test_a_rule_flags_its_mutant_at_the_changed_event(rule: tuple[str, str]) -> None:
    """One change of a clean conversation is flagged, first at the culprit event."""
    mutants = ((conversation, MUTANTS[rule](list(conversation.steps))) for conversation in clean())
    conversation, (steps, culprit) = next(
        (conversation, mutant) for conversation, mutant in mutants if mutant is not None
    )
    assert findings([conversation])[conversation.session_id] == {}
    found = findings([replace(conversation, steps=tuple(steps))])[conversation.session_id]
    assert found[rule][0] == culprit
