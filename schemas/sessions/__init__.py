"""Session assembly: from spans to the ordered events of sessions."""
