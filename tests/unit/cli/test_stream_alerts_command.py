"""`tracline stream alerts`: faults of its options are reported before anything is connected."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tracline.cli import tracline


def fails(*options: str) -> str:
    """Return its output; it must exit with 2."""
    done = CliRunner().invoke(tracline, ["stream", "alerts", *options])
    assert done.exit_code == 2, done.output
    return done.output


@pytest.mark.parametrize("option", ["--alertmanager", "--webhook"])
def test_an_address_that_is_none_is_refused(option: str) -> None:
    """An address without a scheme or host is an error that shows a valid one (TRL765)."""
    output = fails(option, "user:secret@localhost:9093")
    assert "TRL765" in output
    assert "http://127.0.0.1:9093" in output
    assert "secret" not in output


@pytest.mark.parametrize("label", ["team", "=desk", "1st=desk", "a-b=c"])
def test_a_label_has_a_name_and_a_value(label: str) -> None:
    """Anything else is a mistake in the call."""
    assert "NAME=VALUE" in fails("--alertmanager", "http://127.0.0.1:9", "--label", label)


@pytest.mark.parametrize("option", [("--label", "team=desk"), ("--console", "http://127.0.0.1:4318")])
def test_what_only_alertmanager_gets_needs_one(option: tuple[str, str]) -> None:
    """It would be given in vain."""
    assert "require --alertmanager" in fails(*option)


@pytest.mark.parametrize("option", ["--resend-s", "--timeout-s"])
def test_seconds_are_a_number(option: str) -> None:
    """NaN is no number of seconds: it is in no range."""
    assert "'nan' is not a number of seconds" in fails(option, "nan")


def test_labels_that_every_alert_has_are_refused() -> None:
    """A label of one's own may not stand in the place of an alert's (TRL765)."""
    assert "TRL765" in fails("--alertmanager", "http://127.0.0.1:9", "--label", "severity=low")


def test_rates_must_be_readable(tmp_path: Path) -> None:
    """A missing file is named with its path (TRL601); one without rates has TRL762."""
    missing = tmp_path / "rates.json"
    output = fails("--rates", str(missing))
    assert "TRL601" in output
    assert missing.name in output.replace("\n", "")
    missing.write_text("{}")
    assert "TRL762" in fails("--rates", str(missing))
