"""Loading of packs from files, texts and stored rule sets; the only module of `rules/` that reads packs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ..model.problem import Problem, RuleError, counted, did_you_mean
from ..model.rule import PackMemory, PropositionExample, Rule, RuleSet
from .inheritance import (
    PARENT_SUFFIX,
    PackReference,
    PackSource,
    check_without_parent,
    extend,
    operator_name,
    pack_name,
    references,
    referred_source,
    stored_documents,
)
from .resolve import ResolvedPack, Scope, resolve, unresolved
from .uses import share
from .yaml.document import TEXT_CHARACTERS_MAX, Document, read_document

LIBRARY = Path(__file__).parents[1] / "library"
"""The packs that ship with the product; a pack's name is its file's stem."""

OPERATORS_FILE = Path(__file__).with_name("operators.yaml")
"""The operator library, in scope in every pack."""
FILE_BYTES_MAX = 4 * TEXT_CHARACTERS_MAX
SUFFIXES = (".yaml", ".yml")
REFERRED_MAX = 20
"""The most packs that one pack extends and uses, directly and through others."""


@dataclass(frozen=True, slots=True)
class Packs:
    """The result of reading packs: the valid rules, the errors, and the documents by the packs' names.

    A pack without a name has its file's name there. `written` counts all rules in the files, with or without
    errors. `propositions` are the examples of the propositions that the files define.
    """

    rule_set: RuleSet
    errors: tuple[Problem, ...]
    documents: Mapping[str, Document]
    written: int
    propositions: tuple[PropositionExample, ...] = ()


Paths = str | Path | Sequence[str | Path]
"""One or several YAML files, folders of them, or names of shipped packs."""


def load_packs(paths: Paths) -> RuleSet:
    """Load the rules of the packs at `paths`. Raises RuleError with every problem of every pack."""
    packs = read_packs(paths)
    if packs.errors:
        raise RuleError(packs.errors)
    return packs.rule_set


def read_packs(paths: Paths) -> Packs:
    """Read the packs at `paths` and return their errors beside their rules."""
    errors: list[Problem] = []
    documents: dict[str, Document] = {}
    rules: list[Rule] = []
    propositions: list[PropositionExample] = []
    memory: dict[str, PackMemory] = {}
    pack_sources = [_FileSource(file, source) for file, source in _files(paths, errors).items()]
    for document, pack in _read(pack_sources, errors):
        rules += pack.rules
        propositions += pack.propositions
        memory |= _section(pack)
        if pack.name in documents and pack.named:
            hint = f"the other is in {documents[pack.name].source}: rename one of them"
            location = document.location(document.at(("pack",)))
            errors.append(Problem("TRL221", f"duplicate pack name `{pack.name}`", hint, location))
        documents.setdefault(pack.name, document)
    if not documents and not errors:
        errors.append(Problem("TRL201", "no pack given", "name a YAML file or folder"))
    rules.sort(key=lambda rule: rule.pack)
    sources = _sources(documents)
    written = sum(len(document.items("rules")) for document in documents.values())
    rule_set = RuleSet(tuple(rules), sources, memory=memory)
    return Packs(rule_set, tuple(errors), documents, written, tuple(propositions))


def shipped_packs() -> tuple[str, ...]:
    """Return the names of the packs that ship with the product."""
    return tuple(sorted(file.stem for file in LIBRARY.glob("*.yaml")))


def pack_text(text: str, source: str = "<pack>") -> RuleSet:
    """Load one pack from its text. Raises RuleError with every problem.

    The pack may extend and use shipped packs, but no file.
    """
    document, pack = resolve_source(_TextSource(source, text))
    if pack.problems:
        raise RuleError(pack.problems)
    return RuleSet(pack.rules, _sources({pack.name: document}), memory=_section(pack))


def load_texts(sources: Mapping[str, str]) -> RuleSet:
    """Load a rule set from the texts of its packs by name, as in `RuleSet.sources`.

    Extended and used packs are looked up among these texts only. Raises RuleError with every problem of every
    pack, and if a pack's name differs from the name it is stored under.
    """
    errors: list[Problem] = []
    rules: list[Rule] = []
    documents: dict[str, Document] = {}
    memory: dict[str, PackMemory] = {}
    for document, pack in _read(
        [_StoredSource(name, sources) for name in sorted(sources) if "/" not in name], errors
    ):
        rules += pack.rules
        documents[document.source] = document
        memory |= _section(pack)
        for _, referred in stored_documents(document, document.source):
            name = referred.source.rpartition("/")[2]
            if pack_name(referred) != name:
                what = f"the pack stored as `{name}` is named `{pack_name(referred)}`"
                errors.append(Problem("TRL221", what, _AS_STORED, referred.location(referred.at(("pack",)))))
    if not errors and (unused := sources.keys() - _sources(documents).keys()):
        what = f"no pack extends or uses the stored pack `{min(unused)}`"
        errors.append(Problem("TRL221", what, _AS_STORED))
    if errors:
        raise RuleError(errors)
    stored = {name: sources[name] for name in sorted(sources)}
    return RuleSet(tuple(rules), stored, memory=memory)


def _section(pack: ResolvedPack) -> dict[str, PackMemory]:
    """Return the `predict` section of a pack by the pack's name, where it has one."""
    return {} if pack.memory == PackMemory() else {pack.name: pack.memory}


