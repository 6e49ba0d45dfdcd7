"""The places in a YAML file of the characters of its scalars."""

from __future__ import annotations

ESCAPES = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", " ": " "}


def alignment(text: str, value: str, style: str, start: int, end: int) -> list[int] | None:
    """Return the offset in the file of each character of a scalar, or None if the two differ.

    `value` is the scalar's text, from `start` to `end` in the file's `text`.
    """
    at = start
    if style in ("|", ">"):
        at = text.find("\n", at) + 1
    elif style:
        at += 1
    offsets: list[int] = []
    for char in value:
        step = _space(text, at, char) if char.isspace() else _character(text, at, char, style)
        if step is None or step[0] >= end:
            is_rest_blank = char.isspace() and offsets and not value[len(offsets) :].strip()
            return offsets if is_rest_blank else None
        offsets.append(step[0])
        at = step[1]
    return offsets or [start]


def _space(text: str, at: int, char: str) -> tuple[int, int] | None:
    """Return the offset of a whitespace character of the value, and the offset after it."""
    if text[at : at + 1] == "\\" and ESCAPES.get(text[at + 1 : at + 2]) == char:
        return at, at + 2
    if text[at : at + 1] == char:
        return at, at + 1
    return at, at


def _character(text: str, at: int, char: str, style: str) -> tuple[int, int] | None:
    """Return the offset of a visible character and the offset after it; None if it is not there."""
    while text[at : at + 1].isspace() or (style == '"' and text[at : at + 2] == "\\\n"):
        at += 2 if text[at] == "\\" else 1
    here = text[at : at + 1]
    if style == '"' and here == "\\":
        return (at, at + 2) if ESCAPES.get(text[at + 1 : at + 2]) == char else None
    if style == "'" and here == "'":
        return (at, at + 2) if char == "'" and text[at + 1 : at + 2] == "'" else None
    return (at, at + 1) if here == char else None
