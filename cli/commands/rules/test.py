"""`tracline test`: run the examples of rules and propositions in rule packs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import click

from ....rules.model.problem import counted
from ...options import Command, RuleSelection, format_option, selection_options
from ...terminal import clean

if TYPE_CHECKING:
    from ....rules.model.rule import Rule
    from ....rules.packs.examples.event_examples import PropositionRun
    from ....rules.packs.examples.label_examples import ExampleRun

TEXT_WIDTH = 80
"""Characters of an example's text."""


@click.command(cls=Command)
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@selection_options()
@format_option("table", "json", "junit")
def command(packs: tuple[str, ...], select: tuple[str, ...], ignore: tuple[str, ...], format: str) -> None:
    """Run the examples in rule packs.

    An example of a rule is a whole session, closed after its last step: labels, or a file of events, which
    goes through the propositions, too. Under `violated` the rule must be violated or unmet at least once,
    under `holds` never. An example of a proposition is a text or an event, of which it must be true or
    false. Exits 1 if an example fails, 2 if a pack has errors.

    \b
        tracline test rules/retail.yaml
    """
    rules = RuleSelection(packs, select, ignore).load().rules
    done = _run_rules(rules)
    tried = _run_propositions(packs, rules if select or ignore else None)
    if format == "json":
        _write_json(done, tried)
    elif format == "junit":
        click.echo(_junit(done, tried))
    else:
        for line in _table(rules, done, tried):
            click.echo(line)
    if not all(run.passed for run in (*done, *tried)):
        click.get_current_context().exit(1)


def _run_rules(rules: Sequence[Rule]) -> list[ExampleRun]:
    """Run the examples of the rules, rule by rule: labels, then events."""
    from ....rules.compiler.compile import compile_rules
    from ....rules.packs.examples.label_examples import run_examples
    from .example_events import read_cases

    cases = read_cases(rules)
    machines = compile_rules(rules)
    done = {
        _name(rule): list(run_examples(rule, machine)) for rule, machine in zip(rules, machines, strict=True)
    }
    if cases:
        # Labels need Polars, which takes long to import.
        from ....rules.packs.examples.event_examples import run_events

        for run in run_events(rules, cases):
            done[_name(run.rule)].append(run)
    return [run for runs in done.values() for run in runs]


def _run_propositions(packs: Sequence[str], rules: Sequence[Rule] | None) -> list[PropositionRun]:
    """Run the examples of the packs' propositions, or only of those that the rules use."""
    from ....rules.packs.load import read_packs

    examples = read_packs(packs).propositions
    if rules is not None:
        used = {(rule.pack, name) for rule in rules for name in rule.propositions}
        examples = tuple(example for example in examples if (example.pack, example.name) in used)
    if not examples:
        return []
    from ....rules.packs.examples.event_examples import run_propositions

    return run_propositions(examples)


def _table(
    rules: Sequence[Rule], done: Sequence[ExampleRun], tried: Sequence[PropositionRun]
) -> Iterator[str]:
    """Yield a line per rule and proposition, each followed by its failed examples."""
    by_rule = {name: list(group) for name, group in groupby(done, key=lambda run: _name(run.rule))}
    by_proposition = {name: list(group) for name, group in groupby(tried, key=_proposition)}
    width = max((len(name) for name in (*map(_name, rules), *by_proposition)), default=0)
    for rule in rules:
        of_rule = by_rule.get(_name(rule), [])
        counts = [f"{sum(t.expected == sort for t in of_rule)} {sort}" for sort in ("violated", "holds")]
        yield f"{_name(rule):<{width}}  {', '.join(counts)}  {_outcome(of_rule)}"
        for run in of_rule:
            if not run.passed:
                yield from (f"    {line}" for line in _story(run))
    for name, runs in by_proposition.items():
        true = sum(run.example.expected for run in runs)
        yield f"{name:<{width}}  {true} true, {len(runs) - true} false  {_outcome(runs)}"
        yield from (f"    {_trial(run)}" for run in runs if not run.passed)
    bare = len(rules) - sum(bool(runs) for runs in by_rule.values())
    failures = sum(not run.passed for run in (*done, *tried))
    without = f", {counted(bare, 'rule')} without an example" if bare else ""
    of_propositions = f", {counted(len(by_proposition), 'proposition')}" if tried else ""
    total = counted(len(done) + len(tried), "example")
    yield f"{counted(len(rules), 'rule')}{of_propositions}, {total}, {failures} failed{without}"


