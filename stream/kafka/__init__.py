"""Kafka: its settings and topics, and the processes of the pipeline that carry records over it."""
