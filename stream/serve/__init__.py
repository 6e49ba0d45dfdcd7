"""`tracline serve`: the pipeline in one process, over a store."""
