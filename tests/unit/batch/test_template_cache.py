"""The compiled template of the report: stored, used again, and compiled again where something changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment
from tracline.batch.report.template_cache import TemplateCache


def rendered(folder: Path, template: str) -> str:
    """Render a template in a new environment with the cache."""
    loader, cache = DictLoader({"page": template}), TemplateCache(folder / "maker.py")
    return Environment(loader=loader, bytecode_cache=cache).get_template("page").render()


def stored(folder: Path) -> list[tuple[str, int]]:
    """Return the stored templates and when they were written."""
    return [(file.name, file.stat().st_mtime_ns) for file in (folder / "__pycache__").glob("*")]


def test_a_template_is_compiled_again_where_it_or_its_maker_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file is stored, and written again only for another text or another module."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    maker = tmp_path / "maker.py"
    maker.write_text("first")
    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
    (first,) = stored(tmp_path)
    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
    assert stored(tmp_path) == [first]
    assert rendered(tmp_path, "{{ 1 + 2 }}") == "3"
    (second,) = stored(tmp_path)
    assert second[0] == first[0]
    assert second != first
    maker.write_text("second")
    assert rendered(tmp_path, "{{ 1 + 2 }}") == "3"
    assert stored(tmp_path) not in ([first], [second])


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The template is compiled each time."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "maker.py").write_text("")
    (tmp_path / "__pycache__").write_text("a file")
    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
    assert rendered(tmp_path, "{{ 1 + 1 }}") == "2"
