"""A chain of the tests' pack, learned by the command from conversations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from click.testing import CliRunner
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.cli import tracline
from tracline.predict.folder.load import load_chain
from tracline.predict.following.followed_chain import FollowedChain, followed_chain
from tracline.rules.packs.load import load_packs
from tracline.schemas.event import end_event
from tracline.schemas.frames.events import event_frame
from tracline.schemas.time import NS
from tracline.stream.console.risks import ServedChain

from ..conversations.scripts import START_NS, random_session
from ..conversations.span_plan import Manner
from ..evidence.bundle_lines import bundle_lines
from ..truth.conversations import PlayedSession, answered_once, paced

CONVERSATIONS = range(1_000, 1_080)
"""The seeds of the conversations that the chain is learned from."""
ABOVE = 0.3
"""The threshold of rules without a guaranteed one."""


def learned_chain(folder: Path, pack: Path) -> Path:
    """Return the folder of a chain of the pack's rules, in a folder of the caller."""
    events = [
        event
        for place, seed in enumerate(CONVERSATIONS)
        for event in _closed(paced(answered_once(random_session(seed)), START_NS + 7_200 * place * NS, 15))
    ]
    archive, chain = folder / "learned.parquet", folder / "desk.chain"
    event_frame(events).write_parquet(archive)
    args = ["predict", "learn", archive, "--rules", pack, "--out", chain, "--within", "3"]
    done = CliRunner().invoke(tracline, list(map(str, args)))
    assert done.exit_code == 0, done.output
    return chain


def _closed(script) -> list:
    played = PlayedSession(script, Manner()).events
    last = played[-1]
    return [*played, end_event(last.session_id, last.occurrence, last.time, last.seq + 1, {})]


@cache
def served_chain(chain: Path, pack: Path) -> ServedChain:
    """Return the chain as `serve` has it."""
    learned = load_chain(chain)
    return ServedChain(learned, followed(chain, pack))


@cache
def followed(chain: Path, pack: Path) -> FollowedChain:
    """Return the chain as the pack's rules are followed."""
    return followed_chain(load_chain(chain), load_packs([pack]), ABOVE)


def audited_crossings(
    archive: Path, pack: Path, chain: Path, out: Path, options: AuditOptions
) -> Sequence[dict]:
    """Return the crossings of an audit of an archive by the chain."""
    audit(archive, load_packs([pack]), out, options, chain=followed(chain, pack))
    return bundle_lines(out, "risk.jsonl")
