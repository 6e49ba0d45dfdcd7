"""From pack files to rules: the one place where the rules room reads files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Protocol

from ..model.problem import Problem, RuleError, counted, did_you_mean
from ..model.rule import Rule, RuleSet
from .inheritance import PARENTS_MAX, check_without_parent, extend, extends_node, inheritance_chain, pack_name
from .resolve import ResolvedPack, Scope, resolve, unresolved
from .yaml_document import TEXT_CHARACTERS_MAX, Document, MappingNode, SequenceNode, read_document

LIBRARY = Path(__file__).parents[1] / "library"
"""The packs that ship with the product; each is known by its file's stem."""

OPERATORS_FILE = Path(__file__).with_name("operators.yaml")
"""The operator library, in scope in every pack."""
FILE_BYTES_MAX = 4 * TEXT_CHARACTERS_MAX
SUFFIXES = (".yaml", ".yml")
PARENT_SUFFIX = ".extends"
"""What follows a stored pack's name in the name of the folder that holds the pack it extends."""


@dataclass(frozen=True, slots=True)
class Packs:
    """What was read: the rules that are whole, the errors, and each pack's document by the pack's name.

    A pack without a name of its own has its file's there. `written` counts the rules that stand in the
    files, those with errors included.
    """

    rule_set: RuleSet
    errors: tuple[Problem, ...]
    documents: Mapping[str, Document]
    written: int


Paths = str | Path | Sequence[str | Path]
"""YAML files, folders of them, or names of shipped packs: one, or several."""


def load_packs(paths: Paths) -> RuleSet:
    """The rules of the packs at `paths`.

    Raises RuleError with every problem of every pack.
    """
    packs = read_packs(paths)
    if packs.errors:
        raise RuleError(packs.errors)
    return packs.rule_set


def read_packs(paths: Paths) -> Packs:
    """As `load_packs`, but errors are returned beside what could be read."""
    errors: list[Problem] = []
    documents: dict[str, Document] = {}
    rules: list[Rule] = []
    origins = [_FileSource(file, source) for file, source in _files(paths, errors).items()]
    for document, pack in _read(origins, errors):
        rules += pack.rules
        if pack.name in documents and pack.named:
            hint = f"the other is in {documents[pack.name].source}: rename one of them"
            location = document.location(document.at(("pack",)))
            errors.append(Problem("TRL221", f"two packs are named `{pack.name}`", hint, location))
        documents.setdefault(pack.name, document)
    errors += (
        [] if documents or errors else [Problem("TRL201", "no pack is named", "name a YAML file or folder")]
    )
    rules.sort(key=lambda rule: rule.pack)
    sources = _sources(documents)
    lists = [document.at(("rules",)) for document in documents.values()]
    written = sum(len(node.items) for node in lists if isinstance(node, SequenceNode))
    return Packs(RuleSet(tuple(rules), sources), tuple(errors), documents, written)


def shipped_packs() -> tuple[str, ...]:
    """The names of the packs that ship with the product."""
    return tuple(sorted(file.stem for file in LIBRARY.glob("*.yaml")))


def pack_text(text: str, source: str = "<pack>") -> RuleSet:
    """The rules of one pack given as text. Raises RuleError with every problem.

    It may extend a shipped pack by its name, and no file.
    """
    document, pack = resolve_source(_TextSource(source, text))
    if pack.problems:
        raise RuleError(pack.problems)
    return RuleSet(pack.rules, _sources({pack.name: document}))


def load_texts(sources: Mapping[str, str]) -> RuleSet:
    """The rule set of packs given as texts by their names, as `RuleSet.sources` has them.

    Packs that others extend are looked for among them and nowhere else. Raises RuleError with every problem
    of every pack, and where one has another name than it is given under.
    """
    errors: list[Problem] = []
    rules: list[Rule] = []
    documents: dict[str, Document] = {}
    for document, pack in _read(
        [_StoredSource(name, sources) for name in sorted(sources) if "/" not in name], errors
    ):
        rules += pack.rules
        documents[document.source] = document
        for ancestor in inheritance_chain(document):
            name = ancestor.source.rpartition("/")[2]
            if pack_name(ancestor) != name:
                what = f"the pack kept as `{name}` is named `{pack_name(ancestor)}`"
                errors.append(Problem("TRL221", what, _AS_STORED, ancestor.location(ancestor.at(("pack",)))))
    if not errors and (unused := sources.keys() - _sources(documents).keys()):
        errors.append(Problem("TRL221", f"no pack extends the one kept as `{min(unused)}`", _AS_STORED))
    if errors:
        raise RuleError(errors)
    return RuleSet(tuple(rules), {name: sources[name] for name in sorted(sources)})


