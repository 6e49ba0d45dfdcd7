"""Formulas, predicates, rules and machines as data, and their text."""
