# One broker in an image: its hot modules compiled, no compiler, no root, its data in a volume.
#
#   docker build -t weir .
#   docker run -p 127.0.0.1:9092:9092 -p 127.0.0.1:8080:8080 -v weir-data:/var/lib/weir weir
#
# A setting is an argument after the image's name, `--override advertised.listeners=PLAINTEXT://kafka.example:9092`, or a
# variable, `--env WEIR_ADVERTISED_LISTENERS=PLAINTEXT://kafka.example:9092`.
# `--build-arg EXTRAS=[insights]` adds what reads the pipeline's tables for the console: 140 MB more.
# The first administrator's token comes from WEIR_ADMIN_TOKEN, or from a secret's file named in WEIR_ADMIN_TOKEN_FILE.
# Kafka clients may not administer the broker: the console and the REST API do, or `--override wire.role=admin` lets them.
#
# The base is pinned by digest, so that a build means the same every time; it gets no update by itself. Debian bookworm,
# as the pipeline needs its openjdk-17. What the tag is now: `docker buildx imagetools inspect python:3.11-slim-bookworm`.
ARG BASE=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
# For the labels. The release workflow names the commit, and where the sources are.
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=

FROM ${BASE} AS build
ARG EXTRAS=
# The times in archives, and the order of sets: the same sources make the same files. 1980 is the first year of a zip.
ARG SOURCE_DATE_EPOCH=315532800
ENV PYTHONHASHSEED=0
WORKDIR /src
# The compiler stays behind. Debian's own Python has its headers in a package.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && { test -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" \
        || apt-get install --yes --no-install-recommends libpython3-dev; } \
    && rm -rf /var/lib/apt/lists/*
COPY requirements requirements
# Nothing comes in that has not one of the hashes there. What Weir is built with stays behind, in /opt/build, and pip too.
RUN extra="${EXTRAS#[}" && extra="${extra%]}" \
    && python3 -m venv --without-pip /opt/weir && python3 -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir \
        --require-hashes --requirement requirements/build.txt --requirement requirements/compile.txt \
    && /opt/build/bin/pip --python /opt/weir/bin/python3 install --no-cache-dir \
        --require-hashes --requirement "requirements/${extra:-runtime}.txt"
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --requirement requirements/sbom.txt
COPY pyproject.toml setup.py README.md LICENSE NOTICE ./
COPY deploy/weir_backend.py deploy/
COPY weir weir
COPY broker broker
COPY webui webui
COPY templates templates
COPY pipeline pipeline
RUN WEIR_COMPILED=1 /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/weir/bin/python3 install --no-cache-dir --no-deps --no-index dist/weir_broker-*.whl \
    && install --directory /opt/weir/share \
    && install --mode=0644 LICENSE NOTICE /opt/weir/share/ \
    && /opt/build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
        --output-file /opt/weir/share/weir.cdx.json /opt/weir/bin/python3

# Spark's jars, as pipeline/pom.xml names them, Weir's own classes, and those for a warehouse on S3.
FROM ${BASE} AS jars
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends maven openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
COPY pipeline/pom.xml /src/pom.xml
COPY pipeline/java /src/java
COPY pipeline/s3 /src/s3
RUN mvn --quiet --batch-mode -Dstyle.color=never --file /src/pom.xml dependency:copy-dependencies -DoutputDirectory=/jars \
    && mvn --quiet --batch-mode -Dstyle.color=never --file /src/s3/pom.xml -Djars=/jars/s3 package \
    && mvn --quiet --batch-mode -Dstyle.color=never --file /src/java/pom.xml -Djars=/jars/weir package \
    && rm -r /jars/s3/build /jars/weir/build

FROM build AS build-pipeline
# PySpark comes as source: it is built with the setuptools of requirements/build.txt, and with no other.
RUN /opt/build/bin/pip --python /opt/weir/bin/python3 install --no-cache-dir --require-hashes --requirement requirements/build.txt \
    && /opt/build/bin/pip --python /opt/weir/bin/python3 install --no-cache-dir --no-build-isolation \
        --require-hashes --requirement requirements/pipeline.txt \
    && /opt/build/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
        --output-file /opt/weir/share/weir.cdx.json /opt/weir/bin/python3

# `weir pipeline` with Spark, Java and the jars: `docker build --target pipeline -t weir-pipeline .`, then
# `docker run -v weir-tables:/var/lib/weir weir-pipeline run --continuous --bootstrap kafka.example:9092`.
FROM ${BASE} AS pipeline
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="weir-pipeline" \
    org.opencontainers.image.description="Tables of usage, latency and quota advice from Weir's events, on Spark" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE}"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 909 weir \
    && useradd --system --uid 909 --gid weir --home-dir /var/lib/weir --shell /usr/sbin/nologin weir \
    && install --directory --owner=weir --group=weir --mode=0750 /var/lib/weir
COPY --from=build-pipeline /opt/weir /opt/weir
COPY --from=jars /jars /opt/weir/jars
ENV PATH=/opt/weir/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    WEIR_PIPELINE_JARS=/opt/weir/jars \
    WEIR_PIPELINE_ALIVE=/tmp/weir-pipeline-alive
USER 909:909
WORKDIR /var/lib/weir
VOLUME /var/lib/weir
# `run` touches the file when it starts, and each time Spark has read all topics or found nothing new. The largest batch
# takes minutes, so only one that has hung is not done in 15 of them. Other commands have no such file, and are healthy.
HEALTHCHECK --interval=60s --timeout=5s --start-period=60s --retries=1 \
    CMD ["python3", "-c", "import os, sys, time; file = os.environ['WEIR_PIPELINE_ALIVE']; sys.exit(os.path.exists(file) and time.time() - os.path.getmtime(file) > 900)"]
# The one that it handles: as process 1 of a container it gets no other's default action.
STOPSIGNAL SIGINT
ENTRYPOINT ["weir", "pipeline"]

# What an image of the broker needs, and nothing else, in /root-of-image.
FROM build AS root
ARG SOURCE_DATE_EPOCH=315532800
COPY deploy/image/assemble.py /src/
RUN python3 /src/assemble.py /root-of-image /opt/weir

FROM scratch AS broker
ARG VERSION
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="weir" \
    org.opencontainers.image.description="A Kafka-wire broker that protects a shared cluster from its own tenants, and shows what it does" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE}"
COPY --from=root /root-of-image /
# COPY keeps owners and modes in some builders only. There is Python and a shell, and no other program.
RUN ["/opt/weir/bin/python3", "-c", "import os; os.chown('/var/lib/weir', 909, 909); os.chmod('/var/lib/weir', 0o750); os.chmod('/tmp', 0o1777)"]
# Inside a container the world is outside: every address is listened on, and clients come through a published port.
COPY deploy/image/server.properties /etc/weir/server.properties
ENV PATH=/opt/weir/bin:/usr/bin \
    PYTHONUNBUFFERED=1
USER 909:909
WORKDIR /var/lib/weir
VOLUME /var/lib/weir
EXPOSE 9092 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python3", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
# A SIGTERM that comes before the broker has its handler waits for it; the kernel would drop it for process 1.
ENTRYPOINT ["env", "--block-signal=TERM", "weir", "serve", "/etc/weir/server.properties"]
