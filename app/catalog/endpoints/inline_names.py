"""Names of inline endpoints."""

import re

PREFIX = "inline-"  # reserved: clients cannot register such a name, but may have done so before it was reserved
PATTERN = f"^{PREFIX}[0-9a-f]{{32}}$"  # means the same in SQL

IS_INLINE = f"e.name LIKE '{PREFIX}%' AND e.name ~ '{PATTERN}'"  # condition on a row `e` of `endpoints`


def is_inline(name: str) -> bool:
    return re.search(PATTERN, name) is not None
