"""A chain of the conversations' pack, learned by the command from other conversations than those of tests."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from tracline.cli import tracline
from tracline.schemas.frames.events import event_frame

from ..conversations.days import day

ABOVE = 0.03
"""The threshold of rules without a guaranteed one: low, so that there are many crossings."""


def conversation_chain(folder: Path, pack: Path) -> Path:
    """Return the chain of a day of conversations, whose sessions close by the time."""
    archive, chain = folder / "learned.parquet", folder / "chain"
    events = [event for played in day(7, 40) for event in played.events]
    event_frame(events).write_parquet(archive)
    args = ["predict", "learn", archive, "--rules", pack, "--out", chain, "--hold-out", "0"]
    done = CliRunner().invoke(tracline, list(map(str, args)))
    assert done.exit_code == 0, done.output
    return chain
