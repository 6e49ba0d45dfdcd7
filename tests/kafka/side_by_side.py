"""Cases of one test that wait for their processes at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from tracline.stream.kafka.settings import KafkaSettings

Case = TypeVar("Case")


def side_by_side(
    kafka: KafkaSettings, cases: Sequence[Case], check: Callable[[KafkaSettings, Case], None]
) -> None:
    """Check all cases at once, each with topics and groups of its own; raise what the first one raises."""

    def named(number: int) -> KafkaSettings:
        prefix = f"{kafka.prefix}-{number}"
        return replace(kafka, prefix=prefix, spans_topic=f"{prefix}-spans", logs_topic=f"{prefix}-logs")

    with ThreadPoolExecutor(len(cases)) as pool:
        for done in [pool.submit(check, named(number), case) for number, case in enumerate(cases)]:
            done.result()
