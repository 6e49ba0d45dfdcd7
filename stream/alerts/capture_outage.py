"""Outages of content capture, which have alerts of their own: without content, rules judge nothing.

`CAPTURE` counts like a rule. It applies to every session with a rule, and a session violates it in which a
rule becomes unjudged because content is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...schemas.records.session_status import SessionStatus, StatusChange

CAPTURE = ("tracline", "content-capture")
"""The pack and id of alerts that the content of sessions is not captured; no rule has them."""

CAPTURE_SEVERITY = "high"
"""The severity of these alerts."""


def counted_statuses(status: StatusChange) -> Iterator[tuple[tuple[str, str], SessionStatus]]:
    """Yield the rules that a status counts for, `CAPTURE` last, each with its status; none for a close."""
    if status.pack is None or status.rule is None:
        return
    yield (status.pack, status.rule), status.status
    yield CAPTURE, SessionStatus.APPLIED if status.missing is None else SessionStatus.VIOLATED
