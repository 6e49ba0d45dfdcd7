"""The glossary: each term has one row, and its names in code exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Term |")
]
"""The cells of each row: term, meaning, names in code, source."""


def test_each_term_has_one_row_and_one_sentence() -> None:
    """No term occurs twice, and each meaning is one sentence."""
    assert [term for term, count in Counter(row[0] for row in ROWS).items() if count > 1] == []
    assert [row[0] for row in ROWS if not re.fullmatch(r"[A-Z][^.!?]*(\.\w[^.!?]*)*\.", row[1])] == []


def test_names_in_code_exist() -> None:
    """Each row names modules that exist, and types or functions that the last of them defines."""
    wrong: list[str] = []
    for term, _, code, _ in ROWS:
        names = re.findall(r"`([^`]+)`", code)
        paths = [name for name in names if "/" in name]
        missing = [path for path in paths if not (ROOT / path).is_file()]
        text = "" if missing or not paths else (ROOT / paths[-1]).read_text(encoding="utf-8")
        types = [
            name
            for name in names
            if "/" not in name and not re.search(rf"^(class|def) {name}\b", text, re.MULTILINE)
        ]
        wrong += [f"{term}: {name}" for name in [*missing, *types]] + (
            [] if paths else [f"{term}: no module"]
        )
    assert wrong == []
