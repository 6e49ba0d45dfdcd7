"""The claims of plain calls of models, made of the bytes of their messages by compiled loops."""
