"""`tracline init`: the pack that it writes, whole calls, and what it takes tools for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from tracline.cli import tracline
from tracline.rules.lint.reachability import reachable_verdicts
from tracline.rules.lint.suggest import TOOL_PATTERNS, Tool, tools_named
from tracline.rules.packs.load import load_packs

from ...support.event_rows import session, user, write
from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

PARENT = "customer-service"
SHIPPED = {
    name: predicate for rule in load_packs(PARENT).rules for name, predicate in rule.propositions.items()
}
RENAMED = {
    "cancel_pending_order": "cancelOrder",
    "return_delivered_order_items": "start_return_for_order",
    "exchange_delivered_order_items": "swap_items",
    "modify_pending_order_items": "edit_order_items",
    "modify_pending_order_address": "change_shipping_address",
    "modify_user_address": "crm.update_customer",
    "find_user_id_by_email": "lookup_customer",
    "find_user_id_by_name_zip": "verify_identity",
    "get_order_details": "fetch_order",
    "issue_refund": "pay-back",
    "request_approval": "ask_for_approval",
    "transfer_to_human_agents": "escalate",
}
"""The simulated desk's tools, and what another desk might call them."""


def run(*words: str | Path) -> Result:
    """One call of `tracline`."""
    return CliRunner().invoke(tracline, [str(word) for word in words])


@cache
def written(source: Path, name: str = "") -> Path:
    """The pack that `init` writes for a source, named after that."""
    out = source.with_name(f"{name or source.stem}.yaml")
    done = run("init", source, "--out", out, "--force", "--quiet")
    assert done.exit_code == 0, done.output
    return out


@cache
def audited(source: Path, pack: Path | str) -> Path:
    """The bundle of an audit of the source."""
    bundle = source.with_name(f"bundle-{source.stem}-{Path(pack).stem}")
    done = run("audit", source, "--rules", pack, "--out", bundle)
    assert done.exit_code == 0, done.output
    return bundle


