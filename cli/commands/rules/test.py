"""`tracline test`: run the examples in rule packs through the machines of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import click

from ....rules.model.problem import counted
from ...options import Command, format_option, load_selected, selection_options

if TYPE_CHECKING:
    from ....rules.model.rule import Rule
    from ....rules.packs.examples import ExampleRun


@click.command(cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@selection_options()
@format_option("table", "json", "junit")
def command(packs: tuple[str, ...], select: tuple[str, ...], ignore: tuple[str, ...], format: str) -> None:
    """Run the examples in rule packs.

    An example is a whole session, closed after its last step. Under `violated` the rule must be violated or
    unmet at least once, under `holds` never. Exits 1 if an example fails, 2 if a pack has errors.

    \b
        tracline test rules/retail.yaml
    """
    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.examples import run_examples

    rules = load_selected(packs, select, ignore).rules
    pairs = zip(rules, compile_rules(rules), strict=True)
    done = [run for rule, machine in pairs for run in run_examples(rule, machine)]
    if format == "json":
        _write_json(done)
    elif format == "junit":
        click.echo(_junit(done))
    else:
        for line in _table(rules, done):
            click.echo(line)
    if not all(run.passed for run in done):
        click.get_current_context().exit(1)


def _table(rules: Sequence[Rule], done: Sequence[ExampleRun]) -> Iterator[str]:
    """Yield a line per rule, followed by the steps of its failed examples."""
    width = max((len(_name(rule)) for rule in rules), default=0)
    by_rule = {_name(rule): list(group) for rule, group in groupby(done, key=lambda run: run.rule)}
    for rule in rules:
        of_rule = by_rule.get(_name(rule), [])
        failed = [run for run in of_rule if not run.passed]
        word = (
            click.style("FAIL", fg="red") if failed else click.style("ok", fg="green") if of_rule else "none"
        )
        counts = [f"{sum(t.expected == sort for t in of_rule)} {sort}" for sort in ("violated", "holds")]
        yield f"{_name(rule):<{width}}  {', '.join(counts)}  {word}"
        for run in failed:
            yield from (f"    {line}" for line in _story(run))
    bare = len(rules) - len(by_rule)
    failures = sum(not run.passed for run in done)
    without = f", {counted(bare, 'rule')} without an example" if bare else ""
    yield f"{counted(len(rules), 'rule')}, {counted(len(done), 'example')}, {failures} failed{without}"


def _story(run: ExampleRun) -> Iterator[str]:
    """Yield the expectation of an example, and the verdict after each of its steps."""
    wanted = "should be violated, but holds" if run.expected == "violated" else "should hold, but is violated"
    yield f"example {run.number} under `{run.expected}` {wanted}: {run.rule.text}"
    for number, (true, verdict) in enumerate(zip(run.session, run.verdicts, strict=True), start=1):
        yield f"{number:>4}  {verdict or 'skipped by `steps`':<10} {', '.join(sorted(true)) or '-'}"
    yield f" end  {run.end or '-'}"


def _write_json(done: Sequence[ExampleRun]) -> None:
    """Write all examples as one JSON object."""
    import orjson

    rows = [
        {
            "pack": run.rule.pack,
            "rule": run.rule.id,
            "expected": run.expected,
            "number": run.number,
            "passed": run.passed,
            "steps": [
                {"true": sorted(true), "verdict": verdict}
                for true, verdict in zip(run.session, run.verdicts, strict=True)
            ],
            "end": run.end,
        }
        for run in done
    ]
    failed = sum(not run.passed for run in done)
    answer = {"examples": len(done), "failed": failed, "trials": rows}
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))


def _junit(done: Sequence[ExampleRun]) -> str:
    """Return the examples as JUnit XML: a suite per pack, a case per example."""
    suites = ElementTree.Element("testsuites", name="tracline test")
    for pack, group in groupby(done, key=lambda run: run.rule.pack):
        cases = list(group)
        failures = sum(not run.passed for run in cases)
        counts = {"name": pack, "tests": str(len(cases)), "failures": str(failures)}
        suite = ElementTree.SubElement(suites, "testsuite", counts)
        for run in cases:
            name = f"{run.rule.id} {run.expected} {run.number}"
            case = ElementTree.SubElement(suite, "testcase", classname=pack, name=name)
            if not run.passed:
                story = list(_story(run))
                failure = ElementTree.SubElement(case, "failure", message=story[0])
                failure.text = "\n".join(story)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _name(rule: Rule) -> str:
    return f"{rule.pack}/{rule.id}"
