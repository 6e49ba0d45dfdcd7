"""A whole audit of random sessions against the reference semantics, and the same audit in other ways."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare import spill
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.model.digest import rule_digest, verdict_id
from tracline.rules.model.rule import Rule, stopping
from tracline.rules.packs.load import load_packs
from tracline.rules.reference.semantics import LabelledEvent, judge_session
from tracline.schemas.frames.events import EVENT_SCHEMA
from tracline.schemas.time import NS, rfc3339

from ..support.checker import derived
from ..support.evidence.bundle_lines import bundle_lines

PACK = """
pack: shop
version: 1
propositions:
  ask: kind == "user" and text contains "?"
  answer: kind == "assistant"
  secret: kind == "assistant" and text matches /secret/
  call: kind == "tool_call"
  pay: kind == "tool_call" and tool == "pay"
  result: kind == "tool_result"
  failed: kind == "tool_result" and error is not null
transitions:
  odd: not previous odd
rules:
  - {id: answered, formula: always (ask -> eventually answer)}
  - {id: asked-first, formula: always (pay -> once ask), severity: critical}
  - id: every-result
    for_each: args.order
    steps: call or result
    formula: always (pay -> eventually result)
  - {id: pay-once, for_each: args.order, formula: 'always (pay -> at_most[1] pay)'}
  - {id: no-failure, recover: none, formula: not failed until ask}
  - {id: tells, recover: violation, formula: eventually secret}
  - {id: failed-payment, applies_to: pay, formula: historically (failed -> previous pay)}
  - {id: odd-steps, formula: always (odd -> not secret)}
  - {id: next-result, steps: pay or result or ask, formula: always (pay -> next result)}
  - {id: by-order, for_each: args.order, recover: none, formula: eventually (failed and once pay)}
"""
IDLE_S = 3600
DAY = 1_772_000_000 * NS
OPEN = 3
"""Every how many sessions one has no end and its last event within the last hour of the archive."""

Verdict = tuple[str, int, str, str | None, str]
"""Session, place, rule, slice and verdict."""


@dataclass(frozen=True)
class Session:
    """A random session: its rows, and what each event is to the rules as plain Python sees it."""

    rows: list[dict]
    seen: list[LabelledEvent]
    closed: bool


def random_session(number: int, random: Random) -> Session:
    """Up to nine events, some not captured; the last session of the archive ends at its very end."""
    opened = number % OPEN == 0
    start = DAY + (20 * 3600 * NS if opened else random.randrange(10 * 3600) * NS)
    rows, seen = [], []
    for at in range(random.randint(1, 9)):
        row, label = random_event(random)
        identity = {"session_id": f"s{number:03d}", "occurrence": start, "event_id": f"{number:03d}-{at}"}
        rows.append(identity | {"time": start + at * NS, "seq": at + 1} | row)
        seen.append(label)
    ended = not opened and random.random() < 0.5
    if ended:
        last = rows[-1]
        rows.append(
            {
                **{k: last[k] for k in ("session_id", "occurrence", "time")},
                "seq": len(rows) + 1,
                "kind": "end",
            }
        )
        rows[-1]["event_id"] = f"{number:03d}-end"
    return Session(rows, seen, closed=not opened)


def random_event(random: Random) -> tuple[dict, LabelledEvent]:
    """Return one event's columns, and its propositions computed without the product's code."""
    kind = random.choice(["user", "assistant", "tool_call", "tool_call", "tool_result"])
    absent = random.random() < 0.03
    row: dict = {"kind": kind, "content": "absent" if absent else "captured"}
    true, unknown = set(), set()
    slice_value, slice_unknown = None, False
    if kind in ("user", "assistant"):
        text = None if absent else random.choice(["yes", "why?", "a secret", "secret?"])
        row["text"] = text
        name, needle = ("ask", "?") if kind == "user" else ("secret", "secret")
        (unknown if absent else true if needle in (text or "") else set()).add(name)
        true |= {"answer"} if kind == "assistant" else set()
    else:
        row["tool"] = random.choice(["pay", "look"])
        value = random.choice(["a", "b", 7, None, {"x": 1}] if random.random() < 0.1 else ["a", "b", 7, None])
        row["args"] = None if absent else json.dumps({"order": value})
        slice_unknown = absent or isinstance(value, dict)
        slice_value = None if slice_unknown or value is None else str(value)
        true.add("call" if kind == "tool_call" else "result")
        if kind == "tool_call" and row["tool"] == "pay":
            true.add("pay")
        if kind == "tool_result" and random.random() < 0.4:
            row["error"] = "timeout"
            true.add("failed")
    return row, LabelledEvent(frozenset(true), frozenset(unknown), slice_value, slice_unknown)


def random_archive(seed: int, sessions: int) -> list[Session]:
    """Sessions on one day; every third is open when the archive ends."""
    random = Random(seed)
    return [random_session(number, random) for number in range(sessions)]


def write(folder: Path, sessions: list[Session], random: Random, files: int) -> Path:
    """Return the rows as event Parquet, in any order, in several files."""
    rows = [row for session in sessions for row in session.rows]
    random.shuffle(rows)
    folder.mkdir()
    schema = {name: EVENT_SCHEMA[name] for name in (*ROW, "args", "error", "text", "tool")}
    for number in range(files):
        part = [{name: row.get(name) for name in schema} for row in rows[number::files]]
        for row in part:
            row["content"] = row["content"] or "captured"
        frame = pl.DataFrame(part, schema={**schema, "time": pl.Int64, "occurrence": pl.Int64})
        times = [
            pl.from_epoch(name, time_unit="ns").dt.replace_time_zone("UTC") for name in ("time", "occurrence")
        ]
        frame.with_columns(times).write_parquet(folder / f"{number}.parquet")
    return folder


ROW = ("session_id", "occurrence", "time", "seq", "kind", "content", "event_id")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pack as a file."""
    file = tmp_path_factory.mktemp("pack") / "shop.yaml"
    file.write_text(PACK)
    return file


