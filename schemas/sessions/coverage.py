"""The choice, among spans that make the same claims, of the one with the claims that become events.

Several instrumentations often report one call, and not all of them capture content. Each half of a
conversation is taken from the innermost span that captured it; a span without content hides nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import replace

from ..event import Content
from ..span_content import INPUT, OUTPUT, RETOLD, SpanContent, SpanRole, ToolCall

if TYPE_CHECKING:
    from .span_reading import SpanReading

_HALVES = (INPUT, OUTPUT)
_AGENT, _CHAT, _TOOL, _OTHER = SpanRole.AGENT, SpanRole.CHAT, SpanRole.TOOL, SpanRole.OTHER
"""Names of their own, because Python 3.11 looks a member up four times as long as a global name."""
_MODEL_OR_AGENT = (_CHAT, _AGENT)
CallRun: TypeAlias = tuple[ToolCall, str | None]
Chains: TypeAlias = "Sequence[tuple[SpanReading, Sequence[SpanReading]]]"
"""Spans, each with its ancestors, nearest first."""
_Enclosed: TypeAlias = "list[tuple[SpanReading, Sequence[SpanReading], Sequence[SpanReading]]]"
"""Spans, each with its ancestors, and those of them that may be of the same call or run."""


class Coverage(msgspec.Struct, frozen=True, gc=False):
    """The claims of a trace's spans that other spans of it make.

    `keys` are of covered spans, or of covered halves (`half_key`). `runs` are the call and the error of tool
    runs, by the key of their span, completed from other spans. `helpers` are the keys of agents that work for
    a tool, though not below it.
    """

    keys: frozenset[str] = frozenset()
    runs: Mapping[str, CallRun] = {}
    helpers: frozenset[str] = frozenset()

    def halves(self, key: str) -> tuple[str, ...]:
        """Return the covered halves of a span."""
        if not self.keys:
            return ()
        return tuple(half for half in _HALVES if key in self.keys or half_key(key, half) in self.keys)


def half_key(key: str, half: str) -> str:
    """Return the key of one half of a span."""
    return f"{key}/{half}"


def is_of(key: str, spans: Container[str]) -> bool:
    """Return whether a key is that of one of these spans, or of a half of one."""
    if key in spans:
        return True
    return "/" in key and (key.removesuffix("/in") in spans or key.removesuffix("/out") in spans)


def captured_halves(content: SpanContent) -> tuple[str, ...]:
    """Return the captured halves of a conversation, or of a tool's run."""
    if content.role is SpanRole.TOOL:
        has = [
            half is not None and half.content is Content.CAPTURED for half in (content.call, content.result)
        ]
    else:
        has = [content.input is not None, content.output is not None]
    return tuple(half for half, is_there in zip(_HALVES, has, strict=True) if is_there)


def coverage_of(chains: Chains) -> Coverage:
    """Return which claims of these spans others of them make."""
    enclosed = [(reading, above, _enclosing(reading, above)) for reading, above in chains]
    inner = [(reading, same) for reading, _, same in enclosed if same]
    keys = {key for reading, same in inner if reading.has_claims for key in _covers(reading, same)}
    for reading, same in inner:
        keys.update(_hidden(reading, same, keys))
    for calls in _same_answers([reading for reading, _ in chains]):
        keys.update(_repeated(calls, keys))
    return Coverage(frozenset(keys), _runs(enclosed), frozenset(_helpers(chains)))


def covers(reading: SpanReading, above: Sequence[SpanReading]) -> Iterator[str]:
    """Return the keys of the ancestors, or of their halves, that a span covers.

    A model call or an agent covers its wrappers and its agent, up to the tool or the other agent that it
    works for; a tool's run covers the enclosing runs of the same call, unless they captured more of it.
    """
    return _covers(reading, _enclosing(reading, above))


def _covers(reading: SpanReading, enclosing: Sequence[SpanReading]) -> Iterator[str]:
    role, halves = reading.content.role, reading.halves
    for upper in enclosing:
        outer = upper.halves
        if role is _TOOL:
            if len(outer) <= len(halves):
                yield upper.key
            continue
        covered = [half for half in _HALVES if half in halves or (role is _CHAT and half not in outer)]
        if len(covered) == len(_HALVES):
            yield upper.key
        else:
            yield from [half_key(upper.key, half) for half in covered]


def _enclosing(reading: SpanReading, above: Sequence[SpanReading]) -> Sequence[SpanReading]:
    """Return the ancestors that may be of the same call of a model, or of the same run of a tool."""
    role = reading.content.role
    return list(_enclosing_of(reading, role, above)) if above and role is not _OTHER else ()


def _enclosing_of(
    reading: SpanReading, role: SpanRole, above: Sequence[SpanReading]
) -> Iterator[SpanReading]:
    agent = reading.content.agent if role is _AGENT else None
    is_run = reading.apart and role is _AGENT
    is_tool, is_conversation = role is _TOOL, role in _MODEL_OR_AGENT
    for upper in above:
        content, outer = upper.content, upper.content.role
        if is_tool and outer is _TOOL and _same_call(reading.content, content):
            yield upper
        elif is_conversation and outer in _MODEL_OR_AGENT:
            if upper.apart and outer is _AGENT:
                if is_run:
                    return
                is_run = True
            if outer is _AGENT and content.agent is not None:
                if agent is not None and content.agent != agent:
                    return
                agent = content.agent
            yield upper
        elif (is_tool or outer is _TOOL) and outer is not _OTHER:
            return


