"""The contents of an archive's events: their JSON paths, and the likely mistakes in rules that they show."""
