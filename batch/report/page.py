"""`report.html`: a page without scripts, drawn from the other files of a bundle alone and without a clock."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ...predict.explaining.words import percent
from ...rules.model.rule import Rule
from ...schemas.display import visible
from ...schemas.records.verdict_record import VerdictRecord
from ...schemas.time import UNDATED
from ...schemas.verdict import BREACHES, Severity
from ..evidence.bundle import SUMMARY, VERDICTS, SessionName, read_verdicts_of
from ..findings.audited_archive import INPUTS, SOURCE
from ..findings.bundle_rules import RuleKey, bundle_rules
from ..findings.waiving import read_waived
from .choice import EVENTS_DRAWN_MAX
from .damage import damages
from .drawing import Timeline, Witnesses, timeline, trend
from .drawn import SESSIONS
from .figures import RuleFigures, rule_figures, without_rates
from .risk_drawing import RiskLine, risk_lines
from .template_cache import TemplateCache

REPORT = "report.html"
RULES_MAX = 100
"""Rules that a report shows: those with the most severe violations come first."""
INPUTS_MAX = 50
"""Input files whose digests a report shows."""
SENTENCES_MAX, SENTENCE_MAX = 8, 1_000
"""Sentences below a timeline, and the characters of each."""
TEXTS_MAX = 8
"""Texts of events below a timeline."""
DRAWINGS_SIZE_MAX = 1_000_000
"""Characters of all timelines; those of further sessions are left out."""
GROUPS_SIZE_MAX = 1_000_000
"""Characters of all tables by agent and by model; those of further rules are left out."""

NAME_MAX = 100
"""Characters of the name of a session, a slice, an agent, a model or a file."""

ROW_SIZE = 150
"""Characters of a row of a table beside the name."""

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class DrawnSession:
    """A session of `sessions.jsonl` with its drawing and the sentences on its verdicts."""

    session: Mapping[str, Any]
    badness: tuple[int, int, int]
    drawing: Timeline | None
    risks: tuple[RiskLine, ...]
    sentences: tuple[str, ...]
    more: int
    texts: tuple[Mapping[str, Any], ...]

    @property
    def began(self) -> str:
        """Return when the session began, in words."""
        occurrence: str = self.session["occurrence"]
        return "no times" if occurrence.startswith(UNDATED) else f"began {occurrence[:19]}Z"


def write_report(bundle: Path, rules: Mapping[RuleKey, Rule] | None = None) -> None:
    """Write the report of a bundle into it; `rules` are the bundle's, which are else read from it.

    Raises SourceError (TRL424) if a file of the bundle is missing or damaged.
    """
    page = bundle / f".{REPORT}"
    page.write_text(report_html(bundle, rules), encoding="utf-8")
    os.replace(page, bundle / REPORT)


def report_html(bundle: Path, rules: Mapping[RuleKey, Rule] | None = None) -> str:
    """Return the page."""
    return _page(bundle, rules, Markup())


def printed_html(bundle: Path) -> str:
    """Return the page for a printer that does not apply the styles of a page to its drawings.

    Each drawing has the styles of drawings, with the colours of paper.
    """
    paper = dict(re.findall(r"--(\w+): ([^;]+);", _style("report.css")))
    drawings = _style("drawings.css") + _style("risks.css")
    style = re.sub(r"var\(--(\w+)\)", lambda name: paper[name[1]], drawings)
    return _page(bundle, None, Markup("<style>") + Markup(style) + Markup("</style>"))


def _style(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _page(bundle: Path, rules: Mapping[RuleKey, Rule] | None, svg_style: Markup) -> str:
    """Return the page; `svg_style` stands in each drawing."""
    template = _environment().get_template("report.html")
    with damages(bundle):
        context = _context(bundle, bundle_rules(bundle) if rules is None else rules)
        names = ("report.css", "drawings.css", *(("risks.css",) if context["risks"] else ()))
        style = Markup("".join(map(_style, names)))
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
        return template.render(style=style, style_digest=digest, svg_style=svg_style, **context)


@cache
def _environment() -> Environment:
    """Return the environment of the template, which escapes all values."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        bytecode_cache=TemplateCache(Path(__file__)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shown"] = visible
    made.filters["name"] = _name
    made.filters["number"] = "{:,}".format
    made.filters["percent"] = percent
    # The library's type of a filter is the union of its own filters.
    cast(dict[str, Any], made.filters)["counted"] = _counted
    return made


def _name(text: str) -> str:
    """Return a name that an archive gives, cut if it is long."""
    return visible(text if len(text) <= NAME_MAX else text[:NAME_MAX] + "…")


def _counted(value: Any, single: str, several: str) -> str:
    """Return a number with its words."""
    return f"{value:,} {single if value == 1 else several}"


