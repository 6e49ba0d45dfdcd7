"""Steps of the rekey and alert stages leave their state as it is, and what they return is applied to it.

Both are driven over random messages, with steps whose result is dropped, as where a transaction fails. The
oracle is one step that has every message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from random import Random

import msgspec
import numpy as np
import pytest
from tracline.schemas.candidate import Candidate
from tracline.schemas.chat.find import InputFlaw
from tracline.schemas.sessions.pending import EncodedRelease, Released
from tracline.schemas.time import NS
from tracline.stream.alerts.alert import Alert
from tracline.stream.alerts.overlay import Overlay
from tracline.stream.group.alerts_state import new_state, read_verdicts
from tracline.stream.group.rekey_sources import requests_of
from tracline.stream.messages.record import Input
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.alert import AlertStage
from tracline.stream.stages.rekey import IdleInput, RekeyStage, ResolvedBatch, SourceRequest
from tracline.stream.stages.resolve import SourceState

from ..support.conversations import alert_messages
from ..support.conversations.keyed import NAMES, SETTINGS, SOURCES, work


@pytest.mark.parametrize("seed", range(4))
def test_a_dropped_step_of_rekeying_changes_nothing(seed: int) -> None:
    """Requests in any steps, of which some are dropped and repeated, give the candidates of one step."""
    random, stage = Random(seed), RekeyStage(SETTINGS, NAMES)
    requests = requests_of(work(range(4), seed).records)
    states = {number: SourceState() for number in range(SOURCES)}
    whole = stage.step(states, requests)
    found: Counter[str] = Counter()
    place = 0
    while place < len(requests):
        polled = requests[place : place + random.randint(1, 9)]
        before = _plain(states)
        result = stage.step(states, polled)
        assert _plain(states) == before, "the step leaves the state as it is"
        if random.random() < 0.3:
            continue
        for number, writes in result.writes.items():
            states[number].apply(writes)
        found += _candidates(result.outputs)
        place += len(polled)
    assert found == _candidates(whole.outputs)


def test_a_step_of_rekeying_that_raises_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the last source leaves the sources before it as they were, too."""
    stage = RekeyStage(SETTINGS, NAMES)
    requests = requests_of(work(range(3)).records)
    states = {number: SourceState() for number in range(SOURCES)}
    half = len(requests) // 2
    for number, writes in stage.step(states, requests[:half]).writes.items():
        states[number].apply(writes)
    before = _plain(states)
    dead_letter = stage._dead_letter

    def broken(*how: object) -> object:
        dead_letter(*how)
        raise ZeroDivisionError

    monkeypatch.setattr(stage, "_dead_letter", broken)
    flaw = InputFlaw("record", "empty", "has no value")
    last = SourceRequest(Input(Topic.SPANS, SOURCES - 1), 9, NS, b"", flaw)
    with pytest.raises(ZeroDivisionError):
        stage.step(states, [*requests[half:], last])
    assert _plain(states) == before


def test_an_idle_input_changes_the_result_alone() -> None:
    """A tick advances the times that it returns, and those of no state."""
    stage, states = RekeyStage(SETTINGS, NAMES), {0: SourceState()}
    result = stage.tick(states, 1, [IdleInput(Input(Topic.SPANS, 0), 10**6 * NS)])
    assert states == {0: SourceState()}
    assert result.writes[0].times.watermark > 0
    assert result.outputs[-1].watermarks == {0: result.writes[0].times.watermark}


@pytest.mark.parametrize("seed", range(3))
def test_a_dropped_step_of_the_alerts_changes_nothing(seed: int) -> None:
    """Messages in steps of any size, some of them dropped and stepped again, give the alerts of one step."""
    random = Random(seed)
    stage = AlertStage(alert_messages.tolerated(), alert_messages.SETTINGS, "tracline.verdicts")
    records = [read_verdicts(record) for record in alert_messages.records(alert_messages.messages())]
    state = new_state(alert_messages.PARTITIONS)
    whole = stage.step(state, records)
    alerts: list[Alert] = []
    place = 0
    while place < len(records):
        polled = records[place : place + random.randint(1, 30)]
        before = deepcopy(state)
        result = stage.step(state, polled)
        assert state == before, "the step leaves the state as it is"
        if random.random() < 0.3:
            continue
        state.apply(result.writes)
        alerts += [output for output in result.outputs if isinstance(output, Alert)]
        place += len(polled)
    assert alerts == [output for output in whole.outputs if isinstance(output, Alert)]
    assert alerts


@pytest.mark.parametrize("seed", range(200))
def test_an_overlay_is_the_dictionary_that_its_changes_make(seed: int) -> None:
    """Values, number, order and first key are those of a dictionary whose changed keys go to its end."""
    random = Random(seed)
    before = {key: random.random() for key in random.sample(range(8), random.randint(0, 8))}
    untouched, expected, overlay = dict(before), dict(before), Overlay(before)
    for _ in range(random.randint(0, 12)):
        key = random.randrange(8)
        if random.random() < 0.6:
            value = random.random()
            overlay.put(key, value)
            expected.pop(key, None)
            expected[key] = value
        else:
            overlay.delete(key)
            expected.pop(key, None)
        assert [(each, overlay.get(each)) for each in overlay] == list(expected.items())
        assert (len(overlay), overlay.first()) == (len(expected), next(iter(expected), None))
    assert list(before.items()) == list(untouched.items())
    overlay.writes().apply(before)
    assert list(before.items()) == list(expected.items())


def _plain(states: Mapping[int, SourceState]) -> object:
    """Return states as values that compare; those of plain traces have arrays."""
    return msgspec.to_builtins(states, order="deterministic", enc_hook=np.ndarray.tolist)


def _candidates(outputs: tuple[object, ...]) -> Counter[str]:
    """Return the candidates of outputs, each as text that differs from any other's."""
    batches = [output for output in outputs if isinstance(output, ResolvedBatch)]
    released = [each for batch in batches for each in batch.released]
    plain = [data for each in released if isinstance(each, EncodedRelease) for _, data in each.candidates]
    found = [msgspec.msgpack.decode(data, type=Candidate) for data in plain]
    found += [each.candidate for each in released if isinstance(each, Released)]
    return Counter(map(repr, found))
