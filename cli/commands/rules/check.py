"""`tracline check`: errors and suspicious rules in rule packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ....rules.model.problem import counted
from ...options import Command, format_option
from ...terminal import clean, quoted

if TYPE_CHECKING:
    from ....rules.model.problem import Problem
    from ....rules.packs.yaml.document import Document


@click.command(cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@format_option("table", "json")
def command(packs: tuple[str, ...], format: str) -> None:
    """Check rule packs for errors and suspicious rules.

    A PACK is a YAML file, a folder of them, or the name of a shipped pack. The command prints all problems,
    each with its place, a code and a hint. Errors exit 2, warnings 0. For a pack that extends or uses
    another, it lists what the pack takes from that one.

    \b
        tracline check rules/retail.yaml customer-service
    """
    from ....rules.lint.check import check, is_warning
    from ....rules.packs.load import read_packs

    read = read_packs(packs)
    # With errors some rules are missing, and the propositions that they use would seem unused.
    problems = read.errors or check(read.rule_set, read.documents)
    warnings = sum(map(is_warning, problems))
    errors = len(problems) - warnings
    if format == "json":
        _write_json(problems, read.documents, read.written)
    else:
        for line in (*_lines(problems), *_inheritance(read.documents)):
            click.echo(line)
        click.echo(
            f"{counted(len(read.documents), 'pack')}, {counted(read.written, 'rule')}, "
            f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        )
    if errors:
        click.get_current_context().exit(2)


def _lines(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield each problem as text with a coloured first line and an empty last one."""
    from ....rules.lint.check import is_warning
    from ....rules.model.problem import render

    for problem in problems:
        warning = is_warning(problem)
        shown = replace(problem, message=f"warning: {problem.message}") if warning else problem
        first, *rest = render(shown).split("\n")
        yield "\n".join([click.style(first, fg="yellow" if warning else "red"), *rest, ""])


def _inheritance(documents: Mapping[str, Document]) -> Iterator[str]:
    """Yield what each pack uses, inherits and replaces, and an empty line."""
    from ....rules.packs.inheritance import overrides
    from ....rules.packs.uses import used_names

    for name, document in documents.items():
        for used in used_names(document):
            yield quoted(f"{name} uses {counted(len(used.names), 'name')} of {used.pack}")
        changed = overrides(document)
        if changed is None:
            if document.uses:
                yield ""
            continue
        added = f", {len(changed.added)} added" if changed.added else ""
        yield quoted(
            f"{name} extends {changed.parent}: {counted(len(changed.inherited), 'rule')} inherited{added}"
        )
        severities = [f"{rule} {now} (was {was})" for rule, (was, now) in changed.severities.items()]
        rows = {f"{section} replaced": names for section, names in changed.replaced.items()}
        for what, names in {**rows, "rules dropped": changed.dropped, "severities": severities}.items():
            if names:
                yield f"  {what}: {', '.join(map(clean, names))}"
        yield ""


def _write_json(problems: Sequence[Problem], documents: Mapping[str, Document], rules: int) -> None:
    """Write the problems as one JSON object."""
    import orjson

    from ....rules.packs.uses import used_names

    rows = list(map(_problem_data, problems))
    levels = [row["level"] for row in rows]
    answer = {
        "packs": list(documents),
        "rules": rules,
        "extends": list(_extends_data(documents)),
        "uses": [
            {"pack": name, "used": used.pack, "names": used.names}
            for name, document in documents.items()
            for used in used_names(document)
        ],
        "errors": levels.count("error"),
        "warnings": levels.count("warning"),
        "problems": rows,
    }
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))


def _problem_data(problem: Problem) -> dict[str, object]:
    """Return the fields of a problem that the JSON has."""
    from ....rules.lint.check import is_warning

    return {
        "code": problem.code,
        "level": "warning" if is_warning(problem) else "error",
        "message": problem.message,
        "hint": problem.hint,
        "source": problem.location.source if problem.location else None,
        "line": problem.location.line if problem.location else None,
        "column": problem.location.column if problem.location else None,
    }


def _extends_data(documents: Mapping[str, Document]) -> Iterator[dict[str, object]]:
    """Yield what each pack that extends another changes in it."""
    from ....rules.packs.inheritance import overrides

    for name, document in documents.items():
        if (changed := overrides(document)) is not None:
            severities = changed.severities.items()
            yield {
                "pack": name,
                "parent": changed.parent,
                "inherited": changed.inherited,
                "own": changed.added,
                "dropped": changed.dropped,
                **changed.replaced,
                "severities": {rule: {"was": was, "now": now} for rule, (was, now) in severities},
            }
