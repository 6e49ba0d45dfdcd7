"""`tracline demo`: simulate a support bot, archive its conversations, audit them and compare."""

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

from ....schemas.records.violation_rate import rate_of
from ....schemas.verdict import BREACHES
from ...options import Command, note, out_option

if TYPE_CHECKING:
    from ....examples.desk.bot import Desk

SOURCE = "support-desk"
"""The name of the simulation in the archive's manifest."""
BLOCK_SESSIONS = 2_000
SPIKE_BROKEN_MIN = 5
"""The minimum number of broken sessions on a day with a spike."""
RULES_SHOWN = 8

RuleBreach = tuple[str, str, str]
"""A rule broken in a session: pack, rule, session id."""


@dataclass(frozen=True, slots=True)
class UnusualDay:
    """The day on which a rule was broken most unusually often; rates are shares of the sessions."""

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
@click.option("--seed", type=int, default=7, show_default=True, metavar="S", help="The random seed.")
def command(out: Path, sessions: int, seed: int) -> None:
    """Simulate a support bot, archive its conversations and audit them.

    The command simulates conversations of a retail support desk, in which the agent sometimes breaks rules,
    writes them to DIR/archive, and audits them by the shipped packs into DIR/bundle. It compares the audit
    with the breaches that the simulation planted, and learns a chain into DIR/chain: after which events a
    breach was likely.
    """
    from ....batch.audit.audit import audit
    from ....batch.prepare.options import AuditOptions
    from ....examples.desk.bot import Desk
    from ....rules.packs.load import load_packs, shipped_packs
    from .demo_risks import riskiest_contexts

    desk = Desk(sessions=sessions, seed=seed)
    archive, bundle = out / "archive", out / "bundle"
    note(f"simulating {sessions:,} conversations")
    planted = _make_archive(desk, archive)
    note("auditing")
    start = time.monotonic()
    rule_set = load_packs(shipped_packs())
    result = audit(archive, rule_set, bundle, AuditOptions(threads=os.cpu_count() or 1))
    took_s = time.monotonic() - start
    click.echo(_report(desk, result.summary, took_s))
    click.echo(_agreement(planted, _found(bundle)))
    note("learning a chain")
    click.echo("\n".join(["", *riskiest_contexts(archive, rule_set, out / "chain")]))
    click.echo(f"\nThe archive is {archive}, the bundle {bundle}, the chain {out / 'chain'}.")
    click.echo(f"  tracline audit {archive} --rules {' '.join(shipped_packs())} --out {bundle}")


def _make_archive(desk: Desk, archive: Path) -> frozenset[RuleBreach]:
    """Write the desk's conversations to a new archive, and return the breaches in them.

    Raises SourceError if the folder contains anything but the archive of an earlier demo.
    """
    from itertools import islice

    from ....archive.error import SourceError
    from ....archive.manifest import ManifestSource, read_manifest
    from ....archive.writer import archive_writer
    from ....examples.desk.bot import conversations
    from ....examples.desk.formats import event_frame

    if archive.exists() and any(archive.iterdir()):
        if {entry.source.name for entry in read_manifest(archive).entries} != {SOURCE}:
            hint = "choose another --out, or delete the folder"
            raise SourceError("TRL406", str(archive), "is not an archive of the demo", hint)
        shutil.rmtree(archive)
    source = ManifestSource(SOURCE, hashlib.sha256(repr(desk).encode()).hexdigest())
    planted: set[RuleBreach] = set()
    simulated = conversations(desk)
    first = 0
    with archive_writer(archive) as writer:
        while block := list(islice(simulated, BLOCK_SESSIONS)):
            writer.write(event_frame(block), source, (first, first + len(block) - 1))
            breaks = ((chat.session_id, kind.value) for chat in block for kind in chat.breaks)
            planted.update((pack, rule, session_id) for session_id, (pack, rule) in breaks)
            first += len(block)
    return frozenset(planted)


def _found(bundle: Path) -> frozenset[RuleBreach]:
    """Return the breaches in the bundle's verdicts."""
    from ....batch.evidence.bundle import VERDICTS, read_verdicts

    return frozenset(
        (record.pack, record.rule, record.session_id)
        for record in read_verdicts(bundle / VERDICTS)
        if record.verdict in BREACHES
    )


def _report(desk: Desk, summary: Mapping[str, Any], took_s: float) -> str:
    """Return a report of the audit, with the most severe and most frequent rules first."""
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
    rate = rate_of(rule)
    counts = f"{rate.violating:>9,} {rate.sessions:>7,} {rate.percent:>7}"
    return f"  {rule['id']:<30} {rule['severity']:<9} {counts}"


def find_spike(rules: Mapping[str, Mapping[str, Any]]) -> UnusualDay | None:
    """Return the rule and day whose rate is furthest above the rule's other days, five deviations or more.

    The deviation is that of a binomial count with the rate of the other days. These get one more broken
    session, so that the deviation of a rule that was never broken before is finite.
    """
    best: tuple[float, UnusualDay] | None = None
    for name, rule in rules.items():
        for day, counts in rule["by_day"].items():
            broken, applied = counts["sessions_violating"], rate_of(counts).sessions
            other_sessions = rate_of(rule).sessions - applied
            if broken < SPIKE_BROKEN_MIN or not other_sessions:
                continue
            other_broken = rule["sessions_violating"] - broken
            usual = (other_broken + 1) / (other_sessions + 1)
            above = (broken - applied * usual) / (applied * usual * (1 - usual) or 1) ** 0.5
            if above >= 5 and (best is None or above > best[0]):
                usually = other_broken / other_sessions
                best = (above, UnusualDay(name, day, broken, applied, broken / applied, usually))
    return None if best is None else best[1]


def _agreement(planted: frozenset[RuleBreach], found: frozenset[RuleBreach]) -> str:
    """Compare the audit with the breaches of the simulation."""
    extra = len(found - planted)
    return (
        f"\nThe simulation broke a rule {len(planted):,} times, counting a rule once in a conversation.\n"
        f"The audit found {len(planted & found):,} of these and {extra or 'no'} others."
    )
