"""The templates, with their filters and functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...rules.explanation.rule_status import Status
from ...rules.model.rule import Rule
from ...schemas.display import visible
from ...schemas.instrumentations.census import unread_text
from ...schemas.time import rfc3339
from ...schemas.verdict import Severity, Verdict
from . import formatting
from .chart import chart
from .filters import VERDICTS_SHOWN
from .session import page_of

FOLDER = Path(__file__).parent

FILTERS = (
    visible,
    formatting.shown,
    formatting.name,
    formatting.sentence,
    formatting.when,
    rfc3339,
    formatting.clock,
    formatting.number,
    formatting.percent,
    formatting.horizon,
    formatting.likely,
    formatting.apart,
    formatting.laid_out,
)

GLYPHS = {
    Verdict.VIOLATED: "✕",
    Verdict.UNMET: "◌",
    Verdict.UNJUDGED: "?",
    Verdict.SATISFIED: "✓",
    Verdict.HELD: "✓",
    Verdict.PENDING: "·",
}
"""The glyph of each verdict, shown with its word."""
STATUS_GLYPHS = {
    Status.ACTIVE: "●",
    Status.SATISFIED: "✓",
    Status.INACTIVE: "·",
    Status.VIOLATED: "✕",
    Status.OPEN: "?",
}
"""The glyph of each status of a part of a rule."""


def templates(rules: Sequence[Rule], *, is_live: bool = True) -> Environment:
    """Return the templates of this folder, which escape all values."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    titles = {(rule.pack, rule.id): rule.title for rule in rules}

    def title_of(pack: str, rule: str) -> str:
        return titles.get((pack, rule), "")

    callable_: dict[str, Any] = {
        "rule_path": formatting.rule_path,
        "session_path": formatting.session_path,
        "query": formatting.query,
        "verdict_path": formatting.verdict_path,
        "page_of": page_of,
        "title_of": title_of,
        "unread_text": unread_text,
        "chart": chart,
        "glyphs": GLYPHS,
        "status_glyphs": STATUS_GLYPHS,
        "is_live": is_live,
        "severities": sorted(Severity, key=lambda severity: -severity.rank),
        "verdicts_shown": VERDICTS_SHOWN,
    }
    made.filters.update({filter_.__name__: filter_ for filter_ in FILTERS})
    made.globals |= callable_
    return made
