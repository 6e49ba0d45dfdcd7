"""Regular expressions as trees over the ASCII characters, for texts that have no others.

The meaning is that of Rust's regex crate. What it writes in a way that is not read here, such as Unicode
classes, has no tree; its own engine searches for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

DEPTH_MAX = 40
"""Groups inside one another."""


class Assertion(Enum):
    """A condition on a place in a text, which takes no character."""

    BEGIN = "begin"
    END = "end"
    BOUNDARY = "boundary"
    NO_BOUNDARY = "no boundary"


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set; bit `c` is the character `c`."""

    bits: int


@dataclass(frozen=True, slots=True)
class InTurn:
    """Patterns one after another."""

    parts: tuple[AsciiPattern, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Alternatives."""

    parts: tuple[AsciiPattern, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A pattern `least` to `most` times, any number of times where `most` is None."""

    part: AsciiPattern
    least: int
    most: int | None


AsciiPattern = Assertion | Characters | InTurn | AnyOf | Repeated


class _UnreadSyntax(Exception):
    """Syntax without a tree."""


def bits_of(characters: str) -> int:
    """Return a set of characters as bits; characters beyond ASCII are not in it."""
    return sum(1 << code for code in {ord(character) for character in characters} if code < 128)


def _span(first: str, last: str) -> int:
    return bits_of("".join(map(chr, range(ord(first), ord(last) + 1))))


ALL = (1 << 128) - 1
DIGITS = _span("0", "9")
LETTERS = _span("a", "z") | _span("A", "Z")
WORD = DIGITS | LETTERS | bits_of("_")
SPACES = bits_of("\t\n\v\f\r ")
"""The ASCII characters of Unicode's White_Space."""

_CLASSES = {"d": DIGITS, "w": WORD, "s": SPACES, "D": ALL ^ DIGITS, "W": ALL ^ WORD, "S": ALL ^ SPACES}
_ASSERTIONS = {"b": Assertion.BOUNDARY, "B": Assertion.NO_BOUNDARY, "A": Assertion.BEGIN, "z": Assertion.END}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_FOLDED_TO_ASCII = {"\u017f": "sS", "\u212a": "kK"}
"""The characters beyond ASCII that are an ASCII letter in another case."""


def read_pattern(pattern: str) -> AsciiPattern | None:
    """Return the tree of a pattern that Rust's engine accepts, None where it has syntax that is not read."""
    try:
        return _PatternReader(pattern).whole()
    except _UnreadSyntax:
        return None


def without_boundaries(pattern: AsciiPattern) -> AsciiPattern:
    """Return a pattern that matches wherever this one does, and asks for no word boundary."""
    match pattern:
        case Assertion.BOUNDARY | Assertion.NO_BOUNDARY:
            return InTurn(())
        case InTurn(parts):
            return InTurn(tuple(map(without_boundaries, parts)))
        case AnyOf(parts):
            return AnyOf(tuple(map(without_boundaries, parts)))
        case Repeated(part, least, most):
            return Repeated(without_boundaries(part), least, most)
        case _:
            return pattern


def is_anchored(pattern: AsciiPattern) -> bool:
    """Return whether a pattern evidently matches at the beginning of a text alone."""
    match pattern:
        case InTurn(parts):
            return bool(parts) and is_anchored(parts[0])
        case AnyOf(parts):
            return all(map(is_anchored, parts))
        case _:
            return pattern is Assertion.BEGIN


@dataclass(slots=True)
class _PatternReader:
    """A reader of one pattern; `at` is the next character."""

    text: str
    at: int = 0
    folds: bool = False
    dot_has_newline: bool = False
    is_verbose: bool = False
    depth: int = 0

    def whole(self) -> AsciiPattern:
        found = self._alternatives()
        if self.at < len(self.text):
            raise _UnreadSyntax
        return found

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _next(self) -> str:
        if self.at == len(self.text):
            raise _UnreadSyntax
        self.at += 1
        return self.text[self.at - 1]

    def _takes(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def _skip(self) -> None:
        """Skip the white space and comments of a verbose pattern."""
        while self.is_verbose and (character := self._peek()):
            if character == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif character.isspace() and bits_of(character) & SPACES:
                self.at += 1
            else:
                return

    def _alternatives(self) -> AsciiPattern:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _sequence(self) -> AsciiPattern:
        parts: list[AsciiPattern] = []
        self._skip()
        while self._peek() not in ("", "|", ")"):
            part = self._single()
            if part is not None:
                parts.append(self._repetitions(part))
            self._skip()
        return parts[0] if len(parts) == 1 else InTurn(tuple(parts))

    def _single(self) -> AsciiPattern | None:
        """Return the next pattern without its repetitions, None where flags are set instead."""
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case "\\":
                return self._escape()
            case ".":
                return Characters(ALL if self.dot_has_newline else ALL ^ bits_of("\n"))
            case "^":
                return Assertion.BEGIN
            case "$":
                return Assertion.END
            case "*" | "+" | "?" | "{" | "}" | "]":
                raise _UnreadSyntax
            case _:
                if self.is_verbose and character.isspace():
                    raise _UnreadSyntax
                return Characters(self._folded(character))

    def _group(self) -> AsciiPattern | None:
        before = self.folds, self.dot_has_newline, self.is_verbose
        if self._takes("?P<") or self._takes("?<"):
            while self._next() != ">":
                pass
        elif self._takes("?") and not self._flags():
            return None
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise _UnreadSyntax
        found = self._alternatives()
        if self._next() != ")":
            raise _UnreadSyntax
        self.depth -= 1
        self.folds, self.dot_has_newline, self.is_verbose = before
        return found

    def _flags(self) -> bool:
        """Read flags, and return whether a group follows them."""
        value = True
        while (flag := self._next()) not in ":)":
            match flag:
                case "-":
                    value = False
                case "i":
                    self.folds = value
                case "s":
                    self.dot_has_newline = value
                case "x":
                    self.is_verbose = value
                case "U":
                    # Which of several matches is found makes no difference.
                    pass
                case _:
                    raise _UnreadSyntax
        return flag == ":"

    def _escape(self) -> AsciiPattern:
        character = self._next()
        if character in _ASSERTIONS:
            if character in "bB" and self._peek() == "{":
                raise _UnreadSyntax
            return _ASSERTIONS[character]
        return Characters(self._escaped(character))

    def _escaped(self, character: str) -> int:
        """Return the characters of an escape that is no assertion."""
        if character in _CLASSES:
            return _CLASSES[character]
        if character in _CONTROLS:
            return bits_of(_CONTROLS[character])
        if character.isascii() and not character.isalnum() and character not in "<>":
            return bits_of(character)
        raise _UnreadSyntax

    def _set(self) -> AsciiPattern:
        """Return a set in brackets, without sets inside it and without operations of sets."""
        is_negated = self._takes("^")
        bits = 0
        if self._peek() in ("]", "-"):
            raise _UnreadSyntax
        while (character := self._next()) != "]":
            if character == "[" or (character in "&~-" and self._peek() in ("", character)):
                raise _UnreadSyntax
            if self.is_verbose and (character.isspace() or character == "#" or self._peek().isspace()):
                # White space is left out here, too, but not beside every sign.
                raise _UnreadSyntax
            first = self._next() if character == "\\" else character
            if character == "\\" and (first in _CLASSES or first in _CONTROLS):
                bits |= self._escaped(first)
                if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
                    raise _UnreadSyntax
                continue
            if character == "\\":
                self._escaped(first)
            bits |= self._range(first, self._last(first))
        return Characters(ALL ^ bits if is_negated else bits)

    def _last(self, first: str) -> str:
        """Return the last character of a range, the first one where there is no range."""
        if self._peek() != "-" or self.text[self.at + 1 : self.at + 2] == "]":
            return first
        self._next()
        last = self._next()
        if last in "[-" or (self.is_verbose and (last.isspace() or last == "#")):
            raise _UnreadSyntax
        if last == "\\":
            last = self._next()
            if last in _CLASSES or last in _CONTROLS:
                raise _UnreadSyntax
            self._escaped(last)
        return last

    def _range(self, first: str, last: str) -> int:
        ascii_codes = range(ord(first), min(ord(last), 127) + 1)
        beyond = "".join(each for each in _FOLDED_TO_ASCII if first <= each <= last)
        return self._folded("".join(map(chr, ascii_codes)) + beyond)

    def _folded(self, characters: str) -> int:
        if not self.folds:
            return bits_of(characters)
        more = "".join(_FOLDED_TO_ASCII.get(each, "") for each in characters)
        ascii_only = "".join(filter(str.isascii, characters))
        return bits_of(ascii_only.lower() + ascii_only.upper() + more)

    def _repetitions(self, part: AsciiPattern) -> AsciiPattern:
        """Return a pattern with the repetitions that follow it."""
        bounds: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        self._skip()
        while (sign := self._peek()) in ("*", "+", "?", "{") and sign:
            self._next()
            least, most = self._counts() if sign == "{" else bounds[sign]
            # A lazy repetition matches the same texts.
            self._takes("?")
            part = Repeated(part, least, most)
            end = self.at
            self._skip()
            if self.at > end and self._peek() == "?":
                raise _UnreadSyntax
        return part

    def _counts(self) -> tuple[int, int | None]:
        """Return the bounds of a counted repetition, after its brace."""

        def number(read: Callable[[], str]) -> int:
            digits = ""
            while self._peek().isdecimal() and self._peek().isascii():
                digits += read()
            if not 1 <= len(digits) <= 4:
                raise _UnreadSyntax
            return int(digits)

        least = number(self._next)
        if self._takes("}"):
            return least, least
        if not self._takes(","):
            raise _UnreadSyntax
        if self._takes("}"):
            return least, None
        most = number(self._next)
        if not self._takes("}"):
            raise _UnreadSyntax
        return least, most
