"""A trial of rules in a process of its own, before they come into force.

The process is `python -m tracline.stream.process.trial`.

That the process is killed, by a fault of a library or by its limits of time and memory, is the refusal.
"""

from __future__ import annotations

import json
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
"""Seconds on the wall, for one that waits for ever."""
MEMORY_BYTES = 8 << 30
"""Addresses that it may use; the libraries take one or two gigabytes before they begin."""
COMMAND = (sys.executable, "-m", "tracline.stream.process.trial")
_PASSED = 0


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """A trial of packs that has begun, in a process of its own."""

    texts: Mapping[str, str]
    process: subprocess.Popen[bytes]

    def require(self) -> None:
        """Wait for the end. Raises StreamError (TRL748) where the process does not come to it."""
        how = _ended(self.process, self.texts)
        if how is not None:
            raise _refusal(self.texts, how)


def begin_trial(texts: Mapping[str, str]) -> RuleTrial:
    """Start the process that is to judge by the packs; it loads what it needs until `require` is called."""
    return RuleTrial(texts, _begun())


class RuleTrials:
    """Trials of rule sets, each made once, whichever threads ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed: set[str] = set()

    def require(self, texts: Mapping[str, str]) -> None:
        """As `require_trial`, unless the same texts have passed before."""
        with self._lock:
            if _written(texts) not in self._passed:
                self._require(begin_trial(texts))

    def wait(self, trial: RuleTrial) -> None:
        """Wait for a trial that has begun. Raises StreamError (TRL748) where its process is killed."""
        with self._lock:
            self._require(trial)

    def _require(self, trial: RuleTrial) -> None:
        trial.require()
        self._passed.add(_written(trial.texts))


def _written(texts: Mapping[str, str]) -> str:
    return json.dumps(dict(texts), sort_keys=True)


def require_trial(texts: Mapping[str, str]) -> None:
    """Judge by the packs, texts by their names, in a process of its own.

    Raises StreamError (TRL748) where that does not come to its end.
    """
    begin_trial(texts).require()


def _begun(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _ended(process: subprocess.Popen[bytes], texts: Mapping[str, str]) -> str | None:
    """Return how the process ended where it did not pass, else None; what it printed is left aside."""
    try:
        process.communicate(json.dumps(dict(texts)).encode("utf-8"), timeout=WALL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"took longer than {WALL_S:.0f} s"
    code = process.returncode
    if code == -signal.SIGXCPU:
        return f"took more than {CPU_S} s of processor time"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return None if code == _PASSED else f"ended with {code}"


def _refusal(texts: Mapping[str, str], how: str) -> StreamError:
    """Return the error, with the rule or the pack that is to blame if it can be found."""
    where = _culprit(texts)
    what = f"a trial of the rules {how}" + (f", at {where}" if where else "")
    hint = "take that out, or make it smaller: no process can judge by it" if where else "use fewer rules"
    return StreamError("TRL748", what, hint)


def _culprit(texts: Mapping[str, str]) -> str | None:
    """Return the first rule that does not pass a trial alone, `rule pack/id`, if there is one in time."""
    process = _begun("each")
    try:
        said, _ = process.communicate(json.dumps(dict(texts)).encode("utf-8"), timeout=WALL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
    if process.returncode == _PASSED:
        return None
    lines = said.decode("utf-8", "replace").splitlines()
    return f"rule {lines[-1]}" if lines else None


def _main() -> int:
    """Judge by the packs on standard input; with `each`, by every rule alone, named before it is tried."""
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
        pass  # rules with errors come into force nowhere, and whoever loads them says what is wrong
    return _PASSED


if __name__ == "__main__":
    sys.exit(_main())
