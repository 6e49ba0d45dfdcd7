"""What every live process has: metrics, fault points, trials of rules."""
