"""Formatting for the pages: times, numbers, text from telemetry, and links.

Text from telemetry is hostile: jinja2 escapes it, and `shown` makes control characters visible.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from urllib.parse import quote, urlencode

from markupsafe import Markup

from ...predict.explaining import words
from ...schemas.display import HIDDEN
from ...schemas.time import NS, UNDATED, rfc3339

TEXT_SHOWN_MAX = 4_000
"""Characters of one text that a session's page shows."""
NAME_SHOWN_MAX = 80
"""Characters of a name (session, agent, tool) in a table."""


LINE_MAX = 72
"""Characters of JSON text that fit in one line."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_OPENING, _CLOSING = ("{", "["), ("}", "]")


def shown(text: str, limit: int | None = TEXT_SHOWN_MAX) -> Markup:
    """Return the text as HTML: escaped, hidden characters as code points, and cut at `limit`."""
    cut = text if limit is None else text[:limit]
    parts = [
        Markup("").join(map(_code_point, run)) if hidden else Markup("%s") % "".join(run)
        for hidden, run in groupby(cut.replace("\r\n", "\n"), _is_hidden)
    ]
    if len(cut) < len(text):
        parts.append(Markup('<span class="cut">… %s more characters</span>') % number(len(text) - len(cut)))
    return Markup("<bdi>%s</bdi>") % Markup("").join(parts)


def sentence(text: str) -> Markup:
    """Return a sentence as HTML, with the parts between backticks as code."""
    parts = [shown(part) for part in text.split("`")]
    coded = (Markup("<code>%s</code>") % part if at % 2 else part for at, part in enumerate(parts))
    return Markup("").join(coded)


def name(text: str) -> Markup:
    """Return a name as HTML, in one line and cut to `NAME_SHOWN_MAX` characters."""
    cut = text if len(text) <= NAME_SHOWN_MAX else f"{text[: NAME_SHOWN_MAX - 1]}…"
    return shown(cut.replace("\n", "\N{SYMBOL FOR LINE FEED}"), None)


def _is_hidden(char: str) -> bool:
    return char not in "\n\t" and unicodedata.category(char) in HIDDEN


def _code_point(char: str) -> Markup:
    return Markup('<span class="hidden-char">U+%s</span>') % f"{ord(char):04X}"


def laid_out(text: str) -> str:
    """Return long JSON text with one member a line; other text as it is.

    Numbers and repeated keys stay as they were written: a reader sees what was judged.
    """
    if not LINE_MAX < len(text) <= TEXT_SHOWN_MAX or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "".join(_lines(_TOKEN.findall(text)))


def _lines(tokens: Iterable[str]) -> Iterator[str]:
    """Yield the tokens of JSON text with white space between them, without needless escapes."""
    depth, before = 0, ""
    for token in tokens:
        depth -= token in _CLOSING
        if before == "," or (before in _OPENING) != (token in _CLOSING):
            yield "\n" + "  " * depth
        text = json.dumps(json.loads(token), ensure_ascii=False) if token[0] == '"' else token
        yield ": " if token == ":" else text
        depth += token in _OPENING
        before = token


def when(ns: int | str) -> Markup:
    """Return an instant as a `time` element that shows seconds and has nanoseconds in its title.

    Of a log without times it is a text that states so.
    """
    text = ns if isinstance(ns, str) else rfc3339(ns)
    if text.startswith(UNDATED):
        return Markup('<span class="quiet">no times</span>')
    short = f"{text[:10]} {text[11:19]}"
    return Markup('<time datetime="%s" title="%s">%s</time>') % (text, text, short)


def clock(ns: int) -> str:
    """Return the hour and minute of an instant, UTC."""
    return rfc3339(ns)[11:16]


def day(ns: int) -> str:
    """Return the day of an instant, UTC."""
    return rfc3339(ns)[:10]


def apart(ns: int) -> str:
    """Return a duration in its two largest units: `1 h 5 min`, `12.3 s`."""
    sign, seconds = ("-", -ns / NS) if ns < 0 else ("", ns / NS)
    if seconds < 60:
        return f"{sign}{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{sign}{minutes} min {round(seconds) % 60} s"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours} h {minutes} min" if hours < 48 else f"{sign}{hours // 24} d {hours % 24} h"


def number(count: int) -> str:
    """Return a count with thousands separators."""
    return f"{count:,}"


def horizon(within: int | None) -> str:
    """Return a horizon in words."""
    return "before its end" if within is None else words.horizon(within)


def likely(risk: float) -> str:
    """Return a risk in percent, with the two digits that matter."""
    return words.percent(risk)


def percent(rate: float | None) -> str:
    """Return a rate in percent, a dash for none."""
    return "–" if rate is None else f"{rate:.1%}"


def rule_path(pack: str, rule: str) -> str:
    """Return the address of a rule's page."""
    return f"/rules/{quote(pack, safe='')}/{quote(rule, safe='')}"


def session_path(session_id: str, occurrence: int | str | None = None, **query: str | int) -> str:
    """Return the address of a session's page; the occurrence is ns or RFC 3339 text."""
    more = {key: str(value) for key, value in query.items()}
    if occurrence is not None:
        more = {
            "occurrence": occurrence if isinstance(occurrence, str) else rfc3339(occurrence),
            **more,
        }
    # A browser resolves dots as path steps, however they are escaped; routes do not match line ends.
    if session_id in ("", ".", "..") or "\n" in session_id:
        return f"/sessions?{urlencode({'id': session_id, **more})}"
    return f"/sessions/{quote(session_id, safe='')}{'?' if more else ''}{urlencode(more)}"


def query(asked: Mapping[str, str | int | None], **changes: str | int | None) -> str:
    """Return the query of an address with changes; None removes a parameter."""
    return "?" + urlencode({name: value for name, value in {**asked, **changes}.items() if value is not None})


def verdict_path(verdict_id: str) -> str:
    """Return the address of a verdict's page."""
    return f"/verdicts/{quote(verdict_id, safe='')}"
