"""The measured rules of the house: the places that break one, and how many `allowances.toml` still allows.

`python -m tests.unit.house.allowances [SECTION...]` lists every place that breaks a rule.
`python -m tests.unit.house.allowances --write` counts them and writes `allowances.toml`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
ALLOWED = Path(__file__).with_name("allowances.toml")
PRODUCT = ("schemas", "rules", "predict", "archive", "stream", "batch", "cli", "examples")
LINES_MAX = 400

_WORDS = {
    name: set(str(words).split())
    for name, words in tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8")).items()
}
BANNED, BANNED_IN_NAMES = _WORDS["banned"], _WORDS["banned"] | _WORDS["banned_in_names"]
VARIABLES, NO_VERBS, QUESTIONS = _WORDS["variables"], _WORDS["no_verbs"], _WORDS["questions"]
VERBS_IN_S = {"Focus", "Bias"}
_OPERATORS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
_STRINGS = (ast.Constant, ast.JoinedStr)
_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.MatchAs, ast.MatchStar)


class Hit(NamedTuple):
    """A place that breaks a rule; `key` is the line of `allowances.toml` that counts it."""

    key: str
    path: str
    line: int
    text: str


@cache
def files(suffix: str) -> tuple[str, ...]:
    """Return the paths of the repository's files with that suffix, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{suffix}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return tuple(sorted({path for path in listed.stdout.splitlines() if (ROOT / path).is_file()}))


@cache
def text_of(path: str) -> str:
    """Return the file's text."""
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """Return every node of the module, its tree first, without operators; parsed once for all tests."""
    found: list[ast.AST] = [ast.parse(text_of(path))]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found.extend([each for each in value if isinstance(each, ast.AST)])
            elif isinstance(value, ast.AST) and not isinstance(value, _OPERATORS):
                found.append(value)
    return tuple(found)


class Module(NamedTuple):
    """The parts of a module that the rules are about, without its tree."""

    classes: list[tuple[str, int]]
    """The name and the line of each class, and of each alias and variable of types."""
    docstrings: list[tuple[str, int, str]]
    """The type of the node that each docstring is of, its line and its text."""
    names: dict[str, int]
    """Every name that the module gives to something, and the first line that does."""
    string_lines: set[int]
    """The lines of strings of several lines: a `#` in one begins no comment."""


@cache
def module(path: str) -> Module:
    """Return the parts of the module, read once."""
    found = Module([], [], dict.fromkeys(Path(path).with_suffix("").parts, 1), set())
    for node in nodes(path):
        if isinstance(node, _STRINGS):
            if node.end_lineno != node.lineno:
                found.string_lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            continue
        if isinstance(node, ast.ClassDef):
            found.classes.append((node.name, node.lineno))
        if isinstance(node, ast.Assign | ast.AnnAssign) and (alias := _alias(node)):
            found.classes.append((alias, node.lineno))
        if "body" in node._fields:
            found.docstrings.extend(_docstrings(node))
        name = _name(node)
        if name:
            found.names.setdefault(name, getattr(node, "lineno", 1))
    return found


def _alias(node: ast.Assign | ast.AnnAssign) -> str | None:
    """Return the name of a module's alias or variable of types: annotated, in mixed case, or of an array.

    A variable of one letter stands for any type, as in other code.
    """
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or node.value is None or node.col_offset:
        return None
    name, value = targets[0].id, node.value
    is_annotated = isinstance(node, ast.AnnAssign) and _is_named(node.annotation, "TypeAlias")
    is_mixed = re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name) is not None
    is_array = isinstance(value, ast.Subscript) and _is_named(value.value, "NDArray")
    return name if is_annotated or is_mixed or is_array else None


def _is_named(node: ast.expr, name: str) -> bool:
    """Return whether the expression is that name alone."""
    return isinstance(node, ast.Name) and node.id == name


def _docstrings(node: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Yield the node's docstring, and those of the attributes in its body."""
    body = getattr(node, "body", None)
    for index, inner in enumerate(body if isinstance(body, list) else ()):
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant):
            text = inner.value.value
            if isinstance(text, str):
                yield type(inner if index else node).__name__, inner.lineno, text


def _name(node: ast.AST) -> str | None:
    """Return the name that the node gives to something."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.Attribute):
        return node.attr if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, _NAMED):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    return node.asname if isinstance(node, ast.alias) else None


def room(path: str) -> str:
    """Return the top folder of a file."""
    return path.split("/")[0] if "/" in path else "."


def product() -> list[str]:
    """Return the modules of the product's rooms."""
    return [path for path in files(".py") if room(path) in PRODUCT]


def types() -> Iterator[Hit]:
    """Yield the definitions of every type name that the product defines more than once, of aliases too."""
    found: dict[str, list[Hit]] = defaultdict(list)
    for path in product():
        for name, line in module(path).classes:
            found[name].append(Hit(name, path, line, f"type {name}"))
    for hits in found.values():
        if len(hits) > 1:
            yield from hits


def long_files() -> Iterator[Hit]:
    """Yield a hit for each line of every Python file that is longer than `LINES_MAX`."""
    for path in files(".py"):
        lines = text_of(path).count("\n")
        if lines > LINES_MAX:
            yield from (Hit(path, path, number, "") for number in range(1, lines + 1))


def _first_words(kinds: set[str], is_wrong: Callable[[str], bool]) -> Iterator[Hit]:
    for path in files(".py"):
        for kind, line, text in module(path).docstrings if room(path) != "tests" else ():
            if kind in kinds and text.split() and is_wrong(text.split()[0]):
                yield Hit(room(path), path, line, text.strip().splitlines()[0])


