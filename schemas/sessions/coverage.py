"""The choice, among spans that say the same thing, of the one that tells it.

One call is often told by several instrumentations, and not all of them capture content. A conversation is
told half by half, by the innermost span that captured the half; a span without content hides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from ..event import Content
from ..span_content import INPUT, OUTPUT, RETOLD, SpanContent, SpanRole, ToolCall

if TYPE_CHECKING:
    from .span_reading import SpanReading

_HALVES = (INPUT, OUTPUT)
_SPEAKING = (SpanRole.CHAT, SpanRole.AGENT)
Run: TypeAlias = tuple[ToolCall, str | None]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the spans of a trace leave to others of it.

    `keys` are of spans, or of their halves (`half_key`), that need not be told. `runs` are the call and the
    error of a tool's run, by the key of the span that tells it, with what others know of it. `helpers` are
    the keys of agents that work for a tool, though not below it.
    """

    keys: frozenset[str] = frozenset()
    runs: Mapping[str, Run] = field(default_factory=dict[str, "Run"])
    helpers: frozenset[str] = frozenset()

    def halves(self, key: str) -> tuple[str, ...]:
        """Return the halves of a span that need not be told."""
        return tuple(half for half in _HALVES if key in self.keys or half_key(key, half) in self.keys)


def half_key(key: str, half: str) -> str:
    """Return the name of one half of what a span tells."""
    return f"{key}/{half}"


def captured_halves(content: SpanContent) -> tuple[str, ...]:
    """Return the halves of which a step has content: of a conversation, or of a tool's run."""
    if content.role is SpanRole.TOOL:
        has = [one is not None and one.content is Content.CAPTURED for one in (content.call, content.result)]
    else:
        has = [content.input is not None, content.output is not None]
    return tuple(half for half, is_there in zip(_HALVES, has, strict=True) if is_there)


def coverage_of(chains: Sequence[tuple[SpanReading, Sequence[SpanReading]]]) -> Coverage:
    """Return what need not be told of these spans, each with those above it, nearest first."""
    keys = {key for reading, above in chains if reading.has_claims for key in covers(reading, above)}
    for reading, above in chains:
        keys.update(_hidden(reading, above, keys))
    for same in _same_answers([reading for reading, _ in chains]):
        keys.update(_repeated(same, keys))
    return Coverage(frozenset(keys), _runs(chains), frozenset(_helpers(chains)))


def covers(reading: SpanReading, above: Sequence[SpanReading]) -> Iterator[str]:
    """Yield the keys of the spans above, or of their halves, that this one tells.

    Of a model call or an agent these are its wrappers and its agent, up to the tool or the other agent that
    it works for; of a tool's run the runs around it of the same call, unless they know more of it.
    """
    for upper in _around(reading, above):
        if reading.content.role is SpanRole.TOOL:
            if len(upper.halves) <= len(reading.halves):
                yield upper.key
            continue
        told = [half for half in _HALVES if _covers_half(reading, upper, half)]
        yield from [upper.key] if len(told) == len(_HALVES) else [half_key(upper.key, half) for half in told]


def _covers_half(inner: SpanReading, outer: SpanReading, half: str) -> bool:
    return half in inner.halves or (inner.content.role is SpanRole.CHAT and half not in outer.halves)


def _around(reading: SpanReading, above: Sequence[SpanReading]) -> Iterator[SpanReading]:
    """Yield the spans above that may tell the same call of a model, or the same run of a tool."""
    part, agent = (
        reading.content.role,
        reading.content.agent if reading.content.role is SpanRole.AGENT else None,
    )
    is_run = reading.apart and part is SpanRole.AGENT
    for upper in above:
        content = upper.content
        if part is SpanRole.TOOL and content.role is SpanRole.TOOL and _same_call(reading.content, content):
            yield upper
        elif part in _SPEAKING and content.role in _SPEAKING:
            if upper.apart and content.role is SpanRole.AGENT:
                if is_run:
                    return
                is_run = True
            if content.role is SpanRole.AGENT and content.agent is not None:
                if agent is not None and content.agent != agent:
                    return
                agent = content.agent
            yield upper
        elif SpanRole.TOOL in (part, content.role) and content.role is not SpanRole.OTHER:
            return


def _same_call(inner: SpanContent, outer: SpanContent) -> bool:
    """Return whether two nested runs of a tool are one: by id where both have one, else by arguments.

    Where one lacks the arguments it is the same, too.
    """
    one, other = inner.call, outer.call
    if one is None or other is None or one.tool != other.tool:
        return False
    if one.call_id is not None and other.call_id is not None:
        return one.call_id == other.call_id
    return one.args is None or other.args is None or one.args == other.args


