"""The readings of plain spans as rows of numbers, which compiled loops make from the facts of the walk."""
