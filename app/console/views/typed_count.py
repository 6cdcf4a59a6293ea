"""Typed counts: a person confirms a large bulk operation by typing its number of rows. Pure."""

TYPED_FROM = 100


def is_typed(count: int, *, is_complete: bool) -> bool:
    """Return whether the number is typed; an unfinished count stands for any larger number."""
    return count >= TYPED_FROM or not is_complete
