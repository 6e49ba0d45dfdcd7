"""The cost of following a chain: `PYTHONPATH=. python benchmarks/live/chained.py [SPANS]`.

The stage of a monitor takes the desk's spans as in `benchmarks/live/stages.py`, with and without a chain that
was learned from 1,000 other conversations of the desk, in turns. Prints microseconds of processor time a span
and their ratio, by the medians of the polls; the goal is 1.1. With `--profile` it prints the profile of the
polls with the chain.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import tempfile
from pathlib import Path
from statistics import median

from click.testing import CliRunner
from tracline.cli import tracline
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import events
from tracline.predict.folder.load import load_chain
from tracline.predict.following.loaded_chains import LoadedChains
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.frames.events import event_frame

from benchmarks.desk_spans import desk_spans, traces
from benchmarks.live.stages import SPANS, WARM, Load, polls

LEARNED = 1_000
ABOVE = 0.1
GOAL = 1.1


def main() -> None:
    """Run the benchmark and print the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("spans", type=int, nargs="?", default=SPANS)
    parser.add_argument("--chain", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chain = load_chain(options.chain or learned(Path(folder)))
    packs = load_packs(shipped_packs())
    chains = LoadedChains({chain.digest: chain}, ABOVE)
    followed = chains.followed(chain.digest, packs)
    assert followed is not None
    requests = traces(desk_spans(options.spans))
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    profiler = cProfile.Profile() if options.profile else None
    plain, chained = Load("plain", requests), Load("chained", requests)
    rules = dict(packs.sources)
    running = [polls(plain, rules), polls(chained, rules, profiler, chains)]
    while running:
        running = [each for each in running if next(each, False)]
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(60)
    took = [median(load.seconds["monitor"][WARM:]) * 1e6 for load in (plain, chained)]
    pairs = zip(plain.seconds["monitor"][WARM:], chained.seconds["monitor"][WARM:], strict=True)
    ratio = median(after / before for before, after in pairs)
    print(f"{len(packs.rules)} rules, {len(followed.risks)} of them followed")
    print(f"{took[0]:.0f} us a span, with the chain {took[1]:.0f} us: {ratio:.2f} times (goal: {GOAL})")


def learned(folder: Path) -> Path:
    """Return the chain of other conversations."""
    chats = map(events, conversations(Desk(sessions=LEARNED, seed=2)))
    archive, out = folder / "archive.parquet", folder / "chain"
    event_frame([event for chat in chats for event in chat]).write_parquet(archive)
    args = ["predict", "learn", archive, "--rules", *shipped_packs(), "--out", out]
    done = CliRunner().invoke(tracline, list(map(str, args)))
    assert done.exit_code == 0, done.output
    return out


if __name__ == "__main__":
    main()
