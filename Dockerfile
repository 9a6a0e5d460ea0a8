# The daemon in a container: `docker build -t supervisor .`, then mount /etc/supervisor-chatops (config.yaml, .env) and
# /var/lib/supervisor-chatops (the state folder). Workers run in the same container and end with it.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE manifest.yml ./
COPY supervisor_core supervisor_core
COPY bot bot
COPY docs/units docs/units
RUN python -m venv /opt/supervisor \
 && apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev \
 && /opt/supervisor/bin/python -m pip install --no-cache-dir --constraint constraints.txt '.[mysql,postgres,fleet,apprise,nats-server]'

FROM python:3.13-slim-bookworm
# git for changes of code; tini reaps what workers leave behind.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends git tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --create-home --home-dir /var/lib/supervisor-chatops watcher
COPY --from=build /opt/supervisor /opt/supervisor
ENV PATH=/opt/supervisor/bin:$PATH SUPERVISOR_CONFIG=/etc/supervisor-chatops/config.yaml
USER watcher
WORKDIR /var/lib/supervisor-chatops
VOLUME /var/lib/supervisor-chatops
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9464/readyz', timeout=4)"]
ENTRYPOINT ["tini", "--", "supervisor"]
CMD ["run", "--quiet"]
