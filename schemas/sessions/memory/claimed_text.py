"""Arguments and results in brief, and the comparison of what two spans claim of one call."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import cast

BRIEF_CHARS_MAX = 200
"""Characters of a text that are remembered whole; of a longer one its head and its digest."""
_HEAD_CHARS = 160
_CUT = "\0"
_LEVELS = 8
"""Levels of wrapping in which a value is looked for."""
_LAST_WORD = re.compile(r"\w+\Z")
_WORD = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d]\w*")
_ESCAPE = re.compile(r"\\+(?:u([0-9a-f]{4})|(.))", re.DOTALL)
_MISSING = object()
_NOTHING = frozenset({"none", "null", "undefined"})


def brief(text: str | None, *, truncated: bool = False) -> str | None:
    """Return a text as it is remembered for comparison; equal texts, and hardly any others, are equal."""
    if text is None:
        return None
    text = text.replace(_CUT, " ")
    if len(text) > BRIEF_CHARS_MAX:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return f"{text[:_HEAD_CHARS]}{_CUT}{digest}"
    return f"{_LAST_WORD.sub('', text)}{_CUT}" if truncated else text


def is_whole(text: str) -> bool:
    """Return whether the brief form is the text itself."""
    return _CUT not in text


def equal(text: str | None, second: str | None) -> bool:
    """Return whether two texts are equal as far as they are known: of a truncated one, its beginning."""
    if text is None or second is None or text == second:
        return True
    return (text.endswith(_CUT) or second.endswith(_CUT)) and agree(text, second)


def agree(text: str | None, second: str | None) -> bool:
    """Return whether two texts can be forms of one value; an unknown text can be any value.

    They can if one contains the other, as frameworks wrap what they pass on: `{"result": "x"}` and `x`. JSON
    is compared by value, other text and long text by its words in their order.
    """
    if text is None or second is None or text == second:
        return True
    if is_whole(text) and is_whole(second):
        value, another = _value(text), _value(second)
        if _is_container(value) or _is_container(another):
            if _holds(value, another, _LEVELS) or _holds(another, value, _LEVELS):
                return True
            if not isinstance(value, str) and not isinstance(another, str):
                return False
    words, others = _words(text), _words(second)
    return _in_order(_begin(words, text), others) or _in_order(_begin(others, second), words)


def _value(text: str) -> object:
    """Return the value of a JSON text, and other text itself."""
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return text


def _is_container(value: object) -> bool:
    return isinstance(value, (dict, list))


def _holds(outer: object, inner: object, levels: int) -> bool:
    """Return whether a value is the other, or wraps it."""
    if isinstance(inner, str) and inner[:1] in ("{", "["):
        inner = _value(inner)
    if isinstance(outer, str) and outer[:1] in ("{", "["):
        outer = _value(outer)
    if inner is None or inner == "" or inner == {} or inner == [] or outer == inner:
        return True
    if levels == 0:
        return False
    if isinstance(outer, dict):
        members = cast("dict[str, object]", outer)
        wrapped = cast("dict[str, object]", inner) if isinstance(inner, dict) else None
        if wrapped is not None and all(members.get(k, _MISSING) == value for k, value in wrapped.items()):
            return True
        return any(_holds(value, cast("object", inner), levels - 1) for value in members.values() if value)
    return isinstance(outer, list) and any(
        _holds(value, inner, levels - 1) for value in cast("list[object]", outer) if value
    )


def _words(text: str) -> list[str]:
    head, _, _ = text.partition(_CUT)
    spelled = _ESCAPE.sub(_unescaped, head.lower())
    return [word for word in map(_plain, _WORD.findall(spelled)) if word not in _NOTHING]


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    return " " if found[2] in "nrtbf" else found[2]


def _plain(word: str) -> str:
    """Return a number without a fraction of zeros: writers differ in these."""
    whole, dot, fraction = word.partition(".")
    return whole if dot and not fraction.strip("0") else word


def _begin(words: Sequence[str], text: str) -> Sequence[str]:
    """Return the words, of a long text half: a wrapper in the other text's head may displace the rest."""
    return words if is_whole(text) or text.endswith(_CUT) else words[: len(words) // 2]


def _in_order(words: Sequence[str], others: Sequence[str]) -> bool:
    rest = iter(others)
    return all(word in rest for word in words)
