"""`tracline stream activate` against a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracline.rules.digest import rule_set_digest
from tracline.rules.pack import load_packs, load_texts
from tracline.stream.error import StreamError
from tracline.stream.kafka.activate import activate
from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.topic import Topic
from tracline.stream.wire import Activation, decode

from .reading import read
from .stage import ran

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
    """Packs and shipped packs come whole into each partition, once; their digest is what is printed."""
    (tmp_path / "small.yaml").write_text(PACK)
    done = ran(topics, "activate", tmp_path / "small.yaml", "privacy")
    assert done.returncode == 0, done.stderr
    rule_set = load_packs([tmp_path / "small.yaml", "privacy"])
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


def test_a_broken_pack_is_told_as_check_tells_it(topics: KafkaSettings, tmp_path: Path) -> None:
    """Place, code, text and hint of the problem; nothing is activated."""
    (tmp_path / "broken.yaml").write_text(PACK.replace("always a", "always unknown_name"))
    done = ran(topics, "activate", tmp_path / "broken.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}/broken.yaml:3:33: TRL120" in done.stderr
    assert activations(topics) == {}


def test_what_is_larger_than_a_message_is_not_activated(topics: KafkaSettings) -> None:
    """The size of the packs and the limit are told, before anything is written."""
    with pytest.raises(StreamError, match=f"a message may have {topics.message_bytes_max}") as caught:
        activate(topics, {"small": PACK + "# " + "x" * topics.message_bytes_max})
    assert caught.value.code == "TRL734"
    assert activations(topics) == {}


def test_rules_of_the_start_that_are_larger_are_refused(topics: KafkaSettings, tmp_path: Path) -> None:
    """The monitor would have to tell the archive of them, and could not."""
    (tmp_path / "small.yaml").write_text(PACK + "# " + "x" * topics.message_bytes_max)
    done = ran(topics, "monitor", "--rules", tmp_path / "small.yaml")
    assert done.returncode == 2
    assert "TRL734" in done.stderr
