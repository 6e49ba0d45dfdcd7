"""Hours of conversations as spans in any manner; their requests as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from tracline.examples.desk.bot import Break, Desk, conversations
from tracline.examples.desk.script import support_session
from tracline.schemas.time import NS
from tracline.stream.ingest.request import Encoding

from ..processes.live import IDLE_S, Sent, wire
from ..truth.conversations import PlayedSession, answered_once, paced
from .scripts import START_NS, later, random_session
from .span_plan import Dialect, Keys, Manner

DESK = Desk(sessions=40, seed=4, rates=dict.fromkeys(Break, 0.5 / len(Break)), spike=None)
SUPPORT = [support_session(conversation) for conversation in conversations(DESK)]
HOURS = 3
DIALECTS = list(Dialect)


def manner(random: Random, seed: int) -> Manner:
    """A manner of reporting one conversation as spans, among those that are possible live."""
    captured = random.random() < 0.85
    # Only spans report what was not captured, parents last: the pipeline waits for their trace.
    keys = random.choice(list(Keys)) if captured else Keys.ROOTS
    troubles = {
        name: random.choice((0.0, 0.0, 0.3)) for name in ("wrapped", "retried", "doubled", "clock_faults")
    }
    return Manner(
        dialect=random.choice(DIALECTS),
        structured=random.random() < 0.3,
        captured=captured,
        inputs_captured=random.random() < 0.9,
        one_trace=random.random() < 0.3,
        keys=keys,
        end_mark=random.random() < 0.5,
        agent_messages=random.random() < 0.3,
        seed=seed,
        **troubles,
    )


def day(seed: int, count: int = 10) -> list[PlayedSession]:
    """Conversations of some hours, some of which are taken up again on the same day."""
    random = Random(f"day {seed}")
    played: list[PlayedSession] = []
    for number in range(count):
        start = START_NS + random.randrange(HOURS * 3600) * NS
        if random.random() < 0.5:
            session = random.choice(SUPPORT)
            session = replace(later(session, start - session.lines[0].time), session_id=f"support-{number}")
        else:
            session = replace(random_session(100 * seed + number), session_id=f"random-{number}")
            session = paced(session, start, random.uniform(1, 20))
        played.append(PlayedSession(answered_once(session), manner(random, seed)))
        if random.random() < 0.3:
            played.append(PlayedSession(later(played[-1].session, 4 * IDLE_S * NS), played[-1].manner))
    return played


def json_lines(folder: Path, sent: Sequence[Sent]) -> None:
    """The requests as the collector's file exporter writes them in JSON."""
    lines = [wire(sent_request.spans, Encoding.JSON) for sent_request in sent]
    (folder / "spans.jsonl").write_bytes(b"\n".join(lines))


def protobuf(folder: Path, sent: Sequence[Sent]) -> None:
    """The requests as the collector's file exporter writes them in protobuf, each behind its length."""
    bodies = [wire(sent_request.spans, Encoding.PROTOBUF) for sent_request in sent]
    (folder / "spans.binpb").write_bytes(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
