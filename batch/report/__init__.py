"""The report of a bundle: the sessions that it draws, its figures, and the page."""