def found(source: Path, pack: Path | str) -> set[tuple[str, str, str, str]]:
    """Return session, rule, event and verdict of what an audit of the source finds."""
    rows = bundle_lines(audited(source, pack))
    return {(row["session_id"], row["rule"], row["event_id"], row["verdict"]) for row in rows}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events of a simulated desk whose agent breaks rules now and then."""
    folder = tmp_path_factory.mktemp("desk")
    assert run("demo", "--sessions", "300", "--out", folder / "demo").exit_code == 0
    events = [pl.read_parquet(path) for path in sorted((folder / "demo" / "archive").rglob("*.parquet"))]
    (folder / "events").mkdir()
    pl.concat(events).write_parquet(folder / "events" / "all.parquet")
    return folder / "events"


@pytest.fixture(scope="module")
def other_desk(desk: Path) -> Path:
    """The same events at a desk whose tools have other names."""
    folder = desk.with_name("other")
    folder.mkdir()
    events = pl.read_parquet(desk / "all.parquet")
    events.with_columns(pl.col("tool").replace(RENAMED)).write_parquet(folder / "all.parquet")
    return folder


def test_the_pack_is_sound_and_finds_what_the_shipped_one_finds(desk: Path) -> None:
    """`check`, `test` and `audit` accept it as written; of the rules it has, no verdict is lost or added."""
    pack = written(desk)
    assert run("check", pack).stdout.splitlines()[-1].endswith("0 errors, 0 warnings")
    assert run("test", pack).exit_code == 0
    rules = {rule.id for rule in load_packs(pack).rules}
    assert len(rules) >= 10
    shipped = {finding for finding in found(desk, PARENT) if finding[1] in rules}
    assert shipped
    assert found(desk, pack) == shipped


def test_tools_of_other_names_are_found(desk: Path, other_desk: Path) -> None:
    """If the shipped pack is blind, the suggested one finds the same under the names it knows."""
    pack = written(other_desk)
    assert run("check", pack).stdout.splitlines()[-1].endswith("0 errors, 0 warnings")
    rules = {rule.id for rule in load_packs(pack).rules}
    assert rules == {rule.id for rule in load_packs(written(desk)).rules}
    expected = {finding for finding in found(desk, PARENT) if finding[1] in rules}
    assert found(other_desk, pack) == expected
    assert expected - found(other_desk, PARENT)


def test_comments_explain_why_and_what_would_be_flagged(other_desk: Path) -> None:
    """Tools with their use, each guess with its calls, each rule with its sessions, each that is left out."""
    pack = written(other_desk)
    text = pack.read_text()
    assert "#   fetch_order" in text
    assert "# guessed from their names: `lookup_customer` (" in text
    summary = json.loads((audited(other_desk, pack) / "summary.json").read_text())
    row = summary["rules"]["confirm-before-refund"]
    flagged = (
        f"{row['sessions_violating']} of {row['sessions_applicable']} sessions that it applies to: chat-"
    )
    (line,) = [line for line in text.splitlines() if line.startswith("#   critical  confirm-before-refund")]
    assert flagged in line
    assert "# no tool for `booking_change`: no session could break it\n  - identify-before-booking" in text
    assert "privacy names no tools; use it unchanged" in text


def test_the_same_source_gives_the_same_pack(desk: Path) -> None:
    """Nothing in it hangs on the time, the machine or chance."""
    assert written(desk, "one").read_text() == written(desk, "two").read_text().replace("two", "one")


def test_a_hostile_source_writes_nothing_of_its_own(tmp_path: Path) -> None:
    """Messages and arguments are nowhere in the pack; names with odd signs are in no expression."""
    hostile = 'refund"] or true\n  - {id: x}\n\x1b]0;owned\x07#\ufffe\ufeff\x85\u2028'
    rows = session(
        "s\n  drop: []",
        user("my password is swordfish"),
        {"kind": "tool_call", "tool": hostile, "call_id": "c", "args": '{"swordfish": "swordfish"}'},
        {"kind": "tool_call", "tool": "refund_order", "call_id": "d", "args": '{"a b\\nc": 1}'},
        {"kind": "tool_result", "tool": "refund_order", "call_id": "d", "result": "swordfish"},
    )
    pack = written(write(tmp_path / "rows.parquet", [{**row, "agent": "a\nb"} for row in rows]))
    text = pack.read_text()
    assert '"swordfish"' not in text
    assert "password is" not in text
    assert "\x1b" not in text
    assert run("check", pack).exit_code == 0
    (rule,) = [rule for rule in load_packs(pack).rules if rule.id == "confirm-before-refund"]
    assert tools_named(rule.propositions["refund"]) == {"refund_order"}


def test_an_amount_of_another_name_is_asked_for(tmp_path: Path) -> None:
    """If no tool for refunds takes `amount`, the argument that is named like one is compared."""
    rows = session(
        "s",
        {"kind": "tool_call", "tool": "refund_order", "args": '{"orderId": "1", "refundTotal": 900}'},
        {"kind": "tool_result", "tool": "give_approval", "result": '{"status": "approved"}'},
    )
    text = written(write(tmp_path / "rows.parquet", rows)).read_text()
    assert 'tool == "refund_order" and args.refundTotal > 500' in text
    assert "judged for each `order_id`, which these tools do not take: `refund_order`" in text


def test_a_source_without_tools_gives_a_pack_of_rules_on_words(tmp_path: Path) -> None:
    """All rules that need tools are left out, and what is left is sound."""
    pack = written(write(tmp_path / "rows.parquet", session("s", user("hello"))))
    assert {rule.id for rule in load_packs(pack).rules} == {"answer-within-three-turns", "survey-once"}
    assert "# No tool of the source matches a proposition of customer-service." in pack.read_text()
    assert run("check", pack).stdout.splitlines()[-1] == "1 pack, 2 rules, 0 errors, 0 warnings"


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    """TRL607 unless `--force`; the pack is named after its file, as far as that can be a name."""
    source = write(tmp_path / "rows.parquet", session("s", user("hello")))
    out = tmp_path / "new" / "my desk (2).yaml"
    assert run("init", source, "--out", out).exit_code == 0
    assert "\npack: my-desk-2\n" in out.read_text()
    out.write_text("mine")
    refused = run("init", source, "--out", out)
    assert (refused.exit_code, out.read_text()) == (2, "mine")
    assert "TRL607 file exists" in refused.stderr
    assert run("init", source, "--out", out, "--force").exit_code == 0
    assert "pack: my-desk-2" in out.read_text()


def test_a_source_without_events_is_an_error(tmp_path: Path) -> None:
    """TRL608 lists what to name; what cannot be read is rejected as by an audit; no file is written."""
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "broken.json").write_text('[{"messages": 7}]')
    out = tmp_path / "desk.yaml"
    for name, code in (("empty", "TRL608"), ("broken", "TRL603")):
        done = run("init", tmp_path / f"{name}.json", "--out", out)
        assert done.exit_code == 2
        assert code in done.stderr
        assert "hint: " in done.stderr
    assert not out.exists()


# ---- what tools are taken for

ARGUMENTS = {"reservation": "reservation_id", "order": "order_id", "refund": "order_id"}


@pytest.mark.parametrize("name", TOOL_PATTERNS[PARENT])
def test_words_find_the_tools_that_the_shipped_pack_names(name: str) -> None:
    """For each proposition the table's words mean its tools, and of the others only a look-up of a person."""
    known = frozenset[str]().union(*map(tools_named, SHIPPED.values()))
    taken = {
        tool
        for tool in known
        for role in TOOL_PATTERNS[PARENT][name]
        if role.fits(Tool(tool, tuple(arg for word, arg in ARGUMENTS.items() if word in tool)))
    }
    extra = {"traveller_known": {"find_user_id_by_email", "find_user_id_by_name_zip"}}
    # The shipped pack leaves out refunds under names that the desks it was written for do not use.
    named = tools_named(SHIPPED[name]) | ({"refund", "process_refund", "create_refund"} & taken)
    assert taken == named | extra.get(name, set())


