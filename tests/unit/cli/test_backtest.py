"""Alerts from archives: the statuses of their sessions, `tracline alerts backtest` and `alerts rates`."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.batch.audit.audit import audit
from tracline.batch.audit.status_history import status_changes, status_history
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.cli import tracline
from tracline.cli.commands.alerts.risk_statuses import with_risks
from tracline.examples.desk.bot import BreakSpike, Desk, conversations
from tracline.examples.desk.formats import event_frame, events
from tracline.examples.desk.scene import Break
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs, pack_text
from tracline.schemas.frames.events import frame_events
from tracline.schemas.records.session_status import SessionStatus, StatusChange
from tracline.schemas.time import NS, parse_time
from tracline.stream.messages.session_state import JudgingState
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from ...support.chains.chains_by_symbol import chain_of
from ...support.chains.small_chain import learned_chain
from ...support.event_rows import PACK, START, call, result, session, user, write

pytestmark = pytest.mark.slow

HOUR = 3600 * NS
SPIKE_HOUR = 36
DESK = compile_rule_set(load_packs(["customer-service"]))


def statuses_of(folder: Path, rules: str, **options: object) -> pl.DataFrame:
    """Return the statuses of the sessions of an archive."""
    (folder / "scratch").mkdir()
    compiled = compile_rule_set(load_packs([rules]))
    return status_history(
        folder / "archive", compiled, folder / "scratch", AuditOptions(**options), Population()
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack, and two days of a session every 3 minutes: one in 50 shouts, and in one hour every second."""
    tmp_path = tmp_path_factory.mktemp("desk")
    (tmp_path / "desk.yaml").write_text(PACK)
    rows: list[dict] = []
    for minute in range(0, 48 * 60, 3):
        shouts = minute % 2 if minute // 60 == SPIKE_HOUR else minute % 50 == 7
        steps = [user("no!" if shouts else "hello", agent="bot"), call(agent="bot"), result(agent="bot")]
        rows += session(f"s{minute}", *steps, start=START + minute * 60 * NS)
    write(tmp_path / "archive" / "events.parquet", rows)
    return tmp_path


def run(place: Path, *more: str, command: str = "backtest") -> Result:
    """One of the commands on the archive of the place."""
    line = ["alerts", command, str(place / "archive"), "--rules", str(place / "desk.yaml"), "--quiet"]
    return CliRunner().invoke(tracline, [*line, *more])


def test_statuses_come_when_they_would_have_come_live(tmp_path: Path) -> None:
    """A rule applies at an event; an unmet rule is reported when the session closes, here after an hour."""
    (tmp_path / "desk.yaml").write_text(PACK)
    rows = [
        *session("ended", user("hi"), call(), result()),
        *session("idle", user("hi"), call(), end=False),
        *session("open", user(None), user("no!"), start=START + HOUR, end=False),
        *session("later", user("hi"), start=START + 2 * HOUR),
    ]
    write(tmp_path / "archive" / "events.parquet", rows)
    found = statuses_of(tmp_path, str(tmp_path / "desk.yaml"))
    statuses = [
        (row["session_id"], row["status"], (row["changed"] - START) / NS, (row["time"] - START) / NS)
        for row in found.filter(
            pl.col("rule").is_in(["answered"]) | (pl.col("status") == "closed")
        ).to_dicts()
    ]
    assert statuses == [
        ("ended", "applied", 1, 1),
        ("idle", "applied", 1, 1),
        ("ended", "closed", 2, 2),
        ("idle", "violated", 3601, 1),
        ("idle", "closed", 3601, 1),
        ("later", "closed", 7200, 7200),
    ]
    calm = found.filter((pl.col("rule") == "calm") & (pl.col("session_id") == "open"))
    assert sorted(calm["status"]) == ["applied", "unjudged", "violated"]


