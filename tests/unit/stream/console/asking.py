"""The console of a store, asked in this process, and the rules that its tests judge by."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
from starlette.applications import Starlette
from tracline.rules.engine.judge import compile_rule_set
from tracline.rules.packs.load import pack_text
from tracline.stream.console import pages

PACK = """
pack: desk
version: 1
propositions:
  call: kind == "tool_call"
  pay: kind == "tool_call" and tool == "pay"
  result: kind == "tool_result"
  angry: kind == "user" and text contains "!"
rules:
  - {id: answered, title: Calls are answered, severity: medium, formula: always (call -> eventually result)}
  - {id: calm, title: Nobody shouts, severity: high, formula: always not angry}
  - {id: paid-once, severity: low, for_each: call_id, formula: 'always (pay -> at_most[1] pay)'}
"""
DESK = compile_rule_set(pack_text(PACK))


def app(store: Path, compiled=DESK) -> Starlette:
    """The console as an application."""
    return Starlette(
        routes=pages.routes(store, compiled),
        exception_handlers={404: lambda _request, _error: pages.missing_page()},
    )


def get(console: Starlette, path: str) -> httpx.Response:
    """Return what the console answers."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=console)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path)

    return asyncio.run(ask())


def plain(html: str) -> str:
    """The text of a page, in one line."""
    text = re.sub(r"</?(?:a|b|bdi|code|span|strong|time)(?: [^>]*)?>", "", html)
    text = re.sub(r"<[^>]+>", " ", text)
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&#34;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        text = text.replace(entity, char)
    return " ".join(text.split())


def links(html: str) -> list[str]:
    """Return where a page's links lead."""
    return [href.replace("&amp;", "&") for href in re.findall(r'<a [^>]*href="([^"]*)"', html)]
