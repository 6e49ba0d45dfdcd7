"""The papers' figures of prediction, computed again: `python -m tracline.examples.papers`."""
