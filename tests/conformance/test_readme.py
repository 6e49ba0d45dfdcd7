"""The README runs: its pack, its commands and its Python print the output that it shows."""

from __future__ import annotations

import doctest
import itertools
import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tracline.cli import tracline

from ..support.markdown import anchor

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"])


def blocks(language: str) -> list[str]:
    """The README's code blocks in that language."""
    return [text for kind, text in BLOCKS if kind == language]


def session(block: str) -> list[tuple[str, str]]:
    """Each command of a console block, without its `$`, and what it prints."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


COMMANDS = [
    pytest.param(line, expected, id=line, marks=[pytest.mark.slow] if "demo" in line else [])
    for block in blocks("console")
    for line, expected in session(block)
]


def printed(line: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a `tracline` command prints; `echo ... |` before it is its standard input."""
    source, _, command = line.rpartition(" | ")
    text = "".join(shlex.split(source)[1:]).replace("\\n", "\n") + "\n" if source else None
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(tracline, shlex.split(command)[1:], input=text, prog_name="tracline")
    return result.output


@pytest.mark.parametrize(("line", "expected"), COMMANDS)
def test_commands_print_the_readmes_output(
    line: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of the README, run beside its pack, gives the text under it; `make demo` runs the demo."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refunds.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    broken = (
        blocks("yaml")[0]
        .replace("once verified", "once verifed")
        .replace("not large since", "not large sinc")
    )
    (tmp_path / "mistake.yaml").write_text(broken, encoding="utf-8")
    found = printed(line.replace("make demo", "tracline demo"), monkeypatch)
    seconds = re.compile(r"\d[\d.]* ?m?s\b")
    assert seconds.sub("N s", found).rstrip() == seconds.sub("N s", expected).rstrip()


def leaves(group: click.Group, words: str = "tracline") -> set[str]:
    """Return the commands of a group and of its groups, with all words of each."""
    context = click.Context(group)
    found: set[str] = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found |= leaves(command, f"{words} {name}")
        else:
            found.add(f"{words} {name}")
    return found


def test_the_table_names_every_command() -> None:
    """The README's table has each command and no other; a cell repeats only a group's last words."""
    table = README.split("| command | purpose |\n|---|---|\n")[1].split("\n\n")[0]
    named: set[str] = set()
    for cell in re.findall(r"^\| (.+?) \| ", table, re.MULTILINE):
        commands = re.findall(r"`([^`]+)`", cell)
        group = commands[0].split()[:-1]
        for text in commands:
            words = text.split() if text.startswith("tracline ") else [*group, text]
            named.add(" ".join(itertools.takewhile(lambda word: re.fullmatch(r"[a-z][a-z-]*", word), words)))
    assert named == leaves(tracline)


def test_the_readmes_python_runs() -> None:
    """The Python of the README gives the values in its comments."""
    test = doctest.DocTestParser().get_doctest(blocks("pycon")[0], {}, "README.md", None, 0)
    assert doctest.DocTestRunner().run(test).failed == 0
    assert test.examples


def anchors(page: Path) -> set[str]:
    """Return the fragments by which GitHub addresses the page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {anchor(heading) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of the documentation names a file that exists, and a heading of it."""
    for target, fragment in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not fragment or fragment in anchors(linked), f"{target}#{fragment}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_pages_name_are_there(page: Path) -> None:
    """Every file or folder of the repository that a page names between backticks exists."""
    rooms = "schemas|rules|predict|archive|stream|batch|cli|examples|docker|tests|docs|benchmarks"
    for target in re.findall(rf"`((?:{rooms})/[\w./-]*)`", page.read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target