def documents_of(rule_set: RuleSet) -> Mapping[str, Document]:
    """Return the documents of a sound rule set, by the packs' names, each with what it inherits."""
    return {name: resolve_source(_StoredSource(name, rule_set.sources))[0] for name in rule_set.packs}


_AS_STORED = "a rule set that was kept is to be left as it is"


def _read(origins: Iterable[PackSource], errors: list[Problem]) -> Iterator[tuple[Document, ResolvedPack]]:
    """Yield the packs that can be read; each one's problems are among the errors before it is given."""
    for origin in origins:
        try:
            document, pack = resolve_source(origin)
        except RuleError as error:
            errors += error.problems
            continue
        errors += pack.problems
        yield document, pack


def _sources(documents: Mapping[str, Document]) -> dict[str, str]:
    """Return the texts of packs and of those that they extend, as `RuleSet.sources` has them."""
    texts: dict[str, str] = {}
    for name in sorted(documents):
        for depth, ancestor in enumerate(inheritance_chain(documents[name])):
            name = name if depth == 0 else f"{name}{PARENT_SUFFIX}/{pack_name(ancestor)}"
            texts[name] = ancestor.text
    return texts


def _files(paths: Paths, errors: list[Problem]) -> dict[Path, str]:
    """The files that the paths mean, each once, with the name that errors give them."""
    found: dict[Path, str] = {}
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if path.is_dir():
            here = {file: str(file) for file in sorted(path.iterdir()) if _is_pack(file)}
            message, hint = f"{path}: the folder holds no pack", "a pack's name ends in .yaml"
        elif path.exists():
            here, message, hint = {path: str(path)}, "", ""
        else:
            shipped = LIBRARY / f"{path}.yaml"
            here = {shipped: shipped.name} if str(path) in shipped_packs() else {}
            message = f"{path}: there is no such file or shipped pack"
            hint = "name a YAML file, a folder of them, or a shipped pack; "
            hint += did_you_mean(str(path), shipped_packs())
        for file, source in here.items():
            found.setdefault(file.resolve(), source)
        errors += [] if here else [Problem("TRL201", message, hint)]
    return found


def _is_pack(file: Path) -> bool:
    """Return whether a folder's file is taken for a pack; hidden ones, as editors leave them, are not."""
    return file.suffix in SUFFIXES and not file.name.startswith(".") and file.is_file()


