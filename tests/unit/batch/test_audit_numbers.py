"""Audits by rules about numbers with many digits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

from .audit_rows import call, session, write

PACK = """
pack: p
propositions:
  large: kind == "tool_call" and args.n {question}
rules:
  - {{id: r, formula: always not large}}
"""


@pytest.mark.parametrize(
    ("question", "violating"),
    [
        ("== 9007199254740992", ["9007199254740992", "9007199254740992.0"]),
        ("== -9007199254740992", ["-9007199254740992"]),
        ("in [9007199254740993, 5]", ["9007199254740993"]),
        ("> 9007199254740992", ["9007199254740993", "18446744073709551616", "3e23"]),
        ("== 18446744073709551616.0", ["18446744073709551616"]),
        ("== 3e23", ["3e23"]),
        ("== 0.30000000000000004", ["0.30000000000000004"]),
        ('== "0.30000000000000004"', ["0.30000000000000004"]),
    ],
)
def test_a_rule_about_a_large_number_is_checked_and_audited(
    tmp_path: Path, question: str, violating: list[str]
) -> None:
    """Numbers that `check` passes are judged, and a comparison for equality goes by value."""
    numbers = [
        *("9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740992", "0.3"),
        *("9007199254740992.0", "18446744073709551616", "3e23", "0.30000000000000004"),
    ]
    rows = [row for number in numbers for row in session(number, call(args=f'{{"n": {number}}}'))]
    archive = write(tmp_path / "archive" / "events.parquet", rows).parent
    pack, out = tmp_path / "pack.yaml", tmp_path / "bundle"
    pack.write_text(PACK.format(question=question))
    checked = CliRunner().invoke(tracline, ["check", str(pack)])
    assert checked.exit_code == 0, checked.output
    audited = CliRunner().invoke(tracline, ["audit", str(archive), "--rules", str(pack), "--out", str(out)])
    assert audited.exit_code == 0, audited.output
    lines = (out / "verdicts.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["session_id"] for line in lines) == sorted(violating)
