"""The alerts process without its broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import zip_longest
from random import Random

import msgspec
import pytest
from tracline.schemas.records.dead_letter import decode_dead_letter
from tracline.schemas.time import NS, rfc3339
from tracline.stream.alerts.alert import Alert, decode, encode
from tracline.stream.alerts.history import replay_history
from tracline.stream.alerts.receivers import annotations_of, labels_of
from tracline.stream.alerts.watch import Watch
from tracline.stream.error import StreamError
from tracline.stream.messages.codec import Mark, VerdictsMessage, decode_verdicts, verdict_messages
from tracline.stream.messages.record import Record
from tracline.stream.messages.topics import Topic
from tracline.stream.stages.alert import VERDICTS_NAMED

from ...support.alerting import Alerting
from ...support.conversations.alert_messages import (
    BEGAN,
    CALM,
    PARTITIONS,
    SETTINGS,
    SPIKE,
    TICK_S,
    TICKS,
    WRONG,
    messages,
    records,
    tolerated,
)

TOPIC = "tracline.verdicts"


def fresh() -> Alerting:
    """A stage that has read nothing."""
    return Alerting(tolerated(), SETTINGS, PARTITIONS, TOPIC)


def alerts(alerting: Alerting, read: Iterable[Record]) -> list[Alert]:
    """Return what comes of the records, taken in one by one."""
    raised: list[Alert] = []
    for record in read:
        raised += alerting.step([record]).alerts
    return raised


@pytest.mark.slow
def test_a_spike_is_one_alert() -> None:
    """An agent that goes wrong for a while is alerted once, in the spike, and resolved behind it."""
    fired, resolved = alerts(fresh(), records(messages()))
    first, last = (BEGAN + tick * TICK_S * NS for tick in (SPIKE.start, SPIKE.stop))
    assert (fired.pack, fired.rule, fired.agent, fired.severity) == ("desk", "auth-first", WRONG, "high")
    assert first <= fired.starts < first + 5 * TICK_S * NS
    assert fired.ends is None
    assert fired.observed > 0.3 > fired.tolerated
    assert resolved.id == fired.id
    assert resolved.ends is not None
    assert last < resolved.ends < last + 15 * TICK_S * NS


@pytest.mark.slow
def test_a_spike_of_risks_is_an_alert_of_its_own() -> None:
    """It has the kind `risk`, the rule and its severity, names no verdict, and is read as it was written."""
    fired, resolved = alerts(fresh(), records(messages(at_risk=True)))
    written = json.loads(encode(fired))
    assert (written["kind"], written["rule"], written["severity"]) == ("risk", "auth-first", "high")
    assert written["verdicts"] == []
    assert decode(encode(fired)) == fired
    assert resolved.id == fired.id
    [spike, _] = alerts(fresh(), records(messages()))
    assert (spike.starts, spike.agent) == (fired.starts, fired.agent)
    assert spike.id != fired.id
    assert labels_of(fired)["alertname"] == "TraclineRuleAtRisk"
    assert "auth-first" in annotations_of(fired)["summary"]


@pytest.mark.slow
def test_an_alert_names_the_newest_violations() -> None:
    """Up to five of the agent's, the newest first; the resolved alert names the same ones."""
    alerting, seen, raised = fresh(), list[str](), list[Alert]()
    for record in records(messages()):
        if not raised:
            found = decode_verdicts(record.value).verdicts
            seen += [verdict.id for verdict in found if verdict.agent == WRONG]
        raised += alerting.step([record]).alerts
    fired, resolved = raised
    assert fired.verdicts == tuple(reversed(seen[-VERDICTS_NAMED:]))
    assert len(fired.verdicts) == VERDICTS_NAMED
    assert resolved.verdicts == fired.verdicts


@pytest.mark.slow
def test_messages_made_again_change_nothing() -> None:
    """Messages that a restarted monitor sends again have the same marks, and are dropped everywhere."""
    read = records(messages())
    again = [record for place, record in enumerate(read) for record in read[max(0, place - 2) : place + 1]]
    assert alerts(fresh(), again) == alerts(fresh(), read)


