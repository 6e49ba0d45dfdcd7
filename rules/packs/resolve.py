"""From one pack's document to its rules: names looked up, expressions parsed, every problem kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ..labels.limits import SLICE_PATHS_MAX
from ..language.parse import Operator, parse_formula, parse_name, parse_operators, parse_path, parse_predicate
from ..model.formula import BOOLEAN, Formula, Op, has_future, names, walk
from ..model.predicate import Path, Predicate
from ..model.problem import Problem, RuleError, Snippet, by_location, did_you_mean
from ..model.rule import Examples, Rule, SliceKey
from .validate import SHAPES, KeyPath, ValidatedRule, entries
from .yaml_document import Document, MappingNode, ScalarNode, SequenceNode, YamlNode, data

LIBRARY_PREFIX = "tracline_"
"""Names of the operator library's transition bits begin so, and no pack's do."""

Session = tuple[frozenset[str], ...]
Section = Mapping[str, tuple[ScalarNode, ScalarNode | None]]
"""Each name of a section with its key's node and its value's, or None where that is no text."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Operators and transition bits by name."""

    operators: Mapping[str, Operator]
    transitions: Mapping[str, Formula]


@dataclass(frozen=True, slots=True)
class ResolvedPack:
    """A pack's rules that have no problem, what it defines (the library included), and its problems.

    `name` is the file's where the pack has none of its own, and `named` says which.
    """

    name: str
    named: bool
    rules: tuple[Rule, ...]
    scope: Scope
    problems: tuple[Problem, ...]


def resolve(document: Document, library: Scope | None) -> ResolvedPack:
    """The pack that a document holds; `library` is in scope, and is None for the library itself.

    A name that the pack defines hides the library's of the same name.
    """
    resolver = _Resolver(document, library)
    rules = resolver.rules()
    scope = Scope(resolver.operators, resolver.transitions)
    problems = sorted(resolver.problems, key=by_location)
    named = resolver.entries.name is not None
    return ResolvedPack(resolver.name, named, tuple(rules), scope, tuple(problems))


def unresolved(document: Document, problems: Iterable[Problem]) -> ResolvedPack:
    """A pack without rules, for these problems and those of its shape: what it inherits is not known."""
    shape = entries(document)
    found = dict.fromkeys([*problems, *document.problems, *shape.problems])
    return ResolvedPack(
        shape.name or document.source, shape.name is not None, (), Scope({}, {}), tuple(found)
    )