def expected(sessions: list[Session], rules: tuple[Rule, ...]) -> Counter[Verdict]:
    """Return the findings of the reference semantics by session and rule, in the words of the bundle."""
    found: Counter[Verdict] = Counter()
    for session in sessions:
        for rule in rules:
            for finding in judge_session(rule, session.seen, closed=session.closed).findings:
                value = finding.slice if finding.sliced else None
                row = session.rows[finding.event]
                found[row["session_id"], row["seq"], rule.id, value, finding.verdict.value] += 1
    return found


@pytest.mark.parametrize("seed", range(4))
def test_an_audit_finds_what_the_rules_mean(seed: int, pack: Path, tmp_path: Path) -> None:
    """All verdicts on 60 random sessions of shuffled rows, satisfied and held ones too, are as meant."""
    sessions = random_archive(seed, 60)
    archive = write(tmp_path / "archive", sessions, Random(seed), files=3)
    rules = stopping(load_packs([pack]))
    outcome = audit(archive, rules, tmp_path / "bundle", AuditOptions(satisfied=True, idle_s=IDLE_S))
    found = Counter(
        (v["session_id"], v["seq"], v["rule"], v["slice"], v["verdict"])
        for v in bundle_lines(tmp_path / "bundle")
    )
    wanted = expected(sessions, rules.rules)
    assert found == wanted
    derivable = sum(count for key, count in wanted.items() if key[-1] in ("violated", "unmet"))
    assert derived(tmp_path / "bundle") == (derivable, 0)
    kinds = Counter(verdict for *_, verdict in wanted.elements())
    least = {"violated": 60, "satisfied": 20, "unmet": 20, "held": 100, "unjudged": 20}
    assert all(kinds[kind] >= count for kind, count in least.items()), kinds
    population = outcome.summary["population"]
    assert population["events"] == sum(len(session.seen) for session in sessions)
    assert population["open_sessions"] == sum(not session.closed for session in sessions) > 0