def _text(file: Path) -> str:
    """The file's text. Raises RuleError where it cannot be read."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            hint = "split it into several packs"
            raise RuleError([Problem("TRL204", f"{file}: larger than {FILE_BYTES_MAX} bytes", hint)])
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        message = f"{file}: {error.strerror or 'it cannot be read'}"
        raise RuleError([Problem("TRL201", message, "check the path and its permissions")]) from None
    except UnicodeDecodeError as error:
        message = f"{file}: byte {error.start + 1} is no UTF-8"
        raise RuleError([Problem("TRL201", message, "save the file as UTF-8")]) from None


# ---- a pack and the packs that it extends


class PackSource(Protocol):
    """A place that a pack is read from, from which the pack that it extends can be found."""

    @property
    def source(self) -> str:
        """The pack's name in errors."""
        ...

    def text(self) -> str:
        """Return the pack's text. Raises RuleError where it cannot be read."""
        ...

    def parent(self, named: str) -> PackSource:
        """Return the pack that this one extends under that name. Raises RuleError where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _FileSource:
    """A pack in a file. It may extend a shipped pack, or one in another file."""

    file: Path
    source: str = field(compare=False)

    def text(self) -> str:
        return _text(self.file)

    def parent(self, named: str) -> PackSource:
        stored = self.file.with_name(f"{self.file.stem}{PARENT_SUFFIX}")
        if stored.is_dir():
            return _FileSource(
                _only_pack(stored), f"{Path(self.source).stem}{PARENT_SUFFIX}/{_only_pack(stored).name}"
            )
        if named in shipped_packs():
            return _shipped(named)
        file = self.file.parent / named
        if file.suffix in SUFFIXES and file.is_file():
            return _FileSource(file.resolve(), str(Path(self.source).parent / named))
        near = next(
            (name for suffix in SUFFIXES if (self.file.parent / (name := named + suffix)).is_file()), None
        )
        raise RuleError([_unknown_pack(named, near)])


@dataclass(frozen=True, slots=True)
class _TextSource:
    """A pack that is given as text. It may extend a shipped one."""

    source: str
    given: str

    def text(self) -> str:
        return self.given

    def parent(self, named: str) -> PackSource:
        if named in shipped_packs():
            return _shipped(named)
        raise RuleError([_unknown_pack(named, None)])


@dataclass(frozen=True, slots=True)
class _StoredSource:
    """A pack among stored texts (`RuleSet.sources`). The one that it extends is stored with it."""

    source: str
    sources: Mapping[str, str] = field(compare=False)

    def text(self) -> str:
        return self.sources[self.source]

    def parent(self, named: str) -> PackSource:
        folder = f"{self.source}{PARENT_SUFFIX}/"
        inside = [name for name in self.sources if name.startswith(folder) and "/" not in name[len(folder) :]]
        if len(inside) != 1:
            what = f"the pack that `{self.source}` extends, `{named}`, is not stored with it"
            raise RuleError([Problem("TRL201", what, _AS_STORED)])
        return _StoredSource(inside[0], self.sources)


def _shipped(name: str) -> PackSource:
    return _FileSource(LIBRARY / f"{name}.yaml", f"{name}.yaml")


def _only_pack(folder: Path) -> Path:
    """Return the pack that is stored in the folder. Raises RuleError where that is not one."""
    packs = [file for file in sorted(folder.iterdir()) if _is_pack(file)]
    if len(packs) != 1:
        hint = "it is to hold the one pack that the file beside it extends, or to be taken away"
        raise RuleError(
            [Problem("TRL201", f"{folder}: the folder holds {counted(len(packs), 'pack')}", hint)]
        )
    return packs[0].resolve()


def _unknown_pack(named: str, near: str | None) -> Problem:
    """Return the problem of an extended pack that is not there; `near` is a file that was probably meant."""
    hint = "name a shipped pack, or a YAML file by its path from this file's folder; "
    hint += f"did you mean `{near}`?" if near else did_you_mean(named, shipped_packs())
    return Problem("TRL201", f"there is no pack `{named}` to extend", hint)


def resolve_source(
    origin: PackSource, children: tuple[PackSource, ...] = ()
) -> tuple[Document, ResolvedPack]:
    """Return the pack with what it inherits, and its rules; `children` extend it, the nearest first.

    Problems of the packs that it extends come before its own, since they may explain those. Raises RuleError
    where its own text cannot be read.
    """
    document = read_document(origin.text(), origin.source)
    named = extends_node(document)
    if named is None:
        document = check_without_parent(document)
        return document, resolve_with_library(document)
    try:
        parent, base = resolve_source(_parent(named.text, origin, children), (origin, *children))
        problems = base.problems
    except RuleError as error:
        here = document.location(named)
        problems = tuple(replace(problem, location=problem.location or here) for problem in error.problems)
        parent = None
    if problems or parent is None:
        return document, unresolved(document, problems)
    document = extend(document, parent)
    pack = resolve_with_library(document)
    return document, replace(
        pack, problems=tuple(_with_reason(problem, document) for problem in pack.problems)
    )


def _parent(named: str, origin: PackSource, children: tuple[PackSource, ...]) -> PackSource:
    """Return the pack that a pack extends. Raises RuleError without a place."""
    parent = origin.parent(named)
    if parent in (origin, *children):
        way = " -> ".join(one.source for one in (*reversed(children), origin, parent))
        raise RuleError([Problem("TRL223", f"packs extend each other in a circle: {way}", "take one out")])
    if len(children) == PARENTS_MAX:
        message = f"`{named}` is the {PARENTS_MAX + 1}th pack that is extended in a row"
        hint = f"a pack inherits from at most {PARENTS_MAX}: extend one further up, and add what lies between"
        raise RuleError([Problem("TRL224", message, hint)])
    return parent


def _with_reason(problem: Problem, document: Document) -> Problem:
    """Return the problem; in the file of a sound pack that the document extends, with the reason."""
    if problem.location is None or problem.location.source == document.source:
        return problem
    hint = f"{problem.hint}; the pack is sound by itself, and not with what {document.source} replaces"
    return replace(problem, hint=hint)


# ---- the operator library


def resolve_with_library(document: Document) -> ResolvedPack:
    """The pack that the document holds, with the operator library in scope.

    The library is read only for packs that call one of its operators, or have problems that its names may
    explain: most do neither, and it is much of what they would wait for.
    """
    if not any(_calls_library(ancestor.text) for ancestor in inheritance_chain(document)):
        pack = resolve(document, Scope({}, {}))
        if not pack.problems:
            return pack
    return resolve(document, _library())


def _calls_library(text: str) -> bool:
    """Return whether the text has a call, as it seems, of one of the library's operators."""
    heads = _operators().at(("operators",))
    assert isinstance(heads, MappingNode)
    names = "|".join(key.text.partition("(")[0] for key, _ in heads.entries)
    return re.search(rf"\b({names})\s*\(", text) is not None


@cache
def _operators() -> Document:
    return read_document(OPERATORS_FILE.read_text("utf-8"), OPERATORS_FILE.name)


@cache
def _library() -> Scope:
    """The operator library; its own problems would be ours."""
    library = resolve(_operators(), None)
    assert not library.problems, "\n".join(map(str, library.problems))
    return library.scope
