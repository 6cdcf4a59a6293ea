"""Names of inline endpoints."""

from schema.inline_bounds import INLINE_NAME, INLINE_PREFIX

# Condition on a row `e` of `endpoints`: LIKE dismisses most names at once, the pattern decides.
IS_INLINE = f"e.name LIKE '{INLINE_PREFIX}%' AND e.name ~ '{INLINE_NAME.pattern}'"


def is_inline(name: str) -> bool:
    return INLINE_NAME.fullmatch(name) is not None
