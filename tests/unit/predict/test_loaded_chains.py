"""The chains of a process, of which another release may have learned some."""

from __future__ import annotations

import json
from pathlib import Path

from tracline.predict.folder.load import load_chain
from tracline.predict.following.loaded_chains import LoadedChains
from tracline.rules.packs.load import load_packs

from ...support.chains.small_chain import learned_chain


def test_a_chain_of_packs_that_this_release_refuses_follows_nothing(tmp_path: Path) -> None:
    """A monitor that has it judges on by its own rules, as without the chain."""
    chain = learned_chain(tmp_path)
    rules = load_packs([str(tmp_path / "desk.yaml")])
    sound = load_chain(chain)
    assert LoadedChains({sound.digest: sound}, 0.3).followed(sound.digest, rules) is not None
    document = json.loads((chain / "chain.json").read_text())
    document["packs"] = {name: text.replace("always", "alwayz") for name, text in document["packs"].items()}
    (chain / "chain.json").write_text(json.dumps(document))
    refused = load_chain(chain)
    assert LoadedChains({refused.digest: refused}, 0.3).followed(refused.digest, rules) is None
