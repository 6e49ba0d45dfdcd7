"""The section `predict` of a pack: what it gives, and its errors with their places."""

from __future__ import annotations

import pytest
from tracline.rules.model.digest import rule_digest, rule_set_digest
from tracline.rules.model.problem import RuleError
from tracline.rules.packs.load import load_texts, pack_text

SMALL = 'pack: small\npropositions: {a: kind == "user", b: kind == "assistant"}\n'
RULES = "rules:\n  - {id: r, formula: always a}\n"
SECTION = "predict:\n  propositions: [b]\n  memory: {asked: once a, went_on: b since a}\n"

WRONG = [
    ("TRL211", SMALL + "predict: {propositons: [a]}\n", (3, 11)),
    ("TRL804", SMALL + "predict: {propositions: [a, c]}\n", (3, 29)),
    ("TRL804", SMALL + "predict:\n  memory: {m: eventually a}\n", (4, 15)),
    ("TRL804", SMALL + "predict:\n  memory: {m: a and b}\n", (4, 15)),
    ("TRL804", SMALL + "predict:\n  memory: {a: once b}\n", (4, 12)),
    ("TRL804", SMALL + "predict:\n  memory: {has a: once b}\n", (4, 12)),
    (
        "TRL804",
        SMALL + "predict:\n  memory: {m: once a, n: once b, o: once a, p: once b, q: once a}\n",
        (4, 56),
    ),
    ("TRL120", SMALL + "predict:\n  memory: {m: once c}\n", (4, 20)),
]


@pytest.mark.parametrize(("code", "text", "location"), WRONG)
def test_each_mistake_has_its_code_and_place(code: str, text: str, location: tuple[int, int]) -> None:
    """Every mistake has one error, at the line and column of the wrong word."""
    with pytest.raises(RuleError) as caught:
        pack_text(text + RULES)
    (problem,) = caught.value.problems
    assert problem.location is not None
    assert (problem.code, (problem.location.line, problem.location.column)) == (code, location)


def test_the_section_is_no_part_of_digests() -> None:
    """Rules and rule sets keep their digests, and a stored rule set keeps its section."""
    plain, with_section = pack_text(SMALL + RULES), pack_text(SMALL + SECTION + RULES)
    assert rule_set_digest(plain) == rule_set_digest(with_section)
    assert rule_digest(plain.rules[0]) == rule_digest(with_section.rules[0])
    stored = load_texts(with_section.sources).memory["small"]
    assert stored == with_section.memory["small"]
    assert [(rule.id, rule.text, sorted(rule.propositions)) for rule in stored.memory] == [
        ("asked", "once a", ["a"]),
        ("went_on", "b since a", ["a", "b"]),
    ]
    assert sorted(stored.propositions) == ["b"]
