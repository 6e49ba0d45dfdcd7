"""`tracline stream activate` against a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tracline.predict.folder.load import load_chain
from tracline.rules.model.digest import rule_set_digest
from tracline.rules.packs.load import load_packs, load_texts
from tracline.stream.error import StreamError
from tracline.stream.kafka.care.activate import activate
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.messages.codec import Activation, decode, decode_judged
from tracline.stream.messages.topics import Topic
from tracline.stream.process.faultpoints import TrialFault

from ..support.brokers.reading import read
from ..support.chains.small_chain import learned_chain
from ..support.processes.rekeying import until
from ..support.processes.stage import TIMEOUT_S, ran, running

pytestmark = pytest.mark.slow

PACK = """\
pack: small
propositions: {a: kind == "user"}
rules: [{id: r, formula: always a}]
"""


def activations(kafka: KafkaSettings) -> dict[int, list[dict[str, str]]]:
    """The packs of the messages in each events partition, in their order."""
    found: dict[int, list[dict[str, str]]] = {}
    for record in read(kafka, kafka.topic(Topic.EVENTS)):
        message = decode(record.value)
        assert isinstance(message, Activation)
        found.setdefault(record.partition, []).append(message.packs)
    return found


def test_every_partition_has_the_rule_set(topics: KafkaSettings, tmp_path: Path) -> None:
    """Packs, what they extend and shipped ones come whole into each partition once; the digest is shown."""
    (tmp_path / "base.yaml").write_text(PACK.replace("small", "base"))
    pack = tmp_path / "small.yaml"
    pack.write_text('pack: small\nextends: base.yaml\npropositions: {a: kind == "assistant"}\n')
    done = ran(topics, "activate", pack, "privacy")
    assert done.returncode == 0, done.stderr
    rule_set = load_packs([pack, "privacy"])
    assert done.stdout == f"{rule_set_digest(rule_set)}\n"
    found = activations(topics)
    assert sorted(found) == [0, 1, 2, 3]
    for packs in found.values():
        assert [load_texts(each) for each in packs] == [rule_set]


def test_the_order_of_activations_is_the_same_everywhere(topics: KafkaSettings) -> None:
    """Later ones follow earlier ones in every partition."""
    sets = [{"first": "pack: first\n"}, {"second": "pack: second\n"}]
    assert [activate(topics, packs) for packs in sets] == [4, 4]
    assert activations(topics) == dict.fromkeys(range(4), sets)


def test_a_broken_pack_is_reported_as_by_check(topics: KafkaSettings, tmp_path: Path) -> None:
    """Place, code, text and hint of the problem; nothing is activated."""
    (tmp_path / "broken.yaml").write_text(PACK.replace("always a", "always unknown_name"))
    done = ran(topics, "activate", tmp_path / "broken.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}/broken.yaml:3:33: TRL120" in done.stderr
    assert activations(topics) == {}


def test_what_is_larger_than_a_message_is_not_activated(topics: KafkaSettings) -> None:
    """The size of the packs and the limit are reported, before anything is written."""
    with pytest.raises(StreamError, match=f"a message may have {topics.message_bytes_max}") as caught:
        activate(topics, {"small": PACK + "# " + "x" * topics.message_bytes_max})
    assert caught.value.code == "TRL734"
    assert activations(topics) == {}


def test_rules_of_the_start_that_are_larger_are_refused(topics: KafkaSettings, tmp_path: Path) -> None:
    """The monitor would have to send the archive their rules, and could not."""
    (tmp_path / "small.yaml").write_text(PACK + "# " + "x" * topics.message_bytes_max)
    done = ran(topics, "monitor", "--rules", tmp_path / "small.yaml")
    assert done.returncode == 2
    assert "TRL734" in done.stderr


def test_a_chain_comes_into_force_where_every_monitor_has_it(topics: KafkaSettings, tmp_path: Path) -> None:
    """One that lacks it is named as such; `--force` activates anyway, and the monitor judges on (TRL805)."""
    chain = learned_chain(tmp_path)
    words = ["activate", tmp_path / "desk.yaml", "--predict", chain]
    nobody = ran(topics, *words)
    assert nobody.returncode == 2
    assert "TRL805" in nobody.stderr
    assert "no monitor is live" in nobody.stderr
    logs = tmp_path / "one.log", tmp_path / "lacking.log"
    with running(topics, logs[0], "monitor", "--timeout-s", TIMEOUT_S, "--predict", str(tmp_path)):
        until("it has joined", lambda: "assigned partitions" in logs[0].read_text())
        done = ran(topics, *words)
        assert done.returncode == 0, done.stderr
        with running(topics, logs[1], "monitor", "--timeout-s", TIMEOUT_S):
            until("it has joined", lambda: "assigned partitions" in logs[1].read_text())
            assert "1 of 2 live monitors lack the chain" in ran(topics, *words).stderr
            forced = ran(topics, *words, "--force")
            assert forced.returncode == 0, forced.stderr
            until("it reports the chain", lambda: "TRL805" in logs[1].read_text())
    named = {chain_of(record) for record in read(topics, topics.topic(Topic.EVENTS))}
    assert named == {load_chain(chain).digest}


def chain_of(record: Any) -> str | None:
    """The digest of the chain that an activation names."""
    message = decode(record.value)
    assert isinstance(message, Activation)
    return message.chain_digest


POISON = """\
pack: poison
propositions: {a: kind == "user"}
rules:
  - {id: one, formula: always a}
  - {id: two, formula: eventually a}
  - {id: three, formula: a}
"""


def test_rules_that_nobody_survives_are_superseded(topics: KafkaSettings, tmp_path: Path) -> None:
    """A monitor ends at them and names the way out; behind it they are never loaded, and others judge.

    The trial of a rule set dies at its third rule; the rules were activated by a release without trials.
    """
    fault = f"{TrialFault.RULE}:3"
    digest = rule_set_digest(load_texts({"poison": POISON}))
    activate(topics, {"poison": POISON})
    with running(topics, tmp_path / "first", "monitor", "--timeout-s", TIMEOUT_S, fault=fault) as stage:
        assert stage.ended() == 2
    log = (tmp_path / "first").read_text()
    assert "TRL748" in log
    assert "rule poison/three" in log
    assert f"tracline stream activate PACK... --supersede {digest}" in log
    (tmp_path / "small.yaml").write_text(PACK)
    done = ran(topics, "activate", tmp_path / "small.yaml", "--supersede", digest)
    assert done.returncode == 0, done.stderr
    with running(topics, tmp_path / "past", "monitor", "--timeout-s", TIMEOUT_S, fault=fault) as stage:
        stage.until("tracline_kafka_messages_sent_total", lambda values: sum(values) >= 16)
        assert stage.stop() == 0
    judged = [decode_judged(record.value) for record in read(topics, topics.topic(Topic.JUDGED))]
    # Twice in each of four partitions: in the place of the other rules, and in their own.
    assert [set(message.activated) for message in judged] == [{done.stdout.strip()}] * 8


def test_rules_that_fail_their_trial_are_not_activated(topics: KafkaSettings, tmp_path: Path) -> None:
    """The process that tries them was killed: the command reports it, names the rule, and writes nothing."""
    (tmp_path / "poison.yaml").write_text(POISON)
    done = ran(topics, "activate", tmp_path / "poison.yaml", fault=f"{TrialFault.RULE}:3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "TRL748" in done.stderr
    assert "rule poison/three" in done.stderr
    assert activations(topics) == {}
