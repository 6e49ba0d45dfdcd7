"""Rules that change while the pipeline runs: an audit of its archive as judged finds what was found live."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population, discover
from tracline.rules.packs.load import load_packs, pack_text
from tracline.stream.kafka.care.activate import activate
from tracline.stream.kafka.settings import KafkaSettings

from ..support.conversations.keyed import PARTITIONS, work
from ..support.evidence.bundle_lines import bundle_lines
from ..support.processes.stage import running
from ..support.truth.conversations import PACK, write_pack
from ..support.truth.judging import SESSIONS, Listener, messages, send

pytestmark = pytest.mark.slow

OTHER = PACK.replace("formula: eventually thanks", "formula: always not thanks").replace(
    "always (ask -> eventually answer)", "always (ask -> next answer)"
)


def test_the_archive_holds_what_was_found_live(
    topics: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over an activation in the midst of sessions every verdict has the same id, and none is missing.

    Sessions restart; `tests/unit/batch/test_as_judged.py` also has those that finish under their rules.
    """
    for name, value in {**SESSIONS, "TRACLINE_KAFKA_ON_RULE_CHANGE": "restart"}.items():
        monkeypatch.setenv(name, value)
    made, pack = work(range(300, 330), apart_s=30), write_pack(tmp_path)
    sent = messages(made)
    # What is judged lies behind what has come.
    before = len(sent) * 2 // 3
    send(topics, sent[:before])
    activate(topics, pack_text(OTHER).sources)
    send(topics, sent[before:])
    archive = tmp_path / "archive"
    judging = running(topics, tmp_path / "monitor.log", "monitor", "--rules", str(pack))
    copying = running(topics, tmp_path / "archive.log", "archive", "--archive", str(archive))
    with judging as monitor, copying as archiver, closing(Listener(topics)) as listener:
        received = listener.until(lambda received: received.places >= made.places)
        monitor.until("tracline_kafka_lag", lambda lags: len(lags) == PARTITIONS and max(lags) <= 1)
        assert monitor.stop() == 0
        # All of it is sent by now.
        received = listener.until(lambda _received: False, alive=lambda: False)
        archiver.until("tracline_kafka_lag", lambda lags: len(lags) == PARTITIONS and max(lags) <= 1)
        assert archiver.stop() == 0
    found = audit_as_judged(archive, tmp_path / "bundle", AuditOptions(threads=2))
    lines = bundle_lines(tmp_path / "bundle")
    assert {line["id"] for line in lines} == set(received.ids)
    assert len(lines) > 50
    assert len(found.summary["rule_sets"]) == 2
    assert found.summary["rule_sets"][0]["events"] > 20
    assert found.population.gaps == 0
    rows = pl.concat([pl.read_parquet(part.path) for part in discover(archive, Population())])
    sets = rows.filter(pl.col("kind") != "end").group_by("session_id", "occurrence").agg(pl.n_unique("rules"))
    assert sets["rules"].max() == 2
    assert load_packs(pack).rules != pack_text(OTHER).rules
