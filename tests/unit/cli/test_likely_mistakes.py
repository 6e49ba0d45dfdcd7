"""Likely mistakes in conditions and slice keys, in the output of `tracline audit` and `tracline label`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tracline.batch.prepare import spill
from tracline.cli import tracline

from ...support.event_rows import call, result, session, user, write

pytestmark = pytest.mark.slow

BOOK = 'kind == "tool_call" and tool == "book"'
READ = 'kind == "tool_result" and tool == "read"'
WRONG = {
    'tool in ["cancel_reservatoin", "book", "pay"]': (
        "the tool `cancel_reservatoin` is not called here",
        "did you mean `cancel_reservation`, 1 call?",
    ),
    'kind == "user" or agent != "suport"': (
        "no event has the agent `suport`",
        "did you mean `support`, 2 events?",
    ),
    f'{BOOK} and not (args.cabn == "economy")': (
        "`args.cabn` never exists in the calls of `book`",
        "did you mean `args.cabin`?",
    ),
    f'not ({BOOK}) or args.insurance != "no"': (
        "`args.insurance` never exists in the calls of `book`",
        "there is `args.cabin`, `args.guests`, `args.nights` and 1 more",
    ),
    f"{READ} and args.card not in result.cards[*].id": (
        "`result.cards` is never a list in the results of `read`",
        "it is an object, and only lists have elements to ask for",
    ),
    f"{READ} and not any(result.gests, .age < 12)": (
        "`result.gests` never exists in the results of `read`",
        "did you mean `result.guests`?",
    ),
    f'{BOOK} and args.guests > 5 or tool == "pay"': (
        "`args.guests` is a list in the calls of `book`",
        "the number of its elements is `count(args.guests) > 5`",
    ),
    f'{BOOK} and not (args.tags contains "vip")': (
        "`args.tags` is a list in the calls of `book`",
        'write `any(args.tags, . contains "vip")`',
    ),
    f"{BOOK} and not (args.cabin > 3)": ("`args.cabin` is never a number in the calls of `book`", None),
    f'{BOOK} and not (args.nights > "9")': (
        "`args.nights` is always a number in the calls of `book`, and compares with a text as text",
        "write `args.nights > 9`",
    ),
    f'{READ} and not (result.cards == "c1")': (
        "`result.cards` is an object in the results of `read`",
        "compare a part of it",
    ),
    f'{BOOK} and args.cabin in ["economy", "bussiness"]': (
        '`args.cabin` never has the value "bussiness"',
        'did you mean "business"?',
    ),
    f"{BOOK} and not any(args.guests, .agee < 12)": (
        "`args.guests[*].agee` never exists in the calls of `book`",
        "did you mean `args.guests[*].age`?",
    ),
    f'{READ} and not any(result.guests, .status == "availabel")': (
        '`result.guests[*].status` never has the value "availabel"',
        'did you mean "available"?',
    ),
    'kind == "tool_result" and tool == "pay" and not (result.ok == true)': (
        "`result.ok` never exists in the results of `pay`",
        'they are texts, which `result contains "..."` searches',
    ),
    f"{BOOK} and args.guests[0].agee is null": (
        "`args.guests[0].agee` never exists in the calls of `book`",
        "did you mean `args.guests[*].age`?",
    ),
    f"{BOOK} and not (args.guests[0].cabins == 2)": (
        "`args.guests[0].cabins` never exists in the calls of `book`",
        "there is `args.guests[*].age`",
    ),
    'tool matches /(?i)^cancel_reservatoin/ or kind == "user"': (
        "no tool meets `tool matches /(?i)^cancel_reservatoin/`",
        "did you mean `cancel_reservation`, 1 call?",
    ),
    'tool contains "resrvation" or kind == "user"': (
        'no tool meets `tool contains "resrvation"`',
        "did you mean `cancel_reservation`, 1 call?",
    ),
    f'{READ} and not (result.card == "c1")': (
        "`result.card` never exists in the results of `read`",
        "did you mean `result.cards`?",
    ),
    'kind == "tool_call" and not (result.total > 3)': ("`result.total` never exists in the calls", None),
    'kind == "assistant" and not (args.x > 3)': ("`args.x` never exists in the assistant messages", None),
}
"""Conditions that are true somewhere, with the mistake in each."""

RIGHT = [
    'tool in ["refund", "issue_refund", "book"]',
    'tool in ["cancel_reservation", "cancel_reservations"]',
    'tool not in ["transfer"]',
    f"{BOOK} and (args.price > 3 or args.nights > 3)",
    f"{BOOK} and args.price is null",
    f"{BOOK} and args.nights in [1, 12]",
    f'{BOOK} and args.cabin in ["economy", "first"]',
    f'{BOOK} and args.cabin != "premium"',
    f"{READ} and (result.cards is not null or any(result.cards, .id == 1))",
    'kind == "tool_result" and (args.guest is not null or result.guests is not null)',
    'tool == "never_called" or kind == "user"',
    'not (tool == "never_called" and args.x > 3)',
    'not (tool == "hidden" and args.secret > 3)',
    'kind == "user" and text matches /hello/',
    "tool matches /^(read|never_called)$/",
    'kind == "tool_result" and error is null',
]
"""Conditions that are true somewhere, without a mistake."""


def pack(conditions: list[str], *more: str) -> str:
    """Return a pack with a rule on each condition, and further rules."""
    propositions = [f"  p{number}: '{text}'" for number, text in enumerate(conditions)]
    rules = [f"  - {{id: r{number}, formula: always not p{number}}}" for number in range(len(conditions))]
    return "\n".join(["pack: shop", "propositions:", *propositions, "rules:", *rules, *more])


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of two files in which some tools are called, and the contents of one were not captured."""
    book = {"nights": 12, "guests": [{"age": 3}], "tags": ["vip"], "cabin": "economy"}
    guests = [{"age": 3, "status": "available"}]
    read = {"cards": {"c1": {"id": "c1"}}, "guests": guests}
    first = session(
        "a",
        user("hello"),
        call("book", args=json.dumps(book), agent="support"),
        call("book", "c2", args=json.dumps({**book, "cabin": "business"}), agent="support"),
        call("read", "c3", args='{"card": "c1"}'),
        result("c3", tool="read", args='{"card": "c1"}', result=json.dumps(read)),
    )
    second = session(
        "b",
        call("cancel_reservation", args='{"reservation_id": "r1"}'),
        call("pay", "c2", args='{"reservation_id": "r1"}'),
        result("c2", tool="pay", args='{"reservation_id": "r1"}', result="Paid."),
        {"kind": "tool_call", "tool": "hidden", "content": "absent"},
        {"kind": "assistant", "text": "done"},
    )
    write(tmp_path / "archive" / "a.parquet", first)
    write(tmp_path / "archive" / "b.parquet", second)
    return tmp_path / "archive"


