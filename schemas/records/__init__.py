"""The records that tracline writes for others: verdicts, session statuses and dead letters."""
