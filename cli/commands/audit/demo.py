"""`tracline demo`: an archive made by the simulated support bot, its audit, and what that found."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...options import Command, note, out_option

if TYPE_CHECKING:
    from ....examples.desk.bot import Desk

SOURCE = "support-desk"
"""The name under which the archive's manifest has the simulation."""
BLOCK_SESSIONS = 2_000
SPIKE_BROKEN_MIN = 5
"""A day on which a rule was broken in fewer sessions shows no spike."""
RULES_SHOWN = 8

RuleBreach = tuple[str, str, str]
"""A session that breaks a rule: pack, rule, session id."""


@dataclass(frozen=True, slots=True)
class UnusualDay:
    """The day on which a rule was broken most out of the ordinary; rates are shares of the sessions."""

    rule: str
    day: str
    broken: int
    applied: int
    rate: float
    otherwise: float


@click.command("demo", cls=Command)
@out_option("DIR", "The folder for the archive and the bundle.", Path("tracline-demo"))
@click.option(
    "--sessions",
    type=click.IntRange(min=1, max=10_000_000),
    default=3_000,
    show_default=True,
    metavar="N",
    help="How many conversations to simulate.",
)
@click.option("--seed", type=int, default=7, show_default=True, metavar="S", help="Which ones.")
def command(out: Path, sessions: int, seed: int) -> None:
    """Make an archive with the simulated support bot and audit it.

    Conversations of a made-up retail support desk, in which the agent breaks rules now and then, are written
    to DIR/archive and audited by the packs that ship into DIR/bundle. The simulation knows what the agent
    did wrong, and the audit is compared with that.
    """
    from ....batch.audit.audit import audit
    from ....batch.prepare.options import AuditOptions
    from ....examples.desk.bot import Desk
    from ....rules.packs.load import load_packs, shipped_packs

    desk = Desk(sessions=sessions, seed=seed)
    archive, bundle = out / "archive", out / "bundle"
    note(f"simulating {sessions:,} conversations")
    done = _make_archive(desk, archive)
    note("auditing")
    began = time.monotonic()
    outcome = audit(archive, load_packs(shipped_packs()), bundle, AuditOptions(threads=os.cpu_count() or 1))
    took_s = time.monotonic() - began
    click.echo(_told(desk, outcome.summary, took_s))
    click.echo(_agreement(done, _found(bundle)))
    click.echo(f"\nThe archive is {archive}, the bundle {bundle}.")
    click.echo(f"  tracline audit {archive} --rules {' '.join(shipped_packs())} --out {bundle}")


def _make_archive(desk: Desk, archive: Path) -> frozenset[RuleBreach]:
    """Write the desk's conversations to the archive, anew; what was done wrong in them.

    Raises SourceError where the folder holds anything but an earlier demo's archive.
    """
    from itertools import islice

    from ....archive.error import SourceError
    from ....archive.manifest import ManifestSource, read_manifest
    from ....archive.writer import archive_writer
    from ....examples.desk.bot import conversations
    from ....examples.desk.formats import event_frame

    if archive.exists() and any(archive.iterdir()):
        if {entry.source.name for entry in read_manifest(archive).entries} != {SOURCE}:
            hint = "name another --out, or remove it"
            raise SourceError("TRL406", str(archive), "is in the way: the demo did not make it", hint)
        shutil.rmtree(archive)
    origin = ManifestSource(SOURCE, hashlib.sha256(repr(desk).encode()).hexdigest())
    done: set[RuleBreach] = set()
    told = conversations(desk)
    first = 0
    with archive_writer(archive) as writer:
        while block := list(islice(told, BLOCK_SESSIONS)):
            writer.write(event_frame(block), origin, (first, first + len(block) - 1))
            breaks = ((one.session_id, kind.value) for one in block for kind in one.breaks)
            done.update((pack, rule, session_id) for session_id, (pack, rule) in breaks)
            first += len(block)
    return frozenset(done)


def _found(bundle: Path) -> frozenset[RuleBreach]:
    """The sessions and rules that the bundle's verdicts call broken."""
    from ....batch.evidence.bundle import VERDICTS, read_verdicts

    return frozenset(
        (record["pack"], record["rule"], record["session_id"])
        for record in read_verdicts(bundle / VERDICTS)
        if record["verdict"] in ("violated", "unmet")
    )


def _told(desk: Desk, summary: Mapping[str, Any], took_s: float) -> str:
    """Return what was audited and what was found, most severe and most frequent first."""
    from ...render.table import rank

    population, rules = summary["population"], summary["rules"]
    broken = sorted((rule for rule in rules.values() if rule["sessions_violating"]), key=rank)
    lines = [
        f"{population['sessions']:,} conversations of a simulated support desk"
        f" ({population['events']:,} events, {desk.days} days)",
        f"were audited by {len(rules)} rules in {took_s:.1f} s; {len(broken)} rules were broken:",
        "",
        f"  {'rule':<30} {'severity':<9} {'broken in':>9} {'of':>7} {'rate':>7}",
        *(_row(rule) for rule in broken[:RULES_SHOWN]),
    ]
    if len(broken) > RULES_SHOWN:
        lines.append(f"  and {len(broken) - RULES_SHOWN} more, in the bundle's summary.json")
    spike = find_spike(rules)
    if spike is not None:
        lines += [
            "",
            f"On {spike.day} `{spike.rule}` was broken in {spike.broken:,} of"
            f" {spike.applied:,} conversations,",
            f"which is {spike.rate:.1%}; on the other days in {spike.otherwise:.1%}.",
        ]
    return "\n".join(lines)


def _row(rule: Mapping[str, Any]) -> str:
    broken, applied = rule["sessions_violating"], rule["sessions_applicable"]
    return f"  {rule['id']:<30} {rule['severity']:<9} {broken:>9,} {applied:>7,} {broken / applied:>7.1%}"


def find_spike(rules: Mapping[str, Mapping[str, Any]]) -> UnusualDay | None:
    """The rule and day whose rate is furthest above that rule's other days, at least by five deviations.

    The deviation is that of a binomial count with the other days' rate (with one broken session added to
    them, so that a rule that was never broken before is not infinitely surprising).
    """
    best: tuple[float, UnusualDay] | None = None
    for name, rule in rules.items():
        for day, counts in rule["by_day"].items():
            broken, applied = counts["sessions_violating"], counts["sessions_applicable"]
            others = rule["sessions_applicable"] - applied
            if broken < SPIKE_BROKEN_MIN or not others:
                continue
            elsewhere = rule["sessions_violating"] - broken
            usual = (elsewhere + 1) / (others + 1)
            above = (broken - applied * usual) / (applied * usual * (1 - usual) or 1) ** 0.5
            if above >= 5 and (best is None or above > best[0]):
                spike = UnusualDay(name, day, broken, applied, broken / applied, elsewhere / others)
                best = (above, spike)
    return None if best is None else best[1]


def _agreement(done: frozenset[RuleBreach], found: frozenset[RuleBreach]) -> str:
    """Return how the audit compares with what the simulation knows."""
    others = len(found - done)
    return (
        f"\nThe simulation broke a rule {len(done):,} times, counting a rule once in a conversation.\n"
        f"The audit found {len(done & found):,} of these and {others or 'no'} others."
    )
