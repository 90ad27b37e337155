#!/bin/bash
# Runs a class of Kafka's, with the variables that Kafka's own script of this name reads.
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} $KAFKA_JVM_PERFORMANCE_OPTS $KAFKA_LOG4J_OPTS $KAFKA_OPTS \
    -cp '/opt/kafka/libs/*' "$@"
