"""What must hold: the rule language, its meaning, its machines and the kernel. Pure."""
