"""YAML documents as trees whose nodes have locations in the file, read with limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...model.problem import Location, Problem, RuleError, location_in
from .alignment import alignment
from .repair import REPAIRS_MAX, Repair, indent_of, quoted, repair

TEXT_CHARACTERS_MAX = 1_000_000
NODES_MAX = 50_000
DEPTH_MAX = 12
ALIASES_MAX = 100
"""Limits of one file: its characters, its values with aliases expanded, their nesting, its aliases."""

STOPPING = frozenset({"TRL204"})
"""Codes that stop the reading of a file."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Data = str | None | list["Data"] | dict[str, "Data"]
"""A value without its location. Scalars stay text, whatever their YAML type; an empty one is None."""


@dataclass(frozen=True, slots=True, eq=False)
class PackText:
    """A file's text, its name in errors, and its folder (None if it is no file)."""

    source: str
    text: str
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A scalar; `start` and `end` are offsets in the file, `style` is empty (plain), ' " | or >."""

    text: str
    style: str
    start: int
    end: int
    file: PackText = field(repr=False)


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A sequence of values."""

    items: tuple[YamlNode, ...]
    start: int
    end: int
    file: PackText = field(repr=False)


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping, its keys in the order of the file."""

    entries: tuple[tuple[ScalarNode, YamlNode], ...]
    start: int
    end: int
    file: PackText = field(repr=False)

    def key(self, name: str) -> ScalarNode | None:
        """Return the key of that name, or None."""
        return next((key for key, _ in self.entries if key.text == name), None)

    def value(self, name: str) -> YamlNode | None:
        """Return the value under that key, or None."""
        return next((value for key, value in self.entries if key.text == name), None)


YamlNode = ScalarNode | SequenceNode | MappingNode


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML file, its tree and its problems.

    The tree leaves out what `problems` reports: of two equal keys it has the first. If the file is a pack
    that extends another, `parent` is that other pack and `extend` adds the inherited nodes; `uses` are the
    packs that it uses, and `share` adds their names.
    """

    file: PackText
    root: YamlNode
    problems: tuple[Problem, ...] = ()
    parent: Document | None = None
    uses: tuple[Document, ...] = ()

    @property
    def source(self) -> str:
        """Return the file's name in errors."""
        return self.file.source

    @property
    def text(self) -> str:
        """Return the file's text."""
        return self.file.text

    def location(self, node: YamlNode, start: int = 0, end: int | None = None) -> Location:
        """Return the location of a node, or of `text[start:end]` of a scalar.

        It is exact in plain, quoted and block scalars. If an escape prevents that, it is the whole scalar's.
        """
        if not isinstance(node, ScalarNode):
            return line_location(node.file, node.start, node.end)
        end = len(node.text) if end is None else end
        offsets = alignment(node.file.text, node.text, node.style, node.start, node.end)
        if offsets is None:
            return line_location(node.file, node.start, node.end)
        first = offsets[start] if start < len(offsets) else offsets[-1] + 1
        last = offsets[min(end, len(offsets)) - 1] + 1
        return line_location(node.file, first, last)

    def value(self, name: str) -> YamlNode | None:
        """Return the value of a top-level key, or None."""
        return self.root.value(name) if isinstance(self.root, MappingNode) else None

    def entries(self, name: str) -> tuple[tuple[ScalarNode, YamlNode], ...]:
        """Return the entries of a top-level mapping; none if the value is something else."""
        node = self.value(name)
        return node.entries if isinstance(node, MappingNode) else ()

    def items(self, name: str) -> tuple[YamlNode, ...]:
        """Return the items of a top-level sequence; none if the value is something else."""
        node = self.value(name)
        return node.items if isinstance(node, SequenceNode) else ()

    def at(self, path: tuple[str | int, ...]) -> YamlNode:
        """Return the node at that path of keys and indices, or the deepest one that exists on it."""
        node = self.root
        for part in path:
            below = None
            if isinstance(node, MappingNode):
                below = node.value(str(part))
            elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
                below = node.items[part]
            if below is None:
                break
            node = below
        return node


def line_location(file: PackText, start: int, end: int) -> Location:
    """Return the location of `text[start:end]`, cut to the line in which it begins."""
    text = file.text
    start = min(start, len(text))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first : len(text) if last < 0 else last].rstrip("\r")
    until = max(min(end - first, len(line)), start - first)
    return location_in(line, start - first, until, source=file.source, line=text.count("\n", 0, start) + 1)


def data(node: YamlNode) -> Data:
    """Return a node's value without locations."""
    if isinstance(node, ScalarNode):
        return None if node.style == "" and node.text in ("", "~", "null") else node.text
    if isinstance(node, SequenceNode):
        return [data(item) for item in node.items]
    return {key.text: data(value) for key, value in node.entries}


