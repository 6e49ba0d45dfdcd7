"""The Kafka pipeline in one process, under seeded faults, against what the conversations were."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from tracline.schemas.event import Event, Kind

from ..serve.live import audited
from .world import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "50"))
FIRST = int(os.environ.get("SIMULATION_FROM", "1"))
FAULTS = {
    "rekey-received",
    "rekey-taken",
    "rekey-produced",
    "rekey-offsets",
    "rekey-committed",
    "monitor-received",
    "monitor-stepped",
    "monitor-produced",
    "monitor-written",
    "monitor-committed",
    "judged together",
    "alerts-received",
    "alerts-stepped",
    "alerts-produced",
    "archive-received",
    "archive-writing",
    "archive-written",
    "archive-entered",
    "archive-committed",
    "between records",
    "zombie",
    "moved",
    "away",
    "rebalance",
    "activation",
    "dropped",
    "audited",
    "late",
    "log record",
}
AUDITED_EVERY = 5
LATE_SEEDS = 10
SEEDS_ENOUGH = 50
"""So many seeds meet every fault."""
hits: Counter[str] = Counter()


def rows_of(judged: list[tuple[Event, str]]) -> Counter[tuple[str, int, int, str, str]]:
    """Return the rows that an archive of these events must have."""
    return Counter((e.session_id, e.occurrence, e.seq, e.event_id, digest) for e, digest in judged)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_whatever_happens_the_verdicts_are_those_of_the_conversations(seed: int) -> None:
    """Crashes, zombies, rebalances, poison, repeats: each event once and in order, each verdict, no other."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(seed, Path(folder))
        world.run()
        again = f"SIMULATION_FROM={seed} SIMULATION_SEEDS=1 python -m pytest tests/simulation"
        judged = world.judged()
        places = Counter(
            (e.session_id, e.occurrence, e.seq, e.event_id) for e, _ in judged if e.kind is not Kind.END
        )
        assert places == Counter(place for one in world.told for place in one.places), again
        truth, found = world.truth(judged), world.verdicts()
        assert set(found) == set(truth), again
        assert world.letters() == set(world.planted), again
        assert world.archived() == rows_of(judged), again
        assert world.alerts() == world.expected_alerts(), again
        hits["alerts"] += world.alerts().total()
        if seed % AUDITED_EVERY == 0 and not world.hits["activation"]:
            assert audited(world.archive, world.packs[0], Path(folder) / "bundle") == found, again
            hits["audited"] += 1
        hits.update(world.hits)
        hits["verdicts"] += len(truth)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + min(SEEDS, LATE_SEEDS)))
def test_what_comes_much_too_late_is_judged_where_it_comes(seed: int) -> None:
    """Whatever else happens, an audit of what was judged gives the same records; no place is taken twice."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(seed, Path(folder), is_late=True)
        world.run()
        again = f"SIMULATION_FROM={seed} SIMULATION_SEEDS=1 python -m pytest tests/simulation"
        judged = world.judged()
        places = [(e.session_id, e.occurrence, e.seq) for e, _ in judged if e.kind is not Kind.END]
        assert len(set(places)) == len(places), again
        assert world.archived() == rows_of(judged), again
        assert audited(world.archive, world.packs[0], Path(folder) / "bundle") == world.verdicts(), again
        assert world.letters() == set(world.planted), again
        hits["late"] += sum(event.late for event, _ in judged)


def test_every_fault_was_met() -> None:
    """Over the seeds each kind of fault happened, and repeats were there to be dropped."""
    print(f"\n{SEEDS} seeds from {FIRST}: " + ", ".join(f"{name} {hits[name]}" for name in sorted(hits)))
    if SEEDS >= SEEDS_ENOUGH:
        assert hits["verdicts"] > 10 * SEEDS
        assert set(hits) >= FAULTS, sorted(FAULTS - set(hits))
