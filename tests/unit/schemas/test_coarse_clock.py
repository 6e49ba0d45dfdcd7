"""JavaScript's starts are whole milliseconds and its ends are not: whole audits of such spans."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions
from tracline.batch.prepare.prepare import prepare
from tracline.batch.sources.discover import Population
from tracline.rules.packs.load import load_packs

from ...support.evidence.bundle_lines import bundle_lines

pytestmark = pytest.mark.slow

MILLISECOND = 1_000_000
BEGAN = 1_700_000_000_000 * MILLISECOND
ARGS = {"topic": "exchange"}
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "May I exchange it?"}]}]
CALL = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "call_1", "name": "look", "arguments": ARGS}],
}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "Yes."}]}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "You may."}]}
RUN = {
    "tool.name": "look",
    "tool.call.id": "call_1",
    "tool.call.arguments": json.dumps(ARGS),
    "tool.call.result": "Yes.",
}
BARE = {"tool.name": "look", "tool.call.id": "call_1"}
EXPECTED = ["user", "tool_call", "tool_result", "assistant"]


def span(number: int, start: int, end: int, operation: str, fields: dict[str, str]) -> dict[str, Any]:
    """A span of the GenAI conventions; times in nanoseconds since the session began."""
    fields = {"operation.name": operation, "conversation.id": "s", "agent.name": "bot", **fields}
    return {
        "traceId": f"{1:032x}",
        "spanId": f"{number:016x}",
        "name": operation,
        "startTimeUnixNano": str(BEGAN + start),
        "endTimeUnixNano": str(BEGAN + end),
        "attributes": [{"key": f"gen_ai.{name}", "value": {"stringValue": fields[name]}} for name in fields],
    }


def chat(number: int, start: int, end: int, history: list[Any], spoken: dict[str, Any]) -> dict[str, Any]:
    """A model's call."""
    fields = {"input.messages": json.dumps(history), "output.messages": json.dumps([spoken])}
    return span(number, start, end, "chat", fields)


def exchange(run: dict[str, str], late: int) -> list[dict[str, Any]]:
    """A model's call, the tool's run and the next call; the first seems to end `late` after the run began."""
    ran = 589 * MILLISECOND
    return [
        chat(1, 414 * MILLISECOND, ran + late, ASKED, CALL),
        span(2, ran, ran + 128_216, "execute_tool", run),
        chat(3, ran, 664 * MILLISECOND + 16_719, [*ASKED, CALL, RESULT], ANSWER),
    ]


def found(folder: Path, spans: list[dict[str, Any]], language: str) -> tuple[pl.DataFrame, list[str]]:
    """The events of a dump of these spans, which an SDK of that language sent, and the rules they violate."""
    folder.mkdir()
    resource = {"attributes": [{"key": "telemetry.sdk.language", "value": {"stringValue": language}}]}
    dump = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    (folder / "dump.json").write_text(json.dumps(dump))
    events = folder.with_suffix(".events")
    events.mkdir()
    parts = prepare(folder, events, Population())
    audit(folder, load_packs(["tool-hygiene"]), folder.with_suffix(".bundle"), AuditOptions())
    records = bundle_lines(folder.with_suffix(".bundle"))
    frame = pl.concat([pl.read_parquet(part.path) for part in parts]).filter(pl.col("kind") != "end")
    return frame, [record["rule"] for record in records if record["verdict"] == "violated"]


@pytest.mark.parametrize("run", [RUN, BARE], ids=["content", "bare"])
@pytest.mark.parametrize("late", [143_408, MILLISECOND - 1])
def test_a_call_that_seems_to_be_asked_after_its_run_is_one(
    late: int, run: dict[str, str], tmp_path: Path
) -> None:
    """In any order of the spans the model asked before the tool ran, and its call has its arguments."""
    for number, spans in enumerate(permutations(exchange(run, late))):
        events, violated = found(tmp_path / f"dump{number}", list(spans), "nodejs")
        assert events["kind"].to_list() == EXPECTED
        assert [json.loads(args) for args in events["args"].drop_nulls()] == [ARGS, ARGS]
        assert violated == []


@pytest.mark.parametrize(("late", "language"), [(143_408, "python"), (MILLISECOND + 1, "nodejs")])
def test_only_a_coarse_clock_is_mistrusted(late: int, language: str, tmp_path: Path) -> None:
    """Another SDK's times are taken as they are, and so is what no error of the clock explains."""
    events, _ = found(tmp_path / "dump", exchange(RUN, late), language)
    assert events["kind"].to_list() != EXPECTED


def test_a_call_within_a_millisecond_keeps_its_end(tmp_path: Path) -> None:
    """Its input and its output have two times, which separate them."""
    ran = 589 * MILLISECOND
    events, violated = found(tmp_path / "dump", [chat(1, ran, ran + 143_408, ASKED, ANSWER)], "nodejs")
    assert [time - BEGAN for time in events["time"].cast(pl.Int64)] == [ran, ran + 143_408]
    assert violated == []
