"""The rules by which tests judge, and a pipeline that judges by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import load_packs

from ..support.chains.chain_of_conversations import learned_chain
from ..support.processes.live import Live
from ..support.truth.conversations import write_pack


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack as a file."""
    return write_pack(tmp_path_factory.mktemp("pack"))


@pytest.fixture(scope="module")
def chain(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of the pack's rules as a folder."""
    return learned_chain(tmp_path_factory.mktemp("chain"), pack)


@pytest.fixture
def live(pack: Path, tmp_path: Path) -> Iterator[Live]:
    """A pipeline that has just begun, judging by the pack."""
    with closing(Live(tmp_path, compile_rule_set(load_packs([pack])))) as live:
        yield live
