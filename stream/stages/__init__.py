"""The stages of the live pipeline, without broker or store."""
