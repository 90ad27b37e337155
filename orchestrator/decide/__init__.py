"""Deciding, as functions of values: no clock, socket, file, SQL, Kafka, Spark, thread or log is known here."""
