"""Write `docs/frameworks.md` from what `make test-frameworks` saw."""

from __future__ import annotations

from .framework import ROOT, Framework, frameworks
from .not_yet import NOT_YET
from .recordings import names, truth_of_recording

PAGE = ROOT / "docs" / "frameworks.md"
HEAD = """\
# Agent frameworks

`make test-frameworks` runs the agent frameworks below with their real instrumentations.
Each plays three conversations against a scripted model, and its telemetry goes to a running `tracline serve`.
An audit of what was recorded, and the archive of `serve`, are compared with the events of the script.
`make test-collector` carries the recordings through a collector and Kafka and compares the archive, too.
The harness generates this page from `tests/frameworks/frameworks.toml` and the recordings beside it.

- *Content* is what to switch on so that telemetry holds the messages.
- *Session* is how to name the conversation of a turn.
- *Read* is "exact" where every event and every verdict is right; else what is wrong or cannot be known.

| framework | versions tried | content | session | events | read |
|---|---|---|---|---|---|
"""
NOT_KNOWN = {
    "messages": "the messages of user and agent",
    "call_ids": "the ids of calls",
    "nested": "what a sub-agent did, from what the agent did itself",
    "args": "the arguments of calls",
    "results": "the results of tools",
    "content": "whether content was left out",
}


def page() -> str:
    """Return the page's text."""
    recorded = set(names())
    rows = [_row(framework) for framework in frameworks() if framework.name in recorded]
    return HEAD + "\n".join(rows) + "\n"


def write() -> None:
    """Write the page."""
    PAGE.write_text(page())


def _row(framework: Framework) -> str:
    """Return the row of a framework."""
    truth = truth_of_recording(framework.name)
    events = sum(map(len, truth["sessions"].values()))
    versions = "<br>".join(f"{name} {version}" for name, version in truth["versions"].items())
    cells = [framework.title, versions, framework.content, framework.session, str(events), _read(framework)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _read(framework: Framework) -> str:
    """Describe how well a framework's telemetry is read, and what cannot be known from it."""
    remarks = [NOT_YET.get(framework.name, "exact")]
    remarks += [
        f"not known: {text}" for name, text in NOT_KNOWN.items() if framework.expect.get(name) is False
    ]
    remarks += [framework.missing] if framework.missing else []
    return "; ".join(remarks)
