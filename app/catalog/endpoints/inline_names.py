"""Names of inline endpoints."""

PREFIX = "inline-"  # reserved: clients cannot register such a name


def is_inline(name: str) -> bool:
    return name.startswith(PREFIX)
