"""Bounds of a new job, for the API's request schemas, its fast path and the SQL function `te_enqueue`."""

import re
import sys
from datetime import UTC, datetime

MAX_NAME = 128  # of an endpoint and of all other named rows of the catalog
MAX_IDEMPOTENCY_KEY = 255
# Begins the keys of jobs that the service itself creates, so that no client can take such a key.
OWN_KEY_PREFIX = "te:"
MAX_JOB_NAME = 200
MAX_PRIORITY = 255
MAX_LIMIT_KEY = 100  # characters of the value; a digest replaces a longer one
EARLIEST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_INSTANT = datetime(2200, 1, 1, tzinfo=UTC)
MAX_DELAY_DAYS = 3_650
MAX_DELAY_MS = MAX_DELAY_DAYS * 86_400_000

# The default of TE_MAX_BODY_BYTES: `te_enqueue` cannot read the setting.
MAX_INPUT_BYTES = 1_048_576
# Levels of a request body. The body is the first level, so an input in it has one level less.
MAX_JSON_DEPTH = 100
MAX_NUMBER = sys.float_info.max

# The patterns mean the same to PostgreSQL. Python has to use `fullmatch`: its `$` also matches before a last line feed.
QUEUE_NAME = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
NAME_PATTERN = re.compile(r"^[a-z0-9*?_-]{1,128}$")  # of names of endpoints: `*` for any characters, `?` for one
ACTOR_QUEUE_PATTERN = re.compile(r"^[A-Za-z0-9._*?-]{1,128}$")  # of queues of Dramatiq

# Labels have the alphabet and the lengths of Kubernetes.
MAX_LABELS = 32
MAX_LABEL_PREFIX = 253
MAX_LABEL_PART = 63
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DNS = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
LABEL_KEY = re.compile(rf"^(?:{_DNS}(?:[.]{_DNS})*/)?{_PART}$")
LABEL_VALUE = re.compile(rf"^(?:{_PART})?$")
