"""YAML with locations: values, their locations, and rejected files."""

from __future__ import annotations

import pytest
from tracline.rules.model.problem import RuleError
from tracline.rules.packs.yaml.document import (
    ALIASES_MAX,
    DEPTH_MAX,
    NODES_MAX,
    TEXT_CHARACTERS_MAX,
    MappingNode,
    ScalarNode,
    data,
    read_document,
)
from tracline.rules.packs.yaml.repair import REPAIRS_MAX

STYLES = r"""plain: one two
several: one
  two
single: 'it''s one and two'
double: "é \"one\" and \\ two \
  three"
literal: |
  one   two
    three é
folded: >-
  one two

  three
flow: {a: [one, 'two']}
"""


def codes(text: str) -> list[str]:
    """Return the codes of all problems of a text, whether or not it can be read."""
    try:
        return [problem.code for problem in read_document(text, "x.yaml").problems]
    except RuleError as error:
        return [problem.code for problem in error.problems]


@pytest.mark.parametrize(
    ("key", "word", "line", "column"),
    [
        ("plain", "two", 1, 12),
        ("several", "two", 3, 3),
        ("single", "one", 4, 16),
        ("single", "two", 4, 24),
        ("double", "one", 5, 14),
        ("double", "two", 5, 27),
        ("double", "three", 6, 3),
        ("literal", "two", 8, 9),
        ("literal", "three", 9, 5),
        ("literal", "é", 9, 11),
        ("folded", "two", 11, 7),
        ("folded", "three", 13, 3),
    ],
)
def test_a_word_in_a_scalar_has_its_location_in_the_file(key: str, word: str, line: int, column: int) -> None:
    """Words of plain, quoted and block scalars have their own line and column."""
    document = read_document(STYLES, "x.yaml")
    node = document.at((key,))
    assert isinstance(node, ScalarNode)
    start = node.text.index(word)
    location = document.location(node, start, start + len(word))
    assert (location.source, location.line, location.column) == ("x.yaml", line, column)
    assert location.text[location.start : location.end] == word


def test_an_escape_gives_the_location_of_the_scalar() -> None:
    """If escapes prevent the exact location of a word, it is the scalar's."""
    document = read_document('a: "\\x41 b"\n', "x.yaml")
    node = document.at(("a",))
    location = document.location(node, 2, 3)
    assert (location.line, location.column) == (1, 4)


def test_the_end_of_a_scalar_has_a_location() -> None:
    """The location after the last character is directly after it."""
    document = read_document("a: b and\n", "x.yaml")
    location = document.location(document.at(("a",)), 5, 5)
    assert (location.line, location.column) == (1, 9)


def test_scalars_stay_text() -> None:
    """`yes`, `true`, `3` and `1e3` are text; an empty value is None."""
    document = read_document("yes: true\n3: 1e3\nempty:\nnil: ~\nquoted: ''\n", "x.yaml")
    assert data(document.root) == {"yes": "true", "3": "1e3", "empty": None, "nil": None, "quoted": ""}


def test_aliases_repeat_values() -> None:
    """An alias repeats the value of its anchor."""
    document = read_document("a: &x [one, two]\nb: *x\n", "x.yaml")
    assert data(document.root) == {"a": ["one", "two"], "b": ["one", "two"]}


def test_a_byte_order_mark_and_windows_line_ends_shift_nothing() -> None:
    """Files of Windows editors have the same locations."""
    document = read_document("\ufeffa: b\r\nc: one two\r\n", "x.yaml")
    location = document.location(document.at(("c",)), 4, 7)
    assert (location.line, location.column, location.text) == (2, 8, "c: one two")


def test_an_empty_file_is_an_empty_value() -> None:
    """A file with only comments is an empty value."""
    assert data(read_document("# nothing\n", "x.yaml").root) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [", "TRL202"),
        ("a: b: c", "TRL202"),
        ("a: *x", "TRL202"),
        ("a: &x [*x]", "TRL202"),
        ("\ta: b", "TRL202"),
        ('a: "\x01"', "TRL202"),
        ("a: 1\nb: 2\na: 3\n", "TRL203"),
        ("a: {b: 1, b: 2}\n", "TRL203"),
        ("a: " + "[" * DEPTH_MAX + "]" * DEPTH_MAX, "TRL204"),
        ("[" * 100_000, "TRL204"),
        ("a: &x b\nc: [" + "*x, " * (ALIASES_MAX + 1) + "]\n", "TRL204"),
        pytest.param("a: [" + "b, " * (NODES_MAX + 1) + "]\n", "TRL204", marks=pytest.mark.slow),
        ("a" * (TEXT_CHARACTERS_MAX + 1), "TRL204"),
        ("a: !!python/object/apply:os.system [ls]\n", "TRL205"),
        ("a: !mine b\n", "TRL205"),
        ("[a]: b\n", "TRL205"),
        ("a: b\n---\nc: d\n", "TRL205"),
    ],
)
def test_rejected_files(text: str, code: str) -> None:
    """Invalid YAML, duplicate keys, exceeded limits and unsupported parts of YAML have their codes."""
    assert code in codes(text)


