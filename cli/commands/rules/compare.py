"""`tracline compare`: whether rules, formulas or packs give the same verdicts, and where they differ."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from ...options import Command, format_option, note, rules_option
from ...terminal import clean, quoted

if TYPE_CHECKING:
    from ....batch.survey.compared import ChangedSession, SessionChanges
    from ....rules.comparison.compare import Difference
    from ....rules.comparison.packs import RuleComparison
    from ....rules.model.predicate import Predicate
    from ....rules.model.rule import Rule


@click.command(cls=Command)
@click.argument("left")
@click.argument("right")
@rules_option(required=False)
@click.option(
    "--recover",
    type=click.Choice(["both", "violation", "none"]),
    default="both",
    show_default=True,
    help="The verdicts after which formulas restart: both kinds, violations only, or none.",
)
@click.option(
    "--archive",
    metavar="ARCHIVE",
    help="For packs: count the sessions of the archive's last month that each change breaks or clears.",
)
@format_option("table", "json")
def command(
    left: str, right: str, rules: tuple[str, ...], recover: str, archive: str | None, format: str
) -> None:
    """Compare two rules, formulas or packs, exactly: over all possible sessions.

    LEFT and RIGHT are formulas, rules as PACK#RULE, or packs (YAML files, folders of them, or names of
    shipped packs). Two rules are equal if every session gives the same verdict after every event and the same
    reading at its close; else the command prints a shortest session on which they differ. With --rules, the
    names in formulas are propositions of these packs, and events that cannot be do not count.

    The exit code is 0 if they are equal and 1 if they differ.

    \b
        tracline compare 'always (p -> once q)' 'not p weak_until q' --recover none
        tracline compare old/desk.yaml new/desk.yaml --archive archive/
    """
    packs = [_is_pack(left), _is_pack(right)]
    if all(packs):
        is_equal = _compare_packs(left, right, archive, format)
    elif any(packs):
        raise click.UsageError("Compare a pack with a pack, and a rule or formula with a rule or formula.")
    elif archive is not None:
        raise click.UsageError("--archive requires two packs.")
    else:
        is_equal = _compare_rules(left, right, rules, recover, format)
    if not is_equal:
        click.get_current_context().exit(1)


def _is_pack(given: str) -> bool:
    """Return whether an argument is a pack: a file or folder, or the name of a shipped pack."""
    from ....rules.packs.load import shipped_packs

    return given in shipped_packs() or given.endswith((".yaml", ".yml")) or Path(given).exists()


def _compare_rules(left: str, right: str, packs: Sequence[str], recover: str, format: str) -> bool:
    """Compare two rules or formulas, print the result, and return whether they are equal."""
    from ....rules.comparison.compare import compare_sides, side_of
    from ....rules.model.rule import Rule

    given = [_rule(text) if "#" in text else text for text in (left, right)]
    if any(isinstance(each, str) for each in given):
        predicates = _predicates(packs, given)
        sides = [side_of(each, recover=recover, predicates=predicates) for each in given]
    else:
        sides = [side_of(each) for each in given]
    found = compare_sides(sides[0], sides[1])
    keys = {each.for_each for each in given if isinstance(each, Rule)}
    if len(keys) > 1:
        note("the rules have different `for_each`: they are compared on one slice")
    if format == "json":
        click.echo(orjson.dumps({"equal": found is None, **_fields(found)}))
    else:
        click.echo("\n".join(["equal"] if found is None else ["different", *_lines(found)]))
    return found is None


def _rule(text: str) -> Rule:
    """Return the rule `PACK#RULE`. Raises a usage error where the pack has none of that id."""
    from ....rules.model.problem import did_you_mean
    from ....rules.packs.load import load_packs

    pack, _, name = text.rpartition("#")
    rules = {rule.id: rule for rule in load_packs([pack]).rules}
    if name not in rules:
        raise click.UsageError(quoted(f"{pack} has no rule `{name}`: {did_you_mean(name, rules)}"))
    return rules[name]


def _predicates(packs: Sequence[str], given: Sequence[Rule | str]) -> Mapping[str, Predicate]:
    """Return the predicates of the names in formulas. Raises a usage error for names that packs lack."""
    from ....rules.language.parse import parse_formula
    from ....rules.model.digest import predicate_key
    from ....rules.model.formula import names
    from ....rules.model.problem import did_you_mean
    from ....rules.packs.load import load_packs

    if not packs:
        return {}
    known: dict[str, Predicate] = {}
    for rule in load_packs(packs).rules:
        for name, predicate in rule.propositions.items():
            if name in known and predicate_key(known[name]) != predicate_key(predicate):
                raise click.UsageError(quoted(f"`{name}` has several meanings in these packs: name one pack"))
            known[name] = predicate
    for formula in (parse_formula(each) for each in given if isinstance(each, str)):
        for name in sorted(names(formula) - known.keys()):
            hint = did_you_mean(name, known)
            raise click.UsageError(quoted(f"no rule of these packs uses a proposition `{name}`: {hint}"))
    return known


def _compare_packs(left: str, right: str, archive: str | None, format: str) -> bool:
    """Compare two packs, print the result, and return whether all their rules are the same."""
    from ....rules.comparison.packs import compare_packs
    from ....rules.packs.load import load_packs

    found = compare_packs(load_packs([left]), load_packs([right]))
    sessions = _sessions(archive, found)
    is_equal = all(each.status == "same" for each in found)
    if format == "json":
        rules = [_rule_fields(each, sessions.get(each.name)) for each in found]
        click.echo(orjson.dumps({"equal": is_equal, "rules": rules}))
    else:
        for each in found:
            for line in _rule_lines(each, sessions.get(each.name)):
                click.echo(line)
    return is_equal


def _sessions(archive: str | None, found: Sequence[RuleComparison]) -> Mapping[str, SessionChanges]:
    """Return the sessions of an archive that the changes break or clear, by rule; none without an archive."""
    changed = [each for each in found if each.status != "same"]
    if archive is None or not changed:
        return {}
    from ....batch.survey.compared import changed_sessions
    from ...source import audit_options

    with tempfile.TemporaryDirectory() as scratch:
        return changed_sessions(archive, changed, Path(scratch), audit_options())


def _fields(found: Difference | None) -> dict[str, Any]:
    """Return a difference as plain data; that of equal rules has nulls."""
    if found is None:
        return dict.fromkeys(("session", "step", "left", "right", "breaks"))
    return {
        "session": found.session,
        "step": found.step,
        "left": found.left,
        "right": found.right,
        "breaks": found.breaks,
    }


def _rule_fields(found: RuleComparison, sessions: SessionChanges | None) -> dict[str, Any]:
    """Return a rule of two packs as plain data."""
    fields: dict[str, Any] = {
        "rule": found.name,
        "status": found.status,
        "changes": found.changes,
        "predicates": found.predicates,
        **_fields(found.difference),
        "applies": found.applies,
    }
    if sessions is not None:
        from ....batch.survey.compared import SAMPLES_MAX

        for name, places in (("breaks_sessions", sessions.broken), ("clears_sessions", sessions.cleared)):
            samples = [place._asdict() for place in places[:SAMPLES_MAX]]
            fields[name] = {"count": len(places), "samples": samples}
    return fields


def _lines(found: Difference) -> Iterator[str]:
    """Yield the lines on a difference: the session, the answers, and the session that only one breaks."""
    for number, labels in enumerate(found.session, start=1):
        yield f"  event {number}: {_labels(labels)}"
    place = "at the close" if found.step is None else f"at event {found.step}"
    yield f"  {place}: left {found.left}, right {found.right}"
    if found.breaks is None:
        yield "  they break the same sessions, and flag other events"
    elif found.breaks != found.session:
        yield f"  exactly one breaks: {'; '.join(map(_labels, found.breaks))}"


def _labels(labels: Sequence[str]) -> str:
    return ", ".join(map(clean, labels)) or "nothing is true"


def _rule_lines(found: RuleComparison, sessions: SessionChanges | None) -> Iterator[str]:
    """Yield the lines on a rule of two packs."""
    changes = f": {', '.join(found.changes)}" if found.changes else ""
    yield f"{found.status:<8} {clean(found.name)}{changes}"
    if found.predicates:
        yield f"  other predicates: {', '.join(map(clean, found.predicates))}"
    if found.difference is not None:
        yield from _lines(found.difference)
    if found.applies is not None:
        yield f"  applies to other sessions, so its rate differs: {'; '.join(map(_labels, found.applies))}"
    if sessions is not None:
        yield f"  in the archive: {_places('breaks', sessions.broken)}, {_places('clears', sessions.cleared)}"


def _places(verb: str, places: Sequence[ChangedSession]) -> str:
    """Return the number of sessions that a change breaks or clears, with samples."""
    from ....batch.survey.compared import SAMPLES_MAX

    shown = ", ".join(clean(place.session_id) for place in places[:SAMPLES_MAX])
    count = f"{verb} {len(places):,} {'session' if len(places) == 1 else 'sessions'}"
    return f"{count} ({shown}{', ...' if len(places) > SAMPLES_MAX else ''})" if places else count
