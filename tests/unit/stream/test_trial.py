"""Rules are tried in a process of their own before they come into force."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tracline.rules.engine.trial import synthetic_session, try_rules
from tracline.rules.packs.load import load_packs, pack_text, shipped_packs
from tracline.schemas.event import Content, Kind
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import Activation
from tracline.stream.messages.superseded import digest_of, in_force
from tracline.stream.process.faultpoints import VARIABLE, TrialFault
from tracline.stream.process.trial import RuleTrials, require_trial

KILLED_AT = tuple(TrialFault)
PACK = """\
pack: three
propositions:
  p: kind == "tool_call" and tool == "refund" and args.order.id == 7
  q: text matches /yes/
rules:
  - {id: one, formula: always (p -> once q)}
  - {id: two, formula: eventually p, for_each: args.order.id}
  - {id: three, formula: q}
"""
SOURCES = pack_text(PACK).sources
OTHER, THIRD = PACK.replace("eventually p", "always p"), PACK.replace("formula: q", "formula: p")


def test_made_up_events_are_of_every_kind_and_content() -> None:
    """Each kind comes with each content, and the paths and tools that a rule names are there."""
    events = list(synthetic_session(pack_text(PACK)))
    assert {(event.kind, event.content) for event in events} >= {
        (kind, content) for kind in Kind if kind is not Kind.END for content in Content
    }
    assert any(event.tool == "refund" and '"order": {"id": ' in (event.args or "") for event in events)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_made_up_events_have_the_lists_that_conditions_are_about() -> None:
    """Lists have an element with what the condition reads, so that a trial answers it there."""
    conditions = ["any(args.items, .price > args.limit)", "args.id in result[*].id", "sum(args.paid) > 3"]
    propositions = "".join(f"  p{i}: {condition}\n" for i, condition in enumerate(conditions))
    pack = (
        f"pack: x\npropositions:\n{propositions}rules:\n  - {{id: r, formula: always not (p0 or p1 or p2)}}\n"
    )
    rules = pack_text(pack)
    documents = [(event.args or "", event.result or "") for event in synthetic_session(rules)]
    assert any('"items": [{"price": ' in args for args, _ in documents)
    assert any(result.startswith('[{"id": ') for _, result in documents)
    assert any('"paid": [' in args for args, _ in documents)
    try_rules(rules)


@pytest.mark.slow
def test_the_shipped_packs_pass() -> None:
    """A trial of rules that harm nobody ends well."""
    require_trial(load_packs(shipped_packs()).sources)


@pytest.mark.slow
@pytest.mark.parametrize("fault", KILLED_AT)
def test_a_trial_that_is_killed_is_the_refusal(fault: TrialFault, monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL748 has how the process ended, and names the rule at which one alone ends, too."""
    monkeypatch.setenv(VARIABLE, f"{fault}:3")
    trials = RuleTrials()
    for _ in range(2):
        with pytest.raises(StreamError, match="killed by SIGKILL, at rule three/three") as caught:
            trials.require(SOURCES)
        assert caught.value.code == "TRL748"


@pytest.mark.slow
def test_serve_does_not_begin_with_rules_that_fail_their_trial(tmp_path: Path) -> None:
    """The process ends with the reason before it listens or writes anything."""
    (tmp_path / "three.yaml").write_text(PACK)
    tracline = Path(sys.executable).with_name("tracline")
    state, archive = tmp_path / "state", tmp_path / "archive"
    command = [tracline, "serve", "--rules", tmp_path / "three.yaml", "--state", state, "--archive", archive]
    settings = os.environ | {VARIABLE: f"{TrialFault.RULE}:3"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 2
    assert "TRL748" in done.stderr
    assert "rule three/three" in done.stderr
    assert sorted(tmp_path.iterdir()) == [tmp_path / "three.yaml"]


def test_a_later_activation_stands_in_the_place_of_what_it_supersedes() -> None:
    """Whatever lies between, and over several steps; what names other digests changes nothing."""
    first, second, third = (Activation({"three": text}) for text in (PACK, OTHER, THIRD))
    first_digest, two = (str(digest_of(each.packs)) for each in (first, second))
    past_first = Activation(second.packs, [first_digest])
    past_both = Activation(third.packs, [first_digest, two])
    assert in_force(first, []) == first
    assert in_force(first, [second, third]) == first
    assert in_force(second, [past_first]) == second
    assert in_force(first, [third, past_first]) == past_first
    assert in_force(first, [past_first, past_both]) == past_both
    assert in_force(past_first, [past_both]) == past_both


def test_packs_with_errors_have_no_digest() -> None:
    """They come into force nowhere, so nothing has to supersede them."""
    assert digest_of({"three": "pack: three\nrules: 7\n"}) is None
