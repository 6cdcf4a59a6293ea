"""Texts by name, with an empty text for a name without one: templates ask for each field of a form."""


class TextByName(dict[str, str]):
    """Texts or faults of a form."""

    def __missing__(self, _name: str) -> str:
        return ""