def test_an_archive_has_the_statuses_of_the_live_side(tmp_path: Path) -> None:
    """Thirty conversations, given to the live judge event by event, get the statuses of the archive."""
    desk = Desk(sessions=30, seed=3, rates=dict.fromkeys(Break, 0.9 / len(Break)), spike=None)
    judge, live = RuleSetJudge(DESK), list[tuple[object, ...]]()
    ways = [events(talk) for talk in conversations(desk)]
    states = {way[0].session_id: JudgingState() for way in ways}
    for step in zip_longest(*ways):
        done = judge.judge(states, [[event for event in step if event is not None]])
        states |= done.states
        [judged] = done.verdicts
        live += [
            (
                status_or_conversation.status.value,
                status_or_conversation.session_id,
                status_or_conversation.pack,
                status_or_conversation.rule,
                status_or_conversation.agent,
                status_or_conversation.time,
            )
            for status_or_conversation in judged.statuses
        ]
    assert sum(status_or_conversation[0] == "violated" for status_or_conversation in live) > 10
    assert sorted(live) == sorted(archived(desk, tmp_path))


def archived(desk: Desk, folder: Path) -> list[tuple[object, ...]]:
    """Return the statuses of an archive of the desk, without the closes."""
    (folder / "scratch").mkdir()
    event_frame(conversations(desk)).write_parquet(folder / "events.parquet")
    found = status_history(folder / "events.parquet", DESK, folder / "scratch", AuditOptions(), Population())
    columns = ["status", "session_id", "pack", "rule", "agent", "time"]
    return list(found.filter(pl.col("status") != "closed").select(columns).iter_rows())


def test_as_many_sessions_as_the_audit_counts(place: Path, tmp_path: Path) -> None:
    """By rule, those that violate are those of the summary, and so are those to which it applies."""
    rules = place / "desk.yaml"
    found = statuses_of(place, str(rules))
    summary = audit(place / "archive", load_packs([rules]), tmp_path / "out", AuditOptions()).summary
    counted = found.group_by("rule", "status").len().iter_rows()
    counts = {(rule, status): count for rule, status, count in counted}
    for name, rule in summary["rules"].items():
        assert counts.get((name, "violated"), 0) == rule["sessions_violating"]
        assert counts.get((name, "applied"), 0) == rule["sessions_applicable"]


def test_a_spike_is_found(place: Path) -> None:
    """The one alarm is that of the rule, agent and hour of the spike; it is over soon after; exit code 0."""
    found = run(place, "--format", "json")
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    (alarm,) = report["alarms"]
    assert (alarm["pack"], alarm["rule"], alarm["agent"]) == ("desk", "calm", "bot")
    begins = START + SPIKE_HOUR * HOUR
    assert begins < parse_time(alarm["fired"]) < begins + HOUR
    assert begins + HOUR < parse_time(alarm["resolved"]) < begins + 3 * HOUR
    assert alarm["observed"] > 0.3 > 0.1 > alarm["tolerated"]


def test_a_quiet_archive_is_quiet(place: Path, tmp_path: Path) -> None:
    """Half of the archive without the spike raises nothing, and the table shows it."""
    rows = pl.read_parquet(place / "archive" / "events.parquet")
    quiet = rows.filter(pl.col("time").cast(pl.Int64) < START + SPIKE_HOUR * HOUR)
    (tmp_path / "archive").mkdir()
    quiet.write_parquet(tmp_path / "archive" / "events.parquet")
    (tmp_path / "desk.yaml").write_text(PACK)
    found = run(tmp_path)
    assert found.exit_code == 0
    assert found.stdout.startswith("No alarms from 2026-02-18 06:00 to 2026-02-18 23:57 UTC, ")


def test_a_time_without_sessions_is_reported(place: Path) -> None:
    """If nothing comes after the history, that is reported, and no rate is watched."""
    found = run(place, "--history", "2027-01-01")
    assert found.exit_code == 0
    assert found.stdout.startswith("No rates watched")


def test_sessions_without_times_are_left_out_and_counted(tmp_path: Path) -> None:
    """A chat log without times is no history: its sessions are counted, and nothing is learned from 1970."""
    (tmp_path / "desk.yaml").write_text(PACK)
    sessions = [
        {"id": f"s{number}", "messages": [{"role": "user", "content": "hello"}]} for number in range(3)
    ]
    (tmp_path / "log.json").write_text(json.dumps(sessions))
    line = ["alerts", "backtest", str(tmp_path / "log.json"), "--rules", str(tmp_path / "desk.yaml")]
    found = CliRunner().invoke(tracline, [*line, "--format", "json"])
    assert found.exit_code == 0, found.output
    assert "3 sessions have no times and are left out" in found.stderr
    assert "no session to learn rates from" in found.stderr
    report = json.loads(found.stdout)
    assert (report["undated_sessions"], report["learned_sessions"], report["watched"]) == (3, 0, 0)


