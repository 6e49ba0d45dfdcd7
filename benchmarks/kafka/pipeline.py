"""The cost of the Kafka pipeline: `make kafka`, `PYTHONPATH=. python benchmarks/kafka/pipeline.py [SPANS]`.

It uses a real broker, real processes, and the simulated support desk's spans, one message a trace. It prints
the spans per second of `rekey` and `monitor`, alone and at the same time; the same for the first design of a
good engineer (`rival_faust.py`), which must find the same violations, and for a program that only copies the
messages; the delay of verdicts at a steady rate; the size of a session's state; and the time in which a
monitor resumes 100,000 open sessions. All messages are in Kafka, and the processes have judged some spans,
before the measurement starts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from tracline.examples.local_kafka import Broker, missing
from tracline.rules.packs.load import shipped_packs
from tracline.schemas.span import Span
from tracline.schemas.time import NS
from tracline.schemas.verdict import Verdict
from tracline.stream.messages.codec import decode_verdicts
from tracline.stream.messages.topics import Topic

from benchmarks.desk_spans import desk_spans, moved, traces
from benchmarks.kafka.floor import Floor, floor
from benchmarks.kafka.latency import Delays, delays
from benchmarks.kafka.processes import Reader, Running, Setup, closing_spans, cpu_of, judged_until, send
from benchmarks.kafka.recovery import Open, Recovery, recoveries, state_sizes
from benchmarks.kafka.rival_faust import Spent, Violation, measure
from tests.support.otlp_requests import to_otlp

SPANS, SPANS_MAX = 20_000, 200_000
WARM_SPANS = 1_500
AHEAD_NS = 600 * NS
"""The time between the clock and the spans: idle processes follow the clock, and must not pass them."""
SESSIONS = {"lateness_s": 5, "idle_s": 3600, "hold_s": 60, "tick_s": 1, "skew_s": 10_000_000}


@dataclass
class Rate:
    """The cost of one design: spans, wall-clock seconds, and processor seconds by process."""

    name: str
    spans: int
    wall_s: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def a_second(self) -> float:
        """Return the spans per second of wall-clock time."""
        return self.spans / self.wall_s

    @property
    def tracline_cpu_s(self) -> float:
        """Return the processor seconds, without the broker's."""
        return sum(seconds for name, seconds in self.cpu.items() if name != "broker")


@dataclass(frozen=True)
class Load:
    """The spans that warm up the processes, and the later ones, which count."""

    warm: Sequence[Span]
    counted: Sequence[Span]

    @property
    def end(self) -> int:
        """Return the end of the last span."""
        return self.counted[-1].end


def load(wanted: int) -> Load:
    """Return the desk's spans, with times ahead of the clock."""
    every = desk_spans(wanted + WARM_SPANS)
    every = list(moved(every, time.time_ns() + AHEAD_NS - every[0].start))
    return Load(every[:WARM_SPANS], every[WARM_SPANS:])


def main() -> None:
    """Run the benchmark and print its table."""
    if lack := missing():
        sys.exit(lack)
    wanted = min(int(sys.argv[1]), SPANS_MAX) if len(sys.argv) > 1 else SPANS
    with tempfile.TemporaryDirectory() as folder:
        # The broker's clock measures both ends of a delay.
        broker = Broker(Path(folder) / "kafka", {"log.message.timestamp.type": "LogAppendTime"})
        broker.start()
        try:
            spans = load(wanted)
            rates = [together(broker, spans), *alone(broker, load(wanted))]
            sizes = state_sizes(Setup(broker, "alone"))
            print_rates(rates, rivals(broker, spans), floor(broker, _messages(spans)))
            print_sizes(sizes)
            print_delays(delays(Setup(broker, "latency")))
            for recovery in recoveries(broker, sizes.records):
                print_recovery(recovery)
        finally:
            broker.kill()


@contextmanager
def both(setup: Setup) -> Iterator[tuple[Running, Running]]:
    """Run a rekeyer and a monitor over new topics."""
    setup.make_topics()
    with setup.running("rekey") as rekey, setup.running("monitor", "--rules", *shipped_packs()) as monitor:
        rekey.wait_for_log("assigned partitions")
        monitor.wait_for_log("assigned partitions")
        yield rekey, monitor


@contextmanager
def timed(rate: Rate, processes: Mapping[str, int]) -> Iterator[None]:
    """Record the processor time of the processes during the block, by name."""
    before = {name: cpu_of(pid) for name, pid in processes.items()}
    yield
    rate.cpu = {name: cpu_of(pid) - before[name] for name, pid in processes.items()}


def warmed(setup: Setup, rekey: Running, monitor: Running, spans: Load) -> None:
    """Let the processes judge the first spans and stop them; then send the spans that count."""
    first = spans.warm[-1].end
    send(setup, [*traces(spans.warm), *closing_spans(first + 6 * NS, 1)])
    judged_until(setup, first, monitor)
    rekey.hold()
    monitor.hold()
    send(setup, [*traces(spans.counted), *closing_spans(spans.end + 6 * NS, 2)])


def pids(broker: Broker, **processes: Running) -> dict[str, int]:
    """Return the process ids, with the broker's."""
    assert broker.process is not None, "it was started"
    return {name: running.process.pid for name, running in processes.items()} | {"broker": broker.process.pid}


def together(broker: Broker, spans: Load) -> Rate:
    """Measure both processes at the same time, from spans in Kafka to the last verdict in Kafka."""
    setup = Setup(broker, "together", SESSIONS)
    rate = Rate("rekey and monitor", len(spans.counted))
    with both(setup) as (rekey, monitor):
        warmed(setup, rekey, monitor, spans)
        with timed(rate, pids(broker, rekey=rekey, monitor=monitor)):
            began = time.time()
            rekey.go_on()
            monitor.go_on()
            rate.wall_s = judged_until(setup, spans.end, monitor) - began
    return rate


