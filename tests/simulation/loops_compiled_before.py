"""Compile the loops of the live processes, judge recorded and simulated spans, and print what compiled late.

A program of `test_compile_loops.py`, with a cache of its own.
"""

from __future__ import annotations

from typing import Any

from numba.core import event
from tracline.stream.stages.compile_loops import compile_monitor_loops, compile_rekey_loops


class Compiled(event.Listener):
    """The names of the loops that were compiled."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        """Note the loop."""
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: Any) -> None:
        """Note nothing."""


def main() -> None:
    """Print how many loops each process compiles at its start, and the names of those compiled later."""
    compiled = Compiled()
    event.register("numba:compile", compiled)
    compile_rekey_loops()
    rekey = len(compiled.names)
    compile_monitor_loops(follows=True)
    monitor = len(compiled.names) - rekey
    # Some of its modules call loops when they are imported.
    from tracline.rules.packs.load import load_packs, shipped_packs

    from benchmarks.live.stages import loads, polls

    from ..support.chains.chains_by_symbol import ChainsByState

    compiled.names.clear()
    rules = dict(load_packs(shipped_packs()).sources)
    for load in loads(600):
        for _ in polls(load, rules, chains=ChainsByState()):
            pass
    print(rekey, monitor, *compiled.names)


if __name__ == "__main__":
    main()
