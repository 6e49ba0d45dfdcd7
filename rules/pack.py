"""From pack files to rules: the one place where the rules room reads files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from .document import TEXT_CHARACTERS_MAX, Document, Fields, Items, read_document
from .error import Problem, RuleError, did_you_mean
from .resolve import Resolved, Scope, resolve
from .rule import Rule, RuleSet

LIBRARY = Path(__file__).with_name("library")
"""The packs that ship with the product; each is known by its file's stem."""

OPERATORS_FILE = Path(__file__).with_name("operators.yaml")
"""The operator library, in scope in every pack."""
FILE_BYTES_MAX = 4 * TEXT_CHARACTERS_MAX


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
    texts = [(source, partial(_text, file)) for file, source in _files(paths, errors).items()]
    for document, pack in _read(texts, errors):
        rules += pack.rules
        if pack.name in documents and pack.named:
            hint = f"the other is in {documents[pack.name].source}: rename one of them"
            place = document.place(document.at(("pack",)))
            errors.append(Problem("TRL221", f"two packs are named `{pack.name}`", hint, place))
        documents.setdefault(pack.name, document)
    errors += (
        [] if documents or errors else [Problem("TRL201", "no pack is named", "name a YAML file or folder")]
    )
    rules.sort(key=lambda rule: rule.pack)
    sources = {name: documents[name].text for name in sorted(documents)}
    lists = [document.at(("rules",)) for document in documents.values()]
    written = sum(len(node.items) for node in lists if isinstance(node, Items))
    return Packs(RuleSet(tuple(rules), sources), tuple(errors), documents, written)


def shipped_packs() -> tuple[str, ...]:
    """The names of the packs that ship with the product."""
    return tuple(sorted(file.stem for file in LIBRARY.glob("*.yaml")))


def pack_text(text: str, source: str = "<pack>") -> RuleSet:
    """The rules of one pack given as text. Raises RuleError with every problem."""
    document = read_document(text, source)
    pack = _resolved(document)
    if pack.problems:
        raise RuleError(pack.problems)
    return RuleSet(pack.rules, {pack.name: document.text})


def load_texts(sources: Mapping[str, str]) -> RuleSet:
    """The rule set of packs given as texts by their names, as `RuleSet.sources` has them.

    Raises RuleError with every problem of every pack, and where one has another name than it is given under.
    """
    errors: list[Problem] = []
    rules: list[Rule] = []
    texts = [(name, partial(sources.__getitem__, name)) for name in sorted(sources)]
    for document, pack in _read(texts, errors):
        rules += pack.rules
        if pack.name != document.source:
            what = f"the pack kept as `{document.source}` is named `{pack.name}`"
            hint = "a rule set that was kept is to be left as it is"
            errors.append(Problem("TRL221", what, hint, document.place(document.at(("pack",)))))
    if errors:
        raise RuleError(errors)
    return RuleSet(tuple(rules), {name: sources[name] for name in sorted(sources)})


def _read(
    texts: Iterable[tuple[str, Callable[[], str]]], errors: list[Problem]
) -> Iterator[tuple[Document, Resolved]]:
    """The packs that can be read, one by one; `texts` have where each is from, and its text.

    What is wrong with one is among the errors before it is given.
    """
    for source, text in texts:
        try:
            document = read_document(text(), source)
        except RuleError as error:
            errors += error.problems
            continue
        pack = _resolved(document)
        errors += pack.problems
        yield document, pack


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
    """Whether a folder's file is taken for a pack; hidden ones, as editors leave them, are not."""
    return file.suffix in (".yaml", ".yml") and not file.name.startswith(".") and file.is_file()


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


def _resolved(document: Document) -> Resolved:
    """The pack that the document holds, with the operator library in scope.

    The library is read only for packs that call one of its operators, or have problems that its names may
    explain: most do neither, and it is much of what they would wait for.
    """
    if not _calls_library(document.text):
        pack = resolve(document, Scope({}, {}))
        if not pack.problems:
            return pack
    return resolve(document, _library())


def _calls_library(text: str) -> bool:
    """Whether the text has a call, as it seems, of one of the library's operators."""
    heads = _operators().at(("operators",))
    assert isinstance(heads, Fields)
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
