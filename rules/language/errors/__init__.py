"""The errors of texts: what is wrong, and what to write instead; one kind of mistake a module."""
