"""Learning: the counts of a rule to its risks, and the evidence for them."""
