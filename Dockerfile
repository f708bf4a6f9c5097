# factord's images: docs/containers.md.
#   docker build -t factord .                    with the GPU engine, for H100, H200, B200 and B300; serves on the CPU without one
#   docker build -t factord:cpu --target cpu .   without it: smaller, and built sooner
ARG BASE=docker.io/library/debian:12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY tools/install tools/
RUN tools/install --build

FROM build AS build-cpu
COPY . .
RUN --mount=type=cache,target=/root/.cache/ccache \
    tools/build release -DFACTORD_BUILD_TESTS=OFF -DFACTORD_BUILD_BENCH=OFF -DFACTORD_CUDA=OFF factord factorctl \
 && deploy/pack build/release/bin/factord build/release/bin/factorctl

FROM ${BASE} AS runtime
# Numbers, so that Kubernetes can tell that it is not root.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin factord
USER 10001:10001
WORKDIR /
EXPOSE 50051 9464
# factord handles it itself, also as process 1.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/factord", "--probe=127.0.0.1:50051"]
ENTRYPOINT ["/usr/local/bin/factord"]
# All of the container's addresses: its loopback, factord's default, is reached by nobody outside. What is published of it is
# decided by `docker run -p`, or by a Service.
CMD ["--listen=0.0.0.0:50051", "--metrics_listen=0.0.0.0:9464"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="factord" \
      org.opencontainers.image.description="Batched matrix factorization as a service, over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM runtime AS cpu
USER root
RUN --mount=type=bind,from=build-cpu,source=/packed,target=/packed /packed/install_runtime
USER 10001:10001

FROM build AS build-cuda
# Where pip finds packages, and whom it trusts, if not PyPI and the usual authorities.
ARG PIP_INDEX_URL
ARG PIP_CERT
RUN tools/install --build-cuda
COPY . .
RUN --mount=type=cache,target=/root/.cache/ccache \
    tools/build gpu -DFACTORD_BUILD_TESTS=OFF -DFACTORD_BUILD_BENCH=OFF factord factorctl \
 && for chip in sm_90a sm_100a; do build/cuda/bin/cuobjdump --list-elf build/gpu/bin/factord | grep -q "\.$chip\." || exit 1; done \
 && deploy/pack build/gpu/bin/factord build/gpu/bin/factorctl

FROM runtime AS cuda
# What the NVIDIA container runtime puts into the container: all GPUs that it is given, and the driver's libcuda and nvidia-smi.
# CUDA's own runtime is inside the binary.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER root
RUN --mount=type=bind,from=build-cuda,source=/packed,target=/packed /packed/install_runtime
USER 10001:10001
