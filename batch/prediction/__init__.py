"""Archives as prediction reads them: counts and walks of every rule, in bounded memory."""