def _context(bundle: Path, rules: Mapping[RuleKey, Rule]) -> dict[str, Any]:
    """Return the values of the template."""
    summary = msgspec.json.decode((bundle / SUMMARY).read_bytes())
    source = msgspec.json.decode((bundle / SOURCE).read_bytes())
    inputs = list(map(msgspec.json.decode, (bundle / INPUTS).read_bytes().splitlines()))
    sessions = list(map(msgspec.json.decode, (bundle / SESSIONS).read_bytes().splitlines()))
    figures = list(_shortened(sorted(_figures(summary, rules), key=_severest)[:RULES_MAX]))
    places = {(line["session_id"], line["occurrence"]) for line in sessions}
    drawn = list(_fitting(sorted(_drawn(sessions, _records(bundle, places)), key=lambda each: each.badness)))
    return {
        "population": summary["population"],
        "summary": summary,
        "source": source,
        "inputs": inputs[:INPUTS_MAX],
        "inputs_cut": max(0, len(inputs) - INPUTS_MAX),
        "inputs_bytes": sum(each["bytes"] for each in inputs),
        "rules": figures,
        "rules_cut": len(summary["rules"]) - len(figures),
        "trend": trend,
        "worst": [each for each in drawn if each.session["why"] == "worst"],
        "sample": [each for each in drawn if each.session["why"] == "sample"],
        "events_max": EVENTS_DRAWN_MAX,
        "waivers": _waivers(bundle),
        "risks": [each for each in figures if "risk" in each.entry],
    }


def _waivers(bundle: Path) -> list[dict[str, Any]]:
    """Return the waivers that accept verdicts, by their places, each with the number of these."""
    counts = Counter((each.waiver, each.reason, each.by, each.until) for each in read_waived(bundle))
    return [
        {"reason": reason, "by": by, "until": until, "count": count}
        for (_, reason, by, until), count in sorted(counts.items())
    ]


def _figures(summary: Mapping[str, Any], rules: Mapping[RuleKey, Rule]) -> Iterator[RuleFigures]:
    for key, entry in summary["rules"].items():
        rule = rules.get((entry["pack"], entry["id"], entry["rule_digest"]))
        yield rule_figures(key, entry, None if rule is None else rule.text)


def _shortened(figures: Iterable[RuleFigures]) -> Iterator[RuleFigures]:
    """Yield the rules, without tables by agent and by model where these would become too large together."""
    size = 0
    for each in figures:
        size += sum(
            ROW_SIZE + len(escape(_name(named.name))) for group in each.groups for named in group.rates
        )
        yield (
            each if size <= GROUPS_SIZE_MAX else replace(each, groups=tuple(map(without_rates, each.groups)))
        )


def _fitting(drawn: Iterable[DrawnSession]) -> Iterator[DrawnSession]:
    """Yield the sessions, without timelines where these would become too large together."""
    size = 0
    for each in drawn:
        size += 0 if each.drawing is None else each.drawing.size + sum(line.size for line in each.risks)
        yield each if size <= DRAWINGS_SIZE_MAX else replace(each, drawing=None, risks=())


def _severest(each: RuleFigures) -> tuple[bool, int, int, str]:
    rank = Severity(each.entry["severity"]).rank
    return not each.rate.violating, -rank, -each.rate.violating, each.key


def _drawn(
    sessions: Iterable[Mapping[str, Any]], found: Mapping[SessionName, Sequence[VerdictRecord]]
) -> Iterator[DrawnSession]:
    """Yield the sessions with their drawings; `found` are their verdicts."""
    for line in sessions:
        records = found.get((line["session_id"], line["occurrence"]), ())
        witnesses = _witnesses(records)
        sentences = [
            each["sentence"]
            for run in line["rules"]
            for each in run["verdicts"]
            if each["sentence"] is not None and each["verdict"] in BREACHES
        ]
        seen = frozenset[int]().union(*witnesses.values())
        texts = (event for event in line["events"] if event["text"] and event["seq"] in seen)
        yield DrawnSession(
            session=line,
            badness=badness(records),
            drawing=timeline(line, witnesses) if line["events"] else None,
            risks=risk_lines(line),
            sentences=tuple(sentence[:SENTENCE_MAX] for sentence in sentences[:SENTENCES_MAX]),
            more=max(0, len(sentences) - SENTENCES_MAX),
            texts=tuple(islice(texts, TEXTS_MAX)),
        )


def badness(verdicts: Sequence[VerdictRecord]) -> tuple[int, int, int]:
    """Return how bad the breaches of a session are; the worst come first in the order of the keys."""
    rules = {(verdict.pack, verdict.rule) for verdict in verdicts}
    return -max((verdict.severity.rank for verdict in verdicts), default=0), -len(rules), -len(verdicts)


def _records(bundle: Path, places: set[SessionName]) -> dict[SessionName, list[VerdictRecord]]:
    """Return the violated and unmet verdicts of drawn sessions."""
    found: dict[SessionName, list[VerdictRecord]] = {}
    for record in read_verdicts_of(bundle / VERDICTS, places) if places else ():
        if record.verdict in BREACHES and not record.history:
            found.setdefault((record.session_id, record.occurrence), []).append(record)
    return found


def _witnesses(records: Iterable[VerdictRecord]) -> Witnesses:
    """Return the events of the witnesses by pack, rule and slice."""
    found: dict[tuple[str, str, str | None], frozenset[int]] = {}
    for record in records:
        if record.witness is None:
            raise ValueError("a breach has a witness")
        seqs = {event.seq for event in record.witness.events}
        seqs |= {bit.seq for bit in record.witness.history if bit.seq is not None}
        run = record.pack, record.rule, record.slice
        found[run] = found.get(run, frozenset()) | seqs
    return found
