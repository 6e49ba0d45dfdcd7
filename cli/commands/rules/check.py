"""`tracline check`: what is wrong in rule packs, and what is probably not meant."""

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
    from ....rules.packs.yaml_document import Document


@click.command(cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@format_option("table", "json")
def command(packs: tuple[str, ...], format: str) -> None:
    """Parse rule packs, resolve their names, and warn about rules that probably mean something else.

    A PACK is a YAML file, a folder of them, or the name of a shipped pack. Every problem is told at once,
    each with its place, a code and what to write instead. Errors give exit code 2, warnings 0. Of a pack that
    extends another, what it inherits and what it replaces is shown.

    \b
        tracline check rules/retail.yaml customer-service
    """
    from ....rules.lint.check import check, is_warning
    from ....rules.packs.load import read_packs

    read = read_packs(packs)
    # With errors some rules are left out, and what they use would seem unused.
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
    """Each problem as text, its first line coloured, and an empty line after it."""
    from ....rules.lint.check import is_warning
    from ....rules.model.problem import render

    for problem in problems:
        warning = is_warning(problem)
        told = replace(problem, message=f"warning: {problem.message}") if warning else problem
        first, *rest = render(told).split("\n")
        yield "\n".join([click.style(first, fg="yellow" if warning else "red"), *rest, ""])


def _inheritance(documents: Mapping[str, Document]) -> Iterator[str]:
    """Yield what each pack that extends another takes and changes, and an empty line after it."""
    from ....rules.packs.extend import overrides

    for name, document in documents.items():
        changed = overrides(document)
        if changed is None:
            continue
        own = f", {len(changed.own)} of its own" if changed.own else ""
        yield quoted(
            f"{name} extends {changed.parent}: {counted(len(changed.inherited), 'rule')} inherited{own}"
        )
        severities = [f"{rule} {now} (was {was})" for rule, (was, now) in changed.severities.items()]
        rows = {f"{section} replaced": names for section, names in changed.replaced.items()}
        for what, names in {**rows, "rules dropped": changed.dropped, "severities": severities}.items():
            if names:
                yield f"  {what}: {', '.join(map(clean, names))}"
        yield ""


def _write_json(problems: Sequence[Problem], documents: Mapping[str, Document], rules: int) -> None:
    """The problems as one JSON object."""
    import orjson

    from ....rules.lint.check import is_warning
    from ....rules.packs.extend import overrides

    rows = [
        {
            "code": problem.code,
            "level": "warning" if is_warning(problem) else "error",
            "message": problem.message,
            "hint": problem.hint,
            "source": problem.place.source if problem.place else None,
            "line": problem.place.line if problem.place else None,
            "column": problem.place.column if problem.place else None,
        }
        for problem in problems
    ]
    levels = [row["level"] for row in rows]
    answer = {
        "packs": list(documents),
        "rules": rules,
        "extends": [
            {
                "pack": name,
                "parent": changed.parent,
                "inherited": changed.inherited,
                "own": changed.own,
                "dropped": changed.dropped,
                **changed.replaced,
                "severities": {
                    rule: {"was": was, "now": now} for rule, (was, now) in changed.severities.items()
                },
            }
            for name, document in documents.items()
            if (changed := overrides(document)) is not None
        ],
        "errors": levels.count("error"),
        "warnings": levels.count("warning"),
        "problems": rows,
    }
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
