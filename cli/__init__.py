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
    "demo": ("audit.demo", "Make an archive with the simulated support bot and audit it."),
    "init": ("archive.init", "Write a rule pack to begin with, from the tools and agents of a source."),
    "check": ("rules.check", "Parse rule packs, resolve their names, warn about what is suspicious."),
    "test": ("rules.test", "Run the examples inside rule packs."),
    "label": ("rules.label", "Show how often each proposition is true, with sample events."),
    "eval": ("rules.eval_", "Step one formula over a trace."),
    "import": ("archive.import_", "Turn chat logs and span dumps into an archive of event Parquet."),
    "audit": ("audit.audit", "Judge an archive by rule packs and write the bundle of verdicts."),
    "show": ("archive.show", "Show the sessions and events of a source, as an audit judges them."),
    "doctor": (
        "archive.doctor",
        "Say which instrumentations sent spans, what each lacks, and what mends it.",
    ),
    "serve": ("live.serve", "Receive spans, and judge, show and archive what agents do, in one process."),
    "alerts": (
        "alerts.group",
        "Alarms about rates: what is tolerated, and when they would have been raised.",
    ),
    "stream": ("stream.group", "The same over Kafka: a process for each step, and what cares for them."),
}
"""Each command's module in this room, which exports it as `command`, and its line in `tracline --help`."""

CRASHED = 2
"""The exit code of a fault in tracline itself: never 1, which means findings."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


class Tracline(LazyGroup):
    """The group of all commands, which says what went wrong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, without colours where `NO_COLOR` is set. Arguments are UTF-8."""
        ctx.color = colors()
        for arg in args:
            # What writes Parquet takes no other path, and no JSON can hold one.
            if (text := os.fsencode(arg).decode("utf-8", "backslashreplace")) != arg:
                hint = "rename the file or folder, or write the argument as UTF-8"
                raise command_error("TRL604", text, "is an argument that is not UTF-8", hint)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _shortened(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of the world becomes its text on standard error and exit code 2."""
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
    """Return the error, quoting no more of an argument than other errors do; a command's help stays whole."""
    text = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error
    return error if len(text) <= QUOTED_CHARS_MAX else click.UsageError(shortened(text), error.ctx)


@click.group(cls=Tracline, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tracline", message="%(prog)s %(version)s")
def tracline() -> None:
    """Audit what deployed language-model agents did: temporal rules over their telemetry."""


def main() -> None:
    """Run the `tracline` command; the reader of its output may stop reading at any time.

    A fault in tracline itself shows where it happened on standard error and exits 2.
    """
    # Imports and the grammar make many objects that stay: looking through them is a tenth of a start.
    gc.set_threshold(100_000)
    # We use no plugin of pydantic's; looking for some reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        tracline(prog_name="tracline")
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as fault:
        # Polars' panics are no Exception. The message may quote telemetry.
        click.echo("\n".join(map(clean, traceback.format_exc().splitlines())), err=True)
        raise SystemExit(CRASHED) from fault
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more at exit and would complain there.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