def test_the_number_of_sessions_that_rates_were_learned_from_is_reported(place: Path, tmp_path: Path) -> None:
    """Half of the archive is learned from; a file of rates has no such number."""
    report = json.loads(run(place, "--format", "json").stdout)
    assert (report["undated_sessions"], report["learned_sessions"]) == (0, 480)
    assert "Rates learned from 480 earlier sessions." in run(place).stdout
    line = [
        "alerts",
        "rates",
        str(place / "archive"),
        "--rules",
        str(place / "desk.yaml"),
        "--until",
        "2020-01-01",
    ]
    learned = CliRunner().invoke(tracline, [*line, "--out", str(tmp_path / "rates.json")])
    assert "no session to learn rates from" in learned.stderr
    more = ["--rates", str(tmp_path / "rates.json"), "--format", "json"]
    assert json.loads(run(place, *more).stdout)["learned_sessions"] is None


def test_rates_are_learned_from_one_archive_for_another(place: Path) -> None:
    """Rates learned up to a time find the spike when given with --rates; the ticks are those of the file."""
    file = place / "rates.json"
    learned = run(place, "--out", str(file), "--until", "2026-02-18", "--tick-s", "600", command="rates")
    assert learned.exit_code == 0, learned.output
    rates = json.loads(file.read_text())
    (calm,) = [rule for rule in rates["rules"] if rule["rule"] == "calm"]
    assert calm["agents"]["bot"]["violating"] == pytest.approx(12 * 20 / 50, abs=1)
    report = json.loads(run(place, "--rates", str(file), "--format", "json").stdout)
    assert (report["tick_s"], [alarm["rule"] for alarm in report["alarms"]]) == (600, ["calm"])
    assert report["alarms"][0]["tolerated"] == calm["agents"]["bot"]["tolerated"]


def test_a_longer_time_between_false_alarms_needs_more_evidence(place: Path) -> None:
    """With a larger --arl the alarm comes no sooner, and after more violating sessions."""
    soon, late = (
        json.loads(run(place, "--format", "json", "--arl", arl).stdout)["alarms"][0]
        for arl in ("100", "100000")
    )
    assert soon["fired"] < late["fired"]
    assert soon["violating"] < late["violating"]


@pytest.mark.parametrize("content", ["", "{}", '{"version": 2}'])
def test_a_file_without_rates_is_refused(place: Path, content: str) -> None:
    """A file that holds no rates is named, with what to do, and the exit code is 2."""
    (place / "rates.json").write_text(content)
    found = run(place, "--rates", str(place / "rates.json"))
    assert found.exit_code == 2
    assert "rates.json: TRL762" in found.stderr


def test_rates_of_a_file_have_their_own_ticks_and_history(place: Path) -> None:
    """--rates with --history or --tick-s is a mistake."""
    (place / "rates.json").write_text("{}")
    for more in (["--history", "2026-02-18"], ["--tick-s", "60"]):
        assert run(place, "--rates", str(place / "rates.json"), *more).exit_code == 2


def test_the_spike_of_the_demo_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Of two weeks of the simulated desk, the alarms are those of its spike; without one there are none."""
    found: dict[str, list[dict]] = {}
    for name, spike in (("spike", BreakSpike()), ("quiet", None)):
        folder = tmp_path / name
        folder.mkdir()
        event_frame(conversations(Desk(spike=spike))).write_parquet(folder / "events.parquet")
        line = ["alerts", "backtest", str(folder), "--rules", "customer-service", "--format", "json"]
        found[name] = json.loads(CliRunner().invoke(tracline, line).stdout)["alarms"]
    assert found["quiet"] == []
    assert {(alarm["rule"], alarm["fired"][:10]) for alarm in found["spike"]} == {
        ("confirm-before-refund", "2026-03-11")
    }


def near_misses(folder: Path) -> Path:
    """Return an archive of two days in which half of one hour's sessions are at risk, and none violates."""
    rows: list[dict] = []
    for minute in range(0, 48 * 60, 3):
        is_at_risk = minute % 2 and minute // 60 == SPIKE_HOUR
        steps = [user("p", agent="a"), user("q", agent="a")] if is_at_risk else [user("x", agent="a")]
        rows += session(f"s{minute}", *steps, start=START + minute * 60 * NS)
    return write(folder / "near" / "events.parquet", rows).parent