class _Resolver:
    """One pack being resolved: `problems` collects every error, and what has one is left out."""

    def __init__(self, document: Document, library: Scope | None) -> None:
        self.document = document
        self.is_library = library is None
        self.entries = entries(document)
        self.problems: list[Problem] = [*document.problems, *self.entries.problems]
        self.name = self.entries.name or document.source
        propositions, transitions = self.section("propositions"), self.section("transitions")
        self.heads = self.section("operators")
        own = self.check_names(propositions, transitions)
        given = library or Scope({}, {})
        self.bits = frozenset(transitions)
        self.known = frozenset({*propositions, *self.bits})
        self.operators = self.own_operators(
            {name: operator for name, operator in given.operators.items() if name not in own}
        )
        self.propositions = self.parsed(propositions, self.predicate)
        self.transitions = {**given.transitions, **self.parsed(transitions, self.transition)}

    def section(self, name: str) -> Section:
        """The entries of a section; those whose value is no text are defined all the same."""
        node = self.document.root
        section = node.value(name) if isinstance(node, MappingNode) else None
        if not isinstance(section, MappingNode):
            return {}
        return {
            key.text: (key, value if isinstance(value, ScalarNode) and data(value) is not None else None)
            for key, value in section.entries
        }

    def rules(self) -> list[Rule]:
        """The rules that have no problem, in the order of the file."""
        found: list[Rule] = []
        first: dict[str, YamlNode] = {}
        for entry in self.entries.rules:
            name, node = entry.fields.id, self.document.at(("rules", entry.index, "id"))
            if name in first and "id" not in entry.missing:
                line = self.document.location(first[name]).line
                hint = f"the first is in line {line}: rename one of them"
                self.report("TRL220", f"two rules have the id `{name}`", hint, node)
            if "id" not in entry.missing:
                first.setdefault(name, node)
            before = len(self.problems)
            rule = self.rule(entry)
            if rule is not None and len(self.problems) == before:
                found.append(rule)
        return found

    def rule(self, whole: ValidatedRule) -> Rule | None:
        """The rule, resolved; problems go to `problems`."""
        entry, path = whole.fields, ("rules", whole.index)
        formula = None if "formula" in whole.missing else self.formula(self.document.at((*path, "formula")))
        steps = self.optional(entry.steps, (*path, "steps"), self.steps)
        applies_to = self.optional(entry.applies_to, (*path, "applies_to"), self.applies_to)
        for_each = None if entry.for_each is None else self.for_each(entry.for_each, (*path, "for_each"))
        examples = Examples(
            self.examples(entry.examples.violated, (*path, "examples", "violated")),
            self.examples(entry.examples.holds, (*path, "examples", "holds")),
        )
        if formula is None or whole.missing:
            return None
        parts = [part for part in (formula, steps, applies_to) if part is not None]
        transitions = self.used_transitions(frozenset[str]().union(*map(names, parts)))
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
            for_each=for_each,
            steps=steps,
            applies_to=applies_to,
            why=entry.why,
            blind_spots=entry.blind_spots,
            examples=examples,
        )

    def used_transitions(self, used: frozenset[str]) -> dict[str, Formula]:
        """The transitions among the names, and those that they use in turn."""
        todo = [name for name in used if name in self.transitions]
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(names(self.transitions[name]) & self.transitions.keys())
        return {name: self.transitions[name] for name in sorted(found)}

    # ---- names

    def check_names(self, *sections: Section) -> frozenset[str]:
        """The names that the pack defines; each must be one, and mean one thing."""
        first: dict[str, ScalarNode] = {}
        for name, (key, _) in [item for section in sections for item in section.items()]:
            self.parse_node(key, parse_name)
            self.define(name, key, first)
        for head, (key, _) in self.heads.items():
            self.define(_operator_name(head), key, first)
        return frozenset(first)

    def define(self, name: str, key: ScalarNode, first: dict[str, ScalarNode]) -> None:
        """Note the name as taken; it is a problem where it was taken before, or is kept for the library."""
        if name.startswith(LIBRARY_PREFIX) and not self.is_library:
            hint = "choose another beginning"
            self.report(
                "TRL222", f"names that begin with `{LIBRARY_PREFIX}` are the operator library's", hint, key
            )
        elif name in first and "(" not in first[name].text:
            line = self.document.location(first[name]).line
            hint = f"the first is in line {line}: rename one of them"
            self.report("TRL222", f"`{name}` is defined twice", hint, key)
        first.setdefault(name, key)

    # ---- expressions

    def report(self, code: str, message: str, hint: str, node: YamlNode) -> None:
        """Note a problem with the whole node."""
        self.problems.append(Problem(code, message, hint, self.document.location(node)))

    def report_all(self, errors: Iterable[Problem], node: ScalarNode) -> None:
        """Note problems of the node's text, each at its place in the file."""
        for problem in errors:
            location = problem.location
            if location is not None and location.text == node.text:
                problem = replace(
                    problem, location=self.document.location(node, location.start, location.end)
                )
            self.problems.append(problem)

    def parse_node(self, node: YamlNode, parse: Callable[[str], T]) -> T | None:
        """Return what `parse` makes of the node's text, or None where it has problems."""
        if not isinstance(node, ScalarNode):
            return None
        try:
            return parse(node.text)
        except RuleError as error:
            self.report_all(error.problems, node)
            return None

    def parsed(self, section: Section, parse: Callable[[ScalarNode], T | None]) -> dict[str, T]:
        """The values of a section that have no problem."""
        parsed = {name: parse(value) for name, (_, value) in section.items() if value is not None}
        return {name: value for name, value in parsed.items() if value is not None}

    def optional(
        self, text: str | None, path: KeyPath, parse: Callable[[YamlNode], Formula | None]
    ) -> Formula | None:
        """The formula of a field that may be left out."""
        return None if text is None else parse(self.document.at(path))

    def predicate(self, node: ScalarNode) -> Predicate | None:
        """A proposition's question."""
        return self.parse_node(node, parse_predicate)

    def formula(self, node: YamlNode) -> Formula | None:
        """A formula over the pack's names."""
        return self.parse_node(
            node, lambda text: parse_formula(text, operators=self.operators, known=self.known)
        )

    def own_operators(self, given: dict[str, Operator]) -> dict[str, Operator]:
        """The given operators and the pack's own."""
        nodes: dict[str, ScalarNode] = {}
        pairs: list[tuple[Snippet, Snippet]] = []
        heads = [
            (head, body)
            for name, (head, body) in self.heads.items()
            if _operator_name(name) not in self.known
        ]
        for i, (head, body) in enumerate(heads):
            # With a body that is no text, calls of the operator are no further problems.
            pair = (head, body or ScalarNode("true", "", head.start, head.end, head.file))
            snippets = [Snippet(node.text, f"{i}.{j}") for j, node in enumerate(pair)]
            nodes |= {snippet.source: node for snippet, node in zip(snippets, pair, strict=True)}
            pairs.append((snippets[0], snippets[1]))
        own, errors = parse_operators(pairs, operators=given, known=self.known)
        for problem in errors:
            assert problem.location is not None, "a problem of an operator has a place"
            self.report_all([problem], nodes[problem.location.source])
        return {**given, **own}

    def transition(self, node: ScalarNode) -> Formula | None:
        """A transition's right side: Boolean, with `previous` over anything."""
        formula = self.formula(node)
        for part in () if formula is None else _present_parts(formula):
            if part.op is Op.PROP and part.name in self.bits:
                hint = (
                    f"write `previous {part.name}`: what a transition was is known, what it is is being said"
                )
                self.report("TRL231", f"the transition `{part.name}` stands outside `previous`", hint, node)
            elif part.op not in BOOLEAN and part.op is not Op.PREVIOUS:
                hint = f"put it under `previous`, or name its parts: `previous ({part})`"
                self.report("TRL230", f"a transition cannot ask `{part.op.value}` of the present", hint, node)
        return formula

    def steps(self, node: YamlNode) -> Formula | None:
        """Which events count: Boolean over propositions."""
        formula = self.formula(node)
        for part in () if formula is None else walk(formula):
            if part.op not in BOOLEAN or part.name in self.bits:
                what = part.name or part.op.value
                hint = "`steps` picks events one by one: say it as propositions with `and`, `or`, `not`"
                self.report("TRL232", f"`steps` cannot use `{what}`", hint, node)
                break
        return formula

    def applies_to(self, node: YamlNode) -> Formula | None:
        """When a rule applies: a formula about the present and past."""
        formula = self.formula(node)
        if formula is not None and has_future(formula):
            hint = "say when the rule begins to apply, of the present and past, such as `p` or `once p`"
            self.report("TRL233", "`applies_to` speaks of the future", hint, node)
        return formula

    def for_each(self, value: str | list[str] | list[list[str]], path: KeyPath) -> SliceKey | None:
        """The slice key: a path, the first present of several, or a tuple."""
        joint = False
        if isinstance(value, str):
            key_paths = [path]
        elif all(isinstance(part, str) for part in value):
            key_paths: list[KeyPath] = [(*path, i) for i in range(len(value))]
        else:
            joint = True
            key_paths = [(*path, 0, i) for i in range(len(value[0]))] if len(value) == 1 else []
        if not key_paths:
            self.report(*SHAPES["for_each"], self.document.at(path))
            return None
        if len(key_paths) > SLICE_PATHS_MAX:
            hint = "name the few paths that tell one slice from another"
            message = f"`for_each` names {len(key_paths)} paths, more than {SLICE_PATHS_MAX}"
            self.report("TRL147", message, hint, self.document.at(path))
            return None
        paths = [self.parse_node(self.document.at(part), parse_path) for part in key_paths]
        whole: tuple[Path, ...] = tuple(path for path in paths if path is not None)
        return SliceKey(whole, joint) if len(whole) == len(paths) else None

    # ---- examples

    def examples(self, value: object, path: KeyPath) -> tuple[Session, ...]:
        """The sessions under `violated` or `holds`, if any."""
        return () if value is None else self.sessions(self.document.at(path))

    def sessions(self, node: YamlNode) -> tuple[Session, ...]:
        """The sessions of an example: one, or several where what would be a step holds lists."""
        steps = node.items if isinstance(node, SequenceNode) else ()
        inner = [part for step in steps if isinstance(step, SequenceNode) for part in step.items]
        several = any(isinstance(part, SequenceNode) for part in inner)
        sessions = [self.session(part) for part in (steps if several else (node,))]
        return tuple(session for session in sessions if session is not None)

    def session(self, node: YamlNode) -> Session | None:
        """The steps of one session, each the names of what is true at it."""
        steps = node.items if isinstance(node, SequenceNode) else ()
        if not steps or not all(isinstance(step, SequenceNode) for step in steps):
            self.report(*SHAPES["holds"], node)
            return None
        return tuple(frozenset(self.step(step)) for step in steps)

    def step(self, node: YamlNode) -> Iterator[str]:
        """The names of a step's propositions."""
        for name in node.items if isinstance(node, SequenceNode) else ():
            assert isinstance(name, ScalarNode), "the schema has names in steps"
            if name.text in self.bits or name.text not in self.known:
                hint = did_you_mean(name.text, self.known - self.bits)
                self.report("TRL120", f"no proposition is named `{name.text}`", hint, name)
            yield name.text


def _operator_name(head: str) -> str:
    """The name in an operator's head, whether or not the rest of it is one."""
    return head.partition("(")[0].strip()


def _present_parts(formula: Formula) -> Iterator[Formula]:
    """The parts of a formula that ask of the present: all but what stands under `previous`."""
    todo = [formula]
    while todo:
        node = todo.pop()
        yield node
        # previous[0] p  =  p
        back = node.op is Op.PREVIOUS and node.bounds != (0, 0)
        todo.extend(() if back else reversed(node.args))
