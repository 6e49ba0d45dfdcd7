"""The rooms: which may import which, what the pure ones may touch, and the rules of the house."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tracline.batch import error as batch_error
from tracline.cli import error as cli_error
from tracline.rules.error import CODES
from tracline.rules.pack import shipped_packs
from tracline.stream import error as stream_error

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "schemas": {"schemas"},
    "rules": {"schemas", "rules"},
    "batch": {"schemas", "rules", "batch"},
    "stream": {"schemas", "rules", "stream"},
    "examples": {"schemas", "examples"},
    "cli": {"schemas", "rules", "batch", "stream", "examples", "cli"},
}
PURE = ("schemas", "rules")
OUTSIDE_WORLD = {
    "asyncio", "glob", "http", "io", "logging", "multiprocessing", "os", "random", "secrets",
    "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
OUTSIDE_CALLS = {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
OUTSIDE_METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "is_file", "is_dir", "stat",
}  # fmt: skip
DOORS = {
    "rules/pack.py": "reads the packs that `load_packs` is given",
    "rules/syntax.py": "reads the grammar",
}
"""The modules of the pure rooms that may read a file, and which."""

SOURCES = sorted(path for room in MAY_IMPORT for path in (ROOT / room).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name(path: Path) -> str:
    """A file's path in the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    """The module as a tree, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Everything the module imports, as dotted names from the top: `rules.formula`, `numpy`."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *(node.module.split(".") if node.module else ())))
            yield module
            yield from (f"{module}.{alias.name}".lstrip(".") for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_rooms_import_one_way(path: Path) -> None:
    """schemas <- rules <- batch and stream, examples beside them, cli over all; imports are relative."""
    room = path.relative_to(ROOT).parts[0]
    met = {dotted.split(".")[0] for dotted in imports(path)}
    assert "tracline" not in met, "rooms import each other relatively"
    assert met & set(MAY_IMPORT) <= MAY_IMPORT[room]


PRODUCT = [path for path in SOURCES if not path.stem.startswith("meaning")]


@pytest.mark.parametrize("path", PRODUCT, ids=name)
def test_the_meaning_is_the_tests_own(path: Path) -> None:
    """No product module imports `rules/meaning*.py`: what is compared with it must not be made of it."""
    assert not {dotted for dotted in imports(path) if dotted.startswith("rules.meaning")}


@pytest.mark.parametrize("path", [p for p in SOURCES if p.relative_to(ROOT).parts[0] in PURE], ids=name)
def test_pure_rooms_touch_nothing_outside(path: Path) -> None:
    """schemas and rules read no clock, no file, no network and draw no randomness; two doors read."""
    outside = {dotted.split(".")[0] for dotted in imports(path)} & OUTSIDE_WORLD
    calls = [node.func for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    methods = {call.attr for call in calls if isinstance(call, ast.Attribute)} & OUTSIDE_METHODS
    assert not outside
    assert not {ast.unparse(call) for call in calls} & OUTSIDE_CALLS
    assert not methods or name(path) in DOORS


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_are_named_for_what_they_do(path: Path) -> None:
    """No drawer for odds and ends: its contents belong where their subject is."""
    assert path.stem not in {"utils", "util", "helpers", "common", "base", "core", "manager", "misc"}


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_errors_are_not_swallowed(path: Path) -> None:
    """Nothing catches every exception and goes on."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            assert raises or not broad, f"{name(path)}:{node.lineno}"


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_tests_say_what_they_state(path: Path) -> None:
    """Every test has a docstring; none sleeps, and none uses mock objects."""
    tree = parsed(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            assert ast.get_docstring(node), f"{name(path)}:{node.lineno}"
    met = set(imports(path))
    assert not {"unittest.mock", "mock", "time.sleep", "asyncio.sleep"} & met
    slept = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "time.sleep" not in slept


def test_an_installed_tracline_is_complete() -> None:
    """pyproject.toml maps every folder of the rooms that holds modules, and ships every file beside them."""
    mapping = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in SOURCES}
    assert sorted(mapping["packages"]) == sorted(f"tracline.{'.'.join(folder.parts)}" for folder in folders)
    for room in MAY_IMPORT:
        assert mapping["package-dir"][f"tracline.{room}"] == room
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and path.suffix not in {".py", ".pyc"} and "__pycache__" not in path.parts:
                package = f"tracline.{'.'.join(path.relative_to(ROOT).parts[:-1])}"
                patterns = mapping["package-data"].get(package, [])
                assert any(path.match(pattern) for pattern in patterns), name(path)


def test_each_code_means_one_thing() -> None:
    """No two rooms give one code to two errors, and each code has a test that names it."""
    tables = [CODES, batch_error.CODES, stream_error.CODES, cli_error.CODES]
    codes = [code for table in tables for code in table]
    assert len(codes) == len(set(codes))
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS)
    assert [code for code in codes if code not in tests] == []


HEAVY = ("numba", "polars", "pyarrow", "numpy", "rich")


@pytest.mark.parametrize("module", ["tracline.cli", "tracline.schemas", "tracline.rules"])
def test_the_command_starts_light(module: str) -> None:
    """Showing the help or importing a room's front door loads none of the heavy libraries."""
    code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("pack", shipped_packs())
def test_checking_a_pack_loads_no_heavy_library(pack: str) -> None:
    """`tracline check` needs neither Polars nor Numba, so that an editor can run it at every keystroke.

    Nor does it make pydantic's models, or load what only explains errors.
    """
    unwanted = (*HEAVY, "pydantic", "jinja2", "cryptography", "tracline.rules.diagnosis")
    code = f"""
import sys
from tracline.cli import tracline
try:
    tracline(["check", "{pack}"])
finally:
    print([m for m in {unwanted} if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
