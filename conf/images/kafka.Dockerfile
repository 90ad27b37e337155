# A stand-in for apache/kafka: the same jars under /opt/kafka/libs, the same user, the same data folder.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 --user-group --no-create-home appuser \
 && install -d -o appuser -g appuser /var/lib/kafka/data
COPY libs /opt/kafka/libs
COPY kafka-run-class.sh /opt/kafka/bin/kafka-run-class.sh
USER appuser
VOLUME /var/lib/kafka/data