def _outcome(runs: Collection[ExampleRun] | Collection[PropositionRun]) -> str:
    if not all(run.passed for run in runs):
        return click.style("FAIL", fg="red")
    return click.style("ok", fg="green") if runs else "none"


def _trial(run: PropositionRun) -> str:
    """Return what an example of a proposition should be, and what it is."""
    values = {True: "true", False: "false", None: "unknown"}
    example = run.example
    shown = f"event {example.number}" if example.text is None else f'"{clean(example.text, TEXT_WIDTH)}"'
    return (
        f"{shown} should be {values[example.expected]}, but is {values[run.value]}:"
        f" {clean(example.condition.strip())}"
    )


def _story(run: ExampleRun) -> Iterator[str]:
    """Yield the expectation of an example, and the verdict after each of its steps."""
    wanted = "should be violated, but holds" if run.expected == "violated" else "should hold, but is violated"
    if run.unjudged is not None:
        wanted = f"cannot be judged: {run.unjudged}"
    case = "" if run.events is None else f" ({clean(run.events)})"
    yield f"example {run.number} under `{run.expected}`{case} {wanted}: {run.rule.text}"
    for number, (true, verdict) in enumerate(zip(run.session, run.verdicts, strict=True), start=1):
        yield f"{number:>4}  {verdict or 'skipped by `steps`':<10} {', '.join(sorted(true)) or '-'}"
    yield f" end  {run.end or '-'}"


def _write_json(done: Sequence[ExampleRun], tried: Sequence[PropositionRun]) -> None:
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
            **({} if run.events is None else {"events": run.events, "unjudged": run.unjudged}),
        }
        for run in done
    ]
    propositions = [
        {
            "pack": run.example.pack,
            "proposition": run.example.name,
            "expected": run.example.expected,
            "number": run.example.number,
            "text": run.example.text,
            "passed": run.passed,
            "value": run.value,
        }
        for run in tried
    ]
    failed = sum(not run.passed for run in (*done, *tried))
    answer = {"examples": len(done) + len(tried), "failed": failed, "trials": rows}
    answer |= {"propositions": propositions} if propositions else {}
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))


def _junit(done: Sequence[ExampleRun], tried: Sequence[PropositionRun]) -> str:
    """Return the examples as JUnit XML: a suite per pack, a case per example."""
    from ....rules.packs.examples.label_examples import ExampleRun

    packs = {run.rule.pack: None for run in done} | {run.example.pack: None for run in tried}
    suites = ElementTree.Element("testsuites", name="tracline test")
    for pack in packs:
        cases = [(f"{run.rule.id} {run.expected} {run.number}", run) for run in done if run.rule.pack == pack]
        of_propositions = [
            (f"{run.example.name} {str(run.example.expected).lower()} {run.example.number}", run)
            for run in tried
            if run.example.pack == pack
        ]
        named = [*cases, *of_propositions]
        failures = sum(not run.passed for _, run in named)
        counts = {"name": pack, "tests": str(len(named)), "failures": str(failures)}
        suite = ElementTree.SubElement(suites, "testsuite", counts)
        for name, run in named:
            case = ElementTree.SubElement(suite, "testcase", classname=pack, name=name)
            if not run.passed:
                story = list(_story(run)) if isinstance(run, ExampleRun) else [_trial(run)]
                failure = ElementTree.SubElement(case, "failure", message=story[0])
                failure.text = "\n".join(story)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _proposition(run: PropositionRun) -> str:
    return f"{run.example.pack}/{run.example.name}"


def _name(rule: Rule) -> str:
    return f"{rule.pack}/{rule.id}"
