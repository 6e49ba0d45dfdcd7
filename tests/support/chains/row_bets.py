"""The bets of a followed batch, each row apart."""

from __future__ import annotations

from tracline.predict.drift.bet_sums import BetGroups, BetSum, bet_sums
from tracline.predict.following.live.session_follower import FollowedBatch, SessionFollower


def bets_by_row(follower: SessionFollower, done: FollowedBatch) -> dict[int, list[BetSum]]:
    """Return the bets on each row of a batch."""
    assert done.bets is not None
    rows = done.bets.rows.tolist()
    groups = BetGroups(rows, [0] * len(rows), [""] * len(rows))
    return bet_sums(follower.chain.digest, follower.names, done.bets, groups)
