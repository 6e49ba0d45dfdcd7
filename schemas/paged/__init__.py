"""Parts of a session's state that never change, so that each is written once."""
