"""Reports of sources without rows, and of spans without events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .error import command_error
from .options import note
from .source import GivenSources, named
from .terminal import quoted

if TYPE_CHECKING:
    from ..schemas.instrumentations.census import SpanCensus


def report_unread(spans: SpanCensus, events: int, source: GivenSources, *, allow_empty: bool) -> int:
    """Report on standard error that the spans, or those of an agent framework, contain no event.

    Return the exit code: 2, after an error (TRL605), if there is no event at all and that is not allowed.
    """
    from ..schemas.instrumentations.census import unread_text

    first = source if isinstance(source, str) else source[0]
    hint = f"run `tracline doctor {first}`; docs/spans.md lists the spans that are read"
    if spans.is_unread and not (events or allow_empty):
        error = command_error(
            "TRL605", named(source), unread_text(spans.spans), f"{hint}; --allow-empty accepts them"
        )
        error.show()
        return error.exit_code
    if silent := spans.spans if spans.is_unread else spans.unread_frameworks:
        note(f"{quoted(named(source))}: {quoted(unread_text(silent))}\n  hint: {quoted(hint)}")
    return 0


def report_empty(rows: int, source: GivenSources) -> None:
    """Report on standard error that a source has no rows."""
    if not rows:
        note(f"{quoted(named(source))}: no rows: nothing to judge")
