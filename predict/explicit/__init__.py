"""Markov chains whose states are written out: their files, and the probabilities of what they reach."""
