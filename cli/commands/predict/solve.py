"""`tracline predict solve`: probabilities of Markov chains whose states are written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from ...options import Command, format_option, note
from ...terminal import clean, quoted

if TYPE_CHECKING:
    from ....predict.explicit.chain import ExplicitChain
    from ....predict.explicit.solution import Solution

SUFFIXES = (".prism", ".pm", ".tra", ".drn")
ABSORBING_NAMED_MAX = 10


@click.command(cls=Command)
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--reach", metavar="LABEL[,LABEL]", help="Reach a state with such a label.")
@click.option("--formula", metavar="FORMULA", help="Violate a formula over the labels.")
@click.option(
    "--within",
    type=click.IntRange(min=0),
    metavar="K",
    help="After at most K steps from the state; without it, ever.",
)
@format_option("table", "json")
def command(model: Path, reach: str | None, formula: str | None, within: int | None, format: str) -> None:
    """Print for each state of MODEL the probability of reaching a label or of violating a formula.

    MODEL is a Markov chain: .prism (one module with one variable), .tra (with a .lab file of labels beside
    it), or .drn. A chain of intervals (.drn) has a least and a greatest probability. A formula reads the
    labels of the state itself and of those after it, and it does not restart. Without labels, state 3 has the
    label s3.

    \b
        tracline predict solve desk.tra --reach violated --within 5
        tracline predict solve desk.prism --formula 'always (refund -> once verified)'
    """
    from ....predict.explicit.solution import reaching, violating

    if (reach is None) == (formula is None):
        raise click.UsageError("Name either --reach or --formula.")
    chain = read_model(model)
    if len(chain.absorbing):
        states = ", ".join(map(str, chain.absorbing[:ABSORBING_NAMED_MAX].tolist()))
        more = " and others" if len(chain.absorbing) > ABSORBING_NAMED_MAX else ""
        note(quoted(f"{model}: states without a row stay where they are: {states}{more}"))
    where = str(model)
    if formula is not None:
        solution = violating(chain, formula, within, where)
    else:
        assert reach is not None
        solution = reaching(chain, [name.strip() for name in reach.split(",")], within, where)
    for line in json_lines(solution) if format == "json" else table_lines(chain, solution):
        click.echo(line)


def read_model(path: Path) -> ExplicitChain:
    """Read a chain by the suffix of its file. Raises PredictError with the line of the first mistake."""
    from ....predict.explicit.drn import read_drn
    from ....predict.explicit.prism import read_prism
    from ....predict.explicit.transitions import read_tra

    if path.suffix not in SUFFIXES:
        raise click.UsageError(quoted(f"{path}: a model is a file {', '.join(SUFFIXES)}"))
    text = _text(path)
    if path.suffix == ".drn":
        return read_drn(text, str(path))
    if path.suffix != ".tra":
        return read_prism(text, str(path))
    labels = path.with_suffix(".lab")
    return read_tra(text, str(path), _text(labels) if labels.exists() else None, str(labels))


def _text(path: Path) -> str:
    """Return the text of a file. Raises PredictError where it is not UTF-8."""
    from ....predict.error import PredictError

    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PredictError("TRL807", str(path), "not UTF-8", "write the model as UTF-8 text") from None


def json_lines(solution: Solution) -> Iterator[str]:
    """Yield a JSON object for each state, in order."""
    for state, (low, high) in enumerate(zip(solution.low.tolist(), solution.high.tolist(), strict=True)):
        found = {"low": low, "high": high} if solution.has_intervals else {"probability": low}
        yield orjson.dumps({"state": state, **found}).decode()


def table_lines(chain: ExplicitChain, solution: Solution) -> Iterator[str]:
    """Yield a heading and a line for each state: its number, its probability and its labels."""
    names: dict[int, list[str]] = {}
    for name, states in sorted(chain.labels.items()):
        for state in states.tolist():
            names.setdefault(state, []).append(clean(name))
    width = max(len("state"), len(str(chain.states - 1)))
    heading = f"{'low':<11}  {'high':<11}" if solution.has_intervals else "probability"
    yield f"{'state':>{width}}  {heading}  labels".rstrip()
    for state, (low, high) in enumerate(zip(solution.low.tolist(), solution.high.tolist(), strict=True)):
        numbers = f"{low:.9f}  {high:.9f}" if solution.has_intervals else f"{low:.9f}"
        yield f"{state:>{width}}  {numbers}  {' '.join(names.get(state, []))}".rstrip()