def run(archive: Path, text: str, command: str, *more: str) -> Result:
    """Run a command over the archive with a pack."""
    file = archive.parent / "shop.yaml"
    file.write_text(text)
    done = CliRunner().invoke(tracline, [command, str(archive), "--rules", str(file), *more])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def mistakes(archive: Path, text: str) -> list[dict]:
    """Return the entries of an audit."""
    run(archive, text, "audit", "--out", str(archive.parent / "out"))
    summary = json.loads((archive.parent / "out" / "summary.json").read_text())
    assert summary["never_true"] == []
    return summary["likely_mistakes"]


def test_each_condition_has_its_mistake(archive: Path) -> None:
    """Also under `not`, among right names and in alternatives: the reason, and what is meant."""
    found = mistakes(archive, pack([*WRONG]))
    assert [(each["proposition"], each["reason"], each["suggestion"]) for each in found] == [
        (f"p{number}", *expected) for number, expected in enumerate(WRONG.values())
    ]
    assert [each["rules"] for each in found] == [[f"r{number}"] for number in range(len(WRONG))]
    assert found[2]["condition"] == 'args.cabn == "economy"'
    labelled = json.loads(run(archive, pack([*WRONG]), "label", "--format", "json").stdout)
    assert labelled["likely_mistakes"] == found


def test_right_conditions_have_none(archive: Path) -> None:
    """Alternatives, tools that are not called, absent fields that are asked for, and absent contents."""
    assert mistakes(archive, pack(RIGHT)) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("args.reservation_id", []),
        ("[args.order_id, args.reservation_id]", []),
        ("[[tool, args.reservation_id]]", []),
        ("[args.order_id, tool]", []),
        ("[args.order, args.reservation_id]", []),
        (
            "[args.reservation, args.reservation_id]",
            [("args.reservation", "did you mean `args.reservation_id`?")],
        ),
        ("call_id", []),
        (
            "args.reservationid",
            [("args.reservationid", "did you mean `args.reservation_id`?")],
        ),
        (
            "[args.reservatoin_id, args.reservation_id]",
            [("args.reservatoin_id", "did you mean `args.reservation_id`?")],
        ),
        ("[[tool, args.order]]", [("args.order", "there is `args.reservation_id`")]),
        ("service", [("service", None)]),
    ],
)
def test_a_slice_key_that_no_event_has_is_a_mistake(
    archive: Path, key: str, expected: list[tuple[str, str | None]]
) -> None:
    """Of alternatives one is enough, unless the others are misspelt; a tuple needs all."""
    text = pack(['tool in ["cancel_reservation", "pay"]']) + f"\n  - {{id: k, formula: p0, for_each: {key}}}"
    found = mistakes(archive, text)
    events = "the events of `cancel_reservation`, `pay`"
    assert [(each["reason"], each["suggestion"]) for each in found] == [
        (f"`{path}` never exists in {events}", suggestion) for path, suggestion in expected
    ]
    assert all(each["proposition"] is None and each["rules"] == ["k"] for each in found)
    lines = run(archive, text, "label").stdout
    assert all(f"shop/k: for_each: {key}: `{path}` never exists" in lines for path, _ in expected)