def test_the_summary_counts_the_reference_verdicts(pack: Path, tmp_path: Path) -> None:
    """Each rule's counts follow from the reference's findings and from the events at which it applies."""
    sessions = random_archive(9, 80)
    archive = write(tmp_path / "archive", sessions, Random(1), files=1)
    rules = stopping(load_packs([pack]))
    outcome = audit(archive, rules, tmp_path / "bundle", AuditOptions(idle_s=IDLE_S))
    for rule in rules.rules:
        judged = [judge_session(rule, session.seen, closed=session.closed) for session in sessions]
        each = [Counter(finding.verdict.value for finding in counts_of.findings) for counts_of in judged]
        broken = [bool(counts_of["violated"] + counts_of["unmet"]) for counts_of in each]
        applied = [counts_of.applies is not None for counts_of in judged]
        counts = outcome.summary["rules"][rule.id]
        assert counts["violations"] == sum(counts_of["violated"] for counts_of in each), rule.id
        assert counts["unmet"] == sum(counts_of["unmet"] for counts_of in each), rule.id
        assert counts["satisfactions"] == sum(counts_of["satisfied"] for counts_of in each), rule.id
        assert counts["sessions_violating"] == sum(broken), rule.id
        assert counts["sessions_unjudged"] == sum(bool(counts_of["unjudged"]) for counts_of in each), rule.id
        assert counts["sessions_applicable"] == sum(
            bad or (applies and not counts_of["unjudged"])
            for bad, applies, counts_of in zip(broken, applied, each, strict=True)
        ), rule.id
        assert counts["sessions_possible"] == sum(
            bool(counts_of["unjudged"]) and not bad for bad, counts_of in zip(broken, each, strict=True)
        ), rule.id


def test_the_bytes_do_not_depend_on_threads_files_or_memory(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the rows lie in files, on however many threads, in memory or in buckets: the same bytes."""
    sessions = random_archive(5, 120)
    rules = stopping(load_packs([pack]))

    def judged(name: str, seed: int, files: int, threads: int) -> list[bytes]:
        archive = write(tmp_path / f"archive-{name}", sessions, Random(seed), files)
        audit(archive, rules, tmp_path / name, AuditOptions(satisfied=True, threads=threads))
        names = ("verdicts.jsonl", "certificates.jsonl")
        return [(tmp_path / name / file).read_bytes() for file in names]

    first = judged("whole", 1, 1, 1)
    assert judged("files", 2, 5, 1) == first
    written: list[int] = []
    write_buckets = spill.write_buckets

    def noted(frame: pl.LazyFrame, folder: Path, count: int, seed: int = 0) -> None:
        written.append(len(frame.collect()))
        write_buckets(frame, folder, count, seed)

    monkeypatch.setattr(spill, "write_buckets", noted)
    monkeypatch.setattr(spill, "BUCKET_ROWS", 60)
    monkeypatch.setattr(spill, "BUCKETS_MAX", 5)
    monkeypatch.setattr(spill, "PASS_ROWS", 100)
    assert judged("held", 3, 4, 1) == first
    assert not written
    for held_bytes in (0, 20_000):
        monkeypatch.setattr(spill, "HELD_BYTES", held_bytes)
        assert judged(f"buckets-{held_bytes}", 3, 4, 1) == first
        assert judged(f"threads-{held_bytes}", 4, 4, 3) == first
    # The rows of several passes are written together once they are too many to be held.
    assert min(written) < max(written)
    assert len(first[0].splitlines()) > 500


def test_verdict_ids_are_the_documented_digest(pack: Path, tmp_path: Path) -> None:
    """An id follows from the record's own fields and the rule's digest, and no two records share one."""
    archive = write(tmp_path / "archive", random_archive(2, 30), Random(1), files=1)
    rules = stopping(load_packs([pack]))
    audit(archive, rules, tmp_path / "bundle", AuditOptions(satisfied=True))
    found = bundle_lines(tmp_path / "bundle")
    digests = {rule.id: rule_digest(rule) for rule in rules.rules}
    for verdict in found:
        named = ("pack", "rule", "rule_digest", "session_id", "occurrence", "slice", "event_id", "verdict")
        assert verdict["id"] == verdict_id(**{name: verdict[name] for name in named})
        assert verdict["rule_digest"] == digests[verdict["rule"]]
        assert verdict["time"] >= verdict["occurrence"] >= rfc3339(DAY)
    assert len({verdict["id"] for verdict in found}) == len(found) > 50
