"""Attestations: signed statements on the files of a bundle."""
