"""`tracline eval`: step one formula over a trace, a line per step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import click
import orjson

from ...error import CommandError, command_error
from ...options import Command, format_option

LINE_BYTES_MAX = 1_000_000


@click.command(cls=Command)
@click.argument("formula")
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@click.option(
    "--recover",
    type=click.Choice(["both", "violation", "none"]),
    default="both",
    show_default=True,
    help="The verdicts after which the formula restarts: both kinds, violations only, or none.",
)
@format_option("json", "table")
def command(formula: str, trace: str, recover: str, format: str) -> None:
    """Step FORMULA over TRACE and print the verdict after each step.

    TRACE has one JSON array per line: the propositions true at that step, as in ["call", "ok"]. Without TRACE
    or with -, the command reads steps from standard input and answers each at once.

    Each line of the output has the verdict and the residual: the formula that the rest of the trace must
    satisfy, or true or false if the step decided it. The last line is the state at the end of the trace:
    "held", "unmet", or null if nothing is open.

    \b
        echo '["call"]' | tracline eval 'always (call -> eventually result)'
    """
    from ....rules.engine.monitor import Monitor
    from ....schemas.verdict import Verdict

    decided = {Verdict.VIOLATED: "false", Verdict.SATISFIED: "true"}
    monitor = Monitor(formula, recover=recover)
    width = len(str(Verdict.SATISFIED))
    if format == "table":
        click.echo(f"step  {'verdict':<{width}}  residual")
    with click.open_file(trace, "rb") as stream:
        for step, true in enumerate(steps(stream, trace), start=1):
            verdict = monitor.step(true)
            residual = decided.get(verdict) or monitor.residual
            if format == "json":
                click.echo(orjson.dumps({"step": step, "verdict": verdict, "residual": residual}))
            else:
                click.echo(f"{step:>4}  {verdict:<{width}}  {residual}")
    end = monitor.close()
    click.echo(orjson.dumps({"end": end}) if format == "json" else f" end  {end or '-'}")


def steps(trace: IO[bytes], name: str) -> Iterator[frozenset[str]]:
    """Yield the steps of the trace `name`, each as soon as its line is read; blank lines are ignored.

    Raises:
        CommandError: TRL602 with the number of the line, without its content.
    """
    number = 0
    while line := trace.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise _bad(name, number, f"the line is longer than {LINE_BYTES_MAX:,} bytes")
        if not line.strip():
            continue
        try:
            names = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise _bad(name, number, f"not JSON ({error.msg})") from None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnknownVariableType]
            raise _bad(name, number, "not an array of strings")
        yield frozenset(names)  # pyright: ignore[reportUnknownArgumentType]


def _bad(name: str, number: int, what: str) -> CommandError:
    hint = 'write the propositions that are true at the step, as in ["call", "ok"], or [] for none'
    where = "<stdin>" if name == "-" else name
    return command_error("TRL602", f"{where}:{number}", what, hint)
