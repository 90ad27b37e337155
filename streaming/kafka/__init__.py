"""The seam to Kafka: kafka-python's protocol and network layer, bounded, behind the port ``streaming.cluster_log``."""
