"""One request of Kafka's protocol each."""
