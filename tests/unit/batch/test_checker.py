"""The checker on bundles that somebody changed: none of them passes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tracline.batch.audit.audit import audit
from tracline.batch.prepare.options import AuditOptions

from ...support.checker import SCRIPT, refusal
from ...support.event_rows import session, user, write
from .test_audit import RULES

Lines = list[str]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle with a violation in each of two sessions."""
    rows = [*session("a", user("hello"), user("no!")), *session("b", user("well!"))]
    archive = write(tmp_path / "archive" / "events.parquet", rows)
    audit(archive.parent, RULES, tmp_path / "bundle", AuditOptions())
    return tmp_path / "bundle"


def change(bundle: Path, name: str, changed: Callable[[Lines], Lines]) -> None:
    """Change the lines of a file."""
    lines = (bundle / name).read_text().splitlines(keepends=True)
    assert changed(list(lines)) != lines
    (bundle / name).write_text("".join(changed(lines)))


def of_kind(kind: str, lines: Lines) -> int:
    """Return the number of the first line of a kind."""
    return next(at for at, line in enumerate(lines) if json.loads(line)["kind"] == kind)


def second_content(lines: Lines) -> Lines:
    """Add another content to a rule, which most readers of JSON take instead of the first."""
    at = of_kind("rule", lines)
    content = {**json.loads(lines[at])["content"], "recover": "none"}
    return [*lines[:at], f'{lines[at][:-2]},"content":{json.dumps(content)}}}\n', *lines[at + 1 :]]


def content_apart(lines: Lines) -> Lines:
    """Put the digested content under another name, and another content under its own."""
    at = of_kind("rule", lines)
    content = json.dumps({**json.loads(lines[at])["content"], "recover": "none"})
    line = lines[at].replace('{"content":', '{"c0ntent":', 1)
    return [*lines[:at], f'{line[:-2]},"content":{content}}}\n', *lines[at + 1 :]]


def repeated_session(lines: Lines) -> Lines:
    """State a session twice."""
    at = of_kind("session", lines)
    return [*lines[: at + 1], *lines[at:]]


def unknown_version(lines: Lines) -> Lines:
    """State another version."""
    return [lines[0].replace("tracline-certificates/1", "tracline-certificates/2"), *lines[1:]]


def unlisted_rule_set(lines: Lines) -> Lines:
    """Name a rule set that the head does not list."""
    return [line.replace('"rule_set":null', '"rule_set":"abc"') for line in lines]


def emptied_session(lines: Lines) -> Lines:
    """Leave the events of a session out, and count its verdict as one without a certificate."""
    at = of_kind("session", lines)
    emptied = json.dumps({**json.loads(lines[at]), "events": []}) + "\n"
    end = {**json.loads(lines[-1]), "left_out": {"sessions": 1, "verdicts": 1}}
    return [*lines[:at], emptied, *lines[at + 1 : -1], json.dumps(end) + "\n"]


def other_total(name: str) -> Callable[[Lines], Lines]:
    """Return a change of a total that the end states."""

    def change_end(lines: Lines) -> Lines:
        end = json.loads(lines[-1])
        return [*lines[:-1], json.dumps({**end, name: end[name] + 1}) + "\n"]

    return change_end


CERTIFICATES_CHANGES = [
    other_total("sessions"),
    other_total("verdicts"),
    second_content,
    content_apart,
    repeated_session,
    unknown_version,
    unlisted_rule_set,
    emptied_session,
]


@pytest.mark.parametrize("changed", CERTIFICATES_CHANGES)
def test_changed_certificates_are_refused(bundle: Path, changed: Callable[[Lines], Lines]) -> None:
    """No reader of the certificates can take them in another way than the checker."""
    assert refusal(bundle) is None
    change(bundle, "certificates.jsonl", changed)
    assert refusal(bundle) is not None


def test_a_repeated_verdict_is_refused(bundle: Path) -> None:
    """A line of `verdicts.jsonl` stands once."""
    change(bundle, "verdicts.jsonl", lambda lines: [*lines, lines[-1]])
    assert "twice" in (refusal(bundle) or "")


@pytest.mark.parametrize(
    "certificates", ["", "1\n", '{"rule_sets":[],"version":"tracline-certificates/1"}\n', "[" * 100_000]
)
def test_an_unreadable_bundle_exits_2(bundle: Path, certificates: str) -> None:
    """Certificates that are empty, cut or too deep are unreadable, which is not exit code 1."""
    (bundle / "certificates.jsonl").write_text(certificates)
    done = subprocess.run([sys.executable, SCRIPT, bundle], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("unreadable")
    assert "Traceback" not in done.stderr
