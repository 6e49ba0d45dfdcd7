"""The Kafka pipeline in one process, under seeded faults, against what the conversations were."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from tracline.batch.audit.as_judged import audit_as_judged
from tracline.batch.prepare.options import AuditOptions
from tracline.schemas.event import Event, Kind

from ..support.chains.chains_by_symbol import chain_by_state
from ..support.evidence.bundle_lines import bundle_lines
from ..support.processes.live import IDLE_S, audited
from .followed import crossings, expected_crossings
from .processes import CRASHES
from .simulated_pipeline import SimulatedPipeline

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "50"))
FIRST = int(os.environ.get("SIMULATION_FROM", "1"))
FAULTS = {
    *CRASHES,
    "judged together",
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


def crossings_in(bundle: Path) -> dict[str, dict]:
    """Return the crossings of a bundle by id."""
    return {line["id"]: line for line in bundle_lines(bundle, "risk.jsonl")}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_whatever_happens_the_verdicts_are_those_of_the_conversations(seed: int) -> None:
    """Crashes, zombies, rebalances, poison, repeats: each event once and in order, each verdict, no other."""
    with tempfile.TemporaryDirectory() as folder:
        simulation = SimulatedPipeline(seed, Path(folder))
        simulation.run()
        again = f"SIMULATION_FROM={seed} SIMULATION_SEEDS=1 python -m pytest tests/simulation"
        judged = simulation.judged()
        places = Counter(
            (e.session_id, e.occurrence, e.seq, e.event_id) for e, _ in judged if e.kind is not Kind.END
        )
        assert places == Counter(
            place for session_played in simulation.played for place in session_played.places
        ), again
        truth, found = simulation.truth(judged), simulation.verdicts()
        assert set(found) == set(truth), again
        assert simulation.letters() == set(simulation.planted), again
        assert simulation.archived() == rows_of(judged), again
        found_crossings = crossings(simulation)
        assert found_crossings == expected_crossings(simulation, judged), again
        hits["crossings"] += len(found_crossings)
        assert simulation.alerts() == simulation.expected_alerts(), again
        hits["alerts"] += simulation.alerts().total()
        if seed % AUDITED_EVERY == 0 and not simulation.hits["activation"]:
            bundle = Path(folder) / "bundle"
            assert audited(simulation.archive, simulation.packs[0], bundle, chain=chain_by_state) == found, (
                again
            )
            assert crossings_in(bundle) == found_crossings, again
            options = AuditOptions(idle_s=IDLE_S)
            audit_as_judged((str(simulation.archive),), bundle, options, follow=chain_by_state)
            assert crossings_in(bundle) == found_crossings, again
            hits["audited"] += 1
        hits.update(simulation.hits)
        hits["verdicts"] += len(truth)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + min(SEEDS, LATE_SEEDS)))
def test_what_comes_much_too_late_is_judged_where_it_comes(seed: int) -> None:
    """Whatever else happens, an audit of what was judged gives the same records; no place is taken twice."""
    with tempfile.TemporaryDirectory() as folder:
        simulation = SimulatedPipeline(seed, Path(folder), is_late=True)
        simulation.run()
        again = f"SIMULATION_FROM={seed} SIMULATION_SEEDS=1 python -m pytest tests/simulation"
        judged = simulation.judged()
        places = [(e.session_id, e.occurrence, e.seq) for e, _ in judged if e.kind is not Kind.END]
        assert len(set(places)) == len(places), again
        assert simulation.archived() == rows_of(judged), again
        bundle = Path(folder) / "bundle"
        found = audited(simulation.archive, simulation.packs[0], bundle, chain=chain_by_state)
        assert found == simulation.verdicts(), again
        assert crossings_in(bundle) == crossings(simulation), again
        assert simulation.letters() == set(simulation.planted), again
        hits["late"] += sum(event.late for event, _ in judged)


def test_every_fault_was_exercised() -> None:
    """Over the seeds each kind of fault happened, and repeats were there to be dropped."""
    print(f"\n{SEEDS} seeds from {FIRST}: " + ", ".join(f"{name} {hits[name]}" for name in sorted(hits)))
    if SEEDS >= SEEDS_ENOUGH:
        assert min(hits["verdicts"], hits["crossings"]) > 10 * SEEDS
        assert not (never := sorted(fault for fault in FAULTS if not hits[fault])), never
