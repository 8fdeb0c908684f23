# syntax=docker/dockerfile:1
# The service alone; docker-compose.yml puts MySQL, Redis and a proxy beside it. Two images:
#
#   docker build -t seckill .                       the service
#   docker build -t seckill-demo --target demo .    MariaDB, Redis and the service, for a look at it:
#   docker run --rm -p 127.0.0.1:8080:8080 seckill-demo

# Versions are named here; a release pins their digests: --build-arg RUST_IMAGE=rust@sha256:...
ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${RUST_IMAGE} AS tools
# The program carries the list of its dependencies: `cargo audit bin seckill` reads it.
RUN cargo install --locked --version 0.7.7 cargo-auditable && rustup component add llvm-tools

FROM tools AS build
WORKDIR /build
COPY . .
# It builds with counters, sells for two minutes with a MariaDB and a Redis of this stage, and builds again by what was
# counted. With --build-arg PROFILE=scripts/FILE it builds once, by a recorded profile that was copied there.
ARG PROFILE=
# The caches stay on the builder: a second build compiles only what changed. Only the program leaves this stage.
# hadolint ignore=DL3009
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    apt-get update \
    && BUILD='cargo auditable build' scripts/guided-build ${PROFILE} \
    && cp target/guided/seckill /seckill \
    && cp "${PROFILE:-target/guided/seckill.profdata}" /seckill.profdata

# The same with private servers, by the profile that the first build recorded.
FROM build AS build-demo
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    BUILD='cargo auditable build' FEATURES=archive scripts/guided-build /seckill.profdata \
    && cp target/guided/seckill /seckill

FROM ${BASE_IMAGE} AS demo
LABEL org.opencontainers.image.title="Seckill, a demonstration" \
      org.opencontainers.image.description="A flash sale with its MariaDB and Redis, and accounts with public passwords" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY scripts/install-packages /tmp/install-packages
RUN apt-get update \
    && /tmp/install-packages run \
    && rm -rf /tmp/install-packages /var/lib/apt/lists/* \
    && install -d -o 10001 -g 10001 /data
COPY --from=build-demo /seckill /usr/local/bin/seckill
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
WORKDIR /app
# MariaDB and Redis, too, run as this user.
USER 10001:10001
ENV SECKILL_HTTP_ADDR=0.0.0.0:8080 SECKILL_DATA_DIR=/data
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["seckill", "healthcheck"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["seckill"]
CMD ["dev", "--public-demo-accounts"]

FROM ${BASE_IMAGE} AS service
LABEL org.opencontainers.image.title="Seckill" \
      org.opencontainers.image.description="A flash sale that sells the last unit once" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# Migrations and the shop's pages are inside the program.
WORKDIR /app
COPY --from=build /seckill /usr/local/bin/seckill
# The authorities of other systems, which the base image lacks: without them no address with https is reached.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
# No account of the machine: nothing in the image belongs to it, nothing can be changed by it.
USER 10001:10001
# Inside a container loopback reaches nobody.
ENV SECKILL_HTTP_ADDR=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 CMD ["seckill", "healthcheck"]
# SIGTERM drains for up to ten seconds; give `docker stop` more than that.
STOPSIGNAL SIGTERM
ENTRYPOINT ["seckill"]
CMD ["serve"]
