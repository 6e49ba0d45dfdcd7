"""Errors and warnings about rules: a stable code, a message, a location and a hint."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from ...schemas.display import shortened, visible

CODES: dict[str, str] = {
    # 1xx: one expression (a formula, a predicate, a path, an operator's head)
    "TRL101": "empty expression",
    "TRL102": "missing operand",
    "TRL103": "missing operator between two operands",
    "TRL104": "unclosed bracket",
    "TRL105": "unmatched closing bracket",
    "TRL106": "unterminated string or regular expression",
    "TRL107": "operator or keyword of another language",
    "TRL108": "unexpected character",
    "TRL109": "syntax error",
    "TRL110": "invalid step bounds",
    "TRL111": "lower step bound greater than the upper one",
    "TRL112": "step bounds on an operator that takes none",
    "TRL113": "reserved word used as a name",
    "TRL114": "condition on an event in a formula, or temporal operator in a predicate",
    "TRL115": "invalid escape in a string",
    "TRL120": "unknown proposition",
    "TRL121": "unknown operator",
    "TRL122": "wrong number of operands",
    "TRL123": "recursive operator",
    "TRL124": "duplicate parameter",
    "TRL125": "future operator inside a past operator",
    "TRL126": "duplicate operator",
    "TRL130": "unknown field",
    "TRL131": "path step into a field without parts",
    "TRL132": "value that the field never has",
    "TRL133": "literal of the wrong type",
    "TRL134": "field that is not a Boolean used alone",
    "TRL135": "test that does not apply to the field",
    "TRL136": "element outside a condition on a list, or another field inside",
    "TRL137": "invalid condition on a list",
    "TRL140": "invalid regular expression",
    "TRL141": "regular expression too large",
    "TRL142": "unsupported JSON path",
    "TRL143": "too many conditions in a proposition",
    "TRL144": "too many literals in an `in` list",
    "TRL145": "path with too many steps or too long a key",
    "TRL146": "string literal too long",
    "TRL147": "too many paths in `for_each`",
    "TRL148": "lists nested too deeply",
    "TRL150": "expression too long",
    "TRL151": "expression nested too deeply",
    "TRL152": "number too large",
    "TRL153": "formula too large after expanding operators",
    # 2xx: a pack, its file and its definitions
    "TRL201": "pack not found or not readable",
    "TRL202": "invalid YAML",
    "TRL203": "duplicate key",
    "TRL204": "limit of the file, its values, their nesting or its aliases exceeded",
    "TRL205": "unsupported part of YAML",
    "TRL210": "missing field",
    "TRL211": "unknown field",
    "TRL212": "value of the wrong type",
    "TRL213": "value that is not among the choices",
    "TRL214": "invalid pack name or rule id",
    "TRL220": "duplicate rule id",
    "TRL221": "duplicate pack name, or a stored pack under another name",
    "TRL222": "duplicate name",
    "TRL223": "packs extend or use each other in a cycle",
    "TRL224": "chain of extended or used packs too long",
    "TRL225": "`drop` or `severities` names a rule that is not inherited",
    "TRL226": "`--select` or `--ignore` names no rule, tag or severity",
    "TRL227": "pack that extends and uses too many packs",
    "TRL230": "temporal operator other than `previous` in a transition",
    "TRL231": "transition used outside `previous` in a transition",
    "TRL232": "`steps` is not a Boolean formula over propositions",
    "TRL233": "future operator in `applies_to`",
    "TRL234": "`for_each` is not a path, a list of paths or a tuple of paths",
    "TRL804": "invalid proposition or memory formula under `predict`",
    "TRL240": "example is not a list of steps",
    "TRL241": "events of an example not found or not readable",
    "TRL242": "invalid event in an example",
    "TRL243": "text as an example of a proposition that reads no text",
    # 3xx: compiling a rule
    "TRL301": "machine of a rule too large",
    "TRL302": "rules too large together",
    "TRL303": "formula too large to explain, or rules too large to compare",
    "TRL304": "rule whose machine is too large to follow unknown propositions",
    # 5xx: warnings; the pack is accepted
    "TRL501": "rule that can never be violated",
    "TRL502": "rule that every session violates",
    "TRL503": "proposition that can never be true",
    "TRL504": "rule that loses open obligations when it restarts",
    "TRL505": "rule that restarts after it is satisfied",
    "TRL506": "rule that flags every event after the first violation",
    "TRL507": "rule whose verdict contradicts its finite-trace reading",
    "TRL508": "formula with surprising precedence",
    "TRL509": "unused name",
    "TRL510": "proposition that is true of events which lack the field that it tests",
    "TRL511": "proposition true of more kinds of events than the inherited one that it replaces",
    "TRL512": "example of an inherited rule that no longer fits",
    "TRL513": "path to a key `length`, which is not the number of elements",
}
"""Every code with its meaning. A code never changes its meaning, and a test triggers each."""

WINDOW = 100
"""Characters of a long line that an error shows around its caret."""


@dataclass(frozen=True, slots=True)
class Location:
    """The location of `text[start:end]`, where `text` is an expression or a line of a file.

    `line` and `column` (from 1) are those of `start` in `source`, a file's name or `<formula>`. The text may
    have several lines; the caret is drawn under the line of `start`.
    """

    source: str
    text: str
    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One error or warning; `code` is a key of `CODES`."""

    code: str
    message: str
    hint: str
    location: Location | None = None

    def __post_init__(self) -> None:
        assert self.code in CODES, f"{self.code} is not in the table of codes"

    def __str__(self) -> str:
        return render(self)


