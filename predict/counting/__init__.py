"""Counting: labelled events to the symbols, contexts and transitions of each rule, as a bucket at a time."""
