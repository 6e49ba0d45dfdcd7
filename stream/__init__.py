"""Live: spans received, assembled, judged, shown and archived as they come."""
