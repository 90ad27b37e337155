# Tideover in a container: `runtime` is the product; `lab` adds what the tools of the compose environment need.
#
# Nothing of the build is in the result: no compiler, no pip cache, no source tree, only the wheel as it would be
# published, its dependencies by hash, and the connector's jars, so that a failover never waits for a download.
#
# A tag can be made to name another image, a digest cannot. Your registry says which one you trust, and your pipeline pins it:
#   docker buildx imagetools inspect debian:bookworm-20250811-slim     # prints the digest
#   docker build --build-arg BASE_DIGEST=sha256:... --target runtime .
ARG BASE_IMAGE=debian:bookworm-20250811-slim
ARG BASE_DIGEST=

FROM ${BASE_IMAGE}${BASE_DIGEST:+@$BASE_DIGEST} AS build
# A company's Maven repository, where there is one: --build-arg TIDEOVER_JARS_REPOSITORY=https://...
ARG TIDEOVER_JARS_REPOSITORY
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates openjdk-17-jdk-headless python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY conf/locks/image*.lock ./
RUN python3 -m venv /opt/tideover \
 && /opt/tideover/bin/pip install --no-cache-dir --require-hashes --requirement image.lock
RUN /opt/tideover/bin/pip install --no-cache-dir --require-hashes --target /opt/lab --no-deps \
      --requirement image-lab.lock
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement image-build.lock
COPY . .
RUN PYTHONPATH=. /opt/tideover/bin/python -m streaming.companion
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/tideover/bin/pip install --no-deps --no-index /dist/*.whl
ENV TIDEOVER_CACHE=/opt/tideover/cache
WORKDIR /
RUN /opt/tideover/bin/python -m streaming.jars fetch spark-4.2.0 \
 && /opt/tideover/bin/pip uninstall --yes --quiet setuptools pip

FROM ${BASE_IMAGE}${BASE_DIGEST:+@$BASE_DIGEST} AS runtime
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bash ca-certificates openjdk-17-jre-headless procps python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --user-group --home-dir /var/lib/tideover --no-create-home --shell /usr/sbin/nologin tideover \
 && install -d -o tideover -g tideover /var/lib/tideover /etc/tideover
COPY --from=build /opt/tideover /opt/tideover
ENV PATH=/opt/tideover/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYSPARK_PYTHON=/opt/tideover/bin/python \
    SPARK_HOME=/opt/tideover/lib/python3.11/site-packages/pyspark \
    TIDEOVER_CACHE=/opt/tideover/cache \
    TIDEOVER_CONFIG=/etc/tideover/tideover.yaml \
    TIDEOVER_PULSE=/tmp/tideover-pulse
USER 10001:10001
WORKDIR /var/lib/tideover
ENTRYPOINT ["tideover"]
# Whether the loop of `run` or `control` has turned in the last two minutes. It reads neither the store nor a cluster.
HEALTHCHECK --interval=30s --timeout=5s --start-period=600s --retries=3 \
  CMD test -n "$(find "$TIDEOVER_PULSE" -newermt '-120 seconds' 2>/dev/null)"
# Last: a new commit rebuilds nothing but the labels.
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG BASE_IMAGE
ARG BASE_DIGEST
LABEL org.opencontainers.image.title="Tideover" \
      org.opencontainers.image.description="Carries Spark streaming queries from a failed Kafka cluster to its standby" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE_IMAGE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM runtime AS lab
USER root
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libfaketime \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o tideover -g tideover /var/lib/lab /var/lib/lab/secrets
COPY --from=build /opt/lab /opt/lab
ENV PYTHONPATH=/opt/lab
USER 10001:10001
ENTRYPOINT []
HEALTHCHECK NONE

FROM runtime
