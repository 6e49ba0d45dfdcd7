"""Receiving requests over HTTP and gRPC."""
