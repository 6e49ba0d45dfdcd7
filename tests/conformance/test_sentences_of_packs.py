"""The rules that ship and the patterns of policies: sentences on what breaks their examples are plain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tracline.rules.compiler.compile import compile_rule
from tracline.rules.engine.stepper import MachineRun
from tracline.rules.explanation.breach import explain_breach
from tracline.rules.explanation.past import RunPast
from tracline.rules.model.rule import ExampleSession, Rule
from tracline.rules.packs.load import load_packs, pack_text
from tracline.rules.reference.semantics import holds
from tracline.rules.reference.slow_witness import witnesses_slowly
from tracline.schemas.verdict import Verdict

from ..laws.test_breach import record_of, recorded, violations

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
PATTERNS = re.findall(r"^```yaml pack\n(pack: .*\n(?:(?!```).*\n)*)^```$", PAGE, re.MULTILINE)
RULES = [
    *load_packs(["customer-service", "privacy", "tool-hygiene"]).rules,
    *(rule for text in PATTERNS for rule in pack_text(text).rules),
]


def sentences(rule: Rule, session: ExampleSession) -> Iterator[str]:
    """Yield the sentence on each breach of an example."""
    machine, run = compile_rule(rule), MachineRun(compile_rule(rule))
    word = [true for true in session if rule.steps is None or holds(rule.steps, [true], 1)]
    for true in word:
        run.step(true)
    ends = dict.fromkeys(violations(machine, word), Verdict.VIOLATED)
    if run.closing is Verdict.UNMET:
        ends[len(word) - 1] = Verdict.UNMET
    past = RunPast(rule, range(1, len(word) + 1), tuple(word))
    for index, replayed in witnesses_slowly(rule, machine, word, [*ends]).items():
        record = msgspec.structs.replace(record_of(recorded(replayed)), verdict=ends[index])
        yield explain_breach(rule, record, past)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.pack}/{rule.id}")
def test_what_breaks_an_example_is_stated_plainly(rule: Rule) -> None:
    """The sentence on each breach names events and no operator of the rule's formula."""
    found = [sentence for session in rule.examples.violated for sentence in sentences(rule, session)]
    assert found
    for sentence in found:
        assert "vent " in sentence
        assert all(re.fullmatch(r"\w+", name) for name in re.findall(r"`([^`]*)`", sentence)), sentence
