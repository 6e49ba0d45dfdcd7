"""Stores for the console."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..console_store import desk_sessions, fill, shipped


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a day of the support desk."""
    return fill(tmp_path_factory.mktemp("desk") / "store.db", shipped(), desk_sessions(30))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a test's store."""
    return tmp_path / "store.db"