def test_aliases_cannot_multiply_values() -> None:
    """Repeated values count each time, so that nine lines cannot make a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    assert codes("\n".join(lines)) == ["TRL204"]


def test_aliases_cannot_nest_beyond_the_limit() -> None:
    """Repeated values count with the depth of their alias."""
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, DEPTH_MAX + 1))]
    assert set(codes("\n".join(lines))) == {"TRL204"}


def test_a_duplicate_key_has_the_line_of_the_first() -> None:
    """The location is the second key, the hint has the line of the first; invalid YAML is reported too."""
    with pytest.raises(RuleError) as caught:
        read_document("x:\n  a: 1\n  a: 2\ny: [\n", "x.yaml")
    repeated, broken = caught.value.problems
    assert repeated.code == "TRL203"
    assert repeated.location is not None
    assert (repeated.location.line, repeated.location.column) == (3, 3)
    assert "line 2" in repeated.hint
    assert broken.code == "TRL202"


def test_minor_errors_do_not_stop_reading() -> None:
    """The first of two equal keys is used; tags and keys that are not text are left out; all are reported."""
    document = read_document("a: 1\na: 2\n[b]: 3\nc: !t 4\n", "x.yaml")
    assert data(document.root) == {"a": "1", "c": "4"}
    assert [problem.code for problem in document.problems] == ["TRL205", "TRL203", "TRL205"]


@pytest.mark.parametrize("text", ["a: [", "a: {", "[" * 100_000])
def test_invalid_yaml_and_exceeded_limits_stop_reading(text: str) -> None:
    """An invalid file has no tree."""
    with pytest.raises(RuleError):
        read_document(text, "x.yaml")


def test_keys_keep_their_order() -> None:
    """A mapping's entries are in the order of the file."""
    root = read_document("b: 1\na: 2\nc: 3\n", "x.yaml").root
    assert isinstance(root, MappingNode)
    assert [key.text for key, _ in root.entries] == ["b", "a", "c"]


REPAIRED = {
    "p: text matches /a: b/": "write `p: 'text matches /a: b/'`",
    'p: "kind" == "user"': """write `p: '"kind" == "user"'`""",
    'p: \'kind == "user"': """write `p: 'kind == "user"'`""",
    "p: it's: so": "write `p: 'it''s: so'`",
    "p: @x": "write `p: '@x'`",
    'p kind == "user"': """write `p: 'kind == "user"'`""",
    "\tp: x": "indent the line with 2 spaces, and without tabs",
    " p: x": "indent the line with 2 spaces, and without tabs",
    'p: text contains " # y"': """write `'text contains " # y"'`""",
    "p: *x": "define the anchor `&x` before the alias, outside the value that contains it",
}
"""Lines of a mapping with a mistake, and their hints."""


@pytest.mark.parametrize("line", REPAIRED)
def test_a_mistake_of_yaml_hides_no_other(line: str) -> None:
    """The hint has the right line, and the lines after it are read, each at its place."""
    first = line if line.startswith(("\t", " ")) else f"  {line}"
    document = read_document(f"a:\n  o: 1\n{first}\n  q: 2\nb: 3\nb: 4\n", "x.yaml")
    broken, repeated = document.problems
    assert (broken.code, broken.hint) == ("TRL202", REPAIRED[line])
    assert broken.location is not None
    assert broken.location.line == 3
    assert repeated.code == "TRL203"
    assert repeated.location is not None
    assert (repeated.location.line, repeated.location.column) == (6, 1)
    below = document.value("a")
    assert isinstance(below, MappingNode)
    assert [key.text for key, _ in below.entries] == ["o", "p", "q"]


def test_repairs_end() -> None:
    """A file of nothing but mistakes is given up after a number of lines, and its mistakes are reported."""
    with pytest.raises(RuleError) as caught:
        read_document("\n".join(f"p{i}: a: b" for i in range(100)), "x.yaml")
    assert len(caught.value.problems) == REPAIRS_MAX + 1
    assert {problem.code for problem in caught.value.problems} == {"TRL202"}


def test_a_line_in_braces_is_not_repaired() -> None:
    """A comma of bounds ends its value; quotes around the end of the line would only move that mistake."""
    line = "rules:\n  - {id: r, title: t, formula: always (p -> always[0,1] not q)}\n"
    with pytest.raises(RuleError) as caught:
        read_document(line, "x.yaml")
    [problem] = caught.value.problems
    assert problem.location is not None
    assert (problem.code, problem.location.line) == ("TRL202", 2)
    assert "''" not in problem.hint
