"""`tracline predict`: what sessions will likely do."""

from __future__ import annotations

from typing import Any

import click

from ...error import CommandError, command_error
from ...lazy import LazyGroup
from ...terminal import quoted

COMMANDS = {
    "show": ("predict.show", "Print the contexts of a chain with the greatest risks."),
    "export": ("predict.export", "Write the chain of a rule in PRISM's or Storm's formats."),
    "learn": ("predict.learn", "Learn from an archive what sessions do next, and the risk of each rule."),
    "score": ("predict.score", "Score the risks of a chain on the sessions of an archive."),
    "compare": ("predict.compare", "Compare the behaviour that two chains have learned."),
    "drift": ("predict.drift", "Show whether an archive still behaves like a chain."),
    "explain": ("predict.explain", "Explain the risk of a session by a chain."),
    "sample": ("predict.sample", "Sample from a model how a session goes on, and the risk of each rule."),
    "solve": ("predict.solve", "Solve a Markov chain in PRISM's or Storm's formats."),
}
"""The module of each command, which exports it as `command`, and its line in the help."""


class PredictGroup(LazyGroup):
    """The group of the commands of prediction, which turns its errors into messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and report a missing package too."""
        from ....predict.error import PredictError

        try:
            return super().invoke(ctx)
        except PredictError as error:
            raise CommandError("\n".join(map(quoted, str(error).splitlines()))) from error
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in ("httpx", "scipy"):
                raise
            hint = "install tracline with its extra `predict`: pip install '.[predict]' in a clone"
            where = f"tracline predict {ctx.invoked_subcommand or ''}".rstrip()
            raise command_error("TRL620", where, f"the package {package} is not installed", hint) from error


@click.group("predict", cls=PredictGroup, table=COMMANDS)
def command() -> None:
    """Compute what will likely happen.

    Needs the packages scipy and httpx, which the extra `predict` installs.
    """
