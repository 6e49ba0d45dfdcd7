"""A first pack for a source: the shipped rules that apply to it, with the source's tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from ...rules.lint.reachability import reachable_verdicts
from ...rules.lint.suggest import (
    PLAIN_NAME,
    TOOL_PATTERNS,
    Suggestion,
    Tool,
    suggestions,
    tools_named,
)
from ...rules.model.rule import Rule, RuleSet
from ...rules.packs.inheritance import condition_node, section_entries
from ...rules.packs.load import documents_of, load_packs, pack_text, shipped_packs
from ...rules.packs.yaml.document import ScalarNode
from ...schemas.display import visible
from ...schemas.records.violation_rate import rate_of
from ..audit.audit import AuditResult, audit
from ..audit.proposition_counts import PropositionCensus, census
from ..prepare.options import AuditOptions
from ..sources.discover import Sources
from .usage import SourceUsage, ToolUsage

WIDTH = 108
"""Maximum characters per line of the pack."""
SHOWN_MAX = 40
"""Maximum tools, and agents, that the pack lists."""
NAMED_MAX = 3
"""Maximum sessions that the pack names per rule."""


@dataclass(frozen=True, slots=True)
class PackDraft:
    """The content of a pack: its parent, its suggestions, and the rules that it drops with the reasons.

    `rules` are the rules that it inherits.
    """

    name: str
    parent: str
    suggestions: tuple[Suggestion, ...]
    dropped: Mapping[str, str]
    rules: tuple[Rule, ...]


def draft(name: str, parent: str, found: SourceUsage) -> PackDraft:
    """Return a draft pack that extends a shipped one, for the tools of a source."""
    shipped = load_packs(parent)
    tools = [Tool(tool.name, tool.arguments) for tool in found.tools]
    suggested = list(suggestions(parent, _propositions(parent, shipped), tools))
    missing = {suggestion.name for suggestion in suggested if not suggestion.tools}
    dropped = {rule.id: why for rule in shipped.rules if (why := _reason(rule, missing)) is not None}
    rules = tuple(rule for rule in shipped.rules if rule.id not in dropped)
    used = {name for rule in rules for name in rule.propositions}
    useful = tuple(suggestion for suggestion in suggested if suggestion.tools and suggestion.name in used)
    return PackDraft(name, parent, useful, dropped, rules)


def _propositions(parent: str, shipped: RuleSet) -> dict[str, tuple[str, Any]]:
    """Return the propositions of the shipped pack that its rules use, as text and parsed."""
    parsed = {name: value for rule in shipped.rules for name, value in rule.propositions.items()}
    texts = section_entries(documents_of(shipped)[parent], "propositions")
    return {
        name: (node.text, parsed[name])
        for name, (_, value) in texts.items()
        if name in parsed and isinstance(node := condition_node(value), ScalarNode)
    }


def _reason(rule: Rule, missing: set[str]) -> str | None:
    """Return why the rule is useless without these propositions, or None."""
    lacks = sorted(missing & rule.propositions.keys())
    if not lacks:
        return None
    left = reachable_verdicts(rule, lacks)
    if left.can_violate and left.can_hold:
        return None
    why = (
        "every session to which it applies would break it"
        if left.can_violate
        else "no session could break it"
    )
    return f"no tool for {_listed(lacks)}: {why}"


def judge_draft(
    source: Sources, written: str, scratch: Path, options: AuditOptions
) -> tuple[PropositionCensus, AuditResult, tuple[Rule, ...]]:
    """Audit the source by a pack and the other shipped ones, and return the counts, result and rules."""
    pack = pack_text(written)
    shipped = load_packs(
        [name for name in shipped_packs() if name not in TOOL_PATTERNS and name not in pack.packs]
    )
    both = RuleSet((*pack.rules, *shipped.rules), {**pack.sources, **shipped.sources})
    for folder in ("census", "audit"):
        (scratch / folder).mkdir()
    counts = census(source, pack, scratch / "census", options)
    return counts, audit(source, both, scratch / "audit" / "bundle", options), both.rules


# ---- as text


def pack_text_of(
    made: PackDraft, found: SourceUsage, counts: Mapping[str, str], today: Mapping[str, list[str]]
) -> str:
    """Return the YAML of the pack, with the counts of propositions and the findings of rules as comments."""
    body = [*_propositions_text(made, found, counts), *_dropped(made)]
    return "\n".join([*_head(found), *body, *_today(made, today), ""])


def _head(found: SourceUsage) -> Iterator[str]:
    """Yield the usage of the source as comments."""
    yield from _comment(
        f"A first pack, written by `tracline init` from {_count(found.events, 'event')} in "
        f"{_count(found.sessions, 'session')}. It matches tools only by their names and arguments: confirm "
        "or correct every line below. `tracline label SOURCE --rules PACK` shows events at which each "
        "proposition is true."
    )
    yield "#"
    yield from _comment("kinds: " + ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items()))
    agents = [
        f"{_clean(name) if name else 'unnamed'} ({count:,} events)" for name, count in found.agents.items()
    ]
    yield from _comment("agents: " + ", ".join(agents[:SHOWN_MAX]) + _more(len(agents)))
    yield "# tools:" if found.tools else "# tools: none"
    width = max((len(_clean(tool.name)) for tool in found.tools), default=0)
    for tool in found.tools[:SHOWN_MAX]:
        yield f"#   {_clean(tool.name):<{width}}  {_used(tool)}"
    if len(found.tools) > SHOWN_MAX:
        yield f"#   {_more(len(found.tools)).removeprefix(', ')}"


def _propositions_text(made: PackDraft, found: SourceUsage, counts: Mapping[str, str]) -> Iterator[str]:
    """Yield the pack's header and propositions, each with its reason."""
    calls = {tool.name: tool.calls for tool in found.tools}
    yield from (f"pack: {made.name}", "version: 1", f"extends: {made.parent}", "")
    if not made.suggestions:
        yield from _comment(f"No tool of the source matches a proposition of {made.parent}.")
        return
    yield from _comment(f"The propositions of {made.parent}, with the tools of the source:")
    yield "propositions:"
    for suggestion in made.suggestions:
        known = [tool for tool in suggestion.tools if tool not in suggestion.guessed]
        why = [f"`{tool}` ({_count(calls[tool], 'call')})" for tool in suggestion.guessed]
        guess = "guessed from their names: " + ", ".join(why) if why else ""
        shipped = f"named in {made.parent}: " + ", ".join(f"`{tool}`" for tool in known) if known else ""
        yield from _comment("; ".join(filter(None, (guess, shipped, counts.get(suggestion.name)))), "  ")
        yield f"  {suggestion.name}: >-"
        yield from wrap(suggestion.text, WIDTH - 4, initial_indent="    ", subsequent_indent="    ", **_WHOLE)
    yield ""


