"""The cost of `tracline check` for a pack of many rules: `python benchmarks/check.py [RULES]`.

Makes a pack of 3,000 rules in the manner of the shipped ones, each over tools, words and amounts of its own,
and prints the processor time of `tracline check` over it, best and median of three.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

RULES = 3_000
RULES_A_SUBJECT = 5
RUNS = 3
SEED = 20_261_122

SUBJECT = """\
  asks_{n}: kind == "user" and not nested and text matches /(?i)\\b(please|kindly) {verb}\\b/
  {verb}: kind == "tool_call" and tool == "{verb}"
  large_{n}: kind == "tool_call" and tool in ["{verb}", "{other}"] and args.amount > {amount}
  {verb}_ok: kind == "tool_result" and tool == "{verb}" and error is null and not result starts with "Error"
  {verb}_failed: kind == "tool_result" and tool == "{verb}" and error is not null
  confirms_{n}: kind == "assistant" and not nested and text contains "{verb}"
"""
"""The propositions of one subject, a tool and the messages about it."""

FORMULAS = (
    "always (asks_{n} -> eventually {verb})",
    "always ({verb} -> once asks_{n})",
    "always (large_{n} -> previous once[0,{bound}] asks_{n})",
    "always ({verb} -> eventually[0,{bound}] ({verb}_ok or {verb}_failed))",
    "always at_most[{count}] {verb}",
    "always ({verb}_failed -> not confirms_{n} weak_until {verb}_ok)",
    "not {verb} weak_until asks_{n}",
    "always (confirms_{n} -> previous (not {verb}_failed since {verb}_ok))",
    "always ({verb} and not large_{n} -> next eventually ({verb}_ok or {verb}_failed))",
    "always not ({verb} and previous once {verb}_ok)",
    "always (large_{n} -> not {verb}_failed since asks_{n})",
    "always (asks_{n} -> {verb} release not confirms_{n})",
    "always ({verb}_failed and previous {verb} -> eventually[1,{bound}] (confirms_{n} or asks_{n}))",
)
EXTRAS = ("", "", "", "    recover: violation\n", "    recover: none\n", "    for_each: args.order_id\n")


def main() -> None:
    """Run the benchmark and print its table."""
    rules = int(sys.argv[1]) if len(sys.argv) > 1 else RULES
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "many.yaml"
        pack.write_text(pack_of(rules), encoding="utf-8")
        took = [checked(pack) for _ in range(RUNS)]
    print(f"check of {rules} rules: cpu {min(took):.1f} s, median {statistics.median(took):.1f} s")


def pack_of(rules: int, seed: int = SEED) -> str:
    """Return a pack of that many rules."""
    random = Random(seed)
    subjects = list(_subjects(-(-rules // RULES_A_SUBJECT), random))
    lines = ["pack: many\npropositions:\n", *(SUBJECT.format(**subject) for subject in subjects), "rules:\n"]
    for number in range(rules):
        subject = subjects[number // RULES_A_SUBJECT]
        bounds = {"bound": random.randint(1, 12), "count": random.randint(1, 5)}
        formula = random.choice(FORMULAS).format(**subject, **bounds)
        lines.append(f"  - id: r{number}\n    formula: {formula}\n{random.choice(EXTRAS)}")
    return "".join(lines)


def checked(pack: Path) -> float:
    """Return the processor seconds that `tracline check` took. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("tracline")), "check", str(pack)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _subjects(count: int, random: Random) -> Iterator[dict[str, object]]:
    for number in range(count):
        amount = random.randint(1, 10) * 100
        yield {"n": number, "verb": f"act_{number}", "other": f"undo_{number}", "amount": amount}


if __name__ == "__main__":
    main()
