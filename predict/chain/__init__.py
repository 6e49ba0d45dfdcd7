"""The parts of a learned chain as data: symbols, contexts, their counts, the steps of a rule, and walks."""
