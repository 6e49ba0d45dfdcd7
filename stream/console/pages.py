"""The console's pages, rendered on the server from the store and the rules."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from jinja2 import Environment
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...predict.explaining.paths import PATHS_MAX
from ...rules.engine.judge import CompiledRules
from ...rules.model.rule import Rule
from ...schemas.time import parse_time, rfc3339
from ..ingest.server.open_files import FEEDS_MAX
from . import queries
from .answer_cache import AnswerCache
from .feed import POLL_S, ROWS_MAX, WARNINGS_MAX, FeedRenderer, Feeds, feed
from .filters import (
    EVENTS_SEARCHED_MAX,
    Filters,
    Occurrences,
    agents_of,
    filters_of,
    occurrences_with,
    session_conditions,
    verdict_conditions,
)
from .overview import CountSessions, hours_asked, overview, rule_view
from .queries import Position
from .rates import HOUR, SessionCounts, Window
from .replay import EVENTS_REPLAYED_MAX
from .risks import PATHS_SHOWN, ServedChain, SessionRisks, risks_as_json
from .session import sentence_of, session_view
from .templates import FOLDER, templates

SPANS_TO = "http://127.0.0.1:4318/v1/traces"
VERDICTS_A_PAGE = 50
SESSIONS_A_PAGE = 50
DEAD_LETTERS_A_PAGE = 100
NUMBER_MAX = 2**63 - 1

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""The headers of every answer: no foreign content, nothing inline, no caching."""


@dataclass(frozen=True, slots=True)
class Console:
    """The resources of the pages: the store's file, the rules, the address for spans, and the templates.

    `risks` are None without a learned chain.
    """

    store: Path
    compiled: CompiledRules
    spans_to: str
    templates: Environment
    feeds: Feeds
    answers: AnswerCache
    risks: SessionRisks | None = None

    def page(self, template: str, status: int = 200, **context: Any) -> Response:
        """Return the rendered template."""
        text = self.templates.get_template(template).render(spans_to=self.spans_to, **context)
        return HTMLResponse(text, status)

    def missing(self, what: str, hint: str) -> Response:
        """Return the page for something that does not exist."""
        return self.page("missing.html", 404, what=what, hint=hint)

    def position(self, db: sqlite3.Connection) -> Position:
        """Return the progress of the store."""
        return self.answers.get("position", partial(queries.position, db))[0]

    def counting(self, db: sqlite3.Connection) -> CountSessions:
        """Return a function that counts a window's sessions."""

        def count_sessions(window: Window, rule: tuple[str, str] | None) -> list[SessionCounts]:
            query = partial(queries.session_counts, db, window.since, window.until, HOUR, rule)
            return self.answers.get((window, rule), query)[0]

        return count_sessions

    def with_text(self, db: sqlite3.Connection, text: str | None) -> Occurrences | None:
        """Return the sessions with a text, None if none is searched."""
        if text is None:
            return None
        return self.answers.get(("text", text), partial(occurrences_with, db, text))[0]

    def filtering(self, db: sqlite3.Connection, filters: Filters) -> dict[str, Any]:
        """Return the filters of a page, and the values to choose from."""
        agents = partial(agents_of, db, queries.VERDICTS_LOOKED_AT_MAX)
        return {
            "filters": filters,
            "filtered": filters.query,
            "known_agents": self.answers.get("agents", agents)[0],
            "known_rules": [f"{rule.pack}/{rule.id}" for rule in self.compiled.rules],
            "searched_max": EVENTS_SEARCHED_MAX,
        }

    def rule(self, pack: str, rule: str) -> Rule | None:
        """Return a rule by its pack and id, None where there is none."""
        return next((r for r in self.compiled.rules if (r.pack, r.id) == (pack, rule)), None)


PageAnswer = Callable[[Console, sqlite3.Connection, Request], Response]


