"""A small chain, learned by the command from an archive that is written here."""

from __future__ import annotations

from pathlib import Path
from random import Random

from click.testing import CliRunner
from tracline.cli import tracline

from ..event_rows import session, user, write

PACK = """
pack: desk
version: 1
propositions: {p: text contains "p", q: text contains "q"}
rules:
  - {id: answered, formula: always (p -> eventually q)}
  - {id: never-twice, formula: always (p -> not previous p)}
"""


def learned_chain(folder: Path, *options: str) -> Path:
    """Return the chain of 200 sessions of two agents, which learn with these options."""
    (folder / "desk.yaml").write_text(PACK)
    draw = Random(5)
    rows = [
        row
        for number in range(200)
        for row in session(
            f"s{number:03}",
            *(
                user(text, agent="ab"[number % 2])
                for text in draw.choices(["", "p", "q"], k=draw.randint(2, 6))
            ),
        )
    ]
    write(folder / "archive" / "0.parquet", rows)
    chain = folder / "desk.chain"
    args = ["predict", "learn", folder / "archive", "--rules", folder / "desk.yaml", "--out", chain, *options]
    done = CliRunner().invoke(tracline, list(map(str, args)))
    assert done.exit_code == 0, done.output
    return chain
