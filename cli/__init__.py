"""The `tracline` command: a group that loads each command's module only when it runs."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Any

import click

from ..schemas.display import QUOTED_CHARS_MAX, shortened
from .error import CommandError, command_error, file_error
from .lazy import LazyGroup
from .options import colors
from .terminal import clean, quoted

COMMANDS = {
    "demo": ("audit.demo", "Simulate a support bot, archive its conversations and audit them."),
    "init": ("archive.init", "Write a first rule pack for the tools and agents of a source."),
    "check": ("rules.check", "Check rule packs for errors and suspicious rules."),
    "test": ("rules.test", "Run the examples in rule packs."),
    "label": ("rules.label", "Show how often each proposition is true, with sample events."),
    "example": ("rules.example", "Make an example of a rule from a finding of an audit."),
    "eval": ("rules.eval_", "Step one formula over a trace."),
    "compare": ("rules.compare", "Compare rules, formulas or packs, exactly."),
    "import": ("archive.import_", "Convert chat logs and span dumps to an archive of event Parquet."),
    "audit": ("audit.audit", "Judge an archive by rule packs and write a bundle of verdicts."),
    "report": ("audit.report", "Draw the report of a bundle again."),
    "verify": ("evidence.verify", "Check a bundle, with or without its archive."),
    "redact": ("evidence.redact", "Write a bundle without texts and ids that can be guessed."),
    "reveal": ("evidence.reveal", "Show single values of a redacted bundle."),
    "erase": ("evidence.erase", "Remove a session from an archive."),
    "keys": ("evidence.keys", "Make the keys that sign bundles."),
    "explain": (
        "archive.explain",
        "Explain the verdicts on a session: the status of each part of a rule at each event.",
    ),
    "show": ("archive.show", "Show the sessions and events of a source, as an audit judges them."),
    "tools": ("archive.tools", "List the tools of a source and the paths that rules can name."),
    "doctor": (
        "archive.doctor",
        "List instrumentations, what each lacks, and the settings that add it.",
    ),
    "predict": ("predict.group", "Compute what will likely happen."),
    "serve": ("live.serve", "Receive spans, judge them and archive the events, in one process."),
    "alerts": ("alerts.group", "Learn tolerated violation rates and backtest alarms over an archive."),
    "stream": ("stream.group", "Run and operate the pipeline over Kafka, one process per step."),
}
"""The module of each command, which exports it as `command`, and its line in `tracline --help`."""

CRASHED = 2
"""The exit code of a bug in tracline: never 1, which means findings."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""


class Tracline(LazyGroup):
    """The group of all commands, which turns exceptions into messages and exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse like click, without colours if `NO_COLOR` is set. Arguments must be UTF-8."""
        ctx.color = colors()
        for arg in args:
            # Parquet writers accept no other path, and JSON cannot contain one.
            if (text := os.fsencode(arg).decode("utf-8", "backslashreplace")) != arg:
                hint = "rename the file or folder, or write the argument as UTF-8"
                raise command_error("TRL604", text, "the argument is not UTF-8", hint)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _shortened(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An expected error is printed on standard error and exits 2."""
        from ..archive.error import SourceError
        from ..rules.model.problem import RuleError

        try:
            return super().invoke(ctx)
        except RuleError as error:
            raise CommandError(str(error)) from error
        except SourceError as error:
            raise CommandError("\n".join(map(quoted, str(error).splitlines()))) from error
        except click.UsageError as error:
            raise _shortened(error) from error
        except BrokenPipeError:
            ctx.exit(2)
        except OSError as error:
            raise file_error(error) from error
        except KeyboardInterrupt:
            # Click would exit 1, which means findings.
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


def _shortened(error: click.UsageError) -> click.UsageError:
    """Shorten the arguments that the error quotes; a command's help stays whole."""
    text = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error
    return error if len(text) <= QUOTED_CHARS_MAX else click.UsageError(shortened(text), error.ctx)


@click.group(cls=Tracline, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tracline", message="%(prog)s %(version)s")
def tracline() -> None:
    """Audit what deployed language-model agents did: temporal rules over their telemetry."""


def main() -> None:
    """Run the `tracline` command. The reader of its output may close the pipe at any time.

    A bug in tracline prints a traceback on standard error and exits 2.
    """
    # Imports and the grammar create many long-lived objects: scanning them is a tenth of the start-up time.
    gc.set_threshold(100_000)
    # tracline uses no pydantic plugin; searching for plugins reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        tracline(prog_name="tracline")
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as fault:
        # A panic of Polars is not an Exception. The message may quote telemetry.
        click.echo("\n".join(map(clean, traceback.format_exc().splitlines())), err=True)
        raise SystemExit(CRASHED) from fault
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes again at exit and would print an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
