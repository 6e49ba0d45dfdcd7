"""The places of rules in the files of their packs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...rules.model.digest import rule_digest
from ...rules.model.problem import Location
from ...rules.packs.inheritance import stored_documents
from ...rules.packs.load import Packs, read_packs
from ...rules.packs.yaml.document import MappingNode, ScalarNode, data


@dataclass(frozen=True, slots=True)
class RulePlace:
    """The place of a rule's id: a relative URI of the file, and the characters in it.

    `texts` are the reason for the rule and its blind spots, as far as the pack gives them.
    """

    uri: str
    location: Location
    texts: tuple[str, ...] = ()

    def as_sarif(self) -> dict[str, Any]:
        """Return the place as a `physicalLocation`."""
        width = max(self.location.end - self.location.start, 1)
        return {
            "artifactLocation": {"uri": self.uri},
            "region": {
                "startLine": self.location.line,
                "startColumn": self.location.column,
                "endLine": self.location.line,
                "endColumn": self.location.column + width,
            },
        }


def rule_places(packs: Sequence[str], bundle: Path, summary: Mapping[str, Any]) -> dict[str, RulePlace]:
    """Return the places of the summary's rules by the rules' names in it.

    `packs` are the packs as given, or none where an archive has its own: then the bundle has them. A rule is
    in the file that the user gave, if that is below the working directory, else in the copy in the bundle:
    code hosts accept only relative paths.
    """
    if packs:
        sets = [(read_packs(packs), bundle / "rules")]
    else:
        folders = sorted(folder for folder in (bundle / "rules").iterdir() if folder.is_dir())
        sets = [(read_packs(folder), folder) for folder in folders]
    wanted = {(rule["pack"], rule["id"]): key for key, rule in summary["rules"].items()}
    digests = {key: rule["rule_digest"] for key, rule in summary["rules"].items()}
    found: dict[str, RulePlace] = {}
    for read, copies in sets:
        digest_of = {(rule.pack, rule.id): rule_digest(rule) for rule in read.rule_set.rules}
        for pair, place in _places(read, copies):
            key = wanted.get(pair)
            # A rule of an archive may have several versions: the summary has the digest of the latest.
            if key is not None and (key not in found or digest_of.get(pair) == digests[key]):
                found[key] = place
    return found


def _places(packs: Packs, copies: Path) -> Iterator[tuple[tuple[str, str], RulePlace]]:
    """Yield the place of each rule that has an id, by its pack and id."""
    for name, document in packs.documents.items():
        # Nodes know the text of their file, which may be that of an extended pack.
        stored = {id(part.file): path for path, part in stored_documents(document, name)}
        for rule in document.items("rules"):
            node = rule.value("id") if isinstance(rule, MappingNode) else None
            if isinstance(rule, MappingNode) and isinstance(node, ScalarNode):
                location = document.location(node)
                copy = copies / f"{stored.get(id(node.file), name)}.yaml"
                place = RulePlace(_uri(location.source, node.file.text, copy), location, _texts(rule))
                yield (name, node.text), place


def _texts(rule: MappingNode) -> tuple[str, ...]:
    nodes = [rule.value(name) for name in ("why", "blind_spots")]
    return tuple(str(data(node)).strip() for node in nodes if node is not None and data(node))


def _uri(source: str, text: str, copy: Path) -> str:
    """Return the URI of a pack's file, or of its copy if the file is not below the working directory."""
    for path in (Path(source), copy):
        try:
            relative = path.resolve().relative_to(Path.cwd().resolve())
            if path is copy or path.read_text("utf-8").removeprefix("\ufeff") == text:
                return quote(relative.as_posix())
        except (OSError, ValueError):
            continue
    return quote(f"{copy.parent.name}/{copy.name}")
