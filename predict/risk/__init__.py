"""The risks of rules: a learned chain and a rule's machine stepped together. Pure."""
