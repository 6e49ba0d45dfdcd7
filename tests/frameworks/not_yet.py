"""The recordings that are not read right yet, each with why; one that is read right must not stand here."""

NOT_YET: dict[str, str] = {}
