"""The cost of `tracline serve`, OTLP bytes to verdicts: `PYTHONPATH=. python benchmarks/serve.py [EVENTS]`.

Sends the simulated support desk's conversations (GenAI spans, a trace a turn) through the stages of one
process, in requests of 512 spans as SDKs send them, several conversations at a time. Prints spans per second
of processor time, all stages together, and each stage's share of it.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from desk_spans import desk_spans
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.candidate import Candidate
from tracline.schemas.otlp.decode import decode_protobuf
from tracline.schemas.sessions.assemble import SessionAssembler
from tracline.schemas.sessions.pending import Traces
from tracline.schemas.sessions.span_reading import read_span
from tracline.schemas.time import NS
from tracline.stream.ingest.request import ExportRequest
from tracline.stream.messages.session_state import SessionState
from tracline.stream.serve.rows import add_changes
from tracline.stream.serve.store import StoreChanges, open_store
from tracline.stream.stages.judge import SessionJudge
from tracline.stream.stages.rule_set_judge import RuleSetJudge

from tests.support.otlp_requests import requests

SPANS_A_REQUEST = 512
IDLE_NS, LATENESS_NS = 3600 * NS, 5 * NS


def main() -> None:
    """Run the benchmark and print its table."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    bodies, count = _bodies(wanted)
    judge = SessionJudge(RuleSetJudge(compile_rule_set(load_packs(shipped_packs()))))
    spent: dict[str, float] = {}
    verdicts = 0
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder), "benchmark")
        traces = Traces(60 * NS, IDLE_NS)
        states: dict[str, SessionState] = {}
        alone: dict[str, SessionAssembler] = {}
        watermark = 0
        for body in bodies:
            with _timed(spent, "decode: bytes to spans"):
                decoded = decode_protobuf(body)
            with _timed(spent, "accept: the request on disk"):
                (number,) = store.accept([ExportRequest(body, "protobuf", decoded, received=0)])
            with _timed(spent, "read: the content of spans"):
                readings = [read_span(span) for span in decoded.spans]
            watermark = max(watermark, *(item.end - LATENESS_NS for item in readings))
            with _timed(spent, "resolve: the session of spans"):
                for item in readings:
                    traces.add(item)
                released = [item.made for item in traces.release(watermark, watermark)]
                # This stage stores no traces.
                traces.changed.clear()
            candidates = [item for item in released if isinstance(item, Candidate) and item.claims]
            with _timed(spent, "assemble: events in order"):
                for session in _added(alone, candidates):
                    session.advance(watermark)
            for name in {item.session_id for item in candidates}.difference(states):
                states[name] = SessionState(SessionAssembler(name, IDLE_NS))
            touched = {item.session_id: states[item.session_id] for item in candidates}
            with _timed(spent, "judge"):
                outputs = judge.step(touched, candidates, watermark, touched.__getitem__).outputs
            with _timed(spent, "write: states, events and verdicts on disk"):
                batch = StoreChanges(worked_off=number, watermark=watermark)
                add_changes(batch, outputs, touched, watermark)
                for trace_id in traces.changed:
                    opened = traces.traces.get(trace_id)
                    encoded = None if opened is None else (0, msgspec.msgpack.encode(opened))
                    batch.traces[trace_id] = encoded
                traces.changed.clear()
                store.commit(batch)
            verdicts += len(outputs.records)
        store.close()
    spent["judge: labels, kernel, records"] = spent.pop("judge") - spent["assemble: events in order"]
    _print(spent, count, verdicts)


def _bodies(wanted: int) -> tuple[list[bytes], int]:
    """Return export requests in the order of time, and the number of their spans."""
    every = desk_spans(wanted)
    return [request.SerializeToString() for request in requests(every, SPANS_A_REQUEST)], len(every)


def _added(sessions: dict[str, SessionAssembler], candidates: Sequence[Candidate]) -> list[SessionAssembler]:
    touched: dict[str, SessionAssembler] = {}
    for item in candidates:
        session = sessions.setdefault(item.session_id, SessionAssembler(item.session_id, IDLE_NS))
        session.add(item)
        touched[item.session_id] = session
    return list(touched.values())


@contextmanager
def _timed(spent: dict[str, float], stage: str) -> Iterator[None]:
    begun = _cpu()
    yield
    spent[stage] = spent.get(stage, 0.0) + _cpu() - begun


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _print(spent: dict[str, float], count: int, verdicts: int) -> None:
    total = sum(spent.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} spans, {verdicts:,} verdicts: {count / total:,.0f} spans per second of processor time,")
    print(f"{total / count * 1e6:.0f} us a span, {peak:,.0f} MB at most")
    for stage, seconds in spent.items():
        print(f"{seconds / total:6.1%}  {stage}")


if __name__ == "__main__":
    main()
