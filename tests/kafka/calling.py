"""`tracline stream` as an operator calls it, with the settings in the environment."""

from __future__ import annotations

import os
import subprocess
from dataclasses import fields
from pathlib import Path

from tracline.stream.kafka.settings import KafkaSettings

from ..support import forking

WAIT_S = 120


def environment(settings: KafkaSettings) -> dict[str, str]:
    """The environment variables for the settings that differ from their defaults."""
    variables: dict[str, str] = {}
    for field in fields(KafkaSettings):
        value = getattr(settings, field.name)
        if value != field.default:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            variables[f"TRACLINE_KAFKA_{field.name.upper()}"] = text
    return variables


def stream(
    settings: KafkaSettings, folder: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `tracline stream` in the folder, and wait for its end."""
    return forking.run(["stream", *arguments], os.environ | environment(settings) | variables, WAIT_S, folder)
