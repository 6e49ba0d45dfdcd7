"""The rooms: allowed imports, the purity of `schemas` and `rules`, and rules for all files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from tracline.archive import error as batch_error
from tracline.cli import error as cli_error
from tracline.predict import error as predict_error
from tracline.rules.model.problem import CODES
from tracline.rules.packs.load import shipped_packs
from tracline.stream import error as stream_error

from . import allowances

ROOT = Path(__file__).parents[3]
MAY_IMPORT = {
    "schemas": {"schemas"},
    "rules": {"schemas", "rules"},
    "predict": {"schemas", "rules", "predict"},
    "archive": {"schemas", "rules", "archive"},
    "batch": {"schemas", "rules", "predict", "archive", "batch"},
    "stream": {"schemas", "rules", "predict", "archive", "stream"},
    "examples": {"schemas", "rules", "predict", "archive", "batch", "stream", "examples"},
    "cli": {"schemas", "rules", "predict", "archive", "batch", "stream", "examples", "cli"},
}
PURE = ("schemas", "rules", "predict")
OUTSIDE_MODULES = {
    "asyncio", "glob", "http", "httpx", "io", "logging", "multiprocessing", "os", "random", "secrets",
    "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
OUTSIDE_CALLS = {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
OUTSIDE_METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "is_file", "is_dir", "stat",
    "random",
}  # fmt: skip
DOORS = {
    "rules/packs/load.py": "reads the packs that `load_packs` is given",
    "predict/folder/load.py": "reads the chain that `load_chain` is given",
    "rules/language/syntax.py": "reads the grammar",
}
"""The modules of the pure rooms that may read a file, and the file that each reads."""

ENDPOINT = "predict/sampling/endpoint.py"
"""The module of the pure rooms that asks a model over the network, which `Sampler` and `Asker` are given."""
ASKING = {"httpx", "socket", "threading", "time"}

CHECKER = ROOT / "docs" / "checker" / "check_bundle.py"
"""A manual that runs: `tracline verify` runs it, and it imports nothing of ours."""

SOURCES = sorted(path for room in MAY_IMPORT for path in (ROOT / room).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name(path: Path) -> str:
    """Return a file's path in the repository."""
    return path.relative_to(ROOT).as_posix()


def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of the module."""
    return allowances.nodes(name(path))


@cache
def imports(path: Path) -> frozenset[str]:
    """Return all that the module imports, as dotted names from the top: `rules.model.formula`, `numpy`."""
    package = path.relative_to(ROOT).parts[:-1]
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *(node.module.split(".") if node.module else ())))
            found.add(module)
            found.update(f"{module}.{alias.name}".lstrip(".") for alias in node.names)
    return frozenset(found)


def dotted_name(called: ast.expr) -> str:
    """Return a plain or dotted name, `open` or `datetime.now`; it begins with a dot after anything else."""
    names = list[str]()
    while isinstance(called, ast.Attribute):
        names.append(called.attr)
        called = called.value
    names.append(called.id if isinstance(called, ast.Name) else "")
    return ".".join(reversed(names))


def calls(path: Path) -> Iterator[str]:
    """Yield the functions that the module calls by a plain or dotted name."""
    return (dotted_name(node.func) for node in nodes(path) if isinstance(node, ast.Call))


def sleeps(found: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the calls that wait for some time; `asyncio.sleep(0)` waits for none."""
    for node in found:
        if isinstance(node, ast.Call):
            called = dotted_name(node.func)
            if called.split(".")[-1] == "sleep":
                is_none = [ast.unparse(each) for each in node.args] == ["0"]
                if not is_none or called == "time.sleep":
                    yield ast.unparse(node)


def of_room(room: str) -> list[Path]:
    """Return the modules of a room."""
    return [path for path in SOURCES if path.relative_to(ROOT).parts[0] == room]


def wrong_by_file(found: Mapping[Path, object]) -> dict[str, object]:
    """Return the violations by file, without the files that have none."""
    return {name(path): wrong for path, wrong in found.items() if wrong}


