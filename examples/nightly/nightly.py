"""Audit yesterday: one bundle a day, each chained to the one before, and a message about what was found.

It needs only Python and the `tracline` command. Run it after midnight (UTC), once the archive is complete up
to there: by cron (`crontab` beside this file) or systemd (`tracline-nightly.service` and `.timer`).

    python nightly.py ARCHIVE --rules PACK --bundles FOLDER --fail-on high --webhook-file FILE

The exit code is that of `tracline audit`: 0, or 1 for findings of at least that severity, or 2 for an error,
also where the message cannot be delivered. The message has counts and rules, and no text of any session.
"""

from __future__ import annotations

import argparse
import json
import os
import smtplib
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from email.message import EmailMessage
from http.client import HTTPException
from pathlib import Path
from typing import Any

BEGIN = "1970-01-01"
"""The time before the first bundle of a series: it covers all sessions that closed until its end."""
TIMEOUT_S = 30
"""Seconds to wait for the receiver of a message."""
RULES_MAX = 20
"""Broken rules that a message names, the most severe first."""
_RANKS = ("critical", "high", "medium", "low", "info")


def main(args: Sequence[str] | None = None) -> int:
    """Audit a day, deliver the message, and return the exit code."""
    given = arguments().parse_args(args)
    day = given.day or datetime.now(UTC).date() - timedelta(days=1)
    out = given.bundles / day.isoformat()
    if out.exists():
        print(f"{day} was audited before: {out}")
        return 0
    code = subprocess.run(audit_command(given, day, out), check=False).returncode
    try:
        deliver(given, day, out, code)
    except (OSError, ValueError, HTTPException) as error:
        # The address of a webhook is a secret, and the error may have it: that of a malformed one does.
        print(f"the message was not delivered: {type(error).__name__}", file=sys.stderr)
        return 2
    return code


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(description="Audit yesterday's sessions, and report what was found.")
    parser.add_argument("archive", help="the archive of tracline serve or tracline stream archive")
    parser.add_argument("--rules", nargs="+", required=True, metavar="PACK")
    parser.add_argument("--bundles", type=Path, required=True, help="the folder that has a bundle a day")
    parser.add_argument("--fail-on", choices=_RANKS, default="high")
    parser.add_argument("--day", type=date.fromisoformat, help="the day to audit, yesterday by default")
    parser.add_argument("--key", type=Path, help="the private key that signs the bundles")
    parser.add_argument("--passphrase-file", type=Path, help="the file with the passphrase of the key")
    parser.add_argument("--waivers", type=Path, help="the findings that are accepted")
    parser.add_argument("--with-text", action="store_true", help="put texts into the bundle and the report")
    parser.add_argument("--webhook-file", type=Path, help="the file with the address to post to")
    parser.add_argument("--mail-to", help="the address to mail the report to")
    parser.add_argument("--mail-from", default="tracline@localhost")
    parser.add_argument("--smtp", default="localhost:25", help="the mail server as HOST:PORT")
    parser.add_argument("--tracline", default="tracline", help="the command, if it is not on the path")
    return parser


def audit_command(given: argparse.Namespace, day: date, out: Path) -> list[str]:
    """Return the command that audits from the end of the previous bundle to the end of a day."""
    previous = previous_bundle(given.bundles, day)
    end = (day + timedelta(days=1)).isoformat()
    command = [given.tracline, "audit", given.archive, "--rules", *given.rules, "--out", str(out)]
    command += ["--as-of", f"{end}T00:00:00Z", "--fail-on", given.fail_on, "--quiet"]
    command += ["--previous-as-of", BEGIN] if previous is None else ["--previous", str(previous)]
    for option, path in (("--key", given.key), ("--passphrase-file", given.passphrase_file)):
        command += [] if path is None else [option, str(path)]
    command += [] if given.waivers is None else ["--waivers", str(given.waivers)]
    return command + (["--with-text"] if given.with_text else [])


def previous_bundle(bundles: Path, day: date) -> Path | None:
    """Return the newest bundle before a day; a day that was missed is in the bundle after it."""
    found = sorted(path for path in bundles.glob("????-??-??") if path.name < day.isoformat())
    return found[-1] if found else None


def deliver(given: argparse.Namespace, day: date, out: Path, code: int) -> None:
    """Post and mail what was found, where that is asked for."""
    message = message_of(day, out, code)
    if given.webhook_file is not None:
        request = urllib.request.Request(
            given.webhook_file.read_text(encoding="utf-8").strip(),
            data=json.dumps(message).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            pass
    if given.mail_to is not None:
        host, _, port = given.smtp.rpartition(":")
        with smtplib.SMTP(host, int(port), timeout=TIMEOUT_S) as server:
            server.send_message(mail_of(given, message, out / "report.html"))


def message_of(day: date, out: Path, code: int) -> dict[str, Any]:
    """Return the message as plain data; `text` is a line for people, which chat services show."""
    summary = out / "summary.json"
    if code > 1 or not summary.exists():
        return {"text": f"tracline: the audit of {day} failed (exit code {code})", "exit_code": code}
    content = json.loads(summary.read_bytes())
    rules = list(_broken(content["rules"]))
    population = {
        name: content["population"][name] for name in ("sessions", "open_sessions", "gaps", "rejected")
    }
    sessions = counted(population["sessions"], "session")
    names = ", ".join(rule["rule"] for rule in rules[:3])
    found = f"{counted(len(rules), 'broken rule')}: {names}" if rules else "no broken rule"
    return {
        "text": f"tracline: {day}, {sessions}: {found}",
        "exit_code": code,
        "day": day.isoformat(),
        "bundle": str(out),
        "population": population,
        "rules": rules[:RULES_MAX],
        "waived": _line_count(out / "waived.jsonl"),
    }


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _broken(rules: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the broken rules, the most severe first, with their counts."""
    broken = [(name, rule) for name, rule in rules.items() if rule["violations"] + rule["unmet"]]
    for name, rule in sorted(broken, key=lambda found: (_RANKS.index(found[1]["severity"]), found[0])):
        counts = {count: rule[count] for count in ("violations", "unmet", "sessions_violating")}
        yield {"rule": name, "severity": rule["severity"], **counts}


def _line_count(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def mail_of(given: argparse.Namespace, message: dict[str, Any], report: Path) -> EmailMessage:
    """Return the mail: the message as text, with the report attached."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = message["text"], given.mail_from, given.mail_to
    mail.set_content(json.dumps(message, indent=2) + os.linesep)
    if report.exists():
        mail.add_attachment(report.read_bytes(), maintype="text", subtype="html", filename=report.name)
    return mail


if __name__ == "__main__":
    raise SystemExit(main())
