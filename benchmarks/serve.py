"""The cost of `tracline serve`, OTLP bytes to verdicts.

`PYTHONPATH=. python benchmarks/serve.py [EVENTS] [REQUESTS]` sends the simulated support desk's conversations
(GenAI spans, a trace a turn) through the pipeline of one process, in requests of 512 spans as SDKs send them,
several conversations at a time, and in rounds of one request or of so many: a round takes the requests that
came while the last one ran. Prints spans per second of processor time, all threads together, the ratio to
bare parsing of the same bytes with upb, and the share of each part of the main thread.
"""

from __future__ import annotations

import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs, shipped_packs
from tracline.schemas.otlp.decoded import Decoded
from tracline.schemas.settings import SessionSettings
from tracline.stream.ingest.request import Encoding, ExportRequest
from tracline.stream.serve import pipeline as serve_pipeline
from tracline.stream.serve.changes import StoreChanges
from tracline.stream.serve.pipeline import Pipeline, PipelineRuntime
from tracline.stream.serve.store import Store, open_store
from tracline.stream.serve.store_sessions import StoreSessions
from tracline.stream.serve.store_traces import StoreTraces
from tracline.stream.stages.judge import SessionJudge
from tracline.stream.stages.rekey import RekeyStage
from tracline.stream.stages.rule_set_judge import RuleSetJudge
from tracline.stream.stages.unread import UnreadCandidates

from benchmarks.desk_spans import desk_spans
from tests.support.otlp_requests import requests

SPANS_A_REQUEST = 512
WARMING = 8
"""Requests before the measurement: a process loads its compiled functions once."""
PARTS: tuple[tuple[str, object, str], ...] = (
    ("read: the requests", serve_pipeline, "read"),
    ("accept: the request on disk", Store, "accept"),
    ("locate and resolve: the session of spans", RekeyStage, "step"),
    ("read: the content of spans", UnreadCandidates, "read"),
    ("assemble: events in order", SessionJudge, "assemble"),
    ("judge: labels, kernel, records", SessionJudge, "judge"),
    ("encode: states", StoreSessions, "rows"),
    ("encode: traces", StoreTraces, "rows"),
    ("encode: events and verdicts", serve_pipeline, "add_outputs"),
    ("commit: states, events and verdicts on disk", Store, "commit"),
)
"""The parts of the pipeline, none inside another."""


class NoArchive:
    """An archive that takes nothing, since the benchmark ends before the first round of archiving."""


def main() -> None:
    """Run the benchmark and print its table."""
    # As the command does.
    gc.set_threshold(100_000)
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    together = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    assert WARMING % together == 0, f"the requests of a round divide {WARMING}"
    every = desk_spans(wanted)
    bodies = [request.SerializeToString() for request in requests(every, SPANS_A_REQUEST)]
    times = [max(span.end for span in every[i : i + SPANS_A_REQUEST]) for i in _begins(len(every))]
    judge = SessionJudge(RuleSetJudge(compile_rule_set(load_packs(shipped_packs()))))
    spent, verdicts, now = dict[str, float](), 0, times[0]

    def count(batch: StoreChanges) -> None:
        nonlocal verdicts
        verdicts += len(batch.verdicts)

    with tempfile.TemporaryDirectory() as folder, _timed(spent):
        store = open_store(Path(folder), "benchmark")
        archive: Any = NoArchive()
        runtime = PipelineRuntime(lambda: now, lambda: 1 << 40, archive, count)
        pipeline = Pipeline(store, judge, SessionSettings(idle_s=3_600, lateness_s=5), runtime)
        begun, parsing = 0.0, list[float]()
        for first in range(0, len(bodies), together):
            sent = bodies[first : first + together]
            now = times[first + len(sent) - 1]
            if first == WARMING:
                spent.clear()
                parsing.clear()
                begun = _cpu()
            store.accept([ExportRequest(body, Encoding.PROTOBUF, Decoded(), now) for body in sent])
            pipeline.begin()
            parsing += map(_parsing, sent)
        parsed = sum(parsing)
        total = _cpu() - begun - parsed
        store.close()
    _print(spent, total, len(every) - WARMING * SPANS_A_REQUEST, verdicts, parsed)


def _begins(count: int) -> range:
    return range(0, count, SPANS_A_REQUEST)


@contextmanager
def _timed(spent: dict[str, float]) -> Generator[None]:
    """Note the processor time of each part."""

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            begun = _cpu()
            result = function(*args, **kwargs)
            spent[name] = spent.get(name, 0.0) + _cpu() - begun
            return result

        return call

    with pytest.MonkeyPatch.context() as patched:
        for name, owner, attribute in PARTS:
            patched.setattr(owner, attribute, timed(name, getattr(owner, attribute)))
        yield


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _parsing(body: bytes) -> float:
    """Return the processor time of parsing a request, and nothing else."""
    begun = time.process_time()
    ExportTraceServiceRequest.FromString(body)
    return time.process_time() - begun


def _print(spent: dict[str, float], total: float, count: int, verdicts: int, parsed: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} spans, {verdicts:,} verdicts: {count / total:,.0f} spans per second of processor time,")
    print(f"{total / count * 1e6:.0f} us a span, {total / parsed:.0f} times parsing, {peak:,.0f} MB at most")
    for part, seconds in spent.items():
        print(f"{seconds / total:6.1%}  {part}")
    print(f"{1 - sum(spent.values()) / total:6.1%}  everything else")


if __name__ == "__main__":
    main()
