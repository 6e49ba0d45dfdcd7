"""The page of policy patterns, executed: each pack of docs/policies.md is checked and tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
PACKS = dict(re.findall(r"^```yaml pack\npack: (.*)\n((?:(?!```).*\n)*)^```$", PAGE, re.MULTILINE))
PATTERNS = re.findall(r"^\| .* \| \[.*\]\(#(.*)\) \|$", PAGE, re.MULTILINE)


def test_the_table_lists_every_pattern_and_each_has_a_pack() -> None:
    """The table's links are the headings below it, and there are a dozen."""
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert [heading.lower().replace(" ", "-") for heading in headings] == PATTERNS
    assert len(PACKS) == len(PATTERNS) == 12


@pytest.mark.parametrize("name", PACKS)
def test_a_pattern_is_clean_and_its_examples_pass(name: str, tmp_path: Path) -> None:
    """`tracline check` has nothing to remark, and examples of both kinds pass."""
    pack = tmp_path / f"{name}.yaml"
    pack.write_text(f"pack: {name}\n{PACKS[name]}", encoding="utf-8")
    assert PACKS[name].count("      violated:\n") == PACKS[name].count("      holds:\n") == 1
    checked = CliRunner().invoke(tracline, ["check", str(pack)])
    assert (checked.exit_code, checked.stderr) == (0, ""), checked.output
    tested = CliRunner().invoke(tracline, ["test", str(pack)])
    assert tested.exit_code == 0, tested.output
