"""Random scripts of conversations, and changes of scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from tracline.examples.desk.script import Script, ScriptCall, ScriptLine
from tracline.schemas.span_content import Role

START_NS = 1_772_438_400_000_000_000
"""The start of a conversation without times: 2026-03-02 08:00 UTC."""


_TEXTS = ("yes", "no", "yes", "What is it about?", "Done, thank you.", "«über» 🙂 <b>&amp;</b>\n", "refund")
_TOOLS = ("find_user", "get_order", "issue_refund")
_ARGS = ('{"id": 1}', '{"id": 1, "note": "a\\"b"}', "{}", '{"amount": 120.5, "ids": [1, 2]}')
_RESULTS = ("ok", '{"status": "done", "items": [1, 2]}', "Error: no answer", "[]")


def random_session(seed: int, turns: int = 6) -> Script:
    """Return a short random conversation with many equal texts, calls and results.

    Calls run in parallel, fail, stay unanswered, or are answered twice or by a sub-agent; the customer
    sometimes writes twice in a row. Every call has a unique id.
    """
    rng = Random(f"random session {seed}")
    lines: list[ScriptLine] = []
    if rng.random() < 0.4:
        lines.append(ScriptLine(Role.ASSISTANT, rng.choice(_TEXTS)))
    for _ in range(rng.randint(1, turns)):
        lines += [ScriptLine(Role.USER, rng.choice(_TEXTS)) for _ in range(1 + (rng.random() < 0.2))]
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            lines += _random_calls(rng)
        if rng.random() < 0.9:
            lines += [
                ScriptLine(Role.ASSISTANT, rng.choice(_TEXTS)) for _ in range(1 + (rng.random() < 0.15))
            ]
    return Script(f"random-{seed}", "desk", "lumen-4", "shop-web", tuple(lines))


def _random_calls(rng: Random) -> Iterator[ScriptLine]:
    calls = tuple(
        ScriptCall(f"call_{rng.getrandbits(32):08x}", rng.choice(_TOOLS), rng.choice(_ARGS))
        for _ in range(rng.choice((1, 1, 1, 2, 3)))
    )
    yield ScriptLine(Role.ASSISTANT, rng.choice((None, None, "One moment.")), calls)
    for call in calls:
        chance = rng.random()
        if chance < 0.1:
            continue
        inner: tuple[ScriptLine, ...] = ()
        if chance < 0.25:
            inner = (
                ScriptLine(Role.USER, rng.choice(_TEXTS)),
                ScriptLine(Role.ASSISTANT, rng.choice(_TEXTS)),
            )
        error = rng.choice(("timeout", "not_found")) if chance > 0.85 else None
        yield ScriptLine(Role.TOOL, rng.choice(_RESULTS), (), call, error=error, inner=inner)
        if 0.25 < chance < 0.32:
            yield ScriptLine(Role.TOOL, rng.choice(_RESULTS), (), call, again=True)


def tidy(session: Script) -> Script:
    """Return the session without unanswered calls and without second answers.

    Without ids, these leave open which call a result answers. Messages without text and calls are dropped.
    """
    answered = [line.answers for line in session.lines if line.answers is not None]
    pruned = [replace(line, calls=tuple(c for c in line.calls if c in answered)) for line in session.lines]
    lines = tuple(line for line in pruned if not line.again and (line.text is not None or line.calls))
    return replace(session, lines=lines)


def later(session: Script, by_ns: int) -> Script:
    """Return the same conversation later, under the same id; it must have times.

    Its spans have different ids.
    """

    return replace(session, lines=_later(session.lines, by_ns))


def _later(lines: Sequence[ScriptLine], by_ns: int) -> tuple[ScriptLine, ...]:
    return tuple(replace(line, time=line.time + by_ns, inner=_later(line.inner, by_ns)) for line in lines)
