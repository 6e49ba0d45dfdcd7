"""Live verdicts up to a time equal those of an audit as of that time; the archive has that time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tracline.archive.manifest import ManifestSource, read_manifest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs
from tracline.stream.serve.archiving import ArchiveSink

from .days import day, json_lines
from .live import STORE_ID, Live, audited, schedule

ORIGIN = ManifestSource("serve", STORE_ID)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [50, 56])
def test_an_audit_as_of_the_watermark_finds_what_was_found_by_then(
    seed: int, live: Live, pack: Path, tmp_path: Path
) -> None:
    """Cut anywhere in a day: of all requests, those that come later too, as of the watermark at the cut.

    Spans that wait for what is above them are not judged by then on either side. The archive has the same
    records, and the watermark.
    """
    random = Random(seed)
    sent = schedule(day(seed), random)
    (tmp_path / "requests").mkdir()
    json_lines(tmp_path / "requests", sent)
    cuts = [0, *sorted(random.sample(range(20, len(sent)), 5))]
    waiting: list[int] = []
    for first, last in pairwise(cuts):
        live.play(sent[first:last], random)
        found, as_of = live.records, live.watermark
        assert audited(tmp_path / "requests", pack, tmp_path / "of-requests", as_of) == found
        live.pipeline.archive()
        assert audited(tmp_path / "archive", pack, tmp_path / "of-archive") == found
        marked = read_manifest(tmp_path / "archive").watermarks[ORIGIN]
        assert as_of <= marked == live.watermark
        waiting.append(live.batches[-1].spans_waiting)
    assert sum(map(bool, waiting)) > 2
    assert len(live.records) > 50
    assert not live.events["late"].any()


class DiedError(Exception):
    """The process has died."""


@dataclass
class Dying:
    """An archive at which the process dies, once it is `armed`, at that place."""

    archive: ArchiveSink
    place: str
    armed: bool = False

    def write(self, rows: Sequence[bytes], first: int, last: int) -> None:
        """Write, or die before or after it."""
        self._die("before a write")
        self.archive.write(rows, first, last)
        self._die("after a write")

    def mark(self, watermark: int) -> None:
        """Mark, or die before or after it."""
        self._die("before a mark")
        self.archive.mark(watermark)
        self._die("after a mark")

    def _die(self, place: str) -> None:
        if self.armed and self.place == place:
            raise DiedError


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before a write", "after a write", "before a mark", "after a mark"])
def test_a_watermark_is_never_ahead_of_the_rows(place: str, pack: Path, tmp_path: Path) -> None:
    """Wherever the process dies, the archive has all events of the requests up to its watermark."""
    random = Random(44)
    sent = schedule(day(44, 4), random)
    requests, archive = tmp_path / "requests", tmp_path / "archive"
    requests.mkdir()
    json_lines(requests, sent)
    dying: list[Dying] = []

    def archived_by(archive: ArchiveSink) -> ArchiveSink:
        dying.append(Dying(archive, place))
        return dying[-1]

    @cache
    def ids_as_of(as_of: int) -> set[str]:
        return set(audited(requests, pack, tmp_path / "of-requests", as_of))

    def stored_ids() -> set[str]:
        return set(audited(archive, pack, tmp_path / "of-archive"))

    with closing(Live(tmp_path, compile_rule_set(load_packs([pack])), archived_by=archived_by)) as live:
        half = len(sent) // 2
        live.play(sent[:half], random)
        live.pipeline.archive()
        before = read_manifest(archive).watermarks[ORIGIN]
        assert ids_as_of(before) == stored_ids() != set()
        live.play(sent[half:], random)
        dying[-1].armed = True
        with pytest.raises(DiedError):
            live.pipeline.archive()
        marked = read_manifest(archive).watermarks[ORIGIN]
        assert ids_as_of(marked) <= stored_ids()
        assert ids_as_of(before) < ids_as_of(live.watermark)
        live.restart()
        live.pipeline.archive()
        assert ids_as_of(read_manifest(archive).watermarks[ORIGIN]) == stored_ids() == live.records.keys()
