"""Spans out of OTLP and SDK dumps, in protobuf and JSON."""
