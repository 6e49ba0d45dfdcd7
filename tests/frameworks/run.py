"""Run one framework against the scripted model, its telemetry recorded on its way to `tracline serve`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracline.schemas.time import NS

from ..kafka.rekeying import until
from ..serve import serving
from . import model_server
from .compare import PACKS
from .framework import Framework, command, set_up
from .relay import relaying
from .script import FILE, truth_of

DRIVER_S = 240
"""The time in seconds that a driver may take."""
SESSIONS = {"lateness_s": 1, "hold_s": 5, "tick_s": 1}
QUIET_S = 8
"""The most seconds after the driver's end that serve waits for more spans."""
PASSED_ON = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""The variables of this process's environment that a driver sees."""


@dataclass(frozen=True)
class Ran:
    """The output of a run: the recording's folder (`otlp/`, `other/`, `truth.json`) and serve's archive."""

    recording: Path
    archive: Path
    answers: dict[str, Counter[int]]


def run(framework: Framework, folder: Path) -> Ran:
    """Set a framework up and play the script; everything it leaves is written to the folder."""
    set_up(framework)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "serve").mkdir(parents=True)
    with (
        model_server.serving() as model,
        serving.running(folder / "serve", PACKS[0], "--rules", *PACKS[1:], sessions=SESSIONS) as live,
        relaying(folder, live.url) as (relay, recording),
    ):
        drive(framework, folder, model, relay)
        passed = time.time_ns() + QUIET_S * NS
        until("serve has judged all", lambda: watermark(folder / "serve") > passed, within_s=60)
        assert live.stop() == 0, live.log
    truth = truth_json(framework)
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n")
    answers = {path: Counter(codes) for path, codes in recording.answers.items()}
    return Ran(folder, folder / "serve" / "archive", answers)


def drive(framework: Framework, folder: Path, model: str, relay: str) -> None:
    """Run the driver to its end, its output in `driver.log`. Raises AssertionError where it fails."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {
        "MODEL_URL": model,
        "OTLP_URL": relay,
        "SESSION_PREFIX": f"{framework.name}-",
        "CONVERSATIONS": str(FILE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OTEL_SERVICE_NAME": framework.name,
        **{name: value.format(relay=relay, model=model) for name, value in framework.env.items()},
    }
    log = folder / "driver.log"
    with log.open("wb") as out:
        done = subprocess.run(
            command(framework), cwd=folder, env=env, stdout=out, stderr=out, timeout=DRIVER_S, check=False
        )
    assert done.returncode == 0, f"{framework.name}: {log.read_text()[-3000:]}"


def watermark(folder: Path) -> int:
    """Return the time up to which the serve in a folder has judged."""
    return int(dict(serving.rows(folder, "SELECT name, value FROM fact")).get("watermark", 0))


def truth_json(framework: Framework) -> dict[str, Any]:
    """Return the content of `truth.json` for a framework's recording."""
    return {
        "framework": framework.name,
        "versions": framework.versions,
        "note": framework.missing,
        "expect": dict(framework.expect),
        **truth_of(f"{framework.name}-", framework.script, framework.expect.get("sessions", "")),
    }
