"""The process killed at every place of the registry of faults: nothing acknowledged is lost, nothing doubled.

What must be found comes from the conversations, not from another run of the product. A chain is loaded: the
crossings are those of an audit of the archive, which `tests/differential/` compares with plain Python.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx
import orjson
import polars as pl
import pytest
from tracline.archive.manifest import read_manifest
from tracline.batch.prepare.options import AuditOptions
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding
from tracline.stream.process.faultpoints import ServeFault

from ..support.chains.chain_of_conversations import ABOVE, audited_crossings
from ..support.conversations.scripts import START_NS, random_session
from ..support.conversations.span_plan import Keys, Manner
from ..support.processes.live import arriving, audited, places_of, wire
from ..support.processes.serving import JSON, PROTOBUF, Serving, rows, running, until_judged
from ..support.truth.conversations import Ids, Place, PlayedSession, answered_once, paced, true_ids

IDLE_S = 600
SESSIONS = {
    # The time goes by spans alone: a tick is longer than the test.
    "tick_s": 3_600,
    "lateness_s": 120,
    "hold_s": 86_400,
    "idle_s": IDLE_S,
}
CONVERSATIONS = {
    237: Manner(keys=Keys.EVERYWHERE),
    104: Manner(end_mark=True, retried=0.3),
    51: Manner(wrapped=0.3),
    267: Manner(one_trace=True),
}
"""Random conversations by seed that violate many rules, and their spans."""
REQUESTS = 9
SIGKILLED = -9
KILLED_AT = tuple(ServeFault)
LATER = {ServeFault.ARCHIVING: 1, ServeFault.WRITTEN: 2, ServeFault.ARCHIVED: 1, ServeFault.MARKING: 1}
"""The time at which the second process dies there; 3 where none is named. What is archived is archived when
a process stops, and by the second one once more at its start, where the first had not noted it."""


@dataclass(frozen=True)
class Work:
    """Requests in their order, and what must come of them: verdicts, and events that are no `end` rows."""

    bodies: tuple[bytes, ...]
    ids: Ids
    events: Counter[Place]


@pytest.fixture(scope="module")
def work(pack: Path) -> Work:
    """Four conversations at a time, and one much later which moves the watermark past them."""
    played = [
        PlayedSession(paced(answered_once(random_session(seed)), START_NS + 60 * place * NS, 15), manner)
        for place, (seed, manner) in enumerate(CONVERSATIONS.items())
    ]
    last = PlayedSession(paced(random_session(50, turns=1), START_NS + 6 * 3600 * NS, 1), Manner())
    spans = [span for _, span in arriving([*played, last], Random(1), again=0.1)]
    size = -(-len(spans) // REQUESTS)
    bodies = tuple(
        wire(spans[first : first + size], list(Encoding)[first // size % 2])
        for first in range(0, len(spans), size)
    )
    assert len(bodies) == REQUESTS
    return Work(
        bodies,
        true_ids(played, pack),
        Counter(place for session_played in played for place in session_played.places),
    )


@dataclass
class Sender:
    """An exporter: sends each request until it is acknowledged, and the next one when it is judged."""

    work: Work
    folder: Path
    acknowledged: int = 0

    def send(self, serving: Serving, until: int = REQUESTS) -> None:
        """Send up to that request, as long as the process lives."""
        while self.acknowledged < until:
            body = self.work.bodies[self.acknowledged]
            headers = JSON if body.startswith(b"{") else PROTOBUF
            try:
                serving.send(body, headers).raise_for_status()
            except httpx.TransportError:
                return
            self.acknowledged += 1
            until_judged(serving, self.folder)


@pytest.mark.slow
@pytest.mark.parametrize("fault", KILLED_AT)
def test_a_process_that_is_killed_goes_on_where_it_was(
    fault: ServeFault, work: Work, pack: Path, chain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed there the first time it comes, and once more later; then the verdicts are those of the truth.

    So are those of an audit of the archive, and the archive holds every event once.
    """
    sender, deaths = Sender(work, tmp_path), []
    for turn, times in enumerate((1, LATER.get(fault, 3)), start=1):
        options = ("--predict", str(chain), "--above", str(ABOVE))
        with running(tmp_path, pack, *options, sessions=SESSIONS, fault=f"{fault}:{times}") as serving:
            sender.send(serving, until=REQUESTS - 6 + 3 * turn if fault in LATER else REQUESTS)
            if serving.process.poll() is None:
                serving.process.terminate()
            assert serving.ended() == SIGKILLED, f"the process never came to {fault}:{times}"
            deaths.append(sender.acknowledged)
    with running(tmp_path, pack, *options, sessions=SESSIONS) as serving:
        sender.send(serving)
        assert serving.stop() == 0, serving.log
    assert sender.acknowledged == REQUESTS
    check(work, pack, tmp_path)
    check_crossings(pack, chain, tmp_path)
    with capsys.disabled():
        print(f"\n{fault}: killed after {deaths} of {REQUESTS} were acknowledged; {len(work.ids)} verdicts")


def check_crossings(pack: Path, chain: Path, folder: Path) -> None:
    """The store has each crossing of an audit of the archive once."""
    options = AuditOptions(idle_s=IDLE_S)
    lines = audited_crossings(folder / "archive", pack, chain, folder / "risks", options)
    found = [orjson.loads(row[0]) for row in rows(folder, "SELECT record FROM crossing")]
    assert sorted(found, key=_id) == sorted(lines, key=_id)
    assert len(found) > 5


def _id(line: dict) -> str:
    return line["id"]


def check(work: Work, pack: Path, folder: Path) -> None:
    """Store, archive and an audit of the archive have the conversations' events and verdicts once."""
    query = "SELECT id, session_id, seq, rule, verdict FROM verdict"
    assert {row[0]: tuple(row[1:]) for row in rows(folder, query)} == work.ids
    assert len(work.ids) > 50
    archive = pl.read_parquet(folder / "archive" / "**" / "*.parquet")
    assert places_of(archive) == work.events
    assert rows(folder, "SELECT count(*) FROM event") == [(len(archive),)]
    assert set(audited(folder / "archive", pack, folder / "bundle")) == set(work.ids)
    marked = read_manifest(folder / "archive").watermarks.values()
    assert [(time,) for time in marked] == rows(folder, "SELECT value FROM fact WHERE name = 'watermark'")
