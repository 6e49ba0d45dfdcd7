"""Compile the product's loops before tests run, once for all of their processes.

Numba compiles a function where it is first called and stores the result beside the module. In a fresh clone
each process of a parallel run would compile the same functions at the same time.
`python -m tests.simulation.compile_loops` calls them: a simulated pipeline and audits of its archive in one
process, the walk over requests in another.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from tempfile import TemporaryDirectory

from tracline.stream.stages.compile_loops import compile_rekey_loops

from ..support.event_rows import PACK, call, session, user, write
from ..support.processes.live import audited
from .simulated_pipeline import SimulatedPipeline

SEED = 5
"""A seed whose simulation has verdicts, restarts and an archive."""


def judge(folder: Path) -> None:
    """Audit a few rows, and run a simulated pipeline to its end."""
    (folder / "pack.yaml").write_text(PACK)
    rows = session("a", user("no!"), call("pay")) + session("b", call("pay", "c"), call("pay", "c"))
    write(folder / "rows" / "events.parquet", rows)
    audited(folder / "rows", folder / "pack.yaml", folder / "audited")
    simulation = SimulatedPipeline(SEED, folder)
    simulation.run()
    audited(simulation.archive, simulation.packs[0], folder / "bundle")


def main() -> None:
    """Compile in two processes."""
    # Forked before any thread begins.
    walker = multiprocessing.get_context("fork").Process(target=compile_rekey_loops)
    walker.start()
    with TemporaryDirectory() as folder:
        judge(Path(folder))
    walker.join()


if __name__ == "__main__":
    main()
