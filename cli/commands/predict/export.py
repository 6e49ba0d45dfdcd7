"""`tracline predict export`: the product of a rule's chain and machine, for PRISM and Storm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from ...options import Command, note
from ...terminal import quoted
from .show import rules_of

if TYPE_CHECKING:
    from ....predict.risk.product_chain import ProductChain

LEAST = 1e-12
"""The lower end that is written for one of 0, which Storm's intervals must not have."""


@click.command(cls=Command)
@click.argument("chain", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rule", required=True, metavar="RULE", help="The rule, as PACK/ID or ID.")
@click.option("--format", type=click.Choice(["prism", "tra", "drn"]), required=True, help="The format.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The file of the chain.",
)
def command(chain: Path, rule: str, format: str, out: Path) -> None:
    """Write the chain of a rule of CHAIN, whose states are its contexts.

    The label `violated` is the verdict against the agent, and `end` the session's end without one. FILE has
    the suffix .states.jsonl added in a second file, which names the context of each state; .tra has its
    labels in a .lab file. The format drn has the interval of each count instead of one probability.

    \b
        tracline predict export desk.chain --rule confirm-before-refund --format prism --out desk.prism
        tracline predict solve desk.prism --reach violated --within 5
    """
    from ....archive.disk import replacing_file
    from ....predict.explicit.drn import to_drn
    from ....predict.explicit.prism import to_prism
    from ....predict.explicit.transitions import to_lab, to_tra
    from ....predict.folder.chain_rules import chain_rules
    from ....predict.folder.load import load_chain
    from ....predict.risk.product_chain import interval_product, product_chain

    if out.suffix != f".{format}":
        raise click.UsageError(quoted(f"{out}: a file of this format ends in .{format}"))
    read = chain_rules(load_chain(chain))
    found = rules_of(read.chain, rule)
    if len(found) > 1:
        names = ", ".join(f"{each.pack}/{each.rule}" for each in found)
        raise click.UsageError(quoted(f"CHAIN has several rules {rule}: {names}."))
    counted = next(each for each in read.counted if (each.pack, each.rule) == (found[0].pack, found[0].rule))
    if format == "drn":
        product = interval_product(counted, 1 - read.chain.confidence, LEAST)
        text = to_drn(product.chain)
    else:
        product = product_chain(counted, found[0].estimate(counted))
        to_text = to_prism if format == "prism" else to_tra
        text = to_text(product.chain)
    files = {Path(f"{out}.states.jsonl"): state_lines(product)}
    if format == "tra":
        files[out.with_suffix(".lab")] = to_lab(product.chain).encode()
    for file, content in (files | {out: text.encode()}).items():
        with replacing_file(file) as part:
            part.write_bytes(content)
    note(quoted(f"{out}: {product.chain.states:,} states, {len(product.chain.targets):,} transitions"))


def state_lines(product: ProductChain) -> bytes:
    """Return a JSON object a line for each state that is a context."""
    return b"".join(orjson.dumps(name) + b"\n" for name in product.names())
