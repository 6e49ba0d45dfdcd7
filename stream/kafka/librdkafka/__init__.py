"""librdkafka's clients (confluent-kafka): their properties, and a reader, a sender and an admin of ours."""
