"""The environments of agents in the papers, and the monitor of their rules."""
