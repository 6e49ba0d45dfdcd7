"""A compiled walk over the bytes of OTLP requests: it finds whose a span is without reading its content."""
