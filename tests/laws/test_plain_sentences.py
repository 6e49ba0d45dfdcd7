"""Plain sentences on what broke a rule: every claim of one is true of the session."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import msgspec
import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.engine.stepper import MachineRun
from tracline.rules.explanation.breach import explain_breach
from tracline.rules.explanation.nouns import event_noun
from tracline.rules.language.parse import parse_formula, parse_predicate
from tracline.rules.model.rule import Rule
from tracline.rules.reference.slow_witness import witnesses_slowly
from tracline.schemas.verdict import Recover, Verdict

from .test_breach import LETTERS, record_of, recorded, rule_of, violations

Word = Sequence[frozenset[str]]
SUBJECT = r"Event (\d+) \(`?[pq`, ]+\)"
NAMES = r"event with `(\w)`(?: or event with `(\w)`)?"
EARLY = re.compile(rf"{SUBJECT} came too early: no {NAMES} came before it\.")
OFTEN = re.compile(rf"{SUBJECT} came too often: `(\w)` was true more than (once|twice|\d+ times) by then\.")
AFTER = re.compile(rf"{SUBJECT} came after the {NAMES} at event (\d+), which excludes it\.")
OPEN = re.compile(rf"{SUBJECT} was not followed by any {NAMES}: the session ended after event (\d+)\.")
NONE = re.compile(rf"No {NAMES} came: the session ended after event (\d+)\.")


def sentences(text: str, length: int, recover: Recover = Recover.BOTH) -> list[tuple[Word, int, str]]:
    """Return every sentence on the violations of a rule over all words, with the word and the event."""
    rule = replace(rule_of(parse_formula(text)), recover=recover)
    machine = compile_rule(rule)
    found: list[tuple[Word, int, str]] = []
    for word in product(LETTERS, repeat=length):
        at = violations(machine, word)
        run = MachineRun(machine)
        for true in word:
            run.step(true)
        unmet = [length - 1] if run.closing is Verdict.UNMET else []
        for index, verdict in [*((i, Verdict.VIOLATED) for i in at), *((i, Verdict.UNMET) for i in unmet)]:
            witness = recorded(witnesses_slowly(rule, machine, word, [index])[index])
            record = msgspec.structs.replace(record_of(witness), verdict=verdict)
            found.append((word, index + 1, explain_breach(rule, record)))
    return found


def is_true(word: Word, sentence: str) -> bool:
    """Return whether the claims of a plain sentence hold for a session; fails for another sentence."""
    if found := EARLY.fullmatch(sentence):
        earlier = word[: int(found[1]) - 1]
        return not any(set(found.group(2, 3)) & true for true in earlier)
    if found := OFTEN.fullmatch(sentence):
        limit = {"once": 1, "twice": 2}.get(found[3]) or int(found[3].split()[0])
        return sum(found[2] in true for true in word[: int(found[1])]) > limit
    if found := AFTER.fullmatch(sentence):
        return int(found[4]) < int(found[1]) and bool(set(found.group(2, 3)) & word[int(found[4]) - 1])
    if found := OPEN.fullmatch(sentence):
        since = word[int(found[1]) - 1 :]
        return int(found[4]) == len(word) and not any(set(found.group(2, 3)) & true for true in since)
    found = NONE.fullmatch(sentence)
    assert found, sentence
    return not any(set(found.group(1, 2)) & true for true in word)


@pytest.mark.parametrize(
    ("rule", "recover", "shape"),
    [
        ("always (p -> once q)", Recover.BOTH, EARLY),
        ("always (p -> previous once q)", Recover.BOTH, EARLY),
        ("always (p -> once q or previous once q)", Recover.NONE, EARLY),
        ("p -> once q", Recover.BOTH, EARLY),
        ("not p weak_until q", Recover.VIOLATION, EARLY),
        ("not p until q", Recover.NONE, EARLY),
        ("always (p -> at_most[1] p)", Recover.BOTH, OFTEN),
        ("always (p -> at_most[2] q)", Recover.BOTH, OFTEN),
        ("always (p -> not once q)", Recover.BOTH, AFTER),
        ("always (p -> historically not q)", Recover.BOTH, AFTER),
        ("always (p -> eventually q)", Recover.BOTH, OPEN),
        ("always (once p -> eventually q)", Recover.NONE, OPEN),
        ("eventually q", Recover.BOTH, NONE),
        ("eventually (p or q)", Recover.NONE, NONE),
    ],
)
def test_a_plain_sentence_is_true(rule: str, recover: Recover, shape: re.Pattern[str]) -> None:
    """Every plain sentence on a rule over all words of four events; the shape has at least one."""
    count = Counter[bool]()
    found = sentences(rule, 4, recover)
    for word, event, sentence in found:
        is_plain = any(each.fullmatch(sentence) for each in (EARLY, OFTEN, AFTER, OPEN, NONE))
        count[is_plain] += 1
        if is_plain:
            assert is_true(word, sentence), (rule, word, event, sentence)
    assert any(shape.fullmatch(sentence) for _, _, sentence in found), count


@pytest.mark.parametrize(
    "rule",
    [
        "always (p -> next eventually q)",
        "always (p -> eventually (q and eventually p))",
        "not p weak_until q",
        "always (p -> (not p since q))",
        "always (p and not q -> once q)",
        "always (p -> at_most[0] q)",
    ],
)
def test_another_shape_has_no_plain_sentence(rule: str) -> None:
    """Rules whose residual or restart hides what came before have the sentence of their witness."""
    for _, _, sentence in sentences(rule, 4):
        assert not any(each.fullmatch(sentence) for each in (EARLY, OFTEN, AFTER, OPEN, NONE)), sentence


def test_nouns_come_from_predicates() -> None:
    """The kind and the tool give the noun, with the proposition's name if it tests more."""
    predicates = {
        "refund": 'kind == "tool_call" and tool == "refund"',
        "large": 'kind == "tool_call" and tool == "refund" and args.amount > 100',
        "verified": 'kind == "tool_result" and tool in ["verify_customer", "verify_token"]',
        "agrees": 'kind == "user" and text matches /yes/',
        "any": "late",
    }
    propositions = {name: parse_predicate(text) for name, text in predicates.items()}
    rule = Rule("pack", "rule", "", parse_formula("large -> once verified"), "", propositions)
    nouns = {name: event_noun(rule, name) for name in predicates}
    assert nouns == {
        "refund": "`refund` call",
        "large": "`refund` call with `large`",
        "verified": "`verify_customer` or `verify_token` result",
        "agrees": "user message with `agrees`",
        "any": "event with `any`",
    }
    machine = compile_rule(rule)
    witness = recorded(witnesses_slowly(rule, machine, [{"large"}], [0])[0])
    assert explain_breach(rule, record_of(witness)) == (
        "The `refund` call at event 1 (`large`) came too early: "
        "no `verify_customer` or `verify_token` result came before it."
    )
