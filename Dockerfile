# One image for web, worker, scheduler and migrations; the command chooses.
# Not run on the machine this was written on (it has no Docker engine). The base image is pinned by its digest, what is
# installed by the hashes in requirements.lock: to update either is a commit.
ARG PYTHON=python:3.12.12-slim-bookworm@sha256:593bd06efe90efa80dc4eee3948be7c0fde4134606dd40d8dd8dbcade98e669c

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml setup.cfg requirements.lock README.md LICENSE ./
COPY app app
COPY actors actors
COPY brokers brokers
COPY schema schema
# setuptools comes with the lock and builds the project; nothing needs it at run time.
RUN python -m venv /opt/te \
 && /opt/te/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
 && /opt/te/bin/pip install --no-cache-dir --no-index --no-deps --no-build-isolation . \
 && /opt/te/bin/pip uninstall --yes setuptools

FROM ${PYTHON}
ENV PATH=/opt/te/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 10001 te
COPY --from=build /opt/te /opt/te
USER te
WORKDIR /home/te
EXPOSE 8080
# The shell form of the Procfile's `web`; exec so that TERM reaches gunicorn.
CMD ["gunicorn", "--config", "python:app.api.server", "app:create_app()"]
