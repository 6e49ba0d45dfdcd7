"""`tracline test`: run the examples in rule packs through the machines of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import click

from ....rules.model.problem import counted
from ...options import Command, format_option

if TYPE_CHECKING:
    from ....rules.model.rule import Rule
    from ....rules.packs.examples import Trial


@click.command(cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@format_option("table", "json", "junit")
def command(packs: tuple[str, ...], format: str) -> None:
    """Run the examples in rule packs.

    An example is a whole session, closed after its last step. Under `violated` the rule must be violated or
    unmet at least once, under `holds` never. Exits 1 if an example fails, 2 if a pack has errors.

    \b
        tracline test rules/retail.yaml
    """
    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.examples import trials
    from ....rules.packs.load import load_packs

    rules = load_packs(packs).rules
    pairs = zip(rules, compile_rules(rules), strict=True)
    done = [trial for rule, machine in pairs for trial in trials(rule, machine)]
    if format == "json":
        _write_json(done)
    elif format == "junit":
        click.echo(_junit(done))
    else:
        for line in _table(rules, done):
            click.echo(line)
    if not all(trial.passed for trial in done):
        click.get_current_context().exit(1)


def _table(rules: Sequence[Rule], done: Sequence[Trial]) -> Iterator[str]:
    """Yield a line per rule, followed by the steps of its failed examples."""
    width = max((len(_name(rule)) for rule in rules), default=0)
    by_rule = {_name(rule): list(group) for rule, group in groupby(done, key=lambda trial: trial.rule)}
    for rule in rules:
        of_rule = by_rule.get(_name(rule), [])
        failed = [trial for trial in of_rule if not trial.passed]
        word = (
            click.style("FAIL", fg="red") if failed else click.style("ok", fg="green") if of_rule else "none"
        )
        counts = [f"{sum(t.expected == sort for t in of_rule)} {sort}" for sort in ("violated", "holds")]
        yield f"{_name(rule):<{width}}  {', '.join(counts)}  {word}"
        for trial in failed:
            yield from (f"    {line}" for line in _story(trial))
    bare = len(rules) - len(by_rule)
    failures = sum(not trial.passed for trial in done)
    without = f", {counted(bare, 'rule')} without an example" if bare else ""
    yield f"{counted(len(rules), 'rule')}, {counted(len(done), 'example')}, {failures} failed{without}"


def _story(trial: Trial) -> Iterator[str]:
    """Yield the expectation of an example, and the verdict after each of its steps."""
    wanted = (
        "should be violated, but holds" if trial.expected == "violated" else "should hold, but is violated"
    )
    yield f"example {trial.number} under `{trial.expected}` {wanted}: {trial.rule.text}"
    for number, (true, verdict) in enumerate(zip(trial.session, trial.verdicts, strict=True), start=1):
        yield f"{number:>4}  {verdict or 'skipped by `steps`':<10} {', '.join(sorted(true)) or '-'}"
    yield f" end  {trial.end or '-'}"


def _write_json(done: Sequence[Trial]) -> None:
    """Write all examples as one JSON object."""
    import orjson

    rows = [
        {
            "pack": trial.rule.pack,
            "rule": trial.rule.id,
            "expected": trial.expected,
            "number": trial.number,
            "passed": trial.passed,
            "steps": [
                {"true": sorted(true), "verdict": verdict}
                for true, verdict in zip(trial.session, trial.verdicts, strict=True)
            ],
            "end": trial.end,
        }
        for trial in done
    ]
    failed = sum(not trial.passed for trial in done)
    answer = {"examples": len(done), "failed": failed, "trials": rows}
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))


def _junit(done: Sequence[Trial]) -> str:
    """Return the examples as JUnit XML: a suite per pack, a case per example."""
    suites = ElementTree.Element("testsuites", name="tracline test")
    for pack, group in groupby(done, key=lambda trial: trial.rule.pack):
        cases = list(group)
        failures = sum(not trial.passed for trial in cases)
        counts = {"name": pack, "tests": str(len(cases)), "failures": str(failures)}
        suite = ElementTree.SubElement(suites, "testsuite", counts)
        for trial in cases:
            name = f"{trial.rule.id} {trial.expected} {trial.number}"
            case = ElementTree.SubElement(suite, "testcase", classname=pack, name=name)
            if not trial.passed:
                story = list(_story(trial))
                failure = ElementTree.SubElement(case, "failure", message=story[0])
                failure.text = "\n".join(story)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _name(rule: Rule) -> str:
    return f"{rule.pack}/{rule.id}"
