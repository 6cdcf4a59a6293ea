"""Bounds of the definition of an inline endpoint, for the catalog and the SQL function `te_send`.

The patterns mean the same to PostgreSQL.
"""

import re

INLINE_PREFIX = "inline-"  # reserved: clients cannot register such a name, but may have done so before it was reserved
INLINE_NAME = re.compile(rf"^{INLINE_PREFIX}[0-9a-f]{{32}}$")

MAX_DEFINITION = 16_384  # characters as JSON
MAX_URL = 8192
USER_IN_URL = re.compile(r"^[A-Za-z]+://[^/?#]*@")
MAX_TIMEOUT_MS = 24 * 3600 * 1000

HEADER_NAME = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
# Headers of the service, of the connection, and headers that allow request smuggling.
RESERVED_HEADER = re.compile(
    r"^(?:idempotency-key|trace(?:parent|state)|x-task-executor-.*|host|connection|content-length|transfer-encoding"
    r"|te|trailer|upgrade|expect|keep-alive|proxy-connection|webhook-(?:id|timestamp|signature))$"
)
# A header with one of these names holds a secret, and everyone with the scope `read` sees the headers of an endpoint.
SECRET_HEADER = re.compile(r"^cookie$|auth|api[-_]?key|secret|token|passw", re.IGNORECASE)
CREDENTIALS = re.compile(r"^\s*(?:bearer|basic)\s", re.IGNORECASE)  # as the value of any header

# A retry policy.
MAX_ATTEMPTS = 100
MAX_RETRY_DELAY_MS = 24 * 3600 * 1000
MAX_AGE_MS = 30 * MAX_RETRY_DELAY_MS
MAX_RETRY_DELAYS = 100
MAX_MATCHERS = 100
MAX_MATCHED_VALUES = 100
MAX_MATCHED_CHARACTERS = 200  # of a pointer, and of a text to compare with
JSON_POINTER = re.compile(r"^(?:/(?:[^~/]|~[01])*)*$")
MATCHER = re.compile(
    r"^(?:[1-5]xx|HTTP_ERROR|TIMEOUT|CONNECTION_ERROR|BROKER_ERROR|STREAM_ERROR|NOTIFICATION_ERROR|INTERNAL_ERROR"
    r"|WORKFLOW_FAILED|PROCESS_LOST|WORKER_LOST|STUCK)$"
)