def test_the_key_of_a_rule_about_nothing_here_is_no_mistake(archive: Path) -> None:
    """A rule of which no proposition is ever true is listed by its propositions."""
    text = pack(['tool == "refund"']) + "\n  - {id: k, formula: p0, for_each: args.order_id}"
    run(archive, text, "audit", "--out", str(archive.parent / "out"))
    assert json.loads((archive.parent / "out" / "summary.json").read_text())["likely_mistakes"] == []


def test_the_table_shows_some_and_the_summary_all(archive: Path) -> None:
    """Many mistakes do not hide the results."""
    texts = [f"{BOOK} and not (args.wrong_{'x' * number} == 1)" for number in range(1, 31)]
    table = run(archive, pack(texts), "audit", "--out", str(archive.parent / "out")).stdout
    assert table.count("never exists") == 20
    assert "  and 10 more" in table
    assert len(mistakes(archive, pack(texts))) == 30


def test_the_mistakes_are_the_same_however_the_rows_are_read(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes of a few rows find the same."""
    whole = mistakes(archive, pack([*WRONG]))
    monkeypatch.setattr(spill, "PASS_ROWS", 4)
    assert mistakes(archive, pack([*WRONG])) == whole


def choosing(folder: Path) -> Path:
    """Return an archive in which a cabin is chosen thirty times, and results that are errors are texts."""
    steps = [user("hello")]
    for at in range(30):
        cabin = json.dumps({"cabin": ["economy", "business"][at % 2], "seat": f"row {at}"})
        read = json.dumps({"class": {"cabin": "first" if at else "none"}, "fare": "first"})
        steps.append(call("book", f"b{at}", args=cabin))
        steps.append(result(f"b{at}", tool="book", result="Error: full" if at % 3 else "{}"))
        steps.append(result(f"r{at}", tool="read", result=read))
        steps.append(result(f"f{at}", tool="fetch", result="Error: gone", error=None if at else "gone"))
    write(folder / "archive" / "a.parquet", session("a", *steps))
    return folder / "archive"


def test_a_value_that_is_not_among_a_few_is_a_mistake(tmp_path: Path) -> None:
    """The place that has it is named, one with the same key first; else the values that there are."""
    conditions = [
        f'{BOOK} and not (args.cabin == "first")',
        f'{BOOK} and args.cabin in ["economy", "premium"]',
        f'{BOOK} and args.seat != "aisle"',
        f'{BOOK} and args.cabin in ["economy", "business"]',
    ]
    found = mistakes(choosing(tmp_path), pack(conditions))
    assert [(each["proposition"], each["reason"], each["suggestion"]) for each in found] == [
        (
            "p0",
            '`args.cabin` never has the value "first"',
            "`result.class.cabin` in the results of `read` has it",
        ),
        ("p1", '`args.cabin` never has the value "premium"', 'its values are "business", "economy"'),
    ]


def test_errors_that_are_texts_are_no_errors(tmp_path: Path) -> None:
    """A condition on `error` is a mistake where no result has one and some begin with `Error`."""
    asked = 'kind == "tool_result" and tool == "{}" and error is null{}'
    right = asked.format("book", ' and not result starts with "Error"')
    conditions = [asked.format("book", ""), right, asked.format("read", ""), asked.format("fetch", "")]
    found = mistakes(choosing(tmp_path), pack(conditions))
    assert [(each["proposition"], each["condition"], each["reason"]) for each in found] == [
        (
            "p0",
            "error is null",
            "`error` is null in all of the results of `book`, but 20 of them begin with `Error`",
        )
    ]
    assert found[0]["suggestion"].startswith('add `not result starts with "Error"` for success')
