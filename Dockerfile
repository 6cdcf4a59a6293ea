# One image for web, worker, scheduler and migrations; the command chooses.
# docs/how-to/deployment.md says where it was built and run. The base image is pinned by its digest, all packages by the
# hashes in requirements.lock: to update either is a commit. The registry could not be asked for the digest; several
# public projects record it as the digest of the tag (2026-09), and a wrong digest fails the build:
# `docker buildx imagetools inspect python:3.12.14-slim-bookworm` prints today's digest.
ARG PYTHON=python:3.12.14-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254

FROM ${PYTHON} AS build
WORKDIR /src
# setuptools comes with the lock and builds the project; nothing needs it at run time.
COPY requirements.lock ./
RUN python -m venv /opt/te \
 && /opt/te/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY app app
COPY actors actors
COPY brokers brokers
COPY schema schema
RUN /opt/te/bin/pip install --no-cache-dir --no-index --no-deps --no-build-isolation . \
 && /opt/te/bin/pip uninstall --yes setuptools pip

FROM ${PYTHON}
# Nothing is written below /: run it with a read-only root file system. gunicorn's heartbeat file is in /dev/shm.
ENV PATH=/opt/te/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin --uid 10001 te
COPY --from=build /opt/te /opt/te
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /opt/te
EXPOSE 8080
# Of the command below: answers 200 while the database can be reached and is migrated. Whoever runs another command
# replaces it, as docker-compose.yml does.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", "\
from http.client import HTTPConnection;\
web = HTTPConnection('127.0.0.1', 8080, timeout=4);\
web.request('GET', '/health/ready');\
exit(web.getresponse().status != 200)"]
# The shell form of the Procfile's `web`; no shell, so that TERM reaches gunicorn.
CMD ["gunicorn", "--config", "python:app.web.gunicorn_config", "app:create_app()"]