def test_a_spike_of_near_misses_is_found_with_a_chain(tmp_path: Path) -> None:
    """Backtest and rates count the sessions at risk as live alerts do; without a chain there is no alarm."""
    chain, archive = learned_chain(tmp_path), near_misses(tmp_path)
    rules = ["--rules", str(tmp_path / "desk.yaml"), "--quiet"]
    following = ["--predict", str(chain), "--above", "0.3"]

    def backtest(*more: str) -> list[dict]:
        line = ["alerts", "backtest", str(archive), *rules, "--format", "json", *more]
        done = CliRunner().invoke(tracline, line)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["alarms"]

    assert backtest() == []
    found = backtest(*following)
    assert {(alarm["kind"], alarm["agent"]) for alarm in found} == {("risk", "a")}
    (alarm,) = (alarm for alarm in found if alarm["rule"] == "answered")
    begins = START + SPIKE_HOUR * HOUR
    assert begins < parse_time(alarm["fired"]) < begins + HOUR
    out = tmp_path / "rates.json"
    line = ["alerts", "rates", str(archive), *rules, *following, "--until", "2026-02-19T06:00:00Z"]
    done = CliRunner().invoke(tracline, [*line, "--out", str(out)])
    assert done.exit_code == 0, done.output
    names = {rule["rule"] for rule in json.loads(out.read_bytes())["rules"]}
    assert "risk:answered" in names
    # Rates that were learned from the spike tolerate it.
    assert backtest(*following, "--rates", str(out)) == []


def test_the_sessions_at_risk_are_those_of_the_pipeline(tmp_path: Path) -> None:
    """The statuses of an archive with a chain are those that the live judge sends."""
    rule_set = pack_text(PACK)
    chain = chain_of(rule_set, {"user:": 0.1, "user:angry": 0.9})
    archive = write(tmp_path / "archive.parquet", angry_rows())
    (tmp_path / "plain").mkdir()
    compiled = compile_rule_set(rule_set)
    plain = status_history(archive, compiled, tmp_path / "plain", AuditOptions(), Population())
    changes = list(status_changes(plain))
    found = with_risks(changes, (str(archive),), rule_set, chain, AuditOptions(), tmp_path)
    judge = RuleSetJudge(compiled, chain=chain)
    live: list[StatusChange] = []
    nothing = pl.lit(None, event_frame([]).schema["attributes"]).alias("attributes")
    rows = pl.read_parquet(archive).with_columns(nothing)
    for name, frame in rows.group_by("session_id", maintain_order=True):
        judged = judge.judge({str(name[0]): JudgingState()}, [list(frame_events(frame))])
        live += judged.verdicts[0].statuses
    archived, sent = (
        [each for each in changes if each.pack is not None]
        for changes in ([change for _, change in found], live)
    )
    names = [
        {(c.status, c.session_id, c.pack, c.rule, c.is_followed) for c in each} for each in (archived, sent)
    ]
    assert names[0] == names[1]
    at_risk = [{c for c in each if c.status is SessionStatus.AT_RISK} for each in (archived, sent)]
    assert at_risk[0] == at_risk[1]
    assert len(at_risk[0]) > 10


def angry_rows() -> list[dict]:
    """Return the rows of sessions in which users shout early, late, twice or never."""
    texts = [["hi"], ["no!"], ["hi", "no!"], ["no!", "hi", "no!"], ["hi", "hi"]]
    return [
        row
        for number in range(20)
        for row in session(
            f"s{number}",
            *(user(text, agent="bot") for text in texts[number % 5]),
            start=START + number * HOUR,
        )
    ]
