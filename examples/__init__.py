"""Example programs: a simulated support desk, an instrumented bot, and the pipeline on one machine."""