def functions_docstrings() -> Iterator[Hit]:
    """Yield the docstrings of functions that begin with no verb in the imperative."""

    def is_wrong(first: str) -> bool:
        word = re.sub(r"\W+$", "", first)
        plural = word.endswith("s") and not word.endswith("ss") and word not in VERBS_IN_S
        return not word.isalpha() or word.lower() in NO_VERBS or plural

    return _first_words({"FunctionDef", "AsyncFunctionDef"}, is_wrong)


def classes_docstrings() -> Iterator[Hit]:
    """Yield the docstrings of classes that begin with a question's word."""
    return _first_words({"ClassDef"}, lambda first: re.sub(r"\W.*", "", first).lower() in QUESTIONS)


@cache
def split(name: str) -> list[str]:
    """Return the words of an identifier, in lower case: `_heardSpan_two` has three."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def banned_names() -> Iterator[Hit]:
    """Yield each name of each file that has a banned word in it, once."""
    for path in files(".py"):
        names = module(path).names
        for name, line in names.items():
            words = split(name)
            is_dialect = "foreign" in words and "syntax" not in words
            noun = name in VARIABLES and not (name == "other" and "__eq__" in names)
            if noun or is_dialect or BANNED_IN_NAMES.intersection(words):
                yield Hit(room(path), path, line, name)


_BLOCKS = re.DOTALL | re.MULTILINE


def _prose(text: str) -> str:
    """Return the text with quotations and code blanked, its lines as they were."""
    blank = re.compile(
        r"```.*?```|``.*?``|`[^`]*`|\"[^\"\n]*\"|“[^”]*”|^>.*$|\]\([^)]*\)", re.DOTALL | re.MULTILINE
    )
    return blank.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _banned(path: str, first: int, text: str, key: str) -> Iterator[Hit]:
    lines = text.splitlines()
    for number, line in enumerate(_prose(text).splitlines()):
        for word in re.findall(r"[A-Za-z]+", line):
            if word.lower() in BANNED:
                yield Hit(key, path, first + number, f"{word}: {lines[number].strip()}")


def banned_in_docstrings() -> Iterator[Hit]:
    """Yield the banned words of docstrings."""
    for path in files(".py"):
        for _, line, text in module(path).docstrings:
            yield from _banned(path, line, text, room(path))


def banned_in_comments() -> Iterator[Hit]:
    """Yield the banned words of comments."""
    for path in files(".py"):
        for number, line in enumerate(text_of(path).split("\n"), 1):
            if "#" in line and number not in module(path).string_lines:
                comment = re.search(r"(?:^\s*|  )# (.*)", line)
                yield from _banned(path, number, comment[1] if comment else "", room(path))


def banned_in_markdown() -> Iterator[Hit]:
    """Yield the banned words of Markdown, by page."""
    for path in files(".md"):
        yield from _banned(path, 1, text_of(path), path)


def markdown_lines() -> Iterator[Hit]:
    """Yield the lines of Markdown prose that hold more than one sentence, or less than one, by page."""
    for path in files(".md"):
        prose = re.sub(
            r"^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), text_of(path), flags=_BLOCKS
        )
        lines = [*prose.splitlines(), ""]
        for number, (line, after) in enumerate(pairwise(lines), 1):
            if re.match(r"\s*([#|]|$)", line):
                continue
            sentence = re.sub(r"^\s*(?:- |\d+\. )?(?:\*\*[^*]*\.\*\* )?", "", line)
            several = re.search(r"[a-z0-9`)*][.!?]\** +\**[A-Z]", _prose(sentence))
            wrapped = not re.search(r"[.:;!?][*)\"]*$", line) and not re.match(r"\s*([-#|]|\d+\. |$)", after)
            if several or wrapped:
                yield Hit(path, path, number, line.strip())


SECTIONS: dict[str, Callable[[], Iterator[Hit]]] = {
    "duplicate-types": types,
    "long-files": long_files,
    "function-docstrings": functions_docstrings,
    "class-docstrings": classes_docstrings,
    "banned-names": banned_names,
    "banned-in-docstrings": banned_in_docstrings,
    "banned-in-comments": banned_in_comments,
    "banned-in-markdown": banned_in_markdown,
    "markdown-lines": markdown_lines,
}
"""Each rule, and what breaks it."""


def counted(hits: Iterable[Hit]) -> dict[str, int]:
    """Return how many places break a rule, by key."""
    return dict(sorted(Counter(hit.key for hit in hits).items()))


def allowed(section: str) -> dict[str, int]:
    """Return how many places `allowances.toml` allows to break the rule, by key."""
    return tomllib.loads(ALLOWED.read_text(encoding="utf-8")).get(section, {})


def written() -> str:
    """Return the text of `allowances.toml` for the repository as it is."""
    lines = [
        "# What still breaks a rule of the house, by room, page, file or name. It may only shrink.",
        "# List the places: python -m tests.unit.house.allowances [SECTION...]",
        "# Write this file: python -m tests.unit.house.allowances --write",
    ]
    for section in SECTIONS:
        rows = [f'"{key}" = {count}' for key, count in counted(SECTIONS[section]()).items()]
        lines += ["", f"[{section}]", *rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        ALLOWED.write_text(written(), encoding="utf-8")
    else:
        for chosen in sys.argv[1:] or [name for name in SECTIONS if name != "long-files"]:
            for hit in SECTIONS[chosen]():
                print(f"{hit.path}:{hit.line}: {chosen}: {hit.text}")
