"""The bets of live sessions against their chain, and the detectors of its drift. Pure."""