def routes(
    store: Path,
    compiled: CompiledRules,
    *,
    spans_to: str = SPANS_TO,
    readers: Callable[[int], None] = lambda _count: None,
    feeds_max: int = FEEDS_MAX,
    is_live: bool = True,
    chain: ServedChain | None = None,
) -> list[Route]:
    """Return the console over the store's SQLite file, as routes at the root of an application.

    `spans_to` is the address that empty pages show; `readers` gets the number of open feeds at each change,
    of which there are `feeds_max` at most. A store that does not change is not live: it has no feed. The
    store is only read; it must exist when a page is requested. The application does the authentication.
    `chain` gives the risks of sessions.
    """
    made = templates(compiled.rules, is_live=is_live)
    risks = None if chain is None else SessionRisks(chain)
    console = Console(store, compiled, spans_to, made, Feeds(readers, feeds_max), AnswerCache(), risks)
    answering: dict[str, PageAnswer] = {
        "/": _overview,
        "/rules": _rules,
        "/rules/{pack}/{rule}": _rule,
        "/api/sessions/{session_id:path}/risk": _risk,
        "/sessions": _sessions,
        "/sessions/{session_id:path}": _session,
        "/verdicts": _verdicts,
        "/verdicts/{verdict}": _verdict,
        "/dead-letters": _dead_letters,
    }
    guard = [Middleware(_Guard)]
    pages = [
        Route(path, partial(_answer, console, page), middleware=guard) for path, page in answering.items()
    ]
    files = [
        Route(f"/{name}", partial(_file, (FOLDER / name).read_bytes(), kind), middleware=guard)
        for name, kind in (("style.css", "text/css"), ("console.js", "text/javascript"))
    ]
    feeds = [Route("/feed", _Feed(console), middleware=guard)] if is_live else []
    return [*pages, *files, *feeds]


def missing_page(spans_to: str = SPANS_TO) -> HTMLResponse:
    """Return the page for an unknown address, for the application's handler of 404."""
    what, hint = "There is no such page.", "Start at the overview."
    text = _plain().get_template("missing.html").render(spans_to=spans_to, what=what, hint=hint)
    return HTMLResponse(text, 404, HEADERS)


@cache
def _plain() -> Environment:
    """Return templates without rules."""
    return templates(())


