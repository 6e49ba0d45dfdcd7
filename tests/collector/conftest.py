"""The broker is that of `tests/kafka`."""

from __future__ import annotations

from ..kafka.conftest import bootstrap, kafka, unique

__all__ = ["bootstrap", "kafka", "unique"]
