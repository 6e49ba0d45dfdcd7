"""`python -m tracline.examples.papers PAGE GAME [MODEL]` computes the papers' figures and writes the page.

GAME is the game of TextWorld that `environments/game_facts.py` writes. MODEL is the address of an
OpenAI-compatible model, which is asked as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .page import page

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
