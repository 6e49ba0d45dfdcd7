"""The data types of formulas, predicates, rules and machines, and their text form."""
