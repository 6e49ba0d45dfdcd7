"""The shipped packs: texts of rules, examples, and the texts that propositions match."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.lint.check import check
from tracline.rules.model.rule import Rule
from tracline.rules.packs.examples.label_examples import run_examples
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.frames.events import EVENT_SCHEMA

from ...support.truth.predicate_answers import answers

RULES = load_packs(shipped_packs()).rules
Session = Sequence[frozenset[str]]

each_rule = pytest.mark.parametrize("rule", RULES, ids=[f"{rule.pack}/{rule.id}" for rule in RULES])


def test_the_packs_that_ship() -> None:
    """Three packs ship, with twenty-three rules."""
    assert shipped_packs() == ("customer-service", "privacy", "tool-hygiene")
    assert len(RULES) == 23


@pytest.mark.slow
def test_the_packs_have_no_warnings() -> None:
    """`tracline check` has no warning for any shipped rule."""
    assert check(load_packs(shipped_packs())) == ()


@each_rule
def test_a_rule_has_a_reason_and_blind_spots(rule: Rule) -> None:
    """Every shipped rule has a title, a reason and its known blind spots, as sentences."""
    assert rule.title
    assert rule.why.endswith(".")
    assert rule.blind_spots.endswith(".")


@each_rule
def test_the_examples_of_a_rule_pass(rule: Rule) -> None:
    """Every example has the expected verdict."""
    runs = list(run_examples(rule, compile_rule(rule)))
    assert {run.expected for run in runs} == {"violated", "holds"}
    assert [run for run in runs if not run.passed] == []


@each_rule
def test_some_violation_is_one_event_away_from_a_session_that_holds(rule: Rule) -> None:
    """Some session that holds differs in one event from a session that violates the rule."""
    pairs = [(bad, good) for bad in rule.examples.violated for good in rule.examples.holds]
    assert any(one_event_apart(bad, good) for bad, good in pairs)


def one_event_apart(left: Session, right: Session) -> bool:
    """Return whether adding, leaving out or changing one event makes the sessions equal."""
    short, long = sorted((list(left), list(right)), key=len)
    if len(short) == len(long):
        return sum(a != b for a, b in zip(short, long, strict=True)) == 1
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))


EXAMPLES: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("customer-service", "agrees"): (
        [
            "Yes, please.",
            "yep",
            "That’s fine. Please proceed with “No longer needed” as the reason.",
            "Oui, please proceed with the cancellation. Merci!",
            "This works perfectly—please go ahead!",
            "Let's get this done.",
            "I confirm the upgrade.",
            "Sure, do it.",
        ],
        [
            "No, leave it as it is.",
            "Please don't.",
            "I'd rather not.",
            "Please use the gift card with the smallest balance.",
            "How long will that take?",
            "Hold on, is that okay with my bank?",
            "I do not want you to proceed, ok?",
        ],
    ),
    ("customer-service", "refuses"): (
        ["No, leave it.", "Wait", "please do not cancel it", "I'd rather not.", "Don't do it!"],
        ["Yes, but I'd rather not type the address again", "Nothing else, thanks", "I know"],
    ),
    ("customer-service", "asks_for_yes"): (
        [
            "Shall I go ahead?",
            "Would you like me to cancel it?",
            "Please confirm with a yes.",
            "Is this correct?",
            "Do you want me to send it there?",
            "Can I cancel it now?",
            "May we use the card on file?",
            "To proceed I need your yes. Shall I go ahead? It takes just a moment.",
            "Please confirm the new address, then hold on for a moment while I proceed.",
        ],
        [
            "Which order is it about?",
            "Is there anything else I can help with?",
            "I have found your account.",
            "Hi! How can I help you today?",
            "May I have your order number?",
            "What can we do for you?",
            "To proceed with the change, I'll search for flights. Please hold on for a moment.",
            "I'll now proceed with your cancellation. One moment.",
        ],
    ),
    ("customer-service", "needs_answer"): (
        ["Where is it?", "Thanks! Before we finish, could you add one bag?", "Okay, what now?", "#W1234567"],
        ["Thanks, bye!", "No, that's all. Thanks!", "Great, thank you so much!", "Thanks. ###STOP###"],
    ),
    ("customer-service", "claims_done"): (
        [
            "I have cancelled order #W1 for you.",
            "I’ve issued the refund.",
            "Your order has been successfully modified.",
            "Done. The address of order #W1 has been updated.",
        ],
        [
            "This order has been cancelled already, as I can see.",
            "I can cancel it for you.",
            "Has it been refunded?",
            "I have noted it for our team.",
        ],
    ),
    ("customer-service", "survey"): (
        ["Please rate this chat from 1 to 5.", "How would you rate your experience?"],
        ["The exchange rate is 1.08.", "I rate this order as lost."],
    ),
    ("privacy", "tells_api_key"): (
        ["sk-" + "proj-" + 24 * "a", "use " + "AKIA" + "IOSFODNN7EXAMPLE" + " now", "gh" + "p_" + 36 * "A"],
        ["sk-short", "AKIA is a prefix", "the ghp_ prefix", "task-" + 30 * "a"],
    ),
    ("privacy", "tells_private_key"): (
        ["-----BEGIN " + "RSA PRIVATE KEY-----\nabc", "-----BEGIN " + "PRIVATE KEY-----"],
        ["-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----", "your private key"],
    ),
    ("privacy", "tells_password"): (
        ["Your password is hunter2!", "password: boots1234!Q", "The passcode = 4711"],
        [
            "Your password is not stored here.",
            "password: at least 8 characters",
            "Reset your password online.",
        ],
    ),
    ("privacy", "tells_card_number"): (
        ["4111 1111 1111 1111", "5500-0000-0000-0004", "card 378282246310005.", "6011000990139424"],
        ["ending in 1111", "order 4111 1111", "item 4111111111111111111111", "1234 5678 9012 3456"],
    ),
    ("privacy", "asks_for_secret"): (
        ["Please send me your full card number.", "What is the security code?", "Tell me your password!"],
        ["Your card ends in 4242.", "Send me your order number. The password stays with you.", "Which card?"],
    ),
}
"""Texts that a proposition must match and near misses that it must not, by pack and name."""


@pytest.mark.parametrize("named", EXAMPLES, ids=lambda named: f"{named[0]}/{named[1]}")
def test_texts_that_a_proposition_matches(named: tuple[str, str]) -> None:
    """Each expression matches its texts and not its near misses."""
    pack, name = named
    yes, no = EXAMPLES[named]
    predicate = next(r.propositions[name] for r in RULES if r.pack == pack and name in r.propositions)
    speaker = "user" if name in ("agrees", "refuses", "needs_answer") else "assistant"
    rows = [event(kind=speaker, text=text) for text in (*yes, *no)]
    (found,) = answers([predicate], frame(rows))
    assert [text for text, hit in zip((*yes, *no), found, strict=True) if hit] == yes


@pytest.mark.parametrize(
    ("result", "error", "failed", "unknown"),
    [
        ("Error: user not found", None, True, False),
        ('{"error": "timeout"}', None, True, False),
        ("", "timeout", True, False),
        ("Error: unknown tool get_points", None, True, True),
        ("tool get_points does not exist", None, False, True),
        ('{"errors": 0, "status": "ok"}', None, False, False),
        ("No errors found", None, False, False),
    ],
)
def test_failed_calls(result: str, error: str | None, failed: bool, unknown: bool) -> None:
    """A call failed if its error is set or its result starts with one; no call both failed and succeeded."""
    rule = {rule.id: rule for rule in RULES}
    asked = [
        rule["no-stubborn-retry"].propositions["failed"],
        rule["no-stubborn-retry"].propositions["succeeded"],
        rule["known-tools-only"].propositions["unknown_tool"],
    ]
    row = frame([event(kind="tool_result", tool="t", result=result, error=error)])
    assert answers(asked, row) == [[failed], [not failed], [unknown]]


@pytest.mark.parametrize(
    ("amount", "large"), [("501", True), ('"501.00"', True), ("500", False), ('"499.99"', False)]
)
def test_a_large_refund_has_an_amount_as_a_number_or_as_text(amount: str, large: bool) -> None:
    """An amount above the limit counts as a number and as text; the limit itself does not."""
    predicate = next(rule for rule in RULES if rule.id == "approve-large-refund").propositions["large_refund"]
    row = event(kind="tool_call", tool="issue_refund", args=f'{{"order_id": "#W1", "amount": {amount}}}')
    assert answers([predicate], frame([row])) == [[large]]


def event(**fields: object) -> dict[str, object]:
    """Return a row of the event frame: captured, not nested, other fields null."""
    return {**dict.fromkeys(EVENT_SCHEMA), "content": "captured", "nested": False, **fields}


def frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Return rows as an event frame."""
    return pl.DataFrame(rows, schema=EVENT_SCHEMA)
