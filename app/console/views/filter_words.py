"""A filter in words. Pure."""


def filter_words(name: str, value: str) -> str:
    """Return the name and the value of a filter; of ids their number, because nobody reads fifty of them."""
    if name in {"execution_id", "letter_id"}:
        return f"{len(value.split(',')):,} chosen" if value else "nothing chosen"
    return f"{name.replace('_', ' ')} {value}"
