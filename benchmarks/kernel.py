"""The speed of the kernel: `python benchmarks/kernel.py [EVENTS]`.

Labels simulated conversations by the 20 rules of `retail.yaml` once, and judges many copies of them as
separate sessions: the kernel alone, on one thread. Prints rule-steps per second of that thread's time,
which other work on the machine disturbs little, and beside them those of the plain stepper.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from tracline.examples.desk.bot import Desk, conversations
from tracline.examples.desk.formats import event_frame
from tracline.rules.engine import kernel
from tracline.rules.engine.judge import CompiledRules, Judged, compile_rule_set, judge
from tracline.rules.engine.sessions import Clock
from tracline.rules.labels.few import WORD_BITS
from tracline.rules.packs.load import load_packs
from tracline.rules.reference.slow_stepper import SteppedEvent, judge_slowly

ROUNDS = 5
CONVERSATIONS = 500
COLUMNS = ("session_id", "occurrence", "time", "seq", "kind", "late", "history", "agent", "event_id")


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    compiled = compile_rule_set(load_packs([Path(__file__).with_name("retail.yaml")]))
    events = event_frame(conversations(Desk(sessions=CONVERSATIONS, seed=1)))
    labelled = compiled.labeler.label(events.lazy(), keep=COLUMNS).collect()
    judged = judge(compiled, labelled, Clock(last=0, idle=0), satisfied=False)
    rows, sessions = _repeated(judged, count)
    steps = len(rows.words) * compiled.program.columns
    seconds, found = min(_once(compiled.program, judged.letters, rows, sessions) for _ in range(ROUNDS))
    states = sum(len(machine.next) for machine in compiled.machines)
    print(f"{len(rows.words):,} events x {compiled.program.columns} rules, {states} states in all")
    print(f"kernel:  {steps / seconds / 1e6:10,.1f} million rule-steps/s on one thread, {found:,} findings")
    print(f"stepper: {_slowly(compiled, judged) / 1e6:10,.1f} million rule-steps/s, in plain Python")


def _repeated(judged: Judged, count: int) -> tuple[kernel.Rows, int]:
    """Return about `count` events: copies of the judged conversations, as sessions in judged order."""
    times = -(-count // len(judged.codes))
    count_open = len(judged.sessions.open)
    slots = np.repeat(np.arange(count_open), np.diff(judged.sessions.bounds))
    every = (slots[None, :] + count_open * np.arange(times)[:, None]).ravel().astype(np.int32)
    words = np.tile(judged.codes, times)
    none = np.empty((len(words), 0), dtype=np.int32)
    return kernel.Rows(words, every, np.arange(len(words), dtype=np.int64), none), count_open * times


def _once(
    program: kernel.Program, letters: kernel.LetterTable, rows: kernel.Rows, sessions: int
) -> tuple[float, int]:
    memory = kernel.remember(program, sessions, 0)
    start = time.thread_time()
    found = sum(len(findings.stamps) for findings in kernel.judge(program, letters, rows, memory))
    return time.thread_time() - start, found


def _slowly(compiled: CompiledRules, judged: Judged) -> float:
    """Return the rule-steps per second of the stepper, on one copy of the conversations."""
    bits = [(name, *divmod(bit, WORD_BITS)) for (_, name), bit in compiled.propositions.items()]
    words = [
        SteppedEvent(frozenset(name for name, word, bit in bits if int(true[word]) >> bit & 1))
        for true in judged.words.true
    ]
    start = time.thread_time()
    for begin, end in zip(judged.sessions.bounds[:-1], judged.sessions.bounds[1:], strict=True):
        events = [words[code] for code in judged.codes[begin:end].tolist()]
        for machine in compiled.machines:
            judge_slowly(machine, events)
    return len(judged.codes) * len(compiled.machines) / (time.thread_time() - start)


if __name__ == "__main__":
    main()
