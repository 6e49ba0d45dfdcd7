"""Events and verdicts as data, and the readers of what others send. No I/O, no clock."""
