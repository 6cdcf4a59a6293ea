# One image for web, worker, scheduler and migrations; the command chooses.
# Not run on the machine this was written on (it has no Docker engine).
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml setup.cfg constraints.txt README.md LICENSE ./
COPY app app
COPY actors actors
COPY brokers brokers
COPY schema schema
RUN python -m venv /opt/te && /opt/te/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.12-slim
ENV PATH=/opt/te/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 10001 te
COPY --from=build /opt/te /opt/te
USER te
WORKDIR /home/te
EXPOSE 8080
# The shell form of the Procfile's `web`; exec so that TERM reaches gunicorn.
CMD ["gunicorn", "--config", "python:app.api.server", "app:create_app()"]