each_room = pytest.mark.parametrize("room", MAY_IMPORT)


@each_room
def test_rooms_import_one_way(room: str) -> None:
    """schemas <- rules <- archive and predict <- batch and stream; cli uses all; imports are relative."""
    found = {path: {dotted.split(".")[0] for dotted in imports(path)} for path in of_room(room)}
    known = {"tracline", *MAY_IMPORT}
    assert wrong_by_file({path: (tops & known) - MAY_IMPORT[room] for path, tops in found.items()}) == {}


@each_room
def test_only_tests_import_the_reference(room: str) -> None:
    """No product module imports `rules/reference/`: an oracle must be independent of the code under test."""
    product = [path for path in of_room(room) if path.parent.name != "reference"]
    found = {
        path: [dotted for dotted in imports(path) if dotted.startswith("rules.reference")] for path in product
    }
    assert wrong_by_file(found) == {}


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_touch_nothing_outside(room: str) -> None:
    """schemas, rules and predict read no clock, no file and no network but by four doors. None is random."""
    wrong: dict[Path, set[str]] = {}
    for path in of_room(room):
        called = set(calls(path))
        wrong[path] = ({dotted.split(".")[0] for dotted in imports(path)} & OUTSIDE_MODULES) | (
            called & OUTSIDE_CALLS
        )
        if name(path) == ENDPOINT:
            wrong[path] -= ASKING
        if name(path) not in DOORS:
            wrong[path] |= {dotted.split(".")[-1] for dotted in called if "." in dotted} & OUTSIDE_METHODS
    assert wrong_by_file(wrong) == {}


@each_room
def test_files_are_named_for_what_they_do(room: str) -> None:
    """No module is a collection of unrelated things: each part belongs with its subject."""
    drawers = {"utils", "util", "helpers", "common", "base", "core", "manager", "misc"}
    assert {path.stem for path in of_room(room)} & drawers == set()


@each_room
def test_errors_are_not_swallowed(room: str) -> None:
    """Only the boundary catches every exception and goes on: each other such handler ends in `raise`."""
    every = {"Exception", "BaseException"}

    def swallowed(path: Path) -> Iterator[int]:
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or not every.isdisjoint(re.findall(r"\w+", ast.unparse(node.type)))
                if broad and not isinstance(node.body[-1], ast.Raise):
                    yield node.lineno
            if isinstance(node, ast.Call) and dotted_name(node.func) in {"suppress", "contextlib.suppress"}:
                yield from (node.lineno for each in node.args if ast.unparse(each) in every)

    product = [path for path in of_room(room) if name(path) != BOUNDARY]
    assert wrong_by_file({path: list(swallowed(path)) for path in product}) == {}


BOUNDARY = "schemas/attempt.py"
"""The only module that may turn any exception into a value."""


MODULES_MAX = 14
"""The most modules of a folder, its `__init__.py` aside."""


def folder(path: Path) -> str:
    """Return the folder of a module, dotted from the top."""
    return ".".join(path.relative_to(ROOT).parts[:-1])


def test_folders_are_small_and_documented() -> None:
    """No folder has more than `MODULES_MAX` modules, and each has a docstring."""
    counts = Counter(folder(path) for path in SOURCES if path.name != "__init__.py")
    assert {place: count for place, count in counts.items() if count > MODULES_MAX} == {}
    silent = [
        place
        for place in counts
        if not ast.get_docstring(nodes(ROOT / place.replace(".", "/") / "__init__.py")[0])
    ]
    assert silent == []


def test_folders_of_helpers_are_small() -> None:
    """No folder of benchmarks or of tests' helpers has more than `MODULES_MAX` modules."""
    helpers = [path for top in ("benchmarks", "tests/support") for path in (ROOT / top).rglob("*.py")]
    counts = Counter(folder(path) for path in helpers if path.name != "__init__.py")
    assert {place: count for place, count in counts.items() if count > MODULES_MAX} == {}