def read_document(text: str, source: str, folder: Path | None = None) -> Document:
    """Read one YAML document of a file in that folder.

    Problems that do not stop the reading are in its `problems`. A line that is no YAML is read as it is
    probably meant, and its problem has that line. Raises RuleError with every problem found if no reading
    helps, or the text exceeds a limit (TRL202, TRL204).
    """
    text = text.removeprefix("\ufeff")
    if len(text) > TEXT_CHARACTERS_MAX:
        message = f"the file has {len(text)} characters, more than {TEXT_CHARACTERS_MAX}"
        raise RuleError([Problem("TRL204", message, "split it into several packs")])
    found: list[Problem] = []
    while True:
        file = PackText(source, text, folder)
        builder = _TreeBuilder(file)
        try:
            root = builder.read()
        except yaml.YAMLError as error:
            repaired = repair(text, error, LOADER) if len(found) < REPAIRS_MAX else None
            if repaired is None:
                raise RuleError([*found, *builder.problems, _syntax_problem(error, file)]) from None
            # The rest of the file may have further mistakes.
            found.append(_repaired_problem(error, file, repaired))
            text = repaired.text
            continue
        if any(problem.code in STOPPING for problem in builder.problems):
            raise RuleError([*found, *builder.problems])
        return Document(file, root, (*found, *builder.problems))


@dataclass(slots=True)
class _OpenCollection:
    """A list or mapping that is still open; a mapping's `items` alternate keys and values."""

    mapping: bool
    start: int
    anchor: str | None
    items: list[YamlNode]
    nodes: int = 1
    depth: int = 1


@dataclass(frozen=True, slots=True)
class _CompleteNode:
    """A complete node, the number of values in it (with aliases expanded) and its depth."""

    node: YamlNode
    nodes: int = 1
    depth: int = 0


