"""Misspellings and similar names: names and values of which one is likely meant to be the other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile

LETTERS_MIN = 4
"""Letters of a word below which another word is no misspelling of it: `on` and `off`."""
LETTERS_PER_EDIT = 4
"""Letters of a word for each letter in it that may differ."""

PREFIX_MIN = 3
"""Letters of a word that stands for the longer word that it begins."""
RATIO_MIN = 0.8
"""The ratio of `difflib` from which names without a common word are similar."""
GENERIC = frozenset({"id", "ids", "name", "type", "code", "number", "no", "key", "value", "status", "list"})
"""Words that names have in common although they are about different things."""

_OF = frozenset("oaft")
"""Letters of `of`, `at` and `for`, which some abbreviations have."""
_NO_LITERAL = re.compile(r"\(\?[a-z]+\)|\\.")
_NAME = re.compile(r"[^\W\d][\w-]*")
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


def names_beside(path: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return the path above a path, and the names that known paths have there."""
    parent, _, _ = _INDEX.sub("[*]", path).rpartition(".")
    below = (each.removeprefix(f"{parent}.") for each in known if each.startswith(f"{parent}."))
    return parent, list(dict.fromkeys(each.split(".")[0].split("[")[0] for each in below))


def part_beside(path: str, known: Collection[str]) -> str | None:
    """Return the known path beside a path that has all words of its name, or that lacks some of them."""
    parent, names = names_beside(path, known)
    name = path.rpartition(".")[2]
    near = similar(name, [each for each in names if is_part(name, each)])
    return None if near is None else f"{parent}.{near}"


def _are_near(steps: Sequence[str], others: Sequence[str]) -> bool:
    pairs = zip(steps, others, strict=False)
    return len(steps) == len(others) and all(
        left == right or _is_misspelling(left, right) for left, right in pairs
    )


def meant_by(pattern: str, known: Mapping[str, int]) -> str | None:
    """Return the most frequent known name of which a pattern likely misspells some words in a row."""
    found = _NAME.search(_NO_LITERAL.sub("", pattern))
    words = _words(found[0]) if found else []
    near = [each for each in known if words and _has_near_words(words, _words(each))]
    return max(near, key=lambda each: (known[each], each), default=None)


def _has_near_words(words: Sequence[str], name: Sequence[str]) -> bool:
    count = len(words)
    return any(_are_near_words(words, name[at : at + count]) for at in range(len(name) - count + 1))


def similar(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most like a name which is no misspelling of one, None if none is.

    A name that has all words of the other comes first (`reservation`, `reservation_id`), then an abbreviation
    (`dob`, `birth_date`), then one with a word in common, and last one with nearly the same letters.
    """
    ranked = sorted((*likeness, each) for each in set(known) - {name} for likeness in _likeness(name, each))
    if not ranked or (len(ranked) > 1 and ranked[0][:2] == ranked[1][:2] and ranked[0][0] == _GENERIC_PART):
        return None
    return ranked[0][-1]


def is_part(name: str, known: str) -> bool:
    """Return whether all words of one of two names are in the other, and not generic ones only."""
    return any(rank == _PART for rank, _, _ in _likeness(name, known))


_PART, _SHORT, _COMMON, _GENERIC_PART, _LETTERS = range(5)


def _likeness(name: str, known: str) -> Iterator[tuple[int, int, float]]:
    """Yield how alike two names are, less for more: the kind of likeness, words that differ, and letters."""
    left, right = _words(name), _words(known)
    ratio = -SequenceMatcher(None, name, known).ratio()
    common = [word for word in left if any(_is_same_word(word, each) for each in right)]
    differing = len(left) + len(right) - 2 * len(common)
    is_whole = bool(common) and len(common) == min(len(left), len(right))
    is_about = not GENERIC.issuperset(common)
    if common and (is_whole or is_about):
        yield _PART if is_whole and is_about else _COMMON if is_about else _GENERIC_PART, differing, ratio
    elif _is_short(left, right) or _is_short(right, left):
        yield _SHORT, differing, ratio
    elif -ratio >= RATIO_MIN:
        yield _LETTERS, differing, ratio


def _is_same_word(left: str, right: str) -> bool:
    """Return whether two words are near, one begins the other, or they begin alike: `state`, `status`."""
    shorter, longer = sorted((left, right), key=len)
    is_beginning = len(shorter) >= PREFIX_MIN and longer.startswith(shorter)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
    return _is_near(left, right) or is_beginning or (shared >= LETTERS_MIN and shared * 3 >= len(shorter) * 2)


def _is_short(words: Sequence[str], longer: Sequence[str]) -> bool:
    """Return whether a word is an abbreviation: `dob` of `birth_date`, `qty` of `quantity`."""
    if len(words) != 1 or not words[0].isalpha() or len(words[0]) > LETTERS_MIN:
        return False
    word, initials = words[0], sorted(each[0] for each in longer)
    if len(longer) > 1:
        left = [letter for letter in word if letter not in _OF or letter in initials]
        return initials in (sorted(word), sorted(left))
    letters = iter(longer[0])
    return (
        len(word) >= PREFIX_MIN
        and len(longer[0]) > len(word)
        and word[0] == longer[0][0]
        and word[-1] == longer[0][-1]
        and all(letter in letters for letter in word)
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
    return _are_near_words(left, right)


def _are_near_words(left: Sequence[str], right: Sequence[str]) -> bool:
    return len(left) == len(right) and all(map(_is_near, left, right))


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(name)]


def _is_near(left: str, right: str) -> bool:
    """Return whether two words are equal, or begin alike and differ in few letters."""
    if left == right:
        return True
    shorter = min(len(left), len(right))
    if shorter >= PREFIX_MIN and (left[:-1] == right or right[:-1] == left):
        return left.isalpha() and right.isalpha()
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