def documents_of(rule_set: RuleSet) -> Mapping[str, Document]:
    """Return the documents of a valid rule set by the packs' names, each with what it inherits."""
    return {name: resolve_source(_StoredSource(name, rule_set.sources))[0] for name in rule_set.packs}


_AS_STORED = "do not edit a stored rule set"


def _read(
    pack_sources: Iterable[PackSource], errors: list[Problem]
) -> Iterator[tuple[Document, ResolvedPack]]:
    """Yield the packs that can be read; add the problems of each pack to `errors` first."""
    for pack_source in pack_sources:
        try:
            document, pack = resolve_source(pack_source)
        except RuleError as error:
            errors += error.problems
            continue
        errors += pack.problems
        yield document, pack


def _sources(documents: Mapping[str, Document]) -> dict[str, str]:
    """Return the texts of packs and of the packs that they extend and use, as in `RuleSet.sources`."""
    return {
        stored: document.text
        for name in sorted(documents)
        for stored, document in stored_documents(documents[name], name)
    }


def _files(paths: Paths, errors: list[Problem]) -> dict[Path, str]:
    """Return the files of the paths without duplicates, each with its name in errors."""
    found: dict[Path, str] = {}
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        if path.is_dir():
            here = {file: str(file) for file in sorted(path.iterdir()) if _is_pack(file)}
            message, hint = f"{path}: no pack in this folder", "the name of a pack's file ends in .yaml"
        elif path.exists():
            here, message, hint = {path: str(path)}, "", ""
        else:
            shipped = LIBRARY / f"{path}.yaml"
            here = {shipped: shipped.name} if str(path) in shipped_packs() else {}
            message = f"{path}: no such file or shipped pack"
            hint = "name a YAML file, a folder of them, or a shipped pack; "
            hint += did_you_mean(str(path), shipped_packs())
        for file, source in here.items():
            found.setdefault(file.resolve(), source)
        errors += [] if here else [Problem("TRL201", message, hint)]
    return found


def _is_pack(file: Path) -> bool:
    """Return whether a folder's file is a pack; hidden files, such as those of editors, are not."""
    return file.suffix in SUFFIXES and not file.name.startswith(".") and file.is_file()


