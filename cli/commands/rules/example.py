"""`tracline example`: make a case of a rule from a finding of an audit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ....rules.model.problem import RuleError
from ....schemas.verdict import BREACHES
from ...error import command_error
from ...options import Command, note
from ...output_file import require_new
from ...source import audit_options
from ...terminal import quoted
from .example_events import case_text

if TYPE_CHECKING:
    from ....rules.packs.yaml.document import Document
    from ....schemas.records.verdict_record import VerdictRecord

CASES = "cases"
"""The folder of cases beside a pack."""


@click.command("example", cls=Command)
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("verdict", metavar="VERDICT-ID")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["violated", "holds"]),
    required=True,
    help="What the rule should find in the case: a violation, or none.",
)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    metavar="FOLDER",
    help="The folder of the rule's pack; the case is in its subfolder `cases`.  [default: .]",
)
@click.option("--add", is_flag=True, help="Also add the case to the rule's examples in the pack.")
@click.option(
    "--archive", metavar="ARCHIVE", help="The audited archive, if it is not where the bundle names it."
)
def command(bundle: Path, verdict: str, kind: str, folder: Path, add: bool, archive: str | None) -> None:
    """Make an example of a rule from a finding of an audit.

    The command writes the events of the session up to the verdict as a case: a file with a line of JSON for
    each event, in FOLDER/cases. It prints the entry for the rule's examples, or adds it. The case contains
    the content of messages and tools. The events come from the audited archive, which must be unchanged.

    \b
        tracline example bundle 4c18b1e2f0a94d3c8f1e2a7b6c5d4e3f --as holds --to rules --add
    """
    from ....batch.findings.audited_archive import bundle_input
    from ....batch.findings.cases import case_of
    from ....batch.findings.findings import Wanted, choose

    (record,) = choose(bundle, Wanted(verdict=verdict)).records
    if record.verdict not in BREACHES:
        hint = "take a violated or unmet verdict"
        raise command_error("TRL609", str(bundle), f"verdict {verdict} is {record.verdict}", hint)
    document = _document(folder, record) if add else None
    source = bundle_input(bundle, archive, audit_options())
    with tempfile.TemporaryDirectory() as scratch:
        events = case_of(source, record, Path(scratch))
    name = f"{CASES}/{record.rule}-{record.id[:8]}.jsonl"
    _write(folder / name, case_text(events))
    from ....rules.packs.examples.add_example import example_line

    if document is None:
        click.echo(
            f"add to `examples: {{{kind}: [...]}}` of rule {quoted(record.rule)}: {example_line(name)}"
        )
    else:
        _add(document, record.rule, kind, name)
    note(f"{len(events):,} events in {quoted(str(folder / name))}, with the content of messages and tools")
    if kind == "holds":
        note("`tracline test` fails until the rule holds in this case")


def _document(folder: Path, record: VerdictRecord) -> Document:
    """Return the pack of the verdict's rule in the folder.

    Raises RuleError if a pack there has errors, and CommandError (TRL609) if there is no such pack.
    """
    from ....rules.packs.load import read_packs

    packs = read_packs(folder)
    if packs.errors:
        raise RuleError(packs.errors)
    if record.pack not in packs.documents:
        hint = "choose the folder of the pack with --to"
        raise command_error("TRL609", str(folder), f"has no pack {record.pack}", hint)
    return packs.documents[record.pack]


def _write(path: Path, text: str) -> None:
    """Write the case; an equal one may be there. Raises CommandError (TRL607) if another one is."""
    path.parent.mkdir(exist_ok=True)
    require_new(path, what="exists with other events", hint="move it away", text=text)
    path.write_text(text, encoding="utf-8")


def _add(document: Document, rule: str, kind: str, name: str) -> None:
    """Add the case to the rule's examples in the pack. Raises CommandError (TRL609) without writing."""
    from ....rules.packs.examples.add_example import example_line, with_example

    file, line = Path(document.source), example_line(name)
    text = with_example(document, rule, kind, name)
    if text is None or not _replace(file, text, rule):
        what = f"has no certain place for the case in rule {rule}"
        raise command_error("TRL609", str(file), what, f"add it by hand to `{kind}`: {line}")
    click.echo(f"added to `{kind}` of rule {quoted(rule)} in {quoted(str(file))}: {line}")


def _replace(file: Path, text: str, rule: str) -> bool:
    """Replace the pack by that text if nothing but the rule's examples changes, and return whether it did."""
    from ....rules.packs.examples.add_example import adds_only
    from ....rules.packs.load import load_packs

    draft = file.with_name(f".{file.name}")
    draft.write_text(text, encoding="utf-8", newline="")
    try:
        if not adds_only(load_packs(file), load_packs(draft), rule):
            return False
        draft.replace(file)
        return True
    except RuleError:
        return False
    finally:
        draft.unlink(missing_ok=True)