def by_location(problem: Problem) -> tuple[str, int, int]:
    """Return a sort key: file, line and column; problems without a location come first."""
    location = problem.location
    return (location.source, location.line, location.column) if location else ("", 0, 0)


class RuleError(Exception):
    """A rejected rule text; `problems` has at least one problem, in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        assert self.problems, "a RuleError has a problem"
        super().__init__("\n".join(render(problem) for problem in self.problems))


def location_in(
    text: str, start: int, end: int, *, source: str = "<formula>", line: int = 1, column: int = 1
) -> Location:
    """Return the location of `text[start:end]` if the text begins at `line` and `column` of `source`."""
    before = text[:start]
    breaks = before.count("\n")
    if breaks:
        return Location(source, text, start, end, line + breaks, start - before.rindex("\n"))
    return Location(source, text, start, end, line, column + start)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One expression and its start in its file (`line` and `column` from 1)."""

    text: str
    source: str = "<formula>"
    line: int = 1
    column: int = 1

    def location(self, start: int, end: int) -> Location:
        """Return the location of `text[start:end]`."""
        return location_in(self.text, start, end, source=self.source, line=self.line, column=self.column)

    def problem(self, code: str, message: str, hint: str, start: int, end: int) -> Problem:
        """Return a problem with `text[start:end]`."""
        return Problem(code, message, hint, self.location(start, end))


def render(problem: Problem) -> str:
    """Format a problem: `file:line:column: CODE message`, the line, its caret and the hint."""
    location = problem.location
    prefix = f"{_quoted(location.source)}:{location.line}:{location.column}: " if location else ""
    lines = [f"{prefix}{problem.code} {_quoted(problem.message)}"]
    if location and location.text.strip():
        lines += _line_with_caret(location)
    if problem.hint:
        lines.append(f"  hint: {_quoted(problem.hint)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return visible(shortened(text))


def listed(ids: list[str]) -> str:
    """Return the ids in a sentence, no more than five of them."""
    return ", ".join(f"`{name}`" for name in ids[:5]) + (" and others" if len(ids) > 5 else "")


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: `1 rule`, `1,200 rules`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint with the known word closest to this one, or else up to ten known words."""
    from difflib import get_close_matches  # loaded for errors only

    names = sorted(set(known))
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    if not near:
        near = [name for name in names if name.casefold() == word.casefold()]
    if near:
        return f"did you mean `{near[0]}`?"
    if not names:
        return "none is defined"
    shown = ", ".join(f"`{name}`" for name in names[:10])
    return f"known: {shown}" + (" and others" if len(names) > 10 else "")


def _line_with_caret(location: Location) -> list[str]:
    """Return the line of the location and a line of carets under it."""
    first = location.text.rfind("\n", 0, location.start) + 1
    last = location.text.find("\n", location.start)
    last = len(location.text) if last < 0 else last
    left = max(first, min(location.start - WINDOW // 2, last - WINDOW))
    right = min(last, left + WINDOW)
    shown = visible(location.text[left:right])
    marked = visible(location.text[location.start : min(location.end, right)])
    lead, tail = "... " if left > first else "", " ..." if right < last else ""
    gap = _width(lead) + _width(visible(location.text[left : location.start]))
    return [f"  {lead}{shown}{tail}", "  " + " " * gap + "^" * max(1, _width(marked))]


def _width(text: str) -> int:
    """Return the columns that the text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
