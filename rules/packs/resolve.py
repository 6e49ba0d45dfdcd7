"""Resolution of a pack's document to its rules: expressions are parsed and names are looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

from ..language.operators import parse_operators
from ..language.parse import Operator, parse_formula, parse_name, parse_path, parse_predicate
from ..model.formula import Formula, names
from ..model.predicate import Path, Predicate
from ..model.problem import Problem, RuleError, Snippet, by_location, did_you_mean
from ..model.rule import Examples, ExampleSession, PackMemory, Precision, PropositionExample, Rule, SliceKey
from .example_events import KINDS, events_examples
from .inheritance import condition_node, operator_name
from .memory_section import PackNames, pack_memory
from .proposition_examples import proposition_examples
from .rule_fields import applies_to_fault, for_each_fault, slice_paths, steps_fault
from .transitions import transition_faults, used_transitions
from .validate import NO_STEPS, SHAPES, KeyPath, ValidatedRule, validate
from .yaml.document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode, data

LIBRARY_PREFIX = "tracline_"
"""The reserved prefix of the operator library's transition bits."""

Section = Mapping[str, tuple[ScalarNode, ScalarNode | None]]
"""The names of a section, each with the nodes of its key and of its value (None if that is not text)."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Operators and transition bits by name."""

    operators: Mapping[str, Operator]
    transitions: Mapping[str, Formula]


@dataclass(frozen=True, slots=True)
class ResolvedPack:
    """A pack's valid rules, its definitions (with the library's) and its problems.

    If the pack has no name, `name` is the file's and `named` is false.
    """

    name: str
    named: bool
    rules: tuple[Rule, ...]
    scope: Scope
    problems: tuple[Problem, ...]
    propositions: tuple[PropositionExample, ...] = ()
    memory: PackMemory = field(default_factory=PackMemory)


def resolve(document: Document, library: Scope | None) -> ResolvedPack:
    """Resolve the pack of a document with `library` in scope (None for the library itself).

    A name that the pack defines hides the same name of the library.
    """
    resolver = _Resolver(document, library)
    rules = resolver.rules()
    propositions = proposition_examples(document, resolver.name, resolver.propositions, resolver.report)
    scope = Scope(resolver.operators, resolver.transitions)
    memory = resolver.memory()
    problems = sorted(resolver.problems, key=by_location)
    named = resolver.valid.name is not None
    return ResolvedPack(resolver.name, named, tuple(rules), scope, tuple(problems), propositions, memory)


def unresolved(document: Document, problems: Iterable[Problem]) -> ResolvedPack:
    """Return a pack without rules and with these problems: its parent has errors, or is missing."""
    valid = validate(document)
    found = dict.fromkeys([*problems, *document.problems, *valid.problems])
    return ResolvedPack(
        valid.name or document.source, valid.name is not None, (), Scope({}, {}), tuple(found)
    )


