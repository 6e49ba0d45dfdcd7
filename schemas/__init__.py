"""What flows: events and verdicts as data, and their wire formats. No I/O, no clock."""
