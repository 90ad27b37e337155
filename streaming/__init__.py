"""What touches the streams: Kafka clusters, Spark queries, checkpoints, and the jars they run on."""
