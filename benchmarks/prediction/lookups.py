"""The cost of looking a risk up, beside Storm's check of the same product.

    PYTHONPATH=. python benchmarks/prediction/lookups.py

A chain of the shipped packs is learned from simulated conversations. At random events of its contexts, one
risk is a gather from a rule's table, as monitors and audits look it up. Storm (`make test-storm` installs it)
reads the rule's product in PRISM's language and checks the probability within five events, as a monitor
without a table would have to at each step; `check alone` keeps the model. The goals are 50 ns a gather and
10,000 gathers for a check.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tracline.predict.folder.learned_chain import LearnedChain
    from tracline.predict.following.followed_risks import FollowedRisks

PACKS = ["customer-service", "tool-hygiene", "privacy"]
WITHIN, GATHERS, ROUNDS, CHECKS = 5, 1_000_000, 7, 5
STORM = Path(__file__).parents[2] / ".storm" / "bin" / "python"
SCRIPT = """
import json, sys, time
import stormpy
from stormpy import io
path, wanted, checks = sys.argv[1], stormpy.parse_property(sys.argv[2]), int(sys.argv[3])
def once():
    before = time.process_time()
    model = stormpy.build_model(io.parse_prism_program(path))
    built = time.process_time()
    stormpy.model_checking(model, wanted)
    return time.process_time() - before, time.process_time() - built
once()
found = [once() for _ in range(checks)]
print(json.dumps({"whole": min(each[0] for each in found), "check": min(each[1] for each in found)}))
"""


def main() -> None:
    """Learn the chain, and print the cost of a gather, of a look-up by names, and of Storm's checks."""
    from tracline.predict import load_chain
    from tracline.predict.following.followed_chain import followed_chain
    from tracline.rules.packs.load import load_packs

    with tempfile.TemporaryDirectory() as folder:
        chain_folder = Path(folder) / "chain"
        learn(Path(folder), chain_folder)
        chain = load_chain(chain_folder)
        followed = followed_chain(chain, load_packs(PACKS), 0.01)
        gathers = [gathered(risks) for risks in followed.risks.values()]
        each = float(np.median(gathers))
        print(
            f"{len(gathers)} rules: a gather takes {1e9 * each:.0f} ns (at most 50), {1 / each:,.0f} a second"
        )
        print(f"a look-up by names takes {1e6 * named(chain):.0f} us")
        if not STORM.exists():
            print("Storm is not installed: run make test-storm")
            return
        for rule, states, spent in checked(chain_folder, Path(folder)):
            whole, check = (spent[name] / each for name in ("whole", "check"))
            print(f"{rule} ({states} states): Storm takes {1e3 * spent['whole']:.1f} ms a step,", end=" ")
            print(f"{whole:,.0f} gathers (at least 10,000); check alone {check:,.0f}")


def gathered(risks: FollowedRisks) -> float:
    """Return the seconds of one look-up of the risk at a symbol and a row, in any order."""
    names = sorted({each.symbol for each in risks.contexts})
    rows = sorted({(each.state, each.memory) for each in risks.contexts})
    places = risks.places(names, [state for state, _ in rows], [memory for _, memory in rows])
    rng = np.random.default_rng(1)
    symbols, states = (rng.integers(0, size, GATHERS) for size in places.shape)
    return least(lambda: risks.values[places[symbols, states]]) / GATHERS


def learn(folder: Path, chain: Path) -> None:
    """Learn the chain of the shipped packs from simulated conversations."""
    from tracline.examples.desk.bot import Desk, conversations
    from tracline.examples.desk.formats import event_frame

    archive = folder / "archive"
    archive.mkdir()
    event_frame(conversations(Desk(seed=1))).write_parquet(archive / "events.parquet")
    run("learn", archive, "--rules", *PACKS, "--out", chain)


def run(*words: object) -> None:
    """Run a command of `tracline predict`."""
    from click.testing import CliRunner
    from tracline.cli import tracline

    done = CliRunner().invoke(tracline, ["predict", *map(str, words)])
    assert done.exit_code == 0, done.output


def least(work: Callable[[], object]) -> float:
    """Return the processor time of the best round."""
    spent: list[float] = []
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
    return min(spent)


def named(chain: LearnedChain) -> float:
    """Return the seconds of one look-up by the names of rule and symbol."""
    count = 2_000

    def work() -> None:
        for _ in range(count):
            chain.risk("customer-service", "authenticate-first", symbol="start", state=0, within=WITHIN)

    return least(work) / count


def checked(chain: Path, folder: Path) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield rules with the states of their products, and the seconds that Storm takes for one step."""
    for rule in ("confirm-before-refund", "authenticate-first", "look-before-change"):
        path = folder / f"{rule}.prism"
        run("export", chain, "--rule", rule, "--format", "prism", "--out", path)
        wanted = f'P=? [F<={WITHIN} "violated"]'
        done = subprocess.run(
            [STORM, "-c", SCRIPT, path, wanted, str(CHECKS)], check=True, capture_output=True, text=True
        )
        states = len(Path(f"{path}.states.jsonl").read_bytes().splitlines())
        yield rule, states, json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
