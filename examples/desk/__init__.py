"""The simulated support desk: its conversations, as events and as chat logs."""
