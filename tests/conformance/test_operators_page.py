"""The page on shipped operators shows the library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.problem import RuleError
from tracline.rules.packs.load import LIBRARY, OPERATORS_FILE, pack_text
from tracline.rules.packs.yaml.document import data, read_document

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_has_every_operator_with_its_formula() -> None:
    """The page's table has the library's heads and bodies, in its order."""
    library = data(read_document(OPERATORS_FILE.read_text("utf-8"), OPERATORS_FILE.name).root)
    assert isinstance(library, dict)
    operators = library["operators"]
    assert isinstance(operators, dict)
    rows = re.findall(r"^\| `(\w+\([pq, ]+\))` \| .+ \| `(.+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(head, body) for head, body in operators.items()]


@pytest.mark.parametrize("name", ["customer-service", "tool-hygiene", "privacy"])
def test_the_page_has_the_operators_of_each_pack(name: str) -> None:
    """The second table has the heads in the pack's file, in their order."""
    file = LIBRARY / f"{name}.yaml"
    pack = data(read_document(file.read_text("utf-8"), file.name).root)
    assert isinstance(pack, dict)
    rows = re.findall(r"^\| `(.+?)` \| ([a-z-]+) \| .+ \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [head for head, of in rows if of == name] == [*pack.get("operators", {})]


@pytest.mark.slow
def test_the_pack_that_uses_one_is_clean_and_its_examples_pass(tmp_path: Path) -> None:
    """`tracline check` has nothing to remark, and examples of both kinds pass."""
    (text,) = re.findall(r"^```yaml pack\n((?:(?!```).*\n)*)^```$", PAGE.read_text("utf-8"), re.MULTILINE)
    (tmp_path / "upgrades.yaml").write_text(text, encoding="utf-8")
    for command in ("check", "test"):
        done = CliRunner().invoke(tracline, [command, str(tmp_path / "upgrades.yaml")])
        assert (done.exit_code, done.stderr) == (0, ""), done.output


def test_names_are_expanded_and_bits_are_reserved() -> None:
    """A call expands to the formula of the table, and a pack cannot use the library's bits."""
    text = "pack: x\npropositions: {p: nested}\nrules:\n  - {id: r, formula: always holds_at_odd(p)}\n"
    (rule,) = pack_text(text).rules
    assert rule.formula == parse_formula("always historically (tracline_odd -> p)")
    assert list(rule.transitions) == ["tracline_odd"]
    with pytest.raises(RuleError, match="TRL120"):
        pack_text(text.replace("always holds_at_odd(p)", "always (p -> tracline_odd)"))
