"""The rules that the monitor judges by: activations, restarts, and rules with errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tracline.rules.model import digest
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import pack_text
from tracline.schemas.candidate import Candidate, Claim
from tracline.schemas.event import Kind
from tracline.schemas.span_content import SpanRole
from tracline.schemas.time import NS
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import Activation, Tick, decode_judged
from tracline.stream.messages.topics import Topic

from ...support.event_rows import PACK, START
from .monitor_driver import (
    FIRST,
    OPTIONS,
    OTHER,
    OTHER_TEXTS,
    RULES,
    SECOND,
    Monitor,
    batch,
    codes,
    record,
    verdicts,
    wrote,
)

SHOUTS = [batch(0, wrote(FIRST, 1, "hello"), wrote(SECOND, 1, "well!")), batch(5, wrote(FIRST, 4, "now!"))]


@pytest.mark.slow
@pytest.mark.parametrize(("finish", "rule"), [(True, "calm"), (False, "quiet")])
def test_other_rules_come_into_force(finish: bool, rule: str) -> None:
    """An open session finishes under its rules or begins again; new rules judge a new session."""
    monitor = Monitor(replace(OPTIONS, finish=finish))
    monitor.take(0, batch(2, wrote(FIRST, 1, "hello")))
    activated = monitor.take(1, Activation(OTHER_TEXTS))
    monitor.begin()
    done = monitor.take(2, batch(9, wrote(FIRST, 4, "now!"), wrote(SECOND, 5, "well!")))
    assert sorted(verdicts(done.outputs)) == [(FIRST, rule, "violated"), (SECOND, "quiet", "violated")]
    digests = {event.session_id: d for event, d in zip(done.judged.events, done.judged.digests, strict=True)}
    new = rule_set_digest(pack_text(OTHER))
    assert digests == {FIRST: rule_set_digest(RULES) if finish else new, SECOND: new}
    [judged] = [output for output in activated.outputs if output.topic is Topic.JUDGED]
    assert decode_judged(judged.value or b"").activated == {new: OTHER_TEXTS}


def test_superseded_rules_are_never_loaded() -> None:
    """Packs that are given with an activation come into force at its place, and its own do not."""
    monitor = Monitor()
    given = record(0, Activation({"desk": "no pack at all"}))
    done = monitor.stage.step(monitor.state, [given], {(0, 0): Activation(OTHER_TEXTS)})
    [judged] = [output for output in done.outputs if output.topic is Topic.JUDGED]
    assert decode_judged(judged.value or b"").activated == {rule_set_digest(pack_text(OTHER)): OTHER_TEXTS}
    assert codes(done.outputs) == []


def test_rules_are_known_when_they_come_into_force() -> None:
    """A step names the rules before their first verdict, and a restored monitor before any message."""
    monitor = Monitor()
    began = monitor.take(0, Tick(1, {0: START}))
    old = {(rule.pack, rule.id) for rule in RULES.rules}
    assert began.rules == old
    activated = monitor.take(1, Activation(OTHER_TEXTS))
    assert activated.rules - old == {("desk", "quiet")}
    monitor.begin()
    assert ("desk", "quiet") in monitor.stage.rules_in_force(monitor.state)


def test_rules_of_the_start_that_others_have_replaced_are_known() -> None:
    """Once rules are in force, those of the options are not; the stage names the partitions."""
    monitor = Monitor()
    assert monitor.stage.under_other_rules(monitor.state) == []
    monitor.take(0, SHOUTS[0])
    monitor.begin()
    assert monitor.stage.under_other_rules(monitor.state) == []
    monitor.options = replace(OPTIONS, rules=OTHER_TEXTS)
    monitor.begin()
    assert monitor.stage.under_other_rules(monitor.state) == [0]


@pytest.mark.slow
def test_labels_of_another_version_of_the_semantics_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release that reads rules otherwise refuses open sessions; once they are over, it goes on."""
    monkeypatch.setattr(digest, "SEMANTICS", "before")
    old = Monitor(replace(OPTIONS, rules=None))
    old.take(0, Activation(OTHER_TEXTS))
    old.take(1, batch(2, wrote(FIRST, 1, "hello")))
    before = rule_set_digest(pack_text(OTHER))
    monkeypatch.undo()
    with pytest.raises(StreamError, match="labelled by another release") as caught:
        Monitor(replace(OPTIONS, rules=None), old.table)
    assert caught.value.code == "TRL741"
    monkeypatch.setattr(digest, "SEMANTICS", "before")
    old.take(2, Tick(1, {0: START + 1_000 * NS}))
    monkeypatch.undo()
    new = Monitor(replace(OPTIONS, rules=None), old.table)
    done = new.take(3, batch(1_005, wrote(SECOND, 1_001, "well!")))
    after = rule_set_digest(pack_text(OTHER))
    assert verdicts(done.outputs) == [(SECOND, "quiet", "violated")]
    messages = [decode_judged(out.value or b"") for out in done.outputs if out.topic is Topic.JUDGED]
    assert [message.activated for message in messages if message.activated] == [{after: OTHER_TEXTS}]
    assert after != before
    new.begin()
    assert new.stage.under_other_rules(new.state) == []
    assert new.state.offsets == {0: 3}


def test_rules_that_mean_the_same_change_nothing() -> None:
    """Activating the same rules in another order changes no open session; archives have the packs."""
    monitor = Monitor(replace(OPTIONS, finish=False))
    monitor.take(0, batch(2, Candidate("ann", SpanRole.TOOL, START, START, (_asks(0),), "t", "1", "1")))
    lines = PACK.splitlines()
    same = "\n".join([*lines[:4], lines[5], lines[4], *lines[6:]])
    again = monitor.take(1, Activation(dict(pack_text(same).sources)))
    [judged] = [output for output in again.outputs if output.topic is Topic.JUDGED]
    assert set(decode_judged(judged.value or b"").activated) == {rule_set_digest(RULES)}
    monitor.begin()
    done = monitor.take(2, Tick(1, {0: START + 1_000 * NS}))
    assert verdicts(done.outputs) == [("ann", "answered", "unmet")]


def _asks(second: int) -> Claim:
    return Claim(Kind.TOOL_CALL, START + second * NS, tool="look", call_id="c1")


def test_rules_that_cannot_be_used_are_put_aside() -> None:
    """An activation of rules with an error is a dead letter, and the rules in force stay."""
    monitor = Monitor()
    done = monitor.take(0, Activation({"desk": "pack: desk\nversion: 1\nrules: 7\n"}))
    assert codes(done.outputs) == ["damaged"]
    assert verdicts(monitor.take(1, SHOUTS[1]).outputs) == [(FIRST, "calm", "violated")]


def test_rules_of_the_start_that_cannot_be_used_end_the_process() -> None:
    """No message is put aside for rules that the process was started with."""
    with pytest.raises(StreamError, match="given at the start") as caught:
        Monitor(replace(OPTIONS, rules={"desk": "pack: desk\nversion: 1\nrules: 7\n"})).take(0, SHOUTS[0])
    assert caught.value.code == "TRL742"