def _dropped(made: PackDraft) -> Iterator[str]:
    """Yield the dropped rules, each with its reason."""
    if made.dropped:
        yield from _comment(
            "Rules that need tools which the source does not use. To use one, define its missing "
            "propositions and remove it from this list."
        )
        yield "drop:"
        for rule, why in made.dropped.items():
            yield from _comment(why, "  ")
            yield f"  - {rule}"
        yield ""


def _today(made: PackDraft, today: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the findings of each rule in the source."""
    for pack, lines in today.items():
        if pack == made.name:
            yield "# The inherited rules, and the sessions that each would flag today:"
        else:
            yield "#"
            yield f"# {pack} names no tools; use it unchanged beside this pack:"
        yield from (f"#   {line}" for line in lines)


def found_today(result: AuditResult, rules: tuple[Rule, ...], found: SourceUsage) -> dict[str, list[str]]:
    """Return a line for each rule, by its pack: the flagged sessions, the applicable ones, the first ids.

    The pack of the first rule comes first.
    """
    width = max(len(rule.id) for rule in rules)
    lines: dict[str, list[str]] = {}
    rows = {(row["pack"], row["id"]): (key, row) for key, row in result.summary["rules"].items()}
    first = rules[0].pack
    for rule in sorted(rules, key=lambda rule: (rule.pack != first, rule.pack, -rule.severity.rank, rule.id)):
        key, row = rows[rule.pack, rule.id]
        sessions = [_clean(record.session_id, 40) for record in result.examples.get(key, [])]
        rate = rate_of(row)
        applies = f"{_count(rate.sessions, 'session')} that it applies to"
        count = f"{rate.violating:,} of {applies}" if rate.sessions else "applies to no session"
        named = f": {', '.join(sessions[:NAMED_MAX])}" if sessions else ""
        more = ", ..." if row["sessions_violating"] > len(sessions) else ""
        unjudged = f"; {row['sessions_unjudged']:,} unjudged" if row["sessions_unjudged"] else ""
        unjudged += f": {rate.percent}" if rate.possible else ""
        line = (
            f"{rule.severity.value:<8}  {rule.id:<{width}}  {count}{named}{more if named else ''}{unjudged}"
        )
        lines.setdefault(rule.pack, []).append(line)
        lines[rule.pack] += [f"{'':<10}{note}" for note in _unsliced(rule, found)]
    return lines


def _unsliced(rule: Rule, found: SourceUsage) -> Iterator[str]:
    """Yield the tools of a rule that lack the argument by whose values the rule is sliced."""
    paths = rule.for_each.paths if rule.for_each is not None else ()
    names = {str(path.steps[0]) for path in paths if path.field == "args" and path.steps}
    if not names:
        return
    meant = {tool for predicate in rule.propositions.values() for tool in tools_named(predicate)}
    without = [tool.name for tool in found.tools if tool.name in meant and not names & set(tool.arguments)]
    if without:
        yield f"judged for each {_listed(sorted(names))}, which these tools do not take: {_listed(without)}"


def counted_today(found: PropositionCensus) -> dict[str, str]:
    """Return the number of events and sessions at which each proposition is true, as text."""
    return {
        count.name: f"true at {_count(count.true, 'event')} of {_count(count.sessions, 'session')}"
        if count.true
        else "true at no event yet"
        for count in found.counts
    }


_WHOLE: Any = {"break_long_words": False, "break_on_hyphens": False}


def _comment(text: str, indent: str = "") -> list[str]:
    """Return the text as comment lines."""
    lead = f"{indent}# "
    return wrap(text, WIDTH, initial_indent=lead, subsequent_indent=lead, **_WHOLE)


def _used(tool: ToolUsage) -> str:
    """Return the usage of a tool as text."""
    parts = [f"{_count(tool.calls, 'call')} in {_count(tool.sessions, 'session')}"]
    parts += [f"first in {tool.first:,}"] if tool.first else []
    parts += [f"{tool.failed:,} of {tool.results:,} results failed"] if tool.failed else []
    plain = [name for name in tool.arguments if PLAIN_NAME.fullmatch(name)]
    parts += [f"takes {', '.join(plain[:6])}"] if plain else []
    parts += [] if PLAIN_NAME.fullmatch(tool.name) else ["not suggested: its name has special characters"]
    return "; ".join(parts)


def _clean(text: str, width: int = 100) -> str:
    """Return text of telemetry for a comment: one line, without hidden or unprintable characters.

    YAML rejects some characters even in comments.
    """
    words = " ".join(visible(text[: 4 * width]).split())
    shown = "".join(char if char.isprintable() else "?" for char in words)
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{_clean(name)}`" for name in names)


def _more(count: int) -> str:
    return f", and {count - SHOWN_MAX:,} more" if count > SHOWN_MAX else ""