class _Resolver:
    """The resolution of one pack: `problems` collects every error, and invalid parts are left out."""

    def __init__(self, document: Document, library: Scope | None) -> None:
        self.document = document
        self.is_library = library is None
        self.valid = validate(document)
        self.problems: list[Problem] = [*document.problems, *self.valid.problems]
        self.name = self.valid.name or document.source
        propositions, transitions = self.section("propositions"), self.section("transitions")
        self.heads = self.section("operators")
        defined = self.check_names(propositions, transitions)
        given = library or Scope({}, {})
        self.bits = frozenset(transitions)
        self.known = frozenset({*propositions, *self.bits})
        self.operators = self.all_operators(
            {name: operator for name, operator in given.operators.items() if name not in defined}
        )
        self.propositions = self.parsed(propositions, self.predicate)
        self.transitions = {**given.transitions, **self.parsed(transitions, self.transition)}

    def section(self, name: str) -> Section:
        """Return the entries of a section; an entry whose value is not text still defines its name."""
        section: dict[str, tuple[ScalarNode, ScalarNode | None]] = {}
        for key, value in self.document.entries(name):
            text = condition_node(value) if name == "propositions" else value
            section[key.text] = (key, None)
            if isinstance(text, ScalarNode) and data(text) is not None:
                section[key.text] = (key, text)
        return section

    def rules(self) -> list[Rule]:
        """Return the valid rules, in the order of the file."""
        found: list[Rule] = []
        first: dict[str, YamlNode] = {}
        for entry in self.valid.rules:
            name, node = entry.fields.id, self.document.at(("rules", entry.index, "id"))
            if name in first and "id" not in entry.missing:
                line = self.document.location(first[name]).line
                hint = f"the first is in line {line}: rename one of them"
                self.report("TRL220", f"duplicate rule id `{name}`", hint, node)
            if "id" not in entry.missing:
                first.setdefault(name, node)
            before = len(self.problems)
            rule = self.rule(entry)
            if rule is not None and len(self.problems) == before:
                found.append(rule)
        return found

    def rule(self, whole: ValidatedRule) -> Rule | None:
        """Resolve a rule; return None if it is invalid."""
        entry, path = whole.fields, ("rules", whole.index)
        formula = None if "formula" in whole.missing else self.formula(self.document.at((*path, "formula")))
        steps = self.optional(entry.steps, (*path, "steps"), self.steps)
        applies_to = self.optional(entry.applies_to, (*path, "applies_to"), self.applies_to)
        for_each = None if entry.for_each is None else self.for_each(entry.for_each, (*path, "for_each"))
        examples = Examples(
            self.examples(entry.examples.violated, (*path, "examples", "violated")),
            self.examples(entry.examples.holds, (*path, "examples", "holds")),
            *(events_examples(self.document, (*path, "examples", kind), self.report) for kind in KINDS),
        )
        if formula is None or whole.missing:
            return None
        parts = [part for part in (formula, steps, applies_to) if part is not None]
        transitions = used_transitions(frozenset[str]().union(*map(names, parts)), self.transitions)
        used = frozenset[str]().union(*map(names, parts), *map(names, transitions.values()))
        return Rule(
            pack=self.name,
            id=entry.id,
            title=entry.title or entry.id,
            formula=formula,
            text=entry.formula.strip(),
            propositions={name: value for name, value in self.propositions.items() if name in used},
            transitions=transitions,
            severity=entry.severity,
            recover=entry.recover,
            unknown=entry.unknown,
            for_each=for_each,
            steps=steps,
            applies_to=applies_to,
            why=entry.why,
            blind_spots=entry.blind_spots,
            precision=None if entry.precision is None else Precision(**asdict(entry.precision)),
            policy=entry.policy,
            owner=entry.owner,
            tags=tuple(entry.tags),
            examples=examples,
        )

    def memory(self) -> PackMemory:
        """Resolve the section `predict`."""
        taken = frozenset({*self.known, *self.operators})
        defined = PackNames(self.name, self.propositions, self.transitions, taken)
        return pack_memory(self.document, defined, self.formula, self.report)

    # ---- names

    def check_names(self, *sections: Section) -> frozenset[str]:
        """Return the names that the pack defines; report invalid and duplicate names."""
        first: dict[str, ScalarNode] = {}
        for name, (key, _) in [item for section in sections for item in section.items()]:
            self.parse_node(key, parse_name)
            self.define(name, key, first)
        for head, (key, _) in self.heads.items():
            self.define(operator_name(head), key, first)
        return frozenset(first)

    def define(self, name: str, key: ScalarNode, first: dict[str, ScalarNode]) -> None:
        """Define a name; report it if it is a duplicate or reserved for the library."""
        if name.startswith(LIBRARY_PREFIX) and not self.is_library:
            hint = "choose another prefix"
            self.report(
                "TRL222", f"the prefix `{LIBRARY_PREFIX}` is reserved for the operator library", hint, key
            )
        elif name in first and "(" not in first[name].text:
            line = self.document.location(first[name]).line
            hint = f"the first is in line {line}: rename one of them"
            self.report("TRL222", f"duplicate name `{name}`", hint, key)
        first.setdefault(name, key)

    # ---- expressions

    def report(self, code: str, message: str, hint: str, node: YamlNode) -> None:
        """Add a problem with a whole node."""
        self.problems.append(Problem(code, message, hint, self.document.location(node)))

    def report_all(self, errors: Iterable[Problem], node: ScalarNode) -> None:
        """Add problems of a node's text, each at its location in the file."""
        for problem in errors:
            location = problem.location
            if location is not None and location.text == node.text:
                problem = replace(
                    problem, location=self.document.location(node, location.start, location.end)
                )
            self.problems.append(problem)

    def parse_node(self, node: YamlNode, parse: Callable[[str], T]) -> T | None:
        """Parse a node's text; report its problems and return None if it has any."""
        if not isinstance(node, ScalarNode):
            return None
        try:
            return parse(node.text)
        except RuleError as error:
            self.report_all(error.problems, node)
            return None

    def parsed(self, section: Section, parse: Callable[[ScalarNode], T | None]) -> dict[str, T]:
        """Return the valid values of a section."""
        parsed = {name: parse(value) for name, (_, value) in section.items() if value is not None}
        return {name: value for name, value in parsed.items() if value is not None}

    def optional(
        self, text: str | None, path: KeyPath, parse: Callable[[YamlNode], Formula | None]
    ) -> Formula | None:
        """Parse the formula of an optional field."""
        return None if text is None else parse(self.document.at(path))

    def predicate(self, node: ScalarNode) -> Predicate | None:
        """Parse the predicate of a proposition."""
        return self.parse_node(node, parse_predicate)

    def formula(self, node: YamlNode) -> Formula | None:
        """Parse a formula over the pack's names."""
        return self.parse_node(
            node, lambda text: parse_formula(text, operators=self.operators, known=self.known)
        )

    def all_operators(self, given: dict[str, Operator]) -> dict[str, Operator]:
        """Return the library's operators (`given`) and the pack's."""
        nodes: dict[str, ScalarNode] = {}
        pairs: list[tuple[Snippet, Snippet]] = []
        heads = [
            (head, body) for name, (head, body) in self.heads.items() if operator_name(name) not in self.known
        ]
        for i, (head, body) in enumerate(heads):
            # An operator whose body is not text is still defined: its calls cause no further problems.
            pair = (head, body or ScalarNode("true", "", head.start, head.end, head.file))
            snippets = [Snippet(node.text, f"{i}.{j}") for j, node in enumerate(pair)]
            nodes |= {snippet.source: node for snippet, node in zip(snippets, pair, strict=True)}
            pairs.append((snippets[0], snippets[1]))
        operators, errors = parse_operators(pairs, operators=given, known=self.known)
        for problem in errors:
            assert problem.location is not None, "a problem of an operator has a location"
            self.report_all([problem], nodes[problem.location.source])
        return {**given, **operators}

    def transition(self, node: ScalarNode) -> Formula | None:
        """Parse the formula of a transition."""
        formula = self.formula(node)
        for code, message, hint in () if formula is None else transition_faults(formula, self.bits):
            self.report(code, message, hint, node)
        return formula

    def steps(self, node: YamlNode) -> Formula | None:
        """Parse `steps`: a Boolean formula over propositions."""
        formula = self.formula(node)
        fault = None if formula is None else steps_fault(formula, self.bits)
        if fault is not None:
            self.report(*fault, node)
        return formula

    def applies_to(self, node: YamlNode) -> Formula | None:
        """Parse `applies_to`: a formula without future operators."""
        formula = self.formula(node)
        fault = None if formula is None else applies_to_fault(formula)
        if fault is not None:
            self.report(*fault, node)
        return formula

    def for_each(self, value: str | list[str] | list[list[str]], path: KeyPath) -> SliceKey | None:
        """Parse the slice key: a path, a list of paths or a tuple of paths."""
        key_paths, joint = slice_paths(value, path)
        fault = for_each_fault(key_paths)
        if fault is not None:
            self.report(*fault, self.document.at(path))
            return None
        paths = [self.parse_node(self.document.at(part), parse_path) for part in key_paths]
        whole: tuple[Path, ...] = tuple(path for path in paths if path is not None)
        return SliceKey(whole, joint) if len(whole) == len(paths) else None

    # ---- examples

    def examples(self, value: object, path: KeyPath) -> tuple[ExampleSession, ...]:
        """Return the sessions under `violated` or `holds`."""
        return () if value is None else self.sessions(self.document.at(path))

    def sessions(self, node: YamlNode) -> tuple[ExampleSession, ...]:
        """Return one session, or several if an item of a step is a list or there are events beside them."""
        items = node.items if isinstance(node, SequenceNode) else ()
        steps = tuple(item for item in items if not isinstance(item, MappingNode))
        inner = [part for step in steps if isinstance(step, SequenceNode) for part in step.items]
        several = any(isinstance(part, SequenceNode) for part in inner) or len(steps) < len(items)
        sessions = [self.session(part) for part in (steps if several else (node,))]
        return tuple(session for session in sessions if session is not None)

    def session(self, node: YamlNode) -> ExampleSession | None:
        """Return the steps of one session, each the names of its true propositions."""
        steps = node.items if isinstance(node, SequenceNode) else ()
        if not steps or not all(isinstance(step, SequenceNode) for step in steps):
            is_empty = isinstance(node, SequenceNode) and not steps
            self.report(*(NO_STEPS if is_empty else SHAPES["holds"]), node)
            return None
        return tuple(frozenset(self.step(step)) for step in steps)

    def step(self, node: YamlNode) -> Iterator[str]:
        """Yield the names of a step's propositions; report unknown ones."""
        for name in node.items if isinstance(node, SequenceNode) else ():
            assert isinstance(name, ScalarNode), "the schema has names in steps"
            if name.text in self.bits or name.text not in self.known:
                hint = did_you_mean(name.text, self.known - self.bits)
                self.report("TRL120", f"unknown proposition `{name.text}`", hint, name)
            yield name.text
