"""Misspellings: names and values of which one is likely meant to be the other."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

LETTERS_MIN = 4
"""Letters of a word below which another word is no misspelling of it: `on` and `off`."""
LETTERS_PER_EDIT = 4
"""Letters of a word for each letter in it that may differ."""

_STEP = re.compile(r"\.?[^.\[]+|\[[^\]]*\]")
_INDEX = re.compile(r"\[[0-9]+\]")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def misspelt(name: str, known: Collection[str]) -> str | None:
    """Return the known name of which a name is likely a misspelling, None if there is none.

    The names have the same words, each of them with few other letters: `cancel_reservatoin`, and not
    `get_user_details` for `get_order_details`.
    """
    near = sorted(each for each in known if each != name and _is_misspelling(name, each))
    return (get_close_matches(name, near, n=1, cutoff=0) or [None])[0]


def misspelt_path(path: str, known: Collection[str]) -> str | None:
    """Return the known path, or the beginning of one, of which a path is likely a misspelling."""
    asked = _STEP.findall(_INDEX.sub("[*]", path))
    beginnings = {tuple(_STEP.findall(each)[: len(asked)]) for each in known} - {tuple(asked)}
    near = sorted("".join(steps) for steps in beginnings if _are_near(asked, steps))
    return (get_close_matches(path, near, n=1, cutoff=0) or [None])[0]


def _are_near(steps: Sequence[str], others: Sequence[str]) -> bool:
    pairs = zip(steps, others, strict=False)
    return len(steps) == len(others) and all(
        left == right or _is_misspelling(left, right) for left, right in pairs
    )


def contained(name: str, known: Collection[str]) -> str | None:
    """Return the known name with the same words and more, or fewer; None if there is none, or are several."""
    words = set(_words(name))
    near = [each for each in known if words < set(_words(each)) or words > set(_words(each)) != set()]
    return near[0] if len(near) == 1 else None


def _is_misspelling(name: str, known: str) -> bool:
    left, right = _words(name), _words(known)
    if not left or "".join(left) == "".join(right):
        return bool(left)
    return len(left) == len(right) and all(map(_is_near, left, right))


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(name)]


def _is_near(left: str, right: str) -> bool:
    """Return whether two words are equal, or begin alike and differ in few letters."""
    if left == right:
        return True
    shorter = min(len(left), len(right))
    is_word = left.isalpha() and right.isalpha() and left[0] == right[0]
    return is_word and shorter >= LETTERS_MIN and _edits(left, right) <= max(1, shorter // LETTERS_PER_EDIT)


def _edits(left: str, right: str) -> int:
    """Return how many letters are inserted, left out, replaced or exchanged with the next one."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left, start=1):
        last, before, row = before, row, [i]
        for j, letter_there in enumerate(right, start=1):
            edits = min(row[j - 1] + 1, before[j] + 1, before[j - 1] + (letter != letter_there))
            if i > 1 and j > 1 and letter == right[j - 2] and left[i - 2] == letter_there:
                edits = min(edits, last[j - 2] + 1)
            row.append(edits)
    return row[-1]