class _Guard:
    """A middleware that adds `HEADERS` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, guarded)


def _answer(console: Console, page: PageAnswer, request: Request) -> Response:
    """Return the page, or the error page where the store cannot be read."""
    try:
        with queries.reading(console.store) as db:
            return page(console, db, request)
    except sqlite3.Error as error:
        return console.page("unreadable.html", 503, reason=error.sqlite_errorname)
    except (msgspec.MsgspecError, ValueError, OverflowError):
        # SQLite has no checksums: a damaged row shows only when it is decoded.
        return console.page("unreadable.html", 503, reason="SQLITE_OK, but a row is damaged")


def _file(content: bytes, kind: str, _request: Request) -> Response:
    return Response(content, media_type=kind)


def _overview(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    position = console.position(db)
    everything = request.query_params.get("show") == "all"
    given = queries.latest(db, ROWS_MAX, breaches=not everything)
    return console.page(
        "overview.html",
        position=position,
        given=given,
        everything=everything,
        limit=ROWS_MAX,
        warned=None if console.risks is None else queries.warnings(db, WARNINGS_MAX),
        warned_max=WARNINGS_MAX,
        drifted=[] if console.risks is None else sorted(console.risks.drifted(db)),
        **_rates(console, db, request, position),
    )


def _rates(console: Console, db: sqlite3.Connection, request: Request, position: Position) -> dict[str, Any]:
    asked, risks = request.query_params, None if console.risks is None else console.risks.counts(db)
    return overview(console.compiled.rules, position, console.counting(db), hours_asked(asked), asked, risks)


def _rules(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    view = _rates(console, db, request, console.position(db))
    return console.page("rules.html", rules=console.compiled.rules, **view)


def _rule(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    pack, name = request.path_params["pack"], request.path_params["rule"]
    rule = console.rule(pack, name)
    if rule is None:
        return console.missing("Unknown rule.", "The page of rules lists all rules.")
    return console.page(
        "rule.html",
        rule=rule,
        digest=console.compiled.digests[console.compiled.rules.index(rule)],
        given=queries.latest(db, VERDICTS_A_PAGE, rule=(pack, name)),
        counts=queries.counts(db, (pack, name)),
        counted_max=queries.RECORDS_COUNTED_MAX,
        limit=VERDICTS_A_PAGE,
        **_rule_risk(console, db, rule),
        **rule_view(rule, console.position(db), console.counting(db), hours_asked(request.query_params)),
    )


def _rule_risk(console: Console, db: sqlite3.Connection, rule: Rule) -> dict[str, Any]:
    """Return the threshold of a rule, its riskiest contexts and latest warnings, or nothing of them."""
    name = rule.pack, rule.id
    threshold = None if console.risks is None else console.risks.threshold(*name)
    if console.risks is None or threshold is None:
        return {"threshold": None}
    return {
        "threshold": threshold,
        "drifts": name in console.risks.drifted(db),
        "contexts": console.risks.riskiest(*name),
        "warned": queries.warnings(db, WARNINGS_MAX, rule=name),
        "warned_max": WARNINGS_MAX,
    }


def _sessions(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    if "id" in request.query_params:
        return _session_page(console, db, request, request.query_params["id"])
    before, filters = _number(request, "before"), filters_of(request.query_params)
    where = session_conditions(filters, console.with_text(db, filters.text))
    found = queries.begun(db, SESSIONS_A_PAGE + 1, before=before, where=where)
    return console.page(
        "sessions.html",
        **console.filtering(db, filters),
        sessions=found[:SESSIONS_A_PAGE],
        older=_older([session.number for session in found], SESSIONS_A_PAGE),
        first=before is None,
    )


def _session(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    return _session_page(console, db, request, request.path_params["session_id"])


def _session_page(console: Console, db: sqlite3.Connection, request: Request, session_id: str) -> Response:
    view = session_view(console.compiled, db, session_id, request.query_params, console.risks)
    if view is None:
        hint = "Its events may not be judged yet: they wait for the watermark."
        return console.missing("Unknown session.", hint)
    return console.page("session.html", **view)


def _risk(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    """Return the risks of a session now as JSON, with `paths` continuations of each."""
    session_id, asked = request.path_params["session_id"], _number(request, "paths")
    if console.risks is None:
        return JSONResponse({"error": "no chain is loaded: start with --predict CHAIN"}, 404)
    known = queries.occurrences(db, session_id)
    if not known:
        return JSONResponse({"error": "no such session, or none of its events is judged yet"}, 404)
    paths = PATHS_SHOWN if asked is None else min(asked, PATHS_MAX)
    found = console.risks.now(queries.followed(db, session_id), paths)
    document = {
        "session_id": session_id,
        "occurrence": rfc3339(known[0]),
        "chain": console.risks.chain.followed.digest,
        "rules": risks_as_json(found, console.risks.drifted(db)),
    }
    return JSONResponse(document)


def _verdicts(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    before, filters = _number(request, "before"), filters_of(request.query_params)
    where = verdict_conditions(filters, console.with_text(db, filters.text))
    found = queries.latest(db, VERDICTS_A_PAGE + 1, before=before, where=where)
    pack, _, name = (filters.rule or "").rpartition("/")
    rule = console.rule(pack, name)
    return console.page(
        "verdicts.html",
        **console.filtering(db, filters),
        given=found[:VERDICTS_A_PAGE],
        older=_older([verdict.number for verdict in found], VERDICTS_A_PAGE),
        first=before is None,
        rule=rule,
    )


def _verdict(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    record = queries.record(db, request.path_params["verdict"])
    if record is None:
        return console.missing("Unknown verdict.", "The page of verdicts lists the latest ones.")
    rule = console.rule(record.pack, record.rule)
    digest = None if rule is None else console.compiled.digests[console.compiled.rules.index(rule)]
    began = parse_time(record.occurrence)
    events = [] if began is None else queries.events(db, record.session_id, began, EVENTS_REPLAYED_MAX)
    same, sentence = digest == record.rule_digest, sentence_of(console.compiled, record, events)
    return console.page("verdict.html", record=record, rule=rule, same=same, sentence=sentence)


def _dead_letters(console: Console, db: sqlite3.Connection, request: Request) -> Response:
    before = _number(request, "before")
    found = queries.dead_letters(db, DEAD_LETTERS_A_PAGE + 1, before=before)
    return console.page(
        "dead_letters.html",
        letters=found[:DEAD_LETTERS_A_PAGE],
        older=_older([letter.id for letter in found], DEAD_LETTERS_A_PAGE),
        first=before is None,
    )


def _older(numbers: list[int], size: int) -> int | None:
    """Return the number before which the next page begins, None where this page is the last."""
    return numbers[size - 1] if len(numbers) > size else None


class _Feed:
    """The route of the live feed; a feed counts against the limit for as long as its connection is open."""

    def __init__(self, console: Console) -> None:
        self.console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        feeds = self.console.feeds
        if feeds.open >= feeds.feeds_max:
            await Response(status_code=503, headers={"Retry-After": "60"})(scope, receive, send)
            return
        with feeds.opening():
            await EventSourceResponse(_news(self.console, Request(scope)))(scope, receive, send)


def _news(console: Console, request: Request) -> AsyncGenerator[ServerSentEvent]:
    asked = request.headers.get("last-event-id") or request.query_params.get("after", "")
    parts: Any = console.templates.get_template("parts.html").module
    renderer = FeedRenderer(parts.verdict_rows, parts.position, parts.warning_rows)
    breaches = request.query_params.get("show") != "all"
    wait = partial(anyio.sleep, POLL_S)
    return feed(console.store, _whole(asked) or 0, breaches, renderer, console.answers, wait)


def _number(request: Request, name: str) -> int | None:
    return _whole(request.query_params.get(name, ""))


def _whole(text: str) -> int | None:
    """Return the whole number in the text, None where there is none, or one too large for the store."""
    return (
        int(text)
        if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= NUMBER_MAX
        else None
    )
