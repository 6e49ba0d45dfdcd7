"""The report of a bundle: its sessions, its figures, the page, and drawing it again."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.report.choice import EVENTS_DRAWN_MAX
from tracline.batch.report.drawn import TEXT_MAX
from tracline.batch.report.figures import interval, wilson
from tracline.batch.report.page import SENTENCE_MAX
from tracline.cli import tracline
from tracline.schemas.records.violation_rate import ViolationRate

from ...support.event_rows import PACK, START, call, result, session, user, write

HOSTILE = '</text><script>alert(1)</script>"\x1b[31m'
FIELDS = ["seq", "event_id", "time", "kind", "tool", "agent", "text"]


def run(*words: str | Path) -> Result:
    """Run the command with these words."""
    return CliRunner().invoke(tracline, list(map(str, words)))


def audited(folder: Path, *more: str | Path) -> Path:
    """Audit the archive in the folder into a bundle beside it."""
    (folder / "desk.yaml").write_text(PACK)
    bundle = folder / "bundle"
    words = ["audit", folder / "archive", "--rules", folder / "desk.yaml", "--out", bundle, "-q", *more]
    done = run(*words)
    assert done.exit_code == 0, done.output
    return bundle


def drawn(bundle: Path) -> list[dict]:
    """Return the sessions that the bundle's report draws."""
    return [json.loads(line) for line in (bundle / "sessions.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an archive of three bad sessions, forty clean ones, one too long and one open."""
    rows = session("worse", user("no!"), call("pay", "c1"), call("pay", "c1"), user(HOSTILE))
    rows += session("bad", user("no!"), result())
    rows += session("mild", call("pay", "c1"), result(), call("pay", "c1"), result())
    for at in range(40):
        rows += session(f"clean{at:02}", user("a" * 400), call(), result(), start=START + at * 86400 * 10**9)
    rows += session("long", user("no!"), *(result(f"r{at}") for at in range(EVENTS_DRAWN_MAX)))
    rows += session("open", user("hi"), call(), end=False, start=START + 41 * 86400 * 10**9)
    write(tmp_path / "archive" / "events.parquet", rows)
    return tmp_path


@pytest.mark.slow
def test_the_worst_sessions_and_a_sample_of_clean_ones_are_drawn(folder: Path) -> None:
    """Each line has the reason; a violation is never in the sample; lines are sorted and canonical."""
    bundle = audited(folder)
    lines = drawn(bundle)
    why = {line["session_id"]: line["why"] for line in lines}
    assert {name for name, reason in why.items() if reason == "worst"} == {"worse", "bad", "mild", "long"}
    sample = [name for name, reason in why.items() if reason == "sample"]
    assert len(sample) == 6
    assert all(name.startswith("clean") or name == "open" for name in sample)
    assert [line["session_id"] for line in lines] == sorted(why)
    for line in lines:
        assert sorted(line) == ["events", "occurrence", "rules", "session_id", "why"]
        assert all(sorted(event) == sorted(FIELDS) for event in line["events"])
        assert all(event["text"] is None for event in line["events"])
    (long,) = [line for line in lines if line["session_id"] == "long"]
    assert (long["events"], long["rules"]) == ([], [])
    (worse,) = [line for line in lines if line["session_id"] == "worse"]
    assert {run["rule"] for run in worse["rules"]} >= {"calm", "answered", "paid-once"}


@pytest.mark.slow
def test_the_seed_alone_decides_the_sample(folder: Path) -> None:
    """The same seed draws the same sessions, another one others; threads change no byte of the bundle."""
    first, again = audited(folder, "--threads", "1"), folder / "again"
    files = {path.name: path.read_bytes() for path in first.iterdir() if path.is_file()}
    first.rename(again)
    second = audited(folder, "--threads", "2")
    for name in ("sessions.jsonl", "report.html", "verdicts.jsonl", "summary.json"):
        assert (second / name).read_bytes() == files[name], name
    reseeded = audited(folder, "--seed", "1")
    assert {line["session_id"] for line in drawn(reseeded)} != {line["session_id"] for line in drawn(again)}
    assert json.loads((reseeded / "source.json").read_text())["seed"] == 1


@pytest.mark.slow
def test_texts_are_in_the_bundle_on_request_only(folder: Path) -> None:
    """With `--with-text` drawn events have their first characters; else neither file has a text."""
    bundle = audited(folder)
    for name in ("sessions.jsonl", "report.html"):
        assert "aaaa" not in (bundle / name).read_text("utf-8")
    bundle = audited(folder, "--with-text")
    texts = [event["text"] for line in drawn(bundle) for event in line["events"] if event["text"]]
    assert "a" * TEXT_MAX in texts
    assert max(map(len, texts)) == TEXT_MAX


@pytest.mark.slow
def test_the_page_has_no_script_and_a_strict_policy(folder: Path) -> None:
    """Texts are escaped and cleaned; the policy allows the page's own style and nothing else."""
    page = (audited(folder, "--with-text") / "report.html").read_text("utf-8")
    assert "<script" not in page
    assert "\x1b" not in page
    assert not re.search(r"\son\w+=|style=|href=\"http|src=", page)
    style = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page


@pytest.mark.slow
def test_the_page_has_what_was_audited_before_what_was_found(folder: Path) -> None:
    """Population, rates with intervals, formula and digest, the worst session first, how to re-perform it."""
    bundle = audited(folder)
    page = (bundle / "report.html").read_text("utf-8")
    summary = json.loads((bundle / "summary.json").read_text())
    places = [
        page.index(f'id="{name}"') for name in ("audited", "found", "rules", "worst", "sample", "again")
    ]
    assert places == sorted(places)
    for entry in summary["rules"].values():
        assert entry["rule_digest"] in page
    assert "always not angry" in page
    assert '<td class="count">6.7%</td>' in page
    worst = page[page.index('id="worst"') : page.index('id="sample"')]
    ids = re.findall(r'class="id">(\w+)<', worst)
    assert ids == ["worse", "bad", "long", "mild"]
    assert "too long and is not drawn" in worst
    assert f"more than {EVENTS_DRAWN_MAX} events" in worst
    assert " 0 events" not in worst
    assert "violated at event 1" in worst
    assert page.count("<svg") >= 9


@pytest.mark.slow
def test_the_report_is_drawn_again_from_the_bundle_alone(folder: Path) -> None:
    """`tracline report` gives the same bytes, without the archive and anywhere."""
    bundle = audited(folder)
    before = (bundle / "report.html").read_bytes()
    (folder / "archive" / "events.parquet").unlink()
    (folder / "desk.yaml").unlink()
    moved = bundle.rename(folder / "moved")
    (moved / "report.html").unlink()
    done = run("report", moved)
    assert (done.exit_code, done.stdout) == (0, f"{moved / 'report.html'}\n")
    assert (moved / "report.html").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sessions.jsonl", "summary.json", "source.json", "inputs.jsonl"])
def test_a_damaged_bundle_is_an_error(folder: Path, name: str) -> None:
    """TRL424 for a missing file, a damaged one and one of another form; the report stays as it is."""
    bundle = audited(folder)
    before = (bundle / "report.html").read_bytes()
    for text in ("{", "{}", "[]", "7", '"x"', None):
        (bundle / name).unlink()
        if text is not None:
            (bundle / name).write_text(text)
        done = run("report", bundle)
        assert (done.exit_code, done.stderr.count("TRL424")) == (2, 1), text
        assert (bundle / "report.html").read_bytes() == before
        (bundle / name).touch()


@pytest.mark.slow
def test_a_summary_without_a_count_is_an_error(folder: Path) -> None:
    """TRL424 also where a member deep in the file is missing or has another type."""
    bundle = audited(folder)
    summary = json.loads((bundle / "summary.json").read_text())
    for value in ({}, {**summary["population"], "gaps": "many"}):
        (bundle / "summary.json").write_text(json.dumps({**summary, "population": value}))
        done = run("report", bundle)
        assert (done.exit_code, done.stderr.count("TRL424")) == (2, 1)


@pytest.mark.slow
def test_the_page_has_the_likely_mistakes_and_the_silent_agents(folder: Path) -> None:
    """Those of the summary: a misspelt condition hides violations, and so does an agent that stopped."""
    bundle = audited(folder)
    summary = json.loads((bundle / "summary.json").read_text())
    mistake = {"pack": "desk", "proposition": "pay", "rules": ["paid-once"], "condition": 'tool == "pai"'}
    summary["likely_mistakes"] = [{**mistake, "reason": "no such tool", "suggestion": None}]
    silent = {"agent": "bot", "last_day": "2026-02-17", "silent_days": 1, "sessions_expected": 12}
    summary["population"]["silent_agents"] = [silent]
    (bundle / "summary.json").write_text(json.dumps(summary))
    (bundle / "attestation.json").unlink()
    assert run("report", bundle).exit_code == 0
    page = (bundle / "report.html").read_text("utf-8")
    assert "1 condition of a rule is likely a mistake" in page
    assert "<code>desk/pay</code>: <code>tool == &#34;pai&#34;</code>: no such tool" in page
    assert "<b>bot</b> fell silent after 2026-02-17: it has no session on the last 1 whole day;" in page


def test_an_empty_archive_has_a_report(tmp_path: Path) -> None:
    """A bundle without sessions has a page that states it."""
    write(tmp_path / "archive" / "events.parquet", [])
    bundle = audited(tmp_path)
    assert (bundle / "sessions.jsonl").read_bytes() == b""
    assert "No session violates a rule." in (bundle / "report.html").read_text("utf-8")


def full_session(events: list[dict]) -> dict:
    """Return as many events as are drawn, each with a text, and twenty runs of a rule that breaks at each."""
    seqs = range(1, EVENTS_DRAWN_MAX + 1)
    broken = {"verdict": "violated", "residual": "a", "sentence": "ü" * (SENTENCE_MAX + 1)}
    node = {
        "node": "0",
        "formula": "a",
        "parent": None,
        "ends": [None if at % 2 else at for at in seqs],
        "open": [False for _ in seqs],
    }
    run = {
        "pack": "desk",
        "rule": "calm",
        "slice": "ü" * 500,
        "steps": [*seqs],
        "verdicts": [{"step": at, **broken} for at in seqs],
        "close": None,
        "unjudged": None,
        "nodes": [node],
    }
    long = [{**events[0], "seq": at, "text": "ü" * TEXT_MAX} for at in seqs]
    return {"events": long, "rules": [run] * 20}


@pytest.mark.slow
def test_the_page_stays_below_three_megabytes(folder: Path) -> None:
    """With more rules, agents, models and days than are shown, long names, and sessions full of verdicts."""
    bundle = audited(folder, "--with-text")
    summary = json.loads((bundle / "summary.json").read_text())
    rule = summary["rules"]["calm"]
    counts = {name: rule[name] for name in rule if name.startswith(("sessions_", "violations", "unmet"))}
    days = {f"2026-{month:02}-{day:02}": counts for month in (1, 2, 3, 4, 5) for day in range(1, 29)}
    groups = {f"{at:03}{'ü' * 200}": counts for at in range(80)}
    large = {**rule, "by_agent": groups, "by_model": groups, "by_day": days}
    summary["rules"] = {f"rule{at:03}": large for at in range(150)}
    (bundle / "summary.json").write_text(json.dumps(summary))
    full = [{**line, **full_session(line["events"])} for line in drawn(bundle) if line["events"]]
    (bundle / "sessions.jsonl").write_text(
        "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in full)
    )
    (bundle / "attestation.json").unlink()
    assert run("report", bundle).exit_code == 0
    page = (bundle / "report.html").read_bytes()
    assert 1_500_000 < len(page) < 3_000_000
    assert b"50 more rules are in summary.json" in page
    assert b"The page is full" in page
    assert b"80 more agents are in summary.json" in page
    assert b"30 more agents are in summary.json" in page


def test_intervals_are_wilsons() -> None:
    """Published values: 0 of 10, 1 of 10, 50 of 100 (Wilson 1927; Brown, Cai and DasGupta 2001)."""
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(1, 10) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    assert wilson(50, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert interval(ViolationRate(1, 0, 9)) == "1.8% to 100.0%"
    assert interval(ViolationRate()) == "–"


def test_an_interval_contains_the_bounds_of_its_rate() -> None:
    """Also where the rule may not apply to sessions; where it may apply to none, all rates are possible."""
    assert interval(ViolationRate(5, 5, 0, 90)) == "2.2% to 76.3%"
    assert interval(ViolationRate(uncertain=10)) == "0.0% to 100.0%"
    for counts in itertools.product(range(4), repeat=4):
        rate = ViolationRate(*counts)
        if rate.low is None or rate.high is None:
            continue
        low, high = (float(each.rstrip("%")) / 100 for each in interval(rate).split(" to "))
        assert low - 0.001 <= rate.low <= rate.high <= high + 0.001, rate
