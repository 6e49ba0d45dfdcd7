"""The evidence for a chain's risks: intervals, calibration, thresholds, drift and comparison. Pure."""
