"""The engine judges sessions by compiled rules: letters, kernel, witnesses, records."""
