"""The trial of rules in a process of its own, before they come into force.

The process is `python -m tracline.stream.process.trial`. The rules are refused where a fault of a library, or
the limits of time and memory, end it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from ..error import StreamError

CPU_S = 60
"""Processor seconds that a trial may take."""
WALL_S = 300.0
"""Seconds of wall time that a trial may take."""
MEMORY_BYTES = 8 << 30
"""Address space that a trial may use; the libraries alone take one or two gigabytes."""
COMMAND = (sys.executable, "-m", "tracline.stream.process.trial")
_PASSED = 0


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """A running trial of packs."""

    texts: Mapping[str, str]
    process: subprocess.Popen[bytes]

    def require(self) -> None:
        """Wait for the end. Raises StreamError (TRL748) where the trial fails."""
        how = _failure(self.process, self.texts)
        if how is not None:
            raise _refusal(self.texts, how)


def begin_trial(texts: Mapping[str, str]) -> RuleTrial:
    """Start a trial of the packs, which runs until `require` waits for it."""
    return RuleTrial(texts, _start())


class RuleTrials:
    """The trials of rule sets, each run once, for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed: set[str] = set()

    def require(self, texts: Mapping[str, str]) -> None:
        """Run `require_trial` unless the same texts have passed before."""
        with self._lock:
            if _key(texts) not in self._passed:
                self._require(begin_trial(texts))

    def wait(self, trial: RuleTrial) -> None:
        """Wait for a running trial. Raises StreamError (TRL748) where it fails."""
        with self._lock:
            self._require(trial)

    def _require(self, trial: RuleTrial) -> None:
        trial.require()
        self._passed.add(_key(trial.texts))


def _key(texts: Mapping[str, str]) -> str:
    return json.dumps(dict(texts), sort_keys=True)


def require_trial(texts: Mapping[str, str]) -> None:
    """Try the packs, texts by name, in a process of its own. Raises StreamError (TRL748) where it fails."""
    begin_trial(texts).require()


def _start(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _failure(process: subprocess.Popen[bytes], texts: Mapping[str, str]) -> str | None:
    """Return how the process failed, None where it passed; its output is ignored."""
    try:
        process.communicate(json.dumps(dict(texts)).encode("utf-8"), timeout=WALL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"exceeded {WALL_S:.0f} s"
    code = process.returncode
    if code == -signal.SIGXCPU:
        return f"exceeded {CPU_S} s of processor time"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return None if code == _PASSED else f"exited with {code}"


def _refusal(texts: Mapping[str, str], how: str) -> StreamError:
    """Return the error, with the rule that causes it if that can be found."""
    where = _culprit(texts)
    what = f"the trial of the rules {how}" + (f", at {where}" if where else "")
    hint = "remove or simplify it: no process can judge by it" if where else "use fewer rules"
    return StreamError("TRL748", what, hint)


def _culprit(texts: Mapping[str, str]) -> str | None:
    """Return the first rule that fails a trial alone, as `rule pack/id`, if one does in time."""
    process = _start("each")
    try:
        output, _ = process.communicate(json.dumps(dict(texts)).encode("utf-8"), timeout=WALL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    if process.returncode == _PASSED:
        return None
    lines = output.decode("utf-8", "replace").splitlines()
    return f"rule {lines[-1]}" if lines else None


def _main() -> int:
    """Try the packs on standard input; with `each`, every rule alone, after printing its name."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from ...rules.engine.trial import try_rules
    from ...rules.model.problem import RuleError
    from ...rules.model.rule import RuleSet
    from ...rules.packs.load import load_texts
    from .faultpoints import TrialFault, fault_point

    try:
        rule_set = load_texts(json.loads(sys.stdin.buffer.read()))
        if sys.argv[1:] != ["each"]:
            for _ in rule_set.rules:
                fault_point(TrialFault.RULE)
            try_rules(rule_set)
        for rule in rule_set.rules if sys.argv[1:] == ["each"] else ():
            sys.stdout.write(f"{rule.pack}/{rule.id}\n")
            sys.stdout.flush()
            fault_point(TrialFault.RULE)
            try_rules(RuleSet((rule,), {}))
    except RuleError:
        pass  # The process that loads the rules reports their errors.
    return _PASSED


if __name__ == "__main__":
    # A live process waits: collecting garbage and tearing the interpreter down is a third of a small trial.
    gc.set_threshold(100_000)
    code = _main()
    sys.stdout.flush()
    os._exit(code)