def above(dotted: str) -> Iterator[str]:
    """Yield the names of the folders that hold a dotted name, the innermost first."""
    while "." in dotted:
        dotted = dotted.rpartition(".")[0]
        yield dotted


def test_folders_import_without_circles() -> None:
    """The folders of all rooms can be put in an order in which each imports only earlier ones."""
    folders = {folder(path) for path in SOURCES}
    arrows: dict[str, set[str]] = {place: set() for place in folders}
    for path in SOURCES:
        # A name that a folder's `__init__.py` re-exports is imported from the folder itself.
        found = {
            next((place for place in (dotted, *above(dotted)) if place in folders), "")
            for dotted in imports(path)
        }
        arrows[folder(path)] |= found - {"", folder(path)}
    TopologicalSorter(arrows).prepare()


def test_tests_have_docstrings() -> None:
    """Every test has a docstring."""
    silent = {
        path: [
            node.name
            for node in nodes(path)
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and not ast.get_docstring(node)
        ]
        for path in TESTS
    }
    assert wrong_by_file(silent) == {}


def test_tests_neither_sleep_nor_mock() -> None:
    """Tests wait for events, and their doubles are written classes."""
    unwanted = {"unittest.mock", "mock", "time.sleep", "asyncio.sleep"}
    assert wrong_by_file({path: (imports(path) & unwanted) | {*sleeps(nodes(path))} for path in TESTS}) == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import asyncio\nawait asyncio.sleep(0.05)", ["asyncio.sleep(0.05)"]),
        ("import asyncio as aio\nawait aio.sleep(1)", ["aio.sleep(1)"]),
        ("from time import sleep\nsleep(delay)", ["sleep(delay)"]),
        ("import asyncio\nawait asyncio.sleep(0)", []),
    ],
)
def test_sleeps_are_found(text: str, found: list[str]) -> None:
    """By any name of their module; a sleep of 0 only lets other tasks run."""
    assert list(sleeps(ast.walk(ast.parse(text)))) == found


def test_an_installed_tracline_is_complete() -> None:
    """pyproject.toml maps every folder of the rooms that holds modules, and ships every file beside them."""
    mapping = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in SOURCES}
    packages = {f"tracline.{'.'.join(folder.parts)}" for folder in folders}
    assert sorted(mapping["packages"]) == sorted({*packages, "tracline.checker"})
    assert mapping["package-dir"]["tracline.checker"] == CHECKER.parent.relative_to(ROOT).as_posix()
    for room in MAY_IMPORT:
        assert mapping["package-dir"][f"tracline.{room}"] == room
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and path.suffix not in {".py", ".pyc"} and "__pycache__" not in path.parts:
                package = f"tracline.{'.'.join(path.relative_to(ROOT).parts[:-1])}"
                patterns = mapping["package-data"].get(package, [])
                assert any(path.match(pattern) for pattern in patterns), name(path)


def test_each_code_means_one_thing() -> None:
    """No two errors share a code, and a test names each code."""
    tables = [CODES, batch_error.CODES, predict_error.CODES, stream_error.CODES, cli_error.CODES]
    codes = [code for table in tables for code in table]
    assert len(codes) == len(set(codes))
    named = {code for path in TESTS for code in re.findall(r"TRL\d+", allowances.text_of(name(path)))}
    assert [code for code in codes if code not in named] == []


HEAVY = ("numba", "polars", "pyarrow", "numpy", "rich")


@pytest.mark.parametrize("module", ["tracline.cli", "tracline.schemas", "tracline.rules"])
def test_the_command_starts_light(module: str) -> None:
    """Showing the help or importing a room's front door loads none of the heavy libraries."""
    code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("pack", shipped_packs())
def test_checking_a_pack_loads_no_heavy_library(pack: str) -> None:
    """`tracline check` needs neither Polars nor Numba, so that an editor can run it at every keystroke.

    Nor does it make pydantic's models, or load what only explains errors.
    """
    unwanted = (*HEAVY, "pydantic", "jinja2", "cryptography", "tracline.rules.language.errors.syntax_errors")
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