def _hidden(reading: SpanReading, above: Sequence[SpanReading], keys: set[str]) -> Iterator[str]:
    """Yield what a span does not know and a span above tells: no `unknown` event stands beside it."""
    part = reading.content.role
    if part is SpanRole.TOOL and any(len(u.halves) > len(reading.halves) for u in _around(reading, above)):
        yield reading.key
    if part is not SpanRole.CHAT:
        return
    wrappers = [upper for upper in _around(reading, above) if upper.content.role is SpanRole.CHAT]
    for half in _HALVES:
        if half not in reading.halves and any(
            half in u.halves and not _is_in(keys, u, half) for u in wrappers
        ):
            yield half_key(reading.key, half)


def _is_in(keys: set[str], reading: SpanReading, half: str) -> bool:
    return reading.key in keys or half_key(reading.key, half) in keys


def _same_answers(spans: Iterable[SpanReading]) -> Iterator[list[SpanReading]]:
    """Return the model calls that tell of one answer, the earliest first.

    They overlap: some give all answers one id. A call that is told again when it is over is told by one more.
    """
    groups: dict[str, list[list[SpanReading]]] = {}
    named = [
        one for one in spans if one.content.role is SpanRole.CHAT and one.content.response_id is not None
    ]
    for reading in sorted(named, key=lambda one: one.age):
        name = reading.content.response_id or ""
        same = groups.setdefault(name, [])
        if same and _is_same(name, same[-1], reading):
            same[-1].append(reading)
        else:
            same.append([reading])
    return (same for named in groups.values() for same in named if len(same) > 1)


def _is_same(name: str, same: Sequence[SpanReading], reading: SpanReading) -> bool:
    if name.startswith(RETOLD):
        return not any(OUTPUT in one.halves for one in same)
    return any(one.began <= reading.ended and reading.began <= one.ended for one in same)


def _repeated(same: Sequence[SpanReading], keys: set[str]) -> Iterator[str]:
    """Yield the halves of one call that need not be told twice, or need not be called unknown."""
    for half in _HALVES:
        left = [one for one in same if not _is_in(keys, one, half)]
        tellers = [one for one in left if half in one.halves] or left
        yield from (half_key(one.key, half) for one in left if one.key != tellers[0].key)


def _runs(chains: Sequence[tuple[SpanReading, Sequence[SpanReading]]]) -> dict[str, Run]:
    """Return the runs of tools of which others know more: spans of the same run, and what started it."""
    known: dict[str, Run] = {}
    for reading, above in chains:
        if reading.content.role is not SpanRole.TOOL or reading.content.call is None:
            continue
        same = [reading, *_around(reading, above)]
        found = [known.get(one.key) or (one.content.call, one.content.error) for one in same]
        runs = [(call, error) for call, error in found if call is not None]
        call = completed_call(runs[0][0], _starter(above))
        for other, _ in runs[1:]:
            call = completed_call(call, other)
        error = next((error for _, error in runs if error is not None), None)
        known.update(
            {one.key: (completed_call(own, call), error) for one, (own, _) in zip(same, runs, strict=True)}
        )
    told = {reading.key: (reading.content.call, reading.content.error) for reading, _ in chains}
    return {key: run for key, run in known.items() if run != told[key]}


def _helpers(chains: Sequence[tuple[SpanReading, Sequence[SpanReading]]]) -> Iterator[str]:
    """Return the keys of the agents that ran, from beginning to end, while a tool of one beside them did."""
    runs: dict[str | None, list[tuple[int, int]]] = {}
    for reading, above in chains:
        if reading.beside and reading.content.role is SpanRole.TOOL and above:
            runs.setdefault(above[0].parent_id, []).append((reading.began, reading.ended))
    ends = {
        parent: (sorted(times), list(accumulate((end for _, end in sorted(times)), max)))
        for parent, times in runs.items()
    }
    for reading, _ in chains:
        if reading.beside and reading.content.role is SpanRole.AGENT and reading.parent_id in ends:
            times, latest = ends[reading.parent_id]
            before = bisect_left(times, (reading.began, 0))
            if before and latest[before - 1] >= reading.ended:
                yield reading.key


def _starter(above: Sequence[SpanReading]) -> ToolCall | None:
    """Return the call that the node of a graph right above a tool's run was given."""
    upper = above[0].content if above else None
    return upper.call if upper is not None and upper.role is SpanRole.OTHER else None


def completed_call(call: ToolCall, other: ToolCall | None) -> ToolCall:
    """Return the call with what it lacks of another telling of it."""
    if other is None or other.tool != call.tool:
        return call
    if call.call_id is None and other.call_id is not None:
        call = replace(call, call_id=other.call_id)
    if call.args is None and call.content is Content.ABSENT and other.args is not None:
        call = replace(call, args=other.args, content=other.content)
    return call
