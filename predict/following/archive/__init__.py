"""The following of rules over the whole sessions of archives, and the worth of their warnings."""