def alone(broker: Broker, spans: Load) -> tuple[Rate, Rate]:
    """Measure the rekeyer over all spans, then the monitor over the candidates."""
    setup = Setup(broker, "alone", SESSIONS)
    first, second = (Rate(name, len(spans.counted)) for name in ("rekey alone", "monitor alone"))
    with both(setup) as (rekey, monitor):
        warmed(setup, rekey, monitor, spans)
        with timed(first, pids(broker, rekey=rekey)):
            began = time.time()
            rekey.go_on()
            rekey.until(setup.carried, "all spans are read")
            first.wall_s = time.time() - began
        # One more tick advances the watermark of every partition.
        time.sleep(2 * SESSIONS["tick_s"])
        rekey.hold()
        with timed(second, pids(broker, monitor=monitor)):
            began = time.time()
            monitor.go_on()
            second.wall_s = judged_until(setup, spans.end, monitor) - began
    return first, second


def rivals(broker: Broker, spans: Load) -> dict[str, Spent]:
    """Measure the rival with Faust's defaults and tuned; it must find the violations of the pipeline."""
    expected = violations(Setup(broker, "together", SESSIONS))
    spent: dict[str, Spent] = {}
    for name, tuned in (("rival", False), ("rival, tuned", True)):
        prefix = "rival-tuned" if tuned else "rival"
        spent[name], found = measure(broker.bootstrap, prefix, _messages(spans), tuned=tuned)
        assert found == expected, f"{name}: {len(found - expected)} more, {len(expected - found)} missing"
    return spent


def violations(setup: Setup) -> Counter[Violation]:
    """Return the violations that a run has written to the topic of verdicts."""
    reader = Reader(setup, setup.kafka.topic(Topic.VERDICTS))
    records = [verdict for record in reader.all() for verdict in decode_verdicts(record.value).verdicts]
    reader.close()
    violated = (verdict for verdict in records if verdict.verdict is Verdict.VIOLATED)
    place = attrgetter("pack", "rule", "session_id", "seq")
    return Counter(map(place, violated))


def _messages(spans: Load) -> list[bytes]:
    every = [*spans.warm, *spans.counted]
    return [to_otlp(trace).SerializeToString() for trace in traces(every)]


def print_rates(rates: Sequence[Rate], rivals: Mapping[str, Spent], bare: Floor) -> None:
    """Print the table of spans per second, and the ratios."""
    print(f"{os.cpu_count()} cores, which the broker shares; load now: {os.getloadavg()[0]:.1f}\n")
    print(f"{'':<28}{'spans':>8}{'spans/s':>9}{'us of processor a span':>24}")
    for rate in rates:
        parts = ", ".join(f"{name} {seconds / rate.spans * 1e6:.0f}" for name, seconds in rate.cpu.items())
        print(f"{rate.name:<28}{rate.spans:>8,}{rate.a_second:>9,.0f}  {parts:>22}")
    for name, spent in rivals.items():
        each = 1e6 / spent.spans
        parts = f"{spent.cpu_s * each:,.0f}, {spent.judging_s * each:,.0f} of it judging"
        print(f"{name:<28}{spent.spans:>8,.0f}{spent.spans / spent.wall_s:>9,.0f}  {parts:>22}")
    print(f"{'copy in transactions':<28}{'':>8}{'':>9}  {bare.copy_us:>22.1f}")
    print(f"{'parse with upb':<28}{'':>8}{'':>9}  {bare.parse_us:>22.1f}")
    whole, first, second = rates
    for name, spent in rivals.items():
        wall, cpu = spent.spans / spent.wall_s, spent.cpu_s / spent.spans
        ends = whole.a_second / wall, cpu / (whole.tracline_cpu_s / whole.spans)
        print(
            f"against the {name}: {ends[1]:.1f} times as good by processor time, {ends[0]:.1f} by the clock"
        )
    for rate in (first, second):
        print(f"{rate.name}: {rate.tracline_cpu_s / rate.spans * 1e6 / bare.copy_us:.1f} times the bare copy")


def print_sizes(sizes: Open) -> None:
    """Print the sizes of states."""
    print(
        f"\nstate: {sizes.count:,} open sessions, {sizes.mean:,.0f} bytes each in the mean,"
        f" p99 {sizes.p99:,}, largest {sizes.largest:,}"
    )


def print_delays(delay: Delays) -> None:
    """Print the delays of verdicts."""
    print(
        f"\ndelay from sending a span to the verdicts on its event, at {delay.rate:.0f} spans a second"
        f" ({delay.events:,} events):\n  p50 {delay.p50:.2f} s, p99 {delay.p99:.2f} s,"
        f" of which {delay.lateness_s:g} s wait for late spans (lateness_s), and up to"
        f" {delay.tick_s:g} s for a tick and 0.5 s for the time to move;\n "
        + ", ".join(f" {name} used {share:.0%} of a core" for name, share in delay.busy.items())
        + f"; load now: {os.getloadavg()[0]:.1f}"
    )


def print_recovery(recovery: Recovery) -> None:
    """Print the duration of a start."""
    print(
        f"\nstart with {recovery.sessions:,} open sessions ({recovery.store}): ready after"
        f" {recovery.ready_s:.1f} s, the next message is judged after {recovery.judged_s:.1f} s;"
        f" {recovery.cpu_s:.1f} s of processor, {recovery.memory_mb:,.0f} MB at most"
    )


if __name__ == "__main__":
    main()