def _same_call(inner: SpanContent, outer: SpanContent) -> bool:
    """Return whether two nested runs of a tool are of one call: by id where both have one, else by arguments.

    Runs without arguments match any.
    """
    call, enclosing = inner.call, outer.call
    if call is None or enclosing is None or call.tool != enclosing.tool:
        return False
    if call.call_id is not None and enclosing.call_id is not None:
        return call.call_id == enclosing.call_id
    return call.args is None or enclosing.args is None or call.args == enclosing.args


def _hidden(reading: SpanReading, enclosing: Sequence[SpanReading], keys: set[str]) -> Iterator[str]:
    """Yield what a span lacks and an ancestor has, so that no `unknown` event appears beside it."""
    role, halves = reading.content.role, reading.halves
    if len(halves) == len(_HALVES):
        return
    if role is SpanRole.TOOL and any(len(upper.halves) > len(halves) for upper in enclosing):
        yield reading.key
    if role is not SpanRole.CHAT:
        return
    wrappers = [upper for upper in enclosing if upper.content.role is SpanRole.CHAT]
    for half in _HALVES:
        if half not in halves and any(half in u.halves and not _is_in(keys, u, half) for u in wrappers):
            yield half_key(reading.key, half)


def _is_in(keys: set[str], reading: SpanReading, half: str) -> bool:
    return reading.key in keys or half_key(reading.key, half) in keys


def _same_answers(spans: Iterable[SpanReading]) -> Iterator[list[SpanReading]]:
    """Return groups of model calls with one answer, the earliest first.

    The calls of a group overlap, since some providers give all answers one id. With a replacement id the
    group ends at the first call that has the answer.
    """
    groups: dict[str, list[list[SpanReading]]] = {}
    calls = [s for s in spans if s.content.role is SpanRole.CHAT and s.content.response_id is not None]
    if len({call.content.response_id or "" for call in calls}) == len(calls):
        return
    for reading in sorted(calls, key=lambda call: call.age):
        name = reading.content.response_id or ""
        same = groups.setdefault(name, [])
        if same and _is_same(name, same[-1], reading):
            same[-1].append(reading)
        else:
            same.append([reading])
    yield from (same for named in groups.values() for same in named if len(same) > 1)


def _is_same(name: str, same: Sequence[SpanReading], reading: SpanReading) -> bool:
    if name.startswith(RETOLD):
        return not any(OUTPUT in call.halves for call in same)
    return any(call.began <= reading.ended and reading.began <= call.ended for call in same)


def _repeated(same: Sequence[SpanReading], keys: set[str]) -> Iterator[str]:
    """Yield the halves of one call that a second span repeats, or lacks where the first has them."""
    for half in _HALVES:
        uncovered = [call for call in same if not _is_in(keys, call, half)]
        first = next((call for call in uncovered if half in call.halves), uncovered[0] if uncovered else None)
        yield from (half_key(call.key, half) for call in uncovered if first and call.key != first.key)


def _runs(enclosed: _Enclosed) -> dict[str, CallRun]:
    """Return the runs of tools that other spans complete: spans of the same run, and what started it."""
    known: dict[str, CallRun] = {}
    for reading, above, enclosing in enclosed:
        if reading.content.role is not SpanRole.TOOL or reading.content.call is None:
            continue
        same = [reading, *enclosing]
        found = [known.get(span.key) or (span.content.call, span.content.error) for span in same]
        runs = [(call, error) for call, error in found if call is not None]
        call = completed_call(runs[0][0], _starter(above))
        for enclosing, _ in runs[1:]:
            call = completed_call(call, enclosing)
        error = next((error for _, error in runs if error is not None), None)
        for span, (former, _) in zip(same, runs, strict=True):
            known[span.key] = completed_call(former, call), error
    if not known:
        return {}
    tools = (reading for reading, *_ in enclosed if reading.content.role is SpanRole.TOOL)
    before = {reading.key: (reading.content.call, reading.content.error) for reading in tools}
    return {key: run for key, run in known.items() if run != before[key]}


def _helpers(chains: Chains) -> Iterator[str]:
    """Yield the keys of the agents that ran, from start to end, during the run of a sibling tool."""
    if not any(reading.beside for reading, _ in chains):
        return
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
    """Return the call of the graph node right above a tool's run."""
    upper = above[0].content if above else None
    return upper.call if upper is not None and upper.role is SpanRole.OTHER else None


def completed_call(call: ToolCall, source: ToolCall | None) -> ToolCall:
    """Return the call with the id and the arguments that it lacks from another report of it."""
    if source is None or source.tool != call.tool:
        return call
    if call.call_id is None and source.call_id is not None:
        call = replace(call, call_id=source.call_id)
    if call.args is None and call.content is Content.ABSENT and source.args is not None:
        call = replace(call, args=source.args, content=source.content)
    return call