def test_every_proposition_that_names_tools_has_its_words() -> None:
    """The table is whole: nothing that asks for a tool is left to the names of the shipped pack."""
    assert set(TOOL_PATTERNS[PARENT]) == {
        name for name, predicate in SHIPPED.items() if tools_named(predicate)
    }


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("transfer_to_refund_agent", set()),
        ("get_refund_status", set()),
        ("calculate", set()),
        ("search_flights", set()),
        ("login", {"authenticated"}),
        ("RefundPayment", {"refund", "large_refund", "write_done"}),
        ("rebookFlight", {"booking_change", "write_done"}),
        ("escalate_to_human", {"hands_over", "handed_over"}),
        ("get_booking", {"order_seen", "traveller_known"}),
    ],
)
def test_names_of_other_desks(tool: str, names: set[str]) -> None:
    """Snake and camel case, plurals, and names that only look like it."""
    roles = TOOL_PATTERNS[PARENT]
    assert {name for name in roles if any(role.fits(Tool(tool)) for role in roles[name])} == names


def test_what_is_left_of_a_rule_without_a_tool() -> None:
    """A guard that never holds breaks every session; a cause that never comes breaks none; either may do."""
    rules = {rule.id: rule for rule in load_packs(PARENT).rules}
    uses = {
        ("authenticate-first", "authenticated"): (True, False),
        ("authenticate-first", "refund"): (True, True),
        ("authenticate-before-reading", "order_read"): (False, False),
        ("confirm-before-refund", "refund"): (True, True),
        ("answer-within-three-turns", "hands_over"): (True, True),
        ("handover-is-final", "handed_over"): (False, True),
    }
    for (rule, name), expected in uses.items():
        left = reachable_verdicts(rules[rule], [name])
        assert (left.can_violate, left.can_hold) == expected, (rule, name)
    for rule in rules.values():
        assert reachable_verdicts(rule, []).can_violate
        assert reachable_verdicts(rule, []).can_hold