def _text(file: Path) -> str:
    """Read a file's text. Raises RuleError if that fails."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            hint = "split it into several packs"
            raise RuleError([Problem("TRL204", f"{file}: larger than {FILE_BYTES_MAX} bytes", hint)])
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        message = f"{file}: {error.strerror or 'not readable'}"
        raise RuleError([Problem("TRL201", message, "check the path and its permissions")]) from None
    except UnicodeDecodeError as error:
        message = f"{file}: invalid UTF-8 at byte {error.start + 1}"
        raise RuleError([Problem("TRL201", message, "save the file as UTF-8")]) from None


# ---- a pack and the packs that it extends and uses


@dataclass(frozen=True, slots=True)
class _FileSource:
    """A pack in a file. It may extend and use shipped packs, and those in other files."""

    file: Path
    source: str = field(compare=False)

    @property
    def folder(self) -> Path | None:
        return self.file.parent

    def text(self) -> str:
        return _text(self.file)

    def referred(self, reference: PackReference) -> PackSource:
        name, suffix = reference.name, reference.suffix
        stored = self.file.with_name(f"{self.file.stem}{suffix}")
        if stored.is_dir():
            file = _only_pack(stored)
            return _FileSource(file, f"{Path(self.source).stem}{suffix}/{file.name}")
        if name in shipped_packs():
            return _shipped(name)
        file = self.file.parent / name
        if file.suffix in SUFFIXES and file.is_file():
            return _FileSource(file.resolve(), str(Path(self.source).parent / name))
        near = [name + suffix for suffix in SUFFIXES if (self.file.parent / (name + suffix)).is_file()]
        raise RuleError([_unknown_pack(reference, near[0] if near else None)])


@dataclass(frozen=True, slots=True)
class _TextSource:
    """A pack that is given as text. It may extend and use shipped ones."""

    source: str
    content: str
    folder: Path | None = None

    def text(self) -> str:
        return self.content

    def referred(self, reference: PackReference) -> PackSource:
        if reference.name in shipped_packs():
            return _shipped(reference.name)
        raise RuleError([_unknown_pack(reference, None)])


@dataclass(frozen=True, slots=True)
class _StoredSource:
    """A pack among stored texts (`RuleSet.sources`). Those that it extends and uses are stored with it."""

    source: str
    sources: Mapping[str, str] = field(compare=False)
    folder: Path | None = None

    def text(self) -> str:
        return self.sources[self.source]

    def referred(self, reference: PackReference) -> PackSource:
        folder = f"{self.source}{reference.suffix}/"
        inside = [key for key in self.sources if key.startswith(folder) and "/" not in key[len(folder) :]]
        if len(inside) != 1:
            verb = "extends" if reference.suffix == PARENT_SUFFIX else "uses"
            what = f"`{self.source}` {verb} `{reference.name}`, which is not stored with it"
            raise RuleError([Problem("TRL201", what, _AS_STORED)])
        return _StoredSource(inside[0], self.sources)


def _shipped(name: str) -> PackSource:
    return _FileSource(LIBRARY / f"{name}.yaml", f"{name}.yaml")


def _only_pack(folder: Path) -> Path:
    """Return the only pack in the folder. Raises RuleError if there is none or more than one."""
    packs = [file for file in sorted(folder.iterdir()) if _is_pack(file)]
    if len(packs) != 1:
        message = f"{folder}: {counted(len(packs), 'pack')} in this folder, not 1"
        hint = "put only the pack that the file beside it extends or uses into it, or remove it"
        raise RuleError([Problem("TRL201", message, hint)])
    return packs[0].resolve()


def _unknown_pack(reference: PackReference, near: str | None) -> Problem:
    """Return the problem of an unknown pack; `near` is a file of a similar name."""
    hint = "name a shipped pack, or a YAML file by its path from this file's folder; "
    hint += f"did you mean `{near}`?" if near else did_you_mean(reference.name, shipped_packs())
    return Problem("TRL201", f"unknown pack `{reference.name}` in `{reference.field}`", hint)


def resolve_source(
    origin: PackSource, children: tuple[PackSource, ...] = ()
) -> tuple[Document, ResolvedPack]:
    """Read a pack, merge what it inherits and uses, and resolve its rules.

    `children` extend or use it, the nearest first. Problems of the packs that it refers to come first, since
    they may cause the others. Raises RuleError if its own text cannot be read.
    """
    document = read_document(origin.text(), origin.source, origin.folder)
    parents: list[Document] = []
    used: list[tuple[PackReference, Document]] = []
    problems: list[Problem] = []
    count = 0
    for reference in references(document):
        try:
            source = referred_source(reference, origin, children)
            referred, base = resolve_source(source, (origin, *children))
        except RuleError as error:
            here = document.location(reference.node)
            problems += [replace(problem, location=problem.location or here) for problem in error.problems]
            continue
        problems += base.problems
        if reference.field == "extends":
            parents.append(referred)
        else:
            used.append((reference, referred))
        count += sum(1 for _ in stored_documents(referred, referred.source))
        if count > REFERRED_MAX:
            problems.append(_too_many(document, reference))
            break
    if problems:
        return document, unresolved(document, problems)
    document = share(extend(document, parents[0]) if parents else check_without_parent(document), used)
    pack = resolve_with_library(document)
    return document, replace(
        pack, problems=tuple(_with_reason(problem, document) for problem in pack.problems)
    )


def _too_many(document: Document, reference: PackReference) -> Problem:
    """Return the problem of a reference with which a pack refers to too many packs."""
    message = f"the pack extends and uses more than {REFERRED_MAX} packs, with those that these refer to"
    hint = "put the names that belong together into one pack"
    return Problem("TRL227", message, hint, document.location(reference.node))


def _with_reason(problem: Problem, document: Document) -> Problem:
    """Extend the hint of a problem in the file of an inherited pack, which is valid by itself."""
    if problem.location is None or problem.location.source == document.source:
        return problem
    hint = f"{problem.hint}; the error comes from what {document.source} replaces in this pack"
    return replace(problem, hint=hint)


# ---- the operator library


def resolve_with_library(document: Document) -> ResolvedPack:
    """Resolve the pack of a document with the operator library in scope.

    The library takes long to load, so it is loaded only for packs that call one of its operators or have
    problems.
    """
    if not any(_calls_library(part.text) for _, part in stored_documents(document, document.source)):
        pack = resolve(document, Scope({}, {}))
        if not pack.problems:
            return pack
    return resolve(document, _library())


def _calls_library(text: str) -> bool:
    """Return whether the text seems to call one of the library's operators."""
    names = "|".join(operator_name(key.text) for key, _ in _operators().entries("operators"))
    return re.search(rf"\b({names})\s*\(", text) is not None


@cache
def _operators() -> Document:
    return read_document(OPERATORS_FILE.read_text("utf-8"), OPERATORS_FILE.name)


@cache
def _library() -> Scope:
    """Return the scope of the operator library."""
    library = resolve(_operators(), None)
    assert not library.problems, "\n".join(map(str, library.problems))
    return library.scope
