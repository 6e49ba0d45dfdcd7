"""Decoding of spans and log records from OTLP and SDK dumps, in protobuf and JSON."""
