"""The rule packs and the operator library that ship with the product."""
