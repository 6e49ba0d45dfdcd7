"""Compile the loops of the live processes, judge recorded and simulated spans, and print what compiled late.

A program of `test_compile_loops.py`. A loop that Numba loads from its cache counts as one that it compiles.
"""

from __future__ import annotations

from typing import Any

from numba.core.dispatcher import Dispatcher
from tracline.stream.stages.compile_loops import compile_monitor_loops, compile_rekey_loops


def note_compiled(names: list[str]) -> None:
    """Let each loop that has no code yet for the types of a call add its name."""
    compiled = Dispatcher.compile

    def compile_(dispatcher: Any, sig: Any) -> Any:
        before = len(dispatcher.overloads)
        found = compiled(dispatcher, sig)
        if len(dispatcher.overloads) > before:
            names.append(dispatcher.py_func.__name__)
        return found

    Dispatcher.compile = compile_


def main() -> None:
    """Print how many loops each process compiles at its start, and the names of those compiled later."""
    names = list[str]()
    note_compiled(names)
    compile_rekey_loops()
    rekey = len(names)
    compile_monitor_loops(follows=True)
    monitor = len(names) - rekey
    # Some of its modules call loops when they are imported.
    from tracline.rules.packs.load import load_packs, shipped_packs

    from benchmarks.live.stages import loads, polls

    from ..support.chains.chains_by_symbol import ChainsByState

    names.clear()
    rules = dict(load_packs(shipped_packs()).sources)
    for load in loads(600):
        for _ in polls(load, rules, chains=ChainsByState()):
            pass
    print(rekey, monitor, *names)


if __name__ == "__main__":
    main()
