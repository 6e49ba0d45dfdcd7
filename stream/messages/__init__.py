"""Messages and stored state of the pipeline, with their codecs."""
