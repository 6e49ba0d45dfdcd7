"""The duration of commands with almost no work: `python benchmarks/startup.py`.

Runs each command several times in a process of its own and prints the best and the median time on the wall
and of the processor, in seconds. `tracline check` is what an editor or a commit hook waits for. A run before
those that count stores the compiled modules, as for every user who starts twice.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 15
PACKS = ("customer-service", "tool-hygiene", "privacy")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PACK = """
pack: small
propositions:
  call: kind == "tool_call"
  result: kind == "tool_result"
rules:
  - id: answered
    formula: always (call -> eventually result)
"""


def main() -> None:
    """Run the benchmark and print its table."""
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "small.yaml"
        pack.write_text(PACK, encoding="utf-8")
        commands = [
            ["--help"],
            ["check", str(pack)],
            *(["check", name] for name in PACKS),
            ["test", str(pack)],
        ]
        for words in commands:
            run(words)
            wall, cpu = zip(*(run(words) for _ in range(RUNS)), strict=True)
            name = " ".join(["tracline", *words]).replace(f"{folder}/", "")
            print(
                f"{name:<34} wall {min(wall):.2f} s, median {statistics.median(wall):.2f} s"
                f"   cpu {min(cpu):.2f} s, median {statistics.median(cpu):.2f} s"
            )


def run(words: list[str]) -> tuple[float, float]:
    """Return the wall-clock and the processor seconds of the command. Raises CalledProcessError."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [str(Path(sys.executable).with_name("tracline")), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
