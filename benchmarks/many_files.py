"""The cost of `tracline import` for many small files, beside `tracline audit` of the same folder.

`python benchmarks/many_files.py [FILES]` (10,000 by default) writes that many chat logs of one conversation,
and that many span dumps of one trace, to temporary folders. Each command runs in a separate process, after a
run that does not count. Prints processor seconds, wall-clock seconds, and the files of the archive.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

START = 1_767_225_600
TRACLINE = str(Path(sys.executable).with_name("tracline"))


def main() -> None:
    """Run the benchmark and print its table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for kind, text_of in (("chat logs", chat), ("span dumps", dump)):
            source, archive = root / kind, root / f"archive of {kind}"
            write(source, text_of, count)
            write(root / "few", text_of, 10)
            audit = ("--rules", "customer-service", "--out", str(root / "bundle"), "--quiet")
            run("audit", str(root / "few"), *audit)
            audited = run("audit", str(source), *audit)
            imported = run("import", str(source), "--out", str(archive), "--quiet")
            files = len(list(archive.rglob("*.parquet")))
            for name, (cpu, wall) in (("audit", audited), ("import", imported)):
                print(f"{count:,} {kind}: {name:>6} {cpu:6.1f} s of the processor, {wall:6.1f} s of the wall")
            print(f"import / audit: {imported[0] / audited[0]:.2f}; the archive has {files} files")


def write(folder: Path, text_of: Any, count: int) -> None:
    """Write that many files of one kind into a folder."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number:06d}.json").write_text(json.dumps(text_of(number)), encoding="utf-8")


def chat(number: int) -> dict[str, Any]:
    """Return a chat log of one conversation; a day has a twentieth of all."""
    when = START + number % 20 * 86_400 + number
    call = {"id": "c", "function": {"name": "refund", "arguments": f'{{"order": {number}}}'}}
    messages = [
        {"role": "user", "content": f"I want my money back for {number}"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
        {"role": "assistant", "content": "It is on its way."},
    ]
    timed = [{**message, "timestamp": when + place} for place, message in enumerate(messages)]
    return {"id": f"s{number}", "messages": timed}


def dump(number: int) -> dict[str, Any]:
    """Return an OTLP request of one trace, of an agent that ran a tool."""
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": f"s{number}"}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.id": "c",
        "gen_ai.tool.call.arguments": f'{{"order": {number}}}',
        "gen_ai.tool.call.result": "done",
    }
    spans = [span(number, 1, "", agent), span(number, 2, f"{1:016x}", tool)]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def span(trace: int, number: int, parent: str, attributes: dict[str, str]) -> dict[str, Any]:
    """Return a span of a trace; a day has a twentieth of all traces."""
    start = (START + trace % 20 * 86_400 + trace) * 1_000_000_000 + number
    return {
        "traceId": f"{trace + 1:032x}",
        "spanId": f"{number:016x}",
        "parentSpanId": parent,
        "name": "step",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


def run(*words: str) -> tuple[float, float]:
    """Return the seconds of the processor and of the wall that the command took.

    Raises CalledProcessError where it fails.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([TRACLINE, *words], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


if __name__ == "__main__":
    main()