class _TreeBuilder:
    """A builder of the tree from YAML's events, without recursion and within the limits."""

    def __init__(self, file: PackText) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, _CompleteNode] = {}
        self.nodes = 0
        self.aliases = 0

    def read(self) -> YamlNode:
        """Return the root of the first document; an empty file is an empty scalar."""
        open_collections: list[_OpenCollection] = []
        roots: list[YamlNode] = []
        for event in self.events():
            done = self.node(event, open_collections)
            if done is None:
                continue
            self.count_nodes(done.nodes if isinstance(event, yaml.AliasEvent) else 1, done.node)
            (open_collections[-1].items if open_collections else roots).append(done.node)
            if open_collections:
                open_collections[-1].nodes += done.nodes
                open_collections[-1].depth = max(open_collections[-1].depth, done.depth + 1)
                self.check_depth(len(open_collections) + done.depth, done.node)
        if len(roots) > 1:
            self.report("TRL205", "the file has a second YAML document", "write one pack per file", roots[1])
        return roots[0] if roots else ScalarNode("", "", 0, 0, self.file)

    def events(self) -> Iterator[Any]:
        """Yield YAML's events until a limit is exceeded."""
        parse: Callable[..., Iterator[Any]] = getattr(yaml, "parse")  # noqa: B009 (has no types)
        for event in parse(self.file.text, Loader=LOADER):
            yield event
            if any(problem.code == "TRL204" for problem in self.problems):
                return

    def node(self, event: Any, open_collections: list[_OpenCollection]) -> _CompleteNode | None:
        """Return the node that the event completes, if any."""
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, start, end)
        if isinstance(event, yaml.NodeEvent):
            self.reject_tag(event, start, end)
        if isinstance(event, yaml.ScalarEvent):
            scalar = self.scalar(event.value, start, end, event.style or "")
            self.reject_cut(scalar)
            return self.named(event.anchor, _CompleteNode(scalar))
        if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            mapping = isinstance(event, yaml.MappingStartEvent)
            open_collections.append(_OpenCollection(mapping, start, event.anchor, []))
            self.check_depth(len(open_collections), self.scalar("", start, end))
            return None
        if isinstance(event, yaml.CollectionEndEvent):
            done = open_collections.pop()
            return self.named(done.anchor, _CompleteNode(self.closed(done, end), done.nodes, done.depth))
        return None

    def scalar(self, text: str, start: int, end: int, style: str = "") -> ScalarNode:
        """Return a scalar of the file."""
        return ScalarNode(text, style, start, end, self.file)

    def closed(self, done: _OpenCollection, end: int) -> YamlNode:
        """Return the complete list or mapping."""
        items = tuple(done.items)
        if done.mapping:
            return MappingNode(tuple(self.entries(items)), done.start, end, self.file)
        return SequenceNode(items, done.start, end, self.file)

    def entries(self, items: tuple[YamlNode, ...]) -> Iterator[tuple[ScalarNode, YamlNode]]:
        """Yield the mapping's entries; report a key that is not a scalar, and a duplicate key."""
        seen: dict[str, ScalarNode] = {}
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, ScalarNode):
                self.report("TRL205", "a key cannot be a list or a mapping", "write a name", key)
            elif key.text in seen:
                first = line_location(self.file, seen[key.text].start, seen[key.text].end)
                hint = f"the first is in line {first.line}: rename or remove one"
                self.report("TRL203", f"duplicate key `{key.text}`", hint, key)
            else:
                seen[key.text] = key
                yield key, value

    def alias(self, event: Any, start: int, end: int) -> _CompleteNode:
        """Return the node that the alias repeats."""
        here = self.scalar(event.anchor, start, end)
        self.aliases += 1
        if self.aliases > ALIASES_MAX:
            self.report("TRL204", f"the file has more than {ALIASES_MAX} aliases", "repeat the values", here)
        if event.anchor not in self.anchors:
            hint = f"define the anchor `&{event.anchor}` before the alias, outside the value that contains it"
            self.report("TRL202", f"undefined alias `*{event.anchor}`", hint, here)
            return _CompleteNode(here)
        return self.anchors[event.anchor]

    def named(self, anchor: str | None, done: _CompleteNode) -> _CompleteNode:
        """Store the node under its anchor, if it has one, and return it."""
        if anchor is not None:
            self.anchors[anchor] = done
        return done

    def reject_tag(self, event: Any, start: int, end: int) -> None:
        """Report an explicit tag: packs hold plain data."""
        if event.tag not in (None, "!"):
            hint = "write the value without a tag; `!` is `not`, or stands between quotes"
            self.report("TRL205", f"unsupported tag `{event.tag}`", hint, self.scalar("", start, end))

    def reject_cut(self, scalar: ScalarNode) -> None:
        """Report an expression that a comment ends inside a string."""
        rest = self.file.text[scalar.end :].split("\n", 1)[0].rstrip()
        if scalar.style == "" and scalar.text.count('"') % 2 and rest.lstrip().startswith("#"):
            hint = f"write `{quoted(self.file.text[scalar.start : scalar.end] + rest)}`"
            here = self.scalar("", scalar.start, scalar.end + len(rest))
            self.report("TRL202", "a comment begins inside a string", hint, here)

    def count_nodes(self, nodes: int, here: YamlNode) -> None:
        """Count values, with aliases expanded."""
        before = self.nodes
        self.nodes += nodes
        if before <= NODES_MAX < self.nodes:
            self.report(
                "TRL204", f"the file has more than {NODES_MAX} values", "split it into several packs", here
            )

    def check_depth(self, depth: int, here: YamlNode) -> None:
        """Report values that nest too deeply, with aliases expanded."""
        if depth > DEPTH_MAX:
            hint = "the deepest value of a pack is a list of sessions of steps"
            self.report("TRL204", f"values nest more than {DEPTH_MAX} deep", hint, here)

    def report(self, code: str, message: str, hint: str, node: YamlNode) -> None:
        """Add a problem at the node's location."""
        location = line_location(self.file, node.start, node.end)
        self.problems.append(Problem(code, message, hint, location))


def _repaired_problem(error: yaml.YAMLError, file: PackText, repaired: Repair) -> Problem:
    """Return the problem of a line that was repaired; the hint is the new line."""
    start = sum(len(line) + 1 for line in file.text.split("\n")[: repaired.line])
    location = line_location(file, start, start + 1)
    indent, end = len(indent_of(location.text)), start + len(location.text)
    message = f"invalid YAML: {getattr(error, 'problem', None) or 'not readable'}"
    hint = f"write `{repaired.corrected.strip()}`"
    if repaired.corrected.strip() == location.text.strip():
        hint = f"indent the line with {len(indent_of(repaired.corrected))} spaces, and without tabs"
    return Problem("TRL202", message, hint, line_location(file, start + indent, end))


def _syntax_problem(error: yaml.YAMLError, file: PackText) -> Problem:
    """Convert an error of the YAML parser to a problem."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    message = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
    hint = "quote text that contains `: ` or ` #`, or starts with a sign such as `[`, `{`, `*`, `&` or `!`"
    if "\t" in file.text:
        hint = "indent with spaces, not tabs"
    start = mark.index if mark else getattr(error, "position", 0)
    return Problem("TRL202", f"invalid YAML: {message}", hint, line_location(file, start, start + 1))
