"""The counts of the rules of `examples/markov_desk.py` over an archive of its sessions."""

from __future__ import annotations

from pathlib import Path

from tracline.batch.prediction.tallied import tallied
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.sources.discover import Population
from tracline.examples.markov_desk import MarkovDesk, event_frame
from tracline.predict.chain.learned import Counted
from tracline.predict.counting.split import Split
from tracline.predict.counting.watched_rules import watch
from tracline.rules.packs.load import pack_text

from .markov import PACK


def desk_counts(desk: MarkovDesk, folder: Path) -> list[Counted]:
    """Return the counts of the desk's rules over an archive of it, with the walks of all sessions."""
    folder.mkdir()
    event_frame(desk).write_parquet(folder / "events.parquet")
    scratch = folder / "scratch"
    scratch.mkdir()
    rules = watch(pack_text(PACK))
    archive = [str(folder / "events.parquet")]
    return list(tallied(archive, rules, Split(0.0), scratch, AuditOptions(), Population()).counted())
