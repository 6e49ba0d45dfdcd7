"""Risks by sampling: continuations of a learned chain, and those that an agent's model gives."""
