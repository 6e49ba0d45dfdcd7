"""Tables that fit the terminal: names and ids are never cut, and get lines of their own instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

UNLIMITED = 1_000_000
"""Columns: wider than any table."""
GAP = "  "


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table of `Text` cells; where it is wider than the terminal, each row becomes several lines.

    The first of these lines is the row's first cell; the others have the remaining cells with their headings.
    """

    table: Table

    def fits(self, console: Console) -> bool:
        """Return whether the table is as narrow as the terminal."""
        return self._width(console, console.options) <= console.width

    def _width(self, console: Console, options: ConsoleOptions) -> int:
        return console.measure(self.table, options=options.update(max_width=UNLIMITED)).maximum

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or its rows as lines."""
        if self._width(console, options) <= options.max_width:
            yield self.table
            return
        headings = [str(column.header) for column in self.table.columns]
        for row in zip(*(column.cells for column in self.table.columns), strict=True):
            name, *cells = [cell if isinstance(cell, Text) else Text(str(cell)) for cell in row]
            yield name
            rest = zip(headings[1:], cells, strict=True)
            named = [Text.assemble((f"{heading} ", "dim"), cell) for heading, cell in rest]
            yield from packed(named, options.max_width, indent=2)


def packed(cells: Iterable[Text], width: int, indent: int) -> Iterator[Text]:
    """Yield lines of whole cells, as many in a line as fit; lines after the first are indented further."""
    line, begin = Text(" " * indent), indent
    for cell in cells:
        gap = GAP if len(line) > begin else ""
        if gap and line.cell_len + len(gap) + cell.cell_len > width:
            yield line
            begin = indent + 2
            line, gap = Text(" " * begin), ""
        line.append(gap).append_text(cell)
    yield line


def unbroken(lines: Iterable[Text]) -> Iterator[Text]:
    """Yield lines that a narrower terminal wraps itself, so that copying joins them again."""
    for line in lines:
        line.no_wrap, line.overflow = True, "ignore"
        yield line


def aligned(rows: Sequence[Sequence[Text]], width: int, indent: int) -> Iterator[Text]:
    """Yield rows as lines of aligned cells, or packed where an aligned row is wider than the terminal."""
    used = [column for column in zip(*rows, strict=True) if any(column)]
    widths = [max(cell.cell_len for cell in column) for column in used]
    fits = indent + sum(widths) + len(GAP) * (len(widths) - 1) <= width
    for row in zip(*used, strict=True):
        if not fits:
            yield from unbroken(packed([cell for cell in row if cell], width, indent))
            continue
        line = Text(" " * indent)
        for cell, column in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (column - cell.cell_len) + GAP)
        line.rstrip()
        yield from unbroken([line])
