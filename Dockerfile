# syntax=docker/dockerfile:1
# The service alone; docker-compose.yml puts MySQL, Redis and a proxy beside it.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY . .
# The caches stay on the builder: a second build compiles only what changed.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --profile dist --locked --package seckill \
    && cp target/dist/seckill /seckill

FROM debian:bookworm-slim
# Migrations are inside the binary; the shop's files are not.
WORKDIR /app
COPY --from=build /seckill /usr/local/bin/seckill
COPY deploy/healthcheck /usr/local/bin/healthcheck
COPY static ./static
# No account of the machine: nothing in the image belongs to it, nothing can be changed by it.
USER 10001:10001
# Inside a container loopback reaches nobody.
ENV SECKILL_HTTP_ADDR=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 CMD ["healthcheck"]
# SIGTERM drains for up to ten seconds; give `docker stop` more than that.
STOPSIGNAL SIGTERM
ENTRYPOINT ["seckill"]
CMD ["serve"]
