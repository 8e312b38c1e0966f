# The whole project in a container, for those who prefer one:
#   docker build -t lean-ops . && docker run --rm -it lean-ops
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends make openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home lean-ops \
    && install --directory --owner=lean-ops --group=lean-ops /home/lean-ops/project

USER lean-ops
WORKDIR /home/lean-ops/project

# Set-up depends on these files alone, so that a change of code does not repeat it.
COPY --chown=lean-ops:lean-ops pyproject.toml Makefile LICENSE README.md ./
COPY --chown=lean-ops:lean-ops scripts scripts
COPY --chown=lean-ops:lean-ops locks locks
RUN UV_NO_CACHE=1 make setup

COPY --chown=lean-ops:lean-ops . .

CMD ["make", "demo"]