@pytest.mark.slow
def test_a_restart_anywhere_gives_the_same_alerts() -> None:
    """Restarted from its state at 40 places, the process raises and resolves the same alerts."""
    read, random = records(messages()), Random(5)
    expected = alerts(fresh(), read)
    cuts = sorted(random.sample(range(len(read)), 40))
    stored: dict[str, bytes] = {}
    raised: list[Alert] = []
    for start, end in zip([0, *cuts], [*cuts, len(read)], strict=True):
        alerting = fresh()
        alerting.restore(stored)
        turned = alerting.step(read[start:end])
        raised += turned.alerts
        for output in turned.outputs:
            if output.topic is Topic.ALERTS_STATE and output.key is not None:
                if output.value is None:
                    stored.pop(output.key, None)
                else:
                    stored[output.key] = output.value
    assert raised == expected


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 3])
def test_the_slowest_partition_holds_time_back(count: int) -> None:
    """No tick is counted before all partitions have passed it; then the alerts are the same."""
    read = records(messages())
    early = [record for record in read if record.partition != 2]
    late = [record for record in read if record.partition == 2]
    alerting = fresh()
    assert alerts(alerting, [*late[:count], *early]) == []
    watermark = alerting.state.watermark
    assert watermark is None if count == 0 else watermark is not None and watermark < BEGAN + 4 * TICK_S * NS
    kinds = [(alert.status, alert.agent) for alert in alerts(alerting, late[count:])]
    assert kinds == [(alert.status, alert.agent) for alert in alerts(fresh(), read)]


@pytest.mark.slow
@pytest.mark.parametrize("lag", [0, 1, 40])
def test_a_backtest_reports_what_is_reported_live(lag: int) -> None:
    """The same statuses as a history raise and resolve in the same ticks, however far a partition lags."""
    read = records(messages())
    statuses = [(item.time, item) for record in read for item in decode_verdicts(record.value).statuses]
    watch, until = Watch(tolerated(), SETTINGS), BEGAN + TICKS * TICK_S * NS
    fired, resolved = replay_history(sorted(statuses, key=lambda pair: pair[0]), watch, until)
    behind = [record for record in read if record.partition == 2]
    others = [record for record in read if record.partition != 2]
    uneven = [*others[:lag], *(item for pair in zip_longest(others[lag:], behind) for item in pair if item)]
    live = alerts(fresh(), uneven)
    assert [(item.starts, item.ends) for item in live] == [
        (fired.begins, None),
        (fired.begins, resolved.ends),
    ]
    assert [item.violating for item in live] == [fired.alarm.violating, resolved.alarm.violating]


@pytest.mark.slow
def test_alerts_are_written_with_the_state_behind_them() -> None:
    """The records of alerts hold them whole; a firing one is remembered, a resolved one forgotten."""
    alerting = fresh()
    seen: list[Alert] = []
    for record in records(messages()):
        turned = alerting.step([record])
        written = [decode(item.value) for item in turned.outputs if item.topic is Topic.ALERTS and item.value]
        assert written == turned.alerts
        seen += written
        assert len(alerting.state.firing) == (len(seen) % 2)
    assert len(seen) == 2


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff", b"[]", b"{}", b'{"version":' + b"[" * 100_000, b'{"version":1,"x":' + b"[" * 100_000,
     b'{"version":1}', b'{"version":1,"session_status":[{}],"watermark":null}',
     b'{"version":1,"session_status":[],"watermark":"soon","offset":1,"index":0}'],
)  # fmt: skip
def test_what_is_no_message_is_put_aside(value: bytes) -> None:
    """It becomes a dead letter with its place and nothing of its content; all else goes on."""
    alerting = fresh()
    turned = alerting.step([Record(1, 77, BEGAN, value)])
    (output,) = (item for item in turned.outputs if item.topic is Topic.DEAD_LETTER)
    assert turned.counts.dead_letters == ["TRL731"]
    letter = decode_dead_letter(output.value or b"")
    assert (letter.process, letter.topic, letter.partition, letter.offset) == ("alerts", TOPIC, 1, 77)
    alerts(alerting, records(messages())[:30])
    assert alerting.state.watermark is not None


