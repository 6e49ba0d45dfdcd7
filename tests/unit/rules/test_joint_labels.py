"""The labels of two rule sets at once, against those of each alone."""

from __future__ import annotations

import polars as pl
from tracline.rules.labels.joint.joint_columns import JointColumns
from tracline.rules.labels.joint.joint_labels import JointLabels
from tracline.rules.labels.labeler import Labeler
from tracline.rules.labels.labelled_rows import FrameColumns
from tracline.rules.packs.load import pack_text

from ...support.chains.counted_archives import PACK, random_sessions, rows
from ...support.event_rows import frame_of

OTHER = """
pack: other
version: 1
propositions:
  p: text contains "q"
  asks: kind == "user" and text contains "p"
rules:
  - {id: asked, severity: low, for_each: text, formula: always (asks -> p)}
  - {id: named, severity: low, for_each: args.id, formula: always p}
"""


def test_joint_labels_are_those_of_each_labeler() -> None:
    """Equal names of other predicates, shared slices and slices of one only."""
    frame = frame_of(rows(random_sessions(20, 3)))
    labelers = [Labeler(pack_text(text)) for text in (PACK, OTHER)]
    for first, second in (labelers, labelers[::-1]):
        found = JointLabels(first, second).label(FrameColumns(frame))
        for each, labeler in zip(found, (first, second), strict=True):
            assert pl.DataFrame(each.labels.series).equals(labeler.label_few(frame))


def test_joint_columns_are_those_of_each_labeler() -> None:
    """Those of the first one stay as they are; those of the second are among them or beside them."""
    frame = frame_of(rows(random_sessions(20, 4)))
    labelers = [Labeler(pack_text(text)) for text in (PACK, OTHER)]
    for first, second in (labelers, labelers[::-1], labelers[:1] * 2):
        joint = JointColumns(first, second)
        found = joint.label(frame.lazy(), keep=("seq",)).collect()
        wanted, wanted_second = (
            each.label(frame.lazy(), keep=("seq",)).collect() for each in (first, second)
        )
        assert found.select(wanted.columns).equals(wanted)
        for letter in "tu":
            names = [name for name in found.columns if name.strip(letter).isdigit()]
            words = joint.second_words(found.select(names).to_numpy())
            assert words.tolist() == [[word] for word in wanted_second[f"{letter}0"].to_list()]
        for place, key in enumerate(joint.keys):
            for letter in ("s", "su"):
                assert found[f"{letter}{key}"].equals(wanted_second[f"{letter}{place}"])
        assert (joint.more_words == ()) == (first is second)
