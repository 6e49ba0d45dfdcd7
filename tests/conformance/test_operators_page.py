"""The page on shipped operators shows the library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tracline.rules.language.parse import parse_formula
from tracline.rules.model.problem import RuleError
from tracline.rules.packs.load import OPERATORS_FILE, pack_text
from tracline.rules.packs.yaml_document import data, read_document

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_has_every_operator_with_its_formula() -> None:
    """The page's table has the library's heads and bodies, in its order."""
    library = data(read_document(OPERATORS_FILE.read_text("utf-8"), OPERATORS_FILE.name).root)
    assert isinstance(library, dict)
    operators = library["operators"]
    assert isinstance(operators, dict)
    rows = re.findall(r"^\| `(\w+\([pq, ]+\))` \| .+ \| `(.+)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(head, body) for head, body in operators.items()]


def test_names_are_expanded_and_bits_are_reserved() -> None:
    """A call expands to the formula of the table, and a pack cannot use the library's bits."""
    text = "pack: x\npropositions: {p: nested}\nrules:\n  - {id: r, formula: always holds_at_odd(p)}\n"
    (rule,) = pack_text(text).rules
    assert rule.formula == parse_formula("always historically (tracline_odd -> p)")
    assert list(rule.transitions) == ["tracline_odd"]
    with pytest.raises(RuleError, match="TRL120"):
        pack_text(text.replace("always holds_at_odd(p)", "always (p -> tracline_odd)"))