@pytest.mark.parametrize(
    "wrong",
    [{"pack": ["x"]}, {"rule": {}}, {"agent": 5}, {"severity": 5}, {"session_id": None}, {"session_id": []},
     {"rule_digest": []}, {"status": "no"}, {"pack": None}, {"status": "closed"}, {"more": 1}],
)  # fmt: skip
def test_a_status_of_wrong_types_is_put_aside(wrong: dict[str, object]) -> None:
    """It neither ends the process, nor does any of it come into the state, which no restart could read."""
    status = {
        "status": "violated", "session_id": "s1", "occurrence": rfc3339(BEGAN), "pack": "desk",
        "rule": "auth-first", "rule_digest": "0" * 64, "severity": "high", "agent": "bot",
        "time": rfc3339(BEGAN),
    }  # fmt: skip
    (data,) = verdict_messages(VerdictsMessage(Mark(0, 1, 0), None, [], []), 10_000)
    data = json.dumps({**json.loads(data), "session_status": [status, status | wrong]}).encode()
    alerting = fresh()
    turned = alerting.step([Record(0, 7, BEGAN, data)])
    assert turned.counts.dead_letters == ["TRL731"]
    assert [output.key for output in turned.outputs] == [None, "tick_s"], "a letter, and what every state has"


@pytest.mark.parametrize("mark", ["1", True, 1.0, 1e30, None])
def test_a_mark_that_is_no_number_is_put_aside(mark: object) -> None:
    """A mark of nonsense would make repeats of all that comes behind it."""
    message = {**json.loads(records(messages())[0].value), "offset": mark}
    alerting = fresh()
    turned = alerting.step([Record(0, 7, BEGAN, json.dumps(message).encode())])
    assert turned.counts.dead_letters == ["TRL731"]


def test_another_releases_messages_are_not_skipped() -> None:
    """A message of another version stops the process: it may mean anything."""
    read = records(messages())
    value = json.dumps({**json.loads(read[0].value), "version": 99}).encode()
    with pytest.raises(StreamError) as caught:
        fresh().step([msgspec.structs.replace(read[0], value=value)])
    assert caught.value.code == "TRL731"


def test_state_of_more_partitions_is_refused() -> None:
    """If the topic has fewer partitions than before, sessions have moved: the process reports it."""
    alerting = fresh()
    alerts(alerting, records(messages())[:50])
    smaller = Alerting(tolerated(), SETTINGS, 1, TOPIC)
    with pytest.raises(StreamError) as caught:
        smaller.restore({"partition 2": b"[5,0,null]"})
    assert caught.value.code == "TRL732"


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [("partition 0", b"?", "TRL761"), ("partition x", b"[1,0,null]", "TRL761"), ("alert ?", b"{}", "TRL761"),
     ('alert ["a","b","c"]', b"{}", "TRL764"), ("severity 1", b'"high"', "TRL761"), ("who", b"", "TRL761")],
)  # fmt: skip
def test_damaged_state_is_refused(name: str, data: bytes, code: str) -> None:
    """A record that this release did not write stops the process, with what to do."""
    with pytest.raises(StreamError) as caught:
        fresh().restore({name: data})
    assert caught.value.code == code


@pytest.mark.slow
def test_agents_with_hostile_names_are_shown_clean() -> None:
    """An agent's name comes from telemetry: alerts and state hold no control characters of it."""
    evil = f"{WRONG}\x1b[2J\u202e"
    value = {WRONG: evil, CALM: CALM}
    read = [
        msgspec.structs.replace(record, value=record.value.replace(f'"agent":"{WRONG}"'.encode(),
                                                   f'"agent":{json.dumps(value[WRONG])}'.encode()))
        for record in records(messages())
    ]  # fmt: skip
    fired, _ = alerts(fresh(), read)
    assert fired.agent == f"{WRONG}�[2J�"
