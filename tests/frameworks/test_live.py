"""Live, the recordings of agent frameworks come to what an audit of them comes to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.schemas.event import Kind
from tracline.schemas.otlp.decode import decode_protobuf
from tracline.stream.ingest.request import Encoding

from ..serve.live import Live, Sent, audited
from .compare import PACKS
from .recordings import FOLDER, names, requests_of

DUMP = Path("otlp") / "requests.pb.zst"


def sent() -> Iterator[Sent]:
    """Yield the requests of all recordings, each when the last of its spans has ended."""
    for name in names():
        for body in requests_of(FOLDER / name / DUMP):
            ended = max(span.end for span in decode_protobuf(body).spans)
            yield Sent(ended, body, Encoding.PROTOBUF)


def judged(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events of sessions in one order."""
    events = events.filter(pl.col("kind") != Kind.END.value)
    return events.sort("session_id", "occurrence", "seq").drop("attributes")


@pytest.mark.slow
def test_live_finds_in_recordings_what_an_audit_finds(tmp_path: Path) -> None:
    """`serve`'s pipeline judges the same events and gives the same verdicts, whatever frameworks send.

    The requests of all recordings come to one pipeline, in the order of time.
    """
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for name in names():
        shutil.copy(FOLDER / name / DUMP, dumps / f"{name}.pb.zst")
    (tmp_path / "events").mkdir()
    parts = prepare(dumps, tmp_path / "events", Population())
    expected = pl.concat([pl.read_parquet(part.path) for part in parts])
    with closing(Live(tmp_path, compile_rule_set(load_packs(PACKS)))) as live:
        for request in sorted(sent(), key=lambda request: request.time):
            live.now = request.time
            live.send(request)
        live.finish()
        found, records = live.events, live.records
    assert found["session_id"].n_unique() >= 3 * len(names())
    assert judged(found).equals(judged(expected.select(found.columns)))
    assert records == audited(dumps, PACKS, tmp_path / "bundle", as_of=live.now)
