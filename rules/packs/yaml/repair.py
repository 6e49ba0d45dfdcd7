"""Repairs of lines that are no YAML, so that one mistake hides no other and its hint is the right line.

The usual mistakes are expressions that need quotes, a missing colon, an open quote and tabs. A repair changes
one line and no line's number, so that the locations of later problems are right.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

REPAIRS_MAX, REPAIRED_CHARS_MAX = 10, 100_000
"""Lines of one file that are repaired, and characters of a file that is; each repair reads it again."""

_ENTRY = re.compile(r"(?P<head>\s*(?:- +)*[^\s#:'\"\[{][^:#'\"]*?:\s+)(?P<value>\S.*)")
_NO_COLON = re.compile(r"(?P<indent>\s*(?:- +)*)(?P<key>[A-Za-z_][\w-]*)\s+(?P<value>\S.*)")
_FLOW = re.compile(r"\s*(?:- +)*[\[{]")
_CONTINUES = re.compile(r"[|>][-+0-9]*\s*(#.*)?")


@dataclass(frozen=True, slots=True)
class Repair:
    """A repaired text, with the number of the line that changed, from 0, and the new line."""

    text: str
    line: int
    corrected: str


def repair(text: str, error: yaml.YAMLError, loader: Any) -> Repair | None:
    """Return the text with a line changed so that YAML reads on beyond it, None where no change helps.

    A line of entries in braces is left as it is: quotes around part of it would only move the mistake.
    """
    if len(text) > REPAIRED_CHARS_MAX:
        return None
    lines = text.split("\n")
    suspects = list(_suspects(error))
    if any(_FLOW.match(lines[number]) for number in suspects[:1] if number < len(lines)):
        return None
    for number in suspects:
        if not 0 <= number < len(lines):
            continue
        before = next((line for line in reversed(lines[:number]) if line.strip()), "")
        for corrected in _corrections(lines[number], before):
            changed = "\n".join([*lines[:number], corrected, *lines[number + 1 :]])
            if _reads_beyond(changed, number, loader):
                return Repair(changed, number, corrected)
    return None


def quoted(value: str) -> str:
    """Return the value between single quotes."""
    return "'" + value.replace("'", "''") + "'"


def _suspects(error: yaml.YAMLError) -> Iterator[int]:
    """Yield the numbers of lines that may have the mistake, the likeliest first."""
    marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
    numbers = [mark.line for mark in marks if mark is not None]
    yield from dict.fromkeys([*numbers, *(number - 1 for number in numbers)])


def indent_of(line: str) -> str:
    """Return the white space with which a line begins."""
    return line[: len(line) - len(line.lstrip())]


def _corrections(line: str, before: str) -> Iterator[str]:
    """Yield lines that may be meant; `before` is the line before."""
    end = "\r" if line.endswith("\r") else ""
    line = line.rstrip()
    indent = indent_of(line)
    if "\t" in indent:
        yield indent.replace("\t", "  ") + line.lstrip() + end
    if (entry := _ENTRY.fullmatch(line)) and not _CONTINUES.fullmatch(entry["value"]):
        value = entry["value"]
        if value[0] in "[{":
            return
        if value[0] in "'\"" and value.count(value[0]) % 2:
            yield entry["head"] + quoted(value[1:]) + end
        yield entry["head"] + quoted(value) + end
    if indent != indent_of(before):
        yield indent_of(before) + line.lstrip() + end
    if entry := _NO_COLON.fullmatch(line):
        yield f"{entry['indent']}{entry['key']}: {quoted(entry['value'])}{end}"


def _reads_beyond(text: str, number: int, loader: Any) -> bool:
    """Return whether YAML finds no mistake in the text up to the line and a following one."""
    parse: Callable[..., Iterator[Any]] = getattr(yaml, "parse")  # noqa: B009 (has no types)
    try:
        deque(parse(text, Loader=loader), maxlen=0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return mark is not None and mark.line > number
    return True
