"""Errors of rule texts as data: a stable code, what is wrong, where, and what to write instead."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from ...schemas.display import shortened, visible

CODES: dict[str, str] = {
    # 1xx: one expression (a formula, a predicate, a path, an operator's head)
    "TRL101": "the text is empty",
    "TRL102": "an operand is missing",
    "TRL103": "an operator is missing between two operands",
    "TRL104": "a bracket is never closed",
    "TRL105": "a bracket closes that was never opened",
    "TRL106": "a string or regular expression is never closed",
    "TRL107": "a sign or word of another language",
    "TRL108": "a character that has no meaning here",
    "TRL109": "the text does not follow the grammar",
    "TRL110": "step bounds are not written as the operator takes them",
    "TRL111": "step bounds stand in the wrong order",
    "TRL112": "step bounds stand on an operator that takes none",
    "TRL113": "a reserved word is used as a name",
    "TRL114": "a question about an event stands in a formula, or a temporal operator in a predicate",
    "TRL115": "an escape in a string means nothing",
    "TRL120": "an unknown proposition",
    "TRL121": "an unknown operator",
    "TRL122": "an operator has the wrong number of operands",
    "TRL123": "an operator is defined by itself",
    "TRL124": "a parameter stands twice in an operator's head",
    "TRL125": "a future operator stands inside a past one",
    "TRL126": "an operator is defined twice",
    "TRL130": "an unknown field",
    "TRL131": "a step into a field that has no parts",
    "TRL132": "a value that the field never has",
    "TRL133": "a literal of a type that the question cannot compare",
    "TRL134": "a field that is no Boolean stands alone",
    "TRL135": "a question that the field cannot answer",
    "TRL140": "a regular expression that the engine does not accept",
    "TRL141": "a regular expression that is too large",
    "TRL142": "a JSON path that cannot be asked for",
    "TRL143": "a proposition asks too many questions",
    "TRL144": "an `in` list has too many literals",
    "TRL145": "a path has too many steps, or a key in it is too long",
    "TRL146": "a string of a question is too long",
    "TRL147": "`for_each` names too many paths",
    "TRL150": "the text is too long",
    "TRL151": "the text is nested too deeply",
    "TRL152": "a step bound or count is too large",
    "TRL153": "the operators expand to too many nodes",
    # 2xx: a pack, its file and what it defines
    "TRL201": "a pack cannot be found or read",
    "TRL202": "the file is no YAML",
    "TRL203": "a key stands twice",
    "TRL204": "the file, its values, their nesting or its aliases exceed a limit",
    "TRL205": "a part of YAML that packs do not use",
    "TRL210": "a field is missing",
    "TRL211": "an unknown field",
    "TRL212": "a value of the wrong kind",
    "TRL213": "a value that is none of the choices",
    "TRL214": "a name that cannot be one",
    "TRL220": "two rules have the same id",
    "TRL221": "two packs have the same name, or one has another than it was kept under",
    "TRL222": "a name is defined twice",
    "TRL223": "packs extend each other in a circle",
    "TRL224": "packs extend each other too deeply",
    "TRL225": "`drop` or `severities` names a rule that is not inherited",
    "TRL230": "a transition is more than Boolean and `previous`",
    "TRL231": "a transition's name stands outside `previous` in a transition",
    "TRL232": "`steps` is more than Boolean over propositions",
    "TRL233": "`applies_to` speaks of the future",
    "TRL234": "`for_each` is no path, list of paths or tuple of paths",
    "TRL240": "an example is no list of steps",
    # 5xx: warnings; the pack is accepted
    "TRL501": "a rule can never be broken",
    "TRL502": "a rule is always broken",
    "TRL503": "a proposition can never hold",
    "TRL504": "a rule forgets open obligations when it restarts",
    "TRL505": "a rule begins anew after it was satisfied",
    "TRL506": "a rule flags every event after the first violation",
    "TRL507": "a rule is decided where the finite reading says the opposite",
    "TRL508": "a formula reads as something else than it looks",
    "TRL509": "a name is defined and never used",
    "TRL510": "a proposition holds at events that never have what it asks about",
    "TRL511": "a proposition is true of other kinds of events than the inherited one that it replaces",
    "TRL512": "an example of an inherited rule does not fit what the pack replaces",
    # 3xx: compiling a rule
    "TRL301": "a rule's machine is too large",
    "TRL302": "the rules are too large together",
}
"""Every code and its meaning. None is ever given a second meaning, and each has a test that triggers it."""

WINDOW = 100
"""Characters of a long line that an error shows around its caret."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where something stands: `text[start:end]`, a part of the expression or of the file's line.

    `line` and `column` (from 1) say where `start` stands in `source`, a file's name or `<formula>`. The
    text may hold several lines; the caret is drawn under the one that holds `start`.
    """

    source: str
    text: str
    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or (in warnings) likely not meant. `code` is a key of `CODES`."""

    code: str
    message: str
    hint: str
    location: Location | None = None

    def __post_init__(self) -> None:
        assert self.code in CODES, f"{self.code} is not in the table of codes"

    def __str__(self) -> str:
        return render(self)


def by_location(problem: Problem) -> tuple[str, int, int]:
    """Return the key that sorts problems: file, line and column, those without a place first."""
    location = problem.location
    return (location.source, location.line, location.column) if location else ("", 0, 0)


class RuleError(Exception):
    """A rule text that cannot be accepted; `problems` holds at least one, in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        assert self.problems, "a RuleError says what is wrong"
        super().__init__("\n".join(render(problem) for problem in self.problems))


def location_in(
    text: str, start: int, end: int, *, source: str = "<formula>", line: int = 1, column: int = 1
) -> Location:
    """The place of `text[start:end]` where the text itself begins at `line` and `column` of `source`."""
    before = text[:start]
    breaks = before.count("\n")
    if breaks:
        return Location(source, text, start, end, line + breaks, start - before.rindex("\n"))
    return Location(source, text, start, end, line, column + start)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One expression and where it begins in its file (`line` and `column` from 1)."""

    text: str
    source: str = "<formula>"
    line: int = 1
    column: int = 1

    def location(self, start: int, end: int) -> Location:
        """The place of `text[start:end]`."""
        return location_in(self.text, start, end, source=self.source, line=self.line, column=self.column)

    def problem(self, code: str, message: str, hint: str, start: int, end: int) -> Problem:
        """A problem with `text[start:end]`."""
        return Problem(code, message, hint, self.location(start, end))


def render(problem: Problem) -> str:
    """The problem for a person: `file:line:column: CODE message`, the line, its caret and the hint."""
    location = problem.location
    where = f"{_quoted(location.source)}:{location.line}:{location.column}: " if location else ""
    lines = [f"{where}{problem.code} {_quoted(problem.message)}"]
    if location and location.text.strip():
        lines += _excerpt(location)
    if problem.hint:
        lines.append(f"  hint: {_quoted(problem.hint)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return visible(shortened(text))


def counted(number: int, noun: str) -> str:
    """The number with its noun: `1 rule`, `2 rules`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint naming the known word closest to this one, else the known ones (at most ten); never empty."""
    from difflib import get_close_matches  # only errors ask

    names = sorted(set(known))
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    if not near:
        near = [name for name in names if name.casefold() == word.casefold()]
    if near:
        return f"did you mean `{near[0]}`?"
    if not names:
        return "none is defined"
    shown = ", ".join(f"`{name}`" for name in names[:10])
    return f"known are {shown}" + (" and others" if len(names) > 10 else "")


def _excerpt(location: Location) -> list[str]:
    """The line of the text that holds the place, and a line of carets under it."""
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
    """The columns that the text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
