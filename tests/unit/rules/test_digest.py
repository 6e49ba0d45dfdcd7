"""Digests of rules and ids of verdicts, and the changes that affect them."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from tracline.rules.language.parse import parse_formula, parse_path, parse_predicate
from tracline.rules.model.digest import rule_digest, rule_set_digest, verdict_id
from tracline.rules.model.rule import Rule, RuleSet, SliceKey
from tracline.schemas.verdict import Recover, Severity

RULE = Rule(
    pack="shop",
    id="auth-first",
    title="No write before authentication",
    formula=parse_formula("always (write -> once known or odd)"),
    text="always (write -> once known or odd)",
    propositions={
        "write": parse_predicate('kind == "tool_call" and args.amount > 9007199254740993'),
        "known": parse_predicate("not nested"),
        "extra": parse_predicate("late"),
    },
    transitions={"odd": parse_formula("not previous odd"), "spare": parse_formula("extra")},
)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"title": "Another title"},
        {"pack": "other"},
        {"severity": Severity.LOW},
        {"text": "G(write -> (O known | odd))"},
        {"why": "because"},
        {"propositions": RULE.propositions | {"extra": parse_predicate("nested")}},
    ],
)
def test_cosmetic_changes_do_not_change_a_digest(change: dict[str, Any]) -> None:
    """Names, titles and unused propositions do not affect the digest."""
    assert rule_digest(replace(RULE, **change)) == rule_digest(RULE)


@pytest.mark.parametrize(
    "change",
    [
        {"formula": parse_formula("always (write -> once known)")},
        {"propositions": RULE.propositions | {"write": parse_predicate('kind == "tool_call"')}},
        {"transitions": {"odd": parse_formula("previous odd")}},
        {"steps": parse_formula("write or known")},
        {"applies_to": parse_formula("extra")},
        {"recover": Recover.NONE},
        {"for_each": SliceKey((parse_path("args.order_id"),), joint=False)},
        {"for_each": SliceKey((parse_path("args.order_id"),), joint=True)},
    ],
)
def test_changes_of_verdicts_change_a_digest(change: dict[str, Any]) -> None:
    """Formula, propositions, transitions, `steps`, `applies_to`, recovery and slicing affect the digest."""
    changed = replace(RULE, **change)
    assert rule_digest(changed) != rule_digest(RULE)


def test_digests_of_all_variants_differ() -> None:
    """A list of paths is not a tuple of them."""
    paths = (parse_path("args.a"), parse_path("args.b"))
    joint, either = (replace(RULE, for_each=SliceKey(paths, joint=j)) for j in (True, False))
    assert rule_digest(joint) != rule_digest(either)


LIST_CONDITIONS = [
    "any(args.a, .x == 1)",
    "all(args.a, .x == 1)",
    "any(args.a, .x == 2)",
    "any(args.a[*].x, . == 1)",
    "any(args.b, .x == 1)",
    "any(result.a, .x == 1)",
    "any(args.a, any(.x, . == 1))",
    "any(args.a, .x == args.x)",
    "any(args.a, .x == .y)",
    "count(args.a) == 1",
    "count(args.a, .x == 1) == 1",
    "count(args.a) in [1]",
    "count(args.a) == args.x",
    "count(args.a) == count(args.x)",
    "sum(args.a) == 1",
    "sum(args.a, .x) == 1",
    "sum(args.a, .x) == sum(args.a)",
    "args.x in args.a",
    "args.x in args.a[*].x",
    "args.a in args.x",
    'args.x in ["args", "a"]',
    "args.x == args.a",
    "args.a == args.x",
    "args.x != args.a",
]


def test_digests_cover_conditions_on_lists_and_two_fields() -> None:
    """Each part of such a condition changes the digest, and other spellings of it do not."""

    def digest(text: str) -> str:
        return rule_digest(replace(RULE, propositions=RULE.propositions | {"write": parse_predicate(text)}))

    assert len({digest(text) for text in LIST_CONDITIONS}) == len(LIST_CONDITIONS)
    assert digest("args.x == count(args.a)") == digest("count(args.a[*]) == args.x")
    assert digest("any(args.a, args.x < .x)") == digest("any( args.a, (.x > args.x))")


def test_a_verdict_id_is_a_hash_of_its_parts() -> None:
    """The SHA-256 of the canonical JSON array, its first 32 hex digits; a null slice is JSON's null."""
    found = verdict_id(
        pack="shop",
        rule="auth-first",
        rule_digest="ab",
        session_id="s-é",
        occurrence="2026-01-02T03:04:05.000000006Z",
        slice=None,
        event_id="e1",
        verdict="violated",
    )
    text = (
        '["tracline/1","shop","auth-first","ab","s-é","2026-01-02T03:04:05.000000006Z",null,"e1","violated"]'
    )
    assert found == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_rule_sets_digest_covers_its_verdicts() -> None:
    """Titles, order and text do not affect it; packs, ids, severities and verdicts do."""
    second_rule = replace(RULE, id="other")
    digest = rule_set_digest(RuleSet((RULE, second_rule), {}))
    assert digest == rule_set_digest(RuleSet((second_rule, replace(RULE, title="Another")), {"shop": "text"}))
    changed = [
        (RULE,),
        (RULE, replace(second_rule, severity=Severity.LOW)),
        (RULE, replace(second_rule, pack="elsewhere")),
        (RULE, replace(second_rule, recover=Recover.NONE)),
    ]
    found = {digest, *(rule_set_digest(RuleSet(rules, {})) for rules in changed)}
    assert len(found) == 1 + len(changed)
