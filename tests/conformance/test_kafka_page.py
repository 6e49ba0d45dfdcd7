"""The page on Kafka lists the settings, the topics and the groups."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

from tracline.stream.kafka.settings import KafkaSettings
from tracline.stream.kafka.topics import SPECS

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text("utf-8")


def _rows(header: str) -> list[list[str]]:
    """Return the cells of the rows below the table's header."""
    table = PAGE.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_setting_is_listed_with_its_default() -> None:
    """In the order of the dataclass; an empty cell means there is none."""
    listed = [(row[0].strip("`"), row[1].strip("`")) for row in _rows("setting")]
    defaults = [field.default for field in fields(KafkaSettings)]
    assert [name for name, _ in listed] == [field.name for field in fields(KafkaSettings)]
    assert [text for _, text in listed] == [
        "" if default is None else json.dumps(default) for default in defaults
    ]


def test_every_topic_is_listed_with_its_partitions_and_retention() -> None:
    """In the order in which `topics --create` creates them."""
    settings = KafkaSettings()
    assert [[row[0].strip("`"), row[1], row[2]] for row in _rows("topic")] == [
        [
            settings.topic(spec.topic),
            spec.count.value,
            "the last of each key" if spec.days is None else f"{spec.days} days",
        ]
        for spec in SPECS
    ]


def test_the_page_names_the_groups() -> None:
    """An administrator who grants rights needs them."""
    named = set(re.findall(r"`(tracline-[a-z]+)`", PAGE))
    assert {KafkaSettings().group(process) for process in ("rekey", "monitor", "archive", "alerts")} <= named
