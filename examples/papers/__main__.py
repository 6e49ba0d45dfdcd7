"""`python -m tracline.examples.papers PAGE [MODEL]` computes the papers' figures and writes the page.

MODEL is the address of an OpenAI-compatible model, which is asked as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .page import page

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(sys.argv[2] if len(sys.argv) > 2 else None))
