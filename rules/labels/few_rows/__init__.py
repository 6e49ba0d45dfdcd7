"""Labels of a few events in memory: what a call costs whatever the rows decides their cost."""
