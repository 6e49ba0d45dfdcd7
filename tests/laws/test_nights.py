"""Nightly audits: their verdicts together are those of one audit as of the last night."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from tracline.archive.error import SourceError
from tracline.batch.audit.audit import audit
from tracline.batch.nights.night_options import night_options
from tracline.batch.nights.previous_audit import read_previous_audit
from tracline.batch.prepare.options import AuditOptions
from tracline.rules.packs.load import pack_text
from tracline.schemas.time import NS

from ..support.event_rows import PACK, START, call, result, session, user, write
from ..support.evidence.bundle_lines import bundle_lines

RULES = pack_text(PACK)
HOUR = 3600 * NS
DAY = 24 * HOUR
IDLE = HOUR
EVENTS = (user("no!"), user("yes"), call("pay", "c1"), call("odd", "c2"), result("c1"), call("look", "c3"))
BEFORE_ALL = START - DAY
SAME = ("verdicts.jsonl", "verdicts.parquet", "summary.json", "certificates.jsonl", "inputs.jsonl")


def rows_of(random: Random, name: str) -> list[dict]:
    """Return some occurrences of one session id over four days, ended or idle; the last may be open."""
    found: list[dict] = []
    start = START + random.randrange(3 * DAY)
    for _ in range(random.randrange(1, 4)):
        events = random.choices(EVENTS, k=random.randrange(1, 6))
        rows = session(f"{name}", *events, start=start, end=False)
        step = random.choice((NS, HOUR // 3, HOUR - NS))
        for place, row in enumerate(rows):
            row["time"] = start + place * step
            row["event_id"] = f"{name}-{start}-{place}"
        last = rows[-1]["time"]
        if random.random() < 0.5:
            end = {"session_id": name, "occurrence": start, "seq": len(rows) + 1, "kind": "end"}
            rows.append(
                end | {"time": last + random.choice((0, HOUR // 2, HOUR)), "event_id": f"{name}-{start}-end"}
            )
        found += rows
        start = last + HOUR + 1 + random.randrange(DAY)
    return found


def write_archive(folder: Path, random: Random) -> None:
    """Write random sessions in files of six hours, as their rows come."""
    rows = sorted(
        (row for number in range(12) for row in rows_of(random, f"s{number}")),
        key=lambda row: (row["time"], row["session_id"], row["seq"]),
    )
    files: dict[int, list[dict]] = {}
    for row in rows:
        files.setdefault(row["time"] // (6 * HOUR), []).append(row)
    for number, part in files.items():
        write(folder / f"events-{number}.parquet", part)


def closed_verdicts(bundle: Path) -> list[dict]:
    """Return the verdicts of a bundle on sessions that are closed."""
    is_open = {(each["session_id"], each["occurrence"]) for each in bundle_lines(bundle, "open.jsonl")}
    return [each for each in bundle_lines(bundle) if (each["session_id"], each["occurrence"]) not in is_open]


def nightly(archive: Path, out: Path, ends: Sequence[int]) -> list[Path]:
    """Audit night by night, each after the one before, and return the bundles."""
    bundles: list[Path] = []
    for number, end in enumerate(ends):
        options = AuditOptions(as_of=end, idle_s=IDLE / NS)
        if bundles:
            previous = read_previous_audit(bundles[-1])
            options = night_options([str(archive)], options, previous.as_of, previous)
        else:
            options = night_options([str(archive)], options, BEFORE_ALL)
        bundles.append(out / f"night-{number}")
        audit(str(archive), RULES, bundles[-1], options)
    return bundles


@pytest.mark.parametrize("seed", range(12))
def test_the_nights_together_are_one_audit(seed: int, tmp_path: Path) -> None:
    """Every verdict on a closed session stands in one night, the night of its close, with the same line."""
    random = Random(seed)
    archive = tmp_path / "archive"
    write_archive(archive, random)
    ends = sorted(random.sample(range(START, START + 6 * DAY), 4))
    nights = nightly(archive, tmp_path, ends)
    audit(str(archive), RULES, tmp_path / "whole", AuditOptions(as_of=ends[-1], idle_s=IDLE / NS))
    found = [each for night in nights for each in bundle_lines(night)]
    assert len(found) >= 10
    assert len({each["id"] for each in found}) == len(found)
    assert sorted(found, key=lambda each: each["id"]) == sorted(
        closed_verdicts(tmp_path / "whole"), key=lambda each: each["id"]
    )
    assert bundle_lines(nights[-1], "open.jsonl") == bundle_lines(tmp_path / "whole", "open.jsonl")
    sessions = [
        json.loads((night / "summary.json").read_text())["population"]["sessions"] for night in nights
    ]
    whole = json.loads((tmp_path / "whole" / "summary.json").read_text())["population"]
    assert sum(sessions) == whole["sessions"] - whole["open_sessions"]


@pytest.mark.parametrize("seed", range(4))
def test_a_night_is_re_performed_without_the_previous_bundle(seed: int, tmp_path: Path) -> None:
    """The same bytes: from its two times alone, with all files; and with only the files that it names."""
    random = Random(seed)
    archive = tmp_path / "archive"
    write_archive(archive, random)
    ends = sorted(random.sample(range(START, START + 6 * DAY), 3))
    for night, begin, end in zip(nightly(archive, tmp_path, ends)[1:], ends, ends[1:], strict=False):
        alone = night_options([str(archive)], AuditOptions(as_of=end, idle_s=IDLE / NS), begin)
        audit(str(archive), RULES, tmp_path / "again", alone)
        only = tmp_path / f"only-{end}"
        only.mkdir()
        for each in bundle_lines(night, "inputs.jsonl"):
            (only / each["name"]).write_bytes((archive / each["name"]).read_bytes())
        given = AuditOptions(as_of=end, previous_as_of=begin, idle_s=IDLE / NS, threads=2)
        if any(only.iterdir()):
            audit(str(only), RULES, tmp_path / "of-these", given)
        for name in SAME:
            assert (tmp_path / "again" / name).read_bytes() == (night / name).read_bytes(), name
            if any(only.iterdir()):
                assert (tmp_path / "of-these" / name).read_bytes() == (night / name).read_bytes(), name


def test_a_quiet_day_is_a_bundle_without_a_session(tmp_path: Path) -> None:
    """No session closed; the bundle has no verdict."""
    write(tmp_path / "archive" / "events.parquet", session("a", user("no!")))
    _, quiet = nightly(tmp_path / "archive", tmp_path, (START + DAY, START + 2 * DAY))
    assert bundle_lines(quiet) == []
    assert bundle_lines(quiet, "inputs.jsonl") == []
    assert json.loads((quiet / "summary.json").read_text())["population"]["sessions"] == 0


def test_nights_of_other_settings_do_not_follow(tmp_path: Path) -> None:
    """A session would close at another time, in two nights or in none."""
    write(tmp_path / "archive" / "events.parquet", session("a", user("no!")))
    first = nightly(tmp_path / "archive", tmp_path, (START + DAY,))[0]
    previous = read_previous_audit(first)
    source = [str(tmp_path / "archive")]
    with pytest.raises(SourceError, match="TRL442"):
        night_options(source, AuditOptions(as_of=START + 2 * DAY, idle_s=60.0), previous.as_of, previous)
    with pytest.raises(SourceError, match="TRL442"):
        night_options(source, AuditOptions(as_of=START, idle_s=IDLE / NS), previous.as_of, previous)


def gaps_of(random: Random, name: str) -> list[dict]:
    """Return an occurrence with gaps longer than the idle time, as of an archive with another setting."""
    rows = session(name, *random.choices(EVENTS, k=random.randrange(2, 6)), end=False)
    time = START
    for row in rows:
        row["time"] = time
        time += random.choice((HOUR // 2, 3 * HOUR, DAY))
    return rows


def until_silence(rows: list[dict]) -> list[dict]:
    """Return the events before the first gap longer than the idle time."""
    found = rows[:1]
    for row in rows[1:]:
        if row["time"] - found[-1]["time"] > IDLE:
            break
        found.append(row)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_session_that_goes_on_after_its_close_stands_in_one_night(seed: int, tmp_path: Path) -> None:
    """The nights are one audit of what came before each silence; what came after it is rejected by name."""
    random = Random(seed)
    archive = tmp_path / "archive"
    sessions = [gaps_of(random, f"s{number}") for number in range(12)]
    rows = sorted((row for each in sessions for row in each), key=lambda row: row["time"])
    files: dict[int, list[dict]] = {}
    for row in rows:
        files.setdefault(row["time"] // (6 * HOUR), []).append(row)
    for number, part in files.items():
        write(archive / f"events-{number}.parquet", part)
    ends = sorted(random.sample(range(START, START + 6 * DAY), 4))
    nights = nightly(archive, tmp_path, ends)
    found = [each for night in nights for each in bundle_lines(night)]
    write(tmp_path / "cut" / "events.parquet", [row for each in sessions for row in until_silence(each)])
    audit(str(tmp_path / "cut"), RULES, tmp_path / "whole", AuditOptions(as_of=ends[-1], idle_s=IDLE / NS))
    assert len(found) >= 5
    assert sorted(found, key=lambda each: each["id"]) == sorted(
        closed_verdicts(tmp_path / "whole"), key=lambda each: each["id"]
    )
    populations = [json.loads((night / "summary.json").read_text())["population"] for night in nights]
    rejected = sum(each["rejected_by_reason"].get("session-resumed", 0) for each in populations)
    resumed = [
        each
        for each in sessions
        if [row for row in each[len(until_silence(each)) :] if row["time"] <= ends[-1]]
    ]
    assert rejected >= len(resumed) > 0
    for night, begin, end in zip(nights[1:], ends, ends[1:], strict=False):
        alone = night_options([str(archive)], AuditOptions(as_of=end, idle_s=IDLE / NS), begin)
        audit(str(archive), RULES, tmp_path / "again", alone)
        for name in SAME:
            assert (tmp_path / "again" / name).read_bytes() == (night / name).read_bytes(), name
